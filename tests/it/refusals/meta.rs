//! Federation attributes that cannot be followed: 400, and nothing is sent.

use super::{NEEDLE, enqueue, nothing_was_sent, with};
use crate::support::{Federation, IDS, Setup};

const BAD_META: &str = "invalid_federation_meta";
const AMBIGUOUS: &str = "ambiguous_member";

#[tokio::test]
async fn an_unknown_strategy_is_refused_and_never_a_silent_default() {
    let federation = Federation::start().await;
    for name in ["fastest", "", "Affinity", " affinity", "geo_pin", "roundrobin", "a\\u0000"] {
        let body = with(&format!(r#","meta":{{"ojs.federation.region_affinity":"{name}"}}"#));
        let error = enqueue(&federation, body).await.check_error(400, "invalid_request", BAD_META);
        assert_eq!(error["details"]["field"], "ojs.federation.region_affinity");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("geo-pin") && message.contains("active-passive"), "{message}");
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn geo_pin_without_a_region_is_refused() {
    let federation = Federation::start().await;
    for meta in [
        r#""ojs.federation.region_affinity":"geo-pin""#,
        r#""ojs.federation.region_affinity":"geo-pin","ojs.federation.region":null"#,
    ] {
        let error = enqueue(&federation, with(&format!(r#","meta":{{{meta}}}"#))).await;
        let error = error.check_error(400, "invalid_request", BAD_META);
        assert_eq!(error["details"]["field"], "ojs.federation.region");
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn an_unknown_region_is_refused_with_the_known_ones() {
    let federation = Federation::start().await;
    for (pin, shown) in [
        ("mars-1", Some("mars-1")),
        ("EU-WEST-1", None),
        ("eu-west-1 ", None),
        ("eu-west-1\\u0000", None),
        ("Bearer secret", None),
        ("eu-west-1.", None),
        ("*", None),
    ] {
        let body = with(&format!(r#","meta":{{"ojs.federation.region":"{pin}"}}"#));
        let answer = enqueue(&federation, body).await;
        let error = answer.check_error(400, "invalid_request", "region_unknown");
        assert_eq!(error["details"]["known_regions"], serde_json::json!(IDS));
        assert_eq!(error["details"]["region"].as_str(), shown, "{pin}");
        assert_eq!(answer.region(), "none");
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn a_contradiction_between_meta_and_options_metadata_is_refused() {
    let federation = Federation::start().await;
    for (key, meta, metadata) in [
        ("region", r#""us-east-1""#, r#""eu-west-1""#),
        ("region", r#""mars-1""#, r#""us-east-1""#),
        ("region_affinity", r#""affinity""#, r#""overflow""#),
        ("federation_id", r#""a""#, r#""b""#),
        ("replicated_from", r#""us-east-1""#, r#""eu-west-1""#),
        ("weights", r#"{"us-east-1":1}"#, r#"{"us-east-1":2}"#),
        ("weights", r#"{"us-east-1":1}"#, r#"{"us-east-1":1,"eu-west-1":0}"#),
    ] {
        let [meta, metadata] = [meta, metadata].map(|value| format!(r#"{{"ojs.federation.{key}":{value}}}"#));
        for members in [
            format!(r#","meta":{meta},"options":{{"metadata":{metadata}}}"#),
            format!(r#","options":{{"metadata":{meta}}},"meta":{metadata}"#),
        ] {
            let error = enqueue(&federation, with(&members)).await.check_error(400, "invalid_request", BAD_META);
            assert_eq!(error["details"]["field"].as_str(), Some(format!("ojs.federation.{key}").as_str()));
        }
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn members_that_servers_could_read_in_two_ways_are_refused() {
    let federation = Federation::start().await;
    let pin = r#"{"ojs.federation.region":"eu-west-1"}"#;
    for (members, field) in [
        (format!(r#","meta":{{}},"meta":{pin}"#), "meta"),
        (format!(r#","meta":{pin},"m\u0065ta":{{}}"#), "meta"),
        (format!(r#","Meta":{pin}"#), "meta"),
        (format!(r#","meta":{pin},"META":null"#), "meta"),
        (format!(r#","\u004deta":{pin}"#), "meta"),
        (format!(r#","options":{{"metadata":{pin}}},"options":{{}}"#), "options"),
        (format!(r#","Options":{{"metadata":{pin}}}"#), "options"),
        (format!(r#","option\u017f":{{"metadata":{pin}}}"#), "options"),
        (format!(r#","options":{{"metadata":{pin},"metadata":{{}}}}"#), "options.metadata"),
        (format!(r#","options":{{"MetaData":{pin}}}"#), "options.metadata"),
        (format!(r#","options":{{"met\u0061data":{pin},"metadata":{{}}}}"#), "options.metadata"),
        (r#","id":"a","id":"b""#.to_owned(), "id"),
        (r#","ID":"a""#.to_owned(), "id"),
        (r#","\u0049d":"a""#.to_owned(), "id"),
        (r#","Type":"t""#.to_owned(), "type"),
        (r#","queue":"a","Queue":"b""#.to_owned(), "queue"),
        (r#","options":{"queue":"a","QUEUE":"b"}"#.to_owned(), "options.queue"),
        (r#","options":{"tags":[],"tag\u017f":["gpu"]}"#.to_owned(), "options.tags"),
        (
            r#","meta":{"ojs.federation.region":"us-east-1","ojs.federation.region":"eu-west-1"}"#.to_owned(),
            "meta.ojs.federation.region",
        ),
        (
            r#","meta":{"ojs.federation.region":null,"ojs.federation.r\u0065gion":"eu-west-1"}"#.to_owned(),
            "meta.ojs.federation.region",
        ),
        (r#","meta":{"OJS.Federation.Region":"eu-west-1"}"#.to_owned(), "meta.ojs.federation.region"),
        (r#","meta":{"oj\u017f.federation.region":"eu-west-1"}"#.to_owned(), "meta.ojs.federation.region"),
        (
            r#","options":{"metadata":{"ojs.federation.REGION_AFFINITY":"overflow"}}"#.to_owned(),
            "options.metadata.ojs.federation.region_affinity",
        ),
        (r#","meta":{"ojs.federation.Federation_id":"a"}"#.to_owned(), "meta.ojs.federation.federation_id"),
        (
            r#","meta":{"ojs.federation.weights":{"us-east-1":1,"us-east-\u0031":2}}"#.to_owned(),
            "meta.ojs.federation.weights",
        ),
    ] {
        let error = enqueue(&federation, with(&members)).await.check_error(400, "invalid_request", AMBIGUOUS);
        assert_eq!(error["details"]["field"].as_str(), Some(field), "{members}");
    }
    nothing_was_sent(&federation);
}

/// What stands in meta, and what was probably meant.
const MISSPELT: &[(&str, &str)] = &[
    (r#""ojs.federation.regoin":"eu-west-1""#, "region"),
    (r#""ojs.federation.regions":"eu-west-1""#, "region"),
    (r#"" ojs.federation.region":"eu-west-1""#, "region"),
    (r#""ojs.federation.region ":"eu-west-1""#, "region"),
    (r#""ojs.federation.reg\u200bion":"eu-west-1""#, "region"),
    ("\"\u{feff}ojs.federation.region\":\"eu-west-1\"", "region"),
    ("\"ojs\u{ff0e}federation\u{ff0e}region\":\"eu-west-1\"", "region"),
    (r#""ojs.federation.region\u0000":"eu-west-1""#, "region"),
    ("\"ojs.federation.regio\u{301}n\":\"eu-west-1\"", "region"),
    (r#""ojs":{"federation":{"region":"eu-west-1"}}"#, "region"),
    (r#""ojs.federation":{"regoin":"eu-west-1"}"#, "region"),
    (r#""ojs":{"federation.region":"eu-west-1"}"#, "region"),
    (r#""ojs.federation.regionAffinity":"overflow""#, "region_affinity"),
    (r#""ojs.federation.weight":{"eu-west-1":1}"#, "weights"),
];

#[tokio::test]
async fn a_misspelt_attribute_is_refused_with_the_name_that_was_meant() {
    let federation = Federation::start().await;
    for (key, meant) in MISSPELT {
        let meant = format!("ojs.federation.{meant}");
        for (place, members) in [
            ("meta", format!(r#""meta":{{"a":1,{key}}}"#)),
            ("options.metadata", format!(r#""meta":{{}},"options":{{"metadata":{{{key}}}}}"#)),
        ] {
            let job = format!(r#"{{"type":"t","args":["{NEEDLE}"],{members}}}"#);
            for (path, body) in [
                ("/ojs/v1/jobs", job.clone()),
                ("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{{"type":"u","args":[]}},{job}]}}"#)),
                ("/ojs/v1/jobs/bulk", format!(r#"{{"jobs":[{job}]}}"#)),
                ("/ojs/v1/workflows", format!(r#"{{"type":"chain","steps":[{job}]}}"#)),
                ("/ojs/v1/cron", format!(r#"{{"name":"n","cron":"0 9 * * *","job_template":{job}}}"#)),
            ] {
                let error = federation.client.post(path, body).await.check_error(400, "invalid_request", BAD_META);
                assert_eq!(error["details"]["field"], format!("{place}.{meant}"), "{path} {key}");
                assert!(error["message"].as_str().unwrap().contains(&meant), "{error}");
            }
        }
        let null = key.split_once(':').map(|(name, _)| format!(r#","meta":{{{name}:null}}"#)).unwrap();
        assert_eq!(enqueue(&federation, with(&null).replace(NEEDLE, "")).await.status, 201, "null is absent: {null}");
    }
    assert!(federation.seen(NEEDLE).is_empty());
}

#[tokio::test]
async fn an_unknown_federation_key_passes_and_is_counted_or_is_refused() {
    let body = with(r#","meta":{"ojs.federation.residency":"eu-west-1","ojs":{"federation":{"note":1}},"ojs.team":2}"#);
    let federation = Federation::start().await;
    assert_eq!(enqueue(&federation, body.clone()).await.status, 201);
    let metrics = federation.admin.get("/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("ojs_federation_unknown_federation_keys_total 2"));
    let jobs = federation.regions[0].jobs();
    assert!(jobs[0].meta.as_ref().unwrap().contains(r#""ojs.federation.residency":"eu-west-1""#));

    let federation = Setup::default().yaml("compat: { unknown_federation_keys: reject }").start().await;
    let error = enqueue(&federation, body).await.check_error(400, "invalid_request", BAD_META);
    assert_eq!(error["details"]["keys"], serde_json::json!(["ojs.federation.residency", "ojs"]));
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn attributes_of_the_wrong_type_are_refused() {
    let federation = Federation::start().await;
    for (key, values) in [
        ("region", &["7", "true", "[]", "{}", r#"["eu-west-1"]"#, r#""""#][..]),
        ("region_affinity", &["0", "false", r#"["affinity"]"#]),
        ("federation_id", &["5", "{}"]),
        ("replicated_from", &["5", "[]"]),
        ("weights", &["5", r#""us-east-1""#, "[]", r#"{"us-east-1":"1"}"#, r#"{"us-east-1":-1}"#]),
        ("weights", &[r#"{"us-east-1":1e999}"#, r#"{"us-east-1":null}"#, r#"{"us-east-1":{}}"#]),
    ] {
        for value in values {
            let object = format!(r#"{{"ojs.federation.{key}":{value}}}"#);
            for members in [format!(r#","meta":{object}"#), format!(r#","options":{{"metadata":{object}}}"#)] {
                enqueue(&federation, with(&members)).await.check_error(400, "invalid_request", BAD_META);
            }
        }
    }
    for (members, field) in [
        (r#","meta":[]"#, "meta"),
        (r#","meta":"x""#, "meta"),
        (r#","meta":5"#, "meta"),
        (r#","options":[]"#, "options"),
        (r#","options":false"#, "options"),
        (r#","options":{"metadata":"x"}"#, "options.metadata"),
        (r#","options":{"metadata":[{}]}"#, "options.metadata"),
    ] {
        let error = enqueue(&federation, with(members)).await.check_error(400, "invalid_request", "not_an_object");
        assert_eq!(error["details"]["field"], field);
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn a_clients_replicated_from_passes_and_is_counted_or_is_refused_as_configured() {
    let body = with(r#","meta":{"ojs.federation.replicated_from":"ap-south-1"}"#);
    let federation = Setup::default().yaml("compat: { client_replicated_from: reject }").start().await;
    enqueue(&federation, body.clone()).await.check_error(400, "invalid_request", BAD_META);
    nothing_was_sent(&federation);

    let federation = Federation::start().await;
    assert_eq!(enqueue(&federation, body).await.status, 201);
    let metrics = federation.admin.get("/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("ojs_federation_client_replicated_from_total 1"));
    let jobs = federation.regions[0].jobs();
    assert!(jobs[0].meta.as_ref().unwrap().contains(r#""ojs.federation.replicated_from":"ap-south-1""#));
}
