//! Rare events: one function for each, which writes the log line and counts, so that the two always agree.
//!
//! Every line has the target `ojs_federation` and a field `event` with a stable name, by which alerts can find it.
//! Fields hold region ids, closed words, job and request ids; never a job's content.

mod audit;
pub mod breaker;
mod discovery;
mod drill;
mod hub;
mod outcome;
mod quota;
mod replay;
mod scheduling;
mod spool;
mod switch;

use std::sync::atomic::Ordering;

use tracing::{error, info, warn};

use super::{Breaker, CertificateKind, FailoverReason, LineKind, Metrics, RegionMetrics, ReloadKind, ReloadResult};

pub use audit::{
    LedgerStep, hub_audit_head, hub_audit_unsigned, hub_ledger_head, hub_ledger_unread, hub_ledger_unsigned,
    ledger_step,
};
pub use discovery::{
    discovery_cache_failed, discovery_cache_ignored, discovery_changed, discovery_looked, discovery_rejected,
    discovery_unproven,
};
pub use drill::{drill_ended, drill_started, hub_drill_ended, hub_drill_refused, hub_drill_started, hub_drill_waits};
pub use hub::{
    hub_bodies_dropped, hub_bodies_pull_failed, hub_bodies_pull_returns, hub_bodies_refused, hub_body_unreadable,
    hub_changes_refused, hub_config_refused, hub_conflict, hub_connected, hub_cut_off, hub_events_absent,
    hub_events_failed, hub_events_left, hub_events_return, hub_fetch_waits, hub_grants_refused, hub_grants_return,
    hub_identity_refused, hub_identity_reloaded, hub_job_repeated, hub_key_doubled, hub_keys_lost, hub_keys_reached,
    hub_keys_refused, hub_keys_reloaded, hub_lost, hub_name_shared, hub_not_opened, hub_pool_deleted, hub_pool_put,
    hub_pools_in_force, hub_pools_refused, hub_pull_failed, hub_pull_returns, hub_questions_refused, hub_record_failed,
    hub_record_lost, hub_record_reached, hub_region_deleted, hub_region_put, hub_reports_dropped, hub_reports_refused,
    hub_restart_needed, hub_return_unheard, hub_search_begins, hub_search_waits, hub_started, hub_status_refused,
    hub_switches_unknown, promotion_doubled, promotion_stage, promotion_waits,
};
pub use outcome::{JournalState, doubled, journal, journal_full, outcome_decided, outcome_resolved};
pub use quota::{
    hub_quotas_in_force, hub_quotas_put, hub_quotas_refused, quota_active_full, quota_exceeded, quota_kept,
};
pub use replay::{hub_job_cancelled, hub_replay_ended, hub_replay_ordered, hub_replay_waits};
pub use scheduling::{scheduling_pool_overloaded, scheduling_queue_starved, scheduling_rebalanced};
pub use spool::{spool_aside, spool_file, spool_ordered};
pub use switch::{switch_ended, switch_set};

/// The target of every line that this program writes about federation.
pub(super) const TARGET: &str = "ojs_federation";

/// A certificate that ends this soon is worth a warning: a week-end and a few working days to renew it by hand.
const CERTIFICATE_WARNING_SECONDS: i64 = 7 * 24 * 60 * 60;

/// A job left a region for another; `suppressed` is how often one left it since the last line about that. No trouble of its own: the
/// region's state has a line with a warning. Spec: RFC-0001 §4.
pub fn failover(from: &RegionMetrics, to: &RegionMetrics, reason: FailoverReason, suppressed: u64) {
    from.failovers[reason].inc();
    info!(
        target: TARGET,
        event = "ojs.federation.failover",
        from_region = from.id.as_str(),
        to_region = to.id.as_str(),
        reason = reason.as_str(),
        suppressed = (suppressed > 0).then_some(suppressed),
        "a job goes to another region"
    );
}

/// A failover soon after one that has a line: counted, so that an outage does not flood the log.
pub fn failover_repeated(from: &RegionMetrics, reason: FailoverReason) {
    from.failovers[reason].inc();
}

/// Failovers from a region that have no line of their own, after the last one that has.
pub fn failovers_suppressed(from: &RegionMetrics, suppressed: u64) {
    info!(
        target: TARGET, event = "ojs.federation.failovers_suppressed", from_region = from.id.as_str(), suppressed,
        "further jobs went to other regions since the last line about it"
    );
}

