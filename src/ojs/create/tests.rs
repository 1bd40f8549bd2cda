use proptest::prelude::*;

use super::*;

const PIN: &str = r#""ojs.federation.region":"eu-west-1""#;

fn within(body: &str) -> Found<'_> {
    jobs_within(body.as_bytes(), 64).unwrap_or_else(|fault| panic!("{body}: {fault}"))
}

fn check_types(body: &str, types: &[Option<&str>]) {
    let found = within(body);
    assert_eq!(found.envelopes.iter().map(Envelope::job_type).collect::<Vec<_>>(), types, "{body}");
}

#[test]
fn the_jobs_of_every_dialect_are_found() {
    check_types("", &[]);
    check_types("{}", &[]);
    check_types(r#"{"jobs":[{"type":"a","args":[]},{"type":"b","meta":{}}]}"#, &[Some("a"), Some("b")]);
    check_types(
        r#"{"name":"n","expression":"* * * * *","job_template":{"type":"a","options":{"metadata":{}}}}"#,
        &[Some("a")],
    );
    check_types(
        r#"{"type":"chain","steps":[{"type":"a","options":{"retry":{"max":1}}}],"callbacks":{"on_success":{"Type":1}}}"#
            .replace("Type", "type")
            .as_str(),
        &[Some("chain"), Some("a"), None],
    );
    check_types(r#"[[{"type":"a"}]]"#, &[Some("a")]);
    check_types(r#"{"name":"n","queue":"q","job_template":{"type":"a"}}"#, &[None, Some("a")]);
    check_types(r#"{"default_options":{"tags":["gpu"]},"jobs":[]}"#, &[None]);
}

#[test]
fn what_is_data_is_no_job() {
    check_types(r#"{"type":"a","args":[{"type":"b","meta":7}]}"#, &[Some("a")]);
    check_types(r#"{"type":"a","meta":{"type":"b","options":7,"meta":[{"options":1}]}}"#, &[Some("a")]);
}

#[test]
fn each_job_is_read_with_its_own_attributes() {
    let body = format!(r#"{{"jobs":[{{"type":"a","meta":{{{PIN}}}}},{{"type":"b","options":{{"queue":"q"}}}}]}}"#);
    let found = within(&body);
    let regions: Vec<_> = found.envelopes.iter().map(|envelope| envelope.attributes().region.as_deref()).collect();
    assert_eq!(regions, [Some("eu-west-1"), None]);
    assert_eq!(found.envelopes[1].queue(), "q");
    assert_eq!(&body[found.envelopes[1].span()], r#"{"type":"b","options":{"queue":"q"}}"#);
}

#[test]
fn a_routing_key_is_reported_wherever_it_hides() {
    for body in [
        r#"{"jobs":[{"meta":{@}}]}"#,
        r#"{"template":{"meta":{@}}}"#,
        r#"{"job_template":{"options":{"metadata":{@}}}}"#,
        r#"{"steps":[{"options":{"meta":{@}}}]}"#,
        r#"{"default_options":{"metadata":{"deep":[{@}]}}}"#,
        "{@}",
        r#"{"ARGS":{@}}"#,
        r#"[[{@}]]"#,
    ] {
        let body = body.replace('@', PIN);
        let found = within(&body);
        let [key] = found.routing.as_slice() else { panic!("{body}: {found:?}") };
        assert_eq!((key.kind, key.value.as_deref()), (RoutingKind::Region, Some("eu-west-1")), "{body}");
        assert!(body[key.offset..].starts_with(PIN));
    }
    for (body, kind, value) in [
        (r#"{"x":{"OJS.Federation.REGION" :7}}"#, RoutingKind::Region, None),
        (r#"{"x":{"oj\u017f.federation.region": "\u0065u"}}"#, RoutingKind::Region, Some("eu")),
        (r#"{"x":{"ojs.federation.region_affinity":"geo-pin"}}"#, RoutingKind::Affinity, Some("geo-pin")),
    ] {
        let routing = within(body).routing;
        assert_eq!(
            routing.iter().map(|key| (key.kind, key.value.as_deref())).collect::<Vec<_>>(),
            [(kind, value)],
            "{body}"
        );
    }
    for body in [
        format!(r#"{{"type":"a","args":[{{"meta":{{{PIN}}}}}]}}"#),
        r#"{"meta":{"ojs.federation.region":null}}"#.into(),
    ] {
        assert_eq!(within(&body).routing, [], "{body}");
    }
}

#[test]
fn routing_keys_are_found_in_documents_that_are_no_jobs() {
    let keys = |body: &str| routing_within(body.as_bytes(), 64).map(|keys| keys.len());
    assert_eq!(keys(&format!(r#"{{"Meta":[],"meta":7,"type":{{}},"x":[{{{PIN}}}]}}"#)), Ok(1));
    assert_eq!(keys(&format!(r#"{{"args":{{{PIN}}},"meta":{{"ojs.federation.region":null}}}}"#)), Ok(0));
    assert_eq!((keys(""), keys(" 7 "), keys("[]")), (Ok(0), Ok(0), Ok(0)));
    assert_eq!(routing_within(b"7 7", 64).unwrap_err().reason.as_str(), "malformed_json");
    assert_eq!(routing_within(b"[[[[[]]]]]", 4).unwrap_err().reason.as_str(), "too_deep");
}

#[test]
fn a_job_inside_that_could_be_read_in_two_ways_refuses_the_whole() {
    for body in [
        r#"{"jobs":[{"type":"a"},{"type":"b","Meta":{}}]}"#,
        r#"{"jobs":[{"META":{}}]}"#,
        r#"{"job_template":{"options":{"metadata":{},"Metadata":{}}}}"#,
        r#"{"steps":[{"meta":[]}]}"#,
    ] {
        assert!(jobs_within(body.as_bytes(), 64).is_err(), "{body}");
    }
    assert_eq!(jobs_within(b"{\"jobs\":[}", 64).unwrap_err().reason.as_str(), "malformed_json");
    assert_eq!(jobs_within(b"[[[[[]]]]]", 4).unwrap_err().reason.as_str(), "too_deep");
}

#[test]
fn the_number_of_jobs_and_of_objects_is_bounded() {
    let jobs = |count: usize| format!(r#"{{"jobs":[{}]}}"#, vec![r#"{"type":"a"}"#; count].join(","));
    assert_eq!(within(&jobs(ENVELOPES_MAX)).envelopes.len(), ENVELOPES_MAX);
    assert_eq!(jobs_within(jobs(ENVELOPES_MAX + 1).as_bytes(), 64).unwrap_err().reason.as_str(), "too_many_objects");
    let objects = format!("[{}]", vec!["{}"; OBJECTS_MAX + 1].join(","));
    assert_eq!(jobs_within(objects.as_bytes(), 64).unwrap_err().reason.as_str(), "too_many_objects");
}

#[test]
fn jobs_within_jobs_are_all_found() {
    let levels = 60;
    let filler = "x".repeat(1_000);
    let body = format!(
        r#"{}{{"type":"t0","note":"{filler}"}}{}"#,
        (1..levels).rev().map(|level| format!(r#"{{"type":"t{level}","steps":"#)).collect::<String>(),
        "}".repeat(levels - 1)
    );
    let found = within(&body);
    assert_eq!(found.envelopes.len(), levels);
    assert_eq!(found.envelopes.last().and_then(|inner| inner.job_type()), Some("t0"));
}

/// A tree of objects and arrays; `@` marks the one place where the pin is planted, outside `args`.
fn planted() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("steps"), Just("meta"), Just("options"), Just("metadata"), Just("x"), Just("template")];
    let wraps = proptest::collection::vec((name, any::<bool>(), any::<bool>()), 0..8);
    wraps.prop_map(|wraps| {
        let mut body = "{@}".to_owned();
        for (name, array, decoy) in wraps {
            // Where a place for attributes must be an object, an array would be refused and prove nothing.
            let array = array && matches!(name, "steps" | "x" | "template");
            let value = if array { format!("[1,{body}, {{}}]") } else { body };
            let decoy = if decoy { r#""args":[{"ojs.federation.region":"no"}],"# } else { "" };
            body = format!("{{{decoy} \"{name}\" :{value},\"note\":\"{{\"}}");
        }
        body
    })
}

proptest! {
    #[test]
    fn a_planted_pin_is_found_anywhere_outside_args(
        body in planted(),
        spelling in prop_oneof![
            Just("ojs.federation.region"), Just("OJS.FEDERATION.REGION"), Just("ojs.federation.regio\\u006e"), Just("oj\\u017F.federation.region")
        ],
    ) {
        let body = body.replace('@', &format!("\"{spelling}\":\"eu-west-1\""));
        // A spelling that is odd where attributes are read is refused outright, which is as good.
        if let Ok(found) = jobs_within(body.as_bytes(), 64) {
            let values: Vec<_> = found.routing.iter().map(|key| key.value.as_deref()).collect();
            prop_assert_eq!(values, [Some("eu-west-1")]);
        } else {
            prop_assert!(!spelling.starts_with("ojs.federation.regio"));
        }
    }

    #[test]
    fn two_passes_read_each_job_as_one_pass_would(body in planted()) {
        let body = body.replace('@', PIN);
        for envelope in within(&body).envelopes {
            let alone = Scanner::new(&body.as_bytes()[envelope.span()], 64).map(|mut scanner| Envelope::read_at(&mut scanner));
            let alone = alone.unwrap().unwrap();
            prop_assert_eq!(envelope.attributes(), alone.attributes());
            prop_assert_eq!(envelope.span().len(), alone.span().len());
        }
    }
}
