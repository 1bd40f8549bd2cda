use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::base::QueueOrder;
use crate::ojs::worker::testing::{together, value};

fn claims(body: &str) -> FetchRequest<'_> {
    FetchRequest::read(body.as_bytes(), 64).unwrap_or_else(|fault| panic!("{body}: {fault}"))
}

fn part(body: &str, count: usize, wanted: impl Fn(&str) -> bool) -> String {
    together(claims(body).part(&Bytes::copy_from_slice(body.as_bytes()), count, wanted))
}

#[test]
fn the_shapes_of_all_sdks_are_read() {
    fn check(body: &str, queues: &[&str], count: Option<usize>, worker_id: Option<&str>, visibility_ms: Option<u64>) {
        let read = claims(body);
        assert_eq!(read.queues().collect::<Vec<_>>(), queues, "{body}");
        assert_eq!(
            (read.count(), read.worker_id().as_deref(), read.visibility_ms()),
            (count, worker_id, visibility_ms),
            "{body}"
        );
    }
    check(r#"{"queues":["a","b"],"count":10,"worker_id":"w"}"#, &["a", "b"], Some(10), Some("w"), None);
    check(
        r#"{"queues":["a"],"count":1,"visibility_timeout_ms":30000,"worker_id":"w\u0031"}"#,
        &["a"],
        Some(1),
        Some("w1"),
        Some(30_000),
    );
    check(r#"{"queues":["default"],"batch_size":5}"#, &["default"], Some(5), None, None);
    check(r#"{"queues":["a"],"count":null,"batch_size":2,"worker_id":null}"#, &["a"], Some(2), None, None);
    check(r#"{"queues":["a"],"count":3,"batch_size":9}"#, &["a"], Some(3), None, None);
    check(r#"{"queues":["a"],"worker_id":""}"#, &["a"], Some(1), None, None);
    check(r#"{"queues":["a"],"count":0}"#, &["a"], None, None, None);
    check(r#"{"queues":["a"],"count":-1}"#, &["a"], None, None, None);
    check(r#"{"queues":["a"],"count":1.5}"#, &["a"], None, None, None);
    check(r#"{"queues":["a",7]}"#, &[], Some(1), None, None);
    check(r#"{"queues":"a"}"#, &[], Some(1), None, None);
    check("{}", &[], Some(1), None, None);
}

#[test]
fn what_servers_could_read_in_two_ways_is_refused() {
    for body in [
        r#"{"queues":["a"],"Queues":["b"]}"#,
        r#"{"queues":["a"],"count":1,"count":2}"#,
        r#"{"queues":["a"],"Count":9}"#,
        r#"{"wor\u017fer_id":"a","worker_id":"b","wor\u212aer_id":"c"}"#,
        "[]",
        "{",
    ] {
        assert!(FetchRequest::read(body.as_bytes(), 64).is_err(), "{body}");
    }
    let queues = vec!["q"; QUEUES_MAX + 1];
    assert!(FetchRequest::read(json!({ "queues": queues }).to_string().as_bytes(), 64).is_err());
}

#[test]
fn a_part_asks_for_less_and_keeps_every_other_byte() {
    fn check(body: &str, count: usize, wanted: &[&str], expected: &str) {
        assert_eq!(part(body, count, |name| wanted.contains(&name)), expected, "{body}");
    }
    check(
        r#"{ "queues" : [ "a", "b" ,"c"], "x":1E400, "count" : 10 }"#,
        3,
        &["a", "c"],
        r#"{ "queues" : ["a","c"], "x":1E400, "count" : 3 }"#,
    );
    check(r#"{"queues":["a", "b"],"batch_size":5}"#, 4, &["a", "b"], r#"{"queues":["a", "b"],"batch_size":4}"#);
    check(r#"{"queues":["a"],"count":3,"batch_size":9}"#, 2, &["a"], r#"{"queues":["a"],"count":2,"batch_size":2}"#);
    check(r#"{"queues":["a"],"count":3}"#, 3, &[], r#"{"queues":[],"count":3}"#);
    check(r#"{"queues":["\u0061"]}"#, 1, &["a"], r#"{"queues":["\u0061"]}"#);
}

fn in_order(body: &str, count: usize, order: &[usize]) -> String {
    let mut claims = claims(body);
    if let Some(own) = claims.own_turns() {
        claims.leave_out_turns(&own);
    }
    together(claims.in_order(&Bytes::copy_from_slice(body.as_bytes()), count, order))
}

#[test]
fn a_call_in_another_order_keeps_every_other_byte_but_the_words_about_turns() {
    for (body, count, order, expected) in [
        (r#"{ "queues" : [ "a", "b" ,"c"], "x":1E400 }"#, 1, [2, 0, 1], r#"{ "queues" : ["c","a","b"], "x":1E400 }"#),
        (r#"{"queues":["a", "b","c"],"count":5}"#, 5, [0, 1, 2], r#"{"queues":["a", "b","c"],"count":5}"#),
        (
            r#"{"strategy":"weighted","queues":["a","b","c"],"count":5}"#,
            3,
            [1, 0, 2],
            r#"{"queues":["b","a","c"],"count":3}"#,
        ),
        (
            r#"{"queues":["a","b","c"], "strategy":"x" , "weights":{"a":1} , "n":0}"#,
            1,
            [0, 1, 2],
            r#"{"queues":["a","b","c"], "n":0}"#,
        ),
        (r#"{"queues":["a","b","c"] , "weights":7, "strategy":null }"#, 1, [0, 1, 2], r#"{"queues":["a","b","c"] }"#),
        (r#"{"weights":{},"queues":["a","b","c"],"strategy":""}"#, 1, [0, 1, 2], r#"{"queues":["a","b","c"]}"#),
    ] {
        assert_eq!(in_order(body, count, &order), expected, "{body}");
    }
    assert_eq!(in_order(r#"{ "strategy":"strict" }"#, 1, &[]), "{  }");
    assert_eq!(in_order(r#"{"queues":["a","b"]}"#, 1, &[1]), r#"{"queues":["b"]}"#);
}

#[test]
fn the_words_of_a_worker_about_turns_are_read_and_those_with_two_readings_are_none() {
    let read =
        |body: &str| claims(body).own_turns().map(|own| (own.order, own.weights.into_iter().collect::<Vec<_>>()));
    let queues = r#""queues":["a","b","c","d","e"]"#;
    let weights = r#""weights":{"a":5,"\u0062":5000,"c":0,"d":-1,"e":"2","x":7}"#;
    let known = vec![("a".to_owned(), 5), ("b".to_owned(), 1_000)];
    assert_eq!(
        read(&format!(r#"{{{queues},"strategy":"weighted",{weights}}}"#)),
        Some((Some(QueueOrder::Weighted), known))
    );
    assert_eq!(read(&format!(r#"{{{queues},"strategy":"fifo","weights":[1]}}"#)), Some((None, vec![])));
    for own in ["", r#","x":"strategy""#, r#","Strategy":"weighted""#, r#","weights":{},"weights":{}"#] {
        let body = format!("{{{queues}{own}}}");
        assert_eq!((read(&body), claims(&body).queues().count()), (None, 5), "{body}");
    }
    let body = format!(r#"{{"strategy":7,{queues}}}"#);
    let (mut claims, bytes) = (claims(&body), Bytes::copy_from_slice(body.as_bytes()));
    claims.leave_out_turns(&claims.own_turns().unwrap());
    assert_eq!(together(claims.whole(&bytes)), format!("{{{queues}}}"));
}

#[test]
fn words_that_stand_side_by_side_are_left_out_together_and_queues_with_them() {
    for (body, rest) in [
        (r#"{"queues":["a","b"],"pool":"p","strategy":"strict"}"#, r#"{"queues":["b"]}"#),
        (r#"{"weights":{},"pool":"p","queues":["a","b"]}"#, r#"{"queues":["b"]}"#),
        (r#"{"pool":"p" , "queues":["a","b"] , "weights":{"a":1},"n":0}"#, r#"{"queues":["b"] , "n":0}"#),
    ] {
        let (mut claims, bytes) = (claims(body), Bytes::copy_from_slice(body.as_bytes()));
        let (pool, turns) = (claims.own_pool().unwrap().unwrap(), claims.own_turns().unwrap());
        claims.leave_out_pool(&pool);
        claims.keep_queues(|queue| queue == "b");
        claims.leave_out_turns(&turns);
        assert_eq!(together(claims.whole(&bytes)), rest, "{body}");
        assert_eq!(together(claims.in_order(&bytes, 1, &[0])), rest, "{body}");
        assert_eq!(together(claims.part(&bytes, 1, |_| true)), rest, "{body}");
    }
}

proptest! {
    #[test]
    fn a_part_differs_in_the_count_and_the_queues_only(
        queues in prop::collection::vec("[a-c\"\\\\é]{0,3}", 0..6),
        count in 1..100usize,
        left in 1..100usize,
        extra in "\\PC{0,8}",
        wanted in prop::collection::hash_set("[a-c\"\\\\é]{0,3}", 0..6),
    ) {
        let sent = json!({ "count": count, "extra": extra, "queues": queues, "worker_id": "w" });
        let cut = part(&sent.to_string(), left, |name| wanted.contains(name));
        let kept: Vec<_> = queues.iter().filter(|name| wanted.contains(*name)).collect();
        let mut expected: Value = sent;
        expected["count"] = json!(left);
        expected["queues"] = json!(kept);
        prop_assert_eq!(value(&cut), expected);
    }
}

#[test]
fn a_call_with_more_members_than_any_worker_sends_is_not_read() {
    let body = |more: usize| format!(r#"{{"queues":["a"]{}}}"#, r#","x":0"#.repeat(more));
    assert!(FetchRequest::read(body(MEMBERS_MAX - 1).as_bytes(), 64).is_ok());
    assert_eq!(FetchRequest::read(body(MEMBERS_MAX).as_bytes(), 64).unwrap_err().reason.as_str(), "too_many_objects");
}

#[test]
fn weights_of_lists_that_take_no_turns_are_not_read() {
    let body = |queues: usize| {
        let names: Vec<String> = (0..queues).map(|place| format!("\"q{place}\"")).collect();
        format!(r#"{{"queues":[{}],"strategy":"weighted","weights":{{"q0":5}}}}"#, names.join(","))
    };
    for (queues, weights) in [(WEIGHTED_MAX, 1), (WEIGHTED_MAX + 1, 0)] {
        let body = body(queues);
        let own = FetchRequest::read(body.as_bytes(), 64).unwrap().own_turns().unwrap();
        assert_eq!((own.weights.len(), own.order), (weights, Some(QueueOrder::Weighted)), "{queues}");
    }
}
