use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn sum(bodies: &[&str]) -> Value {
    let ids = ["a", "b", "c"];
    let parts: Vec<Part<'_>> =
        ids.iter().zip(bodies).map(|(region, body)| Part { region, body: body.as_bytes() }).collect();
    serde_json::from_slice(&summed(&parts).unwrap()).unwrap()
}

fn check(bodies: &[&str], expected: &str) {
    let ids = ["a", "b", "c"];
    let parts: Vec<Part<'_>> =
        ids.iter().zip(bodies).map(|(region, body)| Part { region, body: body.as_bytes() }).collect();
    let written = String::from_utf8(summed(&parts).unwrap()).unwrap();
    let (whole, regions) = written.split_once(r#""x-ojs-federation":"#).unwrap();
    assert_eq!(format!("{}}}", whole.trim_end_matches(',')), expected);
    let each: Vec<String> = ids
        .iter()
        .zip(bodies)
        .filter(|(_, body)| body.starts_with('{'))
        .map(|(id, body)| format!("{id:?}:{body}"))
        .collect();
    assert_eq!(regions, format!(r#"{{"regions":{{{}}}}}}}"#, each.join(",")));
}

#[test]
fn figures_by_the_same_path_add_up_and_every_regions_own_stay() {
    check(
        &[
            r#"{"queues":5,"jobs":{"available":184,"active":0}}"#,
            r#"{"queues":1,"jobs":{"available":16,"scheduled":3}}"#,
        ],
        r#"{"queues":6,"jobs":{"available":200,"active":0,"scheduled":3}}"#,
    );
    check(&[r#"{}"#], "{}");
    check(&[r#"{"a":1}"#, "[]", r#"{"a":2}"#], r#"{"a":3}"#);
    check(&[r#"{"a":null,"b":null}"#, r#"{"a":4,"b":null}"#], r#"{"a":4,"b":null}"#);
    check(&[r#"{"a":"x"}"#, r#"{"a":4}"#], r#"{"a":"x"}"#);
    check(&[r#"{"a":4}"#, r#"{"a":"x"}"#, r#"{"a":5}"#], r#"{"a":9}"#);
    assert_eq!(summed(&[Part { region: "a", body: b"nothing" }]), None);
}

#[test]
fn whole_numbers_stay_whole_and_exact_and_others_are_no_worse() {
    check(
        &[r#"{"n":9007199254740993,"m":18446744073709551615}"#, r#"{"n":9007199254740993,"m":18446744073709551615}"#],
        r#"{"n":18014398509481986,"m":36893488147419103230}"#,
    );
    check(&[r#"{"n":1.5,"m":-3}"#, r#"{"n":2,"m":1}"#], r#"{"n":3.5,"m":-2}"#);
    check(&[r#"{"n":1e400}"#, r#"{"n":1}"#], r#"{"n":1e400}"#);
}

#[test]
fn what_does_not_add_up_is_the_largest_or_the_first() {
    check(
        &[
            r#"{"p95_latency_ms":4,"success_rate":0.5,"uptime_seconds":9,"at":"x","ok":false}"#,
            r#"{"p95_latency_ms":40,"success_rate":0.25,"uptime_seconds":7,"at":"y","ok":true}"#,
        ],
        r#"{"p95_latency_ms":40,"success_rate":0.5,"uptime_seconds":9,"at":"x","ok":false}"#,
    );
}

#[test]
fn what_is_no_count_is_not_tripled() {
    let body = r#"{"utilization":0.5,"pressure":0.4,"rate_limit":{"reset":1700000000,"remaining":7},"timestamp":1700000000,"weight":2,"score":0.7,"fairness_index":0.9,"percentile_99":120,"depth":3}"#;
    let expected = body.replace("\"remaining\":7", "\"remaining\":21").replace("\"depth\":3", "\"depth\":9");
    check(&[body, body, body], &expected);
}

#[test]
fn rows_of_a_time_come_in_its_order() {
    check(
        &[
            r#"{"data":[{"timestamp":"10:00","n":1},{"timestamp":"11:00","n":2}]}"#,
            r#"{"data":[{"timestamp":"09:00","n":4},{"timestamp":"10:00","n":5}]}"#,
        ],
        r#"{"data":[{"timestamp":"09:00","n":4},{"timestamp":"10:00","n":6},{"timestamp":"11:00","n":2}]}"#,
    );
    check(
        &[r#"{"data":[{"time":9,"n":1},{"time":11,"n":2}]}"#, r#"{"data":[{"time":10,"n":4}]}"#],
        r#"{"data":[{"time":9,"n":1},{"time":10,"n":4},{"time":11,"n":2}]}"#,
    );
}

#[test]
fn a_queue_is_paused_only_where_it_is_everywhere() {
    check(
        &[
            r#"{"queue":{"name":"q","available":1,"paused":true}}"#,
            r#"{"queue":{"name":"q","available":2,"paused":false}}"#,
        ],
        r#"{"queue":{"name":"q","available":3,"paused":false}}"#,
    );
    check(&[r#"{"status":"paused"}"#, r#"{"status":"active"}"#], r#"{"status":"active"}"#);
    check(
        &[r#"{"status":"paused","paused":true}"#, r#"{"status":"paused","paused":true}"#],
        r#"{"status":"paused","paused":true}"#,
    );
}

#[test]
fn rows_of_the_same_name_are_one_and_jobs_are_not() {
    check(
        &[
            r#"{"by_type":[{"type":"a","count":1},{"type":"b","count":2}],"items":[{"id":"1","type":"a"}]}"#,
            r#"{"by_type":[{"type":"\u0062","count":5}],"items":[{"id":"2","type":"a"}]}"#,
        ],
        r#"{"by_type":[{"type":"a","count":1},{"type":"b","count":7}],"items":[{"id":"1","type":"a"},{"id":"2","type":"a"}]}"#,
    );
    check(&[r#"{"a":[1]}"#, r#"{"a":[1,"x"]}"#], r#"{"a":[1,1,"x"]}"#);
}

#[test]
fn queues_are_united_by_name() {
    let items = [
        r#"{"name":"q","available":1,"paused":true}"#,
        r#"{"name":"r","available":1}"#,
        r#"{"name":"q","available":4}"#,
    ];
    let part = |(region, item): (&'static str, &'static str)| Part { region, body: item.as_bytes() };
    let items: Vec<Part<'_>> = ["a", "a", "b"].into_iter().zip(items).map(part).collect();
    assert_eq!(united(&items, false), [r#"{"name":"q","available":5,"paused":true}"#, r#"{"name":"r","available":1}"#]);
    assert_eq!(
        united(&items[1..], true),
        [
            r#"{"name":"r","available":1,"x-ojs-federation":{"regions":{"a":{"name":"r","available":1}}}}"#,
            r#"{"name":"q","available":4,"x-ojs-federation":{"regions":{"b":{"name":"q","available":4}}}}"#
        ]
    );
    let nameless = [part(("a", "1")), part(("b", "{}"))];
    assert_eq!(united(&nameless, true), ["1", "{}"]);
}

proptest! {
    #[test]
    fn sums_are_those_of_each_region(left in proptest::collection::btree_map("[a-d]{1,2}_count", 0_u64.., 0..5), right in proptest::collection::btree_map("[a-d]{1,2}_count", 0_u64.., 0..5)) {
        let (one, other) = (serde_json::to_string(&left).unwrap(), serde_json::to_string(&right).unwrap());
        let sum = sum(&[&one, &other]);
        for name in left.keys().chain(right.keys()) {
            let expected = u128::from(*left.get(name).unwrap_or(&0)) + u128::from(*right.get(name).unwrap_or(&0));
            if let Ok(expected) = u64::try_from(expected) {
                prop_assert_eq!(&sum[name], &Value::from(expected));
            }
        }
    }

    #[test]
    fn nothing_panics(bodies in proptest::collection::vec(".{0,60}|[\\[\\]{}\":,0-9a]{0,60}", 0..3)) {
        let parts: Vec<Part<'_>> = bodies.iter().map(|body| Part { region: "a", body: body.as_bytes() }).collect();
        let _ = summed(&parts);
    }
}
