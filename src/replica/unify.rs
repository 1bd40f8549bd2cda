//! The facts of events joined with the reports of sidecars about the same steps.
//!
//! An event says when it was sent, and no lease; a report says when the lease began by the word of the region. So each event is a fact of its
//! own time, and its lease is found when a record is read, from all facts about the copy: whichever came first, each step stands once.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, ChangeKind};

/// Two starts within so much of each other are one, unless a failure lies between them; so are two failures with no start between them.
/// Units: milliseconds.
const SAME_STEP_MS: u64 = 2_000;
/// A start and the event about it are this close where clocks agree: here a failure that seems to lie between them is one of the lease.
/// Units: milliseconds.
pub const NEAR_MS: u64 = 50;

/// Whether the fact of an event adds anything to the facts about its copy.
#[must_use]
pub fn is_news(known: &[Change], event: &Change) -> bool {
    let is_same = |it: &&Change| (it.kind, it.lease_ms) == (event.kind, event.lease_ms);
    if known.iter().filter(is_same).any(|it| it.clone().joined(event.clone()) == *it) {
        return false;
    }
    // A fact that is further away may be one of another attempt, once all facts are known.
    let is_near = |it: &Change| it.kind == event.kind && begin(it).abs_diff(begin(event)) <= NEAR_MS;
    if !event.kind.is_final() && event.kind != ChangeKind::Extended && !known.iter().any(is_near) {
        return true;
    }
    let said = |facts: Vec<Change>| {
        let mut all = unified(facts);
        // The stream and the lists say the time of one step in their own ways.
        all.iter_mut().filter(|it| it.kind != ChangeKind::Extended).for_each(|it| it.at_ms = 0);
        all
    };
    said(known.to_vec()) != said(known.iter().chain([event]).cloned().collect())
}

/// The time that orders a fact: of a start that of its lease.
const fn begin(fact: &Change) -> u64 {
    match fact.kind {
        ChangeKind::Leased if fact.lease_ms > 0 => fact.lease_ms,
        _ => fact.at_ms,
    }
}

/// The facts about one copy, each step once: those of events within the leases that sidecars have reported, and joined with a report that says
/// the same. The order of the facts does not matter.
pub(super) fn merged(facts: Vec<Change>) -> Vec<Change> {
    if facts.iter().all(|it| it.observed_by.is_none()) {
        return facts;
    }
    unified(facts)
}

/// Facts by their kind and lease.
type Steps = BTreeMap<(ChangeKind, u64), Change>;

fn put(all: &mut Steps, mut it: Change, lease_ms: u64) {
    it.lease_ms = lease_ms;
    let name = (it.kind, lease_ms);
    let fact = match all.remove(&name) {
        Some(known) => known.joined(it),
        None => it,
    };
    all.insert(name, fact);
}

fn unified(facts: Vec<Change>) -> Vec<Change> {
    let (reports, mut events): (Vec<_>, Vec<_>) = facts.into_iter().partition(|it| it.observed_by.is_none());
    events.sort_by_key(|it| (begin(it), it.kind, it.lease_ms));
    let starts = starts(&reports, &events);
    // The begin of each lease, by the word of a report and by that of an event.
    let mut leases: BTreeMap<u64, u64> =
        reports.iter().filter(|it| it.lease_ms > 0).map(|it| (it.lease_ms, it.lease_ms)).collect();
    for (start, lease) in &starts {
        leases.entry(*start).or_insert(*lease);
    }
    let mut all = Steps::new();
    reports.into_iter().for_each(|it| {
        let lease_ms = it.lease_ms;
        put(&mut all, it, lease_ms);
    });
    let (failures, others): (Vec<_>, Vec<_>) = events.into_iter().partition(|it| it.kind == ChangeKind::Failed);
    for it in failures {
        fail(&mut all, &mut leases, it);
    }
    let within = |at_ms: u64| leases.range(..=at_ms).next_back().map_or(0, |(_, lease)| *lease);
    for it in others {
        let lease_ms = match it.kind {
            ChangeKind::Leased => starts.get(&begin(&it)).copied().unwrap_or(it.lease_ms),
            ChangeKind::Extended => within(it.at_ms),
            // A job is completed, or cancelled, once.
            ChangeKind::Completed | ChangeKind::Cancelled => {
                let known = all.range((it.kind, 0)..=(it.kind, u64::MAX)).next_back();
                known.map_or_else(|| within(it.at_ms), |((_, lease), _)| *lease)
            }
            ChangeKind::Created | ChangeKind::Failed => it.lease_ms,
        };
        put(&mut all, it, lease_ms);
    }
    all.into_values().collect()
}

