//! The effective configuration as YAML: every setting as it came out, in the form in which it could be read again.
//!
//! It holds no secret: tokens and keys are files and only their paths are shown, and a URL with a password is refused.

use super::checked::Config;
use super::section::{Section as _, write_section};
use super::sections::Routing;
use super::types::{
    ClientListen, DiscoveryConfig, FleetLimit, FleetPool, Ledger, QueueFloor, RegionConfig, RegionSource, RegionTls,
    Rule, Scheduling, ServerIdentity, Tenant, Uwer,
};
use super::yaml::Yaml;
use crate::base::text::print_duration;
use crate::base::{QueueOrder, RegionId};

/// The effective configuration in YAML, secrets left out; [`super::load`] reads it to the same configuration.
#[must_use]
pub fn effective(config: &Config) -> String {
    let mut yaml = Yaml::default();
    yaml.text("federation_id", &config.federation_id);
    yaml.text("topology", config.topology.as_str());
    yaml.text("local_region", &config.local_region);
    yaml.plain("insecure_dev", config.insecure_dev);
    yaml.section("listen", |yaml| {
        yaml.texts("clients", &config.listen.clients.iter().map(client_listen).collect::<Vec<_>>());
        yaml.texts("allowed_hosts", &config.listen.allowed_hosts);
        yaml.texts("allowed_origins", &config.listen.allowed_origins);
        yaml.texts("credential_headers", &config.listen.credential_headers);
        yaml.text("admin", config.listen.admin);
        yaml.text("unix_mode", format!("{:04o}", config.listen.unix_mode));
    });
    if let Some(path) = &config.control_socket {
        yaml.section("control", |yaml| yaml.text("socket", path.display()));
    }
    let regions: Vec<_> = config.regions.iter().filter(|region| region.source == RegionSource::Static).collect();
    yaml.list("regions", &regions, |yaml, region| self::region(yaml, region));
    if let Some(discovery) = &config.discovery {
        yaml.section("discovery", |yaml| self::discovery(yaml, discovery));
    }
    yaml.list("tenants", &config.tenants, tenant);
    yaml.section("routing", |yaml| routing(yaml, &config.routing));
    write_section(&mut yaml, "batch", &config.batch);
    write_section(&mut yaml, "workers", &config.workers);
    yaml.section("scheduling", |yaml| scheduling(yaml, &config.scheduling));
    write_section(&mut yaml, "queues", &config.queues);
    write_section(&mut yaml, "lists", &config.lists);
    write_section(&mut yaml, "residency", &config.residency);
    write_section(&mut yaml, "health_check", &config.health_check);
    write_section(&mut yaml, "circuit_breaker", &config.circuit_breaker);
    write_section(&mut yaml, "load", &config.load);
    yaml.section("failover", |yaml| {
        config.failover.write(yaml);
        yaml.texts("prefer_regions", &config.failover.prefer_regions);
        yaml.texts("exclude_regions", &config.failover.exclude_regions);
    });
    write_section(&mut yaml, "journal", &config.journal);
    write_section(&mut yaml, "spool", &config.spool);
    if let Some(hub) = &config.hub {
        yaml.section("hub", |yaml| {
            yaml.texts("urls", &hub.urls.iter().map(|url| &url.text).collect::<Vec<_>>());
            yaml.text_if("name", hub.name.as_ref());
            yaml.plain("report_jobs", hub.report_jobs);
            yaml.text("ledger", hub.ledger.as_str());
            yaml.texts("report_bodies", &hub.report_bodies);
            yaml.plain("repeated_ids", hub.repeated_ids.as_str());
            yaml.text("lease", print_duration(hub.lease));
            yaml.plain("fetch", hub.fetch.as_str());
            yaml.plain("decide", hub.decide.as_str());
            yaml.text("decide_cache", print_duration(hub.decide_cache));
            yaml.text("decide_wait", print_duration(hub.decide_wait));
            tls(yaml, &hub.tls);
        });
    }
    uwer(&mut yaml, config.uwer.as_ref());
    write_section(&mut yaml, "decisions", &config.decisions);
    write_section(&mut yaml, "idempotency", &config.idempotency);
    yaml.section("limits", |yaml| {
        config.limits.write(yaml);
        yaml.list("fleet", &config.fleet_limits, fleet_limit);
    });
    write_section(&mut yaml, "compat", &config.compat);
    write_section(&mut yaml, "log", &config.log);
    write_section(&mut yaml, "metrics", &config.metrics);
    write_section(&mut yaml, "readiness", &config.readiness);
    write_section(&mut yaml, "shutdown", &config.shutdown);
    yaml.out
}

