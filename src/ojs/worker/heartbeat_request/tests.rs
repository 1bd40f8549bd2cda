use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ojs::worker::testing::{together, value};

fn beat(body: &str) -> HeartbeatRequest<'_> {
    HeartbeatRequest::read(body.as_bytes(), 64).unwrap_or_else(|fault| panic!("{body}: {fault}"))
}

fn part(body: &str, array: bool, wanted: &[&str]) -> String {
    together(beat(body).part(&Bytes::copy_from_slice(body.as_bytes()), array, |id| wanted.contains(&id)))
}

#[test]
fn ids_are_found_in_all_three_dialects_each_once() {
    fn check(body: &str, ids: &[&str]) {
        assert_eq!(beat(body).ids().collect::<Vec<_>>(), ids, "{body}");
    }
    check(r#"{"worker_id":"w","active_jobs":["a","\u0062"]}"#, &["a", "b"]);
    check(r#"{"worker_id":"w","active_jobs":2,"active_job_ids":["a","b"],"labels":[]}"#, &["a", "b"]);
    check(r#"{"worker_id":"w","active_jobs":0,"active_job_ids":null}"#, &[]);
    check(r#"{"worker_id":"w","job_id":"a"}"#, &["a"]);
    check(r#"{"active_jobs":["a","b","a"],"active_job_ids":["b","c"],"job_id":"c"}"#, &["a", "b", "c"]);
    check("{}", &[]);
    // Nothing is known of jobs where something else stands in the place of ids.
    check(r#"{"active_jobs":["a",7]}"#, &[]);
    check(r#"{"active_jobs":{"a":1}}"#, &[]);
    check(r#"{"active_jobs":["a"],"job_id":1}"#, &[]);
    assert_eq!(beat(r#"{"worker_id":"w"}"#).worker_id().as_deref(), Some("w"));
    assert_eq!(beat(r#"{"worker_id":7}"#).worker_id(), None);
}

#[test]
fn what_servers_could_read_in_two_ways_is_refused() {
    for body in [r#"{"active_jobs":[],"Active_Jobs":["a"]}"#, r#"{"job_id":"a","job_id":"b"}"#, "7", "{]"] {
        assert!(HeartbeatRequest::read(body.as_bytes(), 64).is_err(), "{body}");
    }
    let ids = vec!["i"; IDS_MAX + 1];
    assert!(HeartbeatRequest::read(json!({ "active_jobs": ids }).to_string().as_bytes(), 64).is_err());
}

#[test]
fn a_region_hears_of_its_own_jobs_only() {
    fn check(body: &str, array: bool, wanted: &[&str], expected: &str) {
        assert_eq!(part(body, array, wanted), expected, "{body} for {wanted:?}");
    }
    let plain = r#"{ "active_jobs" : [ "a", "b" ], "x":1E400 }"#;
    check(plain, true, &["a", "b"], plain);
    check(plain, true, &["b"], r#"{ "active_jobs" : ["b"], "x":1E400 }"#);
    check(plain, false, &[], r#"{ "active_jobs" : [], "x":1E400 }"#);
    let counted = r#"{"active_jobs":2,"active_job_ids":["a", "b"]}"#;
    check(counted, true, &["a", "b"], r#"{"active_jobs":["a","b"],"active_job_ids":["a", "b"]}"#);
    check(counted, true, &["a"], r#"{"active_jobs":["a"],"active_job_ids":["a"]}"#);
    check(counted, false, &["a"], r#"{"active_jobs":1,"active_job_ids":["a"]}"#);
    check(counted, false, &["a", "b"], counted);
    let idle = r#"{"active_jobs":0,"active_job_ids":null}"#;
    check(idle, true, &[], r#"{"active_jobs":[],"active_job_ids":null}"#);
    check(idle, false, &[], idle);
    let one = r#"{"job_id":"a"}"#;
    check(one, true, &["a"], r#"{"active_jobs":["a"],"job_id":"a"}"#);
    check(one, false, &["a"], one);
    check(one, true, &[], r#"{"job_id":null}"#);
    check(
        r#"{"active_jobs":null,"active_job_ids":["a"]}"#,
        true,
        &["a"],
        r#"{"active_jobs":["a"],"active_job_ids":["a"]}"#,
    );
    let odd = r#"{"active_jobs":["a",7]}"#;
    check(odd, true, &[], odd);
}

/// The dialects, as an index of the strategy.
fn written(dialect: u8, ids: &[String]) -> Value {
    match dialect {
        0 => json!({ "worker_id": "w", "active_jobs": ids }),
        1 => json!({ "worker_id": "w", "active_jobs": ids.len(), "active_job_ids": ids, "state": "running" }),
        _ => json!({ "worker_id": "w", "job_id": ids.first() }),
    }
}

proptest! {
    #[test]
    fn the_parts_of_regions_hold_each_id_once_and_in_no_other_part(
        ids in prop::collection::hash_set("[a-f\"é]{1,3}", 0..8),
        dialect in 0..3u8,
        regions in 1..4usize,
    ) {
        let ids: Vec<String> = ids.into_iter().collect();
        let sent = written(dialect, &ids).to_string();
        let spoken: Vec<String> = beat(&sent).ids().map(str::to_owned).collect();
        let owner = |id: &str| id.len() % regions;
        let mut heard = Vec::new();
        for region in 0..regions {
            let bytes = Bytes::copy_from_slice(sent.as_bytes());
            let cut = together(beat(&sent).part(&bytes, true, |id| owner(id) == region));
            // Whatever the client wrote, a server that reads an array only is served.
            let ids = value(&cut)["active_jobs"].as_array().cloned().unwrap_or_default();
            for id in ids {
                let id = id.as_str().unwrap_or_default().to_owned();
                prop_assert_eq!(owner(&id), region);
                heard.push(id);
            }
            prop_assert_eq!(&value(&cut)["worker_id"], &json!("w"));
        }
        heard.sort();
        let mut spoken = spoken;
        spoken.sort();
        prop_assert_eq!(heard, spoken);
    }
}
