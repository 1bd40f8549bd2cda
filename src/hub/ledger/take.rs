//! The reports of sidecars as rows of the history.
//!
//! A job is in the ledger where the sidecar that enqueued it says so. Other sidecars do not know that, so that the ledger keeps the steps of a job
//! that it has not heard of, and none of one that is kept out.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;

use super::super::breaker_desk::Seen;
use super::super::ledger_desk::Ledger;
use super::super::ledger_figures::{Subject, Taken};
use super::super::ledger_step::Step;
use super::super::name::random_salt;
use super::super::record::{Kept, LedgerAppend, LedgerJob, LedgerName, LedgerRow, RecordError};
use super::super::state::Hub;
use super::job::{Job, Status};
use super::row::{DAY_MS, HistoryRow, name_of};
use crate::evidence::leaf_hash;
use crate::policy::ProbeJob;
use crate::replica::{Change, ChangeKind, OwnedDetails, ReportedChange};
use crate::telemetry::event;

/// Tries of one append while other hubs add rows: they are few, and each of their appends is one statement.
const TRIES_MAX: usize = 16;

/// A step that may become a row.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) change: Change,
    /// None where its sidecar says nothing for the ledger.
    pub(super) details: Option<OwnedDetails>,
    /// The permission of a half-open breaker that the job has gone by.
    pub(super) trial: Option<String>,
}

/// Keeps the steps that a sidecar has reported; they are durable when this returns. A repetition adds nothing.
///
/// Errors: the sidecar sends them again.
pub(in crate::hub) async fn take(hub: &Hub, by: &str, changes: &[ReportedChange]) -> Result<(), RecordError> {
    let Some(ledger) = &hub.ledger else { return Ok(()) };
    let reported = changes.iter().map(|it| Reported {
        change: it.change.clone(),
        details: it.details.clone(),
        trial: it.trial.clone(),
    });
    append(hub, ledger, reported.collect(), Some(by)).await
}

/// Keeps the steps that the event stream of a region shows.
///
/// Errors: some may not have been kept.
pub(in crate::hub) async fn observed(hub: &Hub, changes: &[Change]) -> Result<(), RecordError> {
    let Some(ledger) = &hub.ledger else { return Ok(()) };
    for part in changes.chunks(super::super::record::LEDGER_NAMES_MAX) {
        let details = || Some(OwnedDetails::default());
        let reported = part.iter().map(|it| Reported { change: it.clone(), details: details(), trial: None }).collect();
        append(hub, ledger, reported, None).await?;
    }
    Ok(())
}

/// Adds the steps that have no row yet, and keeps their jobs; they are durable when this returns. `by`: the sidecar that has reported them.
///
/// Errors: some may have been kept.
pub(super) async fn append(
    hub: &Hub,
    ledger: &Ledger,
    mut reported: Vec<Reported>,
    by: Option<&str>,
) -> Result<(), RecordError> {
    // A job is described before its other steps are looked at, and the steps of a job follow each other.
    reported
        .sort_by_key(|it| (it.change.kind != ChangeKind::Created, it.change.lease_ms, it.change.kind, it.change.at_ms));
    let names: Vec<LedgerName> = reported.iter().map(|it| named(&it.change)).collect();
    let _turn = ledger.turn.lock().await;
    for _ in 0..TRIES_MAX {
        let now_ms = hub.clock.unix_ms();
        let mut day = now_ms / DAY_MS;
        let mut state = hub.record.ledger_state(day, names.clone()).await?;
        if state.closed >= day {
            // A hub whose clock is ahead has closed this day.
            day = state.closed + 1;
            state = hub.record.ledger_state(day, names.clone()).await?;
        }
        // One that only a later version reads begins anew: its reports must not stand in the way of all others.
        let jobs = std::mem::take(&mut state.jobs).into_iter().filter_map(|it| {
            let job = serde_json::from_str::<Job>(&it.document).inspect_err(|_| event::hub_ledger_unread(&it.job_id));
            Some(((it.job_id, it.region), job.ok()?))
        });
        let known: BTreeSet<LedgerName> = state.known.into_iter().collect();
        let (change, from) = (state.change, state.rows);
        let (jobs, is_watched) = (jobs.collect(), hub.breakers.is_on());
        let mut adding = Adding { change, day, from, now_ms, jobs, is_watched, ..Adding::new(known) };
        for it in &reported {
            adding.add(it, by);
        }
        let (taken, seen) = (std::mem::take(&mut adding.taken), std::mem::take(&mut adding.seen));
        let append = adding.append();
        if append.rows.is_empty() && append.jobs.is_empty() {
            hub.breakers.note(seen, now_ms);
            return Ok(());
        }
        if hub.record.append_ledger(append).await? == Kept::Kept {
            ledger.figures.note(taken, now_ms);
            hub.breakers.note(seen, now_ms);
            return Ok(());
        }
    }
    Err(RecordError::Contended)
}

fn named(change: &Change) -> LedgerName {
    LedgerName { job_id: change.job_id.clone(), region: change.region.as_str().to_owned(), name: name_of(change) }
}

