//! Where an enqueue has been, for as long as its call takes: its placement, which exists only where the job may be repeated or its answer
//! was lost.

use bytes::Bytes;
use http::HeaderValue;
use tokio::time::Instant;

use crate::journal::{Hold, ID_BYTES_MAX};
use crate::outcome::Copy;
use crate::proxy::body::{received::Received, shown_job::Expected};
use crate::spool::Taken;

/// Where an enqueue has been.
#[derive(Debug)]
pub(crate) struct SendHistory {
    /// Until when the whole call may take.
    pub(crate) until: Instant,
    /// The job's tracking id.
    pub(crate) federation_id: Option<HeaderValue>,
    /// Whether that is ours.
    pub(crate) stamped: bool,
    /// The body as the client sent it.
    pub(crate) received: Received,
    /// The evidence that a 2xx must show.
    pub(crate) expected: Expected,
    /// Whether it was sent to the same region twice.
    pub(crate) sent_again: bool,
    /// Whether it was sent to another region while the outcome in the earlier one was unknown.
    pub(crate) gone_on_unknown: bool,
    /// Whether it may be repeated, and its record is not on disk.
    pub(crate) volatile: bool,
    /// Its placement, held by this call.
    pub(crate) hold: Option<Box<Hold>>,
    /// Where it had been sent and proved to be absent, once the call has ended without a region that has it.
    pub(crate) left: Vec<Copy>,
    /// Its row in the outage spool, where it comes from there.
    pub(crate) spooled: Option<Box<Taken>>,
}

impl SendHistory {
    /// An enqueue that has been nowhere yet.
    pub(crate) const fn new(until: Instant, federation_id: Option<HeaderValue>) -> Self {
        Self {
            until,
            federation_id,
            stamped: false,
            received: Received::Held(Bytes::new(), Vec::new()),
            expected: Expected::Else,
            sent_again: false,
            gone_on_unknown: false,
            volatile: false,
            hold: None,
            left: Vec::new(),
            spooled: None,
        }
    }

    /// Whether the job's id is ours.
    pub(crate) const fn minted(&self) -> bool {
        matches!(self.expected, Expected::Job { minted: true, .. })
    }

    /// Whether a client may repeat the call under the same name: of this job, its key or its own id.
    pub(crate) fn is_named(&self) -> bool {
        let is_own = matches!(self.expected, Expected::Job { minted: false, .. });
        is_own || self.hold.as_ref().is_some_and(|hold| hold.placement().identity.key.is_some())
    }

    pub(crate) fn stamp(&self) -> Option<String> {
        let id = self.federation_id.as_ref()?.to_str().ok()?;
        (id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
    }
}