/// Lines of a kind that were not written because too many came, after the last one that was.
pub fn lines_suppressed(kind: LineKind, suppressed: u64) {
    info!(
        target: TARGET, event = "ojs.federation.lines_suppressed", kind = kind.as_str(), suppressed,
        "further lines of this kind were not written"
    );
}

/// Bytes that never became a request, or one connection too many.
pub fn head_refused(kind: LineKind, status: u16, request_id: &str, suppressed: u64) {
    warn!(
        target: TARGET, event = "ojs.federation.head_refused", reason = kind.as_str(), status, request_id,
        suppressed = (suppressed > 0).then_some(suppressed),
        "what a client sent is no request that could be served"
    );
}

/// A breaker changed its state; `why` is a closed word, such as `probe_failures`.
pub fn breaker_transition(region: &RegionMetrics, from: Breaker, to: Breaker, why: &'static str) {
    for state in Breaker::ALL {
        region.breaker[state].set(i64::from(state == to));
    }
    region.breaker_transitions[to].inc();
    let (id, from, why_word) = (region.id.as_str(), from.as_str(), why);
    match to {
        Breaker::Open => warn!(
            target: TARGET, event = "ojs.federation.breaker", region = id, from, to = to.as_str(), reason = why_word,
            "the breaker opened: the region gets no traffic"
        ),
        Breaker::HalfOpen => info!(
            target: TARGET, event = "ojs.federation.breaker", region = id, from, to = to.as_str(), reason = why_word,
            "the breaker is half-open: one probe decides"
        ),
        Breaker::Closed => info!(
            target: TARGET, event = "ojs.federation.breaker", region = id, from, to = to.as_str(), reason = why_word,
            "the breaker closed: traffic flows again"
        ),
    }
}

/// The guard of a class of calls changed its state, which is one of `closed`, `open` and `trial`.
pub fn guard_transition(region: &RegionMetrics, place: usize, class: &'static str, to: &'static str) {
    if let Some(open) = region.guards.get(place) {
        open.set(i64::from(to != "closed"));
    }
    let id = region.id.as_str();
    match to {
        "open" => warn!(
            target: TARGET, event = "ojs.federation.guard", region = id, class, to,
            "calls of this class fail: they are kept from the region, others are not"
        ),
        "trial" => info!(
            target: TARGET, event = "ojs.federation.guard", region = id, class, to,
            "a share of the calls of this class is tried again"
        ),
        _ => info!(
            target: TARGET, event = "ojs.federation.guard", region = id, class, to, "calls of this class flow again"
        ),
    }
}

/// A region came and went too often, or has been quiet for long enough since.
pub fn hold_down(region: &RegionMetrics, held: bool) {
    region.held_down.set(i64::from(held));
    let id = region.id.as_str();
    if held {
        warn!(
            target: TARGET, event = "ojs.federation.hold_down", region = id, held,
            "the region came and went too often: jobs that may go elsewhere leave it alone until it was quiet"
        );
    } else {
        info!(target: TARGET, event = "ojs.federation.hold_down", region = id, held, "the region was quiet: jobs come back");
    }
}

/// A region answers nothing without refusing anything, or was heard again.
pub fn silence(region: &RegionMetrics, silent: bool) {
    let id = region.id.as_str();
    if silent {
        warn!(
            target: TARGET, event = "ojs.federation.region_silent", region = id, silent,
            "the region answers nothing: flexible jobs go elsewhere until it answers a health request, which is sent every second"
        );
    } else {
        info!(target: TARGET, event = "ojs.federation.region_silent", region = id, silent, "the region answers again");
    }
}

/// Every region failed with our own network, or that is over.
pub fn self_suspect(metrics: &Metrics, suspect: bool) {
    metrics.self_suspect.set(i64::from(suspect));
    if suspect {
        warn!(
            target: TARGET, event = "ojs.federation.self_suspect", suspect,
            "all regions fail and so does our own network: the regions keep their verdicts; look at this pod's network"
        );
    } else {
        info!(target: TARGET, event = "ojs.federation.self_suspect", suspect, "our own network works again");
    }
}

