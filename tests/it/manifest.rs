//! `GET /ojs/manifest`: a region's words, with what the federation adds, as long as one region answers.

use http::{Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::json;

use crate::support::{Federation, Setup};

const PATH: &str = "/ojs/manifest";
const URN: &str = "urn:ojs:spec:federation";

/// Lets a region answer for its manifest with this.
fn answers(federation: &Federation, place: usize, status: StatusCode, body: &str) {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let answer = FaultAnswer { status, headers, body: body.to_owned().into() }.header("etag", "\"1\"");
    federation.regions[place].faults().add(When::path(PATH), Fault::Answer { answer, store: false });
}

#[tokio::test]
async fn it_is_that_of_the_local_region_with_the_extension_in_the_form_of_its_dialect() {
    let federation = Federation::start().await;
    let manifest = federation.client.get(PATH).await;
    assert_eq!((manifest.status.as_u16(), manifest.region()), (200, "us-east-1"));
    let manifest = manifest.json();
    assert_eq!((&manifest["ojs_version"], &manifest["specversion"]), (&json!("1.0"), &json!("1.0")));
    let ours = json!({ "name": "federation", "uri": URN, "version": "1.0.0-rc.1" });
    assert_eq!(manifest["extensions"], json!({ "official": [ours] }));
    assert_eq!(manifest["implementation"]["name"], "ojs-sidecar demo region us-east-1");
    let federation = Setup::default().by_the_documents().start().await;
    assert_eq!(federation.client.get(PATH).await.json()["extensions"], json!([URN]));
}

#[tokio::test]
async fn the_lowest_level_of_the_regions_counts_and_every_other_byte_is_the_local_regions() {
    let federation = Federation::start().await;
    let odd = r#"{ "specversion" : "1.0", "n": 1E400 ,"conformance_level":4, "extensions" : [] }"#;
    answers(&federation, 0, StatusCode::OK, odd);
    answers(&federation, 1, StatusCode::OK, r#"{"conformance_level":2}"#);
    answers(&federation, 2, StatusCode::SERVICE_UNAVAILABLE, r#"{"conformance_level":0}"#);
    let request = Request::get(PATH).header("if-none-match", "\"1\"").header("range", "bytes=0-3");
    let manifest = federation.client.send(request, "").await;
    let expected = format!(
        r#"{{ "specversion" : "1.0", "n": 1E400 ,"conformance_level":2, "extensions" : ["{URN}"] ,"ojs_version":"1.0"}}"#
    );
    assert_eq!(manifest.body, expected);
    assert_eq!((manifest.header("content-type"), manifest.header("etag")), (Some("application/json"), None));
    assert_eq!(manifest.header("content-length"), Some(expected.len().to_string().as_str()));
    for region in &federation.regions {
        let asked = &region.record().requests_to(PATH)[0];
        assert!(asked.headers.get("if-none-match").is_none() && asked.headers.get("range").is_none());
    }
}

#[tokio::test]
async fn another_region_answers_while_the_local_one_does_not_and_none_is_a_503() {
    let federation = Federation::start().await;
    answers(&federation, 0, StatusCode::NOT_FOUND, "404 page not found\n");
    let manifest = federation.client.get(PATH).await;
    assert_eq!((manifest.status.as_u16(), manifest.region()), (200, "eu-west-1"), "{manifest:?}");
    // A region that hangs has no part in the answer, and does not hold it back for long.
    federation.regions[0].stop().await;
    federation.regions[1].faults().add(When::path(PATH), Fault::HangBeforeBody);
    let manifest = federation.client.get(PATH).await;
    assert_eq!((manifest.status.as_u16(), manifest.region()), (200, "ap-south-1"), "{manifest:?}");
    for region in &federation.regions {
        region.stop().await;
    }
    let nobody = federation.client.get(PATH).await;
    nobody.check_error(503, "backend_error", "owner_unavailable");
    assert_eq!(nobody.region(), "none");
}

#[tokio::test]
async fn what_the_local_region_says_instead_is_passed_on_where_no_region_has_a_manifest() {
    let federation = Federation::start().await;
    for place in 0..3 {
        answers(&federation, place, StatusCode::UNAUTHORIZED, &format!(r#"{{"error":"{place}"}}"#));
    }
    let refused = federation.client.get(PATH).await;
    assert_eq!(
        (refused.status.as_u16(), refused.region(), refused.json()["error"].as_str()),
        (401, "us-east-1", Some("0"))
    );
    assert_eq!(refused.header("etag"), Some("\"1\""));
}

#[tokio::test]
async fn a_region_that_is_named_answers_in_its_own_words() {
    let federation = Federation::start().await;
    let manifest = federation.client.get("/ojs/manifest?region=eu-west-1").await;
    assert_eq!((manifest.status.as_u16(), manifest.region()), (200, "eu-west-1"));
    assert_eq!(manifest.json()["extensions"], json!({ "official": [] }));
    assert!(federation.regions[0].record().requests_to(PATH).is_empty());
}

#[tokio::test]
async fn a_manifest_advertises_no_compression_that_is_refused_here() {
    let federation = Federation::start().await;
    let limits = |codings: &str| format!(r#"{{"payload_limits":{{"supported_compression":{codings}}}}}"#);
    for place in [0, 1] {
        answers(&federation, place, StatusCode::OK, &limits(r#"["gzip","zstd"]"#));
    }
    for path in [PATH, "/ojs/manifest?region=eu-west-1"] {
        let manifest = federation.client.get(path).await;
        assert_eq!(manifest.json()["payload_limits"]["supported_compression"], json!(["gzip"]), "{path}: {manifest:?}");
    }
    assert_eq!(federation.client.get("/ojs/manifest?region=eu-west-1").await.body, limits(r#"["gzip"]"#));
}
