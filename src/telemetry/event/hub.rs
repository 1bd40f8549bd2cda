//! Events of a hub, and of the connection of a sidecar to its hub.

use std::path::Path;
use std::time::Duration;

use tracing::{info, warn};

use super::TARGET;
use crate::base::text::print_duration;
use crate::telemetry::{HubKey, Metrics};

/// A hub serves.
pub fn hub_started(address: &str, admin: &str, record: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_started", address, admin, record, "the hub serves");
}

/// An operator has put a region at this hub, for the discovery of its sidecars; at the level of warnings, as a switch.
pub fn hub_region_put(region: &str, url: &str, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_region_put", region, url, reason, ticket, author,
        "an operator has put a region"
    );
}

/// An operator has deleted a region of this hub.
pub fn hub_region_deleted(region: &str, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_region_deleted", region, reason, ticket, author,
        "an operator has deleted a region"
    );
}

/// An operator has put a pool of workers at this hub.
pub fn hub_pool_put(pool: &str, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_pool_put", pool, reason, ticket, author,
        "an operator has put a pool of workers"
    );
}

/// An operator has deleted a pool of workers of this hub.
pub fn hub_pool_deleted(pool: &str, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_pool_deleted", pool, reason, ticket, author,
        "an operator has deleted a pool of workers"
    );
}

/// This sidecar keeps to other pools of its hub than before.
pub fn hub_pools_in_force(pools: &[&str]) {
    let pools = pools.join(", ");
    info!(target: TARGET, event = "ojs.federation.hub_pools_in_force", pools, "the pools of the hub are in force");
}

/// Some pools of the hub cannot be in force at this sidecar.
pub fn hub_pools_refused(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_pools_refused", error, "pools of the hub are not in force");
}

/// The record of a hub did not take a change.
pub fn hub_record_failed(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_record_failed", error, "the record did not take a change");
}

/// The record of a hub cannot be reached. Sidecars keep their switches; orders are refused.
pub fn hub_record_lost(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_record_lost", error, "the record cannot be reached; orders are refused until it is");
}

/// Reports of outcomes had to make room for later ones.
pub fn hub_reports_dropped(reports: u64) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_reports_dropped", reports,
        "the record has as many reports of outcomes as it may; those received first were dropped"
    );
}

/// The facts of another region's hub are not taken.
pub fn hub_pull_failed(from: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_pull_failed", from, error,
        "the facts about jobs of another region's hub are not taken; the index lacks them until they are"
    );
}

/// The hub opens its feeds after `index.return_wait` although it has not heard all hubs of other regions.
pub fn hub_return_unheard(regions: &str, waited: Duration) {
    let waited = print_duration(waited);
    warn!(
        target: TARGET, event = "ojs.federation.hub_return_unheard", regions, waited,
        "sidecars get the switches of this hub, which does not know the isolations of these regions' hubs"
    );
}

/// The facts of another region's hub are taken again.
pub fn hub_pull_returns(from: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_pull_returns", from, "the facts about jobs of another region's hub are taken again");
}

/// The event stream of a queue is not read, or has ended. Logged once for each cause.
pub fn hub_events_failed(queue: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_events_failed", queue, error,
        "the event stream of a queue is not read; the index lacks jobs that no sidecar sees until it is, and what the lists do not show"
    );
}

/// The region has no event stream of a queue. Logged once for each cause.
pub fn hub_events_absent(queue: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_events_absent", queue, error,
        "the region has no event stream of this queue; it is asked for again twice a minute, and the index has what sidecars report"
    );
}

/// The event stream of a queue is read again.
pub fn hub_events_return(queue: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_events_return", queue, "the event stream of a queue is read again");
}

/// More queues fit `index.events.queues` than streams are read.
pub fn hub_events_left(left: usize) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_events_left", left,
        "more queues fit index.events.queues than there may be event streams; the last ones by name are left out"
    );
}

/// Bodies of jobs had to make room for later ones.
pub fn hub_bodies_dropped(bodies: u64) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_bodies_dropped", bodies,
        "the bodies of jobs have as much room as they may; the oldest ones were dropped, and their jobs cannot be promoted"
    );
}

/// A body in the record cannot be opened. Logged once in the life of the hub.
pub fn hub_body_unreadable() {
    warn!(
        target: TARGET, event = "ojs.federation.hub_body_unreadable",
        "the body of a job in the record cannot be opened with the key of index.bodies.key_file; it is left out"
    );
}

