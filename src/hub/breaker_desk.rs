//! The ends of jobs by type and tenant, the incidents that are open, and the figures of both.
//!
//! Ends are counted in spans of a tenth of a window, by the clocks of the sidecars that report them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::sync::{Notify, watch};

mod figures;

use super::breaker_settings::{BreakerSettings, IncidentSettings, WINDOW_MAX};
use super::incident::{EVIDENCE_JOBS_MAX, Incident};
use super::ledger_step::Step;
use super::name::random_name;
use super::record::SavedEnds;
use crate::policy::{EndCounts, ProbeJob};

/// Types and tenants that are counted at once, which are words of clients: some 15 KiB each where all fail and ids have 36 bytes,
/// by a window of spans with [`EVIDENCE_JOBS_MAX`] of them. Ends of further ones are counted in a metric alone.
const KEYS_MAX: usize = 1_024;
/// Spans of a window.
const SPANS: u64 = 10;
/// Sidecars of a type and a tenant that are remembered, as those that may get a permission.
const SIDECARS_MAX: usize = 8;
/// Jobs that went by a permission and were not looked at yet. One permission is out for each open incident.
const WENT_MAX: usize = 1_024;

/// A type and a tenant.
pub(super) type Key = (String, Option<String>);

/// A step of a job that the ledger has taken.
#[derive(Debug)]
pub(super) struct Seen {
    /// None where no sidecar has described the job yet: then it does not count.
    pub(super) job_type: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) step: Step,
    /// Whether it is an end that the ledger did not have: an event stream repeats the reports of sidecars.
    pub(super) is_new_end: bool,
    pub(super) job: ProbeJob,
    /// Units: milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    /// The sidecar that has reported it; none where an event stream has shown it.
    pub(super) by: Option<String>,
    /// The permission that it went by.
    pub(super) trial: Option<String>,
}

/// The ends of one span.
#[derive(Debug, Clone, Default)]
struct Span {
    ends: EndCounts,
    jobs: VecDeque<String>,
    /// Whether the record lacks some of them.
    is_unsaved: bool,
}

#[derive(Debug, Default)]
struct Counted {
    /// By when each begins. Units: milliseconds since the Unix epoch.
    spans: BTreeMap<u64, Span>,
    /// Sidecars that have enqueued its jobs, and those whose workers had them; the last ones first.
    sidecars: [VecDeque<String>; 2],
    /// Spans that begin before this do not count. Units: milliseconds since the Unix epoch.
    from_ms: u64,
}

impl Counted {
    fn note_sidecar(&mut self, is_worker: bool, name: &str) {
        let sidecars = &mut self.sidecars[usize::from(is_worker)];
        sidecars.retain(|it| it != name);
        sidecars.push_front(name.to_owned());
        sidecars.truncate(SIDECARS_MAX);
    }
}

/// The breakers of one hub.
#[derive(Debug)]
pub(super) struct BreakerDesk {
    settings: Vec<BreakerSettings>,
    pub(super) incidents: Option<IncidentSettings>,
    /// The name of this process among those that share the record.
    pub(super) process: String,
    counted: RefCell<BTreeMap<Key, Counted>>,
    /// The ends that other hubs have heard of, by when their spans begin.
    elsewhere: RefCell<BTreeMap<Key, BTreeMap<u64, Span>>>,
    went: RefCell<Vec<(String, ProbeJob)>>,
    /// Notified when something may be decided.
    pub(super) noted: Notify,
    /// Notified when a message may be due.
    pub(super) owed: Notify,
    /// None before the record was read.
    open: watch::Sender<Option<Arc<Vec<Incident>>>>,
    uncounted: Cell<u64>,
    late: Cell<u64>,
    /// The types and tenants that trip and find no place among the open incidents; as many as are counted at most.
    unplaced: RefCell<BTreeSet<Key>>,
    unplaced_ever: Cell<u64>,
    pub(super) trips: Cell<u64>,
    pub(super) messages_sent: Cell<u64>,
    pub(super) messages_failed: Cell<u64>,
    pub(super) messages_given_up: Cell<u64>,
}

impl BreakerDesk {
    pub(super) fn new(settings: Vec<BreakerSettings>, incidents: Option<IncidentSettings>) -> Self {
        Self {
            settings,
            incidents,
            process: random_name(),
            counted: RefCell::default(),
            elsewhere: RefCell::default(),
            went: RefCell::default(),
            noted: Notify::new(),
            owed: Notify::new(),
            open: watch::channel(None).0,
            uncounted: Cell::default(),
            late: Cell::default(),
            unplaced: RefCell::default(),
            unplaced_ever: Cell::default(),
            trips: Cell::default(),
            messages_sent: Cell::default(),
            messages_failed: Cell::default(),
            messages_given_up: Cell::default(),
        }
    }

    /// Whether there are any breakers.
    pub(super) const fn is_on(&self) -> bool {
        !self.settings.is_empty()
    }

