//! The sidecars that hold calls of one fleet limit, places of a pool, or slots of a quota, and the share of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// More holders than sidecars that one hub serves.
const HOLDERS_MAX: usize = 20_000;
/// A sidecar asks again at least every ten seconds: one that has missed three times needs nothing. Units: milliseconds.
const NEEDS_FOR_MS: u64 = 30_000;
/// After a silence of all sidecars each has the time of a grant to ask again, and at least and at most so long: the longest wait between two tries to
/// connect is 15 s, and a hub without an answer in the list of a sidecar costs 10 s more. Units: milliseconds.
const RETURN_MS: (u64, u64) = (20_000, 60_000);
/// Clocks of two databases, or a request that was under way for long, differ by less. Units: milliseconds.
const MARGIN_MS: u64 = 5_000;

/// The request of one process for calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The name of the sidecar in the inventory, which has no space.
    pub sidecar: String,
    /// When its process started: a grant is of one process. Units: milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// Rises with each request of the process.
    pub sequence: u64,
    /// The most calls at once that it makes until there is another grant.
    pub holds: u64,
    /// Those of `holds` that were granted to this process: a further call may begin in the place of one that ends.
    pub granted: u64,
    /// The calls at once that its clients want.
    pub needs: u64,
    /// The calls at once that it would like to have.
    pub wants: u64,
    /// How long a call goes on at most. Units: milliseconds.
    pub longest_call_ms: u64,
    /// The jobs that its workers hold now, for people; 0 where the limit is of calls.
    pub held: u64,
}

impl Ask {
    /// The name of the process among the holders. A name of a sidecar has no space.
    fn process(&self) -> String {
        format!("{} {}", self.sidecar, self.started_unix_ms)
    }
}

/// The answer to a request for calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// So many calls at once.
    Calls(u64),
    /// A later request of the process came first, with this sequence.
    Late(u64),
    /// There are as many holders as may be.
    Full,
}

/// One holder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The name of the sidecar.
    pub sidecar: String,
    /// The most calls at once that it may make, as far as is known.
    pub calls: u64,
    /// The calls at once that its clients want.
    pub needs: u64,
    /// When its needs are forgotten. Units: milliseconds of the record's clock.
    pub needs_end_ms: u64,
    /// That of its last request.
    pub sequence: u64,
    /// When nothing of it is left. Units: milliseconds of the record's clock.
    pub ends_ms: u64,
    /// The jobs that its workers hold, by its last request.
    #[serde(default)]
    pub held: u64,
}

impl Holder {
    /// Its needs; none where it has not asked for long.
    fn needs_at(&self, now_ms: u64) -> u64 {
        if self.needs_end_ms > now_ms { self.needs } else { 0 }
    }
}

/// The most calls that each need is met up to, so that all of them together stay within the limit: a lower need leaves the rest to others.
fn level(limit: u64, mut needs: Vec<u64>) -> u64 {
    needs.sort_unstable();
    let mut left = limit;
    for (place, need) in needs.iter().enumerate() {
        let part = left / (needs.len() - place) as u64;
        if *need > part {
            return part.max(1);
        }
        left -= need;
    }
    limit
}

/// The holders of one limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Holders(BTreeMap<String, Holder>);

impl Holders {
    /// Drops the holders whose time is over.
    pub fn expire(&mut self, now_ms: u64) {
        self.0.retain(|_, it| it.ends_ms > now_ms);
    }

    /// Keeps the holders over a silence in which none of them has asked: no hub was reached, and jobs may have gone on by heartbeats. Each has time
    /// to ask again before others get its part.
    pub fn keep_over_silence(&mut self, ttl_ms: u64, now_ms: u64) {
        let last = self.0.values().map(|it| it.needs_end_ms.saturating_sub(NEEDS_FOR_MS)).max().unwrap_or(now_ms);
        let back_ms = ttl_ms.clamp(RETURN_MS.0, RETURN_MS.1);
        // Half of that, so that a hub that is lost again meanwhile leaves each its time.
        if now_ms.saturating_sub(last) > ttl_ms.min(back_ms) / 2 {
            let until = now_ms.saturating_add(back_ms);
            self.0.values_mut().for_each(|it| it.ends_ms = it.ends_ms.max(until));
        }
    }

    /// Divides the limit anew for requests: the calls of each are all that the process may make for `ttl_ms`, counted from before `now_ms`.
    /// The sum of all calls never rises above the limit by it. Where others lack calls that they are due, a holder gives back those beyond
    /// its own. Takes a step for each holder and one for each request.
    pub fn share(&mut self, limit: u64, ttl_ms: u64, asks: &[&Ask], now_ms: u64) -> Vec<Share> {
        asks.iter().for_each(|ask| self.note_needs(ask, now_ms));
        let level = level(limit, self.0.values().map(|it| it.needs_at(now_ms)).collect());
        let due = |it: &Holder| it.calls.max(it.needs_at(now_ms).min(level));
        let sum =
            |calls: &dyn Fn(&Holder) -> u64| self.0.values().fold(0, |sum: u64, it| sum.saturating_add(calls(it)));
        let mut sums = (sum(&|it| it.calls), sum(&due));
        let mut share = |ask: &&Ask| {
            let Some(holder) = self.0.get_mut(&ask.process()) else { return Share::Full };
            if holder.sequence >= ask.sequence {
                return Share::Late(holder.sequence);
            }
            let others = (sums.0.saturating_sub(holder.calls), sums.1.saturating_sub(due(holder)));
            let free = limit.saturating_sub(others.0);
            // Beyond its own part a holder gets the calls that no other one holds or is due.
            let most = ask.wants.min(limit.saturating_sub(others.1).max(ask.needs.min(level)));
            // Further calls come from the part of the limit that has no holder.
            let calls = most.min(ask.granted.max(free));
            holder.calls = calls.max(ask.holds);
            (holder.sequence, holder.held) = (ask.sequence, ask.held);
            holder.ends_ms =
                now_ms.saturating_add(ttl_ms).saturating_add(ask.longest_call_ms).saturating_add(MARGIN_MS);
            sums = (others.0.saturating_add(holder.calls), others.1.saturating_add(due(holder)));
            // A process that ends with nothing under way leaves nothing.
            if ask.wants == 0 && ask.holds == 0 {
                self.0.remove(&ask.process());
            }
            Share::Calls(calls)
        };
        asks.iter().map(&mut share).collect()
    }

    /// Notes the needs of a process, where its request is not late and there is room for it.
    fn note_needs(&mut self, ask: &Ask, now_ms: u64) {
        let process = ask.process();
        if !self.0.contains_key(&process) && self.0.len() >= HOLDERS_MAX {
            return;
        }
        let known =
            self.0.entry(process).or_insert_with(|| Holder { sidecar: ask.sidecar.clone(), ..Holder::default() });
        if ask.sequence > known.sequence {
            (known.needs, known.needs_end_ms) = (ask.needs, now_ms.saturating_add(NEEDS_FOR_MS));
        }
    }

    /// The holders, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.0.values()
    }

    /// The calls of all of them together.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.values().fold(0, |sum, it| sum.saturating_add(it.calls))
    }

    /// The jobs that workers of all of them hold, by their last requests.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.values().fold(0, |sum, it| sum.saturating_add(it.held))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
