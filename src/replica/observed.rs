//! Facts that the event stream of a region gives, and how they are joined with the reports of sidecars about the same steps.
//!
//! An event says when it was sent, a report when the lease began by the word of the region: the two differ by milliseconds. So the lease of an
//! event is the one that a sidecar has reported where the two are close, and each step stands once in the history of a copy.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, ChangeKind, JobFacts, Observer};
use crate::base::RegionId;
use crate::ojs::job_events::JobStep;

/// Two leases that begin within so much of each other are one: a region that hands a job out waits for longer before it hands it out again,
/// and an event is sent within less. Units: milliseconds.
const SAME_LEASE_MS: u64 = 2_000;

/// A step of a job, by the word of its region.
#[derive(Debug, Clone, Copy)]
pub struct ObservedStep<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The region.
    pub region: &'a RegionId,
    /// The step.
    pub step: JobStep,
    /// When it was taken. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl ObservedStep<'_> {
    /// The fact of the step. `known`: the facts about the copy so far, which say the lease that the step is within.
    #[must_use]
    pub fn change(&self, known: &[Change]) -> Change {
        let lease_ms = last_lease(known, self.at_ms);
        let is_over = |lease: &u64| {
            let same = |it: &&Change| it.kind == ChangeKind::Failed && it.lease_ms == *lease;
            known.iter().find(same).is_some_and(|it| it.at_ms.abs_diff(self.at_ms) > SAME_LEASE_MS)
        };
        let within = lease_ms.unwrap_or(0);
        let (kind, lease_ms, state) = match self.step {
            JobStep::Stored(state) => (ChangeKind::Created, 0, Some(state)),
            JobStep::Started => (ChangeKind::Leased, lease_near(known, self.at_ms).unwrap_or(self.at_ms), None),
            JobStep::Kept => (ChangeKind::Extended, within, None),
            // A lease that nothing is known of had an end of its own.
            JobStep::Failed(state) => {
                (ChangeKind::Failed, lease_ms.filter(|lease| !is_over(lease)).unwrap_or(self.at_ms), state)
            }
            JobStep::Completed => (ChangeKind::Completed, within, None),
            JobStep::Cancelled => (ChangeKind::Cancelled, within, None),
        };
        Change {
            job_id: self.job_id.to_owned(),
            region: self.region.clone(),
            kind,
            lease_ms,
            at_ms: self.at_ms,
            federation_id: None,
            state: state.map(str::to_owned),
            replicated_from: None,
            job: None,
            observed_by: Some(Observer::Events),
        }
    }
}

/// The known lease that began close to a time.
fn lease_near(known: &[Change], at_ms: u64) -> Option<u64> {
    let leases = known.iter().map(|it| it.lease_ms).filter(|lease| *lease > 0);
    leases.filter(|lease| lease.abs_diff(at_ms) <= SAME_LEASE_MS).min_by_key(|lease| (lease.abs_diff(at_ms), *lease))
}

/// The last lease that began before a time, as far as facts know it.
fn last_lease(known: &[Change], at_ms: u64) -> Option<u64> {
    let leases = known.iter().map(|it| it.lease_ms).filter(|lease| *lease > 0);
    leases.filter(|lease| *lease <= at_ms.saturating_add(SAME_LEASE_MS)).max()
}

/// The description of a job that its region shows, for its first fact. `is_bound`: whether its meta binds it to some regions, or a rule of a
/// sidecar may do so.
#[must_use]
pub fn described(
    (job_type, queue, tenant): (Option<String>, String, Option<String>),
    is_bound: bool,
    enqueued_ms: Option<u64>,
) -> JobFacts {
    let fits = |text: &String| super::is_text(text);
    JobFacts {
        job_type: job_type.filter(fits),
        queue: Some(queue).filter(fits),
        tenant: tenant.filter(fits),
        bound: is_bound,
        enqueued_ms: enqueued_ms.filter(|ms| i64::try_from(*ms).is_ok()),
    }
}

/// The facts about one copy, each step once: those of events within the leases that sidecars have reported, and left out where a report says the
/// same. The order of the facts does not matter.
pub(super) fn merged(facts: Vec<Change>) -> Vec<Change> {
    if facts.iter().all(|it| it.observed_by.is_none()) {
        return facts;
    }
    let leases = same_leases(&facts);
    let mut all: BTreeMap<(ChangeKind, u64), Change> = BTreeMap::new();
    for mut it in facts {
        if it.observed_by.is_some() {
            it.lease_ms = leases.get(&it.lease_ms).copied().unwrap_or(it.lease_ms);
        }
        let name = (it.kind, it.lease_ms);
        let fact = match all.remove(&name) {
            Some(known) => known.joined(it),
            None => it,
        };
        all.insert(name, fact);
    }
    let ends: Vec<_> = all.values().filter(|it| it.kind.is_final() || it.lease_ms == 0).cloned().collect();
    all.into_values().filter(|it| it.observed_by.is_none() || !is_said_by_another(it, &ends)).collect()
}

