use std::time::Duration;

use proptest::prelude::*;

use serde_json::value::RawValue;

use super::*;

fn reading(dialect: Dialect) -> Reading {
    Reading { dialect, any_id: true, retry: Retry::doubling(3, Duration::from_secs(1), false) }
}

fn parse(source: &str) -> Result<Envelope, Invalid> {
    Envelope::parse(Bytes::from(source.to_owned()), &reading(Dialect::Spec))
}

fn check_meta(members: &str, meta: Option<&str>) {
    let envelope = parse(&format!(r#"{{"type":"a","args":[],{members}}}"#)).unwrap();
    assert_eq!(envelope.meta.as_deref().map(RawValue::get), meta, "{members}");
}

#[test]
fn the_meta_that_counts_is_the_one_that_the_most_lenient_server_takes() {
    check_meta(r#""meta":{"n":1}"#, Some(r#"{"n":1}"#));
    check_meta(r#""meta":{"n":1},"options":{}"#, Some(r#"{"n":1}"#));
    check_meta(r#""meta":{"n":1},"options":{"metadata":{"n":2}}"#, Some(r#"{"n":2}"#));
    check_meta(r#""meta":{"n":1},"options":{"metadata":{}}"#, Some("{}"));
    check_meta(r#""meta":{"n":1},"options":{"metadata":null}"#, Some("null"));
    check_meta(r#""meta":{"n":1},"Meta":{"n":2}"#, Some(r#"{"n":2}"#));
    check_meta(r#""meta":{"n":1},"m\u0065ta":{"n":2}"#, Some(r#"{"n":2}"#));
    check_meta(r#""meta":{"n":1},"option\u017f":{"METADATA":{"n":3}}"#, Some(r#"{"n":3}"#));
    check_meta(r#""x":1"#, None);
}

#[test]
fn options_win_over_the_top_level_and_what_nobody_knows_is_kept_once() {
    let envelope = parse(
        r#"{"type":"a","args":[],"queue":"top","priority":1,"state":"completed","x":1,"x":2,"tags":["t"],
            "options":{"queue":"inner","tags":["o"],"timeout_ms":5,"retry":{"max_attempts":7,"max_interval":"PT1M"}}}"#,
    )
    .unwrap();
    assert_eq!((envelope.queue.as_str(), envelope.priority, envelope.retry.attempts_max), ("inner", 1, 7));
    assert_eq!(envelope.retry.longest, Duration::from_secs(60));
    let extra: Vec<_> = envelope.extra.iter().map(|(key, value)| (key.as_str(), value.get())).collect();
    let retry = r#"{"max_attempts":7,"max_interval":"PT1M"}"#;
    assert_eq!(extra, [("timeout_ms", "5"), ("retry", retry), ("x", "2"), ("tags", r#"["t"]"#)]);
}

#[test]
fn servers_in_go_place_a_job_by_its_options_alone_and_echo_every_other_member() {
    let source = br#"{"type":"a","args":[],"queue":"top","priority":9,"state":"completed","options":{"tags":["o"]}}"#;
    let envelope = Envelope::parse(Bytes::from_static(source), &reading(Dialect::Reference)).unwrap();
    assert_eq!((envelope.queue.as_str(), envelope.priority), ("default", 0));
    let extra: Vec<_> = envelope.extra.iter().map(|(key, value)| (key.as_str(), value.get())).collect();
    assert_eq!(extra, [("tags", r#"["o"]"#), ("queue", r#""top""#), ("priority", "9"), ("state", r#""completed""#)]);
    assert!(envelope.extra_wins);
}

#[test]
fn the_execution_timeout_is_read_in_milliseconds_or_seconds_and_zero_is_none() {
    for (members, expected) in [
        (r#""options":{"timeout_ms":5}"#, Some(5)),
        (r#""timeout":5"#, Some(5_000)),
        (r#""timeout":5,"options":{"timeout_ms":7}"#, Some(7)),
        (r#""options":{"timeout_ms":0}"#, None),
        (r#""x":1"#, None),
    ] {
        let envelope = parse(&format!(r#"{{"type":"a","args":[],{members}}}"#)).unwrap();
        assert_eq!(envelope.timeout_ms, expected, "{members}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(source in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(&source);
        let _ = Envelope::parse(Bytes::from(bytes), &reading(Dialect::Reference));
    }

    #[test]
    fn raw_values_survive_whatever_stands_in_them(
        number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
        text in "[^\"\\\\\\p{Cc}]{0,20}",
        space in "[ \t\r\n]{0,4}",
    ) {
        let args = format!("[{space}{number}{space},\"{text}\",{{\"{text}\":{space}{number}}}]");
        let envelope = parse(&format!(r#"{{"args":{space}{args},"type":"a"}}"#)).unwrap();
        prop_assert_eq!(envelope.args.get(), args);
    }
}
