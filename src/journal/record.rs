//! What the journal holds: closed words, ids, regions and times. Nothing of what a job contains, and no token.

use super::leases::Lease;
use crate::base::RegionId;

/// A longer id is not kept: no server makes one, and what is kept must have a bound.
pub const ID_BYTES_MAX: usize = 256;
/// Calls with the same id and body that lie further apart are about two jobs. Units: milliseconds.
const SAME_JOB_MS: u64 = 24 * 60 * 60 * 1_000;

/// What is known of an enqueue that may or may not have been stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody knows; it is asked about.
    Pending,
    /// The region has the job.
    Landed,
    /// The region has twice said that it does not have it, `failover.late_write_grace` after the connection ended.
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

/// Which of two copies was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The one that landed late, where it was sent first.
    Late,
    /// The one that went elsewhere.
    Elsewhere,
}

impl Cancelled {
    /// The word for it in the file.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Elsewhere => "elsewhere",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::Late, Self::Elsewhere].into_iter().find(|it| it.as_str() == word)
    }
}

/// An enqueue that may or may not have been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its number, in the order of recording; 0 until it is recorded.
    pub number: u64,
    /// The run of the program that recorded it; 0 until it is recorded.
    pub run: u64,
    /// The id that it was sent with; without one nobody can ask.
    pub job_id: Option<String>,
    /// The id that its key was sent with last, where that is another one.
    pub known_as: Option<String>,
    /// Of the tenant whose job it is: another one's job may have the same id.
    pub tenant: Digest,
    /// Of the client's body: another body under the same id is another job.
    pub body: Digest,
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
    /// Whether its absence was proved within its call: only a write later than anybody expects can still come.
    pub proved: bool,
    /// What is known of it.
    pub state: State,
    /// Where it is being sent after it had been sent here; what came of that is not known.
    pub going: Option<Place>,
    /// Where it was stored after it had been sent here, by the word of the region.
    pub elsewhere: Option<Place>,
    /// The copy that was cancelled; while it is pending, the one that was told to be.
    pub cancelled: Option<Cancelled>,
    /// When it was cleared up. Units: milliseconds since the Unix epoch.
    pub resolved_ms: Option<u64>,
}

impl Unknown {
    /// It is known now, or not asked about any more.
    pub const fn resolve(&mut self, state: State, now_ms: u64) {
        (self.state, self.resolved_ms) = (state, Some(now_ms));
    }

    /// Its absence was proved, and nothing else of its call is in doubt: a late copy is all that can still come, and it keeps nobody
    /// waiting.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.proved && self.going.is_none()
    }

    /// As [`Unknown::is_settled`], and it was stored nowhere else.
    #[must_use]
    pub const fn is_only_watched(&self) -> bool {
        self.is_settled() && self.elsewhere.is_none()
    }

    /// Where it was sent.
    #[must_use]
    pub fn sent_to(&self) -> Option<Place> {
        self.job_id.clone().map(|job_id| Place { region: self.region.clone(), job_id })
    }

    /// The copy that was told to go, whatever is known to have come of that.
    #[must_use]
    pub fn told(&self) -> Option<Place> {
        match self.cancelled? {
            Cancelled::Late => self.sent_to(),
            Cancelled::Elsewhere => self.elsewhere.clone().or_else(|| self.going.clone()),
        }
    }

    /// The copy that was told to go and is known to have gone.
    #[must_use]
    pub fn gone(&self) -> Option<Place> {
        self.told().filter(|_| self.state == State::Landed)
    }

    /// Whether both speak of one job: under the same id a client may send another one, or the same one again on another day.
    #[must_use]
    pub fn is_of_job_of(&self, other: &Self) -> bool {
        self.tenant == other.tenant && self.body == other.body && self.at_ms.abs_diff(other.at_ms) <= SAME_JOB_MS
    }

    /// Where the job is, by a region's word.
    #[must_use]
    pub fn stored_in(&self) -> Option<Place> {
        // One that was only told to go is there as far as anybody knows.
        let is_cancelled = |which| self.state == State::Landed && self.cancelled == Some(which);
        let elsewhere = self.elsewhere.clone().filter(|_| !is_cancelled(Cancelled::Elsewhere));
        let landed = matches!(self.state, State::Landed | State::Doubled) && !is_cancelled(Cancelled::Late);
        elsewhere.or_else(|| self.sent_to().filter(|_| landed))
    }

    /// The region in which a copy was cancelled.
    #[must_use]
    pub fn cancelled_in(&self) -> Option<&RegionId> {
        match self.cancelled.filter(|_| self.state == State::Landed)? {
            Cancelled::Late => Some(&self.region),
            Cancelled::Elsewhere => self.elsewhere.as_ref().map(|place| &place.region),
        }
    }

    /// Every id that it has been sent with, or is known by.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        let places = self.going.iter().chain(&self.elsewhere).map(|place| place.job_id.as_str());
        self.job_id.iter().chain(&self.known_as).map(String::as_str).chain(places)
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
    /// The run of the program that its job was sent in; 0 until it is recorded.
    pub run: u64,
    /// When it came. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The id that the job is sent with, or that the region answered.
    pub job_id: Option<String>,
    /// Whether a region's word depends on who asks, as in [`Unknown`].
    pub private: bool,
    /// The region that answered; none while nobody knows.
    pub region: Option<RegionId>,
    /// The status of the answer; 0 while its call is under way or has broken off.
    pub status: u16,
}

impl Keyed {
    /// Its call has ended, and nobody knew the outcome.
    pub const ENDED_UNKNOWN: u16 = 500;

    /// Its place in the order of forgetting: what nobody knows the outcome of goes last.
    pub(super) const fn order(&self) -> (bool, u64, Digest) {
        (self.region.is_none(), self.at_ms, self.key)
    }
}

/// One change for the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Unknown(Unknown),
    Keyed(Keyed),
    Lease(Lease),
    DropUnknown(u64),
    DropKeyed(Digest),
    DropLease(u64),
}
