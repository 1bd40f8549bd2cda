//! The decision about one job of a lost region.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use serde::{Deserialize, Serialize};

use crate::base::{RegionId, words};
use crate::replica::{Copy, Record};

words! {
    /// Why a job stays where it is.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Why {
        /// This hub does not have its bytes.
        NoBytes = "no_bytes",
        /// A pin, a rule or its tenant binds it to some regions, and this hub does not have its bytes.
        Bound = "bound",
        /// A worker has it, as far as the index knows.
        Active = "active",
        /// It has ended.
        Ended = "ended",
        /// It is a replica, or another region has the copy that counts.
        Elsewhere = "elsewhere",
        /// The region of the hub has a job with this id.
        AlreadyThere = "already_there",
        /// The region of the hub has refused it.
        Refused = "refused",
        /// The index does not know its state, or no longer; or it was sent several times and was never found.
        Unknown = "unknown",
        /// An operator has stopped the promotion before.
        Stopped = "stopped",
        /// The lost region came back before.
        RegionReturned = "region_returned",
    }
}

/// Why the copy of a job in the region `from` stays there, as far as the facts about the job say; none where its bytes decide.
///
/// `record`: the copies of the job, and those with its tracking id. `with_active`: also a job that a worker has is taken.
pub(super) fn left(record: &Record, from: &RegionId, job_id: &str, with_active: bool) -> Option<Why> {
    let is_own = |it: &Copy| it.region == *from && it.job_id == job_id;
    let Some(copy) = record.copies.iter().find(|it| is_own(it)) else { return Some(Why::Unknown) };
    if copy.replicated_from.is_some() || !counts(record, copy) {
        return Some(Why::Elsewhere);
    }
    match copy.state.as_str() {
        "scheduled" | "available" | "pending" | "retryable" => None,
        "active" if with_active => None,
        "active" => Some(Why::Active),
        "completed" | "cancelled" | "discarded" => Some(Why::Ended),
        _ => Some(Why::Unknown),
    }
}

/// Whether no copy elsewhere counts more. Clients give several jobs one tracking id: jobs of the same region are not copies of each other, and
/// neither are those that were moved from there.
fn counts(record: &Record, copy: &Copy) -> bool {
    let is_of_region = |job_id: &str| record.copies.iter().any(|it| it.region == copy.region && it.job_id == job_id);
    let is_copy = |it: &&Copy| {
        let is_same = it.job_id == copy.job_id;
        it.region != copy.region && (is_same || !is_of_region(&it.job_id))
    };
    record.copies.iter().filter(is_copy).all(|other| other.writer() < copy.writer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::{Change, ChangeKind, JobFacts};

    fn region(id: &str) -> RegionId {
        RegionId::parse(id).unwrap()
    }

    fn created(at: &str, enqueued_ms: u64, bound: bool) -> Change {
        let job = JobFacts { bound, enqueued_ms: Some(enqueued_ms), ..JobFacts::default() };
        Change {
            job_id: "job".to_owned(),
            region: region(at),
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: 5,
            federation_id: None,
            state: None,
            replicated_from: None,
            job: Some(job),
            observed_by: None,
        }
    }

    fn then(kind: ChangeKind, state: Option<&str>) -> Change {
        let state = state.map(str::to_owned);
        Change { kind, lease_ms: 9, at_ms: 9, state, job: None, ..created("us", 1, false) }
    }

    #[test]
    fn waiting_jobs_are_taken_and_all_others_stay_for_a_reason() {
        let free = || created("us", 1, false);
        for (facts, why) in [
            (vec![free()], None),
            (vec![Change { state: Some("scheduled".to_owned()), ..free() }], None),
            (vec![free(), then(ChangeKind::Failed, Some("retryable"))], None),
            (vec![free(), then(ChangeKind::Leased, None)], Some(Why::Active)),
            (vec![free(), then(ChangeKind::Completed, None)], Some(Why::Ended)),
            (vec![free(), then(ChangeKind::Failed, Some("discarded"))], Some(Why::Ended)),
            (vec![created("us", 1, true)], None),
            (vec![Change { state: Some("odd".to_owned()), ..free() }], Some(Why::Unknown)),
            (vec![free(), Change { job_id: "other".to_owned(), ..created("us", 9, false) }], None),
            (vec![free(), Change { job_id: "other".to_owned(), ..created("eu", 9, false) }], Some(Why::Elsewhere)),
            (
                vec![
                    free(),
                    Change { job_id: "k".to_owned(), ..created("us", 3, false) },
                    Change { job_id: "k".to_owned(), ..created("eu", 9, false) },
                ],
                None,
            ),
            (vec![free(), created("eu", 2, false)], Some(Why::Elsewhere)),
            (vec![created("us", 3, false), created("eu", 2, false)], None),
            (vec![Change { replicated_from: Some("ap".to_owned()), ..free() }], Some(Why::Elsewhere)),
            (vec![], Some(Why::Unknown)),
        ] {
            assert_eq!(left(&Record::of(facts.clone()), &region("us"), "job", false), why, "{facts:?}");
        }
        let leased = Record::of([free(), then(ChangeKind::Leased, None)]);
        assert_eq!(left(&leased, &region("us"), "job", true), None);
    }
}
