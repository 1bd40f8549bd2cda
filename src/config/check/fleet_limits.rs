//! The limits that the hub keeps for all sidecars.

use super::super::raw::RawFleetLimit;
use super::super::types::{FleetLimit, LimitWithoutHub};
use super::collect::{Check, Registered};

impl Check {
    /// `limits.fleet`: each region once, and only with a hub.
    pub(super) fn fleet_limits(
        &mut self,
        raw: Vec<Option<RawFleetLimit>>,
        registered: &Registered,
        has_hub: bool,
    ) -> Vec<FleetLimit> {
        if !raw.is_empty() && !has_hub && !self.is_wrong_within("hub") {
            self.refuse("limits.fleet", "a fleet limit needs hub.urls: the hub grants its calls");
        }
        let mut limits: Vec<FleetLimit> = Vec::new();
        for (at, raw) in raw.into_iter().enumerate() {
            let path = format!("limits.fleet[{at}]");
            let Some(limit) = raw.and_then(|raw| self.fleet_limit(&path, raw, registered)) else { continue };
            if limits.iter().any(|it| it.region == limit.region) {
                self.refuse(&format!("{path}.region"), "the region is listed already: expected one limit for it");
            }
            limits.push(limit);
        }
        limits
    }

    fn fleet_limit(&mut self, path: &str, raw: RawFleetLimit, registered: &Registered) -> Option<FleetLimit> {
        let of_region = format!("{path}.region");
        if raw.region.is_none() && !self.is_wrong_within(&of_region) {
            self.refuse(&of_region, "expected the id of a region listed under regions");
        }
        let region = raw.region.and_then(|name| self.named(registered, &of_region, &name));
        let on_loss = format!("{path}.on_hub_loss");
        if raw.on_hub_loss.is_none() && !self.is_wrong_within(&on_loss) {
            self.refuse(&on_loss, "expected hold, local or refuse: what becomes of the calls while the hub is away");
        }
        let on_hub_loss = LimitWithoutHub::parse(&raw.on_hub_loss?)?;
        let of_calls = format!("{path}.local_calls");
        match (on_hub_loss, raw.local_calls) {
            (LimitWithoutHub::Local, None) if !self.is_wrong_within(&of_calls) => {
                self.refuse(&of_calls, "expected the calls at once of this sidecar without a grant, for `local`");
            }
            (LimitWithoutHub::Hold | LimitWithoutHub::Refuse, Some(_)) => {
                self.refuse(&of_calls, "only `on_hub_loss: local` uses it: leave it out");
            }
            _ => {}
        }
        Some(FleetLimit { region: region?, on_hub_loss, local_calls: raw.local_calls })
    }
}
