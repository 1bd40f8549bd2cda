use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ojs::worker::testing::{together, value};

const LOCAL: &str = r#"{"state":"running", "jobs_extended":["a"],"server_time":"T"}"#;

fn beaten(body: &str) -> HeartbeatReply<'_> {
    HeartbeatReply::read(body.as_bytes()).unwrap_or_else(|| panic!("{body}"))
}

fn with(body: &str, others: &[&str], calm: bool) -> String {
    let others: Vec<_> = others.iter().map(|other| beaten(other)).collect();
    together(beaten(body).with(&Bytes::copy_from_slice(body.as_bytes()), &others, calm))
}

#[test]
fn the_stricter_of_state_and_directive_counts() {
    for (body, expected) in [
        (LOCAL, Directive::Continue),
        (r#"{"state":"active","directive":"continue"}"#, Directive::Continue),
        (r#"{"state":"active","directive":"quiet"}"#, Directive::Quiet),
        (r#"{"state":"terminate"}"#, Directive::Terminate),
        (r#"{"state":"quiet","directive":"terminate"}"#, Directive::Terminate),
        (r#"{"state":7}"#, Directive::Continue),
    ] {
        assert_eq!(beaten(body).directive(), expected, "{body}");
    }
    for body in ["[]", "", r#"{"jobs_extended":[7]}"#, r#"{"state":"quiet","State":"running"}"#] {
        assert!(HeartbeatReply::read(body.as_bytes()).is_none(), "{body}");
    }
}

#[test]
fn extended_jobs_are_united_and_the_rest_is_the_first_answers() {
    assert_eq!(with(LOCAL, &[], false), LOCAL);
    assert_eq!(with(LOCAL, &[r#"{"state":"terminate","jobs_extended":["a"]}"#], false), LOCAL);
    assert_eq!(
        with(LOCAL, &[r#"{"state":"quiet","jobs_extended":["b"],"server_time":"U"}"#], false),
        r#"{"state":"running", "jobs_extended":["a","b"],"server_time":"T"}"#
    );
    assert_eq!(with(r#"{"jobs_extended":["a","a"]}"#, &[], false), r#"{"jobs_extended":["a"]}"#);
    assert_eq!(with("{}", &[LOCAL], false), r#"{"jobs_extended":["a"]}"#);
    assert_eq!(with(r#"{"jobs_extended":null}"#, &[LOCAL], false), r#"{"jobs_extended":["a"]}"#);
}

#[test]
fn an_order_that_is_not_the_local_regions_is_taken_out() {
    assert_eq!(with(LOCAL, &[], true), LOCAL);
    assert_eq!(
        with(r#"{"state":"active","directive":"quiet","jobs_extended":[]}"#, &[], true),
        r#"{"state":"active","directive":"continue","jobs_extended":[]}"#
    );
    assert_eq!(with(r#"{"state":"terminate"}"#, &[], true), r#"{"state":"running"}"#);
    assert_eq!(with(r#"{"state":"quiet"}"#, &[], false), r#"{"state":"quiet"}"#);
}

proptest! {
    #[test]
    fn no_extension_is_lost_and_none_is_told_twice(
        answers in prop::collection::vec(prop::collection::vec("[a-e\"é]{1,2}", 0..5), 1..4),
    ) {
        let bodies: Vec<String> =
            answers.iter().map(|ids| json!({ "state": "running", "jobs_extended": ids }).to_string()).collect();
        let others: Vec<&str> = bodies.iter().skip(1).map(String::as_str).collect();
        let merged = value(&with(&bodies[0], &others, false));
        let told: Vec<&str> =
            merged["jobs_extended"].as_array().into_iter().flatten().filter_map(|id| id.as_str()).collect();
        let unique: HashSet<&str> = told.iter().copied().collect();
        let expected: HashSet<&str> = answers.iter().flatten().map(String::as_str).collect();
        prop_assert_eq!(unique.len(), told.len());
        prop_assert_eq!(unique, expected);
    }
}
