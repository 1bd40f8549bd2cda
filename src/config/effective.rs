//! The effective configuration as YAML: every setting as it came out, in the form in which it could be read again.
//!
//! It holds no secret: tokens and keys are files and only their paths are shown, and a URL with a password is refused.

use std::fmt::Display;
use std::time::Duration;

use super::types::{ClientListen, Config, RegionConfig, Routing, Rule, ServerIdentity, Tenant};
use crate::base::RegionId;
use crate::base::text::print_duration;

/// The effective configuration in YAML, secrets left out; [`super::load`] reads it to the same configuration.
#[must_use]
pub fn effective(config: &Config) -> String {
    let mut yaml = Yaml::default();
    yaml.text("federation_id", &config.federation_id);
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
    yaml.list("regions", &config.regions, region);
    yaml.list("tenants", &config.tenants, tenant);
    yaml.section("routing", |yaml| routing(yaml, &config.routing));
    surface(&mut yaml, config);
    probing(&mut yaml, config);
    yaml.section("failover", |yaml| {
        let failover = &config.failover;
        yaml.plain("enabled", failover.enabled);
        yaml.plain("max_redirects", failover.max_redirects);
        yaml.texts("prefer_regions", &failover.prefer_regions);
        yaml.texts("exclude_regions", &failover.exclude_regions);
        yaml.section("retry_budget", |yaml| {
            yaml.plain("ratio", failover.retry_budget_ratio);
            yaml.plain("floor", failover.retry_budget_floor);
        });
        yaml.text("on_unknown", failover.on_unknown.as_str());
        yaml.text("on_all_unhealthy", failover.on_all_unhealthy.as_str());
        yaml.duration("late_write_grace", failover.late_write_grace);
        yaml.duration("read_lag", failover.read_lag);
    });
    yaml.section("journal", |yaml| {
        yaml.text_if("path", config.journal.path.as_ref().map(|path| path.display()));
        yaml.plain("required", config.journal.required);
        yaml.plain("rows_max", config.journal.rows_max);
    });
    yaml.section("decisions", |yaml| yaml.plain("rows_max", config.decisions.rows_max));
    yaml.section("idempotency", |yaml| {
        yaml.plain("enabled", config.idempotency.enabled);
        yaml.duration("ttl", config.idempotency.ttl);
    });
    yaml.section("limits", |yaml| limits(yaml, config));
    process(&mut yaml, config);
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
    yaml.section("tls", |yaml| {
        let tls = &region.tls;
        yaml.text_if("ca", tls.ca.as_ref().map(|path| path.display()));
        yaml.text_if("cert", tls.cert.as_ref().map(|path| path.display()));
        yaml.text_if("key", tls.key.as_ref().map(|path| path.display()));
        match &tls.identity {
            ServerIdentity::UrlHost => {}
            ServerIdentity::Name(name) => yaml.text("server_name", name),
            ServerIdentity::Uri(uri) => yaml.text("uri_san", uri),
        }
    });
    yaml.text_if("bearer_token_file", region.bearer_token_file.as_ref().map(|path| path.display()));
    yaml.plain("forward_authorization", region.forward_authorization);
    yaml.text("duplicate_ids", region.duplicate_ids.as_str());
}

fn routing(yaml: &mut Yaml, routing: &Routing) {
    yaml.text("strategy", routing.strategy);
    yaml.text("stamp", routing.stamp.as_str());
    yaml.plain("stamp_origin", routing.stamp_origin);
    yaml.plain("mint_id", routing.mint_id);
    yaml.plain("id_hint", routing.id_hint);
    yaml.list("rules", &routing.rules, rule);
    if let Some(geographic) = &routing.geographic {
        yaml.section("geographic", |yaml| {
            yaml.text("meta_key", &geographic.meta_key);
            yaml.table("regions", geographic.regions.iter());
        });
    }
}

fn tenant(yaml: &mut Yaml, tenant: &Tenant) {
    yaml.text("match", &tenant.pattern);
    if !tenant.regions.is_empty() {
        yaml.texts::<RegionId>("regions", &tenant.regions);
    }
    yaml.text_if("home", tenant.home.as_ref());
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
        yaml.text_if("strategy", rule.strategy);
    });
}

fn probing(yaml: &mut Yaml, config: &Config) {
    yaml.section("health_check", |yaml| {
        let health = &config.health_check;
        yaml.duration("interval", health.interval);
        yaml.duration("timeout", health.timeout);
        yaml.plain("unhealthy_threshold", health.unhealthy_threshold);
        yaml.plain("healthy_threshold", health.healthy_threshold);
        yaml.texts("accepted_status", &health.accepted_status);
    });
    yaml.section("circuit_breaker", |yaml| {
        let breaker = &config.circuit_breaker;
        yaml.plain("failure_threshold", breaker.failure_threshold);
        yaml.duration("cooldown", breaker.cooldown);
        yaml.plain("cooldown_multiplier", breaker.cooldown_multiplier);
        yaml.duration("cooldown_max", breaker.cooldown_max);
        yaml.duration("early_probe", breaker.early_probe);
        yaml.plain("failure_ratio", breaker.failure_ratio);
        yaml.duration("ratio_window", breaker.ratio_window);
        yaml.plain("ratio_min_requests", breaker.ratio_min_requests);
        yaml.duration("slow_start", breaker.slow_start);
        yaml.plain("hold_down_changes", breaker.hold_down_changes);
        yaml.duration("hold_down_window", breaker.hold_down_window);
        yaml.duration("hold_down_quiet", breaker.hold_down_quiet);
    });
    yaml.section("load", |yaml| {
        yaml.text("source", config.load.source.as_str());
        yaml.duration("interval", config.load.interval);
        yaml.plain("queues_max", config.load.queues_max);
        yaml.plain("tolerance", config.load.tolerance);
    });
}

