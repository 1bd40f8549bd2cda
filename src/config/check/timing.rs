//! Probes, breakers and limits: the rules between their keys.

use std::time::Duration;

use super::super::raw::RawCircuitBreaker;
use super::super::sections::{CircuitBreaker, HealthCheck, Limits};
use super::collect::Check;

/// The largest `cooldown_max`, unless `cooldown` itself is longer: a longer pause would ignore a recovered region for too long.
const COOLDOWN_GROWS_TO: Duration = Duration::from_secs(60);
/// When the SDKs give up.
const SDK_TIMEOUT: Duration = Duration::from_secs(30);
/// The default thresholds of the public federation schema, for a file of that schema that does not set them.
const UNHEALTHY_THRESHOLD_IN_SCHEMA: u32 = 3;
const HEALTHY_THRESHOLD_IN_SCHEMA: u32 = 2;

impl Check {
    /// Checks the probes. `in_schema`: the file has the form of the public federation schema, so that the defaults of that schema hold for
    /// thresholds that it does not set.
    pub(super) fn health_check(&mut self, mut health: HealthCheck, in_schema: bool) -> HealthCheck {
        if health.accepted_status.is_empty() {
            self.refuse(
                "health_check.accepted_status",
                "expected at least one status: no region could ever be healthy",
            );
        }
        self.warn_if(
            health.timeout > health.interval,
            "health_check.timeout",
            "longer than health_check.interval: a silent region is probed less often than the interval says",
        );
        let threshold = |name: &str, value: u32, of_schema: u32| {
            if in_schema && !self.origins.is_set(&format!("health_check.{name}")) { of_schema } else { value }
        };
        health.unhealthy_threshold =
            threshold("unhealthy_threshold", health.unhealthy_threshold, UNHEALTHY_THRESHOLD_IN_SCHEMA);
        health.healthy_threshold =
            threshold("healthy_threshold", health.healthy_threshold, HEALTHY_THRESHOLD_IN_SCHEMA);
        health
    }

    /// Checks the breaker, and raises a default `cooldown_max` to a longer `cooldown`. `raw`: the section as it was written.
    pub(super) fn circuit_breaker(&mut self, mut breaker: CircuitBreaker, raw: &RawCircuitBreaker) -> CircuitBreaker {
        let off = raw.enabled == Some(false);
        self.warn_if(
            off,
            "circuit_breaker.enabled",
            "not honoured: breakers are always on; raise failure_threshold instead",
        );
        let probes = raw.probe_count.is_some_and(|count| count != 1);
        self.warn_if(probes, "circuit_breaker.probe_count", "not honoured: half-open sends exactly one probe");
        let (cooldown, cooldown_max) = (breaker.cooldown, breaker.cooldown_max);
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
        breaker.cooldown_max = cooldown_max.max(cooldown);
        breaker
    }

    pub(super) fn limits(&mut self, mut limits: Limits) -> Limits {
        let late = limits.call_timeout > SDK_TIMEOUT;
        self.warn_if(
            late,
            "limits.call_timeout",
            "longer than the 30s after which SDKs give up and may send the job again",
        );
        self.warn_if(
            limits.connect_timeout > limits.call_timeout,
            "limits.connect_timeout",
            "longer than limits.call_timeout: a call ends before it has waited so long for a connection",
        );
        if limits.buffered_bytes < limits.body_bytes && self.origins.is_set("limits.buffered_bytes") {
            self.refuse("limits.buffered_bytes", "expected at least limits.body_bytes: one such body must fit");
        }
        limits.buffered_bytes = limits.buffered_bytes.max(limits.body_bytes);
        limits
    }
}