/// A region became healthy or unhealthy; `why` is a closed word, such as `timeout`, `detail` the address asked and the
/// event.
pub fn region_health(region: &RegionMetrics, healthy: bool, why: &'static str, detail: Option<(&str, &str)>) {
    region.healthy.set(i64::from(healthy));
    let id = region.id.as_str();
    let (address, detail) = detail.unzip();
    if healthy {
        info!(target: TARGET, event = "ojs.federation.region_healthy", region = id, reason = why, "the region is healthy");
    } else {
        warn!(
            target: TARGET, event = "ojs.federation.region_unhealthy", region = id, reason = why, address, detail,
            "the region is unhealthy"
        );
    }
}

/// A client's `Authorization` was not passed on; logged once a region, counted always.
pub fn dropped_authorization(region: &RegionMetrics) {
    region.dropped_authorizations.inc();
    if !region.dropped_authorization_logged.swap(true, Ordering::Relaxed) {
        warn!(
            target: TARGET,
            event = "ojs.federation.authorization_dropped",
            region = region.id.as_str(),
            "a client's Authorization is not passed on to this region (said once): forward_authorization is off there, or the region has a token of its own"
        );
    }
}

/// A job with undefined keys under `ojs.federation.` was accepted. `logged`: also in the log, each time their number has doubled.
pub fn unknown_federation_keys(metrics: &Metrics, keys: u64, logged: bool) {
    let counter = &metrics.unknown_federation_keys;
    let before = counter.get();
    counter.inc_by(keys);
    let total = before + keys;
    if logged && total.checked_ilog2() != before.checked_ilog2() {
        warn!(
            target: TARGET,
            event = "ojs.federation.unknown_keys",
            total,
            "jobs carry undefined keys under ojs.federation., which bind nothing (logged each time their number doubles): POST such a \
             job to /v1/federation/route, which names them"
        );
    }
}

/// An enqueue was sent, and its outcome is unknown.
pub fn unknown_outcome(region: &RegionMetrics, job_id: Option<&str>, request_id: &str) {
    region.unknown_outcomes.inc();
    warn!(
        target: TARGET,
        event = "ojs.federation.outcome_unknown",
        region = region.id.as_str(),
        job_id,
        request_id,
        "an enqueue may or may not have been stored"
    );
}

/// A job that may not run here was handed out by another region, in a queue that was declared free of such jobs. `queue` is one
/// that the configuration names.
pub fn remote_fetch_off(region: &RegionMetrics, queue: &str) {
    warn!(
        target: TARGET,
        event = "ojs.federation.remote_fetch_off",
        region = region.id.as_str(),
        queue,
        "a job that may not run here was in a queue of workers.remote_fetch and was left to its lease; the queue is fetched from no other \
         region until the configuration is read again: take it out of workers.remote_fetch"
    );
}

/// A certificate was loaded or seen: keeps the gauge, and warns when the end is near or past.
///
/// Units: `not_after` in seconds, `now_ms` in milliseconds, both since the Unix epoch.
#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
pub fn certificate_seen(region: &RegionMetrics, kind: CertificateKind, not_after: i64, now_ms: u64) {
    region.certificate_expiry[kind].set(not_after as f64);
    if let Some(left_seconds) = ends_soon(not_after, now_ms) {
        warn!(
            target: TARGET,
            event = "ojs.federation.certificate_expiring",
            region = region.id.as_str(),
            kind = kind.as_str(),
            left_seconds,
            "a certificate has expired or will soon; renew it"
        );
    }
}

/// The seconds until a certificate ends, negative when it has ended, if they are few enough to be logged.
#[must_use]
pub fn ends_soon(not_after: i64, now_ms: u64) -> Option<i64> {
    let now = i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX);
    let left_seconds = not_after.saturating_sub(now);
    (left_seconds < CERTIFICATE_WARNING_SECONDS).then_some(left_seconds)
}

/// A region's name did not resolve; `kept` says whether an earlier answer is still in use. Counted always, logged where `in_a_row` has the number
/// of failures so far.
pub fn dns_failed(region: &RegionMetrics, host: &str, why: &str, kept: bool, in_a_row: Option<u64>) {
    region.dns_failures.inc();
    let Some(in_a_row) = in_a_row else { return };
    let id = region.id.as_str();
    if kept {
        warn!(
            target: TARGET, event = "ojs.federation.dns_failed", region = id, host, why, in_a_row,
            "the name did not resolve (logged each time the failures in a row double); the last good answer is kept"
        );
    } else {
        warn!(
            target: TARGET, event = "ojs.federation.dns_failed", region = id, host, why, in_a_row,
            "the name did not resolve (logged each time the failures in a row double); the region cannot be reached"
        );
    }
}