/// The lease that each lease of an event is: one that a sidecar has reported close to it, else the first one of the events that are close.
fn same_leases(facts: &[Change]) -> BTreeMap<u64, u64> {
    let of = |is_report: bool| {
        let leases = facts.iter().filter(|it| it.observed_by.is_none() == is_report).map(|it| it.lease_ms);
        leases.filter(|lease| *lease > 0).collect::<BTreeSet<u64>>()
    };
    let (mut firsts, mut leases) = (of(true), BTreeMap::new());
    for lease in of(false) {
        let nearest = firsts.iter().copied().min_by_key(|first| (first.abs_diff(lease), *first));
        let is = nearest.filter(|first| first.abs_diff(lease) <= SAME_LEASE_MS).unwrap_or(lease);
        firsts.insert(is);
        leases.insert(lease, is);
    }
    leases
}

/// Whether another fact says the end of an event; one of the two may not know the lease. A job is completed, or cancelled, once.
fn is_said_by_another(event: &Change, ends: &[Change]) -> bool {
    let is_other = |it: &&Change| it.kind == event.kind && it.lease_ms != event.lease_ms;
    let is_better = |it: &Change| it.observed_by.is_none() || it.lease_ms > event.lease_ms;
    match event.kind {
        ChangeKind::Completed | ChangeKind::Cancelled => ends.iter().filter(is_other).any(is_better),
        ChangeKind::Created | ChangeKind::Leased | ChangeKind::Extended | ChangeKind::Failed => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::change::tests::change;
    use super::super::record::Record;
    use super::*;

    const AT: u64 = 1_000_000;

    fn event(kind: ChangeKind, lease_ms: u64, at_ms: u64) -> Change {
        Change { observed_by: Some(Observer::Events), ..change(kind, lease_ms, at_ms) }
    }

    /// The kinds of a copy's history, each with an `e` where only events have seen it; and its state.
    fn history(facts: &[Change]) -> (Vec<String>, String) {
        let copy = Record::of(facts.to_vec()).copies.remove(0);
        let shown = |it: &Change| format!("{}{}", it.kind.as_str(), if it.observed_by.is_some() { " e" } else { "" });
        (copy.history.iter().map(shown).collect(), copy.state)
    }

    fn steps(steps: &[(JobStep, u64)]) -> Vec<Change> {
        let region = RegionId::parse("eu").unwrap();
        let mut facts = Vec::new();
        for (step, at_ms) in steps {
            let change = ObservedStep { job_id: "job", region: &region, step: *step, at_ms: *at_ms }.change(&facts);
            facts.push(change);
        }
        facts
    }

    #[test]
    fn the_steps_of_events_alone_are_a_life() {
        let life = [
            (JobStep::Stored("available"), AT),
            (JobStep::Started, AT + 5),
            (JobStep::Failed(Some("retryable")), AT + 9),
            (JobStep::Started, AT + 60_000),
            (JobStep::Kept, AT + 61_000),
            (JobStep::Completed, AT + 62_000),
        ];
        let kinds = ["created e", "leased e", "failed e", "leased e", "extended e", "completed e"];
        let states = ["available", "active", "retryable", "active", "active", "completed"];
        for (count, state) in states.into_iter().enumerate() {
            let (shown, now) = history(&steps(&life[..=count]));
            assert_eq!((shown, now.as_str()), (kinds[..=count].iter().map(|it| (*it).to_owned()).collect(), state));
        }
        let ended = [(JobStep::Started, AT), (JobStep::Failed(Some("discarded")), AT + 1)];
        assert_eq!(history(&steps(&ended)).1, "discarded");
        let missed = [life[1], life[2], (JobStep::Failed(Some("discarded")), AT + 90_000)];
        let (shown, now) = history(&steps(&missed));
        assert_eq!((shown.len(), now.as_str()), (3, "discarded"), "a lease whose begin was missed has its own end");
    }

    #[test]
    fn a_step_that_a_sidecar_has_reported_stands_once() {
        let reports = [
            change(ChangeKind::Created, 0, AT + 3),
            change(ChangeKind::Leased, AT + 10, AT + 12),
            change(ChangeKind::Failed, AT + 10, AT + 22),
            change(ChangeKind::Leased, AT + 60_000, AT + 60_002),
            change(ChangeKind::Completed, AT + 60_000, AT + 70_000),
        ];
        let events = steps(&[
            (JobStep::Stored("available"), AT),
            (JobStep::Started, AT + 14),
            (JobStep::Failed(Some("retryable")), AT + 20),
            (JobStep::Started, AT + 60_007),
            (JobStep::Completed, AT + 69_990),
        ]);
        let all = [reports.to_vec(), events.clone()].concat();
        assert_eq!(history(&all).0, ["created", "leased", "failed", "leased", "completed"]);
        assert_eq!(history(&all).1, "completed");
        // Each report may be missing: its event stands in for it.
        for missing in 0..reports.len() {
            let mut some = reports.to_vec();
            some.remove(missing);
            let (shown, state) = history(&[some, events.clone()].concat());
            assert_eq!((shown.len(), state.as_str()), (5, "completed"), "{shown:?}");
            assert_eq!(shown.iter().filter(|it| it.ends_with(" e")).count(), 1);
        }
    }

    #[test]
    fn an_end_whose_lease_one_of_the_two_does_not_know_stands_once() {
        let started = || event(ChangeKind::Leased, AT + 5, AT + 5);
        let end = |lease| event(ChangeKind::Completed, lease, AT + 9);
        let report = change(ChangeKind::Completed, 0, AT + 8);
        assert_eq!(history(&[started(), end(AT + 5), report]).0, ["completed", "leased e"]);
        assert_eq!(history(&[started(), end(0), end(AT + 5)]).0, ["leased e", "completed e"]);
        let cancelled = [event(ChangeKind::Cancelled, 0, AT), change(ChangeKind::Cancelled, AT + 5, AT + 1)];
        assert_eq!(history(&cancelled).0, ["cancelled"]);
    }

    #[test]
    fn a_lease_far_from_every_reported_one_is_one_that_no_sidecar_has_seen() {
        let report = change(ChangeKind::Leased, AT, AT);
        let (shown, state) = history(&[report, event(ChangeKind::Leased, AT + 30_000, AT + 30_000)]);
        assert_eq!((shown, state.as_str()), (vec!["leased".to_owned(), "leased e".to_owned()], "active"));
    }

    #[test]
    fn texts_that_no_index_takes_are_left_out_of_a_description() {
        let long = "x".repeat(256);
        let facts = described((Some(long.clone()), "a\nb".to_owned(), Some(String::new())), true, Some(u64::MAX));
        assert_eq!(facts, JobFacts { bound: true, ..JobFacts::default() });
        let facts = described((Some("t".to_owned()), "q".to_owned(), None), false, Some(5));
        assert_eq!((facts.queue.as_deref(), facts.enqueued_ms, facts.bound), (Some("q"), Some(5), false));
    }

    fn any_fact() -> impl Strategy<Value = Change> {
        let kind = prop::sample::select(ChangeKind::ALL.to_vec());
        let lease = prop::sample::select(vec![0, 1_000, 2_500, 4_000, 9_000]);
        let by = prop::option::of(Just(Observer::Events));
        (kind, lease, 0..5_u64, by).prop_map(|(kind, lease_ms, at_ms, observed_by)| {
            let lease_ms = if kind == ChangeKind::Created { 0 } else { lease_ms };
            Change { observed_by, ..change(kind, lease_ms, at_ms) }
        })
    }

    proptest! {
        #[test]
        fn the_order_of_facts_and_how_often_they_come_do_not_matter(facts in prop::collection::vec(any_fact(), 1..12)) {
            let expected = Record::of(facts.clone());
            let reversed = facts.iter().rev().cloned().chain(facts.iter().cloned());
            prop_assert_eq!(Record::of(reversed), expected.clone());
            // No two entries of a history are one step.
            let names: BTreeSet<_> = expected.copies[0].history.iter().map(|it| (it.kind, it.lease_ms)).collect();
            prop_assert_eq!(names.len(), expected.copies[0].history.len());
            // A fact that a sidecar has reported is never left out.
            let reports = facts.iter().filter(|it| it.observed_by.is_none());
            for report in reports {
                prop_assert!(names.contains(&(report.kind, report.lease_ms)));
            }
        }
    }
}