    /// The breaker of a type and a tenant.
    pub(super) fn of(&self, (job_type, tenant): (&str, Option<&str>)) -> Option<&BreakerSettings> {
        self.settings.iter().find(|it| it.fits(job_type, tenant))
    }

    /// Takes steps that the record has.
    pub(super) fn note(&self, steps: Vec<Seen>, now_ms: u64) {
        let (mut may_decide, mut may_evict) = (false, true);
        for it in steps {
            if let Some(trial) = it.trial {
                self.give_went(vec![(trial, it.job.clone())]);
                may_decide = true;
            }
            let Some(job_type) = it.job_type else { continue };
            let Some(breaker) = self.of((&job_type, it.tenant.as_deref())) else { continue };
            let window_ms = breaker.terms().window_ms;
            let end = match it.step {
                _ if !it.is_new_end => EndCounts::default(),
                Step::Succeeded => EndCounts { succeeded: 1, failed: 0 },
                Step::Failed | Step::Retried | Step::DeadLettered => EndCounts { succeeded: 0, failed: 1 },
                _ => EndCounts::default(),
            };
            let key = (job_type, it.tenant);
            let mut counted = self.counted.borrow_mut();
            if !counted.contains_key(&key) && counted.len() >= KEYS_MAX && std::mem::take(&mut may_evict) {
                self.evict(&mut counted, now_ms);
            }
            if !counted.contains_key(&key) && counted.len() >= KEYS_MAX {
                self.uncounted.set(self.uncounted.get() + end.all());
                continue;
            }
            let counted = counted.entry(key).or_default();
            if let Some(by) = &it.by {
                let is_worker = !matches!(it.step, Step::Enqueued | Step::Scheduled | Step::Rerouted | Step::Replayed);
                counted.note_sidecar(is_worker, by);
            }
            may_decide = true;
            // A clock that is ahead counts as now; an end from before the window counts no more.
            let at_ms = it.at_ms.min(now_ms);
            if end.all() == 0 {
                continue;
            }
            if at_ms.saturating_add(window_ms) < now_ms {
                self.late.set(self.late.get() + end.all());
                continue;
            }
            let width = (window_ms / SPANS).max(1);
            let from_ms = at_ms / width * width;
            if !counted.spans.contains_key(&from_ms) {
                // Also while the record does not answer, and nothing is decided.
                counted.spans.retain(|it, _| it.saturating_add(window_ms + width) >= now_ms);
            }
            let span = counted.spans.entry(from_ms).or_default();
            span.ends.add(end);
            span.is_unsaved = true;
            // The ids of bound jobs stay with their regions.
            if end.failed > 0 && !it.job.is_bound {
                span.jobs.push_front(it.job.job_id);
                span.jobs.truncate(EVIDENCE_JOBS_MAX);
            }
        }
        if may_decide {
            self.noted.notify_one();
        }
    }

    /// Forgets the types and tenants of which nothing has ended within their window.
    fn evict(&self, counted: &mut BTreeMap<Key, Counted>, now_ms: u64) {
        let open = self.open();
        counted.retain(|key, it| {
            let window_ms = self.of((&key.0, key.1.as_deref())).map_or(0, |it| it.terms().window_ms);
            let is_idle = it.spans.last_key_value().is_none_or(|(from_ms, _)| from_ms + window_ms < now_ms);
            !is_idle || open.iter().any(|it| (&it.job_type, &it.tenant) == (&key.0, &key.1))
        });
    }

    /// Ends of a type and a tenant from before their last incident was closed count no more.
    pub(super) fn begin_anew(&self, key: &Key, closed_ms: u64) {
        let mut counted = self.counted.borrow_mut();
        if let Some(counted) = counted.get_mut(key) {
            counted.from_ms = counted.from_ms.max(closed_ms);
        } else if counted.len() < KEYS_MAX {
            counted.insert(key.clone(), Counted { from_ms: closed_ms, ..Counted::default() });
        }
    }

    /// The types and tenants whose breaker trips by the ends within its window, with the evidence.
    pub(super) fn tripping(&self, now_ms: u64) -> Vec<(Key, EndCounts, Vec<String>)> {
        let mut counted = self.counted.borrow_mut();
        let elsewhere = self.elsewhere.borrow();
        let mut found = Vec::new();
        for (key, it) in counted.iter_mut() {
            let Some(breaker) = self.of((&key.0, key.1.as_deref())) else { continue };
            let terms = breaker.terms();
            let since_ms = now_ms.saturating_sub(terms.window_ms);
            it.spans.retain(|from_ms, _| *from_ms > since_ms);
            let from_ms = since_ms.max(it.from_ms.saturating_sub(1));
            let others = elsewhere.get(key).into_iter().flatten();
            let spans = it.spans.iter().chain(others).filter(|(begin_ms, _)| **begin_ms > from_ms);
            let (mut ends, mut jobs) = (EndCounts::default(), Vec::new());
            for (_, span) in spans {
                ends.add(span.ends);
                jobs.extend(span.jobs.iter().cloned());
            }
            if terms.trips(ends) {
                jobs.reverse();
                jobs.truncate(EVIDENCE_JOBS_MAX);
                found.push((key.clone(), ends, jobs));
            }
        }
        found
    }

