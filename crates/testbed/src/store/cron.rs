//! Cron jobs: kept by name, fired when they are due.

use super::super::answer::Object;
use super::super::cron::{CronJob, Overlap, Plan};
use super::{Job, JobState, Store};
use crate::text::rfc3339;

/// How many cron jobs a region keeps; the answer to one more is the same as in a queue that is full.
const CRONS_MAX: usize = 10_000;

/// A time that was missed by more than this is made up for once, and not run by run: the region was not used meanwhile,
/// and all those runs would be useless. Below, every run happens at its own moment.
const CATCH_UP_MS: u64 = 3_600_000;

impl Store {
    /// Keeps a cron job, and says whether there was none of its name; one that was there goes on with another plan. Nothing when
    /// there are too many.
    pub(crate) fn register(&mut self, plan: Plan) -> Option<(bool, &CronJob)> {
        let now = self.settle();
        let there = self.crons.take(&plan.name);
        if there.is_none() && self.crons.jobs.len() >= CRONS_MAX {
            return None;
        }
        let is_new = there.is_none();
        let next_ms = plan.schedule.next(now).filter(|_| plan.enabled);
        let cron = match there {
            Some(there) => CronJob { plan, next_ms, ..there },
            None => CronJob { plan, next_ms, created_ms: now, last_ms: None, runs: 0, last_job: None },
        };
        self.changed.send_modify(|version| *version += 1);
        Some((is_new, self.crons.enter(cron)))
    }

    pub(crate) fn crons(&mut self) -> Vec<&CronJob> {
        self.settle();
        self.crons.jobs.values().collect()
    }

    pub(crate) fn cron(&mut self, name: &str) -> Option<&CronJob> {
        self.settle();
        self.crons.jobs.get(name)
    }

    pub(crate) fn remove_cron(&mut self, name: &str) -> Option<CronJob> {
        self.settle();
        self.crons.take(name)
    }

    /// Switches a cron job on or off. One that is switched on again goes on from now.
    pub(crate) fn enable_cron(&mut self, name: &str, enabled: bool) -> Option<&CronJob> {
        let now = self.settle();
        let mut cron = self.crons.take(name)?;
        if cron.plan.enabled != enabled {
            cron.plan.enabled = enabled;
            cron.next_ms = cron.plan.schedule.next(now).filter(|_| enabled);
        }
        Some(self.crons.enter(cron))
    }

    /// Runs a cron job now, independent of its schedule and its last run.
    pub(crate) fn trigger_cron(&mut self, name: &str) -> Option<&Job> {
        self.settle();
        let mut cron = self.crons.take(name)?;
        let id = self.run(&mut cron);
        self.crons.enter(cron);
        self.jobs.get(&id)
    }

    /// Runs the cron job that is due first.
    pub(super) fn fire(&mut self, now: u64) {
        let Some((due_ms, name)) = self.crons.due.pop_first() else { return };
        let Some(mut cron) = self.crons.take(&name) else { return };
        let missed_long_ago = now.saturating_sub(due_ms) > CATCH_UP_MS;
        cron.next_ms = cron.plan.schedule.next(if missed_long_ago { now } else { due_ms });
        match self.overlapped(&cron) {
            Some(id) if cron.plan.overlap == Overlap::Skip => self.record_skipped(&cron, &id),
            Some(id) if cron.plan.overlap == Overlap::CancelPrevious => {
                let ended = self.end(&id, JobState::Cancelled, |_| ());
                debug_assert!(ended.is_ok(), "the job was there");
                self.run(&mut cron);
            }
            _ => {
                self.run(&mut cron);
            }
        }
        self.crons.enter(cron);
    }

    /// The last run, unless it is over. One that still waits for a worker counts too, though the documents speak of active ones:
    /// otherwise two that wait would be active together later.
    fn overlapped(&self, cron: &CronJob) -> Option<String> {
        let job = self.jobs.get(cron.last_job.as_deref()?)?;
        (!job.state.is_terminal()).then(|| job.id.clone())
    }

    fn run(&mut self, cron: &mut CronJob) -> String {
        let at_ms = self.at_ms;
        let id = self.put(cron.plan.job(at_ms), None).id.clone();
        cron.runs += 1;
        cron.last_ms = Some(at_ms);
        cron.last_job = Some(id.clone());
        let data = about(cron).text("job_id", &id).number("run_count", cron.runs);
        let data = data.text("job_type", &cron.plan.template.kind).text("scheduled_time", &rfc3339(at_ms));
        self.events.cron("cron.triggered", &cron.plan.name, &cron.plan.template.queue, at_ms, data);
        id
    }

    fn record_skipped(&mut self, cron: &CronJob, active: &str) {
        let data = about(cron).text("reason", "overlap_skip").text("active_job_id", active);
        let data = data.text("scheduled_time", &rfc3339(self.at_ms));
        self.events.cron("cron.skipped", &cron.plan.name, &cron.plan.template.queue, self.at_ms, data);
    }
}

fn about(cron: &CronJob) -> Object {
    let plan = &cron.plan;
    Object::new()
        .text("cron_name", &plan.name)
        .text("cron_expression", &plan.expression)
        .text("timezone", &plan.timezone)
        .text("queue", &plan.template.queue)
}
