//! How the queues of a FETCH share the jobs that workers get.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::raw::{RawScheduling, RawStarvationPrevention};
use super::super::sections::Journal;
use super::super::types::{QueueFloor, Scheduling};
use super::collect::Check;
use crate::base::QueueOrder;
use crate::base::text::parse_duration;

/// As many as a FETCH may name.
const WEIGHTS_MAX: usize = 1_000;
/// The defaults of the specification. Spec: fair-scheduling 8.1.
const ROTATION_INTERVAL: Duration = Duration::from_secs(30);
const MIN_DISPATCH_RATIO: f64 = 0.05;

impl Check {
    /// Checks the section. The journal remembers the leases of pools, and a hub bounds them for the fleet.
    pub(super) fn scheduling(&mut self, raw: RawScheduling, journal: &Journal, has_hub: bool) -> Scheduling {
        let strategy = raw.strategy.as_deref().and_then(QueueOrder::parse);
        let weights = self.weights("scheduling", strategy, raw.weights);
        let floor = self.queue_floor("scheduling", &raw.starvation_prevention, weights.len());
        let pools = self.pools(raw.pools, journal, has_hub);
        if let Some(pool) = &raw.pool {
            let is_known = pools.iter().any(|it| it.name == *pool);
            if !is_known && !self.problems.keys().any(|path| path.starts_with("scheduling.pools")) {
                self.refuse("scheduling.pool", "expected the name of a pool listed under scheduling.pools");
            }
            let unheeded = "all workers of this sidecar are of the pool in `scheduling.pool`: set this in the pool";
            let is_set = [("strategy", strategy.is_some()), ("starvation_prevention", floor.is_some())];
            for (name, _) in is_set.iter().filter(|(_, is_set)| *is_set) {
                self.refuse(&format!("scheduling.{name}"), unheeded);
            }
        }
        let tenant_queues = self.tenant_queues(raw.tenant_queues);
        Scheduling { strategy, weights, floor, pool: raw.pool, pools, tenant_queues }
    }

    /// The weights of a section, which its strategy must heed.
    pub(super) fn weights(
        &mut self,
        section: &str,
        strategy: Option<QueueOrder>,
        raw: BTreeMap<String, String>,
    ) -> BTreeMap<String, u32> {
        let (path, of_strategy) = (format!("{section}.weights"), format!("{section}.strategy"));
        if raw.len() > WEIGHTS_MAX {
            self.refuse(&path, &format!("expected at most {WEIGHTS_MAX} queues"));
        }
        let weight = |(queue, text): (String, String)| {
            let weight = text.parse().ok().filter(|weight| (1..=QueueOrder::WEIGHT_MAX).contains(weight));
            if weight.is_none() {
                let rule = format!("expected a whole number from 1 to {}", QueueOrder::WEIGHT_MAX);
                self.refuse(&format!("{path}.{queue}"), &rule);
            }
            Some((queue, weight?))
        };
        let weights: BTreeMap<String, u32> = raw.into_iter().filter_map(weight).collect();
        if !weights.is_empty() && strategy.is_some_and(|it| it != QueueOrder::Weighted) {
            let rule = format!("only `{of_strategy}: weighted` heeds weights: set that, or leave the weights out");
            self.refuse(&path, &rule);
        }
        if !weights.is_empty() && strategy.is_none() && !self.is_wrong_within(&of_strategy) {
            self.refuse(&of_strategy, &format!("expected weighted, because `{path}` is set"));
        }
        if strategy == Some(QueueOrder::Weighted) && weights.is_empty() && !self.is_wrong_within(&path) {
            self.warn(&path, "not set: all queues have the weight 1, as with round-robin");
        }
        weights
    }

    /// The floor of a section in which so many queues are known.
    pub(super) fn queue_floor(
        &mut self,
        section: &str,
        raw: &RawStarvationPrevention,
        queues: usize,
    ) -> Option<QueueFloor> {
        let path = format!("{section}.starvation_prevention");
        let of_ratio = format!("{path}.min_dispatch_ratio");
        let is_enabled = raw.enabled == Some(true);
        let min_dispatch_ratio = raw.min_dispatch_ratio.unwrap_or(MIN_DISPATCH_RATIO);
        if is_enabled && min_dispatch_ratio <= 0.0 {
            self.refuse(&of_ratio, &format!("expected a share above 0, or `{path}.enabled: false`"));
        }
        #[expect(clippy::cast_precision_loss, reason = "a few queues")]
        if is_enabled && min_dispatch_ratio * queues as f64 > 1.0 {
            self.refuse(
                &of_ratio,
                &format!(
                    "expected at most a {queues}th part: the shares of {queues} queues are more than all jobs together"
                ),
            );
        }
        let rotation_interval = raw.rotation_interval.as_deref().map_or(Ok(ROTATION_INTERVAL), parse_duration).ok()?;
        is_enabled.then_some(QueueFloor { rotation_interval, min_dispatch_ratio })
    }
}
