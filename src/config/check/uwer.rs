//! Tasks of the legacy orchestration UWER.

use std::time::Duration;

use super::super::raw::{RawUwer, RawUwerOrigin};
use super::super::types::{Uwer, UwerOrigin};
use super::collect::Check;

/// A claim is longer than its call, and at most an hour.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(30 * 60);
/// Services that differ in type or queue; each is looked at for each task.
const ORIGINS_MAX: usize = 256;

impl Check {
    /// `uwer`: needs a hub, and each type and queue is one that servers take. Spec: ojs-protocol 3.
    pub(super) fn uwer(
        &mut self,
        raw: RawUwer,
        has_hub: bool,
        call_timeout: Duration,
        spooled: &[String],
    ) -> Option<Uwer> {
        if raw.enabled && !has_hub && !self.is_wrong_within("hub") {
            let rule = "`uwer` needs hub.urls, because the hub keeps the tasks: set that, too, or leave `uwer` out";
            self.refuse("uwer.enabled", rule);
        }
        if raw.enabled && call_timeout > CALL_TIMEOUT_MAX {
            self.refuse(
                "limits.call_timeout",
                "expected at most 30min with `uwer.enabled`: a task is claimed at the hub for longer than its call",
            );
        }
        if raw.origins.len() > ORIGINS_MAX {
            self.refuse("uwer.origins", &format!("expected at most {ORIGINS_MAX} services"));
        }
        let origins = raw.origins.into_iter().enumerate();
        let origins = origins.filter_map(|(at, raw)| self.uwer_origin(&format!("uwer.origins[{at}]"), raw?));
        // Their mistakes are named also while it is off.
        let uwer = Uwer { origins: origins.collect() };
        let uwer = raw.enabled.then_some(uwer)?;
        self.spooled_tasks(spooled, &uwer);
        Some(uwer)
    }

    /// That no queue of tasks is spooled: a job in the spool of one sidecar is in no region, where another one looks for it.
    fn spooled_tasks(&mut self, spooled: &[String], uwer: &Uwer) {
        let usual = [UwerOrigin::QUEUE];
        let queues = uwer.origins.iter().map(|it| it.queue.as_str()).chain(usual);
        let is_spooled = |queue: &str, pattern: &String| wildmatch::WildMatch::new(pattern).matches(queue);
        for (at, pattern) in spooled.iter().enumerate() {
            if let Some(queue) = queues.clone().find(|queue| is_spooled(queue, pattern)) {
                let rule = format!(
                    "expected no queue of tasks of UWER, such as {queue}: their jobs are in a region or not accepted"
                );
                self.refuse(&format!("spool.queues[{at}]"), &rule);
            }
        }
    }

    fn uwer_origin(&mut self, path: &str, raw: RawUwerOrigin) -> Option<UwerOrigin> {
        let [of_origin, of_type, of_queue] = ["origin", "type", "queue"].map(|key| format!("{path}.{key}"));
        if raw.origin.is_none() && !self.is_wrong_within(&of_origin) {
            self.refuse(&of_origin, "expected a glob over `OriginService`, such as inventory-*");
        }
        let job_type = raw.job_type.unwrap_or_else(|| UwerOrigin::TYPE.to_owned());
        if !is_type(&job_type) {
            let rule =
                "expected words of small letters, digits, `_` and `-` that begin with a letter, with `.` between them";
            self.refuse(&of_type, rule);
        }
        let queue = raw.queue.unwrap_or_else(|| UwerOrigin::QUEUE.to_owned());
        if !is_queue(&queue) {
            let rule = "expected small letters, digits, `-` and `.`, beginning with a letter or a digit";
            self.refuse(&of_queue, rule);
        }
        Some(UwerOrigin { origin: raw.origin?, job_type, queue })
    }
}

fn is_type(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|it: char| it.is_ascii_lowercase())
            && word.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'_' | b'-'))
    };
    name.split('.').all(is_word)
}

fn is_queue(name: &str) -> bool {
    let is_end = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    name.bytes().next().is_some_and(is_end) && name.bytes().all(|it| is_end(it) || matches!(it, b'-' | b'.'))
}
