//! The tokens of one quota, as the hub counts them: those that were taken, and the blocks of processes.
//!
//! A token of a block may be taken until the end of the block, so the block counts in every stretch of time that touches it. Tokens that were
//! taken count in the slot in which the hub has heard of it, which is late, never early.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rate::{HOUR, Rate, SLOT_MS};

/// More processes than one hub serves.
const HOLDERS_MAX: usize = 20_000;
/// How long a block lasts. A killed sidecar leaves its tokens unused for so long. Units: slots.
const BLOCK: u64 = 6;
/// A process that has not asked for so long has no share. Units: slots.
const ACTIVE: u64 = 12;
/// Later tokens of one process: it delays so many jobs between two requests.
pub const LATER_MAX: u64 = 64;
/// The latest slot of a later token; jobs beyond it are refused. Units: slots from now.
const HORIZON: u64 = 6 * HOUR;
/// Looks for the next slot with room; each begins behind a stretch that is full.
const STEPS_MAX: usize = 10_000;

/// The request of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockAsk {
    /// The name of the process.
    pub process: String,
    /// Rises with each request of the process.
    pub sequence: u64,
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
    /// The first slot behind its block.
    end: u64,
    /// Whether it lacks tokens that its jobs need.
    lacks: bool,
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

/// The tokens by their slots, for sums over stretches.
struct Sums {
    /// Slots with tokens in order, each with the sum of those before it.
    points: Vec<(u64, u64)>,
    total: u64,
    /// Ends of blocks in order, each with the sum of their tokens and those that end later.
    ends: Vec<(u64, u64)>,
}

impl Sums {
    fn before(&self, slot: u64) -> u64 {
        let place = self.points.partition_point(|(at, _)| *at < slot);
        self.points.get(place).map_or(self.total, |(_, before)| *before)
    }

    /// The tokens that may be taken from slot `from` to slot `to`, which is not over.
    fn within(&self, from: u64, to: u64) -> u64 {
        let place = self.ends.partition_point(|(end, _)| *end <= from);
        let open = self.ends.get(place).map_or(0, |(_, sum)| *sum);
        (self.before(to + 1) - self.before(from)).saturating_add(open)
    }

    /// Calls `each` for the narrowest stretches that touch the slots `first` to `last`, with the tokens in them, until it returns false.
    fn touching(&self, first: u64, last: u64, mut each: impl FnMut(u64, u64, u64) -> bool) {
        let begins =
            self.points.iter().map(|(at, _)| *at).chain(self.ends.iter().map(|(end, _)| end.saturating_sub(1)));
        for from in begins.chain([first, last]).filter(|from| *from <= last && from + HOUR >= first) {
            let reach = first.max(from);
            let later = self.points.iter().map(|(at, _)| *at).skip_while(|at| *at <= reach);
            for to in std::iter::once(reach).chain(later).take_while(|to| to - from <= HOUR) {
                if !each(from, to, self.within(from, to)) {
                    return;
                }
            }
        }
    }
}

impl Ledger {
    /// The slot of a time, and what has ended by then is forgotten.
    fn look(&mut self, now_ms: u64) -> u64 {
        self.seen = self.seen.max(now_ms / SLOT_MS);
        let (now, from) = (self.seen, self.seen.saturating_sub(HOUR));
        for holder in self.holders.values_mut() {
            let due = holder.later.keys().copied().take_while(|slot| *slot < now).collect::<Vec<_>>();
            for slot in due {
                // Whether a job has taken them is unknown where the process lives no more.
                *self.taken.entry(slot).or_default() += holder.later.remove(&slot).unwrap_or_default();
            }
        }
        self.taken = self.taken.split_off(&from);
        self.holders.retain(|_, it| it.end > from || it.asked > from || !it.later.is_empty());
        now
    }

    fn sums(&self, without: Option<&str>) -> Sums {
        let mut by_slot = self.taken.clone();
        let mut ends: Vec<(u64, u64)> = Vec::new();
        for (name, holder) in &self.holders {
            for (slot, tokens) in &holder.later {
                *by_slot.entry(*slot).or_default() += tokens;
            }
            if holder.tokens > 0 && without != Some(name) {
                ends.push((holder.end, holder.tokens));
            }
        }
        let mut total = 0;
        let mut points = Vec::with_capacity(by_slot.len());
        for (at, tokens) in by_slot.into_iter().filter(|(_, tokens)| *tokens > 0) {
            points.push((at, total));
            total += tokens;
        }
        ends.sort_unstable();
        let mut open = 0;
        for (_, tokens) in ends.iter_mut().rev() {
            open += *tokens;
            *tokens = open;
        }
        Sums { points, total, ends }
    }

