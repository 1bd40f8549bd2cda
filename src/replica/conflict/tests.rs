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

/// A copy whose tracking id is not known.
fn nameless(region: &str, job: &str) -> Change {
    Change { federation_id: None, ..created(region, job, 4) }
}

/// The standing of the copy of job `1` in region `a`, with the winner.
fn standing(facts: &[Change]) -> String {
    let record = Record::of(facts.to_vec());
    let own = record.copies.iter().position(|it| it.region.as_str() == "a" && it.job_id == "1").unwrap();
    let found = record.standings()[own];
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
        ("the same job beside a winner", vec![created("b", "1", 6), created("c", "2", 7)], "Same c/2"),
        (
            "an earlier one of the same job beside a winner",
            vec![created("b", "1", 4), created("c", "2", 7)],
            "Same c/2",
        ),
        (
            "the same job, which was cancelled before it ran",
            vec![created("b", "1", 6), then(ChangeKind::Cancelled, "b", "1", None), created("c", "2", 7)],
            "Replaced c/2",
        ),
        ("the same job without a tracking id", vec![nameless("b", "1"), created("c", "2", 7)], "Same c/2"),
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

/// The standing of a copy by a look at all others.
fn by_each<'r>(record: &'r Record, copy: &Copy) -> Standing<'r> {
    let present: Vec<&Copy> = record.copies.iter().filter(|it| it.life() != Life::EndedUnrun).collect();
    let of_id: Vec<&Copy> = present
        .iter()
        .copied()
        .filter(|it| it.replicated_from.is_none() && it.federation_id == copy.federation_id)
        .collect();
    let others: Vec<&Copy> = of_id.iter().copied().filter(|it| it.region != copy.region).collect();
    let is_later = |it: &&&Copy| copy.stored_ms().is_some() && it.stored_ms().is_some() && it.writer() > copy.writer();
    let winner = others.iter().filter(is_later).max_by(|a, b| a.writer().cmp(&b.writer()));
    let is_same = present.iter().any(|it| it.region != copy.region && it.job_id == copy.job_id);
    let is_group = of_id.iter().any(|a| of_id.iter().filter(|b| a.region == b.region).count() > 1);
    let is_told = others.iter().chain([&copy]).all(|it| it.stored_ms().is_some());
    match winner {
        _ if copy.life() == Life::EndedUnrun => Standing::Over,
        _ if copy.replicated_from.is_some() => Standing::Replica,
        _ if copy.federation_id.is_none() => Standing::Counts,
        Some(winner) if is_same => Standing::Same(winner),
        Some(winner) if is_group => Standing::Grouped(winner),
        Some(winner) => Standing::Replaced(winner),
        None if others.is_empty() || is_told => Standing::Counts,
        None => Standing::Untold,
    }
}

proptest! {
    #[test]
    fn the_standings_of_all_copies_are_those_by_a_look_at_each(
        facts in prop::collection::vec((0..3_usize, 0..4_u32, 0..4_u64, 0..8_u32), 0..12),
    ) {
        let facts = facts.into_iter().map(|(region, job, at, kind)| {
            let fact = created(REGIONS[region], &job.to_string(), at);
            match kind {
                0 => then(ChangeKind::Leased, REGIONS[region], &job.to_string(), None),
                1 => then(ChangeKind::Cancelled, REGIONS[region], &job.to_string(), None),
                2 => nameless(REGIONS[region], &job.to_string()),
                3 => Change { federation_id: Some("g".to_owned()), ..fact },
                4 => Change { replicated_from: Some("c".to_owned()), ..fact },
                _ => fact,
            }
        });
        let record = Record::of(facts);
        let each: Vec<Standing<'_>> = record.copies.iter().map(|it| by_each(&record, it)).collect();
        prop_assert_eq!(record.standings(), each);
    }

    /// With any order of arrival, delays and pulls between three hubs that cancel the copies of their own regions, the last writer is not
    /// cancelled by a hub; nor is a copy whose job another region has at that hub.
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
                    let own = view.copies.iter().position(|it| it.region.as_str() == *region && it.job_id == *job);
                    if let Some(Standing::Replaced(winner)) = own.map(|own| view.standings()[own]) {
                        prop_assert!((last.region.as_str(), &last.job_id) != (*region, job), "{winner:?}");
                        let is_same = |it: &Copy| it.job_id == *job && it.region.as_str() != *region;
                        prop_assert!(!view.copies.iter().any(|it| is_same(it) && it.life() != Life::EndedUnrun));
                        let cancelled = then(ChangeKind::Cancelled, region, job, Some("cancelled"));
                        known[hub].push(cancelled.clone());
                        facts.push(cancelled);
                    }
                }
            }
        }
    }
}
