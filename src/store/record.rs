//! What the journal holds: closed words, ids, regions and times. Nothing of what a job contains, and no token.

use crate::base::RegionId;

/// A longer id is not kept: no server makes one, and what is kept must have a bound.
pub const ID_BYTES_MAX: usize = 256;

/// What is known of an enqueue that may or may not have been stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody knows; it is asked about.
    Pending,
    /// The region has the job.
    Landed,
    /// The region does not have it, and cannot store it any more.
    Absent,
    /// It landed late after it had gone elsewhere, too, and both copies ran.
    Doubled,
    /// Nobody could tell for so long that it is not asked about any more.
    Expired,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Landed, Self::Absent, Self::Doubled, Self::Expired];

    /// The word for it, in the file and in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Landed => "landed",
            Self::Absent => "absent",
            Self::Doubled => "doubled",
            Self::Expired => "expired",
        }
    }

    /// The state with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Where a job is, and under which id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub region: RegionId,
    /// The job's id there.
    pub job_id: String,
}

/// An enqueue that may or may not have been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its number, in the order of recording; 0 until it is recorded.
    pub number: u64,
    /// The id that it was sent with; without one nobody can ask.
    pub job_id: Option<String>,
    /// Where it was sent.
    pub region: RegionId,
    /// The tracking id.
    pub federation_id: Option<String>,
    /// The id of the client's request.
    pub request_id: String,
    /// When it was sent. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Whether the connection that carried it has ended; after a timeout its absence is never proved.
    pub ended: bool,
    /// Whether the region's word depends on who asks: the call carried credentials or a tenant, which are not kept.
    pub private: bool,
    /// What is known of it.
    pub state: State,
    /// Where it went after it had been sent here.
    pub elsewhere: Option<Place>,
    /// The region in which a second copy was cancelled.
    pub cancelled_in: Option<RegionId>,
    /// When it was cleared up. Units: milliseconds since the Unix epoch.
    pub resolved_ms: Option<u64>,
}

impl Unknown {
    /// It is known now, or not asked about any more.
    pub const fn resolve(&mut self, state: State, now_ms: u64) {
        (self.state, self.resolved_ms) = (state, Some(now_ms));
    }
}

/// A fingerprint, so that neither key nor body is kept.
pub type Digest = [u8; 32];

/// A single enqueue with an `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    /// Of the key, and of the tenant that it belongs to.
    pub key: Digest,
    /// Of the body that came with it.
    pub body: Digest,
    /// When it came. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The id that the job was sent with, or that the region answered.
    pub job_id: Option<String>,
    /// The region that answered; none while nobody knows.
    pub region: Option<RegionId>,
    /// The status of the answer; 0 while nobody knows.
    pub status: u16,
}

/// One change for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Unknown(Unknown),
    Keyed(Keyed),
    DropUnknown(u64),
    DropKeyed(Digest),
}
