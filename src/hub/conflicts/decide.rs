//! The decision about a copy of this hub's region, from the facts alone.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use super::super::copies::ShownCopy;
use super::super::index_settings::ConflictMode;
use super::super::record::{ConflictStep, IndexedChange};
use crate::base::{RegionId, words};
use crate::replica::{ChangeKind, Copy, Life, Record, Standing};

words! {
    /// Why a copy that counts less was left alone.
    Why {
        /// `index.conflicts` is `report`.
        ReportOnly = "report_only",
        /// The copy that counts is the same job in another region, which sidecars clear up.
        SameJob = "same_job",
        /// Some region has several jobs with the tracking id.
        Group = "group",
        /// This hub does not pull from the region of the copy that counts.
        NotReplicated = "not_replicated",
        /// Its region, or that of the copy that counts, names a state that is no word of OJS.
        State = "state",
        /// By the words of the regions it is not known to have been enqueued before the copy that counts.
        Time = "time",
        /// The region of the copy that counts does not show it as one that runs, has run or may run.
        Unconfirmed = "unconfirmed",
        /// Its region refuses to cancel it.
        Refused = "refused",
    }
}

/// A copy that counts more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Winner {
    pub(super) region: RegionId,
    pub(super) job_id: String,
    /// When it was enqueued, by the word of its region, once that was asked. Units: milliseconds since the Unix epoch.
    enqueued_ms: Option<u64>,
}

impl Winner {
    fn of(copy: &Copy) -> Self {
        Self { region: copy.region.clone(), job_id: copy.job_id.clone(), enqueued_ms: None }
    }

    /// Whether it counts more than a job that was enqueued at this time, both by the words of their regions: sidecars have other clocks.
    pub(super) fn beats(&self, enqueued_ms: Option<u64>, region: &RegionId, job_id: &str) -> bool {
        let own = enqueued_ms.map(|at| (at, region, job_id));
        let winner = self.enqueued_ms.map(|at| (at, &self.region, self.job_id.as_str()));
        own.is_some() && winner > own
    }
}

/// The knowledge of a hub beside the facts about a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'k> {
    pub(super) mode: ConflictMode,
    /// Whether no fact about the copies is younger than `index.conflicts_after`.
    pub(super) is_settled: bool,
    /// Whether these are all facts, and not the first ones of very many.
    pub(super) is_whole: bool,
    /// Whether this hub has had all facts of all its sources, for `index.conflicts_after` up to now.
    pub(super) is_current: bool,
    /// The regions that are isolated, or that a promotion is about.
    pub(super) closed: &'k [RegionId],
    /// The regions that this hub pulls from.
    pub(super) sources: &'k [RegionId],
}

/// The decision about a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is no conflict: the copy counts, has ended, or is not known any more.
    None,
    /// Nothing can be decided yet.
    Wait,
    /// The result.
    Result(ConflictStep, Option<Why>, Winner),
    /// It is to be cancelled, unless one of the two regions says otherwise.
    Cancel(Winner),
}

