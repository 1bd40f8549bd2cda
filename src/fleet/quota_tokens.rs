//! The documents of quotas: those of the feed, and the requests for tokens with their answers.

use serde::{Deserialize, Serialize};

use crate::policy::{LATER_MAX, QUOTAS_MAX, Quota, SpentLater};

/// The value of the header of a feed where a sidecar wants the quotas that were put at the hub.
pub const WITH_QUOTAS: &str = "quotas";
/// Slots of later tokens in one request: each token may have its own, and so may those that were spent before.
const SLOTS_MAX: usize = 2 * LATER_MAX as usize;

/// An event `quotas` of a feed: all quotas that were put at the hub, at the beginning and after each change of them. Shape: JSON; a later hub
/// may add members.
#[derive(Debug, Serialize, Deserialize)]
pub struct FeedQuotas {
    /// In the order of the operator.
    pub quotas: Vec<Quota>,
}

/// The tokens of a sidecar in one quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaTokens {
    /// The name of the quota: its tenant, a tabulator, and its type.
    pub quota: String,
    /// Rises with each request of the process for this quota.
    pub sequence: u64,
    /// The last sequence of which the answer was put in force: the hub takes back the tokens of a later one. None where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    /// The tokens of its block that it may still take.
    pub left: u64,
    /// Those that it takes no more, because its block has ended or others lack them.
    #[serde(default)]
    pub dropped: u64,
    /// The tokens that it would like to have in its block.
    pub wants: u64,
    /// The tokens that jobs have needed of late.
    pub needs: u64,
    /// Its later tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<SpentLater>,
    /// The later tokens that it would like to have.
    #[serde(default)]
    pub wants_later: u64,
}

/// Tokens for one later time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterTokens {
    /// The time of their jobs. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The same, from the answer on. Units: milliseconds.
    pub in_ms: u64,
    /// How many.
    pub tokens: u64,
}

/// The answer about one quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum QuotaAnswer {
    /// Tokens for a time.
    Granted {
        /// The name of the quota.
        quota: String,
        /// Tokens beside those that were left.
        further: u64,
        /// How long all of them last, from the sending of the request on. Units: milliseconds.
        lasts_ms: u64,
        /// Tokens for later times, beside those that were left.
        #[serde(default)]
        later: Vec<LaterTokens>,
        /// When there is a token for one more job; none where that is in some hours. Units: milliseconds.
        next_ms: Option<u64>,
        /// Whether other sidecars lack tokens.
        is_pressed: bool,
    },
    /// A later request of the same process came first.
    Late {
        /// The name of the quota.
        quota: String,
        /// The sequence of the later request.
        sequence: u64,
    },
    /// The hub has no such quota.
    NoQuota {
        /// The name of the quota.
        quota: String,
    },
    /// The hub cannot grant tokens now; the last block holds until its time is over.
    Unavailable {
        /// The name of the quota.
        quota: String,
        /// Why, for the operator.
        cause: String,
    },
}

impl QuotaTokens {
    /// The first member of these that is not right, and the expected form.
    pub(super) fn mistake(all: &[Self]) -> Option<&'static str> {
        if all.len() > QUOTAS_MAX {
            return Some("`quotas`: expected at most 128 of them");
        }
        if all.iter().any(|it| it.later.len() > SLOTS_MAX) {
            return Some("`quotas.later`: expected at most 128 times");
        }
        let of_later = all.iter().flat_map(|it| &it.later).flat_map(|it| [it.at_ms, it.spent, it.left]);
        let numbers = all.iter().flat_map(|it| [it.sequence, it.left, it.dropped, it.wants, it.needs, it.wants_later]);
        let numbers = numbers.chain(all.iter().filter_map(|it| it.answered));
        let is_number = |number: u64| number < 1 << 53;
        (!numbers.chain(of_later).all(is_number)).then_some("`quotas`: expected numbers below 2^53")
    }
}
