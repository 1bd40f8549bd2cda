//! WebSocket upgrades, from a client's socket to a region's.

use http::StatusCode;

use crate::support::{Federation, Setup, Wire};

fn upgrade(target: &str, headers: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
}

async fn switched(federation: &Federation) -> Wire {
    let mut wire = federation.client.wire().await;
    wire.send(upgrade("/ojs/v1/debug/tunnel?a=%2F", "Connection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\n")).await;
    let (status, headers) = wire.head().await;
    assert_eq!(status, StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(
        (&headers["upgrade"], &headers["connection"]),
        (&"websocket".parse().unwrap(), &"Upgrade".parse().unwrap())
    );
    assert_eq!(headers["ojs-federation-region"], "us-east-1");
    wire
}

#[tokio::test]
async fn a_websocket_carries_any_bytes_both_ways() {
    // A region that prefers HTTP/2 is asked in HTTP/1.1, which alone has upgrades.
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let mut wire = switched(&federation).await;
        // Nothing of this is HTTP, and some of it would be refused as such.
        for message in ["\u{1}\0\n\n\r", "GET / HTTP/1.1\n\n", &"x".repeat(300_000)] {
            wire.send(message).await;
            assert_eq!(wire.take(message.len()).await, message.as_bytes());
        }
        let request = &federation.regions[0].record().requests_to("/ojs/v1/debug/tunnel")[0];
        assert_eq!(request.path, "/ojs/v1/debug/tunnel?a=%2F");
        assert_eq!(request.headers["sec-websocket-key"], "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!((request.headers.get("x-hop"), &request.headers["x-kept"]), (None, &"2".parse().unwrap()));
    }
}

#[tokio::test]
async fn a_websocket_client_gets_the_proof_of_its_key_and_its_messages_back() {
    let large =
        |mask: &[u8]| [&[0x82, if mask.is_empty() { 127 } else { 255 }][..], &70_000_u64.to_be_bytes(), mask].concat();
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let mut wire = federation.client.wire().await;
        wire.send(upgrade("/ojs/v1/ws", "Sec-WebSocket-Protocol: chat, ojs.v1\r\n")).await;
        let (status, headers) = wire.head().await;
        assert_eq!(status, StatusCode::SWITCHING_PROTOCOLS);
        // The key and its proof are those of RFC 6455 1.3, the frames those of 5.7.
        assert_eq!(headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(headers["sec-websocket-protocol"], "ojs.v1");
        let hello = [0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        for (sent, back) in [
            ([&[0x81, 0x85][..], &hello].concat(), b"\x81\x05Hello".to_vec()),
            ([&[0x89, 0x85][..], &hello].concat(), b"\x8a\x05Hello".to_vec()),
            ([large(&[0; 4]), vec![7; 70_000]].concat(), [large(&[]), vec![7; 70_000]].concat()),
            (vec![0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8], vec![0x88, 2, 0x03, 0xe8]),
        ] {
            wire.send(&sent).await;
            assert_eq!(wire.take(back.len()).await, back);
        }
        assert!(wire.is_closed().await, "after the close of both sides");
    }
}

#[tokio::test]
async fn bytes_that_come_before_the_switch_end_the_connection() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    // RFC 6455 has clients wait for the 101; until then such bytes are no request and nothing else.
    wire.send(upgrade("/ojs/v1/ws", "") + "\u{1}eager\n\n").await;
    assert_eq!(wire.head().await.0, StatusCode::SWITCHING_PROTOCOLS);
    assert!(wire.is_closed().await);
    assert!(!federation.regions[0].record().contains(b"eager"));
}

#[tokio::test]
async fn the_end_of_either_side_of_a_websocket_ends_the_other() {
    let federation = Federation::start().await;
    let region = &federation.regions[0];
    let wire = switched(&federation).await;
    let connection = region.record().requests_to("/ojs/v1/debug/tunnel")[0].connection;
    drop(wire);
    region.record().wait_for(|it| it.connections().iter().any(|it| it.number == connection && !it.open)).await;
    let mut wire = switched(&federation).await;
    region.cut_connections().await;
    assert!(wire.rest().await.unwrap_or_default().is_empty());
}

#[tokio::test]
async fn a_websocket_that_the_region_refuses_is_answered_with_its_words() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    wire.send(upgrade("/ojs/v1/nothing", "")).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::NOT_FOUND, &b"404 page not found\n"[..]));
    wire.send("GET /ojs/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(wire.answer().await.status, 200, "and the connection is kept");
}

#[tokio::test]
async fn only_plain_requests_for_what_regions_serve_become_tunnels() {
    let federation = Federation::start().await;
    for (request, status) in [
        (upgrade("/nothing", ""), 404),
        (upgrade("/ojs/v1/ws", "Content-Length: 5\r\n") + "hello", 400),
        (upgrade("/ojs/v1/ws", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n", 400),
        (upgrade("/ojs/v1/ws", "").replace("localhost", "evil.example"), 421),
    ] {
        let mut wire = federation.client.wire().await;
        wire.send(&request).await;
        assert_eq!(wire.answer().await.status, status, "{request:?}");
    }
    assert!(!federation.regions[0].record().contains(b"websocket"));
    // The paths at the root are the region's own, and none of them is a tunnel.
    let mut wire = federation.client.wire().await;
    wire.send(&upgrade("/metrics", "")).await;
    assert_ne!(wire.answer().await.status, 101);
    assert!(!federation.regions[0].record().contains(b"upgrade:"));
    // A job in the clothes of an upgrade is routed as a job.
    let job = r#"{"type":"t","args":[],"meta":{"ojs.federation.region":"eu-west-1"}}"#;
    let length = format!("Content-Length: {}\r\n", job.len());
    let mut wire = federation.client.wire().await;
    wire.send(upgrade("/ojs/v1/jobs", &length).replace("GET", "POST") + job).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-region")), (201, Some("eu-west-1")));
}

#[tokio::test]
async fn a_websocket_to_a_region_that_is_down_is_answered_503() {
    let federation = Federation::start().await;
    federation.regions[0].stop().await;
    let mut wire = federation.client.wire().await;
    wire.send(upgrade("/ojs/v1/ws", "")).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status.as_u16(), answer.reason()), (503, "owner_unavailable".to_owned()));
}

#[tokio::test]
async fn calls_that_sdks_make_outside_of_ojs_reach_the_local_region() {
    let federation = Federation::start().await;
    for path in ["/v1/agents/a-1/state", "/v1/agent/jobs/j-1/pause", "/v1/events/stream"] {
        let answer = federation.client.get(path).await;
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::NOT_FOUND, &b"404 page not found\n"[..]), "{path}");
        assert_eq!(federation.regions[0].record().requests_to(path).len(), 1, "{path}");
    }
}
