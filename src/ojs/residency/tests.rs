use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PIN: &str = r#""meta":{"ojs.federation.region":"eu-west-1"}"#;

fn redacted_text(piece: &str) -> String {
    String::from_utf8(redacted(piece.as_bytes(), None)).unwrap()
}

#[test]
fn a_pin_is_found_wherever_servers_put_it_and_not_in_args() {
    for (piece, expected) in [
        (r#"{"id":"1","args":[]}"#, Pinned::No),
        (r#"{"meta":{"ojs.federation.region":"us-east-1"}}"#, Pinned::No),
        (r#"{"meta":{"ojs.federation.region":null},"args":[]}"#, Pinned::No),
        (r#"{"args":[{"ojs.federation.region":"eu-west-1"}]}"#, Pinned::No),
        (r#"{"meta":{"ojs.federation.region":"eu-west-1"}}"#, Pinned::Elsewhere),
        (r#"{"meta":{"ojs.federation.region":7}}"#, Pinned::Elsewhere),
        (r#"{"meta":{"OJS.federation.regi\u006fn":"eu-west-1"}}"#, Pinned::Elsewhere),
        (r#"{"options":{"metadata":{"ojs.federation.region":"eu-west-1"}}}"#, Pinned::Elsewhere),
        (r#"{"job":{"meta":{"ojs.federation.region":"eu-west-1"}}}"#, Pinned::Elsewhere),
        (r#"{"name":"c","job_template":{"options":{"metadata":{"ojs.federation.region":"eu"}}}}"#, Pinned::Elsewhere),
        (
            r#"{"meta":{"ojs.federation.region":"us-east-1"},"options":{"metadata":{"ojs.federation.region":"eu"}}}"#,
            Pinned::Elsewhere,
        ),
        ("not json", Pinned::Elsewhere),
        (r#"{"job_id":"1","state":"completed","result":{"a":1}}"#, Pinned::Unsaid),
        (r#"{"job_id":"1","state":"active","result":null}"#, Pinned::No),
        (r#"{"id":"e","type":"job.completed","data":{"job_id":"1","result":2}}"#, Pinned::Unsaid),
        (r#"{"id":"e","type":"job.completed","data":{"job_id":"1"}}"#, Pinned::No),
    ] {
        assert_eq!(pinned(piece.as_bytes(), "us-east-1"), expected, "{piece}");
    }
}

#[test]
fn a_redacted_job_can_still_be_read_and_names_itself_only() {
    let job = format!(
        r#"{{"id":"1","type":"a","queue":"q","state":"active","attempt":2,"args":[1],"result":{{}},"error":{{"message":"x"}},"tags":["t"],"created_at":"T",{}}}"#,
        r#""meta":{"ojs.federation.region":"eu-west-1","ojs.federation.weights":{"a":1},"ojs.federation.odd":"x","own":"x"}"#
    );
    let kept = r#""id":"1","type":"a","queue":"q","state":"active","attempt":2,"args":[],"created_at":"T","meta":{"ojs.federation.region":"eu-west-1"}"#;
    assert_eq!(redacted_text(&job), format!(r#"{{{kept},"x-ojs-federation":{{"redacted":true}}}}"#));
    let wrapped = redacted(format!(r#"{{"job":{job},"result":3}}"#).as_bytes(), Some("eu-west-1"));
    let mark = r#""x-ojs-federation":{"region":"eu-west-1","redacted":true}"#;
    assert_eq!(String::from_utf8(wrapped).unwrap(), format!(r#"{{"job":{{{kept},{mark}}}}}"#));
    assert_eq!(redacted_text("[1]"), r#"{"x-ojs-federation":{"redacted":true}}"#);
    assert_eq!(redacted_text(r#"{"id":{"a":1},"type":"a"}"#), r#"{"type":"a","x-ojs-federation":{"redacted":true}}"#);
}

#[test]
fn an_annotated_item_names_its_region_and_keeps_its_bytes() {
    for (piece, expected) in [
        ("{ \"a\" : 1E400 }", "{ \"a\" : 1E400 ,\"x-ojs-federation\":{\"region\":\"r\"}}"),
        ("{}", r#"{"x-ojs-federation":{"region":"r"}}"#),
        (r#"{"x-ojs-federation":{"region":"made up"},"a":1}"#, r#"{"a":1,"x-ojs-federation":{"region":"r"}}"#),
        ("\"queue\"", "\"queue\""),
    ] {
        assert_eq!(String::from_utf8(annotated(piece.as_bytes(), "r").into_owned()).unwrap(), expected);
    }
}

#[test]
fn results_are_judged_one_by_one() {
    let answer = br#"{ "results" : {"a":{"state":"completed","result":1},"b" : {"state":"active","result":2}},"x":3}"#;
    assert_eq!(ids_of_results(answer), ["a", "b"]);
    let redacted = results_without(answer, &[false, true], false);
    let kept = r#""a":{"state":"completed","result":1}"#;
    let mark = r#""x-ojs-federation":{"redacted":true}"#;
    assert_eq!(
        String::from_utf8(redacted).unwrap(),
        format!(r#"{{"results":{{{kept},"b" : {{"state":"active",{mark}}}}},"x":3}}"#)
    );
    let denied = String::from_utf8(results_without(answer, &[false, true], true)).unwrap();
    assert_eq!(denied, format!(r#"{{"results":{{{kept}}},"x":3,"x-ojs-federation":{{"withheld":1}}}}"#));
    assert_eq!(ids_of_results(b"[]"), Vec::<String>::new());
}

#[test]
fn an_answer_shows_its_job_bare_or_wrapped() {
    for (answer, job) in [
        (r#" {"id":"1","args":[]} "#, Some(r#"{"id":"1","args":[]}"#)),
        (r#"{"job":{"meta":{}},"x":1}"#, Some(r#"{"meta":{}}"#)),
        (r#"{"job_id":"1","result":1}"#, None),
        ("", None),
    ] {
        assert_eq!(job_in(answer.as_bytes()), job.map(str::as_bytes), "{answer}");
    }
}

const CANARY: &str = "canary-7f3a";

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(CANARY.into())
    ];
    // What is shown of a job may stand in a `job` of it, too.
    let name =
        || "[a-z]{1,6}|result|args|meta".prop_filter("known to be harmless", |name| !HARMLESS.contains(&&**name));
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn member() -> impl Strategy<Value = (String, Value)> {
    let names = "args|result|error|errors|meta|options|progress|checkpoint|data|tags|job|payload|Args|META|[a-z_]{1,8}";
    (names, value()).prop_filter("known to be harmless", |(name, _)| !HARMLESS.contains(&name.as_str()))
}

proptest! {
    #[test]
    fn a_redacted_job_holds_nothing_of_the_clients(members in proptest::collection::vec(member(), 0..8), wrapped in any::<bool>()) {
        let mut written: Vec<String> = members.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
        written.push(PIN.to_owned());
        let job = format!("{{\"id\":\"1\",{}}}", written.join(" , "));
        let piece = if wrapped { format!("{{\"job\":{job}}}") } else { job };
        prop_assert_eq!(pinned(piece.as_bytes(), "us-east-1"), Pinned::Elsewhere);
        let shown = redacted_text(&piece);
        prop_assert!(!shown.contains(CANARY), "{}", shown);
        prop_assert!(serde_json::from_str::<Value>(&shown).is_ok(), "{}", shown);
    }

    #[test]
    fn nothing_panics(piece in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = (pinned(&piece, "a"), redacted(&piece, Some("a")), annotated(&piece, "a"));
    }
}
