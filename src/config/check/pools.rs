//! Pools of workers.

use std::time::Duration;

use super::super::raw::RawPool;
use super::super::sections::Journal;
use super::super::types::{FleetPool, LimitWithoutHub, PoolConfig};
use super::collect::Check;
use crate::base::QueueOrder;
use crate::base::text::parse_duration;

/// Each has a row in the metrics, as has each of its queues.
pub(in crate::config) const POOLS_MAX: usize = 64;
/// Queues of all pools together.
pub(in crate::config) const QUEUES_MAX: usize = 256;
/// The longest lease where a pool of the fleet does not say: twice that of a FETCH which says none.
const LONGEST_LEASE: Duration = Duration::from_secs(60);

impl Check {
    /// `scheduling.pools`: each name once, and no queue in two isolated ones.
    pub(super) fn pools(&mut self, raw: Vec<Option<RawPool>>, journal: &Journal, has_hub: bool) -> Vec<PoolConfig> {
        const PATH: &str = "scheduling.pools";
        if raw.len() > POOLS_MAX {
            self.refuse(PATH, &format!("expected at most {POOLS_MAX} pools"));
            return Vec::new();
        }
        let mut pools: Vec<PoolConfig> = Vec::new();
        let mut places = Vec::new();
        for (at, raw) in raw.into_iter().enumerate() {
            let path = format!("{PATH}[{at}]");
            let Some(pool) = raw.and_then(|raw| self.pool(&path, raw)) else { continue };
            if pools.iter().any(|it| it.name == pool.name) {
                self.refuse(&format!("{path}.name"), "the name is that of another pool: expected a name of its own");
            }
            if pool.fleet.is_some() {
                self.fleet_needs(&format!("{path}.concurrency_of"), journal, has_hub);
            }
            pools.push(pool);
            places.push(path);
        }
        if pools.iter().map(|pool| pool.queues.len()).sum::<usize>() > QUEUES_MAX {
            self.refuse(PATH, &format!("expected at most {QUEUES_MAX} queues in all pools together"));
            return pools;
        }
        self.isolated_queues(&pools, &places);
        self.bounds(&pools, &places, journal.rows_max);
        pools
    }

    pub(super) fn pool(&mut self, path: &str, raw: RawPool) -> Option<PoolConfig> {
        let [of_name, of_queues, of_weights] = ["name", "queues", "weights"].map(|key| format!("{path}.{key}"));
        if raw.name.is_none() && !self.is_wrong_within(&of_name) {
            self.refuse(&of_name, "expected the name of the pool");
        }
        let queues = raw.queues.clone().unwrap_or_default();
        if queues.is_empty() && !self.is_wrong_within(&of_queues) {
            self.refuse(&of_queues, "expected the queues of the pool: one at least, as a name or a glob");
        }
        for (at, queue) in queues.iter().enumerate() {
            if queues[..at].contains(queue) {
                self.refuse(&format!("{of_queues}[{at}]"), "the queue is listed already: leave it out");
            }
        }
        let strategy = raw.strategy.as_deref().and_then(QueueOrder::parse);
        let fleet = self.fleet_pool(path, &raw);
        let weights = self.weights(path, strategy, raw.weights);
        for queue in weights.keys() {
            let is_its = !is_glob(queue) && queues.iter().any(|pattern| meet(pattern, queue));
            if !is_its && !queues.is_empty() {
                let rule = "expected the name of a queue of the pool: add it to the pool's queues, or leave it out";
                self.refuse(&format!("{of_weights}.{queue}"), rule);
            }
        }
        let floor = self.queue_floor(path, &raw.starvation_prevention, queues.len().max(weights.len()));
        let (concurrency, isolated) = (raw.concurrency, raw.isolated == Some(true));
        let (name, is_put) = (raw.name?, false);
        Some(PoolConfig { name, queues, concurrency, fleet, strategy, weights, isolated, floor, is_put })
    }

    /// A bound of the fleet, and the keys that only such a pool has.
    fn fleet_pool(&mut self, path: &str, raw: &RawPool) -> Option<FleetPool> {
        let at = |key: &str| format!("{path}.{key}");
        if raw.concurrency_of.as_deref() != Some("fleet") {
            let is_set = [
                ("on_hub_loss", raw.on_hub_loss.is_some()),
                ("local_concurrency", raw.local_concurrency.is_some()),
                ("longest_lease", raw.longest_lease.is_some()),
            ];
            for (key, _) in is_set.iter().filter(|(_, is_set)| *is_set) {
                self.refuse(&at(key), "only `concurrency_of: fleet` uses it: set that, or leave it out");
            }
            return None;
        }
        if raw.concurrency.is_none() && !self.is_wrong_within(&at("concurrency")) {
            self.refuse(&at("concurrency"), "expected the jobs that the workers of this sidecar hold at once at most");
        }
        if raw.on_hub_loss.is_none() && !self.is_wrong_within(&at("on_hub_loss")) {
            self.refuse(&at("on_hub_loss"), "expected hold, local or refuse: what FETCHes do while the hub is away");
        }
        let on_hub_loss = LimitWithoutHub::parse(raw.on_hub_loss.as_ref()?)?;
        match (on_hub_loss, raw.local_concurrency) {
            (LimitWithoutHub::Local, None) if !self.is_wrong_within(&at("local_concurrency")) => {
                let rule = "expected the jobs that the workers of this sidecar hold without a grant, for `local`";
                self.refuse(&at("local_concurrency"), rule);
            }
            (LimitWithoutHub::Hold | LimitWithoutHub::Refuse, Some(_)) => {
                self.refuse(&at("local_concurrency"), "only `on_hub_loss: local` uses it: leave it out");
            }
            _ => {}
        }
        let longest_lease = raw.longest_lease.as_deref().map_or(Ok(LONGEST_LEASE), parse_duration).ok()?;
        Some(FleetPool { on_hub_loss, local: raw.local_concurrency, longest_lease })
    }

