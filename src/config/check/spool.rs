//! The outage spool: its keys are there together, or none is.

use super::super::sections::Spool;
use super::super::types::TenantQueueConfig;
use super::collect::Check;

impl Check {
    /// That no queue with shards is spooled: the spool keeps a job as it was to be sent, and shards may be others by then.
    pub(super) fn spooled_shards(&mut self, spooled: &[String], sharded: &[TenantQueueConfig]) {
        let may_match = |pattern: &str, queue: &str| match pattern.find(['*', '?']) {
            Some(at) => queue.starts_with(&pattern[..at]),
            None => pattern == queue,
        };
        for (at, pattern) in spooled.iter().enumerate() {
            if let Some(queue) = sharded.iter().find(|it| may_match(pattern, &it.queue)) {
                let rule = format!(
                    "expected no queue of scheduling.tenant_queues, such as {}: name the queues to be spooled without it, or leave it out there",
                    queue.queue
                );
                self.refuse(&format!("spool.queues[{at}]"), &rule);
            }
        }
    }

    /// Checks the section. Returns the globs over its queues.
    pub(super) fn spool(&mut self, spool: &Spool) -> Vec<String> {
        self.spool_keys(spool);
        spool.queues.clone()
    }

    fn spool_keys(&mut self, spool: &Spool) {
        if spool.path.is_none() {
            let is_begun = spool.key_file.is_some() || !spool.queues.is_empty();
            if is_begun && !self.is_wrong_within("spool.path") {
                self.refuse("spool.path", "expected the path of the spool's file, because other keys of `spool` are set: set it, or leave them out");
            }
            return;
        }
        if spool.key_file.is_none() && !self.is_wrong_within("spool.key_file") {
            let rule = "expected a file with 64 hexadecimal digits: spooled jobs are kept sealed only; make one with `openssl rand -hex 32`";
            self.refuse("spool.key_file", rule);
        }
        if spool.queues.is_empty() && !self.is_wrong_within("spool.queues") {
            self.refuse(
                "spool.queues",
                "expected at least one queue, such as payments or \"*\": only jobs of these are spooled",
            );
        }
    }
}
