//! The content of a record, and its errors.

use std::sync::Arc;
use std::time::Duration;

use super::super::audit::Head;
use super::super::put_pools::PutPools;
use super::super::put_quotas::PutQuotas;
use super::super::registry::PutRegions;
use super::super::taken::Taken;
use super::postgres_error::PostgresError;
use crate::base::Moment;
use crate::replica::Change;
use crate::switch::{Switch, Switches, Version};

/// How long a reader waits for the record, and after which a hub whose record does not answer is not ready.
pub(in crate::hub) const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Why the record cannot be used, or a change was not kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be used, by SQLite's word.
    #[error("record.path: the file cannot be used: {0}")]
    Sqlite(rusqlite::Error),
    /// The database cannot be used or reached.
    #[error("record.postgres: {0}")]
    Postgres(#[from] PostgresError),
    /// Another process holds the file.
    #[error("record.path: another hub, or another program, has the file open; a file is that of one hub")]
    Held,
    /// The file belongs to something else.
    #[error("record.path: the file is not the record of a hub")]
    Foreign,
    /// A later version of the program has written it.
    #[error("record: a later version of this program has written it; run that version, or name another record")]
    Later,
    /// The thread of the record did not start.
    #[error("the thread of the record did not start: {0}")]
    Thread(std::io::Error),
    /// The record does not keep up.
    #[error("too many changes wait for the record; send the request again later")]
    Busy,
    /// An earlier version of the program, or none, has made the tables.
    #[error(
        "record: the tables are missing or of an earlier version; restart the hub, or run `ojs-sidecar hub --migrate`"
    )]
    Earlier,
    /// The database has an older state than the one that is known.
    #[error(
        "record: the database has an older state than this hub knows: is it a server that was replaced? Restart the hubs after a restore"
    )]
    Older,
    /// A connection did not answer, and the next one waits.
    #[error("the record did not answer, and is asked again within a minute")]
    Paused,
    /// The record does not answer.
    #[error("the record did not answer within {} s", ANSWER_WAIT.as_secs())]
    Slow,
    /// The connection was lost while a change was kept.
    #[error("the record was lost while it kept the change")]
    Unknown,
    /// Other hubs were first, several times.
    #[error("other hubs changed the record at the same time; send the request again")]
    Contended,
    /// As many keys as it may have.
    #[error(
        "the record has as many idempotency keys as it may, which are {KEYS_MAX}; lower `idempotency.ttl` of the sidecars"
    )]
    KeysFull,
    /// A content that this version of the program does not read.
    #[error("record: it has {0}; run that version of the program")]
    Content(&'static str),
    /// The thread of the record has ended, which is a defect.
    #[error("the thread of the record has ended; restart the hub")]
    Ended,
}

impl From<rusqlite::Error> for RecordError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // This process has one connection to the file.
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => Self::Held,
            _ => Self::Sqlite(error),
        }
    }
}

impl RecordError {
    /// Whether the configuration is at fault, so that trying again cannot help.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        match self {
            Self::Foreign | Self::Later => true,
            Self::Postgres(error) => error.is_of_configuration(),
            _ => false,
        }
    }

    /// Whether the request may have been carried out all the same.
    pub(super) fn leaves_open(&self) -> bool {
        match self {
            Self::Slow => true,
            Self::Postgres(error) => error.is_lost(),
            _ => false,
        }
    }

    /// Whether a further request on the same connection to a database cannot succeed.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Slow => true,
            Self::Postgres(error) => error.is_lost() || error.is_read_only(),
            _ => false,
        }
    }
}

/// A state of a record: the switches, the regions, and the end of the audit trail that led to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct State {
    pub(in crate::hub) version: Version,
    /// Those that were set at a hub of this record.
    pub(in crate::hub) switches: Switches,
    /// The isolations of hubs of other regions.
    pub(in crate::hub) taken: Taken,
    /// The regions that operators have put at a hub of this record.
    pub(in crate::hub) regions: Arc<PutRegions>,
    /// The pools of workers that operators have put at a hub of this record.
    pub(in crate::hub) pools: Arc<PutPools>,
    /// The quotas that operators have put at a hub of this record.
    pub(in crate::hub) quotas: Arc<PutQuotas>,
    pub(in crate::hub) head: Head,
}

impl State {
    /// The switches in force, as sidecars get them.
    pub(in crate::hub) fn in_force(&self) -> Switches {
        self.taken.joined(&self.switches)
    }

