//! Probes, breakers, load polling and limits.

use std::time::Duration;

use super::super::raw::{RawCircuitBreaker, RawHealthCheck, RawLimits, RawLoad};
use super::super::types::{CircuitBreaker, HealthCheck, Limits, Load};
use super::collect::Check;

/// A longer pause would ignore a recovered region for too long, unless the operator asks for it as the cooldown itself.
const COOLDOWN_GROWS_TO: Duration = Duration::from_secs(60);
/// When the SDKs give up.
const SDK_TIMEOUT: Duration = Duration::from_secs(30);
/// The thresholds of a file of the public federation schema that does not set them.
const UNHEALTHY_THRESHOLD_IN_SCHEMA: u32 = 3;
const HEALTHY_THRESHOLD_IN_SCHEMA: u32 = 2;

impl Check {
    /// `in_schema`: the file is one of the public federation schema, whose own defaults hold where it is silent.
    pub(super) fn health_check(&mut self, raw: RawHealthCheck, in_schema: bool) -> HealthCheck {
        if raw.accepted_status.is_empty() {
            self.refuse(
                "health_check.accepted_status",
                "expected at least one status: no region could ever be healthy",
            );
        }
        self.warn_if(
            raw.timeout.0 > raw.interval.0,
            "health_check.timeout",
            "longer than health_check.interval: a silent region is probed less often than the interval says",
        );
        let threshold = |name: &str, value: u32, in_file: u32| {
            if in_schema && !self.origins.is_set(&format!("health_check.{name}")) { in_file } else { value }
        };
        let unhealthy = threshold("unhealthy_threshold", raw.unhealthy_threshold, UNHEALTHY_THRESHOLD_IN_SCHEMA);
        let healthy = threshold("healthy_threshold", raw.healthy_threshold, HEALTHY_THRESHOLD_IN_SCHEMA);
        HealthCheck {
            interval: raw.interval.0,
            timeout: raw.timeout.0,
            unhealthy_threshold: unhealthy,
            healthy_threshold: healthy,
            accepted_status: raw.accepted_status,
        }
    }

    pub(super) fn circuit_breaker(&mut self, raw: &RawCircuitBreaker) -> CircuitBreaker {
        let off = raw.enabled == Some(false);
        self.warn_if(
            off,
            "circuit_breaker.enabled",
            "not honoured: breakers are always on; raise failure_threshold instead",
        );
        let probes = raw.probe_count.is_some_and(|count| count != 1);
        self.warn_if(probes, "circuit_breaker.probe_count", "not honoured: half-open sends exactly one probe");
        let (cooldown, cooldown_max) = (raw.cooldown.0, raw.cooldown_max.0);
        if self.origins.is_set("circuit_breaker.cooldown_max") {
            if cooldown_max < cooldown {
                self.refuse("circuit_breaker.cooldown_max", "expected at least circuit_breaker.cooldown");
            } else if cooldown_max > COOLDOWN_GROWS_TO.max(cooldown) {
                self.refuse(
                    "circuit_breaker.cooldown_max",
                    "expected at most 60s, or circuit_breaker.cooldown where that is longer",
                );
            }
        }
        CircuitBreaker {
            failure_threshold: raw.failure_threshold,
            cooldown,
            cooldown_multiplier: raw.cooldown_multiplier,
            cooldown_max: cooldown_max.max(cooldown),
            early_probe: raw.early_probe.0,
            failure_ratio: raw.failure_ratio,
            ratio_window: raw.ratio_window.0,
            ratio_min_requests: raw.ratio_min_requests,
            slow_start: raw.slow_start.0,
            hold_down_changes: raw.hold_down_changes,
            hold_down_window: raw.hold_down_window.0,
            hold_down_quiet: raw.hold_down_quiet.0,
        }
    }

    pub(super) fn limits(&mut self, raw: &RawLimits) -> Limits {
        let late = raw.call_timeout.0 > SDK_TIMEOUT;
        self.warn_if(
            late,
            "limits.call_timeout",
            "longer than the 30s after which SDKs give up and may send the job again",
        );
        self.warn_if(
            raw.connect_timeout.0 > raw.call_timeout.0,
            "limits.connect_timeout",
            "longer than limits.call_timeout: a call ends before it has waited so long for a connection",
        );
        if raw.buffered_bytes < raw.body_bytes && self.origins.is_set("limits.buffered_bytes") {
            self.refuse("limits.buffered_bytes", "expected at least limits.body_bytes: one such body must fit");
        }
        Limits {
            body_bytes: raw.body_bytes,
            buffered_bytes: raw.buffered_bytes.max(raw.body_bytes),
            memory: raw.memory,
            json_depth: raw.json_depth,
            head_bytes: raw.head_bytes,
            headers: raw.headers,
            head_timeout: raw.head_timeout.0,
            idle_timeout: raw.idle_timeout.0,
            stream_idle_timeout: raw.stream_idle_timeout.0,
            call_timeout: raw.call_timeout.0,
            connect_timeout: raw.connect_timeout.0,
            client_connections: raw.client_connections,
            calls: raw.calls,
            calls_per_region: raw.calls_per_region,
            pool_idle_per_region: raw.pool_idle_per_region,
            pool_idle_timeout: raw.pool_idle_timeout.0,
            connection_lifetime: raw.connection_lifetime.0,
            worker_threads: raw.worker_threads,
            owner_entries: raw.owner_entries,
            lookups: raw.lookups,
            hops: raw.hops,
        }
    }
}

pub(super) fn load(raw: &RawLoad) -> Load {
    Load { source: raw.source, interval: raw.interval.0, queues_max: raw.queues_max, tolerance: raw.tolerance }
}
