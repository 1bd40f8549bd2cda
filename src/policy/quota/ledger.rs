//! The tokens of one quota, as the hub counts them: those that were taken, and the blocks of processes.
//!
//! A token of a block may be taken until the end of the block, so the block counts in every stretch of time that touches it. Tokens that were
//! taken count in the slot in which the hub has heard of it, which is late, never early.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rate::{HOUR, Rate, SLOT_MS};
use super::sums::{HORIZON, Sums};

/// More processes than one hub serves.
const HOLDERS_MAX: usize = 20_000;
/// How long a block lasts. A killed sidecar leaves its tokens unused for so long. Units: slots.
const BLOCK: u64 = 6;
/// A process that has not asked for so long has no share. Units: slots.
const ACTIVE: u64 = 12;
/// A process that has not asked for so long reports no later tokens of a slot that has come: a purse names them for a minute. Units: slots.
const HEARD: u64 = 8;
/// A process that lacked tokens counts as one that does for so long: two of the longest pauses between two requests. Units: slots.
const LACKS: u64 = 5;
/// Later tokens of one process: it delays so many jobs between two requests.
pub const LATER_MAX: u64 = 64;

/// The request of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockAsk {
    /// The name of the process.
    pub process: String,
    /// Rises with each request of the process.
    pub sequence: u64,
    /// The last sequence of which the answer was put in force; none where that is not known.
    pub answered: Option<u64>,
    /// The tokens of its block that it may still take.
    pub left: u64,
    /// Those that it takes no more, because its block has ended or others lack them.
    pub dropped: u64,
    /// The tokens that it would like to have in its block.
    pub wants: u64,
    /// The tokens that jobs have needed of late.
    pub needs: u64,
    /// Its later tokens.
    pub later: Vec<SpentLater>,
    /// The later tokens that it would like to have.
    pub wants_later: u64,
}

/// The later tokens of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpentLater {
    /// The beginning of the slot. Units: milliseconds of the record's clock.
    pub at_ms: u64,
    /// Those that jobs have taken since the last request.
    pub spent: u64,
    /// Those that are left.
    pub left: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Tokens beside those that were left.
    pub further: u64,
    /// When the block ends. Units: milliseconds of the record's clock.
    pub ends_ms: u64,
    /// Later tokens beside those that were left: the beginning of a slot, and how many.
    pub later: Vec<(u64, u64)>,
    /// When there is a token for one more job; none within the horizon. Units: milliseconds of the record's clock.
    pub next_ms: Option<u64>,
    /// Whether other processes lack tokens.
    pub is_pressed: bool,
}

/// Why a request gets no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaRefused {
    /// A later request of the process came first, with this sequence.
    Late(u64),
    /// There are as many processes as may be.
    Full,
}

/// The use of a quota, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaUse {
    /// Taken in the last hour.
    pub used: u64,
    /// In blocks that have not ended.
    pub granted: u64,
    /// For later times: reserved by sidecars, or taken by delayed jobs.
    pub later: u64,
    /// As [`Block::next_ms`].
    pub next_ms: Option<u64>,
    /// Processes that have asked of late.
    pub sidecars: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    sequence: u64,
    /// The slot of its last request.
    asked: u64,
    tokens: u64,
    /// Those of them that the last answer has granted.
    #[serde(default)]
    further: u64,
    /// The first slot behind its block.
    end: u64,
    /// The first slot in which it no more counts as one that lacks tokens for its jobs.
    #[serde(default)]
    lacks_until: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    later: BTreeMap<u64, u64>,
}

/// The tokens of one quota. Bound: a number for each slot of an hour and of the horizon, and as many processes as may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// The last slot that was seen: a clock that is set back takes no token twice.
    seen: u64,
    taken: BTreeMap<u64, u64>,
    holders: BTreeMap<String, Holder>,
}

impl Ledger {
    /// The slot of a time, and what has ended by then is forgotten.
    fn look(&mut self, now_ms: u64) -> u64 {
        let before = self.seen;
        self.seen = before.max(now_ms / SLOT_MS);
        let (now, from) = (self.seen, self.seen.saturating_sub(HOUR));
        // Nothing ends within a slot.
        if now == before {
            return now;
        }
        // Whether a job has taken them is unknown where the process lives no more; one that lives says so in its next request.
        for holder in self.holders.values_mut().filter(|it| it.asked + HEARD <= now) {
            let ahead = holder.later.split_off(&now);
            for (slot, tokens) in std::mem::replace(&mut holder.later, ahead) {
                *self.taken.entry(slot).or_default() += tokens;
            }
        }
        self.taken = self.taken.split_off(&from);
        self.holders.retain(|_, it| it.end > from || it.asked > from || !it.later.is_empty());
        now
    }

    /// All tokens from `now` on, but for the block of one process.
    fn sums(&self, rate: Rate, now: u64, without: Option<&str>) -> Sums {
        let mut sums = Sums::new(rate, now);
        self.taken.iter().for_each(|(slot, tokens)| sums.add(*slot, *tokens));
        for (name, holder) in &self.holders {
            holder.later.iter().for_each(|(slot, tokens)| sums.add(*slot, *tokens));
            if without != Some(name) {
                sums.add_block(holder.end, holder.tokens);
            }
        }
        sums
    }

    fn active(&self, now: u64) -> u64 {
        self.holders.values().filter(|it| it.asked + ACTIVE > now).count() as u64
    }

