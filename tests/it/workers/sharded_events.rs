//! The events of a queue with shards: one stream, and one channel, of one queue.

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use crate::support::{Federation, Setup, Wire};

const SHARDED: &str = "scheduling: { tenant_queues: [{ queue: email, shards: 4 }] }";
const STREAM: &str = "/ojs/v1/queues/email/events";
const CHANNEL: &str = "/ojs/v1/events/stream?channel=queue:email";

async fn opened(federation: &Federation, target: &str) -> Wire {
    let mut wire = federation.client.wire().await;
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: evt_7\r\n\r\n")).await;
    wire
}

/// Enqueues a job of each tenant; an empty one is none.
async fn enqueue(federation: &Federation, tenants: &[&str]) {
    for tenant in tenants {
        let meta = if tenant.is_empty() { json!({}) } else { json!({ "tenant_id": tenant }) };
        let job = json!({ "type": "a", "args": ["x.ojs-t01"], "meta": meta, "options": { "queue": "email" } });
        assert_eq!(federation.client.enqueue(job.to_string()).await.status, 201);
    }
}

/// The text of a stream up to the n-th event of a kind.
async fn until(wire: &mut Wire, kind: &str, count: usize) -> String {
    let mut text = String::new();
    while text.matches(kind).count() < count {
        let chunk = wire.chunk().await;
        assert!(!chunk.is_empty(), "ended after {text:?}");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}

fn names() -> Vec<String> {
    let shards = (0..4).map(|shard| format!("/ojs/v1/queues/email.ojs-t{shard:02}/events"));
    std::iter::once(STREAM.to_owned()).chain(shards).collect()
}

#[tokio::test]
async fn the_events_of_all_shards_are_one_stream_of_one_queue() {
    for target in [STREAM, CHANNEL] {
        let federation = Setup::default().yaml(SHARDED).start().await;
        let mut wire = opened(&federation, target).await;
        let (status, headers) = wire.head().await;
        assert_eq!((status, &headers["content-type"]), (StatusCode::OK, &"text/event-stream".parse().unwrap()));
        let heard = federation.regions[0].record().requests_to("/ojs/v1/queues/");
        let paths: Vec<&str> = heard.iter().map(|request| &*request.path).collect();
        assert_eq!(paths, names(), "each name is listened to before the client is answered");
        assert!(heard.iter().all(|request| request.headers["last-event-id"] == "evt_7"));
        let tenants = ["acme", "globex", "initech", "umbrella", ""];
        enqueue(&federation, &tenants).await;
        let text = until(&mut wire, "event: job.state_changed", tenants.len()).await;
        assert_eq!(text.matches("retry: 3000").count(), 1, "{text}");
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert_eq!(events.len(), tenants.len());
        assert!(events.iter().all(|event| event["queue"] == "email"), "{text}");
        // The client hears that something is missing.
        federation.regions[0].cut_connections().await;
        let rest = wire.rest().await.unwrap_or_default();
        assert!(!rest.ends_with(b"0\r\n\r\n"), "cut, not ended: {rest:?}");
    }
}

#[tokio::test]
async fn a_stream_that_a_region_refuses_for_one_shard_is_refused_whole() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    let answer = FaultAnswer { status: StatusCode::SERVICE_UNAVAILABLE, headers: Vec::new(), body: "not now".into() };
    let fault = Fault::Answer { answer, store: false };
    federation.regions[0].faults().add(When::path("/ojs/v1/queues/email.ojs-t02/events"), fault);
    let mut wire = opened(&federation, STREAM).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, &*answer.body), (StatusCode::SERVICE_UNAVAILABLE, &b"not now"[..]));
}

#[tokio::test]
async fn other_calls_do_not_wait_for_the_streams_of_a_region_with_http2() {
    let setup = Setup::default().http2().demo(|options| options.streams_max = 60);
    let federation = setup.yaml("scheduling: { tenant_queues: [{ queue: email, shards: 64 }] }").start().await;
    let mut wire = opened(&federation, STREAM).await;
    assert_eq!(wire.head().await.0, StatusCode::OK);
    enqueue(&federation, &["acme", "globex"]).await;
    until(&mut wire, "event: job.state_changed", 2).await;
}

