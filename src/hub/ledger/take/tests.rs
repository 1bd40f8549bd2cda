//! The rows that reports give, each once.

use super::*;
use crate::base::RegionId;
use crate::replica::JobFacts;

fn fact(job: &str, kind: ChangeKind, lease_ms: u64, at_ms: u64) -> Change {
    let tenant = Some("acme".to_owned());
    Change {
        job_id: job.to_owned(),
        region: RegionId::parse("eu").unwrap(),
        kind,
        lease_ms,
        at_ms,
        federation_id: None,
        state: None,
        replicated_from: None,
        job: (kind == ChangeKind::Created).then(|| JobFacts { tenant, ..JobFacts::default() }),
        observed_by: None,
    }
}

fn on(change: Change) -> Reported {
    Reported { change, details: Some(OwnedDetails::default()), trial: None }
}

fn off(change: Change) -> Reported {
    Reported { change, details: None, trial: None }
}

fn added(known: BTreeSet<LedgerName>, jobs: &[LedgerJob], reported: &[Reported]) -> LedgerAppend {
    let jobs =
        jobs.iter().map(|it| ((it.job_id.clone(), it.region.clone()), super::super::filter::read_job(it).unwrap()));
    let mut adding =
        Adding { change: 5, day: 3, from: 7, now_ms: 3 * DAY_MS, jobs: jobs.collect(), ..Adding::new(known) };
    reported.iter().for_each(|it| adding.add(it, Some("pod:1")));
    adding.append()
}

#[test]
fn each_step_is_one_row_and_the_job_follows() {
    let steps = [
        on(fact("j", ChangeKind::Created, 0, 10)),
        on(fact("j", ChangeKind::Leased, 20, 20)),
        on(fact("j", ChangeKind::Leased, 20, 21)),
    ];
    let first = added(BTreeSet::new(), &[], &steps);
    assert_eq!(first.rows.iter().map(|it| it.number).collect::<Vec<_>>(), [7, 8]);
    assert_eq!((first.jobs.len(), first.jobs[0].tenant.as_deref(), first.jobs[0].enqueued_ms), (1, Some("acme"), 10));
    let row: HistoryRow = serde_json::from_str(first.rows[1].line.as_ref().unwrap()).unwrap();
    assert_eq!((row.number, row.day.as_str(), row.reported_by.as_deref()), (8, "1970-01-04", Some("pod:1")));
    assert_eq!(first.rows[1].leaf, leaf_hash(first.rows[1].line.as_ref().unwrap().as_bytes()));
    let known = first.rows.iter().map(|it| it.name.clone()).collect();
    let again = added(known, &first.jobs, &steps);
    assert!(again.rows.is_empty() && again.jobs.is_empty(), "a repetition adds nothing");
}

#[test]
fn the_sidecar_that_enqueues_a_job_decides_whether_it_is_in_the_ledger() {
    let steps = [off(fact("j", ChangeKind::Created, 0, 10)), on(fact("j", ChangeKind::Leased, 20, 20))];
    let kept_out = added(BTreeSet::new(), &[], &steps);
    assert_eq!((kept_out.rows.len(), kept_out.jobs.len()), (0, 1));
    assert!(!kept_out.jobs[0].document.contains("acme"), "nothing of it is kept");
    let later = added(BTreeSet::new(), &kept_out.jobs, &[on(fact("j", ChangeKind::Completed, 20, 30))]);
    assert!(later.rows.is_empty() && later.jobs.is_empty());
    let described = added(BTreeSet::new(), &[], &[on(fact("k", ChangeKind::Created, 0, 10))]);
    let acked = added(BTreeSet::new(), &described.jobs, &[off(fact("k", ChangeKind::Completed, 0, 30))]);
    assert_eq!(acked.rows.len(), 1, "another sidecar has the ledger off, and the job is in it all the same");
    let unknown = added(BTreeSet::new(), &[], &[off(fact("l", ChangeKind::Completed, 0, 30))]);
    assert!(unknown.rows.is_empty() && unknown.jobs.is_empty());
    let early = added(BTreeSet::new(), &[], &[on(fact("m", ChangeKind::Completed, 0, 30))]);
    assert_eq!(early.rows.len(), 1, "its enqueue may be reported later");
}