/// Decides about the copy of a job in a region. `standings`: of all copies of the record.
pub(super) fn decide(
    record: &Record,
    standings: &[Standing<'_>],
    (region, job_id): (&RegionId, &str),
    known: Known<'_>,
) -> Decision {
    let own = record.copies.iter().zip(standings).find(|(it, _)| it.region == *region && it.job_id == job_id);
    let Some((copy, standing)) = own.map(|(copy, standing)| (copy, *standing)) else {
        // The record reads so many facts at most: those about this copy may be missing.
        return if known.is_whole { Decision::None } else { Decision::Wait };
    };
    let (winner, winner_life) = match (standing, standing.winner()) {
        (Standing::Untold, _) => return Decision::Wait,
        (_, None) => return Decision::None,
        (_, Some(winner)) => (Winner::of(winner), winner.life()),
    };
    let is_closed = |it: &Copy| known.closed.contains(&it.region);
    // A promotion has its own judgement of the copies of its region.
    if record.copies.iter().any(is_closed) {
        return Decision::Wait;
    }
    match (standing, copy.life()) {
        _ if !known.is_whole => reported(Why::Group, winner),
        // A group that is used again and again never settles, and stays one.
        (Standing::Grouped(_), _) => reported(Why::Group, winner),
        _ if !known.is_settled => Decision::Wait,
        (_, Life::Started) => Decision::Result(ConflictStep::Doubled, None, winner),
        (Standing::Same(_), _) => reported(Why::SameJob, winner),
        _ if known.mode == ConflictMode::Report => reported(Why::ReportOnly, winner),
        (_, Life::Odd) => reported(Why::State, winner),
        _ if winner_life == Life::Odd => reported(Why::State, winner),
        _ if !known.sources.contains(&winner.region) => reported(Why::NotReplicated, winner),
        _ if !known.is_current => Decision::Wait,
        _ => Decision::Cancel(winner),
    }
}

/// When the record got the last news about copies. A worker that goes on is none: its lease is extended for as long as it runs. Units:
/// milliseconds since the Unix epoch.
pub(super) fn news_ms(facts: &[IndexedChange]) -> u64 {
    let news = facts.iter().filter(|it| it.change.kind != ChangeKind::Extended);
    news.map(|it| it.learned_ms).max().unwrap_or(0)
}

fn reported(why: Why, winner: Winner) -> Decision {
    Decision::Result(ConflictStep::Reported, Some(why), winner)
}

/// Decides about a copy that is to be cancelled once more, by the word of the region of the copy that counts.
pub(super) fn confirm(mut winner: Winner, shown: &ShownCopy) -> Decision {
    winner.enqueued_ms = shown.enqueued_ms;
    match (shown.life(), shown.state.as_deref()) {
        // The hub there has noted it, and this one gets to know it.
        (Some(Life::EndedUnrun), _) => Decision::Wait,
        (Some(Life::Odd), _) => reported(Why::State, winner),
        (None, _) | (_, Some("cancelled" | "discarded")) => reported(Why::Unconfirmed, winner),
        _ if shown.enqueued_ms.is_none() => reported(Why::Time, winner),
        _ => Decision::Cancel(winner),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::record::Conflict;
    use super::*;
    use crate::replica::{Change, JobFacts};

    fn region(id: &str) -> RegionId {
        RegionId::parse(id).unwrap()
    }

    fn created(at: &str, job_id: &str, enqueued_ms: u64) -> Change {
        Change {
            job_id: job_id.to_owned(),
            region: region(at),
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: enqueued_ms,
            federation_id: Some("f".to_owned()),
            state: None,
            replicated_from: None,
            job: Some(JobFacts { enqueued_ms: Some(enqueued_ms), ..JobFacts::default() }),
            observed_by: None,
        }
    }

    /// The decision about job `1` of the region `us`, as a word.
    fn decided(more: Vec<Change>, known: Known<'_>) -> String {
        let record = Record::of([vec![created("us", "1", 5)], more].concat());
        match decide(&record, &record.standings(), (&region("us"), "1"), known) {
            Decision::None => "none".to_owned(),
            Decision::Wait => "wait".to_owned(),
            Decision::Result(step, why, _) => format!("{} {}", step.as_str(), why.map_or("", Why::as_str)),
            Decision::Cancel(winner) => format!("cancel for {}/{}", winner.region, winner.job_id),
        }
    }

    #[test]
    fn a_copy_is_cancelled_only_where_nothing_speaks_for_it_and_all_is_known() {
        let (sources, closed) = ([region("eu")], [region("eu")]);
        let (mode, none) = (ConflictMode::Cancel, &[][..]);
        let all = Known { mode, is_settled: true, is_whole: true, is_current: true, closed: none, sources: &sources };
        let report = Known { mode: ConflictMode::Report, ..all };
        let later = || created("eu", "2", 6);
        let then = |kind, at: &str, job: &str, state: Option<&str>| Change {
            kind,
            at_ms: 9,
            job: None,
            state: state.map(str::to_owned),
            ..created(at, job, 9)
        };
        let leased = || then(ChangeKind::Leased, "us", "1", None);
        let cancelled = |at, job| then(ChangeKind::Cancelled, at, job, None);
        for (name, facts, known, expected) in [
            ("a later copy", vec![later()], all, "cancel for eu/2"),
            ("an earlier copy", vec![created("eu", "2", 4)], all, "none"),
            ("facts that are too young", vec![later()], Known { is_settled: false, ..all }, "wait"),
            ("a source that is behind", vec![later()], Known { is_current: false, ..all }, "wait"),
            ("a closed region", vec![later()], Known { closed: &closed, ..all }, "wait"),
            ("a region without a source", vec![later()], Known { sources: none, ..all }, "reported not_replicated"),
            ("a worker has it", vec![later(), leased()], all, "doubled "),
            ("it is over", vec![later(), cancelled("us", "1")], all, "none"),
            ("the later copy was cancelled before it ran", vec![later(), cancelled("eu", "2")], all, "none"),
            ("the same job", vec![created("eu", "1", 6)], all, "reported same_job"),
            ("the same job, which a worker has", vec![created("eu", "1", 6), leased()], all, "doubled "),
            ("the same job beside a later copy", vec![later(), created("ap", "1", 1)], all, "reported same_job"),
            ("a group", vec![later(), created("us", "3", 1)], all, "reported group"),
            (
                "a group that is in use",
                vec![later(), created("us", "3", 1)],
                Known { is_settled: false, ..all },
                "reported group",
            ),
            (
                "a winner in an odd state",
                vec![later(), then(ChangeKind::Created, "eu", "2", Some("odd"))],
                all,
                "reported state",
            ),
            ("a group that workers have", vec![later(), created("us", "3", 1), leased()], all, "reported group"),
            ("more facts than can be read", vec![later()], Known { is_whole: false, ..all }, "reported group"),
            ("an odd state", vec![later(), then(ChangeKind::Created, "us", "1", Some("odd"))], all, "reported state"),
            ("only reports", vec![later()], report, "reported report_only"),
            (
                "only reports, of a source that is behind",
                vec![later()],
                Known { is_current: false, ..report },
                "reported report_only",
            ),
            ("only reports, and a worker has it", vec![later(), leased()], report, "doubled "),
        ] {
            assert_eq!(decided(facts, known), expected, "{name}");
        }
        let nothing = |known| decide(&Record::default(), &[], (&region("us"), "1"), known);
        assert_eq!(nothing(all), Decision::None);
        assert_eq!(nothing(Known { is_whole: false, ..all }), Decision::Wait, "its facts may be among those not read");
    }

    #[test]
    fn the_report_of_a_group_is_known_by_its_word() {
        assert_eq!(Why::Group.as_str(), Conflict::GROUP);
    }

    #[test]
    fn a_worker_that_goes_on_is_no_news() {
        let fact = |kind, learned_ms| IndexedChange {
            change: Change { kind, ..created("us", "1", 5) },
            written: 0,
            mark: 0,
            learned_ms,
            is_replica: false,
        };
        let facts = [(ChangeKind::Created, 1), (ChangeKind::Leased, 2), (ChangeKind::Extended, 9)];
        assert_eq!(news_ms(&facts.map(|(kind, learned_ms)| fact(kind, learned_ms))), 2);
    }

    #[test]
    fn the_times_of_both_regions_must_be_known_and_agree() {
        let at = |enqueued_ms| Winner { region: region("eu"), job_id: "2".to_owned(), enqueued_ms };
        let winner = at(Some(7));
        assert!(winner.beats(Some(6), &region("us"), "1") && !winner.beats(Some(8), &region("us"), "1"));
        assert!(!winner.beats(Some(7), &region("us"), "1") && winner.beats(Some(7), &region("ap"), "9"));
        assert!(!winner.beats(None, &region("us"), "1") && !at(None).beats(Some(6), &region("us"), "1"));
    }

    #[test]
    fn a_copy_that_counts_must_run_have_run_or_be_able_to_by_the_word_of_its_region() {
        let winner = || Winner { region: region("eu"), job_id: "2".to_owned(), enqueued_ms: None };
        for (state, is_started, enqueued_ms, expected) in [
            (Some("available"), false, Some(7), "cancel"),
            (Some("completed"), true, Some(7), "cancel"),
            (Some("active"), false, Some(7), "cancel"),
            (Some("available"), false, None, "time"),
            (Some("cancelled"), false, Some(7), "wait"),
            (Some("discarded"), false, Some(7), "wait"),
            (Some("cancelled"), true, Some(7), "unconfirmed"),
            (Some("discarded"), true, Some(7), "unconfirmed"),
            (Some("odd"), false, Some(7), "state"),
            (None, false, None, "unconfirmed"),
        ] {
            let shown = ShownCopy { state: state.map(str::to_owned), is_started, enqueued_ms };
            let word = match confirm(winner(), &shown) {
                Decision::Cancel(_) => "cancel",
                Decision::Wait => "wait",
                Decision::Result(ConflictStep::Reported, Some(why), _) => why.as_str(),
                other => panic!("{other:?}"),
            };
            assert_eq!(word, expected, "{state:?} {is_started}");
        }
    }
}
