use bytes::Bytes;
use proptest::prelude::*;

use super::answer::{Line, bulk, items, jobs};
use super::*;
use crate::ojs::Abridged;
use crate::ojs::stamp::{Additions, Splices, splices};
use crate::ojs::{ErrorDocument, RoutingKind};

const PIN: &str = r#""ojs.federation.region":"eu-west-1""#;
const STAMP: Additions<'_> =
    Additions { id: Some("I"), federation_id: Some("F"), source_region: None, routed_at: None, shard: None, due: None };

fn read(body: &str) -> Several<'_> {
    Several::read(body.as_bytes(), 64).unwrap_or_else(|fault| panic!("{body}: {fault}"))
}

fn batch(body: &str) -> Batch<'_> {
    match read(body) {
        Several::Batch(batch) => batch,
        Several::Other(_) => panic!("no batch: {body}"),
    }
}

fn check_refused(body: &str, reason: &str) {
    let body = body.replace('@', PIN);
    match Several::read(body.as_bytes(), 64) {
        Err(fault) => assert_eq!(fault.reason.as_str(), reason, "{body}"),
        Ok(_) => panic!("read: {body}"),
    }
}

fn stamps(batch: &Batch<'_>) -> Vec<Splices> {
    batch.jobs.iter().map(|job| splices(&job.envelope, &STAMP)).collect()
}

#[test]
fn a_batch_is_its_jobs_in_order_and_what_stands_beside_them() {
    let body = r#"{"default_options":{"queue":"q","metadata":{@}},
        "jobs":[{"type":"a"},{"args":[]},{"type":"c","callbacks":{"done":{"type":"d"}}}],"atomicity":"atomic",
        "callbacks":{"type":"e"}}"#
        .replace('@', PIN);
    let batch = batch(&body);
    assert_eq!(batch.jobs.iter().map(|job| job.envelope.job_type()).collect::<Vec<_>>(), [Some("a"), None, Some("c")]);
    assert_eq!(batch.jobs.iter().map(|job| job.within.len()).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(batch.beside.iter().map(Envelope::job_type).collect::<Vec<_>>(), [None, Some("e")]);
    let [key] = batch.keys.as_slice() else { panic!("{:?}", batch.keys) };
    assert_eq!((key.kind, key.value.as_deref()), (RoutingKind::Region, Some("eu-west-1")));
    assert_eq!(batch.atomicity.as_deref(), Some("atomic"));
}

#[test]
fn a_jobs_own_keys_are_its_own_and_data_is_left_alone() {
    let body =
        r#"{"jobs":[{"meta":{@}},{"options":{"metadata":{@}}},{"args":[{@}],"meta":{"deep":{@}}}]}"#.replace('@', PIN);
    let batch = batch(&body);
    let pins: Vec<_> = batch.jobs.iter().map(|job| job.envelope.attributes().region.as_deref()).collect();
    assert_eq!(pins, [Some("eu-west-1"), Some("eu-west-1"), None]);
    assert_eq!(batch.keys, []);
}

#[test]
fn what_is_no_batch_is_not_taken_apart() {
    for body in [
        "",
        "7",
        "[]",
        "{}",
        r#"[{"type":"a"}]"#,
        r#"{"jobs":{}}"#,
        r#"{"jobs":[]}"#,
        r#"{"jobs":[{},7]}"#,
        r#"{"x":{"jobs":[{}]}}"#,
    ] {
        assert!(matches!(read(body), Several::Other(_)), "{body}");
    }
}

