//! Replays in a record: orders of operators to run jobs again, and the step of each job.

use super::replay::{OpenReplays, ReplayJob, ReplayStep, SavedReplay};
use super::{Kept, Record, RecordError, StepCount, postgres, sqlite};

impl Record {
    /// The replays that are under way, and the time at the record.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn open_replays(&self) -> Result<OpenReplays, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(sqlite::replay::open).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::open(line, settings)).await
            }
        }
    }

    /// The last replays that were ordered before a time, and of those of that time the ones before an id; the last one first.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn replays_before(
        &self,
        before: (u64, String),
        max: usize,
    ) -> Result<Vec<SavedReplay>, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::before(connection, &before, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::before(line, settings, &before, max)).await
            }
        }
    }

    /// One replay.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn replay(&self, id: &str) -> Result<Option<SavedReplay>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::one(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::one(line, settings, &id)).await
            }
        }
    }

    /// Keeps a new replay with its jobs, whole or not at all. Nothing is kept where its id is taken, or where as many are under way as may be.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn add_replay(
        &self,
        replay: SavedReplay,
        jobs: Vec<ReplayJob>,
    ) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::add(connection, &replay, &jobs)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::add(line, settings, &replay, &jobs)).await
            }
        }
    }

    /// Keeps a replay that was made from its version.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn change_replay(&self, to: SavedReplay) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::change(connection, &to)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::change(line, settings, &to)).await
            }
        }
    }

    /// Jobs of a replay at some steps from a place on, at most so many, in the order of the replay.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn replay_jobs(
        &self,
        id: &str,
        steps: &'static [ReplayStep],
        from: u64,
        max: usize,
    ) -> Result<Vec<ReplayJob>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::jobs(connection, &id, steps, from, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::jobs(line, settings, &id, steps, from, max)).await
            }
        }
    }

    /// Jobs of a replay at a step, at most so many, those that were tried last behind all others.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn due_replay_jobs(
        &self,
        id: &str,
        step: ReplayStep,
        max: usize,
    ) -> Result<Vec<ReplayJob>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::due(connection, &id, step, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::due(line, settings, &id, step, max)).await
            }
        }
    }

    /// Moves a job of a replay from a step to that of `to`. `version`: only while the replay has this version. Returns whether it was moved.
    ///
    /// Errors: [`RecordError`]; it may have been moved.
    pub(in crate::hub) async fn advance_replay_job(
        &self,
        id: &str,
        from: ReplayStep,
        to: ReplayJob,
        version: Option<u64>,
    ) -> Result<bool, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::replay::advance(connection, &id, from, &to, version)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::advance(line, settings, &id, from, &to, version)).await
            }
        }
    }

    /// Leaves all jobs that wait as they are, for a reason.
    ///
    /// Errors: [`RecordError`]; they may have been left, and a second time changes nothing.
    pub(in crate::hub) async fn stop_replay_jobs(&self, id: &str, why: &'static str) -> Result<(), RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::stop(connection, &id, why)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::stop(line, settings, &id, why)).await
            }
        }
    }

    /// The number of jobs of a replay at each step, by the reason.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn replay_counts(&self, id: &str) -> Result<Vec<StepCount>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::counts(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::counts(line, settings, &id)).await
            }
        }
    }

    /// Drops the replays that have ended and were ordered before a time, and the first ones beyond [`super::replay::KEPT_REPLAYS_MAX`], with their jobs.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_replays(&self, before_ms: u64) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::replay::prune(connection, before_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::replay::prune(line, settings, before_ms)).await
            }
        }
    }
}
