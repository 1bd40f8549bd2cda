//! The decision about one copy of a job among those with its tracking id: whether it counts, and which copy has replaced it.
//!
//! The order of copies is that of [`Copy::writer`], which is the same in every hub. A copy is replaced only by a greater one, so that the
//! greatest stays, whichever facts a hub lacks. Spec: federation-spec §5.2; RFC-0001 §5.

use std::collections::BTreeMap;

use super::record::{Copy, Record};
use crate::base::RegionId;

/// The life of one copy, as far as workers are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// No worker has had it, and one may get it.
    Waits,
    /// A worker has it or has had it.
    Started,
    /// It was cancelled or discarded before any worker had it.
    EndedUnrun,
    /// Its state is no word of OJS.
    Odd,
}

impl Life {
    /// The life of a copy in a state, in the words of OJS. `is_started`: whether a worker is known to have had it.
    #[must_use]
    pub fn of(state: &str, is_started: bool) -> Self {
        match state {
            "scheduled" | "available" | "pending" if !is_started => Self::Waits,
            "cancelled" | "discarded" if !is_started => Self::EndedUnrun,
            "active" | "retryable" | "completed" => Self::Started,
            _ if is_started => Self::Started,
            _ => Self::Odd,
        }
    }
}

/// The standing of a copy among those with its tracking id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'r> {
    /// No copy elsewhere was enqueued later, of those that have run or may run.
    Counts,
    /// It has ended before any worker had it: it neither counts nor stands in the way.
    Over,
    /// It was replicated from another region: other hubs do not see it, so that it counts for nothing.
    Replica,
    /// The time of a copy is not known yet.
    Untold,
    /// It counts less than this copy, which is the same job in another region: a re-send, which sidecars clear up by their own knowledge.
    Same(&'r Copy),
    /// It counts less than this copy, and some region has several jobs with the tracking id: a client uses it for a group of jobs.
    Grouped(&'r Copy),
    /// This copy has replaced it.
    Replaced(&'r Copy),
}

impl<'r> Standing<'r> {
    /// The copy that counts more; none where there is none, or none is known.
    #[must_use]
    pub const fn winner(self) -> Option<&'r Copy> {
        match self {
            Self::Counts | Self::Over | Self::Replica | Self::Untold => None,
            Self::Same(copy) | Self::Grouped(copy) | Self::Replaced(copy) => Some(copy),
        }
    }
}

impl Copy {
    /// Its life, as far as workers are concerned.
    #[must_use]
    pub fn life(&self) -> Life {
        Life::of(&self.state, self.is_started)
    }
}

impl Record {
    /// The standing of one of its copies. Replicas are left out: other hubs do not see them, so that hubs cannot agree about them.
    #[must_use]
    pub fn standing(&self, copy: &Copy) -> Standing<'_> {
        if copy.life() == Life::EndedUnrun {
            return Standing::Over;
        }
        if copy.replicated_from.is_some() {
            return Standing::Replica;
        }
        if copy.federation_id.is_none() {
            return Standing::Counts;
        }
        let is_present = |it: &&Copy| {
            let is_alike = it.federation_id == copy.federation_id && it.replicated_from.is_none();
            is_alike && it.life() != Life::EndedUnrun
        };
        let present: Vec<&Copy> = self.copies.iter().filter(is_present).collect();
        let others: Vec<&Copy> = present.iter().copied().filter(|it| it.region != copy.region).collect();
        let is_timed = |it: &Copy| it.stored_ms().is_some();
        let is_later = |it: &&&Copy| is_timed(copy) && is_timed(it) && it.writer() > copy.writer();
        let winner = others.iter().filter(is_later).max_by(|a, b| a.writer().cmp(&b.writer()));
        match winner {
            Some(winner) if winner.job_id == copy.job_id => Standing::Same(winner),
            Some(winner) if is_group(&present) => Standing::Grouped(winner),
            Some(winner) => Standing::Replaced(winner),
            None if others.is_empty() || (is_timed(copy) && others.iter().all(|it| is_timed(it))) => Standing::Counts,
            None => Standing::Untold,
        }
    }
}