/// The rows of one append.
#[derive(Debug, Default)]
struct Adding {
    change: u64,
    day: u64,
    from: u64,
    now_ms: u64,
    known: BTreeSet<LedgerName>,
    jobs: BTreeMap<(String, String), Job>,
    changed: BTreeSet<(String, String)>,
    rows: Vec<LedgerRow>,
    /// The copies that are kept out of the ledger although it has rows of them.
    erased: Vec<(String, String)>,
    /// For the figures.
    taken: Vec<Taken>,
    /// For the breakers, where there are any.
    seen: Vec<Seen>,
    is_watched: bool,
}

impl Adding {
    fn new(known: BTreeSet<LedgerName>) -> Self {
        Self { known, ..Self::default() }
    }

    /// Adds a step, unless it has a row or its job is kept out of the ledger.
    fn add(&mut self, reported: &Reported, by: Option<&str>) {
        let Reported { change, details, trial } = reported;
        let copy = (change.job_id.clone(), change.region.as_str().to_owned());
        let name = named(change);
        let is_known = self.known.contains(&name);
        // The hub may have ended before it followed the job.
        if let Some(job) = self.jobs.get(&copy).filter(|_| is_known && self.is_watched && trial.is_some()) {
            self.seen.push(seen(job, change, (Step::Leased, false), (by, trial.as_ref())));
        }
        match (details, self.jobs.get_mut(&copy)) {
            (_, Some(job)) if job.is_off => return,
            // Its worker's sidecar was heard before the one that keeps it out.
            (None, before) if change.kind == ChangeKind::Created && !is_known => {
                if before.is_some() {
                    self.erased.push(copy.clone());
                }
                self.jobs.insert(copy.clone(), Job::kept_out(change.at_ms));
                self.changed.insert(copy);
                return;
            }
            (None, None) => return,
            (Some(details), Some(job)) if is_known => {
                if job.extend(change, details) {
                    self.changed.insert(copy);
                }
                return;
            }
            _ if is_known => return,
            _ => {}
        }
        self.known.insert(name.clone());
        let (none, number) = (OwnedDetails::default(), self.from + self.rows.len() as u64);
        let details = details.as_ref().unwrap_or(&none);
        let row = HistoryRow::of(change, details, by, self.now_ms, random_salt());
        let row = HistoryRow { day: super::row::day_text(self.day), number, ..row };
        let Ok(line) = row.line() else {
            debug_assert!(false, "texts and numbers are always written");
            return;
        };
        let leaf = leaf_hash(line.as_bytes());
        let job = self.jobs.entry(copy.clone()).or_default();
        let before = (job.failures(), job.status());
        job.take(change, details);
        job.last = (self.day, number, HEXLOWER.encode(&leaf));
        let latency_ms = change.at_ms.saturating_sub(job.enqueued_ms());
        self.taken.push(Taken {
            subject: Subject::new(job.job_type.as_deref(), job.tenant.as_deref()),
            step: row.event,
            latency_ms: (row.event == Step::Succeeded).then_some(latency_ms),
        });
        if self.is_watched {
            let is_new_end =
                job.failures() > before.0 || (job.status() == Status::Succeeded && before.1 != Status::Succeeded);
            self.seen.push(seen(job, change, (row.event, is_new_end), (by, trial.as_ref())));
        }
        event::ledger_step(&job.logged(&row));
        self.rows.push(LedgerRow { day: self.day, number, name, leaf: leaf.to_vec(), line: Some(line), of_job: None });
        self.changed.insert(copy);
    }

    fn append(mut self) -> LedgerAppend {
        let changed = std::mem::take(&mut self.changed);
        let jobs = changed.into_iter().filter_map(|copy| {
            let job = self.jobs.remove(&copy)?;
            let (job_id, region) = copy;
            Some(LedgerJob {
                job_id,
                region,
                tenant: job.tenant.clone(),
                job_type: job.job_type.clone(),
                is_bound: job.bound.unwrap_or(false),
                enqueued_ms: job.enqueued_ms(),
                is_waiting: !job.is_off && job.status().is_waiting(),
                learned_ms: self.now_ms,
                document: serde_json::json!(job).to_string(),
            })
        });
        let jobs = jobs.collect();
        let Self { change, day, from, rows, erased, .. } = self;
        LedgerAppend { change, day, from, rows, jobs, erased }
    }
}

/// A step for the breakers.
fn seen(
    job: &Job,
    change: &Change,
    (step, is_new_end): (Step, bool),
    (by, trial): (Option<&str>, Option<&String>),
) -> Seen {
    // The failure of a new job may be heard of before its enqueue, by another sidecar. One that was stored before, and is the answer to the enqueue of
    // another, has its own failures.
    let is_new = change.kind == ChangeKind::Created && (step != Step::Leased || change.at_ms <= job.first_ms);
    let failures = if is_new { 0 } else { job.failures().into() };
    Seen {
        job_type: job.job_type.clone(),
        tenant: job.tenant.clone(),
        step,
        is_new_end,
        job: ProbeJob {
            job_id: change.job_id.clone(),
            region: change.region.as_str().to_owned(),
            failures,
            is_bound: job.bound != Some(false),
        },
        at_ms: change.at_ms,
        by: by.map(str::to_owned),
        trial: trial.cloned(),
    }
}

#[cfg(test)]
mod tests;
