//! Configurations, views and jobs for the tests of this folder.

use std::time::{Duration, Instant};

use super::{Decision, Health, Inputs, Job, NoTraffic, View};
use crate::base::{Draw, RegionId};
use crate::config::tests::documented;
use crate::config::*;

/// A job that says nothing, in the queue `default`.
pub(crate) fn plain<'a>() -> Job<'a> {
    Job::plain("default")
}

/// A job that names its strategy.
pub(crate) fn named(strategy: &str) -> Job<'_> {
    Job { affinity: Some(strategy), ..plain() }
}

pub(crate) fn id(text: &str) -> RegionId {
    RegionId::parse(text).unwrap()
}

pub(crate) fn ids(texts: &[&str]) -> Vec<RegionId> {
    texts.iter().map(|text| id(text)).collect()
}

/// A configuration of regions with weight 1, the first one local, everything else as documented but for a few bounds that tests
/// fill quickly.
pub(crate) fn config(regions: &[&str]) -> Config {
    let mut config = documented(regions);
    config.listen.admin = ([127, 0, 0, 1], 0).into();
    config.listen.clients.clear();
    config.listen.credential_headers.clear();
    config.regions.iter_mut().for_each(|region| {
        region.forward_authorization = false;
        region.withheld_headers.clear();
    });
    config.load.queues_max = 16;
    config.journal.rows_max = 100;
    config.decisions.rows_max = 100;
    config.limits = limits(config.limits);
    config
}

fn limits(documented: Limits) -> Limits {
    let second = Duration::from_secs(1);
    Limits {
        body_bytes: 1 << 20,
        head_bytes: 1 << 14,
        head_timeout: second,
        idle_timeout: second,
        stream_idle_timeout: second,
        call_timeout: second,
        connect_timeout: second,
        client_connections: 100,
        pool_idle_per_region: 8,
        pool_idle_timeout: second,
        connection_lifetime: second,
        owner_entries: 100,
        lookups: 4,
        ..documented
    }
}

/// The view of a configuration, every region healthy.
pub(crate) fn healthy(config: &Config) -> View {
    let mut view = View::unprobed(config);
    for region in &mut view.regions {
        region.health = Health::Healthy;
    }
    view
}

/// Inputs without traffic of our own.
pub(crate) fn inputs(now: Instant, seed: u64) -> Inputs<'static> {
    Inputs { now, draw: Draw::from_seed(seed), turn: seed, live: &NoTraffic, drill: &0 }
}

/// The candidates' ids in order, with a blank between.
pub(crate) fn names(view: &View, decision: &Decision) -> String {
    decision.candidates.iter().map(|&region| view.region(region).id.as_str()).collect::<Vec<_>>().join(" ")
}