#[test]
fn a_batch_that_could_be_read_in_two_ways_is_refused() {
    for body in [
        r#"{"jobs":[{}],"jobs":[{}]}"#,
        r#"{"jobs":[{}],"Jobs":[{}]}"#,
        r#"{"JOBS":[{}]}"#,
        r#"{"job\u017f":[{}]}"#,
        r#"{"jobs":[{}],"atomicity":"atomic","atomicity":"partial"}"#,
        r#"{"jobs":[{}],"atomicity":7,"atomicity":"partial"}"#,
        r#"{"Atomicity":"atomic","jobs":[{}]}"#,
        r#"{"jobs":[{"type":"a","Meta":{}}]}"#,
    ] {
        check_refused(body, "ambiguous_member");
    }
    for body in [
        r#"{"jobs":[{"type":"a","options":{"meta":{@}}}]}"#,
        r#"{"jobs":[{"type":"a",@}]}"#,
        r#"{"jobs":[{"type":"a"},{"type":"a","callbacks":{"x":{"type":"b","meta":{@}}}}]}"#,
        r#"{"jobs":[{"jobs":[{"type":"b","meta":{@}}]}]}"#,
    ] {
        check_refused(body, "invalid_federation_meta");
    }
    check_refused("{\"jobs\":[}", "malformed_json");
    check_refused(&format!(r#"{{"jobs":[{}]}}"#, vec!["{}"; 10_001].join(",")), "too_many_objects");
}

#[test]
fn a_part_holds_its_jobs_and_everything_beside_them_as_it_was_written() {
    let body = "{ \"x\" : [1E400] ,\"jobs\": [ {\"type\":\"a\"} ,\n{ \"type\":\"b\", \"meta\":{} },{\"id\":\"c\"}\t] , \"idempotency_key\":\"k\" } ";
    let batch = batch(body);
    assert_eq!(
        batch.part(&[2, 0], &mut vec![Splices::default(); 2]),
        b"{ \"x\" : [1E400] ,\"jobs\": [{\"id\":\"c\"},{\"type\":\"a\"}] , \"idempotency_key\":\"k\" } "
    );
    let part = String::from_utf8(batch.part(&[1, 2], &mut stamps(&batch)[1..])).unwrap();
    assert_eq!(
        part,
        "{ \"x\" : [1E400] ,\"jobs\": [{\"id\":\"I\", \"type\":\"b\", \"meta\":{\"ojs.federation.federation_id\":\"F\"} },{\"meta\":{\"ojs.federation.federation_id\":\"F\"},\"id\":\"c\"}] , \"idempotency_key\":\"k\" } "
    );
    assert_eq!(batch.whole(&mut vec![Splices::default(); 3]), body.as_bytes());
}

#[test]
fn answers_of_a_batch_become_one_in_the_order_of_the_request() {
    let east = br#"{"jobs":[{"id":"a","args":[1E400]},{ "id" : "c" }],"count":2}"#;
    let west = br#" { "count":1, "jobs" : [ {"id":"b"} ] } "#;
    let (east, west) = (jobs(east).unwrap(), jobs(west).unwrap());
    let all = [east[0].clone(), west[0].clone(), east[1].clone()];
    assert_eq!(all.iter().map(|job| job.id.as_deref().unwrap()).collect::<String>(), "abc");
    assert_eq!(answer::batch(&all), br#"{"jobs":[{"id":"a","args":[1E400]},{"id":"b"},{ "id" : "c" }],"count":3}"#);
    assert_eq!(jobs(br#"{"jobs":7}"#), None);
    assert_eq!(jobs(br#"{"jobs":[]} x"#), None);
    assert_eq!(jobs(b"created"), None);
}

#[test]
fn items_are_renumbered_and_counted() {
    let body = br#"{"total":2,"succeeded":1,"failed":1,"items":[{"status":"failed","error":{"code":"x"}, "index" : 1 },{"index":0,"status":"created","job":{"id":"a"}}]}"#;
    let read = items(body, 2).unwrap();
    assert_eq!(
        read.iter().map(|item| (item.stored, item.id.as_deref())).collect::<Vec<_>>(),
        [(true, Some("a")), (false, None)]
    );
    let down = ErrorDocument::no_healthy_region(1);
    let [first, second] = read.try_into().unwrap();
    let merged = bulk(&[Line::Failed(&down), Line::Region(second), Line::Region(first)]);
    let json: serde_json::Value = serde_json::from_slice(&merged).unwrap();
    assert_eq!((&json["total"], &json["succeeded"], &json["failed"]), (&3.into(), &1.into(), &2.into()));
    assert_eq!(json["items"][0]["error"]["details"]["reason"], "no_healthy_region");
    let indexes: Vec<_> = (0..3).map(|place| json["items"][place]["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [0, 1, 2]);
    assert_eq!(json["items"][2]["job"]["id"], "a");
    for odd in [
        r#"{"items":[{"index":0},{"index":0}]}"#,
        r#"{"items":[{"index":0}]}"#,
        r#"{"items":[{},{}]}"#,
        r#"{"items":[7,8]}"#,
        "x",
    ] {
        assert_eq!(items(odd.as_bytes(), 2), None, "{odd}");
    }
}

/// Jobs of a batch, as texts.
fn texts() -> impl Strategy<Value = Vec<String>> {
    let job = prop_oneof![
        Just(r#"{"type":"a","args":[1E400,"]},{"]}"#.to_owned()),
        Just(r#"{ "id" : null , "meta" : { } }"#.to_owned()),
        Just(r#"{"options":{"metadata":{"x":1}},"meta":null}"#.to_owned()),
        Just("{}".to_owned()),
    ];
    proptest::collection::vec(job, 1..6)
}

proptest! {
    #[test]
    fn parts_hold_each_job_once_and_stamped_as_it_would_be_alone(texts in texts(), space in "[ \t\n]{0,3}", mask in any::<u8>()) {
        let body = format!("{{{space}\"jobs\"{space}:{space}[{space}{}{space}]{space},\"y\":[]}}", texts.join(&format!("{space},{space}")));
        let batch = batch(&body);
        let (here, there): (Vec<usize>, Vec<usize>) = (0..texts.len()).partition(|place| mask >> place & 1 == 1);
        let alone = |place: &usize| {
            let text = Bytes::from(texts[*place].clone());
            let envelope = Envelope::read(&text, 64).unwrap();
            String::from_utf8(crate::ojs::stamp(&envelope, Abridged::whole(&text), &STAMP).body.concat()).unwrap()
        };
        for members in [here, there] {
            let all = stamps(&batch);
            let mut own: Vec<Splices> = members.iter().map(|&member| all[member].clone()).collect();
            let part = String::from_utf8(batch.part(&members, &mut own)).unwrap();
            let jobs: Vec<String> = members.iter().map(alone).collect();
            let expected = format!("{{{space}\"jobs\"{space}:{space}[{}]{space},\"y\":[]}}", jobs.join(","));
            prop_assert_eq!(part, expected);
        }
        prop_assert_eq!(batch.whole(&mut vec![Splices::default(); texts.len()]), body.into_bytes());
    }
}