fn surface(yaml: &mut Yaml, config: &Config) {
    yaml.section("batch", |yaml| yaml.text("mixed", config.batch.mixed.as_str()));
    yaml.section("workers", |yaml| yaml.texts("remote_fetch", &config.workers.remote_fetch));
    yaml.section("queues", |yaml| yaml.text("control", config.queues.control.as_str()));
    yaml.section("lists", |yaml| yaml.plain("annotate", config.lists.annotate));
    yaml.section("residency", |yaml| {
        yaml.text("read", config.residency.read.as_str());
        yaml.text("read_lists", config.residency.read_lists.as_str());
    });
}

fn limits(yaml: &mut Yaml, config: &Config) {
    let limits = &config.limits;
    yaml.plain("body_bytes", limits.body_bytes);
    yaml.plain("buffered_bytes", limits.buffered_bytes);
    if let Some(memory) = limits.memory {
        yaml.plain("memory", memory);
    }
    yaml.plain("json_depth", limits.json_depth);
    yaml.plain("head_bytes", limits.head_bytes);
    yaml.plain("headers", limits.headers);
    yaml.duration("head_timeout", limits.head_timeout);
    yaml.duration("idle_timeout", limits.idle_timeout);
    yaml.duration("stream_idle_timeout", limits.stream_idle_timeout);
    yaml.duration("call_timeout", limits.call_timeout);
    yaml.duration("connect_timeout", limits.connect_timeout);
    yaml.plain("client_connections", limits.client_connections);
    yaml.plain("calls", limits.calls);
    yaml.plain("calls_per_region", limits.calls_per_region);
    yaml.plain("pool_idle_per_region", limits.pool_idle_per_region);
    yaml.duration("pool_idle_timeout", limits.pool_idle_timeout);
    yaml.duration("connection_lifetime", limits.connection_lifetime);
    yaml.plain("worker_threads", limits.worker_threads);
    yaml.plain("owner_entries", limits.owner_entries);
    yaml.plain("lookups", limits.lookups);
    yaml.plain("hops", limits.hops);
}

fn process(yaml: &mut Yaml, config: &Config) {
    yaml.section("compat", |yaml| {
        yaml.text("json_content_type", config.compat.json_content_type.as_str());
        yaml.text("client_replicated_from", config.compat.client_replicated_from.as_str());
        yaml.text("unknown_federation_keys", config.compat.unknown_federation_keys.as_str());
        yaml.plain("heartbeat_ids", config.compat.heartbeat_ids);
        yaml.plain("directive", config.compat.directive);
        yaml.plain("retry_after", config.compat.retry_after);
        yaml.plain("event_stream", config.compat.event_stream);
    });
    yaml.section("log", |yaml| {
        yaml.text("format", config.log.format.as_str());
        yaml.text("level", &config.log.level);
        yaml.text("access", config.log.access.as_str());
    });
    yaml.section("metrics", |yaml| yaml.text("detail", config.metrics.detail.as_str()));
    yaml.section("readiness", |yaml| yaml.plain("require_region", config.readiness.require_region));
    yaml.section("shutdown", |yaml| {
        yaml.duration("drain_idle", config.shutdown.drain_idle);
        yaml.duration("drain_timeout", config.shutdown.drain_timeout);
    });
}

/// Writes YAML of sections, lists of sections and scalars. Text is always quoted, so that none of it can be misread.
#[derive(Default)]
struct Yaml {
    out: String,
    depth: usize,
    /// Set while the next line is the first of a list item, which begins with a dash.
    item: bool,
}

impl Yaml {
    fn line(&mut self, content: &str) {
        let depth = self.depth - usize::from(self.item);
        let dash = if self.item { "- " } else { "" };
        self.item = false;
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(dash);
        self.out.push_str(content);
        self.out.push('\n');
    }

    fn plain(&mut self, key: &str, value: impl Display) {
        self.line(&format!("{key}: {value}"));
    }

    fn plain_if(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.plain(key, value);
        }
    }

    fn text(&mut self, key: &str, text: impl Display) {
        self.plain(key, quoted(text));
    }

    fn text_if(&mut self, key: &str, text: Option<impl Display>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn duration(&mut self, key: &str, lasts: Duration) {
        self.plain(key, print_duration(lasts));
    }

    fn texts<T: Display>(&mut self, key: &str, texts: &[T]) {
        self.plain(key, format_args!("[{}]", texts.iter().map(quoted).collect::<Vec<_>>().join(", ")));
    }

    fn table<'a, V: Display + 'a>(&mut self, key: &str, members: impl Iterator<Item = (&'a String, V)>) {
        let members: Vec<String> =
            members.map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
        self.plain(key, format_args!("{{{}}}", members.join(", ")));
    }

    fn section(&mut self, key: &str, members: impl FnOnce(&mut Self)) {
        let (start, item) = (self.out.len(), self.item);
        self.line(&format!("{key}:"));
        let end = self.out.len();
        self.depth += 1;
        members(self);
        self.depth -= 1;
        if self.out.len() == end {
            // A section without members is not a section: it would be read as nothing.
            self.out.truncate(start);
            self.item = item;
        }
    }

    fn list<T>(&mut self, key: &str, items: &[T], members: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            return self.plain(key, "[]");
        }
        self.line(&format!("{key}:"));
        self.depth += 2;
        for item in items {
            self.item = true;
            members(self, item);
        }
        self.depth -= 2;
    }
}

fn quoted(text: impl Display) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}
