//! The topologies, and their rules for other keys. Spec: federation-spec §2.

use std::time::Duration;

use super::super::raw::{RawHub, RawRegion};
use super::super::types::{Decide, HubConfig, Stamp, Topology};
use super::collect::Check;
use crate::base::RegionId;
use crate::base::text::parse_duration;

/// The default of `hub.lease`, which the effective configuration shows in every topology: three beats of the hub, and a second.
const LEASE: Duration = Duration::from_secs(10);

/// How long a spoke sends to other regions, and workers get jobs with `hub.fetch: heard`, after the last sign of life of the hub.
pub(super) fn lease(raw: &RawHub) -> Duration {
    raw.lease.as_deref().and_then(|text| parse_duration(text).ok()).unwrap_or(LEASE)
}

/// The default of `hub.decide_cache`: a region that fails is then left by new jobs as soon as after a failed probe.
const DECIDE_CACHE: Duration = Duration::from_secs(3);
/// The default of `hub.decide_wait`: as long as a call waits for the claim of its `Idempotency-Key`.
const DECIDE_WAIT: Duration = Duration::from_secs(2);

/// The picture of the regions that decides.
pub(super) fn decide(raw: &RawHub) -> Decide {
    raw.decide.as_deref().and_then(Decide::parse).unwrap_or(Decide::View)
}

/// How long an answer of the hub is in force.
pub(super) fn decide_cache(raw: &RawHub) -> Duration {
    raw.decide_cache.as_deref().and_then(|text| parse_duration(text).ok()).unwrap_or(DECIDE_CACHE)
}

/// How long a job waits for the hub.
pub(super) fn decide_wait(raw: &RawHub) -> Duration {
    raw.decide_wait.as_deref().and_then(|text| parse_duration(text).ok()).unwrap_or(DECIDE_WAIT)
}

/// The regions that say of themselves that they are the hub.
pub(super) struct HubRegions {
    /// Their places in the list as it was written.
    places: Vec<usize>,
    ids: Vec<String>,
}

impl HubRegions {
    pub(super) fn of(regions: &[Option<RawRegion>]) -> Self {
        let all = regions.iter().enumerate().filter_map(|(place, region)| Some((place, region.as_ref()?)));
        let hubs: Vec<_> = all.filter(|(_, region)| region.is_hub == Some(true)).collect();
        Self {
            places: hubs.iter().map(|(place, _)| *place).collect(),
            ids: hubs.iter().filter_map(|(_, region)| region.id.clone()).collect(),
        }
    }

    fn has(&self, id: &RegionId) -> bool {
        self.ids.iter().any(|hub| hub == id.as_str())
    }
}

impl Check {
    /// Holds the topology against the regions, the hub and the stamp.
    pub(super) fn topology(
        &mut self,
        topology: Topology,
        hubs: &HubRegions,
        local_region: Option<&RegionId>,
        hub: Option<&HubConfig>,
        stamp: Stamp,
    ) {
        if topology == Topology::HubSpoke {
            self.one_hub(hubs);
            let is_spoke = local_region.is_some_and(|local| !hubs.has(local));
            if hubs.places.len() == 1 && is_spoke && hub.is_none() && !self.is_wrong_within("hub") {
                let rule = "expected the URLs of the hub: local_region is a spoke of `topology: hub-spoke`, and takes its picture of other regions \
                            from there; set hub.urls and hub.tls, or `topology: mesh`";
                self.refuse("hub.urls", rule);
            }
            return;
        }
        for place in &hubs.places {
            let rule = format!(
                "has no effect with `topology: {}`: set `topology: hub-spoke`, or leave is_hub out",
                topology.as_str()
            );
            self.refuse(&format!("regions[{place}].is_hub"), &rule);
        }
        if topology == Topology::ActiveActive && stamp != Stamp::Always {
            let rule = "expected always: with `topology: active-active` copies of a job are recognised by the federation_id that each job gets; leave \
                        routing.stamp out, or set `topology: mesh`";
            self.refuse("routing.stamp", rule);
        }
        let reports = hub.is_some_and(|hub| hub.report_jobs);
        if topology == Topology::ActiveActive && !reports && !self.is_wrong_within("hub") {
            let rule = "expected true: with `topology: active-active` every region sees the jobs of all in the index of its hub, which sidecars report \
                        to; set hub.urls, hub.tls and `hub.report_jobs: true`, or `topology: mesh`";
            self.refuse("hub.report_jobs", rule);
        }
    }

    fn one_hub(&mut self, hubs: &HubRegions) {
        match hubs.places.as_slice() {
            [_] => {}
            [] => self.refuse(
                "topology",
                "hub-spoke expects exactly one region with `is_hub: true`, and none has it: set it at the region of the hub, or \
                 `topology: mesh`",
            ),
            [_, more @ ..] => {
                for place in more {
                    let rule = "another region has `is_hub: true`: `topology: hub-spoke` expects exactly one; leave it out here or there";
                    self.refuse(&format!("regions[{place}].is_hub"), rule);
                }
            }
        }
    }

    /// The keys of `hub` that are for spokes only.
    pub(super) fn hub_of_spokes(&mut self, topology: Topology, raw: &RawHub) {
        let asks = decide(raw) == Decide::Ask;
        if asks && topology != Topology::HubSpoke {
            let rule = "`ask` needs `topology: hub-spoke`, whose spokes forward their questions to the hub: set that, too, or `view`, or leave \
                        hub.decide out";
            self.refuse("hub.decide", rule);
        }
        for (key, is_default) in [
            ("hub.decide_cache", decide_cache(raw) == DECIDE_CACHE),
            ("hub.decide_wait", decide_wait(raw) == DECIDE_WAIT),
        ] {
            if !asks && !is_default {
                self.refuse(
                    key,
                    &format!("has no effect but with `hub.decide: ask`: set that, too, or leave {key} out"),
                );
            }
        }
        if topology != Topology::HubSpoke && raw.fetch.as_deref() != Some("heard") && lease(raw) != LEASE {
            let rule = "has no effect but with `topology: hub-spoke` or `hub.fetch: heard`: set one of them, or leave hub.lease out";
            self.refuse("hub.lease", rule);
        }
    }
}