#[test]
fn a_job_that_is_kept_out_is_erased_where_its_worker_was_heard_first() {
    let early = added(BTreeSet::new(), &[], &[on(fact("j", ChangeKind::Leased, 20, 20))]);
    assert_eq!((early.rows.len(), early.erased.len()), (1, 0));
    let late = added(BTreeSet::new(), &early.jobs, &[off(fact("j", ChangeKind::Created, 0, 10))]);
    assert_eq!((late.rows.len(), late.erased), (0, vec![("j".to_owned(), "eu".to_owned())]));
    assert!(!late.jobs[0].document.contains("acme"));
    let later = added(BTreeSet::new(), &late.jobs, &[on(fact("j", ChangeKind::Completed, 20, 30))]);
    assert!(later.rows.is_empty() && later.jobs.is_empty(), "and stays out");
    let described = added(BTreeSet::new(), &[], &[on(fact("k", ChangeKind::Created, 0, 10))]);
    let known = described.rows.iter().map(|it| it.name.clone()).collect();
    let again = added(known, &described.jobs, &[off(fact("k", ChangeKind::Created, 0, 10))]);
    assert!(again.erased.is_empty(), "another report of the same step takes nothing away");
}

#[test]
fn a_further_extension_within_a_minute_moves_the_end_of_the_lease_without_a_row() {
    let extended = |at_ms, until_ms| Reported {
        change: fact("j", ChangeKind::Extended, 20, at_ms),
        details: Some(OwnedDetails { lease_until_ms: Some(until_ms), ..OwnedDetails::default() }),
        trial: None,
    };
    let first = added(BTreeSet::new(), &[], &[on(fact("j", ChangeKind::Leased, 20, 20)), extended(30, 60)]);
    let known: BTreeSet<LedgerName> = first.rows.iter().map(|it| it.name.clone()).collect();
    let second = added(known.clone(), &first.jobs, &[extended(50, 80)]);
    assert_eq!((second.rows.len(), second.jobs.len()), (0, 1));
    assert!(second.jobs[0].document.contains("\"lease_until_ms\":80"), "{}", second.jobs[0].document);
    let again = added(known, &second.jobs, &[extended(50, 80)]);
    assert!(again.jobs.is_empty(), "a repetition changes nothing");
}

#[test]
fn an_end_that_an_event_stream_shows_again_counts_once_for_a_breaker() {
    let ends = |reported: &[Reported]| {
        let mut adding = Adding { is_watched: true, ..Adding::new(BTreeSet::new()) };
        reported.iter().for_each(|it| adding.add(it, Some("pod:1")));
        adding.seen.iter().filter(|it| it.is_new_end).map(|it| it.step).collect::<Vec<_>>()
    };
    let shown = |change: Change| on(Change { observed_by: Some(crate::replica::Observer::Events), ..change });
    let (failed, done) = (fact("j", ChangeKind::Failed, 20, 30), fact("j", ChangeKind::Completed, 0, 50));
    let life = [on(fact("j", ChangeKind::Created, 0, 10)), on(failed.clone()), shown(failed.clone())];
    assert_eq!(ends(&life), [Step::Failed]);
    assert_eq!(ends(&[shown(failed.clone()), on(failed)]), [Step::Failed], "whichever comes first");
    assert_eq!(ends(&[shown(done.clone()), on(done)]), [Step::Succeeded]);
    let again = [on(fact("j", ChangeKind::Failed, 20, 30)), on(fact("j", ChangeKind::Failed, 40, 45))];
    assert_eq!(ends(&again).len(), 2, "another attempt");
}

#[test]
fn a_probe_whose_failure_is_heard_of_first_has_failed_since_it_went() {
    let mut adding = Adding { is_watched: true, ..Adding::new(BTreeSet::new()) };
    let went = Reported { trial: Some("i/1".to_owned()), ..on(fact("j", ChangeKind::Created, 0, 10)) };
    for it in [&on(fact("j", ChangeKind::Failed, 20, 30)), &went, &went] {
        adding.add(it, Some("pod:1"));
    }
    let probes: Vec<_> = adding.seen.iter().filter(|it| it.trial.is_some()).map(|it| it.job.failures).collect();
    assert_eq!(probes, [0, 0], "also where it is reported again");
    let of_another = Reported { trial: Some("i/2".to_owned()), ..on(fact("j", ChangeKind::Created, 0, 50)) };
    adding.add(&of_another, Some("pod:1"));
    assert_eq!(adding.seen.last().map(|it| it.job.failures), Some(1), "an earlier job is the answer to its enqueue");
    assert!(adding.seen.iter().all(|it| !it.job.is_bound || it.job_type.is_none()));
}
