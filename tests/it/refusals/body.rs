//! Bodies, paths and hosts that are refused before anything is decided.

use http::Request;

use super::{NEEDLE, enqueue, nothing_was_sent, with};
use crate::support::{Federation, Setup};

const JSON: &str = "application/openjobspec+json";

#[tokio::test]
async fn malformed_json_is_an_invalid_payload() {
    let federation = Federation::start().await;
    let needle = with("");
    let mut bodies: Vec<Vec<u8>> = [
        "",
        " ",
        "{",
        "}",
        "{}}",
        "nul",
        "{'type':1}",
        "{\"type\":\"t\",}",
        "{\"type\" \"t\"}",
        "{,}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":+1}",
        "{\"a\":NaN}",
        "{\"a\":.5}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":[1,]}",
        "{} {}",
        "{}\0",
        "{\"a\":tru}",
        "{\"a\":\"",
        "// x\n{}",
        "{\"a\":1/*x*/}",
    ]
    .into_iter()
    .map(Vec::from)
    .collect();
    bodies.push(format!("\u{feff}{needle}").into_bytes());
    bodies.push(needle.replace(NEEDLE, "\u{1}").into_bytes());
    bodies.push([needle.as_bytes(), b"\xff"].concat());
    bodies.push(b"{\"type\":\"\xc0\xaf\"}".to_vec());
    for body in bodies {
        let answer = enqueue(&federation, body).await;
        let error = answer.check_error(400, "invalid_payload", "malformed_json");
        assert_eq!(error["details"]["field"], "body");
    }
    for body in ["[]", "null", "5", "\"x\"", "[{\"type\":\"t\",\"args\":[]}]"] {
        enqueue(&federation, body).await.check_error(400, "invalid_payload", "not_an_object");
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn json_may_nest_as_deep_as_configured_and_no_deeper() {
    let federation = Setup::default().yaml("limits: { json_depth: 16 }").start().await;
    let nested = |levels: usize| with(&format!(r#","x":{}{}"#, "[".repeat(levels - 1), "]".repeat(levels - 1)));
    enqueue(&federation, nested(17)).await.check_error(400, "invalid_payload", "too_deep");
    let bomb = with(&format!(r#","x":{}"#, "[".repeat(1_000_000)));
    enqueue(&federation, bomb).await.check_error(400, "invalid_payload", "too_deep");
    nothing_was_sent(&federation);
    assert_eq!(enqueue(&federation, nested(16)).await.status, 201);
}

#[tokio::test]
async fn a_body_in_a_coding_that_is_not_read_is_refused() {
    let federation = Federation::start().await;
    for encoding in ["zstd", "br, gzip", "gzip, gzip", "x"] {
        for path in ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/cron", "/ojs/v1/workflows", "/ojs/v1/workers/ack"] {
            let request = Request::post(path).header("content-type", JSON).header("content-encoding", encoding);
            let answer = federation.client.send(request, with("")).await;
            answer.check_error(415, "unsupported", "content_encoding");
            assert_eq!(answer.header("accept-encoding"), Some("gzip"), "{path} {encoding}");
        }
    }
    for path in ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/workers/fetch"] {
        let request = Request::post(path).header("content-type", JSON).header("content-encoding", "gzip");
        federation.client.send(request, with("")).await.check_error(400, "invalid_request", "content_encoding");
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn a_creating_call_by_an_odd_path_is_refused() {
    let federation = Federation::start().await;
    for path in [
        "//ojs/v1/jobs",
        "/ojs//v1/jobs",
        "/ojs/v1/jobs/",
        "/ojs/v1/jobs//",
        "/ojs/./v1/jobs",
        "/ojs/v1/x/../jobs",
        "/x/../ojs/v1/jobs",
        "/ojs/v1/%6aobs",
        "/ojs/v1/%6Aobs",
        "/ojs/v1/%256aobs",
        "/ojs/v1%2fjobs",
        "/ojs/v1/x/%2e%2e/jobs",
        "/ojs/v1/jobs;a=1",
        "/ojs/v1/jobs%3b",
        "/OJS/v1/jobs",
        "/ojs/V1/Jobs",
        "/ojs/v1/jobs/?x=1",
        "/ojs/v1/jobs/%62atch",
        "/ojs/v1/jobs/batch/",
        "/ojs/v1/jobs/Batch",
        "/ojs/v1/cron/",
        "/ojs/v1//workflows",
    ] {
        let answer = federation.client.post(path, with("")).await;
        answer.check_error(400, "invalid_request", "ambiguous_path");
    }
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_misdirected_whatever_it_asks() {
    let federation = Setup::default().yaml("").start().await;
    for host in ["evil.example", "10.0.0.1:8080", "127.0.0.1.nip.io", "localhost.evil.example", "[::2]"] {
        for (method, path) in [
            ("POST", "/ojs/v1/jobs"),
            ("GET", "/ojs/v1/queues"),
            ("GET", "/v1/federation/regions"),
            ("GET", "/ojs/v1/health"),
        ] {
            let request = Request::builder().method(method).uri(path).header("host", host).header("content-type", JSON);
            let answer = federation.client.send(request, if method == "POST" { with("") } else { String::new() }).await;
            answer.check_error(421, "invalid_request", "host_not_allowed");
        }
    }
    nothing_was_sent(&federation);
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "app.localhost", "localhost."] {
        let request = Request::get("/ojs/v1/health").header("host", host);
        assert_eq!(federation.client.send(request, "").await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_body_above_the_bound_is_413_however_it_is_framed() {
    let federation = Setup::default().yaml("limits: { body_bytes: 4KiB }").start().await;
    let large = with(&format!(r#","x":"{}""#, "y".repeat(8_192)));
    for path in ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/v1/federation/route"] {
        let error = federation.client.post(path, large.clone()).await;
        let error = error.check_error(413, "payload_too_large", "body_too_large");
        assert_eq!(error["details"]["limit_bytes"], 4_096);
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
        let answer = federation.client.raw(&[head.as_bytes(), chunk.as_bytes()].concat()).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    // Announced only: it is refused before it is sent.
    let head = "POST /ojs/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999999\r\n\r\n";
    let answer = federation.client.raw(head.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    nothing_was_sent(&federation);
    let fits = with(&format!(r#","x":"{}""#, "y".repeat(4_096 - with(r#","x":"""#).len())));
    assert_eq!(fits.len(), 4_096);
    assert_eq!(enqueue(&federation, fits).await.status, 201);
}

#[tokio::test]
async fn a_body_far_above_the_bound_still_gets_its_answer() {
    let federation = Setup::default().regions(1).yaml("limits: { body_bytes: 4KiB }").start().await;
    let huge = with(&format!(r#","x":"{}""#, "y".repeat(8 << 20)));
    let answer = federation.client.post("/ojs/v1/jobs", huge).await;
    answer.check_error(413, "payload_too_large", "body_too_large");
    nothing_was_sent(&federation);
}
