//! The parts of the configuration that routing reads, compiled once: globs ready, region ids turned into indexes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use foldhash::fast::FixedState;

use super::rules::Rule;
use crate::base::{RegionId, Strategy};
use crate::config::{Config, OnAllUnhealthy};
use crate::ojs::TENANT_KEY;
use crate::policy::glob::Glob;
use crate::policy::index::RegionIndex;
use crate::policy::region_set::RegionSet;

/// The place of a region that `prefer_regions` does not name: behind all that it names.
pub(in crate::policy) const NOT_PREFERRED: u32 = u32::MAX;

/// The compiled routing configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(in crate::policy) local: RegionIndex,
    /// The places of all regions. A fixed seed, because the ids are the operator's.
    ids: HashMap<RegionId, RegionIndex, FixedState>,
    pub(in crate::policy) strategy: Strategy,
    pub(in crate::policy) rules: Vec<Rule>,
    /// Whether any of them decides where jobs may go.
    pub(in crate::policy) rules_restrict: bool,
    pub(in crate::policy) tenants: Vec<Tenant>,
    /// The regions that have a tag, by the tag.
    pub(in crate::policy) tags: BTreeMap<String, RegionSet>,
    pub(in crate::policy) geographic: Option<Geographic>,
    /// For each region its place in `prefer_regions`, or [`NOT_PREFERRED`].
    preference: Vec<u32>,
    /// The first of `prefer_regions`, else of the configured order.
    pub(in crate::policy) first: Option<RegionIndex>,
    pub(in crate::policy) excluded: RegionSet,
    /// The most candidates a decision holds: 1 when failover is off.
    pub(in crate::policy) candidates_max: usize,
    /// Whether a job that no region can take is tried where it was well last.
    pub(in crate::policy) tries_last_good: bool,
    pub(in crate::policy) slow_start: Duration,
    pub(in crate::policy) load_interval: Duration,
    pub(in crate::policy) load_tolerance: f64,
    pub(in crate::policy) health_interval: Duration,
    /// The region of the hub; none in a mesh.
    pub(in crate::policy) hub: Option<RegionIndex>,
    /// Whether nothing that is routed goes to other regions while the hub is not heard.
    is_spoke: bool,
    /// Whether workers get no jobs while the hub is not heard.
    fetches_when_heard: bool,
}

/// The regions for jobs of tenants whose name fits.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Tenant {
    pub(in crate::policy) pattern: Glob,
    /// `None` for everywhere.
    pub(in crate::policy) regions: Option<RegionSet>,
    pub(in crate::policy) home: Option<RegionIndex>,
}

/// The table of the `geographic` strategy.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Geographic {
    pub(in crate::policy) meta_key: String,
    pub(in crate::policy) regions: BTreeMap<String, RegionIndex>,
}

/// The part of a configuration that an order depends on, as a hub gets it from a spoke.
#[derive(Debug)]
pub(in crate::policy) struct FramedSettings {
    /// Each region with its place in `prefer_regions` and whether no job fails over into it.
    pub(in crate::policy) regions: Vec<(RegionId, Option<u32>, bool)>,
    pub(in crate::policy) fallback: Strategy,
    pub(in crate::policy) candidates_max: usize,
    pub(in crate::policy) slow_start: Duration,
    pub(in crate::policy) load_interval: Duration,
    pub(in crate::policy) load_tolerance: f64,
    pub(in crate::policy) health_interval: Duration,
}

impl Settings {
    /// The settings of a question: no rules, no tenants, no table, because the spoke has applied its own.
    pub(in crate::policy) fn framed(frame: FramedSettings) -> Self {
        let regions = || frame.regions.iter().enumerate().map(|(place, region)| (RegionIndex::new(place), region));
        Self {
            local: RegionIndex::new(0),
            ids: regions().map(|(index, (id, ..))| (id.clone(), index)).collect(),
            strategy: frame.fallback,
            rules: Vec::new(),
            rules_restrict: false,
            tenants: Vec::new(),
            tags: BTreeMap::new(),
            geographic: None,
            preference: regions().map(|(_, (_, place, _))| place.unwrap_or(NOT_PREFERRED)).collect(),
            first: None,
            excluded: regions().filter(|(_, (.., excluded))| *excluded).map(|(index, _)| index).collect(),
            candidates_max: frame.candidates_max,
            tries_last_good: false,
            slow_start: frame.slow_start,
            load_interval: frame.load_interval,
            load_tolerance: frame.load_tolerance,
            health_interval: frame.health_interval,
            hub: None,
            is_spoke: false,
            fetches_when_heard: false,
        }
    }

