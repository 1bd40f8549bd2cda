//! The errors of the outage spool.

use super::ErrorDocument;
use crate::base::Reason;

impl ErrorDocument {
    /// 503: the job cannot be put behind those of its queue. `why` is a closed word. Units: `retry_after` in seconds.
    #[must_use]
    pub fn spool_behind(why: &'static str, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::SpoolBehind,
            retry_after,
            "jobs of this queue wait in the outage spool, or its content is not known yet, and this one cannot be put behind them; nothing was \
             stored, try again later",
        )
        .with("why", why)
    }

    /// 503: a call about a job that is, or may be, spooled cannot be answered now. `why` is a closed word. Units: `retry_after` in seconds.
    #[must_use]
    pub fn spool_busy(why: &'static str, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::SpoolBusy,
            retry_after,
            "the job is, or may be, in the outage spool, and the call about it cannot be answered now; nothing was changed, try again later",
        )
        .with("why", why)
    }

    /// 409: the job is set aside. `state` is a closed word.
    #[must_use]
    pub fn spool_aside(id: &str, state: &'static str) -> Self {
        Self::new(
            Reason::SpoolAside,
            "the job is set aside in the outage spool and will not be sent by itself; have an operator retry or discard it, or send a new job",
        )
        .with("job_id", id)
        .with("state", state)
    }

    /// 500: whether the outage spool has stored, or removed, the job is not known. No region has been sent it.
    #[must_use]
    pub fn spool_unknown(id: &str) -> Self {
        Self::new(
            Reason::OutcomeUnknown,
            "the outage spool did not confirm the change of this job in time: it may be in effect or not; look the job up before sending it again",
        )
        .with("job_id", id)
    }

    /// 503: another job with this id is in the outage spool. Units: `retry_after` in seconds.
    #[must_use]
    pub fn spooled_id_in_use(id: &str, retry_after: u64) -> Self {
        Self::unavailable(
            Reason::IdInUse,
            retry_after,
            "another job with this `id` is in the outage spool; nothing was sent: send this job again later, or under another `id`",
        )
        .with("job_id", id)
    }
}
