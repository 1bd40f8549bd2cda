use super::*;
use crate::base::Code;

fn read(body: &str) -> Envelope<'_> {
    Envelope::read(body.as_bytes(), 16).unwrap_or_else(|fault| panic!("{body}: {fault}"))
}

fn check_fault(body: &str, code: Code, field: &str, reason: &str) {
    let fault = Envelope::read(body.as_bytes(), 16).expect_err(body);
    assert_eq!((fault.reason.code(), &*fault.field, fault.reason.as_str()), (code, field, reason), "{body}");
    assert!(!fault.message.contains("secret"), "{fault}");
}

#[test]
fn routing_reads_type_queue_tags_and_id_where_clients_put_them() {
    for (body, job_type, queue, tags, id) in [
        ("{}", None, "default", vec![], None),
        (r#"{"type":"a.b","id":null}"#, Some("a.b"), "default", vec![], None),
        (r#"{"type":7,"id":7,"queue":7,"tags":"x"}"#, None, "default", vec![], None),
        (r#"{"queue":"top","tags":["t"],"id":"i"}"#, None, "top", vec!["t"], Some("i")),
        (r#"{"queue":"top","tags":["t"],"options":{"queue":"in","tags":["a\u0062",1]}}"#, None, "in", vec!["ab"], None),
        (r#"{"queue":"top","options":{"queue":null,"tags":null}}"#, None, "top", vec![], None),
        (r#"{"queue":"","options":{"queue":""}}"#, None, "default", vec![], None),
        (r#"{"\u0074ype":"x","options":null}"#, Some("x"), "default", vec![], None),
    ] {
        let envelope = read(body);
        assert_eq!(envelope.job_type(), job_type, "{body}");
        assert_eq!(envelope.queue(), queue, "{body}");
        assert_eq!(envelope.tags(), tags, "{body}");
        assert_eq!(envelope.id(), id, "{body}");
    }
    assert!(read(r#"{"id":null}"#).lacks_id() && !read(r#"{"id":7}"#).lacks_id());
}

#[test]
fn attributes_come_from_meta_and_from_options_metadata() {
    let region = |body: &str| read(body).attributes().region.as_deref().map(str::to_owned);
    let pin = r#""ojs.federation.region":"eu-west-1""#;
    for body in [
        format!(r#"{{"meta":{{{pin}}}}}"#),
        format!(r#"{{"options":{{"metadata":{{{pin}}}}}}}"#),
        format!(r#"{{"meta":{{{pin}}},"options":{{"metadata":{{}}}}}}"#),
        format!(r#"{{"meta":{{{pin}}},"options":{{"metadata":null}}}}"#),
        format!(r#"{{"meta":null,"options":{{"metadata":{{{pin}}}}}}}"#),
        format!(r#"{{"meta":{{"ojs.federation.region":null}},"options":{{"metadata":{{{pin}}}}}}}"#),
        format!(r#"{{"options":{{"metadata":{{{pin}}}}},"meta":{{"ojs.federation.region":"\u0065u-west-1"}}}}"#),
        r#"{"meta":{"ojs\u002efederation.region":"eu\u002dwest-1"}}"#.to_owned(),
    ] {
        assert_eq!(region(&body).as_deref(), Some("eu-west-1"), "{body}");
        assert!(read(&body).is_federated());
    }
    assert_eq!(region(r#"{"args":[{"meta":{"ojs.federation.region":"eu-west-1"}}]}"#), None);
    assert!(!read(r#"{"meta":{"ojs.federation.region":null,"a":1}}"#).is_federated());
    assert!(read(r#"{"meta":{"ojs.federation.target_region":1}}"#).is_federated());
}

#[test]
fn a_routing_key_that_stands_where_it_is_lost_is_refused() {
    let region = "ojs.federation.region";
    for body in [
        r#"{"options":{"meta":{@}}}"#,
        r#"{"options":{@}}"#,
        "{@}",
        r#"{"type":"a","args":[],"callbacks":{"on_success":{"type":"b","args":[1],"meta":{@}}}}"#,
        r#"{"jobs":[{"args":[{}],"meta":{@}}]}"#,
        r#"{"job":{"options":{"metadata":{@}}}}"#,
        r#"{"metadata":{@}}"#,
        r#"{"meta":{"ojs.federation.region":"us-east-1"},"x":[[{@}]]}"#,
    ] {
        for pin in [
            r#""ojs.federation.region":"secret""#,
            r#""OJS.Federation.Region" :7"#,
            r#""oj\u017F\u002efederation.regio\u006e" : "secret""#,
        ] {
            check_fault(&body.replace('@', pin), Code::InvalidRequest, region, "invalid_federation_meta");
        }
        read(&body.replace('@', r#""ojs.federation.region":null"#));
    }
    check_fault(
        r#"{"x":{"ojs.federation.region_affinity":"overflow"}}"#,
        Code::InvalidRequest,
        "ojs.federation.region_affinity",
        "invalid_federation_meta",
    );
    // What the client keeps as data of its own, and keys that route nothing.
    for body in [
        r#"{"args":[{"meta":{@}},{@}]}"#,
        r#"{"callbacks":{"x":{"args":{@}}}}"#,
        r#"{"meta":{"parent":{@}},"options":{"metadata":{"parent":[{@}]}}}"#,
    ] {
        read(&body.replace('@', r#""ojs.federation.region":"secret""#));
    }
    read(r#"{"x":{"ojs.federation.federation_id":"f","ojs.federation.regions":"secret"},"y":"ojs.federation.region"}"#);
}

#[test]
fn every_defined_attribute_is_read() {
    let body = r#"{"meta":{"ojs.federation.region_affinity":"weighted","ojs.federation.regions_with":"gpu","ojs.federation.federation_id":"f",
        "ojs.federation.replicated_from":"r","ojs.federation.weights":{"eu-west-1":2,"us-east-1":0.5e1},
        "ojs.federation.source_region":7,"ojs.federation.routed_at":null}}"#;
    let expected = Attributes {
        region: None,
        region_affinity: Some("weighted".into()),
        regions_with: Some("gpu".into()),
        federation_id: Some("f".into()),
        replicated_from: Some("r".into()),
        weights: Some(vec![("eu-west-1".to_owned(), 2.0), ("us-east-1".to_owned(), 5.0)]),
        source_region: true,
        routed_at: false,
    };
    assert_eq!(read(body).attributes(), &expected);
}

#[test]
fn a_job_that_could_be_read_in_two_ways_is_refused() {
    for (body, field) in [
        (r#"{"meta":{},"meta":{}}"#, "meta"),
        (r#"{"Meta":{"ojs.federation.region":"secret"}}"#, "meta"),
        (r#"{"meta":{},"\u004deta":{}}"#, "meta"),
        (r#"{"meta":{},"m\u0065ta":{}}"#, "meta"),
        (r#"{"Options":{}}"#, "options"),
        (r#"{"optionſ":{}}"#, "options"),
        (r#"{"ID":"secret"}"#, "id"),
        (r#"{"id":"a","id":"a"}"#, "id"),
        (r#"{"TYPE":"a"}"#, "type"),
        (r#"{"queue":"a","Queue":"b"}"#, "queue"),
        (r#"{"tagſ":[]}"#, "tags"),
        (r#"{"options":{"Metadata":{}}}"#, "options.metadata"),
        (r#"{"options":{"metadata":{},"metadata":{}}}"#, "options.metadata"),
        (r#"{"options":{"queue":"a","queue":"a"}}"#, "options.queue"),
        (r#"{"options":{"Tags":[]}}"#, "options.tags"),
        (r#"{"meta":{"OJS.federation.region":"secret"}}"#, "meta.ojs.federation.region"),
        (r#"{"meta":{"ojs.federation.Region":null}}"#, "meta.ojs.federation.region"),
        (r#"{"meta":{"oj\u017f.federation.federation_id":"secret"}}"#, "meta.ojs.federation.federation_id"),
        (r#"{"meta":{"ojs.federation.region":null,"ojs.federation.region":"secret"}}"#, "meta.ojs.federation.region"),
        (r#"{"options":{"metadata":{"ojs.federation.Weights":{}}}}"#, "options.metadata.ojs.federation.weights"),
        (r#"{"meta":{"ojs.federation.weights":{"a":1,"\u0061":1}}}"#, "meta.ojs.federation.weights"),
    ] {
        check_fault(body, Code::InvalidRequest, field, "ambiguous_member");
    }
}

#[test]
fn attributes_of_the_wrong_kind_and_contradictions_are_refused() {
    for (body, field) in [
        (r#"{"meta":{"ojs.federation.region":7}}"#, "meta.ojs.federation.region"),
        (r#"{"meta":{"ojs.federation.region":["secret"]}}"#, "meta.ojs.federation.region"),
        (r#"{"meta":{"ojs.federation.region":""}}"#, "ojs.federation.region"),
        (
            r#"{"options":{"metadata":{"ojs.federation.region_affinity":{}}}}"#,
            "options.metadata.ojs.federation.region_affinity",
        ),
        (r#"{"meta":{"ojs.federation.replicated_from":true}}"#, "meta.ojs.federation.replicated_from"),
        (r#"{"meta":{"ojs.federation.weights":[1]}}"#, "meta.ojs.federation.weights"),
        (r#"{"meta":{"ojs.federation.weights":{"a":"1"}}}"#, "meta.ojs.federation.weights"),
        (r#"{"meta":{"ojs.federation.weights":{"a":-1}}}"#, "meta.ojs.federation.weights"),
        (r#"{"meta":{"ojs.federation.weights":{"a":1e400}}}"#, "meta.ojs.federation.weights"),
        (
            r#"{"meta":{"ojs.federation.region":"secret"},"options":{"metadata":{"ojs.federation.region":"b"}}}"#,
            "ojs.federation.region",
        ),
        (
            r#"{"meta":{"ojs.federation.weights":{"a":1}},"options":{"metadata":{"ojs.federation.weights":{"a":2}}}}"#,
            "ojs.federation.weights",
        ),
    ] {
        check_fault(body, Code::InvalidRequest, field, "invalid_federation_meta");
    }
    for (body, field) in [
        (r#"{"meta":[]}"#, "meta"),
        (r#"{"options":"secret"}"#, "options"),
        (r#"{"options":{"metadata":1}}"#, "options.metadata"),
    ] {
        check_fault(body, Code::InvalidRequest, field, "not_an_object");
    }
}

#[test]
fn what_is_not_json_or_no_object_or_too_deep_is_an_invalid_payload() {
    for (body, reason) in [
        ("", "malformed_json"),
        ("{\"a\":secret}", "malformed_json"),
        ("{} {}", "malformed_json"),
        ("[{}]", "not_an_object"),
        ("[{]", "malformed_json"),
        (r#"{"meta":nope}"#, "malformed_json"),
        (r#"{"options":{"metadata":{"ojs.federation.region":nul}}}"#, "malformed_json"),
    ] {
        check_fault(body, Code::InvalidPayload, "body", reason);
    }
    let deep = |levels: usize| format!(r#"{{"meta":{{"a":{}{}}}}}"#, "[".repeat(levels), "]".repeat(levels));
    read(&deep(14));
    check_fault(&deep(15), Code::InvalidPayload, "body", "too_deep");
}

#[test]
fn meta_text_is_found_wherever_it_stands_and_options_metadata_wins() {
    for (body, expected) in [
        (r#"{"meta":{"k":"v"}}"#, Some("v")),
        (r#"{"meta":{"\u006b":"\u0076"}}"#, Some("v")),
        (r#"{"meta":{"k":7}}"#, None),
        (r#"{"meta":{"k":"v","k":"w"}}"#, Some("w")),
        (r#"{"meta":{"k":"v"},"options":{"metadata":{}}}"#, Some("v")),
        (r#"{"meta":{"k":"v"},"options":{"metadata":null}}"#, Some("v")),
        (r#"{"meta":{"k":"v"},"options":{"metadata":{"a":{"k":1},"k":"w"}}}"#, Some("w")),
        ("{}", None),
    ] {
        assert_eq!(read(body).meta_text("k").text.as_deref(), expected, "{body}");
    }
}

#[test]
fn a_unique_policy_over_the_whole_meta_is_noticed() {
    for (body, expected) in [
        (r#"{"options":{"unique":{"keys":["type","meta"]}}}"#, true),
        (r#"{"unique":{"key":["meta"]}}"#, true),
        (r#"{"options":{"Unique":{"Keys":"meta","meta_keys":null}}}"#, true),
        (r#"{"options":{"unique":{"keys":["meta"],"meta_keys":[]}}}"#, true),
        (r#"{"options":{"unique":{"keys":["meta"],"meta_keys":["tenant"]}}}"#, false),
        (r#"{"options":{"unique":{"keys":["meta"],"meta_keys":["ojs.federation.federation_id"]}}}"#, true),
        (r#"{"options":{"unique":{"keys":["type","args"]}}}"#, false),
        (r#"{"options":{"unique":true}}"#, false),
        (r#"{"args":[{"unique":{"keys":["meta"]}}]}"#, false),
    ] {
        assert_eq!(read(body).fingerprints_meta(), expected, "{body}");
    }
}

#[test]
fn an_envelope_shows_nothing_of_the_job_when_it_is_printed() {
    assert_eq!(format!("{:?}", read(r#"{"type":"secret"}"#)), "Envelope { span: (0, 17), .. }");
}
