//! The result, for a person to read.

use std::collections::HashMap;

use super::case::{Case, Note, Wrong};
use super::ids::IDS;
use super::ledger::Mark;
use super::out::say;

/// Findings that are printed with everything that is known of them.
const SHOWN_MAX: usize = 20;

/// The counts of a judgement, and the broken promises.
#[derive(Debug, Default)]
pub(super) struct Tally {
    notes: HashMap<Note, u64>,
    wrongs: HashMap<Wrong, u64>,
    shown: usize,
}

/// The promises, in their own words, and the findings that break them.
const PROMISES: [(&str, &[Wrong]); 5] = [
    ("every 2xx is stored, once, in a permitted region", &[Wrong::Lost, Wrong::Astray, Wrong::OtherJob]),
    ("what was refused is not stored", &[Wrong::RefusedAndStored]),
    ("every duplicate is reported", &[Wrong::Doubled, Wrong::Resent, Wrong::RanTwice]),
    (
        "every unknown is resolved or listed, and truly",
        &[Wrong::Unreported, Wrong::FalselyLanded, Wrong::FalselyAbsent, Wrong::StillUnknown],
    ),
    ("no byte of a pinned job at another region's socket", &[Wrong::Leaked]),
];

/// The counted events, and their names.
const NOTES: [(Note, &str); 16] = [
    (Note::StoredOnce, "stored once, and the client knows"),
    (Note::RefusedOnly, "refused, and stored nowhere"),
    (Note::UnknownLanded, "unknown, then: it landed"),
    (Note::UnknownAbsent, "unknown, then: it never came to be stored"),
    (Note::UnknownPending, "unknown, and listed as not known yet"),
    (Note::UnknownForgotten, "unknown, in a journal that the plan destroyed"),
    (Note::SilentStored, "no answer (the sidecar was killed), stored"),
    (Note::SilentAbsent, "no answer (the sidecar was killed), not stored"),
    (Note::OtherCopyKept, "the copy that had started was kept instead"),
    (Note::DoubleReported, "twice, and the journal says so"),
    (Note::DoubleByReplay, "twice: no answer, and sent again without id and key"),
    (Note::DoubleByOwnId, "twice: the id was in a journal that the plan destroyed"),
    (Note::DoubleByLostKey, "twice: the key was in a journal that the plan destroyed"),
    (Note::OverwrittenByClient, "overwritten: its client used its id for another job"),
    (Note::IdTaken, "not stored: its region returned the job that has its id"),
    (Note::LateWrite, "a region wrote it later than late_write_grace"),
];

impl Tally {
    /// Takes in the findings about one job; a broken promise is printed with all its facts.
    pub(super) fn add(&mut self, mark: Mark, case: &Case<'_>) {
        let judged = super::judge::judge(*case);
        for note in judged.notes {
            *self.notes.entry(note).or_default() += 1;
        }
        for wrong in &judged.wrongs {
            *self.wrongs.entry(*wrong).or_default() += 1;
        }
        if !judged.wrongs.is_empty() {
            self.shown += 1;
            if self.shown <= SHOWN_MAX {
                show(mark, case, &judged.wrongs);
            }
        }
    }

    /// Prints the counts, and says whether every promise was kept.
    pub(super) fn print(&self) -> bool {
        let of = |note: Note| self.notes.get(&note).copied().unwrap_or(0);
        say("\n  what became of the jobs");
        for (note, words) in NOTES {
            say(format_args!("  {:>9}  {words}", of(note)));
        }
        say("\n  promise                                                violations");
        let mut kept = true;
        for (promise, breaches) in PROMISES {
            let found: Vec<String> =
                breaches.iter().filter_map(|wrong| Some(format!("{} {wrong:?}", self.wrongs.get(wrong)?))).collect();
            kept &= found.is_empty();
            line(promise, if found.is_empty() { "0".to_owned() } else { found.join(", ") });
        }
        kept
    }
}

/// One line of the table.
pub(super) fn line(promise: &str, found: impl std::fmt::Display) {
    say(format_args!("  {promise:<55} {found}"));
}

fn show(mark: Mark, case: &Case<'_>, wrongs: &[Wrong]) {
    let region = |place: u8| IDS.get(usize::from(place)).copied().unwrap_or("?");
    let id = |id: u128| uuid::Uuid::from_u128(id);
    let set = |bits: u8| {
        let named = IDS.iter().enumerate().filter(|(place, _)| bits & (1 << place) != 0);
        named.map(|(_, id)| *id).collect::<Vec<_>>().join(" ")
    };
    say(format_args!("\nVIOLATION {wrongs:?}: job {mark} ({})", case.issue.client));
    say(format_args!("  permitted: {}; seen at the sockets of: {}", set(case.issue.permitted), set(case.seen)));
    if let Some(own) = case.issue.own {
        say(format_args!("  its own id: {}", id(own)));
    }
    if case.issue.hidden {
        say("  shown to its own caller only");
    }
    for (number, send) in case.issue.sends.iter().enumerate() {
        let end = match send.end {
            super::ledger::End::Stored(told) => format!("stored as {}", id(told)),
            super::ledger::End::Unknown(Some(told)) => format!("unknown, as {}", id(told)),
            other => format!("{other:?}"),
        };
        let why = case.epochs.get(usize::from(send.epoch)).map_or("?", |epoch| epoch.why);
        say(format_args!(
            "  call {number}: {} to {} ms, process {} ({why}): {end}",
            send.began_ms, send.ended_ms, send.epoch
        ));
    }
    for (send, place) in case.arrivals {
        say(format_args!("  arrived: call {send} at {}", region(*place)));
    }
    for copy in case.copies {
        let state = if copy.cancelled { "cancelled" } else { "live" };
        say(format_args!(
            "  stored: {} in {} at {} ms, {state}, sent there {} times, handed out as {} jobs",
            id(copy.id),
            region(copy.region),
            copy.created_ms,
            copy.stored,
            copy.runs
        ));
    }
    for row in case.rows {
        say(format_args!(
            "  journal: {} in {} by call {:?} at {} ms: {:?}; elsewhere {:?}, cancelled in {:?}",
            row.job.map_or_else(|| "no id".to_owned(), |job| id(job).to_string()),
            region(row.region),
            row.call.map(|(_, call)| call),
            row.at_ms,
            row.state,
            row.elsewhere.map(|(place, job)| (region(place), id(job).to_string())),
            row.cancelled_in.map(region),
        ));
    }
}
