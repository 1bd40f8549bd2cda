//! The stages of a promotion, and the hub that carries it out.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::record::SavedPromotion;
use crate::base::text::rfc3339;
use crate::base::{RegionId, SwitchKind, words};

/// The switch of a lost region: no job goes there, and no worker gets one from it.
pub(super) const CLOSED_BY: SwitchKind = SwitchKind::Isolate;

/// How long a hub has a promotion for itself before it must say so again. Longer than one job takes, which is two answers. Units: milliseconds.
const TURN_MS: u64 = 30_000;

words! {
    /// The stage of a promotion.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Stage {
        /// Its jobs are looked for in the index.
        Planning = "planning",
        /// The plan of a dry run is there; nothing more will be done.
        Planned = "planned",
        /// Its jobs are enqueued.
        Moving = "moving",
        /// All of them are; the lost region is waited for.
        Moved = "moved",
        /// The lost region is back: copies there are cancelled.
        Returning = "returning",
        /// Nothing is left to do.
        Done = "done",
    }
}

/// A promotion, as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hub) struct Promotion {
    /// Its name.
    pub(in crate::hub) id: String,
    /// The lost region.
    pub(in crate::hub) from: RegionId,
    /// The region of this hub, which takes the jobs.
    pub(in crate::hub) to: RegionId,
    /// The most jobs a second.
    pub(in crate::hub) rate: u32,
    pub(in crate::hub) stage: Stage,
    /// Only the plan is made.
    pub(in crate::hub) is_dry_run: bool,
    /// Jobs that a worker has are taken, too.
    pub(in crate::hub) with_active: bool,
    /// It was ordered although the region looked healthy, and goes on while it does.
    pub(in crate::hub) is_forced: bool,
    /// An operator has ended it: no further job is enqueued.
    pub(in crate::hub) is_stopped: bool,
    /// An operator does not wait for the lost region: its copies are not cancelled.
    pub(in crate::hub) is_abandoned: bool,
    /// Why it does not go on; none while it does.
    pub(in crate::hub) trouble: Option<String>,
    /// The last job that planning has decided about.
    pub(in crate::hub) planned_to: Option<String>,
    /// When it was ordered. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) began_ms: u64,
    pub(in crate::hub) reason: String,
    pub(in crate::hub) ticket: String,
    pub(in crate::hub) author: String,
    /// The hub that carries it out, and until when it has it for itself, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) runner: Option<(String, u64)>,
}

impl Promotion {
    /// Whether there is something left to do.
    pub(in crate::hub) const fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Planned | Stage::Done)
    }

    /// The lost region, for as long as no other promotion of it may begin.
    pub(super) fn holds(&self) -> Option<&RegionId> {
        (self.is_open() && !self.is_dry_run).then_some(&self.from)
    }

    /// As the record keeps it, made from a version.
    pub(super) fn saved(&self, version: u64) -> SavedPromotion {
        SavedPromotion {
            id: self.id.clone(),
            version,
            document: json!(self).to_string(),
            holds: self.holds().map(|region| region.as_str().to_owned()),
            is_open: self.is_open(),
            began_ms: self.began_ms,
        }
    }

    /// The same in the hands of this hub from now on; none while another hub of the same record has it. `is_shared`: there may be others.
    pub(super) fn taken_by(&self, hub: &str, now_ms: u64, is_shared: bool) -> Option<Self> {
        let is_over = |until_ms: u64| !is_shared || until_ms <= now_ms;
        let is_free = self.runner.as_ref().is_none_or(|(name, until_ms)| name == hub || is_over(*until_ms));
        // It need not say so at each step.
        let is_enough = |(name, until_ms): &(String, u64)| name == hub && *until_ms > now_ms + TURN_MS / 2;
        if self.runner.as_ref().is_some_and(is_enough) {
            return Some(self.clone());
        }
        is_free.then(|| Self { runner: Some((hub.to_owned(), now_ms + TURN_MS)), ..self.clone() })
    }

    /// As answers show it. `counts`: the number of its jobs by step, and of those that stay by the reason.
    pub(super) fn shown(&self, counts: &[(String, Option<String>, u64)]) -> Value {
        let mut steps = serde_json::Map::new();
        let mut left = serde_json::Map::new();
        for (step, why, count) in counts {
            let known = steps.get(step).and_then(Value::as_u64).unwrap_or(0);
            steps.insert(step.clone(), json!(known + count));
            if let Some(why) = why {
                let known = left.get(why).and_then(Value::as_u64).unwrap_or(0);
                left.insert(why.clone(), json!(known + count));
            }
        }
        json!({
            "id": self.id, "from": self.from, "to": self.to, "stage": self.stage, "dry_run": self.is_dry_run, "stopped": self.is_stopped,
            "abandoned": self.is_abandoned, "trouble": self.trouble, "rate": self.rate, "began_at": rfc3339(self.began_ms), "reason": self.reason, "ticket": self.ticket, "author": self.author,
            "jobs": steps, "left": left,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::hub) fn promotion() -> Promotion {
        let region = |id: &str| RegionId::parse(id).unwrap();
        let text = |text: &str| text.to_owned();
        Promotion {
            id: text("p"),
            from: region("us"),
            to: region("eu"),
            rate: 100,
            stage: Stage::Moving,
            is_dry_run: false,
            with_active: false,
            is_forced: false,
            is_stopped: false,
            is_abandoned: false,
            trouble: None,
            planned_to: None,
            began_ms: 5,
            reason: text("fire"),
            ticket: text("OPS-1"),
            author: text("ann"),
            runner: None,
        }
    }

    #[test]
    fn one_hub_has_a_promotion_until_its_turn_is_over_or_it_is_the_only_one() {
        let mine = promotion().taken_by("a", 1_000, true).unwrap();
        assert_eq!(mine.taken_by("b", 1_000 + TURN_MS - 1, true), None);
        assert!(
            mine.taken_by("a", 2_000, true).is_some()
                && mine.taken_by("b", 1_000 + TURN_MS, true).is_some()
                && mine.taken_by("b", 2_000, false).is_some()
        );
    }

    #[test]
    fn a_promotion_shows_the_jobs_of_each_step_and_why_others_stay() {
        let text = |text: &str| text.to_owned();
        let counts =
            [(text("moved"), None, 3), (text("left"), Some(text("bound")), 2), (text("left"), Some(text("active")), 1)];
        let shown = promotion().shown(&counts);
        assert_eq!(
            (&shown["jobs"], &shown["left"]),
            (&json!({ "moved": 3, "left": 3 }), &json!({ "bound": 2, "active": 1 }))
        );
    }
}
