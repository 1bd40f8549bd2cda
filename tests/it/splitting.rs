//! Answers of regions that two readers could delimit differently, judged at the client's socket: on one kept-alive connection, read by
//! an ordinary client library, no call gets a byte of another call's answer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;

use crate::support::{Federation, Scripted, Then, job, pinned};

const FORGED: &str = "forged-answer";
/// A call that streams to the local region.
const STREAMED: &str = "/ojs/v1/webhooks/subscriptions";
/// Neither the breaker nor a guard ends what a test is about.
const PATIENT: &str =
    "circuit_breaker: { failure_threshold: 100000, failure_ratio: 1000 }\nlimits: { worker_threads: 1 }";

/// A whole answer that a region puts behind, or into, the answer to another call.
fn forged() -> String {
    let body = format!(r#"{{"job":{{"id":"{FORGED}"}}}}"#);
    format!("HTTP/1.1 200 OK\r\nojs-federation-region: eu-west-1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// One connection of an ordinary client, kept for as long as either side lets it.
struct KeptAlive<'f> {
    federation: &'f Federation,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// What the library makes of an answer; none where it says that the connection broke.
type Read = Option<(StatusCode, Version, HeaderMap, String)>;

impl<'f> KeptAlive<'f> {
    fn new(federation: &'f Federation) -> Self {
        Self { federation, sender: None }
    }

    async fn call(&mut self, method: Method, path: &str, body: String) -> Read {
        let mut kept = self.sender.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => {
                let socket = self.federation.client.connect().await;
                let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
                tokio::spawn(connection);
                sender
            }
        };
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Full::from(body)).unwrap();
        let (parts, body) = sender.send_request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        self.sender = Some(sender);
        Some((parts.status, parts.version, parts.headers, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Whether the next call goes by the same connection.
    async fn is_open(&mut self) -> bool {
        self.sender.as_mut().unwrap().ready().await.is_ok()
    }

    /// Two further calls, whose answers are their own.
    async fn check_next(&mut self, what: &str) {
        let pinned = self.call(Method::POST, "/ojs/v1/jobs", pinned("eu-west-1", "next")).await;
        let (status, _, headers, body) = pinned.unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!(
            (status.as_u16(), &headers["ojs-federation-region"]),
            (201, &"eu-west-1".parse().unwrap()),
            "{what}"
        );
        assert!(body.contains("\"next\"") && !body.contains(FORGED), "{what}: {body}");
        let ours = self.call(Method::GET, "/v1/federation/health", String::new()).await;
        let (status, _, headers, body) = ours.unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!((status.as_u16(), &headers["ojs-federation-region"]), (200, &"none".parse().unwrap()), "{what}");
        assert!(body.contains("\"healthy_regions\"") && !body.contains(FORGED), "{what}: {body}");
    }
}

/// Answers with a second one in them, or behind them, for a reader that finds another end.
fn split_answers() -> Vec<String> {
    let (forged, short) = (forged(), "{\"a\":1}");
    let hidden = format!("{short}{forged}");
    let chunks = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    let (length, all) = (short.len(), hidden.len());
    let heads = [
        (format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"), &chunks),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"), &chunks),
        (format!("Content-Length: {}\r\nTransfer-Encoding: chunked", chunks.len()), &chunks),
        (format!("Content-Length: {length}, {length}"), &hidden),
        (format!("Content-Length: {length}\r\nContent-Length: {length}"), &hidden),
        (format!("Content-Length: {length}\r\nContent-Length: {all}"), &hidden),
        (format!("Content-Length: 0{all}"), &hidden),
        (format!("Content_Length: {length}\r\nContent-Length: {all}"), &hidden),
        (format!("Transfer_Encoding: chunked\r\nContent-Length: {}", chunks.len()), &chunks),
        ("Transfer-Encoding: gzip, chunked".to_owned(), &chunks),
        ("Transfer-Encoding: chunked, chunked".to_owned(), &chunks),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked".to_owned(), &chunks),
        ("Transfer-Encoding: identity".to_owned(), &hidden),
        ("Transfer-Encoding: xchunked".to_owned(), &chunks),
        // One reading, and then bytes that nobody asked for.
        (format!("Content-Length: {length}"), &hidden),
        ("Content-Length: 0".to_owned(), &forged),
    ];
    let mut answers: Vec<_> =
        heads.iter().map(|(head, body)| format!("HTTP/1.1 201 Created\r\n{head}\r\n\r\n{body}")).collect();
    answers.push(format!("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{forged}"));
    answers.push(format!("HTTP/1.1 204 No Content\r\nContent-Length: {}\r\n\r\n{forged}", forged.len()));
    answers.push(format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
    answers
}

#[tokio::test]
async fn an_answer_with_two_ends_is_none_and_the_next_calls_get_their_own() {
    let region = Scripted::start().await;
    let federation = region.before(PATIENT).start().await;
    let lookup = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    for text in split_answers() {
        let answer = text.clone();
        region.answers(move |line: &str| {
            let is_lookup = line.starts_with("GET /ojs/v1/jobs/");
            (if is_lookup { lookup.into() } else { answer.clone().into() }, Then::Waits)
        });
        let mut client = KeptAlive::new(&federation);
        let calls = [
            (Method::POST, "/ojs/v1/jobs", job("first"), 500, "outcome_unknown"),
            (Method::GET, STREAMED, String::new(), 502, "broken_answer"),
            (Method::POST, STREAMED, "{}".to_owned(), 500, "outcome_unknown"),
        ];
        for (method, path, body, expected, reason) in calls {
            let what = format!("{method} {path}: {text:?}");
            match client.call(method, path, body).await {
                Some((status, _, _, body)) => {
                    assert_eq!(status, expected, "{what}: {body}");
                    assert!(body.contains(reason) && !body.contains(FORGED), "{what}: {body}");
                }
                // Its head was passed on before its end was in doubt.
                None => assert!(path == STREAMED && text.contains("\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), "{what}"),
            }
            client.check_next(&what).await;
        }
    }
    assert_eq!(federation.shared.registry.view().regions[0].health.as_str(), "healthy");
}

#[tokio::test]
async fn what_a_region_says_unasked_is_no_answer_to_the_next_call() {
    let region = Scripted::start().await;
    let federation = region.before(PATIENT).start().await;
    let calls = AtomicU64::new(0);
    region.answers(move |_| {
        let call = calls.fetch_add(1, Relaxed) + 1;
        (format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{call}").into_bytes(), Then::Waits)
    });
    let mut client = KeptAlive::new(&federation);
    for call in 1..=4 {
        let (_, _, _, body) = client.call(Method::GET, STREAMED, String::new()).await.unwrap();
        assert_eq!(body, call.to_string());
        // The connection rests with the sidecar, and the region speaks.
        region.say(forged().as_bytes());
        client.check_next("unasked").await;
    }
}

#[tokio::test]
async fn answers_of_http_1_0_leave_as_http_1_1_and_the_connection_stays() {
    let region = Scripted::start().await;
    let federation = region.before(PATIENT).start().await;
    for (head, length) in [("", None), ("Content-Length: 5\r\n", Some("5"))] {
        region.answers(move |_| (format!("HTTP/1.0 200 OK\r\n{head}\r\nhello").into_bytes(), Then::Closes));
        let mut client = KeptAlive::new(&federation);
        for _ in 0..2 {
            let (_, version, headers, body) = client.call(Method::GET, STREAMED, String::new()).await.unwrap();
            let length_told = headers.get("content-length").map(|length| length.to_str().unwrap());
            assert_eq!((version, &body[..], length_told), (Version::HTTP_11, "hello", length), "{head}");
            assert!(!headers.contains_key("connection") && client.is_open().await, "{head}");
        }
    }
}

#[tokio::test]
async fn what_only_the_sidecar_says_is_never_a_regions_word() {
    let region = Scripted::start().await;
    let federation = region.before(PATIENT).start().await;
    let ours = "OJS-Federation-Replayed: true\r\nOJS-Federation-Partial: x\r\nOJS-Federation-Id: x\r\n\
                OJS-Federation-Region: forged\r\nOJS-Federation-Hops: 3\r\nOJS-Federation-New: x\r\n";
    let body = r#"{"job":{"id":"a","type":"t","state":"available"}}"#;
    region.answers(move |_| {
        let answer = format!("HTTP/1.1 200 OK\r\n{ours}Content-Length: {}\r\n\r\n{body}", body.len());
        (answer.into_bytes(), Then::Waits)
    });
    let mut client = KeptAlive::new(&federation);
    for (method, path) in [(Method::GET, STREAMED), (Method::POST, STREAMED), (Method::GET, "/ojs/v1/jobs/a")] {
        let (_, _, headers, _) = client.call(method.clone(), path, String::new()).await.unwrap();
        let names: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("ojs-federation-")).collect();
        assert_eq!((names.len(), &headers["ojs-federation-region"]), (1, &"us-east-1".parse().unwrap()), "{path}");
    }
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: /\t/evil.example\r\nContent-Length: 0\r\n\r\n";
    region.answers(|_| (redirect.to_vec(), Then::Waits));
    let (status, _, headers, _) = client.call(Method::GET, STREAMED, String::new()).await.unwrap();
    assert_eq!((status.as_u16(), headers.get("location")), (302, None));
}

#[tokio::test]
async fn an_answer_to_head_keeps_its_length_and_has_no_body() {
    let region = Scripted::start().await;
    let federation = region.before(PATIENT).start().await;
    region.answers(|_| (b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_vec(), Then::Waits));
    let mut client = KeptAlive::new(&federation);
    for _ in 0..2 {
        let (status, _, headers, body) = client.call(Method::HEAD, STREAMED, String::new()).await.unwrap();
        assert_eq!((status.as_u16(), &headers["content-length"], &body[..]), (200, &"1234".parse().unwrap(), ""));
        client.check_next("HEAD").await;
    }
}

/// An answer with a few bytes changed, removed, repeated or put in, and perhaps another one behind it.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    const BYTES: &[u8] = b"\r\n \t:;,0159afx+-\0\x7f\x80_\"";
    let lines = prop::sample::subsequence(
        vec![
            "Content-Length: 5\r\n",
            "Content-Length: 7\r\n",
            "content-length:  5\t\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Connection: close\r\n",
            "X-A: b\r\n",
        ],
        0..4,
    );
    let status =
        prop::sample::select(vec!["1.1 200 OK", "1.1 204 No Content", "1.1 304 Not", "1.0 200 OK", "1.1 100 C"]);
    let body =
        prop::sample::select(vec!["hello", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\nx: y\r\n\r\n", ""]);
    let edit = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(BYTES));
    let edits = prop::collection::vec(edit, 0..3);
    (status, lines, body, edits, any::<bool>()).prop_map(|(status, lines, body, edits, followed)| {
        let mut bytes = format!("HTTP/{status}\r\n{}\r\n{body}", lines.concat()).into_bytes();
        if followed {
            bytes.extend_from_slice(forged().as_bytes());
        }
        for (at, kind, byte) in edits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.insert(at, bytes[at]),
            }
        }
        bytes
    })
}

#[test]
fn no_call_gets_a_byte_of_another_calls_answer_whatever_a_region_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = "circuit_breaker: { failure_threshold: 100000, failure_ratio: 1000 }\n\
                  limits: { worker_threads: 1, call_timeout: 300ms, stream_idle_timeout: 300ms }";
    let (region, federation) = runtime.block_on(async {
        let region = Scripted::start().await;
        let federation = region.before(limits).start().await;
        (region, federation)
    });
    let config = ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&(mutated(), any::<bool>(), prop::bool::weighted(0.7)), |(bytes, streamed, closes)| {
        let what = bytes.escape_ascii().to_string();
        let answer = bytes.clone();
        let then = if closes { Then::Closes } else { Then::Waits };
        region.answers(move |_| (answer.clone(), then));
        runtime.block_on(async {
            let mut client = KeptAlive::new(&federation);
            let (method, path) =
                if streamed { (Method::GET, STREAMED) } else { (Method::POST, "/ojs/v1/workers/fetch") };
            let read = client.call(method, path, r#"{"queues":["default"]}"#.to_owned()).await;
            if let Some((_, version, _, _)) = read {
                assert_eq!(version, Version::HTTP_11, "{what}");
            }
            client.check_next(&what).await;
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async move { drop((region, federation)) });
}
