//! The rules between keys: turns the raw mirror into [`Config`], collecting everything that is wrong on the way.
//!
//! Kinds and ranges of single keys have been settled by the key table before; a file of this folder holds the rules of
//! one section.

mod collect;
mod discovery;
mod fleet_limits;
mod hub;
mod listen;
mod pools;
mod region;
mod routing;
mod scheduling;
mod spool;
mod tenant_queues;
mod timing;
mod topology;
mod uwer;

pub(super) use pools::{POOLS_MAX, QUEUES_MAX, shut_out};
pub use region::REGIONS_MAX;

use collect::Check;
use topology::HubRegions;

use super::Problem;
use super::checked::Config;
use super::files::RegionFiles;
use super::raw::{Raw, Sections};
use super::types::{PoolConfig, Topology};
use super::walk::Walked;

/// The findings of the check.
#[derive(Default)]
pub(super) struct Checked {
    /// Present whenever nothing is wrong.
    pub(super) config: Option<Config>,
    /// The files of every region that is a section, also beside other mistakes.
    pub(super) regions: Vec<RegionFiles>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Checks a walked tree.
pub(super) fn check(walked: Walked) -> Checked {
    let Walked { tree, origins, problems } = walked;
    let mut check = Check { origins, problems, regions: Vec::new(), warnings: Vec::new() };
    let config = match (tree.deserialize::<Raw>(), tree.deserialize::<Sections>()) {
        (Ok(raw), Ok(sections)) => check.config(raw, sections),
        (Err(error), _) | (_, Err(error)) => {
            // The error's text may quote the value; its path does not.
            check.refuse(&error.path.join("."), "the value cannot be read");
            None
        }
    };
    let Check { regions, problems, warnings, .. } = check;
    Checked { config, regions, problems: problems.into_values().collect(), warnings }
}

/// Checks a walked tree with pools of workers below this path, each by itself: those that could be read, at their places, and path and rule of each
/// problem.
pub(super) fn put_pools(walked: Walked, path: &str) -> (Vec<Option<PoolConfig>>, Vec<(String, String)>) {
    let Walked { tree, origins, problems } = walked;
    let mut check = Check { origins, problems, regions: Vec::new(), warnings: Vec::new() };
    let raw = tree.deserialize::<Raw>().map(|raw| raw.scheduling.pools).unwrap_or_default();
    let pools = raw.into_iter().enumerate();
    let pools = pools.map(|(at, raw)| check.pool(&format!("{path}[{at}]"), raw?)).collect();
    (pools, check.problems.into_iter().map(|(path, problem)| (path, problem.rule)).collect())
}

impl Check {
    fn config(&mut self, raw: Raw, sections: Sections) -> Option<Config> {
        self.not_honoured(&raw);
        self.log_level(&sections.log.level);
        let federation_default = raw.version.as_deref() == Some("1.0");
        let listen = self.listen(raw.listen);
        let control_socket = self.control_socket(raw.control.socket, &listen);
        let topology = raw.topology.as_deref().and_then(Topology::parse).unwrap_or(Topology::Mesh);
        let hub_regions = HubRegions::of(&raw.regions);
        let drafts = self.regions(raw.regions, raw.insecure_dev, federation_default);
        let registered = self.registered(&drafts);
        let local_region = self.local_region(&registered, &drafts, raw.local_region.as_deref());
        let tenants = self.tenants(raw.tenants, &registered);
        let routing = self.routing(sections.routing, raw.routing, &registered);
        self.residency_warnings(&routing, &tenants);
        let health_check = self.health_check(sections.health_check, federation_default);
        let circuit_breaker = self.circuit_breaker(sections.circuit_breaker, &raw.circuit_breaker);
        let failover = self.failover(sections.failover, &raw.failover, &registered);
        let journal = self.journal(sections.journal);
        let spooled = self.spool(&sections.spool);
        let limits = self.limits(sections.limits);
        self.health_source(health_check.source, !raw.hub.urls.is_empty());
        self.key_scope(&sections.idempotency, !raw.hub.urls.is_empty());
        self.hub_of_spokes(topology, &raw.hub);
        self.list_replicas(sections.lists.replicas, !raw.hub.urls.is_empty());
        let hub = self.hub(raw.hub, topology);
        self.topology(topology, &hub_regions, local_region.as_ref(), hub.as_ref(), routing.stamp);
        let fleet_limits = self.fleet_limits(raw.limits.fleet, &registered, hub.is_some());
        let discovery = self.discovery(raw.discovery, topology, drafts.len(), hub.is_some());
        let scheduling = self.scheduling(raw.scheduling, &journal, hub.is_some());
        let uwer = self.uwer(raw.uwer, hub.is_some(), limits.call_timeout, &spooled);
        self.spooled_shards(&spooled, &scheduling.tenant_queues);
        self.regions = drafts.iter().map(|draft| self.region_files(draft, local_region.as_ref())).collect();
        self.regions.extend(discovery.as_ref().map(|discovery| self.discovery_files(discovery)));
        let local_region = local_region?;
        let resolved = drafts.into_iter();
        let resolved = resolved.filter_map(|draft| draft.resolve(Some(&local_region), &listen.credential_headers));
        Some(Config {
            topology,
            regions: resolved.collect(),
            discovery,
            federation_id: raw.federation_id,
            local_region,
            insecure_dev: raw.insecure_dev,
            listen,
            control_socket,
            tenants,
            routing,
            batch: sections.batch,
            workers: sections.workers,
            scheduling,
            queues: sections.queues,
            lists: sections.lists,
            residency: sections.residency,
            health_check,
            circuit_breaker,
            load: sections.load,
            failover,
            journal,
            spool: sections.spool,
            hub,
            uwer,
            decisions: sections.decisions,
            idempotency: sections.idempotency,
            limits,
            fleet_limits,
            compat: sections.compat,
            log: sections.log,
            metrics: sections.metrics,
            readiness: sections.readiness,
            shutdown: sections.shutdown,
        })
    }

    /// The settings of the public federation schema that ask for something this program does not do.
    fn not_honoured(&mut self, raw: &Raw) {
        let other_version = raw.version.as_deref().is_some_and(|version| version != "1.0");
        self.warn_if(
            other_version,
            "version",
            "only schema version \"1.0\" is known; the file is read as this program's own",
        );
        let lost = "not honoured: jobs are not replicated between regions";
        self.warn_if(raw.replication.enabled == Some(true), "replication.enabled", lost);
        self.warn_if(raw.replication.mode.is_some(), "replication.mode", lost);
        self.warn_if(raw.replication.max_lag_seconds.is_some(), "replication.max_lag_seconds", lost);
    }

    fn log_level(&mut self, level: &str) {
        if !is_log_level(level) {
            self.refuse("log.level", LOG_LEVEL_EXPECTED);
        }
    }
}

/// The expected form of a log level.
pub const LOG_LEVEL_EXPECTED: &str =
    "expected off, error, warn, info, debug, trace, or a filter such as info,ojs_sidecar=debug";

/// Whether this is a level or a filter. A bare word must be a level: as a filter it would silently be the name of a module.
#[must_use]
pub fn is_log_level(level: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let bare = !level.contains(['=', ',', '[']);
    let known = LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
    (!bare || known) && tracing_subscriber::EnvFilter::builder().parse(level).is_ok()
}
