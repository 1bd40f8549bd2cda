//! A replay, as the record keeps it.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::name::random_salt;
use super::super::record::{RecordError, ReplayJob, ReplayStep, SavedReplay, StepCount};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::order::ReplayOrder;
use crate::base::RegionId;
use crate::base::text::rfc3339;

/// How long a hub has a replay for itself before it must say so again. Where it takes longer, another hub takes the replay, and the versions and the
/// steps of the jobs keep the two apart. Units: milliseconds.
const TURN_MS: u64 = 30_000;

/// A replay of one job or of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replay {
    /// Its name.
    pub(super) id: String,
    /// Whether it is one of many jobs.
    pub(super) is_bulk: bool,
    /// Its jobs are looked at, and nothing is enqueued.
    pub(super) is_dry_run: bool,
    /// An operator has ended it.
    pub(super) is_stopped: bool,
    /// The region that must have its jobs; none for the one that has each.
    pub(super) region: Option<RegionId>,
    /// The digest that the arguments of its job must have.
    pub(super) digest: Option<String>,
    /// Whether its jobs are run again also where the ledger has other digests of their arguments.
    #[serde(default)]
    pub(super) is_ledger_ignored: bool,
    pub(super) priority: i64,
    /// The most jobs a second.
    pub(super) per_second: u32,
    /// The number of its jobs.
    pub(super) jobs: u64,
    /// The filter over the ledger that picked them, as JSON.
    #[serde(default)]
    pub(super) filter: Option<String>,
    /// Random bits, in hex, of which each line of its manifest has some of its own; none for one of an earlier version, which has no manifest.
    #[serde(default)]
    pub(super) salt: Option<String>,
    /// The root of its manifest, once it has ended.
    #[serde(default)]
    pub(super) manifest: Option<String>,
    /// Why it does not go on; none while it does.
    pub(super) trouble: Option<String>,
    /// When it was ordered. Units: milliseconds since the Unix epoch.
    pub(super) began_ms: u64,
    /// When its last job came to its end.
    pub(super) ended_ms: Option<u64>,
    /// The jobs at each step, once it has ended.
    pub(super) counts: Vec<StepCount>,
    /// The same for the same order.
    pub(super) fingerprint: String,
    /// The client that ordered it.
    pub(super) caller: String,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
    /// The hub that carries it out, and until when it has it for itself, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(super) runner: Option<(String, u64)>,
}

impl Replay {
    /// A new one. `runner`: the hub that carries it out at once, if any.
    pub(super) fn new(
        id: String,
        order: &ReplayOrder,
        (region, is_bulk): (Option<RegionId>, bool),
        (caller, runner): (&str, Option<&str>),
        now_ms: u64,
    ) -> Self {
        Self {
            id,
            is_bulk,
            is_dry_run: order.is_dry_run,
            is_stopped: false,
            digest: order.digest.clone(),
            is_ledger_ignored: order.is_ledger_ignored,
            priority: order.priority,
            per_second: order.per_second,
            jobs: order.jobs.len() as u64,
            filter: None,
            salt: Some(random_salt()),
            manifest: None,
            trouble: None,
            began_ms: now_ms,
            ended_ms: None,
            counts: Vec::new(),
            fingerprint: order.fingerprint(region.as_ref()),
            region,
            caller: caller.to_owned(),
            reason: order.grounds.reason.clone(),
            ticket: order.grounds.ticket.clone(),
            author: order.grounds.author.clone(),
            runner: runner.map(|name| (name.to_owned(), now_ms.saturating_add(TURN_MS))),
        }
    }

    /// Whether there is something left to do.
    pub(super) const fn is_open(&self) -> bool {
        self.ended_ms.is_none()
    }

