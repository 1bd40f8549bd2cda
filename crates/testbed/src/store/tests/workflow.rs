//! Workflows, whose jobs are made in turn.

use super::*;
use crate::refused::NotCancelled;
use crate::workflow::Workflow;

fn begin(store: &mut Store, source: &str) -> String {
    let retry = Retry::doubling(1, Duration::from_secs(1), false);
    let reading = Reading { dialect: store.dialect, any_id: true, retry };
    store.begin(Workflow::read(source.as_bytes(), &reading).unwrap())
}

fn get(store: &mut Store, id: &str) -> serde_json::Value {
    serde_json::from_str(&store.workflow(id).unwrap()).unwrap()
}

/// What is ready, by type, and its ids.
fn ready(store: &mut Store) -> Vec<(String, String)> {
    let jobs = store.snapshot();
    let ready = jobs.iter().filter(|job| job.state == JobState::Available);
    ready.map(|job| (job.kind.clone(), job.id.clone())).collect()
}

fn kinds(store: &mut Store) -> String {
    ready(store).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>().join(" ")
}

/// A worker does the job of this type, or fails at it.
fn work(store: &mut Store, kind: &str, result: Option<&str>) {
    let (_, id) = ready(store).into_iter().find(|(ready, _)| ready == kind).unwrap();
    fetch(store, &["default"], 99);
    match result {
        Some(result) => {
            store.ack(&id, Some(serde_json::value::RawValue::from_string(result.to_owned()).unwrap())).unwrap();
        }
        None => {
            store.nack(&id, &failure(true, false)).unwrap();
        }
    }
    // Those that were only taken along go back.
    let jobs = store.snapshot();
    for job in jobs.iter().filter(|job| job.state == JobState::Active) {
        store.nack(&job.id, &failure(true, true)).unwrap();
    }
}

const CHAIN: &str =
    r#"{"type":"chain","steps":[{"type":"a","args":[]},{"type":"b","args":[]},{"type":"c","args":[]}]}"#;