/// Whether some region has several of these copies.
fn is_group(copies: &[&Copy]) -> bool {
    let mut jobs: BTreeMap<&RegionId, u32> = BTreeMap::new();
    copies.iter().for_each(|it| *jobs.entry(&it.region).or_default() += 1);
    jobs.values().any(|count| *count > 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::change::tests::change;
    use super::super::change::{Change, ChangeKind, JobFacts};
    use super::*;

    fn created(region: &str, job: &str, enqueued_ms: u64) -> Change {
        let facts = JobFacts { enqueued_ms: Some(enqueued_ms), ..JobFacts::default() };
        Change { job: Some(facts), ..then(ChangeKind::Created, region, job, None) }
    }

    /// A later fact, which does not describe the job.
    fn then(kind: ChangeKind, region: &str, job: &str, state: Option<&str>) -> Change {
        Change {
            job_id: job.to_owned(),
            region: RegionId::parse(region).unwrap(),
            federation_id: Some("f".to_owned()),
            state: state.map(str::to_owned),
            ..change(kind, 0, 900)
        }
    }

    /// The standing of the copy of job `1` in region `a`, with the winner.
    fn standing(facts: &[Change]) -> String {
        let record = Record::of(facts.to_vec());
        let copy = record.copies.iter().find(|it| it.region.as_str() == "a" && it.job_id == "1").unwrap();
        let found = record.standing(copy);
        let word = format!("{found:?}").split('(').next().unwrap().to_owned();
        let winner = found.winner().map(|it| format!(" {}/{}", it.region, it.job_id));
        word + &winner.unwrap_or_default()
    }

    #[test]
    fn a_copy_is_replaced_by_the_last_writer_elsewhere_and_by_nothing_else() {
        let (own, later) = (created("a", "1", 5), created("b", "2", 6));
        let cancelled = then(ChangeKind::Cancelled, "b", "2", None);
        let replica = |it: &Change| Change { replicated_from: Some("c".to_owned()), ..it.clone() };
        let other_id = |it: &Change| Change { federation_id: Some("g".to_owned()), ..it.clone() };
        for (name, more, expected) in [
            ("alone", vec![], "Counts"),
            ("a later copy", vec![later.clone()], "Replaced b/2"),
            ("an earlier copy", vec![created("b", "2", 4)], "Counts"),
            ("the last of two", vec![later.clone(), created("c", "3", 7)], "Replaced c/3"),
            ("at the same time the greater region", vec![created("b", "0", 5)], "Replaced b/0"),
            ("a later job of its own region", vec![created("a", "2", 9)], "Counts"),
            ("the same job elsewhere", vec![created("b", "1", 6)], "Same b/1"),
            ("the same job is not the winner", vec![created("b", "1", 6), created("c", "2", 7)], "Replaced c/2"),
            ("a group in its own region", vec![later.clone(), created("a", "3", 1)], "Grouped b/2"),
            ("a group elsewhere", vec![later.clone(), created("b", "3", 1)], "Grouped b/2"),
            ("a winner that was cancelled before it ran", vec![later.clone(), cancelled.clone()], "Counts"),
            (
                "one that was discarded before it ran",
                vec![later.clone(), then(ChangeKind::Created, "b", "2", Some("discarded"))],
                "Counts",
            ),
            (
                "one that has run",
                vec![later.clone(), then(ChangeKind::Leased, "b", "2", None), cancelled.clone()],
                "Replaced b/2",
            ),
            (
                "the next one counts then",
                vec![later.clone(), created("c", "3", 7), then(ChangeKind::Cancelled, "c", "3", None)],
                "Replaced b/2",
            ),
            ("a cancelled copy makes no group", vec![created("b", "3", 7), later.clone(), cancelled], "Replaced b/3"),
            ("a time that is missing", vec![then(ChangeKind::Leased, "b", "2", None)], "Untold"),
            (
                "a time that is missing beside a later copy",
                vec![later.clone(), then(ChangeKind::Leased, "c", "3", None)],
                "Replaced b/2",
            ),
            ("a replica", vec![replica(&later)], "Counts"),
            ("another tracking id", vec![other_id(&later)], "Counts"),
        ] {
            let facts = [vec![own.clone()], more].concat();
            assert_eq!(standing(&facts), expected, "{name}");
        }
        assert_eq!(standing(&[replica(&own), later.clone()]), "Replica");
        assert_eq!(standing(&[own.clone(), later.clone(), then(ChangeKind::Cancelled, "a", "1", None)]), "Over");
        assert_eq!(standing(&[then(ChangeKind::Leased, "a", "1", None), later]), "Untold");
    }

    #[test]
    fn a_bound_copy_without_a_description_counts_by_the_time_of_its_creation() {
        let bound = Change { job: None, at_ms: 6, ..created("b", "2", 0) };
        assert_eq!(standing(&[created("a", "1", 5), bound.clone()]), "Replaced b/2");
        assert_eq!(standing(&[created("a", "1", 7), bound]), "Counts");
    }

    #[test]
    fn a_life_waits_only_in_words_that_say_so() {
        for (state, is_started, life) in [
            ("available", false, Life::Waits),
            ("scheduled", false, Life::Waits),
            ("pending", false, Life::Waits),
            ("available", true, Life::Started),
            ("retryable", false, Life::Started),
            ("active", false, Life::Started),
            ("completed", false, Life::Started),
            ("cancelled", false, Life::EndedUnrun),
            ("cancelled", true, Life::Started),
            ("discarded", true, Life::Started),
            ("odd", false, Life::Odd),
            ("", false, Life::Odd),
        ] {
            assert_eq!(Life::of(state, is_started), life, "{state} {is_started}");
        }
    }

    const REGIONS: [&str; 3] = ["a", "b", "c"];

    /// One event in a federation of three hubs. Numbers are taken modulo the number of things there are.
    #[derive(Debug, Clone)]
    enum Event {
        /// A hub gets one fact that some hub or sidecar has.
        Learn { hub: usize, fact: usize },
        /// A worker gets a copy, or a client cancels it.
        Change { copy: usize, kind: ChangeKind },
        /// The hub of a copy's region decides about it.
        Decide { copy: usize },
    }

    fn event() -> impl Strategy<Value = Event> {
        let kind = prop::sample::select(vec![ChangeKind::Leased, ChangeKind::Failed, ChangeKind::Cancelled]);
        prop_oneof![
            4 => (0..3_usize, 0..64_usize).prop_map(|(hub, fact)| Event::Learn { hub, fact }),
            1 => (0..8_usize, kind).prop_map(|(copy, kind)| Event::Change { copy, kind }),
            3 => (0..8_usize).prop_map(|copy| Event::Decide { copy }),
        ]
    }

    proptest! {
        /// With any order of arrival, delays and pulls between three hubs that cancel the copies of their own regions, the last writer is not
        /// cancelled by a hub; nor is a copy whose winner at that hub is the same job.
        #[test]
        fn the_last_writer_is_never_cancelled(
            copies in prop::collection::vec((0..3_usize, 0..3_usize, 0..4_u64), 1..6),
            events in prop::collection::vec(event(), 0..80),
        ) {
            // Each copy once, with the time that its region has given it.
            let mut places = BTreeMap::new();
            copies.iter().for_each(|(region, job, at)| {
                places.entry((REGIONS[*region], job.to_string())).or_insert(*at);
            });
            let mut facts: Vec<Change> = places.iter().map(|((region, job), at)| created(region, job, *at)).collect();
            let whole = Record::of(facts.clone());
            let last = whole.winner().unwrap();
            let all: Vec<(&str, String)> = places.keys().cloned().collect();
            let mut known: [Vec<Change>; 3] = Default::default();
            for event in events {
                match event {
                    Event::Learn { hub, fact } => known[hub].push(facts[fact % facts.len()].clone()),
                    Event::Change { copy, kind } => {
                        let (region, job) = &all[copy % all.len()];
                        facts.push(then(kind, region, job, None));
                    }
                    Event::Decide { copy } => {
                        let (region, job) = &all[copy % all.len()];
                        let hub = REGIONS.iter().position(|it| it == region).unwrap();
                        let view = Record::of(known[hub].clone());
                        let own = view.copies.iter().find(|it| it.region.as_str() == *region && it.job_id == *job);
                        if let Some(Standing::Replaced(winner)) = own.map(|own| view.standing(own)) {
                            prop_assert!((last.region.as_str(), &last.job_id) != (*region, job), "{winner:?}");
                            prop_assert!(winner.job_id != *job);
                            let cancelled = then(ChangeKind::Cancelled, region, job, Some("cancelled"));
                            known[hub].push(cancelled.clone());
                            facts.push(cancelled);
                        }
                    }
                }
            }
        }
    }
}