/// Puts the failure of an event into the last lease before it, where that has none, or the same one; else it has a lease of its own, of which the
/// start was missed. A report without a lease about the same failure comes into that lease.
fn fail(all: &mut Steps, leases: &mut BTreeMap<u64, u64>, event: Change) {
    let at_ms = event.at_ms;
    let is_same = |it: &Change| it.at_ms.abs_diff(at_ms) <= SAME_STEP_MS;
    let last = leases.range(..=at_ms).next_back().map(|(_, lease)| *lease);
    let is_free = |lease: &u64| all.get(&(ChangeKind::Failed, *lease)).is_none_or(is_same);
    let lease = last.filter(is_free).unwrap_or(at_ms);
    leases.entry(at_ms).or_insert(lease);
    let is_new = !all.contains_key(&(ChangeKind::Failed, lease));
    if is_new
        && all.get(&(ChangeKind::Failed, 0)).is_some_and(is_same)
        && let Some(report) = all.remove(&(ChangeKind::Failed, 0))
    {
        put(all, report, lease);
    }
    put(all, event, lease);
}

/// The lease of each start that an event shows: a reported one close to it with no failure between the two, the closest pairs first and each
/// once, else the first start of those that are one.
fn starts(reports: &[Change], events: &[Change]) -> BTreeMap<u64, u64> {
    let reported: BTreeSet<u64> = reports.iter().map(|it| it.lease_ms).filter(|lease| *lease > 0).collect();
    let failures: BTreeSet<u64> = events.iter().filter(|it| it.kind == ChangeKind::Failed).map(|it| it.at_ms).collect();
    let over: BTreeMap<u64, u64> = reports
        .iter()
        .filter(|it| it.kind == ChangeKind::Failed && it.lease_ms > 0)
        .map(|it| (it.lease_ms, it.at_ms))
        .collect();
    let fails_between = |from: u64, to: u64| {
        let mut near = over.range(from.saturating_sub(NEAR_MS)..=from.saturating_add(NEAR_MS));
        failures.range(from..to).next().is_some() || near.any(|(lease, at)| *lease < to && *at < to)
    };
    let (mut same, mut first) = (BTreeMap::new(), None);
    for start in events.iter().filter(|it| it.kind == ChangeKind::Leased).map(begin) {
        let is = first.filter(|it| start - it <= SAME_STEP_MS && !fails_between(*it, start)).unwrap_or(start);
        first = Some(is);
        same.insert(start, is);
    }
    let mut pairs = Vec::new();
    for start in same.values().copied().collect::<BTreeSet<u64>>() {
        let close = reported.range(start.saturating_sub(SAME_STEP_MS)..=start.saturating_add(SAME_STEP_MS));
        pairs.extend(close.filter_map(|lease| {
            let apart = lease.abs_diff(start);
            let is_one = apart <= NEAR_MS || !fails_between(start.min(*lease), start.max(*lease));
            is_one.then_some((apart, start, *lease))
        }));
    }
    pairs.sort_unstable();
    let (mut found, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (_, start, lease) in pairs {
        if !found.contains_key(&start) && taken.insert(lease) {
            found.insert(start, lease);
        }
    }
    same.into_iter().map(|(start, first)| (start, found.get(&first).copied().unwrap_or(first))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::change::Observer;
    use super::super::change::tests::change;
    use super::super::observed::ObservedStep;
    use super::super::record::Record;
    use super::*;
    use crate::base::RegionId;
    use crate::ojs::job_events::JobStep;

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
        let of = |(step, at_ms): &(JobStep, u64)| ObservedStep {
            job_id: "job",
            region: &region,
            step: *step,
            at_ms: *at_ms,
        };
        steps.iter().map(|it| of(it).change()).collect()
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
        let events = steps(&[(JobStep::Started, AT + 5), (JobStep::Completed, AT + 9)]);
        assert_eq!(history(&events).0, ["leased e", "completed e"]);
        let report = change(ChangeKind::Completed, 0, AT + 8);
        assert_eq!(history(&[events, vec![report]].concat()).0, ["completed", "leased e"]);
        let cancelled = [event(ChangeKind::Cancelled, 0, AT), change(ChangeKind::Cancelled, AT + 5, AT + 1)];
        assert_eq!(history(&cancelled).0, ["cancelled"]);
        // A failure that a sidecar has reported without a lease is that of the event about it.
        let failed = steps(&[(JobStep::Started, AT), (JobStep::Failed(Some("discarded")), AT + 900)]);
        let report = change(ChangeKind::Failed, 0, AT + 880);
        let (shown, state) = history(&[vec![report], failed].concat());
        assert_eq!((shown, state.as_str()), (vec!["leased e".to_owned(), "failed".to_owned()], "discarded"));
    }

    #[test]
    fn a_missed_step_between_two_attempts_leaves_the_state_that_of_the_last() {
        let retried = Some("retryable");
        // The failure of the first attempt was reported alone.
        let reports = [change(ChangeKind::Leased, AT, AT), change(ChangeKind::Failed, AT, AT + 400)];
        let events = steps(&[(JobStep::Started, AT + 3), (JobStep::Started, AT + 600)]);
        assert_eq!(history(&[reports.to_vec(), events].concat()).1, "active");
        // A sidecar has the second attempt alone, and its start was missed by the stream.
        let report = change(ChangeKind::Leased, AT + 600, AT + 600);
        let events = steps(&[(JobStep::Started, AT), (JobStep::Failed(retried), AT + 100)]);
        assert_eq!(history(&[vec![report], events].concat()).1, "active");
        // The second start was missed by both.
        let end = (JobStep::Failed(Some("discarded")), AT + 700);
        let events = steps(&[(JobStep::Started, AT), (JobStep::Failed(retried), AT + 100), end]);
        assert_eq!(history(&events).1, "discarded");
    }

    #[test]
    fn an_event_is_news_until_a_fact_says_the_same() {
        let started = steps(&[(JobStep::Started, AT)]).remove(0);
        let again = steps(&[(JobStep::Started, AT + 30)]).remove(0);
        let later = steps(&[(JobStep::Started, AT + 900)]).remove(0);
        assert!(is_news(&[], &started) && !is_news(std::slice::from_ref(&started), &started));
        // Far from it, it may be the start of another attempt.
        assert!(!is_news(std::slice::from_ref(&started), &again) && is_news(std::slice::from_ref(&started), &later));
        let known = [started.clone(), change(ChangeKind::Failed, AT, AT + 10)];
        assert!(is_news(&known, &again), "a failure lies between them");
        let failed = |state| steps(&[(JobStep::Failed(state), AT + 10)]).remove(0);
        assert!(!is_news(&known, &failed(None)) && is_news(&known, &failed(Some("discarded"))));
        let described = Change { job: Some(super::super::change::JobFacts::default()), ..again };
        assert!(is_news(&[started], &described));
        let ends = steps(&[(JobStep::Completed, AT), (JobStep::Completed, AT + 9_000)]);
        assert!(!is_news(&[change(ChangeKind::Completed, AT, AT)], &ends[1]) && !is_news(&ends[..1], &ends[1]));
    }

    #[test]
    fn a_lease_far_from_every_reported_one_is_one_that_no_sidecar_has_seen() {
        let report = change(ChangeKind::Leased, AT, AT);
        let (shown, state) = history(&[report, event(ChangeKind::Leased, AT + 30_000, AT + 30_000)]);
        assert_eq!((shown, state.as_str()), (vec!["leased".to_owned(), "leased e".to_owned()], "active"));
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
                // One without a lease may have got that of an event.
                let is_moved = report.lease_ms == 0 && report.kind == ChangeKind::Failed;
                let has_kind = || names.iter().any(|(kind, _)| *kind == report.kind);
                prop_assert!(names.contains(&(report.kind, report.lease_ms)) || (is_moved && has_kind()));
            }
        }

        /// Attempts 0.1 to 1.5 s apart, in any order of arrival, and whichever of them sidecars have reported, too.
        #[test]
        fn the_state_is_that_of_the_last_step_and_no_step_stands_twice(
            attempts in prop::collection::vec((0..400_u64, 100..1_500_u64, 0..6_u64, 0..40_u64, any::<[bool; 2]>()), 1..6),
            end in prop::sample::select(vec!["active", "retryable", "discarded", "completed", "cancelled"]),
            order in prop::collection::vec(0..40_usize, 40),
        ) {
            let (mut life, mut reports, mut now) = (vec![(JobStep::Stored("available"), AT)], Vec::new(), AT + 50);
            let last = attempts.len() - 1;
            for (place, (lasts, pause, late, skew, reported)) in attempts.iter().copied().enumerate() {
                life.push((JobStep::Started, now + late));
                let seen = |ms: u64| ms + skew - 20;
                if reported[0] {
                    reports.push(change(ChangeKind::Leased, now, seen(now)));
                }
                let over = now + late + lasts;
                let state = if place < last { "retryable" } else { end };
                let step = match state {
                    "retryable" => JobStep::Failed(Some("retryable")),
                    "discarded" => JobStep::Failed(Some("discarded")),
                    "completed" => JobStep::Completed,
                    "cancelled" => JobStep::Cancelled,
                    _ => break,
                };
                life.push((step, over));
                if reported[1] && matches!(step, JobStep::Failed(_)) {
                    let state = Some(state.to_owned());
                    reports.push(Change { state, ..change(ChangeKind::Failed, now, seen(over)) });
                }
                now = over + pause;
            }
            let mut arrivals = [steps(&life), reports].concat();
            let count = arrivals.len();
            order.iter().enumerate().for_each(|(place, with)| arrivals.swap(place % count, with % count));
            let mut facts: Vec<Change> = Vec::new();
            for it in arrivals {
                if it.observed_by.is_none() || is_news(&facts, &it) {
                    facts.push(it);
                }
            }
            let (shown, state) = history(&facts);
            prop_assert_eq!((shown.len(), state.as_str()), (life.len(), end), "{:?} {:?}", shown, facts);
        }
    }
}
