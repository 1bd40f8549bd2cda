//! The fate of one job: its copies, and its client's answer.

use serde::{Deserialize, Serialize};

use super::claim::KeyClaim;
use super::copy::{Absence, Copy, Fate, Place};
use super::hex::{self, Digest};
use super::remedy::{Remedy, remedy};
use super::told::Told;
use crate::base::Moment;
use crate::base::words;

/// The callers to which a region may show a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownTo {
    /// Every caller.
    Everybody,
    /// Those with its caller's credentials, where its region gets them.
    Credentials,
    /// Those of its tenant.
    Tenant,
}

/// The identity of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The tenant of the job: a job of another tenant may have the same id.
    #[serde(with = "hex")]
    pub tenant: Digest,
    /// Of the headers that identify the caller, keyed with the journal's secret.
    #[serde(with = "hex")]
    pub caller: Digest,
    /// The callers to which a region may show the job.
    pub shown_to: ShownTo,
    /// Of the client's body: another body under the same id or key is another job.
    #[serde(with = "hex")]
    pub body: Digest,
    /// Of the job's type, queue and arguments, where no tracking id was stamped by which it could be recognised.
    #[serde(serialize_with = "hex::serialize", deserialize_with = "hex::deserialize_any")]
    pub content: Option<Digest>,
    /// Of the `Idempotency-Key`, and of the tenant that it belongs to.
    #[serde(serialize_with = "hex::serialize", deserialize_with = "hex::deserialize_any")]
    pub key: Option<Digest>,
    /// The job's id where the client gave it; else each copy has one of ours.
    pub own_id: Option<String>,
    /// The id of the client's first request.
    pub request_id: String,
}

/// How a placement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// One copy is stored.
    Stored,
    /// No region has the job.
    Absent,
    /// More than one copy was handed to workers, or may have been.
    Doubled,
    /// The outcome stayed unknown for so long that no region is asked any more.
    Expired,
}

/// How and when a placement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Settled {
    /// How.
    pub how: Settlement,
    /// When.
    pub at: Moment,
}

words! {
    /// The state of a job in one word.
    State {
        /// Its call is under way.
        Open = "open",
        /// The outcome is unknown, and its client did not get a success.
        Unknown = "unknown",
        /// All is known that its client must know; a late copy is looked for, or one is being cancelled.
        Watched = "watched",
        /// One copy is stored.
        Stored = "stored",
        /// No region has it.
        Absent = "absent",
        /// More than one copy was handed to workers, or may have been.
        Doubled = "doubled",
        /// The outcome stayed unknown for a day.
        Expired = "expired",
    }
}

impl State {
    /// The state with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// One job's fate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Its number in the journal, in the order of recording; 0 until it is recorded.
    pub number: u64,
    /// The identity of the job.
    pub identity: Identity,
    /// When its first call came.
    pub at: Moment,
    /// The same by the wall clock, for people. Units: milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// Where it was sent, in order. Bounded by the regions and by the calls that repeat it.
    pub copies: Vec<Copy>,
    /// The last answer of its client.
    pub told: Told,
    /// How it ended; none while something is to be found out or done.
    pub settled: Option<Settled>,
    /// The claim of its key at the hub; boxed, because hardly any has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_claim: Option<Box<KeyClaim>>,
}

impl Placement {
    /// A job that was sent nowhere yet.
    #[must_use]
    pub const fn new(identity: Identity, now: Moment, unix_ms: u64) -> Self {
        Self {
            number: 0,
            identity,
            at: now,
            unix_ms,
            copies: Vec::new(),
            told: Told::Nothing,
            settled: None,
            key_claim: None,
        }
    }

