//! Events of the discovery of regions.

use tracing::{debug, info, warn};

use super::TARGET;
use crate::telemetry::{DiscoveryChange, DiscoveryLook, DiscoveryRejection, DiscoverySource, Metrics};

/// The discovered regions in force changed.
pub fn discovery_changed(metrics: &Metrics, change: DiscoveryChange, region: &str, source: &str) {
    metrics.discovery.changes[change].inc();
    let change = change.as_str();
    info!(target: TARGET, event = "ojs.federation.discovery_changed", region, source, change, "the discovered regions changed");
}

/// A region of a source is turned away; `is_new`: it was not before. `about` is its id, or the place of a text that cannot be read.
pub fn discovery_rejected(metrics: &Metrics, reason: DiscoveryRejection, about: &str, is_new: bool) {
    metrics.discovery.rejected[reason].inc();
    if !is_new {
        return;
    }
    let word = reason.as_str();
    if matches!(reason, DiscoveryRejection::Static) {
        info!(
            target: TARGET, event = "ojs.federation.discovery_rejected", region = about, reason = word,
            "a source names a region of the file; that of the file stays in force"
        );
    } else {
        warn!(
            target: TARGET, event = "ojs.federation.discovery_rejected", region = about, reason = word,
            "a region of a source is turned away; it gets no request"
        );
    }
}

/// A region could not be asked to prove its identity.
pub fn discovery_unproven(region: &str, error: &str) {
    debug!(target: TARGET, event = "ojs.federation.discovery_unproven", region, error, "a discovered region cannot be asked for its identity yet");
}

/// A look at a source is over; `trouble` is why it named no region. `is_new`: the look before ended otherwise.
pub fn discovery_looked(metrics: &Metrics, source: DiscoverySource, trouble: Option<&str>, is_new: bool, unix_s: i64) {
    let looks = &metrics.discovery.looks[source];
    match trouble {
        None => {
            looks[DiscoveryLook::Good].inc();
            metrics.discovery.good_look[source].set(unix_s);
            if is_new {
                info!(target: TARGET, event = "ojs.federation.discovery_looked", source = source.as_str(), "the source names regions again");
            }
        }
        Some(trouble) => {
            looks[DiscoveryLook::Failed].inc();
            if is_new {
                warn!(
                    target: TARGET, event = "ojs.federation.discovery_failed", source = source.as_str(), trouble,
                    "the source names no regions; those that are known are kept"
                );
            }
        }
    }
}

/// The file of discovered regions could not be written.
pub fn discovery_cache_failed(what: &str, error: &str) {
    warn!(target: TARGET, event = "ojs.federation.discovery_cache_failed", what, error, "what was discovered does not outlive this process");
}

/// The file of discovered regions has something that is not used.
pub fn discovery_cache_ignored(why: &str) {
    warn!(target: TARGET, event = "ojs.federation.discovery_cache_ignored", why, "what the file of discovered regions has is not used");
}