/// The effective configuration as JSON, secrets left out.
///
/// Errors: why the YAML of [`effective`] cannot be read again, which is a defect.
pub fn effective_json(config: &Config) -> Result<serde_json::Value, String> {
    serde_saphyr::from_str(&effective(config)).map_err(|error| error.to_string())
}

fn client_listen(listen: &ClientListen) -> String {
    match listen {
        ClientListen::Tcp { address, .. } => address.to_string(),
        ClientListen::Unix { path } => format!("unix:{}", path.display()),
    }
}

fn region(yaml: &mut Yaml, region: &RegionConfig) {
    yaml.text("id", &region.id);
    yaml.text("url", &region.url.text);
    yaml.plain("weight", region.weight);
    yaml.texts("tags", &region.tags);
    yaml.plain_if("max_queue_depth", region.max_queue_depth);
    tls(yaml, &region.tls);
    yaml.text_if("bearer_token_file", region.bearer_token_file.as_ref().map(|path| path.display()));
    yaml.plain("forward_authorization", region.forward_authorization);
    yaml.text("duplicate_ids", region.duplicate_ids.as_str());
    yaml.plain("is_hub", region.is_hub);
}

fn discovery(yaml: &mut Yaml, discovery: &DiscoveryConfig) {
    if let Some(dns) = &discovery.dns {
        yaml.section("dns", |yaml| {
            yaml.text("name", &dns.name);
            yaml.texts("servers", &dns.servers);
        });
    }
    yaml.text_if("directory", discovery.directory.as_ref().map(|path| path.display()));
    yaml.plain("hub", discovery.hub);
    yaml.texts("allow", &discovery.allow);
    yaml.text("identity", &discovery.identity);
    yaml.text("interval", print_duration(discovery.interval));
    yaml.plain("regions_max", discovery.regions_max);
    yaml.plain("changes_per_minute", discovery.changes_per_minute);
    yaml.plain("trust_tags", discovery.trust_tags);
    yaml.text_if("cache", discovery.cache.as_ref().map(|path| path.display()));
    yaml.section("defaults", |yaml| {
        yaml.plain("weight", discovery.defaults.weight);
        yaml.texts("tags", &discovery.defaults.tags);
        yaml.plain_if("max_queue_depth", discovery.defaults.max_queue_depth);
        tls(yaml, &discovery.defaults.tls);
    });
}

fn tls(yaml: &mut Yaml, tls: &RegionTls) {
    yaml.section("tls", |yaml| {
        yaml.text_if("ca", tls.ca.as_ref().map(|path| path.display()));
        yaml.text_if("cert", tls.cert.as_ref().map(|path| path.display()));
        yaml.text_if("key", tls.key.as_ref().map(|path| path.display()));
        match &tls.identity {
            ServerIdentity::UrlHost => {}
            ServerIdentity::Name(name) => yaml.text("server_name", name),
            ServerIdentity::Uri(uri) => yaml.text("uri_san", uri),
        }
    });
}

fn routing(yaml: &mut Yaml, routing: &Routing) {
    routing.write(yaml);
    yaml.list("rules", &routing.rules, rule);
    if let Some(geographic) = &routing.geographic {
        yaml.section("geographic", |yaml| {
            yaml.text("meta_key", &geographic.meta_key);
            yaml.table("regions", geographic.regions.iter());
        });
    }
}