    /// How many further tokens there may be in a block from slot `first` to slot `last`.
    fn room(sums: &Sums, rate: Rate, first: u64, last: u64) -> u64 {
        let mut room = rate.max_per_hour.min(rate.burst);
        sums.touching(first, last, |from, to, tokens| {
            if let Some(most) = rate.most_in(to - from + 1) {
                room = room.min(most.saturating_sub(tokens));
            }
            room > 0
        });
        room
    }

    /// The first slot from `from` on, within the horizon, with room for one more token.
    fn next(sums: &Sums, rate: Rate, now: u64, from: u64) -> Option<u64> {
        let mut slot = from;
        for _ in 0..STEPS_MAX {
            if slot > now + HORIZON {
                return None;
            }
            let mut behind = slot;
            sums.touching(slot, slot, |from, to, tokens| {
                if rate.most_in(to - from + 1).is_some_and(|most| tokens >= most) {
                    // Any slot of a full stretch is full, and a longer stretch has no fewer tokens.
                    behind = behind.max(if to > slot { to + 1 } else { from + rate.slots_for(tokens + 1) - 1 });
                }
                true
            });
            if behind == slot {
                return Some(slot);
            }
            slot = behind;
        }
        None
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
        let sums = self.sums(Some(&ask.process));
        let active = self.active(now).max(1);
        let is_pressed =
            self.holders.iter().any(|(name, it)| *name != ask.process && it.lacks && it.asked + ACTIVE > now);
        let end = now + BLOCK;
        let room = Self::room(&sums, rate, now, end - 1);
        let share = rate.burst.div_ceil(active);
        let Some(holder) = self.holders.get_mut(&ask.process) else { return Err(QuotaRefused::Full) };
        let left = holder.tokens;
        let mut further = 0;
        // A block that would be too much for a later time keeps its own end.
        if room >= left {
            let beyond = left + (room - left).div_ceil(2);
            let most = if ask.needs > share { share.max(beyond) } else { share };
            further = ask.wants.min(most).min(room).saturating_sub(left);
            (holder.tokens, holder.end) = (left + further, end);
        }
        holder.lacks = holder.tokens < ask.needs;
        let (ends_ms, has) = (holder.end * SLOT_MS, holder.later.values().sum::<u64>());
        let later = self.reserve(rate, ask, now, ask.wants_later.min(LATER_MAX).saturating_sub(has));
        let next_ms = Self::next(&self.sums(None), rate, now, now).map(|slot| slot * SLOT_MS);
        Ok(Block { further, ends_ms, later, next_ms, is_pressed })
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
        (holder.sequence, holder.asked) = (ask.sequence, now);
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
        for (&slot, &reserved) in before.iter().filter(|(slot, _)| **slot <= now) {
            *self.taken.entry(slot).or_default() += reserved;
        }
        // Those of a slot that has come are counted with it.
        for it in ask.later.iter().filter(|it| it.at_ms / SLOT_MS > now) {
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

    /// Reserves so many tokens for later, each as early as there is room behind the block.
    fn reserve(&mut self, rate: Rate, ask: &BlockAsk, now: u64, tokens: u64) -> Vec<(u64, u64)> {
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let mut from = now + 1;
        for _ in 0..tokens {
            let Some(slot) = Self::next(&self.sums(None), rate, now, from) else { break };
            from = slot;
            let Some(holder) = self.holders.get_mut(&ask.process) else { break };
            *holder.later.entry(slot).or_default() += 1;
            *found.entry(slot).or_default() += 1;
        }
        found.into_iter().map(|(slot, tokens)| (slot * SLOT_MS, tokens)).collect()
    }

    /// Its use at this time of the record's clock.
    #[must_use]
    pub fn shown(&self, rate: Rate, now_ms: u64) -> QuotaUse {
        let mut ledger = self.clone();
        let now = ledger.look(now_ms);
        let later = ledger.taken.range(now + 1..).map(|(_, tokens)| tokens).sum::<u64>();
        let reserved = ledger.holders.values().flat_map(|it| it.later.values()).sum::<u64>();
        let open = |it: &&Holder| it.end > now;
        // The tokens of a process that was not heard again may have been taken.
        let lost = ledger.holders.values().filter(|it| !open(it)).map(|it| it.tokens).sum::<u64>();
        QuotaUse {
            used: ledger.taken.range(..=now).map(|(_, tokens)| tokens).sum::<u64>() + lost,
            granted: ledger.holders.values().filter(open).map(|it| it.tokens).sum(),
            later: later + reserved,
            next_ms: Self::next(&ledger.sums(None), rate, now, now).map(|slot| slot * SLOT_MS),
            sidecars: ledger.active(now),
        }
    }
}
