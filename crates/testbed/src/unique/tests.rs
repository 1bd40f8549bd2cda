use std::time::Duration;

use super::super::envelope::Envelope;
use super::*;
use crate::envelope::Reading;
use crate::retry::Retry;

fn read(dialect: Dialect, job: &str, policy: &str) -> Result<Unique, Invalid> {
    let retry = Retry::doubling(3, Duration::from_secs(1), false);
    let source = format!(r#"{{"type":"a",{job},"options":{{"unique":{policy}}}}}"#);
    let envelope = Envelope::parse(source.into(), &Reading { dialect, any_id: true, retry })?;
    Ok(envelope.unique.unwrap())
}

fn same(dialect: Dialect, policy: &str, one: &str, other: &str) -> bool {
    read(dialect, one, policy).unwrap().key == read(dialect, other, policy).unwrap().key
}

#[test]
fn the_keys_that_a_policy_names_decide_what_is_the_same_job() {
    let ab = r#""args":[{"a":1,"b":2}]"#;
    let (a1, a2) = (r#""args":[{"a":1}]"#, r#""args":[{"a":2}]"#);
    let (x, y) = (r#""args":[],"meta":{"t":"x","n":1}"#, r#""args":[],"meta":{"t":"y","n":1}"#);
    let (q, r) = (r#""args":[],"queue":"q""#, r#""args":[],"queue":"r""#);
    for (policy, one, other, expected) in [
        ("{}", a1, a2, true),
        (r#"{"keys":[]}"#, a1, a2, true),
        (r#"{"keys":["args"]}"#, a1, a2, false),
        (r#"{"keys":["type","args"]}"#, a1, a1, true),
        (r#"{"keys":["args"]}"#, r#""args":[{"b":1,"a":1}]"#, r#""args":[ {"a":1, "b":1} ]"#, true),
        (r#"{"keys":["args"],"args_keys":["a"]}"#, ab, a1, true),
        (r#"{"keys":["args"],"args_keys":["a"]}"#, ab, a2, false),
        (r#"{"keys":["meta"],"meta_keys":["n"]}"#, x, y, true),
        (r#"{"keys":["meta"],"meta_keys":["t"]}"#, x, y, false),
        (r#"{"keys":["queue"]}"#, q, r, false),
        (r#"{"keys":["args"]}"#, q, r, true),
        (r#"{"keys":["args"]}"#, r#""args":[1E400]"#, r#""args":[1E400]"#, true),
    ] {
        assert_eq!(same(Dialect::Spec, policy, one, other), expected, "{policy} {one} {other}");
    }
    for (policy, one, other, expected) in [
        ("{}", a1, a2, false),
        (r#"{"keys":["args"]}"#, r#""args":[1,2]"#, r#""args":[1, 2]"#, false),
        ("{}", x, y, true),
    ] {
        assert_eq!(same(Dialect::Reference, policy, one, other), expected, "{policy} {one} {other}");
    }
}

#[test]
fn a_policy_has_defaults_and_is_refused_by_the_name_of_the_member_that_cannot_be() {
    let unique = read(Dialect::Spec, r#""args":[]"#, "{}").unwrap();
    assert_eq!((unique.period_ms, unique.on_conflict, unique.states.len()), (None, OnConflict::Reject, 5));
    let policy = r#"{"period":"P1DT1S","states":["completed"],"on_conflict":"replace"}"#;
    let unique = read(Dialect::Spec, r#""args":[]"#, policy).unwrap();
    assert_eq!((unique.period_ms, unique.on_conflict), (Some(86_401_000), OnConflict::Replace));
    assert_eq!(unique.states, [JobState::Completed]);
    for (policy, name) in [
        (r#"{"keys":["argz"]}"#, "keys"),
        (r#"{"keys":"type"}"#, "keys"),
        (r#"{"keys":["args"],"args_keys":["none"]}"#, "args_keys"),
        (r#"{"keys":["meta"]}"#, "meta_keys"),
        (r#"{"period":"soon"}"#, "period"),
        (r#"{"period":"PT0S"}"#, "period"),
        (r#"{"period":"-PT1S"}"#, "period"),
        (r#"{"states":["gone"]}"#, "states"),
        (r#"{"on_conflict":"explode"}"#, "on_conflict"),
    ] {
        let refused = read(Dialect::Spec, r#""args":[{"a":1}]"#, policy).unwrap_err();
        assert!(matches!(refused, Invalid::Member(member, _) if member == name), "{policy}: {refused:?}");
    }
}
