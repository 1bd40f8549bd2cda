//! Tasks of the legacy orchestration UWER.

use super::super::raw::{RawUwer, RawUwerOrigin};
use super::super::types::{Uwer, UwerOrigin};
use super::collect::Check;

/// Services that differ in type or queue; each is looked at for each task.
const ORIGINS_MAX: usize = 256;

impl Check {
    /// `uwer`: needs a hub, and each type and queue is one that servers take. Spec: ojs-protocol 3.
    pub(super) fn uwer(&mut self, raw: RawUwer, has_hub: bool) -> Option<Uwer> {
        if raw.enabled && !has_hub && !self.is_wrong_within("hub") {
            let rule = "`uwer` needs hub.urls, because the hub keeps the tasks: set that, too, or leave `uwer` out";
            self.refuse("uwer.enabled", rule);
        }
        if raw.origins.len() > ORIGINS_MAX {
            self.refuse("uwer.origins", &format!("expected at most {ORIGINS_MAX} services"));
        }
        let origins = raw.origins.into_iter().enumerate();
        let origins = origins.filter_map(|(at, raw)| self.uwer_origin(&format!("uwer.origins[{at}]"), raw?));
        // Their mistakes are named also while it is off.
        let uwer = Uwer { origins: origins.collect() };
        raw.enabled.then_some(uwer)
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