    /// Ends the switches whose time is over, and returns those that were in force.
    pub(in crate::hub) fn expire(&mut self, now: Moment) -> Vec<Switch> {
        [self.switches.expire(now), self.taken.expire(now)].concat()
    }

    /// When the first one ends.
    pub(in crate::hub) fn first_end(&self) -> Option<Moment> {
        self.switches.first_end().into_iter().chain(self.taken.first_end()).min()
    }

    /// Whether it has the same switches, regions, pools and quotas as another one.
    pub(in crate::hub) fn is_alike(&self, other: &Self) -> bool {
        let is_put = self.regions == other.regions && self.pools == other.pools && self.quotas == other.quotas;
        self.switches == other.switches && self.taken == other.taken && is_put
    }
}

/// The fate of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum Kept {
    /// It is durable.
    Kept,
    /// The record is at another state than the one that the change was made from, and has kept nothing.
    Behind,
}

/// A sidecar as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(in crate::hub) struct SavedSidecar {
    pub(in crate::hub) name: String,
    /// The name in its certificate.
    pub(in crate::hub) caller: String,
    /// Its last status, as JSON.
    pub(in crate::hub) status: String,
    /// When that came. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) seen_unix_ms: u64,
}

/// A report of a sidecar as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(in crate::hub) struct SavedReport {
    pub(in crate::hub) sidecar: String,
    /// The number of the outcome at its sidecar.
    pub(in crate::hub) number: u64,
    /// When the process of the sidecar started. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) started_unix_ms: u64,
    pub(in crate::hub) revision: u64,
    pub(in crate::hub) is_open: bool,
    pub(in crate::hub) state: String,
    /// The row of the sidecar, as JSON.
    pub(in crate::hub) document: String,
    /// Units: milliseconds since the Unix epoch.
    pub(in crate::hub) received_unix_ms: u64,
}

/// The reports that a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct OutcomeQuery {
    pub(in crate::hub) state: Option<&'static str>,
    pub(in crate::hub) sidecar: Option<String>,
    /// Only those with a mark below this.
    pub(in crate::hub) before: Option<u64>,
    pub(in crate::hub) max: usize,
}

/// Reports, the last received first, each with its mark; and the number of all by state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct Outcomes {
    pub(in crate::hub) rows: Vec<(u64, SavedReport)>,
    pub(in crate::hub) counts: Vec<(String, u64)>,
}

/// The holders of a fleet limit, as the record keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedLimit {
    /// The number of changes.
    pub(in crate::hub) version: u64,
    /// As JSON.
    pub(in crate::hub) holders: String,
    /// The time at the record, so that all hubs which share it have one clock. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) now_ms: u64,
}

/// The times before which reports are dropped. Units: milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) struct ReportsEnd {
    pub(in crate::hub) closed_before: u64,
    pub(in crate::hub) open_before: u64,
}

/// Reports in a record: a fleet in an outage has some thousands. Beyond, those received first are dropped.
pub(in crate::hub) const REPORTS_MAX: u64 = 100_000;

/// Keys in a record, of some 300 bytes each. Hubs that share it count once a minute, so that there may be as many more as come in one.
pub(in crate::hub) const KEYS_MAX: u64 = 2_000_000;
/// How far the sending of a claim may lie from its arrival: requests take seconds. Units: milliseconds.
pub(super) const CLAIM_AGE_MAX_MS: u64 = 30_000;
/// How long a key that was released is kept, so that a claim which was sent before does not take it. Longer than such a claim is taken at all.
/// Units: milliseconds.
pub(super) const RELEASED_FOR_MS: u64 = 2 * CLAIM_AGE_MAX_MS;

/// A claim of a key as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedKey {
    /// The fingerprint of the key.
    pub(in crate::hub) key: String,
    /// The fingerprint of the body.
    pub(in crate::hub) body: String,
    pub(in crate::hub) token: String,
    pub(in crate::hub) attempt: u32,
    pub(in crate::hub) sidecar: String,
    /// When the process of the sidecar started. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) started_unix_ms: u64,
    /// How long the key is to be kept. Units: milliseconds.
    pub(in crate::hub) ttl_ms: u64,
    /// When the claim was sent, or before, by the clock of the record; 0 where that is not known. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) sent_unix_ms: u64,
    /// The clock of the hub, by which SQLite goes; a database has one for all hubs. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) now_unix_ms: u64,
}