    /// The sidecars that may get a permission: those that may let a job of the type and the tenant through soon, the likeliest first.
    /// `queues`: whether workers ask for queues of these jobs alone.
    pub(super) fn sidecars(&self, key: &Key, queues: bool) -> Vec<String> {
        let counted = self.counted.borrow();
        let Some(counted) = counted.get(key) else { return Vec::new() };
        counted.sidecars[usize::from(queues)].iter().cloned().collect()
    }

    /// The jobs that went by a permission since the last call.
    pub(super) fn take_went(&self) -> Vec<(String, ProbeJob)> {
        self.went.take()
    }

    /// Adds such jobs. Those beyond as many as there may be are left out: their permissions end by their time.
    pub(super) fn give_went(&self, more: Vec<(String, ProbeJob)>) {
        let mut went = self.went.borrow_mut();
        let room = WENT_MAX.saturating_sub(went.len());
        went.extend(more.into_iter().take(room));
    }

    /// The ends that the record lacks; they count as saved from now on.
    pub(super) fn take_unsaved(&self) -> Vec<SavedEnds> {
        let mut unsaved = Vec::new();
        for ((job_type, tenant), counted) in self.counted.borrow_mut().iter_mut() {
            for (from_ms, span) in counted.spans.iter_mut().filter(|(_, span)| span.is_unsaved) {
                span.is_unsaved = false;
                unsaved.push(SavedEnds {
                    job_type: job_type.clone(),
                    tenant: tenant.clone().unwrap_or_default(),
                    from_ms: *from_ms,
                    succeeded: span.ends.succeeded,
                    failed: span.ends.failed,
                    jobs: serde_json::json!(span.jobs).to_string(),
                });
            }
        }
        unsaved
    }

    /// Notes that the record did not take ends.
    pub(super) fn give_back(&self, unsaved: &[SavedEnds]) {
        let mut counted = self.counted.borrow_mut();
        for it in unsaved {
            let key = (it.job_type.clone(), (!it.tenant.is_empty()).then(|| it.tenant.clone()));
            if let Some(span) = counted.get_mut(&key).and_then(|known| known.spans.get_mut(&it.from_ms)) {
                span.is_unsaved = true;
            }
        }
    }

    /// Takes the ends that other hubs have heard of, in place of those before.
    pub(super) fn take_elsewhere(&self, saved: Vec<SavedEnds>) {
        let mut all: BTreeMap<Key, BTreeMap<u64, Span>> = BTreeMap::new();
        for it in saved {
            let key = (it.job_type, (!it.tenant.is_empty()).then_some(it.tenant));
            let ends = EndCounts { succeeded: it.succeeded, failed: it.failed };
            // The counts hold also where a later version writes the ids in another way; the evidence lacks these ids then.
            let jobs = serde_json::from_str(&it.jobs).unwrap_or_default();
            all.entry(key).or_default().insert(it.from_ms, Span { ends, jobs, is_unsaved: false });
        }
        let mut counted = self.counted.borrow_mut();
        for key in all.keys().filter(|key| self.of((&key.0, key.1.as_deref())).is_some()) {
            if counted.len() < KEYS_MAX || counted.contains_key(key) {
                counted.entry(key.clone()).or_default();
            }
        }
        *self.elsewhere.borrow_mut() = all;
    }

    /// The time before which no end counts. Units: milliseconds since the Unix epoch.
    pub(super) fn since_ms(now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::try_from(WINDOW_MAX.as_millis()).unwrap_or(u64::MAX))
    }

    /// The open incidents.
    pub(super) fn open(&self) -> Arc<Vec<Incident>> {
        self.open.borrow().clone().unwrap_or_default()
    }

    /// Follows the open incidents; none before the record was read.
    pub(super) fn follow(&self) -> watch::Receiver<Option<Arc<Vec<Incident>>>> {
        self.open.subscribe()
    }

    /// Takes the open incidents of the record.
    pub(super) fn set_open(&self, open: Vec<Incident>) {
        self.open.send_if_modified(|known| {
            let is_new = known.as_deref() != Some(&open);
            if is_new {
                *known = Some(Arc::new(open));
            }
            is_new
        });
    }

    /// Takes the types and tenants that trip and find no place. Returns whether these are the first ones.
    pub(super) fn set_unplaced(&self, keys: BTreeSet<Key>) -> bool {
        let before = self.unplaced.replace(keys);
        let now = self.unplaced.borrow();
        self.unplaced_ever.set(self.unplaced_ever.get() + now.difference(&before).count() as u64);
        before.is_empty() && !now.is_empty()
    }
}

#[cfg(test)]
mod tests;