    /// Without a hub nothing is granted, and without a file the jobs of an earlier run would not count.
    fn fleet_needs(&mut self, path: &str, journal: &Journal, has_hub: bool) {
        if !has_hub && !self.is_wrong_within("hub") {
            self.refuse(path, "`fleet` needs hub.urls: the hub grants the places");
        } else if journal.path.is_none() && !self.is_wrong_within("journal") {
            let rule = "`fleet` needs journal.path: a restarted sidecar knows by it which jobs its workers still hold";
            self.refuse(path, rule);
        }
    }

    /// No worker of a pool gets nothing of a queue because another pool isolates it.
    fn isolated_queues(&mut self, pools: &[PoolConfig], places: &[String]) {
        for it in shut_out(&pools.iter().collect::<Vec<_>>(), |_, _| true) {
            let (Some(path), Some(by)) = (places.get(it.pool), places.get(it.by)) else { continue };
            let rule = format!(
                "`{by}` is isolated and has the queue too, so that workers of this pool get nothing of it: leave it out of one of them"
            );
            self.refuse(&format!("{path}.queues[{}]", it.queue), &rule);
        }
    }

    /// Jobs are counted by their leases, so that all of them must be remembered.
    fn bounds(&mut self, pools: &[PoolConfig], places: &[String], leases_max: usize) {
        let mut sum = 0_u64;
        for (pool, path) in pools.iter().zip(places) {
            sum = sum.saturating_add(pool.concurrency.unwrap_or(0));
            if sum > leases_max as u64 {
                let rule = format!(
                    "the pools up to this one may hold {sum} jobs, and the journal remembers {leases_max} leases: expected less, or raise `journal.rows_max`"
                );
                self.refuse(&format!("{path}.concurrency"), &rule);
                return;
            }
        }
    }
}

/// A queue that the workers of its pool get nothing of, because another pool isolates it. Each is a place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) struct ShutOut {
    /// The pool.
    pub(in crate::config) pool: usize,
    /// The queue among those of the pool.
    pub(in crate::config) queue: usize,
    /// The isolated pool.
    pub(in crate::config) by: usize,
}

/// The queues of isolated pools that are in another isolated pool too, of which the later one is named, or by their names in any other pool.
///
/// `asked`: whether these two places are looked at, the owner's first.
pub(in crate::config) fn shut_out(pools: &[&PoolConfig], asked: impl Fn(usize, usize) -> bool) -> Vec<ShutOut> {
    let mut found = Vec::new();
    for (by, owner) in pools.iter().enumerate().filter(|(_, pool)| pool.isolated) {
        for (at, other) in pools.iter().enumerate().filter(|(at, _)| *at != by && asked(by, *at)) {
            for (queue, name) in other.queues.iter().enumerate() {
                let is_in_vain = if other.isolated { at > by } else { !is_glob(name) };
                if is_in_vain && owner.queues.iter().any(|pattern| meet(pattern, name)) {
                    found.push(ShutOut { pool: at, queue, by });
                }
            }
        }
    }
    found
}

fn is_glob(queue: &str) -> bool {
    queue.contains(['*', '?'])
}

/// Whether a queue can fit both patterns: `*` stands for any run of characters, `?` for one.
fn meet(one: &str, other: &str) -> bool {
    if !is_glob(one) && !is_glob(other) {
        return one == other;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // By the characters that are left of `other`, from the end of `one` on: whether the rest of both can be the same text.
    let mut below: Vec<bool> = vec![false; other.len() + 1];
    for place in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for at in (0..=other.len()).rev() {
            row[at] = match (one.get(place), other.get(at)) {
                (None, None) => true,
                (Some('*'), then) => below[at] || (then.is_some() && row[at + 1]),
                (_, Some('*')) => row[at + 1] || (place < one.len() && below[at]),
                (Some(a), Some(b)) => (a == b || *a == '?' || *b == '?') && below[at + 1],
                _ => false,
            };
        }
        below = row;
    }
    below[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wildmatch::WildMatch;

    use super::*;

    /// All texts of at most three characters of `ab`, which are enough for patterns as short as those below.
    fn texts() -> Vec<String> {
        let mut texts = vec![String::new()];
        for from in 0..15 {
            let longer: Vec<String> = ["a", "b"].map(|c| format!("{}{c}", texts[from])).into();
            texts.extend(longer);
        }
        texts
    }

    proptest! {
        #[test]
        fn two_patterns_meet_where_a_text_fits_both(one in "[ab?*]{0,3}", other in "[ab?*]{0,3}") {
            let (fits_one, fits_other) = (WildMatch::new(&one), WildMatch::new(&other));
            let is_both = texts().iter().any(|text| fits_one.matches(text) && fits_other.matches(text));
            // A common text is as long as both patterns together at most; that of these is in the list.
            prop_assert!(!is_both || meet(&one, &other), "{} {}", one, other);
            if one.len() + other.len() <= 4 {
                prop_assert_eq!(meet(&one, &other), is_both, "{} {}", one, other);
            }
        }
    }
}