/// The bodies of another region's hub are not taken.
pub fn hub_bodies_pull_failed(from: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_bodies_pull_failed", from, error,
        "the bodies of jobs of another region's hub are not taken; these jobs cannot be promoted here until they are"
    );
}

/// The bodies of another region's hub are taken again.
pub fn hub_bodies_pull_returns(from: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_bodies_pull_returns", from, "the bodies of jobs of another region's hub are taken again");
}

/// The hub did not take the bytes of jobs.
pub fn hub_bodies_refused(url: &str, error: &str, is_final: bool) {
    let then = if is_final { "they are dropped" } else { "they are sent again" };
    warn!(
        target: TARGET, event = "ojs.federation.hub_bodies_refused", url, error,
        "the hub does not take the bytes of jobs; {then}"
    );
}

/// A promotion has come to its next stage.
pub fn promotion_stage(id: &str, from: &str, to: &str, stage: &str) {
    info!(
        target: TARGET, event = "ojs.federation.promotion_stage", id, from, to, stage,
        "a promotion has come to its next stage"
    );
}

/// A job was moved that a worker has had in the region that came back.
pub fn promotion_doubled(job_id: &str, from: &str, to: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.promotion_doubled", job_id, from, to,
        "a job was moved by a promotion that a worker has had in the region that came back; it may run twice"
    );
}

/// A promotion does not go on.
pub fn promotion_waits(id: &str, error: &str) {
    warn!(target: TARGET, event = "ojs.federation.promotion_waits", id, error, "a promotion does not go on; it is tried again");
}

/// The record has no index yet to look for conflicts with.
pub fn hub_search_waits() {
    info!(
        target: TARGET, event = "ojs.federation.hub_search_waits",
        "conflicts are not looked for until the record has built an index of its facts"
    );
}

/// The index is built that conflicts are looked for with.
pub fn hub_search_begins() {
    info!(target: TARGET, event = "ojs.federation.hub_search_begins", "the record has built its index; conflicts are looked for");
}

/// Another region has a job with the tracking id of this one.
pub fn hub_job_repeated(job_id: &str, region: &str) {
    info!(
        target: TARGET, event = "ojs.federation.hub_job_repeated", job_id, region,
        "several regions have jobs with the tracking id of this one; the last that was enqueued counts"
    );
}

/// There is a result for a copy that counts less than another one, each as a job and its region. `why`: why it was left alone, or empty.
pub fn hub_conflict(copy: (&str, &str), result: &str, winner: (&str, &str), why: &str) {
    let ((job_id, region), (winner_job_id, winner_region)) = (copy, winner);
    warn!(
        target: TARGET, event = "ojs.federation.hub_conflict", job_id, region, result, why, winner_job_id, winner_region,
        "a copy of a job counts less than one in another region"
    );
}

/// The hub did not take changes of jobs.
pub fn hub_changes_refused(url: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_changes_refused", url, error,
        "the hub does not take the changes of jobs; they are sent again"
    );
}

/// The hub takes no question about jobs.
pub fn hub_questions_refused(error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_questions_refused", error,
        "the hub does not decide where jobs go; they stay in the local region until it does"
    );
}

/// The record of a hub is reached again.
pub fn hub_record_reached() {
    info!(target: TARGET, event = "ojs.federation.hub_record_reached", "the record is reached again");
}

/// New connections to the hub use the changed TLS files.
pub fn hub_identity_reloaded() {
    info!(target: TARGET, event = "ojs.federation.hub_identity_reloaded", "the TLS files of the hub were read again");
}

/// Changed TLS files cannot be used; those read before stay in use.
pub fn hub_identity_refused(error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_identity_refused", error,
        "the changed TLS files cannot be used; those read before stay in use"
    );
}

/// The configuration file has changed since the start.
pub fn hub_restart_needed(file: &Path) {
    let file = file.display();
    warn!(
        target: TARGET, event = "ojs.federation.hub_restart_needed", %file,
        "the configuration file has changed; restart the hub to use it"
    );
}

/// The configuration file has changed since the start, and cannot be used.
pub fn hub_config_refused(file: &Path, error: &str) {
    let file = file.display();
    warn!(
        target: TARGET, event = "ojs.federation.hub_config_refused", %file, error,
        "the configuration file cannot be used; the hub goes on, and would not start again"
    );
}

/// Several processes report under one name, so that the inventory shows one sidecar.
pub fn hub_name_shared(name: &str, identity: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_name_shared", name, identity,
        "several processes report as one sidecar; give each its own hub.name"
    );
}

