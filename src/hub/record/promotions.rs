//! Promotions in a record: orders of operators to take over the jobs of a lost region, and the step of each job.

use super::{
    IndexedChange, JobStep, Kept, PromotionJob, Promotions, Record, RecordError, SavedPromotion, StepCount, postgres,
    sqlite,
};

impl Record {
    /// All promotions, and the time at the record.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn promotions(&self) -> Result<Promotions, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(sqlite::promotion::all).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::all(line, settings)).await
            }
        }
    }

    /// Keeps a promotion that was made from its version, or a new one with version 0. Nothing is kept where it has another version, or where
    /// another promotion holds its region.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn change_promotion(&self, to: SavedPromotion) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::promotion::change(connection, &to)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::change(line, settings, &to)).await
            }
        }
    }

    /// Keeps jobs of a promotion, but for those that it has already.
    ///
    /// Errors: [`RecordError`]; they may have been kept, and a second time changes nothing.
    pub(in crate::hub) async fn add_promotion_jobs(
        &self,
        id: &str,
        jobs: Vec<PromotionJob>,
    ) -> Result<(), RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::promotion::add(connection, &id, &jobs)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::add(line, settings, &id, &jobs)).await
            }
        }
    }

    /// Jobs of a promotion at some steps behind one, at most so many, the oldest first.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn promotion_jobs(
        &self,
        id: &str,
        steps: &'static [JobStep],
        after: (u64, String),
        max: usize,
    ) -> Result<Vec<PromotionJob>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::promotion::jobs(connection, &id, steps, &after, max)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::jobs(line, settings, &id, steps, &after, max)).await
            }
        }
    }

    /// Moves a job of a promotion from a step to that of `to`. `version`: only while the promotion has this version. Returns whether it
    /// was moved.
    ///
    /// Errors: [`RecordError`]; it may have been moved.
    pub(in crate::hub) async fn advance_promotion_job(
        &self,
        id: &str,
        from: JobStep,
        to: PromotionJob,
        version: Option<u64>,
    ) -> Result<bool, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::promotion::advance(connection, &id, from, &to, version)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::advance(line, settings, &id, from, &to, version)).await
            }
        }
    }

    /// Leaves all jobs that are only planned where they are, for a reason.
    ///
    /// Errors: [`RecordError`]; they may have been left, and a second time changes nothing.
    pub(in crate::hub) async fn leave_promotion_jobs(&self, id: &str, why: &'static str) -> Result<(), RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::promotion::leave(connection, &id, why)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::leave(line, settings, &id, why)).await
            }
        }
    }

    /// Plans the jobs again that were left for a reason.
    ///
    /// Errors: [`RecordError`]; they may have been planned, and a second time changes nothing.
    pub(in crate::hub) async fn restore_promotion_jobs(&self, id: &str, why: &'static str) -> Result<(), RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::promotion::restore(connection, &id, why)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::restore(line, settings, &id, why)).await
            }
        }
    }

    /// The number of jobs of a promotion at each step, by the reason.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn promotion_counts(&self, id: &str) -> Result<Vec<StepCount>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::promotion::counts(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::counts(line, settings, &id)).await
            }
        }
    }

    /// Drops the promotions that have ended and were ordered before a time, with their jobs.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_promotions(&self, before_ms: u64) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::promotion::prune(connection, before_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::prune(line, settings, before_ms)).await
            }
        }
    }

    /// The facts about jobs of a region before the id `before`, or from the greatest id on without one: job by job, the greatest id first. Reads
    /// at most so many facts of all regions. The second value is the id up to which all jobs were read; none behind the last one.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn jobs_before(
        &self,
        region: &str,
        before: Option<String>,
        facts_max: usize,
    ) -> Result<(Vec<IndexedChange>, Option<String>), RecordError> {
        let region = region.to_owned();
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::index::jobs_before(connection, &region, before.as_deref(), facts_max))
                    .await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::index::jobs_before(line, settings, &region, before.as_deref(), facts_max)).await
            }
        }
    }

    /// The facts about the next jobs of a region behind the job `after`, job by job in the order of their ids, at most so many jobs.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn jobs_of_region(
        &self,
        region: &str,
        after: &str,
        jobs_max: usize,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        let (region, after) = (region.to_owned(), after.to_owned());
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::promotion::jobs_of_region(connection, &region, &after, jobs_max)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::promotion::jobs_of_region(line, settings, &region, &after, jobs_max)).await
            }
        }
    }
}