/// The decision about a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum ClaimedKey {
    /// The claim has the key.
    Taken,
    /// It was sent too long ago, or at an unknown time, and has taken nothing.
    Late {
        /// The time at the record. Units: milliseconds since the Unix epoch.
        now_unix_ms: u64,
    },
    /// Another claim has the key, or had it when this one was sent.
    Known(KnownKey),
}

/// A key that another claim has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct KnownKey {
    /// The fingerprint of its body; none where the key was released.
    pub(in crate::hub) body: Option<String>,
    /// How long ago it was claimed or released. Units: milliseconds.
    pub(in crate::hub) age_ms: u64,
    /// Status, region and id of the job, where it is stored.
    pub(in crate::hub) stored: Option<(u64, String, String)>,
}

/// Whether a claim was sent too long ago, or at a time that the clock of the record has not reached, as after it was set back.
pub(super) const fn is_late(sent_unix_ms: u64, now_unix_ms: u64) -> bool {
    sent_unix_ms.abs_diff(now_unix_ms) > CLAIM_AGE_MAX_MS
}

/// Facts that are dropped at a time, so that others can use the record in between.
pub(in crate::hub) const PRUNED_AT_ONCE: u64 = 5_000;

/// Facts that one look-up reads at most: a job with thousands of leases is shown in part.
pub(in crate::hub) const INDEX_ROWS_MAX: usize = 4_096;

/// The place of a fact in the order in which a record got them, and the name of the record: another one has other places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct IndexPlace {
    pub(in crate::hub) epoch: String,
    /// The transaction that has written it.
    pub(in crate::hub) written: u64,
    /// Its number.
    pub(in crate::hub) mark: u64,
}

/// A fact about a job as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct IndexedChange {
    pub(in crate::hub) change: Change,
    /// The transaction that has written it.
    pub(in crate::hub) written: u64,
    /// Its number.
    pub(in crate::hub) mark: u64,
    /// When the record got it. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) learned_ms: u64,
    /// Whether any fact about the copy says that it was replicated.
    pub(in crate::hub) is_replica: bool,
}

/// The jobs that a look-up is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum Wanted {
    /// All copies with this tracking id.
    Federation(String),
    /// All copies of this job.
    Job(String),
}

/// A promotion as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedPromotion {
    pub(in crate::hub) id: String,
    /// The number of changes; 0 for one that the record does not have yet.
    pub(in crate::hub) version: u64,
    /// As JSON.
    pub(in crate::hub) document: String,
    /// The lost region, of which no other promotion may be open; none where this one is over or a dry run.
    pub(in crate::hub) holds: Option<String>,
    /// Whether there is something left to do.
    pub(in crate::hub) is_open: bool,
    /// When it was ordered. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) began_ms: u64,
}

/// All promotions, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct Promotions {
    pub(in crate::hub) all: Vec<SavedPromotion>,
    /// The time at the record, so that all hubs which share it have one clock. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) now_ms: u64,
}

/// A job of a promotion as the record keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(in crate::hub) struct PromotionJob {
    pub(in crate::hub) job_id: String,
    /// Units: milliseconds since the Unix epoch.
    pub(in crate::hub) enqueued_ms: u64,
    /// The word of its step.
    pub(in crate::hub) step: String,
    /// The word of the reason, where it stays.
    pub(in crate::hub) why: Option<String>,
    /// The status of the answer, where a region has refused it; the id that it has there, where that is another one.
    pub(in crate::hub) detail: Option<String>,
    /// How often it may have been sent.
    pub(in crate::hub) sends: u64,
    /// When it came to this step, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) changed_ms: u64,
}

/// The number of jobs of a promotion at a step, for a reason.
pub(in crate::hub) type StepCount = (String, Option<String>, u64);

/// Some of the statuses that a record has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct Statuses {
    pub(in crate::hub) sidecars: Vec<SavedSidecar>,
    /// Where to begin the next time, so that no status is missed that is not committed yet.
    pub(in crate::hub) mark: u64,
    /// The place of the last one, where there may be more.
    pub(in crate::hub) last: Option<StatusPlace>,
}

/// The place of a status in the order in which they are read: the transaction that has written it, and the sidecar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct StatusPlace {
    pub(in crate::hub) written: u64,
    pub(in crate::hub) sidecar: String,
}
