//! The tokens of one quota at a sidecar: the block that its hub has granted, and tokens for later times.
//!
//! A job takes a token with one exchange of a word. The hub's part of the sidecar freezes the block for each request: tokens that are given back
//! across a request are not taken again, because the hub may have granted others for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use super::ledger::SpentLater;

/// A later token is for a job that reaches its region before its time. Clocks of regions may differ by less.
const LATER_MARGIN: Duration = Duration::from_secs(2);
/// Later tokens that were taken are named to the hub until it has answered, and for so long behind their time: then it has counted them.
const LATER_KEPT: Duration = Duration::from_secs(60);
const HALF: u64 = u32::MAX as u64;

/// A token that a job has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// One of the block, and the number of requests before it was taken.
    Now(u64),
    /// One for a later time, in milliseconds since the Unix epoch, and the same number.
    Later(u64, u64),
}

/// Tokens for one later time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    /// Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The same time by the clock of this process.
    pub at: Instant,
    /// How many are left.
    pub left: u64,
    /// How many were taken that no answered request has named.
    pub spent: u64,
    /// How many of those the last request has named.
    pub named: u64,
}

/// The jobs since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurseSeen {
    /// How many have taken a token of the block.
    pub taken: u64,
    /// How many have found none.
    pub lacked: u64,
    /// How many of these were refused.
    pub refused: u64,
}

/// The tokens of one quota; shared by all threads.
#[derive(Debug, Default)]
pub struct Purse {
    /// The number of requests in the upper half, the tokens that are left in the lower one.
    block: AtomicU64,
    ends: RwLock<Option<Instant>>,
    later: Mutex<Vec<Later>>,
    /// When there is a token for one more job, as far as is known.
    next: RwLock<Option<Instant>>,
    dropped: AtomicU64,
    taken: AtomicU64,
    lacked: AtomicU64,
    refused: AtomicU64,
    /// That of the last request.
    sequence: AtomicU64,
    /// Whether all jobs are refused, because no hub is reached.
    closed: AtomicBool,
    /// Whether its block is one that this sidecar has granted itself.
    is_own: AtomicBool,
}

impl Purse {
    /// Takes a token of the block.
    pub fn take(&self, now: Instant) -> Option<Token> {
        let is_open = !self.closed.load(Relaxed) && self.ends.read().is_some_and(|ends| ends > now);
        let take = |block: u64| (block & HALF > 0).then(|| block - 1);
        let taken = if is_open { self.block.fetch_update(AcqRel, Acquire, take).ok() } else { None };
        let seen = if taken.is_some() { &self.taken } else { &self.lacked };
        seen.fetch_add(1, Relaxed);
        taken.map(|before| Token::Now(before >> 32))
    }

    /// Takes the earliest token for a later time.
    pub fn take_later(&self, now: Instant) -> Option<Token> {
        if self.closed.load(Relaxed) {
            return None;
        }
        let mut later = self.later.lock();
        let found = later.iter_mut().filter(|it| it.left > 0 && it.at > now + LATER_MARGIN).min_by_key(|it| it.at)?;
        (found.left, found.spent) = (found.left - 1, found.spent + 1);
        Some(Token::Later(found.at_ms, self.requests()))
    }

    /// Gives a token back of a job that was not stored. One from before the last request stays taken.
    pub fn give_back(&self, token: Token) {
        match token {
            Token::Now(requests) => {
                let give = |block: u64| (block >> 32 == requests && block & HALF < HALF).then(|| block + 1);
                if self.block.fetch_update(AcqRel, Acquire, give).is_ok() {
                    // Its job needs none.
                    let _ = self.taken.fetch_update(AcqRel, Acquire, |taken| taken.checked_sub(1));
                }
            }
            Token::Later(at_ms, requests) => {
                let mut later = self.later.lock();
                if requests != self.requests() {
                    return;
                }
                if let Some(it) = later.iter_mut().find(|it| it.at_ms == at_ms && it.spent > 0) {
                    (it.left, it.spent) = (it.left + 1, it.spent - 1);
                }
            }
        }
    }

    fn requests(&self) -> u64 {
        self.block.load(Acquire) >> 32
    }

