//! Requests that a browser sends for a web page: pages of other origins reach nothing, those of allowed ones are served.

mod chromium;

use http::{Method, Request, StatusCode};
use ojs_testbed::{DemoRegion, Fault, FaultAnswer, When};

use crate::support::{Answer, Federation, Setup, Wire};

const FOREIGN: &str = "https://evil.example";
const ALLOWED: &str = "https://ui.example:8443";

/// The requests that have reached a region, health probes and load polls left out.
fn arrived(federation: &Federation) -> Vec<String> {
    let arrived = |region: &DemoRegion| {
        let paths = region.record().requests().into_iter().map(|request| request.path);
        paths
            .filter(|path| !matches!(path.as_str(), "/ojs/v1/health" | "/ojs/v1/queues/default/stats"))
            .collect::<Vec<_>>()
    };
    federation.regions.iter().flat_map(arrived).collect()
}

async fn ask(federation: &Federation, method: &Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if *method == Method::POST { r#"{"type":"wipe","args":["evil"]}"# } else { "" };
    federation.client.send(request, body).await
}

#[tokio::test]
async fn requests_of_foreign_pages_are_403_and_reach_no_region() {
    let federation = Setup::default().listen(&format!("allowed_origins: [\"{ALLOWED}\"]")).start().await;
    let own = format!("http://{}", federation.address());
    for headers in [
        &[("origin", FOREIGN)][..],
        &[("origin", FOREIGN), ("sec-fetch-site", "cross-site")],
        &[("origin", "null")],
        &[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")],
        &[("origin", &own), ("host", "localhost")],
        &[("origin", ALLOWED), ("origin", FOREIGN)],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "anything")],
    ] {
        for (method, path) in [
            (Method::POST, "/ojs/v1/jobs"),
            (Method::POST, "/ojs/v1/jobs/batch"),
            (Method::POST, "/ojs/v1/workers/fetch"),
            (Method::POST, "/ojs/v1/queues/default/purge"),
            (Method::GET, "/ojs/v1/queues"),
            (Method::GET, "/ojs/v1/health"),
            (Method::GET, "/v1/federation/regions"),
            (Method::OPTIONS, "/ojs/v1/jobs"),
            (Method::GET, "/"),
        ] {
            let answer = ask(&federation, &method, path, headers).await;
            answer.check_error(403, "forbidden", "cross_origin");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(arrived(&federation), [""; 0]);
}

#[tokio::test]
async fn a_foreign_page_is_refused_before_its_body_is_read() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    wire.send(format!(
        "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nOrigin: {FOREIGN}\r\nExpect: 100-continue\r\nContent-Length: 60\r\n\r\n"
    ))
    .await;
    wire.answer().await.check_error(403, "forbidden", "cross_origin");
    let mut wire = federation.client.wire().await;
    wire.send(format!(
        "GET /ojs/v1/ws HTTP/1.1\r\nHost: localhost\r\nOrigin: {FOREIGN}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ))
    .await;
    wire.answer().await.check_error(403, "forbidden", "cross_origin");
    assert_eq!(arrived(&federation), [""; 0]);
}

#[tokio::test]
async fn preflights_are_answered_here_and_only_for_allowed_origins() {
    let federation = Setup::default().listen(&format!("allowed_origins: [\"{ALLOWED}\"]")).start().await;
    let wishes = [
        ("access-control-request-method", "DELETE"),
        ("access-control-request-headers", "content-type,x-request-id"),
        ("access-control-request-private-network", "true"),
    ];
    let answer =
        ask(&federation, &Method::OPTIONS, "/ojs/v1/jobs/a", &[&[("origin", FOREIGN)][..], &wishes].concat()).await;
    answer.check_error(403, "forbidden", "cross_origin");
    ask(&federation, &Method::OPTIONS, "/ojs/v1/jobs/a", &wishes).await.check_error(403, "forbidden", "cross_origin");
    let answer =
        ask(&federation, &Method::OPTIONS, "/ojs/v1/jobs/a", &[&[("origin", ALLOWED)][..], &wishes].concat()).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0));
    for (name, value) in [
        ("access-control-allow-origin", ALLOWED),
        ("access-control-allow-methods", "DELETE"),
        ("access-control-allow-headers", "content-type,x-request-id"),
        ("access-control-allow-private-network", "true"),
        ("vary", "origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert_eq!(arrived(&federation), [""; 0]);
}

#[tokio::test]
async fn pages_of_allowed_and_of_our_own_origins_are_served() {
    let federation = Setup::default().listen(&format!("allowed_origins: [\"{ALLOWED}\"]")).start().await;
    let allowed = [("origin", ALLOWED), ("sec-fetch-site", "cross-site")];
    let answer = ask(&federation, &Method::POST, "/ojs/v1/jobs", &allowed).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.header("access-control-allow-origin"), Some(ALLOWED));
    assert_eq!(answer.header("access-control-expose-headers"), Some("*"));
    let error = ask(&federation, &Method::GET, "/ojs/v1/nothing", &allowed).await;
    assert_eq!(error.header("access-control-allow-origin"), Some(ALLOWED), "errors are to be read, too");
    let host = federation.address().to_string();
    let own = format!("http://{host}");
    let own = [("origin", own.as_str()), ("host", &host), ("sec-fetch-site", "same-origin")];
    let answer = ask(&federation, &Method::POST, "/ojs/v1/jobs", &own).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (StatusCode::CREATED, None));
    let typed = [("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")];
    assert_eq!(ask(&federation, &Method::GET, "/ojs/v1/queues", &typed).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_a_region_says_of_origins_is_replaced_for_an_allowed_one() {
    let federation = Setup::default().listen(&format!("allowed_origins: [\"{ALLOWED}\"]")).start().await;
    let mut answer = FaultAnswer::balancer(StatusCode::OK);
    answer.headers = vec![
        ("access-control-allow-origin".to_owned(), "*".to_owned()),
        ("access-control-allow-credentials".to_owned(), "true".to_owned()),
    ];
    federation.regions[0].faults().add(When::path("/ojs/v1/debug/x"), Fault::Answer { answer, store: false });
    let answer = ask(&federation, &Method::GET, "/ojs/v1/debug/x", &[("origin", ALLOWED)]).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some(ALLOWED));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
}

/// Asks on a bare connection, with these lines in the head, whether a tunnel opens.
async fn handshake(wire: &mut Wire, lines: &str) -> StatusCode {
    wire.send(format!(
        "GET /ojs/v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    ))
    .await;
    wire.head().await.0
}

#[tokio::test]
async fn a_websocket_of_an_allowed_page_is_a_tunnel() {
    let federation = Setup::default().listen(&format!("allowed_origins: [\"{ALLOWED}\"]")).start().await;
    let mut wire = federation.client.wire().await;
    let lines = format!("Origin: {ALLOWED}\r\nSec-Fetch-Site: cross-site\r\n");
    assert_eq!(handshake(&mut wire, &lines).await, StatusCode::SWITCHING_PROTOCOLS);
}