    /// Answers a request, at this time of the record's clock.
    ///
    /// Errors: [`QuotaRefused`]; nothing is granted.
    pub fn ask(&mut self, rate: Rate, ask: &BlockAsk, now_ms: u64) -> Result<Block, QuotaRefused> {
        let now = self.look(now_ms);
        self.settle(rate, ask, now)?;
        let mut sums = self.sums(rate, now, Some(&ask.process));
        let active = self.active(now).max(1);
        let is_pressed = self
            .holders
            .iter()
            .any(|(name, it)| *name != ask.process && it.lacks_until > now && it.asked + ACTIVE > now);
        let end = now + BLOCK;
        let room = sums.room(BLOCK);
        let Some(holder) = self.holders.get_mut(&ask.process) else { return Err(QuotaRefused::Full) };
        let left = holder.tokens;
        let mut further = 0;
        // A block that would be too much for a later time keeps its own end.
        if room >= left {
            let most = match ask.needs {
                0 if is_pressed => 0,
                0 => rate.burst / active,
                needs => {
                    let (share, beyond) = (rate.burst.div_ceil(active), left + (room - left).div_ceil(2));
                    if needs > share { share.max(beyond) } else { share }
                }
            };
            further = ask.wants.min(most).min(room).saturating_sub(left);
            (holder.tokens, holder.further, holder.end) = (left + further, further, end);
        }
        if holder.tokens < ask.needs {
            holder.lacks_until = now + LACKS;
        }
        sums.add_block(holder.end, holder.tokens);
        let has = holder.later.values().sum::<u64>();
        let wants_later = ask.wants_later.min(LATER_MAX).saturating_sub(has);
        let (found, next) = sums.reserve(wants_later);
        found.iter().for_each(|(slot, tokens)| *holder.later.entry(*slot).or_default() += tokens);
        let later = found.into_iter().map(|(slot, tokens)| (slot * SLOT_MS, tokens)).collect();
        let next_ms = next.map(|slot| slot * SLOT_MS);
        Ok(Block { further, ends_ms: holder.end * SLOT_MS, later, next_ms, is_pressed })
    }

    /// Takes note of the tokens that a process has taken, and of those that it has left.
    fn settle(&mut self, rate: Rate, ask: &BlockAsk, now: u64) -> Result<(), QuotaRefused> {
        let is_known = self.holders.contains_key(&ask.process);
        if !is_known && self.holders.len() >= HOLDERS_MAX {
            return Err(QuotaRefused::Full);
        }
        let holder = self.holders.entry(ask.process.clone()).or_default();
        if is_known && holder.sequence >= ask.sequence {
            return Err(QuotaRefused::Late(holder.sequence));
        }
        // No job can take a token of an answer that was lost, and that none will put in force.
        if ask.answered.is_some_and(|answered| answered < holder.sequence) {
            holder.tokens = holder.tokens.saturating_sub(holder.further);
        }
        (holder.sequence, holder.asked, holder.further) = (ask.sequence, now, 0);
        // A record that was lost knows fewer than there are.
        let left = ask.left.min(rate.burst);
        let used = holder.tokens.saturating_sub(left).saturating_sub(ask.dropped);
        let last = if holder.end == 0 { now } else { now.min(holder.end - 1) };
        if used > 0 {
            *self.taken.entry(last).or_default() += used;
        }
        if left > holder.tokens {
            holder.end = holder.end.max(now + BLOCK);
        }
        holder.tokens = left;
        let before = std::mem::take(&mut holder.later);
        for (&slot, &reserved) in before.range(..=now) {
            // Those that were left may have been taken while a slow request was under way.
            let rows = ask.later.iter().filter(|it| it.at_ms / SLOT_MS == slot);
            let spent = rows.map(|it| it.spent.saturating_add(it.left)).fold(0, u64::saturating_add).min(reserved);
            if spent > 0 {
                *self.taken.entry(slot).or_default() += spent;
            }
        }
        // Those of a slot that has come are counted above; none was granted beyond the horizon.
        for it in ask.later.iter().filter(|it| (now + 1..=now + HORIZON).contains(&(it.at_ms / SLOT_MS))) {
            let slot = it.at_ms / SLOT_MS;
            let left = it.left.min(before.get(&slot).copied().unwrap_or_default());
            if it.spent > 0 {
                *self.taken.entry(slot).or_default() += it.spent.min(LATER_MAX);
            }
            if left > 0 {
                holder.later.insert(slot, left);
            }
        }
        Ok(())
    }

    /// Its use at this time of the record's clock.
    #[must_use]
    pub fn shown(&self, rate: Rate, now_ms: u64) -> QuotaUse {
        let mut ledger = self.clone();
        let now = ledger.look(now_ms);
        let later = ledger.taken.range(now + 1..).map(|(_, tokens)| tokens).sum::<u64>();
        let all = || ledger.holders.values().flat_map(|it| &it.later);
        let reserved = all().filter(|(slot, _)| **slot > now).map(|(_, tokens)| tokens).sum::<u64>();
        // Their process has not said yet how many jobs have taken them.
        let come = all().filter(|(slot, _)| **slot <= now).map(|(_, tokens)| tokens).sum::<u64>();
        let open = |it: &&Holder| it.end > now;
        // The tokens of a process that was not heard again may have been taken.
        let lost = ledger.holders.values().filter(|it| !open(it)).map(|it| it.tokens).sum::<u64>();
        let next_ms = ledger.sums(rate, now, None).next().map(|slot| slot * SLOT_MS);
        QuotaUse {
            used: ledger.taken.range(..=now).map(|(_, tokens)| tokens).sum::<u64>() + lost + come,
            granted: ledger.holders.values().filter(open).map(|it| it.tokens).sum(),
            later: later + reserved,
            next_ms,
            sidecars: ledger.active(now),
        }
    }
}
