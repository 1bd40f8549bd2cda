use std::time::Duration;

use super::super::envelope::Reading;
use super::super::retry::Retry;
use super::*;

fn read(dialect: Dialect, source: &str) -> Result<Workflow, String> {
    let retry = Retry::doubling(3, Duration::from_secs(1), false);
    let read = Workflow::read(source.as_bytes(), &Reading { dialect, any_id: false, retry });
    read.map_err(|problem| problem.to_string())
}

fn graph(links: &[(&str, &[&str])]) -> Result<Workflow, String> {
    let step = |(id, after): &(&str, &[&str])| {
        let after: Vec<String> = after.iter().map(|name| format!("\"{name}\"")).collect();
        format!(r#"{{"id":"{id}","type":"{id}","args":[],"depends_on":[{}]}}"#, after.join(","))
    };
    let steps: Vec<String> = links.iter().map(step).collect();
    read(Dialect::Spec, &format!(r#"{{"name":"g","steps":[{}]}}"#, steps.join(",")))
}

/// The types that begin now.
fn begun(workflow: &mut Workflow, launches: Vec<Launch>) -> Vec<String> {
    let one = |launch: Launch| {
        workflow.parts[launch.membership.place].job = Some("job".to_owned());
        launch.envelope.kind
    };
    launches.into_iter().map(one).collect()
}

#[test]
fn a_step_of_a_graph_begins_when_those_that_it_names_have_completed() {
    let mut workflow = graph(&[("a", &[]), ("d", &["b", "c"]), ("b", &["a"]), ("c", &["a"])]).unwrap();
    let launches = workflow.go_on(0, Dialect::Spec);
    assert_eq!(begun(&mut workflow, launches), ["a"]);
    for (place, expected) in [(0, &["b", "c"][..]), (3, &[]), (2, &["d"])] {
        let launches = workflow.settle(place, Outcome::Completed(None), 1, Dialect::Spec);
        assert_eq!(begun(&mut workflow, launches), expected, "{place}");
    }
    assert_eq!(workflow.state, WorkflowState::Running);
    assert!(workflow.settle(2, Outcome::Failed, 1, Dialect::Spec).is_empty());
    assert!(workflow.settle(1, Outcome::Completed(None), 2, Dialect::Spec).is_empty());
    assert_eq!((workflow.state, workflow.ended_ms), (WorkflowState::Completed, Some(2)));
}

#[test]
fn a_graph_fails_when_nothing_more_can_run() {
    let mut workflow = graph(&[("a", &[]), ("b", &[]), ("c", &["a"])]).unwrap();
    let launches = workflow.go_on(0, Dialect::Spec);
    assert_eq!(begun(&mut workflow, launches), ["a", "b"]);
    assert!(workflow.settle(0, Outcome::Failed, 1, Dialect::Spec).is_empty());
    assert_eq!(workflow.state, WorkflowState::Running);
    assert!(workflow.settle(1, Outcome::Completed(None), 1, Dialect::Spec).is_empty());
    assert_eq!(workflow.state, WorkflowState::Failed);
}

#[test]
fn what_is_no_workflow_is_refused() {
    let job = r#"{"type":"a","args":[]}"#;
    for (source, part) in [
        ("[]".to_owned(), "no JSON object"),
        (r#"{"type":"chain"}"#.to_owned(), "steps"),
        (r#"{"type":"chain","steps":[]}"#.to_owned(), "steps"),
        (r#"{"type":"group","jobs":[]}"#.to_owned(), "jobs"),
        (format!(r#"{{"type":"group","steps":[{job}]}}"#), "jobs"),
        (format!(r#"{{"type":"saga","steps":[{job}]}}"#), "type"),
        (format!(r#"{{"jobs":[{job}]}}"#), "type"),
        (format!(r#"{{"type":"batch","jobs":[{job}]}}"#), "callbacks"),
        (format!(r#"{{"type":"batch","jobs":[{job}],"callbacks":{{}}}}"#), "callbacks"),
        (format!(r#"{{"type":"chain","steps":[{job},{{"type":"a"}}]}}"#), "index 1: `args`"),
        (format!(r#"{{"type":"chain","steps":[{job},{{"type":"A","args":[]}}]}}"#), "index 1: `type`"),
        (format!(r#"{{"steps":[{job}]}}"#), "index 0: `id`"),
    ] {
        let refused = read(Dialect::Spec, &source).unwrap_err();
        assert!(refused.contains(part), "{source}: {refused}");
    }
    assert!(read(Dialect::Reference, r#"{"steps":[{"id":"a","type":"a","args":[]}]}"#).unwrap_err().contains("type"));
    for links in [
        &[("a", &["a"][..])][..],
        &[("a", &["b"]), ("b", &["a"])],
        &[("a", &["none"])],
        &[("a", &[]), ("a", &[])],
        &[("x", &[]), ("a", &["x", "c"]), ("b", &["a"]), ("c", &["b"])],
    ] {
        assert!(graph(links).is_err(), "{links:?}");
    }
}

#[test]
fn the_options_of_a_workflow_hold_for_steps_that_say_nothing_themselves() {
    let source = r#"{"type":"chain","options":{"queue":"q","priority":3},"steps":[
        {"type":"a","args":[1E400],"id":"step"},{"type":"b","args":[],"options":{"queue":"own"}}]}"#;
    let workflow = read(Dialect::Spec, source).unwrap();
    let placed: Vec<_> =
        workflow.parts.iter().map(|part| (part.envelope.queue.as_str(), part.envelope.priority)).collect();
    assert_eq!(placed, [("q", 3), ("own", 3)]);
    assert_eq!((workflow.parts[0].envelope.args.get(), &workflow.parts[0].envelope.id), ("[1E400]", &None));
}
