//! The figures of the table, which follow each change, beside a count of all its jobs.

use std::time::Instant;

use proptest::prelude::*;

use super::super::failures::Failures;
use super::super::table::{Entry, Phase, Table};
use super::*;

fn entry(id: u8, state: RowState, phase: Phase, since_ms: u64, now: Instant) -> Entry {
    let head = Head { lane: lane(), ..head(&format!("job-{id}")) };
    let age_at = (Duration::from_millis(1_000 - since_ms), now);
    let (reason, copies, failures) = (None, Vec::new(), Failures::default());
    Entry { head: Some(head), state, reason, phase, since_ms, age_at, copies, failures, bytes: 1 }
}

/// One change of the table, as the callers of the spool make them.
fn change(table: &mut Table, (kind, number, since_ms): (u8, u64, u64), now: Instant) {
    let is_there = table.get(number).is_some();
    let id = u8::try_from(number % 3).unwrap();
    match kind {
        0 if !is_there => table.insert(number, entry(id, RowState::Waiting, Phase::Storing, since_ms, now), now),
        1 if !is_there => table.insert(number, entry(id, RowState::Waiting, Phase::Resting, since_ms, now), now),
        2 if !is_there => table.insert(number, entry(id, RowState::Refused, Phase::Resting, since_ms, now), now),
        3 => drop(table.remove(number)),
        4 => table.give_up(number),
        5 => table.doubt(number),
        6 if table.get(number).is_some_and(|it| !it.is_stored()) => table.stored(number, now),
        7 if table.get(number).is_some_and(Entry::is_stored) => {
            table.set_aside(number, RowState::Expired, "x".to_owned());
        }
        8 if table.get(number).is_some_and(|it| it.state.is_aside()) => table.retry(number, 1_000, now),
        _ => {}
    }
}

proptest! {
    #[test]
    fn the_figures_are_those_of_a_count_of_all_jobs(
        changes in prop::collection::vec((0..9_u8, 0..6_u64, 0..1_000_u64), 1..60),
    ) {
        let (mut table, now) = (Table::default(), Instant::now());
        for it in changes {
            change(&mut table, it, now);
            let stored = || table.iter().filter(|(_, entry)| entry.is_stored());
            let waiting: Vec<_> = stored().filter(|(_, entry)| !entry.state.is_aside()).collect();
            let oldest = waiting.iter().map(|(_, entry)| entry.age(now)).max().unwrap_or_default();
            let aside: Vec<u64> = stored().filter(|(_, entry)| entry.state.is_aside()).map(|(number, _)| number).collect();
            prop_assert_eq!(table.waiting(), waiting.len() as u64);
            prop_assert_eq!(table.oldest(now), oldest);
            prop_assert_eq!(table.aside().map(|(number, _)| number).collect::<Vec<_>>(), aside);
            for name in ["job-1", "2"] {
                let has = |(number, entry): &(u64, &Entry)| {
                    name.parse() == Ok(*number) || entry.head.as_ref().is_some_and(|head| head.job_id() == name)
                };
                let mut named: Vec<u64> = table.named(name).map(|(number, _)| number).collect();
                named.sort_unstable();
                prop_assert_eq!(named, table.iter().filter(has).map(|(number, _)| number).collect::<Vec<_>>());
            }
        }
    }
}