/// A region's name resolves again.
pub fn dns_recovered(region: &RegionMetrics, host: &str) {
    info!(target: TARGET, event = "ojs.federation.dns_recovered", region = region.id.as_str(), host, "the name resolves again");
}

/// A changed configuration is in force; `fixed` names the keys that differ and wait for a restart.
pub fn configuration_reloaded(metrics: &Metrics, fixed: &[&'static str]) {
    metrics.reloads[ReloadKind::Configuration][ReloadResult::Applied].inc();
    if fixed.is_empty() {
        info!(target: TARGET, event = "ojs.federation.configuration_reloaded", "the changed configuration is in force");
    } else {
        let waiting = fixed.join(" ");
        warn!(
            target: TARGET, event = "ojs.federation.configuration_reloaded", waiting_for_restart = waiting,
            "the changed configuration is in force, except for keys that need a restart"
        );
    }
}

/// A region's changed certificate, key, roots or token are in force.
pub fn identity_reloaded(metrics: &Metrics, region: &str) {
    metrics.reloads[ReloadKind::Identity][ReloadResult::Applied].inc();
    info!(target: TARGET, event = "ojs.federation.identity_reloaded", region, "the region's new identity is in force");
}

/// A change cannot be used, and the former state stays in force. `why` holds no value of a file.
pub fn reload_refused(metrics: &Metrics, kind: ReloadKind, about: &str, why: &str) {
    metrics.reloads[kind][ReloadResult::Refused].inc();
    warn!(target: TARGET, event = "ojs.federation.reload_refused", kind = kind.as_str(), about, why, "a change cannot be used; the state before it is kept");
}

/// A look at the files of this kind is over: whether any of them cannot be used, which was said before where it is new.
pub fn reload_looked(metrics: &Metrics, kind: ReloadKind, refused: bool) {
    metrics.reload_refused[kind].set(i64::from(refused));
}

/// A setting was accepted, with an effect that its author may not expect. `rule` never holds the value.
pub fn config_warning(metrics: &Metrics, key: &str, origin: &str, rule: &str) {
    metrics.config_warnings.inc();
    warn!(target: TARGET, event = "ojs.federation.config_warning", key, origin, "{rule}");
}

/// Another level of the log is in force for a while. At the level of warnings, so that most levels show it.
pub fn log_level_changed(level: &str, lasts: &str) {
    warn!(target: TARGET, event = "ojs.federation.log_level", level, lasts, "the admin listener was asked for another log level");
}

/// The configured level is in force again.
pub fn log_level_ended(level: &str) {
    warn!(target: TARGET, event = "ojs.federation.log_level", level, "the configured log level is in force again");
}

/// A defect of this program: `place` is the file and the line of the source.
pub fn panicked(place: Option<&str>, thread: Option<&str>) {
    error!(target: TARGET, event = "ojs.federation.panic", place, thread, "a defect: a task ended by a panic; please report the place");
}

/// Everything is bound; `clients` and `admin` are the addresses as text.
pub fn started(clients: &str, admin: &str, local_region: &str, regions: usize) {
    let version = env!("CARGO_PKG_VERSION");
    info!(target: TARGET, event = "ojs.federation.started", version, clients, admin, local_region, regions, "listening");
}

/// Nothing holds readiness back any longer.
pub fn ready() {
    info!(target: TARGET, event = "ojs.federation.ready", "ready");
}

/// The process was ordered to end and waits for its clients.
pub fn drain_started(metrics: &Metrics) {
    metrics.draining.set(1);
    info!(target: TARGET, event = "ojs.federation.drain_started", "draining: still serving, not ready any more");
}

/// The drain is over; `clean` says that no request was open.
pub fn drain_finished(clean: bool) {
    if clean {
        info!(target: TARGET, event = "ojs.federation.drain_finished", clean, "drained");
    } else {
        warn!(target: TARGET, event = "ojs.federation.drain_finished", clean, "the drain timed out with requests still open");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_logged_in_its_last_week_and_after_its_end() {
        let now_ms = 1_800_000_000_000;
        assert_eq!(ends_soon(1_800_000_000 + 8 * 86_400, now_ms), None);
        assert_eq!(ends_soon(1_800_000_000 + 6 * 86_400, now_ms), Some(6 * 86_400));
        assert_eq!(ends_soon(1_800_000_000 - 60, now_ms), Some(-60));
    }
}