    /// Notes that a job was refused.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// The tokens of the block that are left.
    #[must_use]
    pub fn left(&self, now: Instant) -> u64 {
        let is_open = self.ends.read().is_some_and(|ends| ends > now);
        if is_open { self.block.load(Acquire) & HALF } else { 0 }
    }

    /// The later tokens that are left.
    #[cfg(test)]
    pub fn left_later(&self) -> u64 {
        self.later.lock().iter().map(|it| it.left).sum()
    }

    /// When there is a token for one more job, as far as is known.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        *self.next.read()
    }

    /// Whether a hub has answered a request.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.ends.read().is_some()
    }

    /// The jobs since the last look.
    pub fn seen(&self) -> PurseSeen {
        PurseSeen {
            taken: self.taken.swap(0, Relaxed),
            lacked: self.lacked.swap(0, Relaxed),
            refused: self.refused.swap(0, Relaxed),
        }
    }

    /// Freezes the block: the tokens that are left of it, of which it keeps at most `keep`, and those that it takes no more.
    pub fn freeze_block(&self, now: Instant, keep: u64) -> (u64, u64) {
        let keep = if self.left(now) == 0 { 0 } else { keep };
        let next = |block: u64| (((block >> 32) + 1) & HALF) << 32 | (block & HALF).min(keep);
        let before = self.block.update(AcqRel, Acquire, next) & HALF;
        (before.min(keep), self.dropped.swap(0, AcqRel) + before.saturating_sub(keep))
    }

    /// Begins a request: the tokens of the block that are left, of which it keeps at most `keep`, and those that it takes no more; and the
    /// later tokens, of which it keeps those that are not due, or none. A job that has taken one before is counted by now.
    pub fn freeze(&self, now: Instant, keep: u64, keeps_later: bool) -> (u64, u64, Vec<SpentLater>) {
        let mut later = self.later.lock();
        let (left, dropped) = self.freeze_block(now, keep);
        let spent = later.iter_mut().map(|it| {
            if !keeps_later || it.at <= now + LATER_MARGIN {
                it.left = 0;
            }
            it.named = it.spent;
            SpentLater { at_ms: it.at_ms, spent: it.spent, left: it.left }
        });
        let spent = spent.collect();
        later.retain(|it| it.left > 0 || (it.spent > 0 && it.at + LATER_KEPT > now));
        (left, dropped, spent)
    }

    /// Takes the answer to a request: further tokens of the block, its end, further tokens for later times, and when there is one for one more job.
    pub fn grant(&self, further: u64, ends: Instant, later: &[Later], next: Option<Instant>) {
        self.closed.store(false, Relaxed);
        *self.next.write() = next;
        *self.ends.write() = Some(ends);
        let add = |block: u64| (block >> 32) << 32 | (block & HALF).saturating_add(further).min(HALF);
        self.block.update(AcqRel, Acquire, add);
        let mut known = self.later.lock();
        for it in known.iter_mut() {
            it.spent -= std::mem::take(&mut it.named).min(it.spent);
        }
        known.retain(|it| it.left > 0 || it.spent > 0);
        for it in later {
            match known.iter_mut().find(|known| known.at_ms == it.at_ms) {
                Some(known) => known.left += it.left,
                None => known.push(*it),
            }
        }
    }

    /// Refuses all jobs from now on, until the next grant.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
        self.clear();
    }

    /// Leaves no token.
    pub fn clear(&self) {
        let empty = |block: u64| (((block >> 32) + 1) & HALF) << 32;
        let before = self.block.update(AcqRel, Acquire, empty) & HALF;
        self.dropped.fetch_add(before, AcqRel);
    }

    /// The next block is one that this sidecar grants itself.
    pub fn begin_own(&self) {
        self.is_own.store(true, Relaxed);
    }

    /// Leaves no token of a block that this sidecar has granted itself: its hub does not know of them.
    pub fn end_own(&self) {
        if self.is_own.swap(false, Relaxed) {
            self.clear();
            self.dropped.store(0, Relaxed);
        }
    }

    /// The number of the next request.
    pub fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) + 1
    }

    /// A later request has reached the hub.
    pub fn set_sequence(&self, sequence: u64) {
        self.sequence.fetch_max(sequence, Relaxed);
    }
}
