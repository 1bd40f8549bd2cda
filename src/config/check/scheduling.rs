//! How the queues of a FETCH share the jobs that workers get.

use std::collections::BTreeMap;

use super::super::raw::{RawScheduling, RawStarvationPrevention};
use super::super::types::{QueueFloor, Scheduling};
use super::collect::Check;
use crate::base::QueueOrder;
use crate::base::text::parse_duration;

/// As many as a FETCH may name.
const WEIGHTS_MAX: usize = 1_000;

impl Check {
    /// Checks the section.
    pub(super) fn scheduling(&mut self, raw: RawScheduling) -> Scheduling {
        let strategy = raw.strategy.as_deref().and_then(QueueOrder::parse);
        let weights = self.weights("scheduling.weights", raw.weights);
        if !weights.is_empty() && strategy.is_some_and(|it| it != QueueOrder::Weighted) {
            let rule = "only `scheduling.strategy: weighted` heeds weights: set that, or leave the weights out";
            self.refuse("scheduling.weights", rule);
        }
        if !weights.is_empty() && strategy.is_none() && !self.is_wrong_within("scheduling.strategy") {
            self.refuse("scheduling.strategy", "expected weighted, because `scheduling.weights` is set");
        }
        let floor = self.queue_floor("scheduling.starvation_prevention", &raw.starvation_prevention, weights.len());
        if strategy == Some(QueueOrder::Weighted) && weights.is_empty() {
            self.warn("scheduling.weights", "not set: all queues have the weight 1, as with round-robin");
        }
        Scheduling { strategy, weights, floor }
    }

    fn weights(&mut self, path: &str, raw: BTreeMap<String, String>) -> BTreeMap<String, u32> {
        if raw.len() > WEIGHTS_MAX {
            self.refuse(path, &format!("expected at most {WEIGHTS_MAX} queues"));
        }
        let weight = |(queue, text): (String, String)| {
            let weight = text.parse().ok().filter(|weight| (1..=QueueOrder::WEIGHT_MAX).contains(weight));
            if weight.is_none() {
                let rule = format!("expected a whole number from 1 to {}", QueueOrder::WEIGHT_MAX);
                self.refuse(&format!("{path}.{queue}"), &rule);
            }
            Some((queue, weight?))
        };
        raw.into_iter().filter_map(weight).collect()
    }

    fn queue_floor(&mut self, path: &str, raw: &RawStarvationPrevention, queues: usize) -> Option<QueueFloor> {
        let ratio = format!("{path}.min_dispatch_ratio");
        if raw.enabled && raw.min_dispatch_ratio <= 0.0 {
            self.refuse(&ratio, &format!("expected a share above 0, or `{path}.enabled: false`"));
        }
        #[expect(clippy::cast_precision_loss, reason = "a few queues")]
        if raw.enabled && raw.min_dispatch_ratio * queues as f64 > 1.0 {
            self.refuse(
                &ratio,
                &format!(
                    "expected at most a {queues}th part: the shares of {queues} queues are more than all jobs together"
                ),
            );
        }
        let rotation_interval = parse_duration(&raw.rotation_interval).ok()?;
        raw.enabled.then_some(QueueFloor { rotation_interval, min_dispatch_ratio: raw.min_dispatch_ratio })
    }
}
