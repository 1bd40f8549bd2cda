//! Outcomes in the order of their changes, for reports.

use super::*;

fn after(store: &Journal, revision: u64) -> Vec<String> {
    store
        .outcomes_after(revision, 10)
        .iter()
        .map(|(_, it)| format!("{} {}", it.copies[0].place.job_id, it.state().as_str()))
        .collect()
}

#[tokio::test]
async fn an_outcome_comes_again_after_each_change_and_a_job_that_went_well_never_does() {
    let store = open_at(None, 100);
    sent(&store, "well", Some(1), stored("well")).await;
    let under_way = sending(&store, "under-way").await;
    assert!(after(&store, 0).is_empty());
    sent(&store, "a", None, Told::Unknown).await;
    sent(&store, "b", None, Told::Unknown).await;
    assert_eq!(after(&store, 0), ["a unknown", "b unknown"]);
    let taken = store.outcomes_after(0, 10)[0].0;
    assert_eq!(after(&store, taken), ["b unknown"]);
    settle(&store, "a", Settlement::Doubled);
    assert_eq!(after(&store, taken), ["b unknown", "a doubled"]);
    assert_eq!(store.outcomes_after(0, 1).len(), 1);
    drop(under_way);
}

#[tokio::test]
async fn an_outcome_that_was_reported_and_went_well_after_all_comes_once_more() {
    let store = open_at(None, 100);
    sent(&store, "a", None, Told::Unknown).await;
    let (taken, known) = store.outcomes_after(0, 1).pop().unwrap();
    let mut found = store.found(known.number).unwrap();
    found.placement.apply(Event::Stored(0), store.now(), RULES);
    found.placement.apply(Event::Told(stored("a")), store.now(), RULES);
    assert!(store.update(&mut found) && !found.placement.has_outcome(), "{:?}", found.placement);
    assert_eq!(after(&store, taken), ["a stored"]);
}

#[tokio::test]
async fn the_outcomes_of_a_file_are_those_of_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = open(&path);
    sent(&first, "a", None, Told::Unknown).await;
    drop(first);
    let second = open(&path);
    eventually(|| after(&second, 0) == ["a unknown"]).await;
}

/// Takes the job with this id for a call that finds it in its region, and ends with this answer to its client.
fn found_by_a_call(store: &Arc<Journal>, job_id: &str, told: Told) {
    let mut hold = store.hold(of(store, job_id).unwrap().number, RULES).unwrap();
    hold.apply(Event::Stored(0));
    hold.end(told);
}

#[tokio::test]
async fn an_outcome_that_a_call_finds_to_be_well_is_there_after_a_restart_and_for_a_week() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = open(&path);
    sent(&first, "a", None, Told::Unknown).await;
    let (taken, _) = first.outcomes_after(0, 1).pop().unwrap();
    found_by_a_call(&first, "a", stored("a"));
    assert_eq!(after(&first, taken), ["a stored"]);
    first.prune(Duration::from_secs(60));
    assert_eq!(after(&first, taken), ["a stored"], "the hub may be away");
    drop(first);
    let second = open(&path);
    eventually(|| after(&second, 0) == ["a stored"]).await;
}

#[tokio::test]
async fn an_outcome_that_was_proven_absent_before_its_job_is_refused_for_good_is_kept_as_absent() {
    let store = open_at(None, 100);
    sent(&store, "a", None, Told::Unknown).await;
    let (taken, known) = store.outcomes_after(0, 1).pop().unwrap();
    let mut hold = store.hold(known.number, RULES).unwrap();
    hold.apply(Event::NotStored(0));
    hold.end(Told::Refused);
    let kept = store.outcomes_after(taken, 10);
    assert_eq!(kept.iter().map(|(_, it)| it.state()).collect::<Vec<_>>(), [State::Absent]);
}

#[tokio::test]
async fn the_end_of_a_key_that_the_hub_does_not_have_outlives_the_process_also_where_the_job_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = open(&path);
    let mut hold = first.begin(identity(Some(7)), RULES);
    hold.placement_mut().claim_key([8; 32]);
    hold.apply(Event::Sending(place("a"), None));
    hold.save_durably().await;
    hold.apply(Event::NotStored(0));
    hold.end(Told::Refused);
    drop(first);
    let second = open(&path);
    eventually(|| {
        second.unsettled(1).first().is_some_and(|it| it.placement.verdict() == Some(crate::outcome::Verdict::Absent))
    })
    .await;
    let found = second.unsettled(1).pop().unwrap();
    second.note_settled(found);
    assert!(second.unsettled(1).is_empty());
}
