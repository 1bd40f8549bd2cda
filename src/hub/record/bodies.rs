//! The bodies of jobs in either record.

use super::Record;
use super::body::{BodiesBehind, BodiesEnd, BodiesLeft, PlacedBody, SavedBody};
use super::content::{IndexPlace, RecordError};

impl Record {
    /// Keeps the bodies of jobs from `origin` that have not ended, each once, and the place there up to which this record has them, where
    /// they come from another hub. Shape: each job and region once.
    ///
    /// Errors: [`RecordError`]; they may have been kept, and a second time changes nothing.
    pub(in crate::hub) async fn save_bodies(
        &self,
        origin: &str,
        bodies: Vec<SavedBody>,
        place: Option<IndexPlace>,
    ) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.save_bodies(origin, bodies, place).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.save_bodies(origin, &bodies, place.as_ref())).await,
        }
    }

    /// The bodies from `origin` behind a place, in order, without those of jobs that have ended.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn bodies_behind(
        &self,
        origin: &str,
        asked: BodiesBehind,
    ) -> Result<Vec<PlacedBody>, RecordError> {
        match self {
            Self::Sqlite(it) => it.bodies_behind(origin, asked).await,
            Self::Postgres(it) => Box::pin(it.bodies_behind(origin, &asked)).await,
        }
    }

    /// The body of a job that a region has; none where the job has ended, too.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn body(&self, job_id: String, region: String) -> Result<Option<SavedBody>, RecordError> {
        match self {
            Self::Sqlite(it) => it.body(job_id, region).await,
            Self::Postgres(it) => Box::pin(it.body(&job_id, &region)).await,
        }
    }

    /// The copies among these, each a job and its region, of which this record has the bytes.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn having_bodies(
        &self,
        copies: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, RecordError> {
        match self {
            Self::Sqlite(it) => it.having_bodies(copies).await,
            Self::Postgres(it) => Box::pin(it.having_bodies(&copies)).await,
        }
    }

    /// The place up to which this record has the bodies of another hub.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn bodies_place(&self, origin: &str) -> Result<IndexPlace, RecordError> {
        match self {
            Self::Sqlite(it) => it.bodies_place(origin).await,
            Self::Postgres(it) => Box::pin(it.bodies_place(origin)).await,
        }
    }

    /// The sealed word by which the key of the bodies is recognised; `sealed` is kept where there is none yet.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn bodies_key_check(&self, sealed: Vec<u8>) -> Result<Vec<u8>, RecordError> {
        match self {
            Self::Sqlite(it) => it.bodies_key_check(sealed).await,
            Self::Postgres(it) => Box::pin(it.bodies_key_check(&sealed)).await,
        }
    }

    /// Drops some of the bodies that are too old, and the oldest of those that are too many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_bodies(&self, end: BodiesEnd) -> Result<BodiesLeft, RecordError> {
        match self {
            Self::Sqlite(it) => it.prune_bodies(end).await,
            Self::Postgres(it) => Box::pin(it.prune_bodies(end)).await,
        }
    }
}
