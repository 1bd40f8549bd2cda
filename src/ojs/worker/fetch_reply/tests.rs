use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ojs::worker::testing::{together, value};

const ONE: &str = r#"{"id":"1","queue":"a","args":[1E400],"meta":{"ojs.federation.region":"eu-west-1"}}"#;
const TWO: &str = r#"{ "queue":"b", "id":"\u0032" }"#;

fn claimed(body: &str) -> FetchReply<'_> {
    FetchReply::read(body.as_bytes()).unwrap_or_else(|| panic!("{body}"))
}

fn with(body: &str, jobs: &[&str], first: bool) -> String {
    together(claimed(body).with(&Bytes::copy_from_slice(body.as_bytes()), jobs, first))
}

#[test]
fn jobs_are_found_in_order_with_ids_queues_and_pins() {
    let body = format!(r#"{{"x":[{TWO}],"jobs":[{ONE} , {TWO}],"job":{ONE}}}"#);
    let read = claimed(&body);
    assert!(read.has_first());
    let seen: Vec<_> = read.jobs.iter().map(|job| (&*job.id, &*job.queue, job.raw())).collect();
    assert_eq!(seen, [("1", "a", ONE), ("2", "b", TWO)]);
    let pin = |place: usize| Some(read.jobs[place].envelope().ok()?.attributes().region.as_deref()?.to_owned());
    assert_eq!((pin(0).as_deref(), pin(1)), (Some("eu-west-1"), None));
}

#[test]
fn an_empty_answer_is_read_in_every_spelling_and_anything_else_is_none() {
    for body in [r#"{"jobs":[]}"#, r#"{"jobs":null}"#, r#"{"job":null,"jobs":[]}"#] {
        assert!(claimed(body).jobs.is_empty(), "{body}");
    }
    for body in [r#"{"jobs":{}}"#, r#"{"job":{}}"#, r#"{"jobs":[1]}"#, "[]", "", "<html>", r#"{"jobs":[],"Jobs":[{}]}"#]
    {
        assert!(FetchReply::read(body.as_bytes()).is_none(), "{body}");
    }
}

#[test]
fn a_pin_that_can_be_read_in_two_ways_is_an_error() {
    let body = r#"{"jobs":[{"id":"1","Meta":{"ojs.federation.region":"eu-west-1"}}]}"#;
    assert!(claimed(body).jobs[0].envelope().is_err());
}

#[test]
fn jobs_are_put_together_as_regions_wrote_them() {
    assert_eq!(
        with(r#"{ "jobs" : [ ] , "x":1 }"#, &[ONE, TWO], false),
        format!(r#"{{ "jobs" : [{ONE},{TWO}] , "x":1 }}"#)
    );
    assert_eq!(with(r#"{"jobs":null}"#, &[TWO], true), format!(r#"{{"job":{TWO},"jobs":[{TWO}]}}"#));
    assert_eq!(with(r#"{"jobs":[],"job":null}"#, &[TWO], false), format!(r#"{{"jobs":[{TWO}],"job":{TWO}}}"#));
    let full = format!(r#"{{"jobs":[{ONE}],"job":{ONE}}}"#);
    assert_eq!(with(&full, &[], true), r#"{"jobs":[],"job":null}"#);
}

proptest! {
    #[test]
    fn what_is_put_together_is_what_was_given(
        own in prop::collection::vec("[a-z]{1,4}", 0..4),
        others in prop::collection::vec("[a-z]{1,4}", 0..4),
        named in any::<bool>(),
        first in any::<bool>(),
    ) {
        let job = |id: &String| json!({ "id": id, "queue": "q", "args": [id] });
        let mut answer = json!({ "jobs": own.iter().map(job).collect::<Vec<_>>(), "more": { "jobs": [] } });
        if named {
            answer["job"] = own.first().map_or(Value::Null, job);
        }
        let all: Vec<String> = own.iter().chain(&others).map(|id| job(id).to_string()).collect();
        let raws: Vec<&str> = all.iter().map(String::as_str).collect();
        let merged = value(&with(&answer.to_string(), &raws, first));
        let expected: Vec<Value> = own.iter().chain(&others).map(job).collect();
        prop_assert_eq!(&merged["jobs"], &json!(expected));
        let repeats = named || (first && !expected.is_empty());
        prop_assert_eq!(merged.get("job").cloned(), repeats.then(|| expected.first().cloned().unwrap_or_default()));
        prop_assert_eq!(&merged["more"], &answer["more"]);
    }
}