/// Tokens are verified with the changed keys.
pub fn hub_keys_reloaded() {
    info!(target: TARGET, event = "ojs.federation.hub_keys_reloaded", "the keys of tokens were read again");
}

/// The changed file of keys cannot be used; the keys read before stay in use.
pub fn hub_keys_refused(error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_keys_refused", error,
        "the changed keys of tokens cannot be used; those read before stay in use"
    );
}

/// A sidecar holds the feed of its hub.
pub fn hub_connected(url: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_connected", url, "the feed of the hub is open");
}

/// The hub does not take the status of this sidecar, whose switches are followed all the same.
pub fn hub_status_refused(url: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_status_refused", url, error,
        "the hub refuses the status of this sidecar; its switches are followed"
    );
}

/// The hub does not take the outcomes of this sidecar, which are sent again later.
pub fn hub_reports_refused(url: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_reports_refused", url, error,
        "the hub refuses the outcomes of this sidecar; they are sent again later"
    );
}

/// The hub grants this sidecar no calls of a fleet limit for now.
pub fn hub_grants_refused(url: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_grants_refused", url, error,
        "the hub grants no calls of limits.fleet; a grant that was received before holds until its time is over"
    );
}

/// The hub grants calls of fleet limits again.
pub fn hub_grants_return(url: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_grants_return", url, "the hub grants calls of limits.fleet again");
}

/// The hub does not take questions about `Idempotency-Key`s; calls with a key are treated by `idempotency.on_hub_loss`.
pub fn hub_keys_lost(error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_keys_lost", error,
        "the hub does not claim keys; idempotency.on_hub_loss decides about calls with a key until it does"
    );
}

/// The hub takes questions about `Idempotency-Key`s again.
pub fn hub_keys_reached() {
    info!(target: TARGET, event = "ojs.federation.hub_keys_reached", "the hub claims keys again");
}

/// Another sidecar has stored a job under the `Idempotency-Key` of one that was stored here while the hub was away.
pub fn hub_key_doubled(metrics: &Metrics, job_id: Option<&str>) {
    metrics.hub_keys.results[HubKey::Doubled].inc();
    warn!(
        target: TARGET, event = "ojs.federation.hub_key_doubled", job_id,
        "the key of this job was claimed by another sidecar while the hub was away: there may be two jobs of one key"
    );
}

/// A sidecar lost the feed of its hub. Switches that it received before stay in force until they end.
pub fn hub_lost(url: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_lost", url, error,
        "the feed of the hub is lost; what it has set stays in force until it ends"
    );
}

/// A sidecar cannot open the feed of a hub that it does not follow now.
pub fn hub_not_opened(url: &str, error: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_lost", url, error,
        "the feed of the hub could not be opened; what a hub has set stays in force until it ends"
    );
}

/// A spoke does not hear its hub, or hears it again. `lease`: how long it sends to other regions without.
pub fn hub_cut_off(is_cut_off: bool, lease: Duration) {
    let lease = print_duration(lease);
    if is_cut_off {
        warn!(
            target: TARGET, event = "ojs.federation.hub_cut_off", lease,
            "the hub was not heard for the time of hub.lease; nothing is sent to other regions until it is heard"
        );
    } else {
        info!(target: TARGET, event = "ojs.federation.hub_heard", lease, "the hub is heard; jobs go to other regions");
    }
}

/// The hub is not heard, or it is again, and workers get jobs by `hub.fetch` only then. `lease`: how long they get them without.
pub fn hub_fetch_waits(waits: bool, lease: Duration) {
    let lease = print_duration(lease);
    if waits {
        warn!(
            target: TARGET, event = "ojs.federation.hub_fetch_waits", lease,
            "the hub was not heard for the time of hub.lease; workers get no jobs until it is heard"
        );
    } else {
        info!(target: TARGET, event = "ojs.federation.hub_fetch_goes_on", lease, "the hub is heard; workers get jobs");
    }
}

/// The hub has set switches that this version of the program cannot read; `words` are their kinds. All others are followed.
pub fn hub_switches_unknown(url: &str, words: &[String]) {
    let (count, first) = (words.len(), words.first().map_or("", String::as_str));
    warn!(
        target: TARGET, event = "ojs.federation.hub_switches_unknown", url, count, first,
        "the hub has switches that this version cannot read; they are not in force here"
    );
}
