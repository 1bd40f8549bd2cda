//! The pools of workers that operators have put at the hub, beside those of the configuration.

use std::time::{Duration, Instant};

use super::super::notes::Notes;
use crate::base::Clock;
use crate::config::{Config, PoolConfig, PoolProblem, PutPool, misfit, put_configs};
use crate::journal::Journal;
use crate::proxy::Random;
use crate::region::SetupError;
use crate::telemetry::event;

/// How long a sidecar waits before it takes changed pools: at least, and how much longer at most. It then probes its regions and connects to the hub anew, and a
/// fleet is not to do so at once, nor a sidecar for each of many changes.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));
/// A process that has just begun takes them at once: until then no pool of the hub isolates or bounds anything.
const BEGINS_FOR: Duration = Duration::from_secs(60);

/// Resolves some moments after the hub has named other pools; `started`: when the process began. Cancel: each look is at the last ones.
pub(super) async fn changed(journal: &Journal, clock: &Clock, started: Instant) {
    journal.put_pools_changed().await;
    if started.elapsed() > BEGINS_FOR {
        let (least, more) = PAUSE;
        clock.sleep(least + more.mul_f64(Random::default().draw().unit())).await;
    }
}

/// The pools of the hub for one configuration.
#[derive(Debug, PartialEq)]
pub(super) struct Usable {
    /// Those that can be in force, in the order of the hub.
    pub(super) pools: Vec<PoolConfig>,
    /// Why the others are not.
    pub(super) refused: Vec<String>,
}

impl Usable {
    /// Whether a configuration has just these.
    pub(super) fn are_in_force(&self, config: &Config) -> bool {
        config.scheduling.pools.iter().filter(|pool| pool.is_put).eq(&self.pools)
    }

    /// Logs the result of the try to put them in force.
    pub(super) fn tried<T>(&mut self, result: Result<T, SetupError>) {
        match result {
            Ok(_) => event::hub_pools_in_force(&self.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>()),
            Err(error) => self.refused.push(error.to_string()),
        }
    }

    /// Notes the pools that are not in force, which are logged once, and bounds that hold less than they could.
    pub(super) fn report(&self, notes: &Notes, config: &Config) {
        const ABOUT: &str = "pools of the hub";
        const ABOUT_BOUNDS: &str = "bounds of the pools of the hub";
        if config.journal.path.is_none() && self.pools.iter().any(|pool| pool.fleet.is_some()) {
            let note = "without journal.path this sidecar forgets at a restart which jobs its workers hold, and the hub counts them for the time of \
                        its grant and the longest lease only";
            notes.set(ABOUT_BOUNDS, note.to_owned());
        } else {
            notes.clear(ABOUT_BOUNDS);
        }
        if self.refused.is_empty() {
            return notes.clear(ABOUT);
        }
        let why = self.refused.join("; ");
        if notes.set(ABOUT, format!("some are not in force: {why}")) {
            event::hub_pools_refused(&why);
        }
    }
}

/// The pools that the hub has named last, where the configuration has a hub.
pub(super) fn usable(journal: &Journal, config: &Config) -> Usable {
    let known = journal.put_pools();
    beside(if config.hub.is_some() { &known } else { &[] }, config)
}

/// The pools of the hub that fit beside those of the configuration, which go first, and beside each other.
fn beside(put: &[PutPool], config: &Config) -> Usable {
    let of_file = || config.scheduling.pools.iter().filter(|pool| !pool.is_put);
    let mut all: Vec<PoolConfig> = of_file().cloned().collect();
    let (own, mut refused) = (all.len(), Vec::new());
    for (it, read) in put.iter().zip(put_configs(put)) {
        match fitting(it, read, &all) {
            Ok(pool) => all.push(pool),
            Err(why) => refused.push(format!("pool {}: {why}", it.name)),
        }
    }
    let mut pools = all.split_off(own);
    bound(&mut pools, of_file().filter_map(|pool| pool.concurrency).sum(), config.journal.rows_max);
    Usable { pools, refused }
}

type Read = Result<PoolConfig, Vec<PoolProblem>>;

fn fitting(put: &PutPool, read: Read, others: &[PoolConfig]) -> Result<PoolConfig, String> {
    if others.iter().any(|it| it.name == put.name) {
        return Err("the configuration has a pool of this name, which goes first".to_owned());
    }
    let said = |it: PoolProblem| format!("{}: {}", it.field, it.rule);
    let pool = read.map_err(|all| all.into_iter().map(said).collect::<Vec<_>>().join("; "))?;
    misfit(others, &pool).map_or(Ok(pool), |problem| Err(said(problem)))
}

/// Jobs are counted by their leases, which the journal must remember: pools share the rows that those of the configuration leave. Their bound
/// of the fleet holds all the same.
fn bound(pools: &mut [PoolConfig], taken: u64, leases_max: usize) {
    let left = (leases_max as u64).saturating_sub(taken);
    let bounds = || pools.iter().filter_map(|pool| pool.concurrency);
    if bounds().fold(0, u64::saturating_add) <= left {
        return;
    }
    let part = (left / bounds().count().max(1) as u64).max(1);
    for concurrency in pools.iter_mut().filter_map(|pool| pool.concurrency.as_mut()) {
        *concurrency = part.min(*concurrency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::documented;

    fn put(name: &str, body: &str) -> PutPool {
        PutPool { name: name.to_owned(), settings: serde_json::from_str(body).unwrap() }
    }

    #[test]
    fn the_configuration_goes_first_and_a_pool_that_does_not_fit_is_in_no_other_s_way() {
        let mut config = documented(&["a"]);
        config.scheduling.pools = vec![PoolConfig {
            is_put: false,
            ..put("pay", r#"{"queues":["payments"],"isolated":true,"concurrency":4}"#).config().unwrap()
        }];
        let all = [
            put("gpu", r#"{"queues":["images"],"concurrency":6}"#),
            put("later", r#"{"queues":["a"],"mood":"good"}"#),
            put("mail", r#"{"queues":["payments"]}"#),
            put("pay", r#"{"queues":["other"]}"#),
        ];
        let Usable { pools, refused } = beside(&all, &config);
        assert_eq!(pools.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["gpu"]);
        for (why, words) in
            refused.iter().zip(["later: mood: there is no such member", "`pay` is isolated", "goes first"])
        {
            assert!(why.contains(words), "{refused:?}");
        }
        config.scheduling.pools.extend(pools.clone());
        assert_eq!(beside(&all, &config), Usable { pools, refused }, "those in force are no others");
    }

    #[test]
    fn bounds_of_the_fleet_leave_room_in_the_journal() {
        let mut config = documented(&["a"]);
        config.journal.rows_max = 100;
        let all = [
            put("a", r#"{"queues":["a"],"concurrency":1000}"#),
            put("b", r#"{"queues":["b"],"concurrency":20}"#),
            put("c", r#"{"queues":["c"]}"#),
        ];
        let bounds = |all: &[PutPool]| beside(all, &config).pools.iter().map(|it| it.concurrency).collect::<Vec<_>>();
        assert_eq!(bounds(&all), [Some(50), Some(20), None]);
        assert_eq!(bounds(&all[1..]), [Some(20), None]);
    }
}