#[test]
fn a_chain_makes_one_job_after_the_other_and_hands_the_results_on() {
    for (dialect, second, third) in [
        (Dialect::Spec, r#""parent_results":{"0":{"n": 1E400}}"#, r#""parent_results":{"0":{"n": 1E400},"1":2}"#),
        (Dialect::Reference, r#""parent_results":[{"n": 1E400}]"#, r#""parent_results":[{"n": 1E400},2]"#),
    ] {
        let (_, mut store) = speaking(dialect);
        let id = begin(&mut store, CHAIN);
        for (kind, result, told) in [("a", r#"{"n": 1E400}"#, "a"), ("b", "2", second), ("c", "3", third)] {
            assert_eq!((kinds(&mut store).as_str(), &get(&mut store, &id)["state"]), (kind, &"running".into()));
            let job = ready(&mut store).remove(0).1;
            assert!(store.job(&job).unwrap().document().contains(told), "{dialect:?} {kind}");
            work(&mut store, kind, Some(result));
        }
        let workflow = get(&mut store, &id);
        assert_eq!((&workflow["state"], &workflow["steps_completed"]), (&"completed".into(), &3.into()));
        assert_eq!(kinds(&mut store), "");
    }
}

#[test]
fn a_step_that_fails_ends_a_chain_and_a_job_that_fails_does_not_end_a_group() {
    let (_, mut store) = steered();
    let chain = begin(&mut store, CHAIN);
    work(&mut store, "a", Some("1"));
    work(&mut store, "b", None);
    let states = |workflow: &serde_json::Value, list: &str| -> Vec<String> {
        let parts = workflow[list].as_array().unwrap().iter();
        parts.map(|part| part["state"].as_str().unwrap().to_owned()).collect()
    };
    let workflow = get(&mut store, &chain);
    assert_eq!((&workflow["state"], &workflow["steps_completed"]), (&"failed".into(), &1.into()));
    assert_eq!(states(&workflow, "steps"), ["completed", "failed", "cancelled"]);
    assert_eq!(kinds(&mut store), "");
    let group = begin(&mut store, &CHAIN.replace("chain", "group").replace("steps", "jobs"));
    assert_eq!(kinds(&mut store), "a b c");
    work(&mut store, "b", None);
    work(&mut store, "a", Some("1"));
    assert_eq!(get(&mut store, &group)["state"], "running");
    work(&mut store, "c", Some("1"));
    let workflow = get(&mut store, &group);
    assert_eq!((&workflow["state"], &workflow["jobs_completed"]), (&"failed".into(), &2.into()));
    assert_eq!(states(&workflow, "jobs"), ["completed", "failed", "completed"]);
}

const BATCH: &str = r#"{"type":"batch","jobs":[{"type":"a","args":[]},{"type":"b","args":[]}],"callbacks":{
    "on_complete":{"type":"always","args":[]},"on_success":{"type":"good","args":[]},"on_failure":{"type":"bad","args":[]}}}"#;

#[test]
fn the_callbacks_of_a_batch_follow_its_outcome_once_and_decide_its_state_by_the_documents() {
    for (result, callbacks, in_go) in [(Some("2"), "always good", "completed"), (None, "always bad", "failed")] {
        for dialect in Dialect::ALL {
            let (_, mut store) = speaking(dialect);
            let id = begin(&mut store, BATCH);
            work(&mut store, "a", Some("1"));
            assert_eq!(kinds(&mut store), "b");
            work(&mut store, "b", result);
            assert_eq!(kinds(&mut store), callbacks);
            let in_spec = dialect == Dialect::Spec;
            assert_eq!(get(&mut store, &id)["state"], if in_spec { "running" } else { in_go });
            let told = format!(r#""parent_results":{{"0":1,"1":{}}}"#, result.unwrap_or("null"));
            let always = ready(&mut store).remove(0).1;
            assert_eq!(store.job(&always).unwrap().document().contains(&told), in_spec);
            for callback in callbacks.split(' ') {
                work(&mut store, callback, Some("0"));
            }
            assert_eq!(get(&mut store, &id)["state"], if in_spec { "completed" } else { in_go });
            assert_eq!(kinds(&mut store), "");
        }
    }
    let (_, mut store) = steered();
    let id = begin(&mut store, BATCH);
    for (kind, result) in [("a", Some("1")), ("b", Some("1")), ("good", None), ("always", Some("1"))] {
        work(&mut store, kind, result);
    }
    assert_eq!(get(&mut store, &id)["state"], "failed");
}

#[test]
fn a_workflow_that_is_called_off_makes_no_more_jobs_and_by_the_documents_lets_active_ones_finish() {
    for (dialect, active) in [(Dialect::Spec, JobState::Active), (Dialect::Reference, JobState::Cancelled)] {
        let (_, mut store) = speaking(dialect);
        let chain = begin(&mut store, CHAIN);
        let group = begin(&mut store, &CHAIN.replace("chain", "group").replace("steps", "jobs"));
        let first = fetch(&mut store, &["default"], 1).remove(0);
        for id in [&chain, &group] {
            store.cancel_workflow(id).unwrap();
            assert_eq!(get(&mut store, id)["state"], "cancelled");
            assert_eq!(
                store.cancel_workflow(id).unwrap_err(),
                NotCancelled::Over(crate::state::WorkflowState::Cancelled)
            );
        }
        assert_eq!((kinds(&mut store).as_str(), state(&mut store, &first)), ("", active), "{dialect:?}");
        if active == JobState::Active {
            store.ack(&first, None).unwrap();
            assert_eq!((kinds(&mut store).as_str(), &get(&mut store, &chain)["state"]), ("", &"cancelled".into()));
        }
    }
    assert_eq!(steered().1.cancel_workflow("none").unwrap_err(), NotCancelled::NotFound);
}

#[test]
fn a_dead_letter_that_is_tried_again_does_not_wake_its_workflow() {
    let (_, mut store) = steered();
    let retry = r#""options":{"retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}"#;
    let chain = CHAIN.replace(r#""type":"a","#, &format!(r#""type":"a",{retry},"#));
    let id = begin(&mut store, &chain);
    work(&mut store, "a", None);
    let dead = store.snapshot()[0].id.clone();
    store.retry_dead_letter(&dead).unwrap();
    work(&mut store, "a", Some("1"));
    assert_eq!((kinds(&mut store).as_str(), &get(&mut store, &id)["state"]), ("", &"failed".into()));
}

#[test]
fn workflows_are_listed_in_order_and_the_oldest_that_are_over_are_forgotten() {
    let (_, mut store) = steered();
    let first = begin(&mut store, CHAIN);
    for _ in 0..10_001 {
        let id = begin(&mut store, CHAIN);
        store.cancel_workflow(&id).unwrap();
    }
    let all = store.workflows(None);
    assert_eq!((all.len(), &all[0].0), (10_001, &first));
    assert_eq!(store.workflows(Some("running")), [(first.clone(), first)]);
}