fn scheduling(yaml: &mut Yaml, scheduling: &Scheduling) {
    yaml.text_if("strategy", scheduling.strategy.map(QueueOrder::as_str));
    yaml.table("weights", scheduling.weights.iter());
    queue_floor(yaml, scheduling.floor);
    yaml.text_if("pool", scheduling.pool.as_ref());
    let pools: Vec<_> = scheduling.pools.iter().filter(|pool| !pool.is_put).collect();
    yaml.list("pools", &pools, |yaml, pool| {
        yaml.text("name", &pool.name);
        yaml.texts("queues", &pool.queues);
        yaml.plain_if("concurrency", pool.concurrency);
        fleet_pool(yaml, pool.fleet.as_ref());
        yaml.text_if("strategy", pool.strategy.map(QueueOrder::as_str));
        yaml.table("weights", pool.weights.iter());
        yaml.plain("isolated", pool.isolated);
        queue_floor(yaml, pool.floor);
    });
    yaml.list("tenant_queues", &scheduling.tenant_queues, |yaml, queue| {
        yaml.text("queue", &queue.queue);
        yaml.plain("shards", queue.shards);
        yaml.table("weights", queue.weights.iter());
        yaml.plain("default_weight", queue.default_weight);
        yaml.plain("priority_bands", format!("{:?}", queue.priority_bands));
        yaml.text("mode", queue.mode.as_str());
    });
}

fn uwer(yaml: &mut Yaml, uwer: Option<&Uwer>) {
    let Some(uwer) = uwer else { return };
    yaml.section("uwer", |yaml| {
        yaml.plain("enabled", true);
        yaml.list("origins", &uwer.origins, |yaml, origin| {
            yaml.text("origin", &origin.origin);
            yaml.text("type", &origin.job_type);
            yaml.text("queue", &origin.queue);
        });
    });
}

fn fleet_pool(yaml: &mut Yaml, fleet: Option<&FleetPool>) {
    let Some(fleet) = fleet else { return };
    yaml.text("concurrency_of", "fleet");
    yaml.text("on_hub_loss", fleet.on_hub_loss.as_str());
    yaml.plain_if("local_concurrency", fleet.local);
    yaml.text("longest_lease", print_duration(fleet.longest_lease));
}

fn queue_floor(yaml: &mut Yaml, floor: Option<QueueFloor>) {
    yaml.section("starvation_prevention", |yaml| {
        yaml.plain("enabled", floor.is_some());
        if let Some(floor) = floor {
            yaml.text("rotation_interval", print_duration(floor.rotation_interval));
            yaml.plain("min_dispatch_ratio", floor.min_dispatch_ratio);
        }
    });
}

fn tenant(yaml: &mut Yaml, tenant: &Tenant) {
    yaml.text("match", &tenant.pattern);
    if !tenant.regions.is_empty() {
        yaml.texts::<RegionId>("regions", &tenant.regions);
    }
    yaml.text_if("home", tenant.home.as_ref());
}

fn fleet_limit(yaml: &mut Yaml, limit: &FleetLimit) {
    yaml.text("region", &limit.region);
    yaml.text("on_hub_loss", limit.on_hub_loss.as_str());
    yaml.plain_if("local_calls", limit.local_calls);
}

fn rule(yaml: &mut Yaml, rule: &Rule) {
    yaml.section("match", |yaml| {
        yaml.text_if("job_type", rule.matcher.job_type.as_ref());
        yaml.text_if("queue", rule.matcher.queue.as_ref());
        yaml.texts("tags", &rule.matcher.tags);
        yaml.table("meta", rule.matcher.meta.iter());
    });
    yaml.section("target", |yaml| {
        if !rule.regions.is_empty() {
            yaml.texts::<RegionId>("regions", &rule.regions);
        }
        yaml.text_if("ledger", rule.ledger.map(Ledger::as_str));
        yaml.text_if("strategy", rule.strategy);
    });
}