    /// As the record keeps it, made from a version.
    pub(super) fn saved(&self, version: u64) -> SavedReplay {
        let (id, document) = (self.id.clone(), json!(self).to_string());
        SavedReplay { id, version, document, is_open: self.is_open(), began_ms: self.began_ms }
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

    /// The object of a row of the audit trail.
    pub(super) fn subject(&self) -> String {
        let dry = if self.is_dry_run { ", a dry run" } else { "" };
        let filter = self.filter.as_ref().map(|filter| format!(", all with {filter}")).unwrap_or_default();
        format!("replay {} of {} jobs at {} a second{filter}{dry}", self.id, self.jobs, self.per_second)
    }

    /// As answers show it, with the number of its jobs at each step, and of those that were not run again by the reason.
    pub(super) fn shown(&self, counts: &[StepCount]) -> Value {
        let (mut steps, mut refused) = (Map::new(), Map::new());
        let add = |to: &mut Map<String, Value>, key: &str, count: u64| {
            let known = to.get(key).and_then(Value::as_u64).unwrap_or(0);
            to.insert(key.to_owned(), json!(known + count));
        };
        for (step, why, count) in counts {
            add(&mut steps, step, *count);
            if let Some(why) = why {
                add(&mut refused, why, *count);
            }
        }
        json!({
            "id": self.id, "bulk": self.is_bulk, "dry_run": self.is_dry_run, "stopped": self.is_stopped, "done": !self.is_open(),
            "region": self.region, "priority": self.priority, "per_second": self.per_second, "trouble": self.trouble,
            "ordered_at": rfc3339(self.began_ms), "ended_at": self.ended_ms.map(rfc3339),
            "reason": self.reason, "ticket": self.ticket, "author": self.author, "jobs": self.jobs, "filter": self.filter, "steps": steps, "refused": refused,
        })
    }
}

/// A job of a replay, as answers show it.
pub(super) fn shown_job(it: &ReplayJob) -> Value {
    json!({
        "job_id": it.job_id, "region": it.region, "step": it.step, "new_id": it.new_id, "digest": it.digest, "why": it.why,
        "note": it.detail, "at": rfc3339(it.changed_ms),
    })
}

/// A replay by its name.
///
/// Errors: 404 where there is none.
pub(super) async fn find(hub: &Hub, id: &str) -> Result<(SavedReplay, Replay), Refusal> {
    let saved = hub.record.replay(id).await?.ok_or_else(|| {
        let message = "there is no such replay; `ojs-sidecar replays` lists those that there are".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
    })?;
    let replay = read_replay(&saved)?;
    Ok((saved, replay))
}

/// The replay of its saved form.
///
/// Errors: [`RecordError::Content`].
pub(super) fn read_replay(saved: &SavedReplay) -> Result<Replay, RecordError> {
    serde_json::from_str(&saved.document).map_err(|_| RecordError::Content("a replay of a later version"))
}

/// The jobs of an order, none of them begun.
///
/// `jobs`: each with the region that has to have it, where that is known.
pub(super) fn waiting(jobs: impl IntoIterator<Item = (String, Option<String>)>) -> Vec<ReplayJob> {
    let row = |(place, (job_id, region)): (usize, (String, Option<String>))| ReplayJob {
        place: place as u64,
        job_id,
        region,
        step: ReplayStep::Waiting.as_str().to_owned(),
        ..ReplayJob::default()
    };
    jobs.into_iter().enumerate().map(row).collect()
}

/// The step of a job, by its word in the record.
pub(super) fn step_of(job: &ReplayJob) -> Option<ReplayStep> {
    ReplayStep::ALL.into_iter().find(|it| it.as_str() == job.step)
}

/// Whether no hub has anything left to do about a job.
pub(super) fn has_ended(job: &ReplayJob) -> bool {
    !matches!(step_of(job), None | Some(ReplayStep::Waiting | ReplayStep::Sending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Grounds;

    fn replay() -> Replay {
        let text = |text: &str| text.to_owned();
        let grounds = Grounds { reason: text("r"), ticket: text("T-1"), author: text("ann") };
        let order = ReplayOrder {
            grounds,
            name: None,
            digest: None,
            is_ledger_ignored: false,
            is_dry_run: false,
            priority: 100,
            per_second: 10,
            jobs: vec![text("a"), text("b")],
            filter: None,
        };
        Replay::new(text("p"), &order, (None, true), ("ann.x", None), 5)
    }

    #[test]
    fn one_hub_has_a_replay_until_its_turn_is_over_or_it_is_the_only_one() {
        let mine = replay().taken_by("a", 1_000, true).unwrap();
        assert_eq!(mine.taken_by("b", 1_000 + TURN_MS - 1, true), None);
        assert!(
            mine.taken_by("a", 2_000, true).is_some()
                && mine.taken_by("b", 1_000 + TURN_MS, true).is_some()
                && mine.taken_by("b", 2_000, false).is_some()
        );
    }

    #[test]
    fn a_replay_shows_the_jobs_at_each_step_and_why_others_were_not_run_again() {
        let text = |text: &str| text.to_owned();
        let counts = [
            (text("replayed"), None, 3),
            (text("refused"), Some(text("not_found")), 2),
            (text("refused"), Some(text("ambiguous")), 1),
        ];
        let shown = replay().shown(&counts);
        assert_eq!(shown["steps"], json!({ "replayed": 3, "refused": 3 }));
        assert_eq!(shown["refused"], json!({ "not_found": 2, "ambiguous": 1 }));
        assert_eq!(replay().subject(), "replay p of 2 jobs at 10 a second");
    }
}