    /// Compiles the routing part of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let index = |id: &RegionId| config.regions.iter().position(|region| region.id == *id).map(RegionIndex::new);
        let set = |ids: &[RegionId]| ids.iter().filter_map(index).collect::<RegionSet>();
        let rule = |rule: &crate::config::Rule| {
            // An empty list permits all; a list of which nothing is registered permits nothing.
            let regions = (!rule.regions.is_empty()).then(|| set(&rule.regions));
            Rule::new(&rule.matcher, regions, rule.strategy, rule.ledger)
        };
        let tenant = |tenant: &crate::config::Tenant| Tenant {
            pattern: Glob::new(&tenant.pattern),
            regions: (!tenant.regions.is_empty()).then(|| set(&tenant.regions)),
            home: tenant.home.as_ref().and_then(index),
        };
        let mut tags: BTreeMap<String, RegionSet> = BTreeMap::new();
        for (place, region) in config.regions.iter().enumerate() {
            for tag in &region.tags {
                tags.entry(tag.clone()).or_default().insert(RegionIndex::new(place));
            }
        }
        let table = |table: &crate::config::Geographic| Geographic {
            meta_key: table.meta_key.clone(),
            regions: table.regions.iter().filter_map(|(hint, id)| Some((hint.clone(), index(id)?))).collect(),
        };
        let failover = &config.failover;
        let place = |id: &RegionId| {
            let place = failover.prefer_regions.iter().position(|preferred| preferred == id);
            place.and_then(|place| u32::try_from(place).ok()).unwrap_or(NOT_PREFERRED)
        };
        let places = config.regions.iter().enumerate().rev();
        let preference: Vec<u32> = config.regions.iter().map(|region| place(&region.id)).collect();
        let first = preference.iter().enumerate().min_by_key(|&(index, place)| (place, index));
        Self {
            ids: places.map(|(place, region)| (region.id.clone(), RegionIndex::new(place))).collect(),
            local: index(&config.local_region).unwrap_or(RegionIndex::new(0)),
            strategy: config.routing.strategy,
            rules: config.routing.rules.iter().map(rule).collect(),
            rules_restrict: config.routing.rules.iter().any(|rule| !rule.regions.is_empty()),
            tenants: config.tenants.iter().map(tenant).collect(),
            tags,
            geographic: config.routing.geographic.as_ref().map(table),
            first: first.map(|(index, _)| RegionIndex::new(index)),
            preference,
            excluded: set(&failover.exclude_regions),
            candidates_max: if failover.enabled { failover.max_redirects.saturating_add(1) } else { 1 },
            tries_last_good: failover.on_all_unhealthy == OnAllUnhealthy::TryLastGood,
            slow_start: config.circuit_breaker.slow_start,
            load_interval: config.load.interval,
            load_tolerance: config.load.tolerance,
            health_interval: config.health_check.interval,
            hub: config.regions.iter().position(|region| region.is_hub).map(RegionIndex::new),
            is_spoke: config.is_spoke(),
            fetches_when_heard: config.fetches_when_heard(),
        }
    }

    /// The effects of the loss of the hub: whether other regions are cut off, and whether workers get no jobs.
    pub(super) const fn without_hub(&self) -> (bool, bool) {
        (self.is_spoke, self.fetches_when_heard)
    }

    /// The region with this id.
    pub(in crate::policy) fn index_of(&self, id: &str) -> Option<RegionIndex> {
        self.ids.get(id).copied()
    }

    /// Whether any rule or tenant decides where jobs may go.
    #[must_use]
    pub fn restricts(&self) -> bool {
        self.rules_restrict || self.tenants.iter().any(|tenant| tenant.regions.is_some())
    }

    /// Whether a rule, a tenant or the geographic table looks at this member of a job's meta.
    #[must_use]
    pub fn reads_meta(&self, key: &str) -> bool {
        key == TENANT_KEY
            || self.geographic.as_ref().is_some_and(|table| table.meta_key == key)
            || self.rules.iter().any(|rule| rule.reads_meta(key))
    }

    /// Whether no region is preferred when a job fails over.
    pub(super) fn prefers_none(&self) -> bool {
        self.preference.iter().all(|place| *place == NOT_PREFERRED)
    }

    /// The region's place in `prefer_regions`.
    pub(in crate::policy) fn preference(&self, region: RegionIndex) -> u32 {
        self.preference.get(region.get()).copied().unwrap_or(NOT_PREFERRED)
    }
}
