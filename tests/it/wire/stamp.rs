//! The stamp in every mode, and the bytes around it.

use super::{assert_is_uuid7, check, received};
use crate::support::{Federation, Setup};

/// `"meta":{"ojs.federation.federation_id":"…"}` as it is spliced.
const FID: &str = r#""ojs.federation.federation_id":"<F>""#;

/// Everything that a serialiser would change, in the places that are the client's alone.
const ODD: &str = "\"args\" :[ 123456789012345678901234567890 ,1E400,-0.0,1.50,-0,1e+2 , \"\\u00e9\\/\\ud83d\\ude00é\u{2028}\",\r\n\t{\"b\":1,\"a\":2,\"b\":{\"b\":null}} ]  ,\n \"x\":{\"z\":0.10,\"meta\":{\"ojs.federation.hint\":7},\"a\":[[]]},\t\"type\":\"\\u0074\"";

#[tokio::test]
async fn every_byte_of_the_client_survives_where_it_stood() {
    let federation = Federation::start().await;
    for (body, expected) in [
        (format!("{{{ODD}}}"), format!(r#"{{"id":"<I>","meta":{{{FID}}},{ODD}}}"#)),
        (format!(" \n{{ {ODD} }}\r\n\t "), format!(" \n{{\"id\":\"<I>\",\"meta\":{{{FID}}}, {ODD} }}\r\n\t ")),
        (
            format!(r#"{{{ODD} , "meta" : {{ "k" : 1E400, "a":"\u00e9" }} }}"#),
            format!(r#"{{"id":"<I>",{ODD} , "meta" : {{{FID}, "k" : 1E400, "a":"\u00e9" }} }}"#),
        ),
        (format!(r#"{{"id":"mine",{ODD}}}"#), format!(r#"{{"meta":{{{FID}}},"id":"mine",{ODD}}}"#)),
    ] {
        check(&federation, &body, &expected).await;
    }
    let args = &federation.regions[0].jobs()[0].args;
    assert!(ODD.contains(args.as_str()) && args.contains("1E400"), "{args}");
}

#[tokio::test]
async fn the_stamp_goes_where_the_region_will_look_for_it() {
    let federation = Federation::start().await;
    let job = r#""type":"t","args":[]"#;
    for (body, expected) in [
        (format!(r#"{{{job},"meta":null}}"#), format!(r#"{{"id":"<I>",{job},"meta":{{{FID}}}}}"#)),
        (format!(r#"{{{job},"meta":{{}}}}"#), format!(r#"{{"id":"<I>",{job},"meta":{{{FID}}}}}"#)),
        (format!(r#"{{{job},"meta":{{ }}}}"#), format!(r#"{{"id":"<I>",{job},"meta":{{{FID} }}}}"#)),
        (format!(r#"{{"id":null,{job}}}"#), format!(r#"{{"meta":{{{FID}}},"id":"<I>",{job}}}"#)),
        (
            format!(r#"{{{job},"options":{{"queue":"q"}}}}"#),
            format!(r#"{{"id":"<I>","meta":{{{FID}}},{job},"options":{{"queue":"q"}}}}"#),
        ),
        (format!(r#"{{{job},"options":null}}"#), format!(r#"{{"id":"<I>","meta":{{{FID}}},{job},"options":null}}"#)),
        (
            format!(r#"{{{job},"meta":{{"a":1}},"options":{{"metadata":{{"b":2}}}}}}"#),
            format!(r#"{{"id":"<I>",{job},"meta":{{"a":1}},"options":{{"metadata":{{{FID},"b":2}}}}}}"#),
        ),
        (
            format!(r#"{{{job},"meta":{{"a":1}},"options":{{"metadata":null}}}}"#),
            format!(r#"{{"id":"<I>",{job},"meta":{{"a":1}},"options":{{"metadata":{{{FID}}}}}}}"#),
        ),
        (
            format!(r#"{{{job},"options":{{"metadata":{{}}}}}}"#),
            format!(r#"{{"id":"<I>",{job},"options":{{"metadata":{{{FID}}}}}}}"#),
        ),
        (
            format!(r#"{{{job},"meta":{{"ojs.federation.federation_id":null,"a":1}}}}"#),
            format!(r#"{{"id":"<I>",{job},"meta":{{"ojs.federation.federation_id":"<F>","a":1}}}}"#),
        ),
    ] {
        check(&federation, &body, &expected).await;
    }
}

#[tokio::test]
async fn what_stands_only_in_meta_is_copied_where_options_metadata_replaces_it() {
    let federation = Federation::start().await;
    let (meta, pin) = (
        r#""meta":{"ojs.federation.region":"us-east-\u0031","ojs.federation.region_affinity":"overflow"}"#,
        r#""ojs.federation.region":"us-east-\u0031","ojs.federation.region_affinity":"overflow""#,
    );
    for metadata in ["null", "{}"] {
        check(
            &federation,
            &format!(r#"{{"type":"t","args":[],{meta},"options":{{"metadata":{metadata}}}}}"#),
            &format!(r#"{{"id":"<I>","type":"t","args":[],{meta},"options":{{"metadata":{{{FID},{pin}}}}}}}"#),
        )
        .await;
        let jobs = federation.regions[0].jobs();
        assert!(jobs.last().unwrap().meta.as_ref().unwrap().contains("ojs.federation.region"), "the pin took effect");
    }
    let own =
        r#"{"type":"t","args":[],"id":"i","meta":{"ojs.federation.federation_id":"mine"},"options":{"metadata":{}}}"#;
    let copied = own.replace(r#""metadata":{}"#, r#""metadata":{"ojs.federation.federation_id":"mine"}"#);
    let answer = check(&federation, own, &copied).await;
    assert_eq!(answer.header("ojs-federation-id"), Some("mine"));
}

#[tokio::test]
async fn a_clients_own_ids_are_kept_whatever_they_look_like() {
    let federation = Federation::start().await;
    for id in ["1", "not-a-uuid", "01912E4A-7B3C-7DEF-8A12-ABCDEF123456", "a b", r"\u0041"] {
        let body = format!(
            r#"{{"id":"{id}","type":"t","args":[],"meta":{{"ojs.federation.federation_id":"{id}","ojs.federation.x":[1.0]}}}}"#
        );
        let answer = check(&federation, &body, &body).await;
        let decoded = id.replace(r"\u0041", "A");
        assert_eq!((answer.job_id(), answer.header("ojs-federation-id")), (decoded.clone(), Some(decoded.as_str())));
    }
}

#[tokio::test]
async fn a_tracking_id_that_no_header_should_carry_is_kept_in_the_job_and_left_out_of_the_answer() {
    let federation = Federation::start().await;
    for id in ["é".to_owned(), "\\n".to_owned(), "x".repeat(300), "x".repeat(200_000)] {
        let body = format!(r#"{{"id":"a","type":"t","args":[],"meta":{{"ojs.federation.federation_id":"{id}"}}}}"#);
        let answer = check(&federation, &body, &body).await;
        assert_eq!(answer.header("ojs-federation-id"), None);
    }
}

#[tokio::test]
async fn stamp_never_and_federated_only_leave_other_jobs_as_they_are() {
    let plain = r#"{ "type":"t","args":[] , "meta":{"a":1}}"#;
    let federated = r#"{"type":"t","args":[],"meta":{"ojs.federation.anything":0}}"#;
    let null = r#"{"type":"t","args":[],"meta":{"ojs.federation.anything":null}}"#;
    let never = Setup::default().regions(1).yaml("routing: { stamp: never, mint_id: false }").start().await;
    for body in [plain, federated, null] {
        let answer = check(&never, body, body).await;
        assert_eq!(answer.header("ojs-federation-id"), None);
    }
    let some = Setup::default().regions(1).yaml("routing: { stamp: federated-only, mint_id: false }").start().await;
    check(&some, plain, plain).await;
    check(&some, null, null).await;
    check(&some, federated, &federated.replace(r#"{"ojs"#, &format!(r#"{{{FID},"ojs"#)).replace("ojs\"", "ojs")).await;
    check(
        &some,
        r#"{"type":"t","args":[],"options":{"metadata":{"ojs.federation.region":"us-east-1"}}}"#,
        &format!(r#"{{"type":"t","args":[],"options":{{"metadata":{{{FID},"ojs.federation.region":"us-east-1"}}}}}}"#),
    )
    .await;
}

#[tokio::test]
async fn stamp_never_still_mints_an_id_unless_that_is_off_too() {
    let federation = Setup::default().regions(1).yaml("routing: { stamp: never }").start().await;
    let answer = check(&federation, r#"{"type":"t","args":[]}"#, r#"{"id":"<I>","type":"t","args":[]}"#).await;
    assert_eq!(answer.header("ojs-federation-id"), None);
    let federation = Setup::default().regions(1).yaml("routing: { mint_id: false }").start().await;
    let meta = format!(r#"{{"meta":{{{FID}}},"type":"t","args":[]}}"#);
    check(&federation, r#"{"type":"t","args":[]}"#, &meta).await;
    check(&federation, r#"{"id":null,"type":"t","args":[]}"#, &meta.replace(r#","type""#, r#","id":null,"type""#))
        .await;
}

#[tokio::test]
async fn stamp_origin_tells_from_where_and_when_unless_the_job_does() {
    let federation = Setup::default().regions(2).steered().yaml("routing: { stamp_origin: true }").start().await;
    let origin = r#""ojs.federation.source_region":"us-east-1","ojs.federation.routed_at":"2027-01-15T08:00:00.000Z""#;
    check(
        &federation,
        r#"{"type":"t","args":[]}"#,
        &format!(r#"{{"id":"<I>","meta":{{{FID},{origin}}},"type":"t","args":[]}}"#),
    )
    .await;
    let own = r#""ojs.federation.source_region":"elsewhere","ojs.federation.routed_at":5"#;
    check(
        &federation,
        &format!(r#"{{"type":"t","args":[],"meta":{{{own}}}}}"#),
        &format!(r#"{{"id":"<I>","type":"t","args":[],"meta":{{{FID},{own}}}}}"#),
    )
    .await;
}

#[tokio::test]
async fn a_job_whose_uniqueness_fingerprints_meta_gets_no_meta_keys() {
    let federation = Federation::start().await;
    for unique in [
        r#""unique":{"keys":["type","meta"]}"#,
        r#""unique":{"key":["META"]}"#,
        r#""options":{"unique":{"keys":["meta"]}}"#,
        r#""unique":{"keys":["type"],"meta_keys":["ojs.federation.federation_id"]}"#,
    ] {
        let body = format!(r#"{{"type":"t","args":[],"meta":{{"a":1}},{unique}}}"#);
        let answer = check(&federation, &body, &body.replacen('{', r#"{"id":"<I>","#, 1)).await;
        assert_eq!(answer.header("ojs-federation-id"), None);
    }
    for unique in [r#""unique":{"keys":["type","args"]}"#, r#""unique":{"keys":["meta"],"meta_keys":["tenant"]}"#] {
        let body = format!(r#"{{"type":"t","args":[],{unique}}}"#);
        check(&federation, &body, &body.replacen('{', &format!(r#"{{"id":"<I>","meta":{{{FID}}},"#), 1)).await;
    }
}

#[tokio::test]
async fn ids_are_of_the_time_of_the_enqueue_and_never_repeat() {
    let federation = Setup::default().regions(1).steered().start().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let answer = federation.client.enqueue(r#"{"type":"t","args":[]}"#).await;
        for id in [answer.job_id(), answer.header("ojs-federation-id").unwrap().to_owned()] {
            assert_is_uuid7(&id);
            let (seconds, nanos) = uuid::Uuid::parse_str(&id).unwrap().get_timestamp().unwrap().to_unix();
            assert_eq!((seconds, nanos), (1_800_000_000, 0));
            assert!(seen.insert(id));
        }
    }
}

#[tokio::test]
async fn path_query_and_headers_travel_and_what_belongs_to_the_hop_does_not() {
    let federation = Federation::start().await;
    let request = http::Request::post("/ojs/v1/jobs?x=%2F&y=a+b&&z")
        .header("content-type", "application/json; charset=utf-8")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("x-a", "1")
        .header("x-a", "2")
        .header("connection", "keep-alive, x-hop")
        .header("x-hop", "gone")
        .header("accept-encoding", "gzip")
        .header("x-request-id", "mine-1");
    let answer = federation.client.send(request, r#"{"type":"t","args":[]}"#).await;
    assert_eq!(answer.status, 201);
    let request = federation.regions[0].record().requests_to("/ojs/v1/jobs").pop().unwrap();
    assert_eq!(request.path, "/ojs/v1/jobs?x=%2F&y=a+b&&z");
    let values = |name: &str| request.headers.get_all(name).iter().map(|it| it.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(values("content-type"), ["application/json; charset=utf-8"]);
    assert_eq!(values("x-a"), ["1", "2"]);
    assert_eq!(values("traceparent").len(), 1);
    assert_eq!(values("x-request-id"), ["mine-1"]);
    assert_eq!(values("host"), [federation.regions[0].url().trim_start_matches("https://")]);
    assert!(["x-hop", "connection", "accept-encoding"].iter().all(|name| values(name).is_empty()));
    assert!(received(&federation).starts_with(b"{"));
}