    /// The state of the job.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.settled {
            Some(settled) => match settled.how {
                Settlement::Stored => State::Stored,
                Settlement::Absent => State::Absent,
                Settlement::Doubled => State::Doubled,
                Settlement::Expired => State::Expired,
            },
            None if self.is_at_rest() => {
                if self.stored().is_some() {
                    State::Stored
                } else {
                    State::Absent
                }
            }
            None => match self.told {
                Told::Nothing => State::Open,
                Told::Stored { .. } | Told::Refused => State::Watched,
                Told::Unknown | Told::BrokenOff if self.doubt().is_some() => State::Unknown,
                Told::Unknown | Told::BrokenOff => State::Watched,
            },
        }
    }

    /// A place that may hold the job; `None` where all places are known.
    #[must_use]
    pub fn doubt(&self) -> Option<&Place> {
        // A copy under cancellation counts when the client's answer was an unknown outcome.
        let may_go = |copy: &&Copy| self.told == Told::Unknown && matches!(copy.fate, Fate::Cancelling { .. });
        let alone = self.copies.iter().filter(|_| self.copies.len() == 1).find(may_go);
        self.copies.iter().find(|copy| copy.is_in_doubt()).or(alone).map(|copy| &copy.place)
    }

    /// A place in which no other job must come under the same id: it may hold this job, or a late copy of it will be
    /// cancelled there.
    #[must_use]
    pub fn claim(&self) -> Option<&Place> {
        let is_stored = matches!(self.told, Told::Stored { .. });
        let watched = self.copies.iter().filter(|_| is_stored && self.settled.is_none());
        let may_go = |copy: &&Copy| match copy.fate {
            Fate::Absent { by: Absence::Watched(_) } | Fate::Cancelling { .. } => true,
            Fate::Stored { .. } => self.stored() != Some(&copy.place),
            _ => false,
        };
        let mut watched = watched.filter(may_go);
        self.doubt().or_else(|| watched.next().map(|copy| &copy.place))
    }

    /// The place of the job, by its region's word: that of the copy that the client's answer named, while it is there.
    #[must_use]
    pub fn stored(&self) -> Option<&Place> {
        let told = match &self.told {
            Told::Stored { place, .. } => Some(place),
            _ => None,
        };
        let is_there = |copy: &&Copy| matches!(copy.fate, Fate::Stored { .. });
        let mut there = self.copies.iter().filter(is_there).map(|copy| &copy.place);
        let kept = there.clone().find(|place| Some(*place) == told);
        // A `unique` policy has answered with a job that is none of the copies.
        let elsewhere = told.filter(|told| self.copies.iter().all(|copy| copy.place != **told));
        kept.or(elsewhere).or_else(|| there.next())
    }

    /// Whether nothing more is to be found out or done about it.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let is_told = !matches!(self.told, Told::Nothing);
        let all_known = || self.copies.iter().all(Copy::is_final);
        self.settled.is_some() || (is_told && all_known() && remedy(&self.copies, &self.told) == Remedy::None)
    }

    /// Whether it has left anything behind that others must know of, beside a key.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        let is_told = |copy: &Copy| matches!(&self.told, Told::Stored { place, .. } if *place == copy.place);
        self.copies.iter().any(|copy| !(is_told(copy) && matches!(copy.fate, Fate::Stored { .. })))
    }

    /// Whether its outcome is unknown or watched, or was.
    #[must_use]
    pub fn has_outcome(&self) -> bool {
        self.settled.is_some() || (!matches!(self.told, Told::Nothing) && !self.is_at_rest())
    }

    /// Whether a region must not be sent the job under this id again, because a tombstone has it there.
    #[must_use]
    pub fn is_fenced(&self, place: &Place) -> bool {
        let is_taken = |copy: &Copy| matches!(copy.fate, Fate::Absent { by: Absence::Fenced | Absence::Buried });
        self.copies.iter().any(|copy| copy.place == *place && is_taken(copy))
    }

    /// The last moment that it speaks of.
    #[must_use]
    pub fn last_moment(&self) -> Moment {
        let sent = self.copies.iter().map(|copy| copy.sent);
        sent.chain(self.settled.map(|settled| settled.at)).fold(self.at, Moment::max)
    }

    /// Every id that it was sent with or is known by.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        let told = match &self.told {
            Told::Stored { place, .. } => Some(place.job_id.as_str()),
            _ => None,
        };
        let own = self.identity.own_id.as_deref();
        own.into_iter().chain(told).chain(self.copies.iter().map(|copy| copy.place.job_id.as_str()))
    }
}
