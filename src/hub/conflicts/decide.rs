//! The decision about a copy of this hub's region, from the facts alone.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use super::super::index_settings::ConflictMode;
use super::super::record::ConflictStep;
use crate::base::{RegionId, words};
use crate::replica::{Copy, Life, Record, Standing};

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
        /// Its region names a state that is no word of OJS.
        State = "state",
        /// By its region's own word it was enqueued later than the copy that counts.
        Time = "time",
        /// Its region refuses to cancel it.
        Refused = "refused",
    }
}

/// A copy that counts more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Winner {
    pub(super) region: RegionId,
    pub(super) job_id: String,
    /// Units: milliseconds since the Unix epoch.
    enqueued_ms: u64,
}

impl Winner {
    fn of(copy: &Copy) -> Self {
        Self { region: copy.region.clone(), job_id: copy.job_id.clone(), enqueued_ms: copy.enqueued_ms() }
    }

    /// Whether it also counts more than a job of a region that was enqueued at this time.
    pub(super) fn beats(&self, enqueued_ms: u64, region: &RegionId, job_id: &str) -> bool {
        (self.enqueued_ms, &self.region, self.job_id.as_str()) > (enqueued_ms, region, job_id)
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
    /// It is to be cancelled, unless its region says otherwise.
    Cancel(Winner),
}

/// Decides about the copy of a job in a region.
pub(super) fn decide(record: &Record, region: &RegionId, job_id: &str, known: Known<'_>) -> Decision {
    let own = record.copies.iter().find(|it| it.region == *region && it.job_id == job_id);
    let Some(copy) = own else { return Decision::None };
    let standing = record.standing(copy);
    let winner = match (standing, standing.winner()) {
        (Standing::Untold, _) => return Decision::Wait,
        (_, None) => return Decision::None,
        (_, Some(winner)) => Winner::of(winner),
    };
    let is_closed = |it: &Copy| known.closed.contains(&it.region);
    // A promotion has its own judgement of the copies of its region.
    if !known.is_settled || record.copies.iter().any(is_closed) {
        return Decision::Wait;
    }
    let reported = |why, winner| Decision::Result(ConflictStep::Reported, Some(why), winner);
    match (standing, copy.life()) {
        _ if !known.is_whole => reported(Why::Group, winner),
        (Standing::Grouped(_), _) => reported(Why::Group, winner),
        (_, Life::Started) => Decision::Result(ConflictStep::Doubled, None, winner),
        (Standing::Same(_), _) => reported(Why::SameJob, winner),
        _ if known.mode == ConflictMode::Report => reported(Why::ReportOnly, winner),
        (_, Life::Odd) => reported(Why::State, winner),
        _ if !known.sources.contains(&winner.region) => reported(Why::NotReplicated, winner),
        _ if !known.is_current => Decision::Wait,
        _ => Decision::Cancel(winner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::{Change, ChangeKind, JobFacts};

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
        }
    }

    /// The decision about job `1` of the region `us`, as a word.
    fn decided(more: Vec<Change>, known: Known<'_>) -> String {
        let record = Record::of([vec![created("us", "1", 5)], more].concat());
        match decide(&record, &region("us"), "1", known) {
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
            ("a group", vec![later(), created("us", "3", 1)], all, "reported group"),
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
        let nothing = decide(&Record::default(), &region("us"), "1", all);
        assert_eq!(nothing, Decision::None);
    }

    #[test]
    fn the_time_of_a_region_itself_must_agree() {
        let winner = Winner { region: region("eu"), job_id: "2".to_owned(), enqueued_ms: 7 };
        assert!(winner.beats(6, &region("us"), "1") && !winner.beats(8, &region("us"), "1"));
        assert!(!winner.beats(7, &region("us"), "1") && winner.beats(7, &region("ap"), "9"));
    }
}
