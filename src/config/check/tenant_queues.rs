//! Queues whose tenants share workers.

use std::collections::BTreeMap;

use super::super::raw::RawTenantQueue;
use super::super::types::{TenantMode, TenantQueueConfig};
use super::collect::Check;
use crate::base::QueueOrder;

/// Each has a hundred names in the FETCHes of its workers.
const QUEUES_MAX: usize = 8;
/// Names of a queue beside its own.
const NAMES_MAX: usize = 128;
/// One less than the bands of priorities.
const BOUNDS_MAX: usize = 3;
const SHARDS: u8 = 32;
/// The marks that stand behind a queue's name in those of its shards.
const MARK: &str = ".ojs-";
/// As many tenants as there may be rules for.
const WEIGHTS_MAX: usize = 1_000;

impl Check {
    /// `scheduling.tenant_queues`: each name once, and one that servers take with the longest suffix of a shard.
    pub(super) fn tenant_queues(&mut self, raw: Vec<Option<RawTenantQueue>>) -> Vec<TenantQueueConfig> {
        const PATH: &str = "scheduling.tenant_queues";
        if raw.len() > QUEUES_MAX {
            self.refuse(PATH, &format!("expected at most {QUEUES_MAX} queues"));
            return Vec::new();
        }
        let mut queues: Vec<TenantQueueConfig> = Vec::new();
        for (at, raw) in raw.into_iter().enumerate() {
            let path = format!("{PATH}[{at}]");
            let Some(queue) = raw.and_then(|raw| self.tenant_queue(&path, raw)) else { continue };
            if queues.iter().any(|it| it.queue == queue.queue) {
                self.refuse(&format!("{path}.queue"), "the queue is listed already: leave it out");
            }
            queues.push(queue);
        }
        queues
    }

    fn tenant_queue(&mut self, path: &str, raw: RawTenantQueue) -> Option<TenantQueueConfig> {
        let [of_queue, of_bands, of_shards] = ["queue", "priority_bands", "shards"].map(|key| format!("{path}.{key}"));
        if raw.queue.is_none() && !self.is_wrong_within(&of_queue) {
            self.refuse(&of_queue, "expected the name of the queue");
        }
        if raw.queue.as_deref().is_some_and(|queue| !is_plain(queue)) {
            let rule = format!(
                "expected a name of small letters, digits, `-` and `.` that begins with a letter or a digit and has no `{MARK}` in it"
            );
            self.refuse(&of_queue, &rule);
        }
        let bands = raw.priority_bands;
        if bands.len() > BOUNDS_MAX || !bands.is_sorted_by(|one, next| one > next) {
            self.refuse(&of_bands, &format!("expected at most {BOUNDS_MAX} priorities, each less than the one before"));
        }
        let shards = raw.shards.unwrap_or(SHARDS);
        if usize::from(shards) * (bands.len() + 1) > NAMES_MAX {
            let rule = format!("expected at most {NAMES_MAX} shards in all {} bands together", bands.len() + 1);
            self.refuse(&of_shards, &rule);
        }
        Some(TenantQueueConfig {
            queue: raw.queue?,
            shards,
            weights: self.tenant_weights(path, raw.weights),
            default_weight: raw.default_weight.unwrap_or(1),
            priority_bands: bands,
            mode: raw.mode.as_deref().and_then(TenantMode::parse).unwrap_or(TenantMode::Fill),
        })
    }

    fn tenant_weights(&mut self, path: &str, raw: BTreeMap<String, String>) -> BTreeMap<String, u32> {
        let path = format!("{path}.weights");
        if raw.len() > WEIGHTS_MAX {
            self.refuse(&path, &format!("expected at most {WEIGHTS_MAX} tenants"));
        }
        let weight = |(tenant, text): (String, String)| {
            let weight = text.parse().ok().filter(|weight| (1..=QueueOrder::WEIGHT_MAX).contains(weight));
            if weight.is_none() {
                let rule = format!("expected a whole number from 1 to {}", QueueOrder::WEIGHT_MAX);
                self.refuse(&format!("{path}.{tenant}"), &rule);
            }
            Some((tenant, weight?))
        };
        raw.into_iter().filter_map(weight).collect()
    }
}

/// Whether servers take the name, with the suffix of a shard.
fn is_plain(queue: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    queue.bytes().all(|byte| is_end(byte) || matches!(byte, b'-' | b'.'))
        && queue.bytes().next().is_some_and(is_end)
        && !queue.contains(MARK)
}