#[tokio::test]
async fn a_websocket_breaks_off_with_its_region_and_closes_at_a_long_message() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    let mut wire = socket(&federation).await;
    federation.regions[0].cut_connections().await;
    assert!(wire.rest().await.unwrap_or_default().is_empty(), "no word of a close");
    let mut wire = socket(&federation).await;
    wire.send(frame(&"x".repeat(65_535))).await;
    assert_eq!(said_long(&mut wire).await, 65_535);
    let length = 65_537_u64.to_be_bytes();
    wire.send([&[0x81, 0xff][..], &length, &[0; 4]].concat()).await;
    assert_eq!(wire.take(4).await, [0x88, 2, 0x03, 0xf1], "1009: too long");
}

async fn socket(federation: &Federation) -> Wire {
    let mut wire = federation.client.wire().await;
    wire.send(
        "GET /ojs/v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ojs.v1\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
    )
    .await;
    let (status, headers) = wire.head().await;
    assert_eq!((status, headers.get("sec-websocket-extensions")), (StatusCode::SWITCHING_PROTOCOLS, None));
    wire
}

/// The length of a message of less than 64 KiB.
async fn said_long(wire: &mut Wire) -> usize {
    let head = wire.take(4).await;
    assert_eq!(head[..2], [0x81, 126]);
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    wire.take(length).await.len()
}

/// A frame of a client, whose mask changes nothing. Spec: RFC 6455 5.2.
fn frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    [&[0x81, 0xfe][..], &length, &[0; 4], text.as_bytes()].concat()
}

/// The next text that the region says.
async fn said(wire: &mut Wire) -> String {
    let head = wire.take(2).await;
    assert_eq!(head[0], 0x81, "a whole message of text: {head:?}");
    let length = match head[1] {
        126 => {
            let length = wire.take(2).await;
            u16::from_be_bytes([length[0], length[1]]).into()
        }
        length => usize::from(length),
    };
    String::from_utf8(wire.take(length).await).unwrap()
}

#[tokio::test]
async fn a_websocket_subscribes_to_all_shards_and_hears_of_one_queue() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    let mut wire = socket(&federation).await;
    let heard = federation.regions[0].record().requests_to("/ojs/v1/ws").pop().unwrap();
    assert!(!heard.headers.contains_key("sec-websocket-extensions"), "compressed messages could not be read");
    // The region sends each message back as it got it. Channels of shards are left out where they only acknowledge.
    let ends = r#"{"action":"subscribe","type":"subscribed","channel":"queue:email"}"#;
    let text = r#"{"action":"subscribe","channel":"queue:email"}"#;
    for text in [ends, text] {
        wire.send(frame(text)).await;
    }
    for text in [ends, text, text, text, text, text] {
        assert_eq!(said(&mut wire).await, text, "four acknowledgements of shards came before that of the queue");
    }
    // A message of two frames, and a ping, which each side answers.
    wire.send([&[0x01, 0x82, 0, 0, 0, 0][..], b"ab", &[0x80, 0x82, 0, 0, 0, 0], b"cd"].concat()).await;
    assert_eq!(said(&mut wire).await, "abcd");
    wire.send([0x89, 0x82, 0, 0, 0, 0, b'h', b'i']).await;
    assert_eq!(wire.take(8).await, b"\x8a\x02hi\x8a\x02hi");
    let acknowledged = |channel: &str| format!(r#"{{"type":"subscribed","channel":"{channel}"}}"#);
    let event =
        r#"{"type":"event","channel":"queue:email.ojs-t01","data":{"queue":"email.ojs-t01","args":["email.ojs-t01"]}}"#;
    for text in [&acknowledged("queue:email.ojs-t03"), event, &acknowledged("queue:email"), "plain"] {
        wire.send(frame(text)).await;
    }
    assert_eq!(
        said(&mut wire).await,
        r#"{"type":"event","channel":"queue:email","data":{"queue":"email","args":["email.ojs-t01"]}}"#
    );
    assert_eq!(said(&mut wire).await, acknowledged("queue:email"));
    assert_eq!(said(&mut wire).await, "plain");
    wire.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).await;
    assert_eq!(wire.take(4).await, [0x88, 2, 0x03, 0xe8]);
    assert!(wire.is_closed().await);
}
