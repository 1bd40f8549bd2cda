use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, LocalSet};

use super::*;
use crate::base::RegionId;
use crate::telemetry::Metrics;

fn state(readiness: &Readiness, require_region: bool, usable: bool) -> AdminState {
    let id = RegionId::parse("us-east-1").unwrap();
    let regions = Arc::new(move || {
        let status = if usable { "healthy" } else { "unhealthy" };
        vec![RegionState {
            id: RegionId::parse("us-east-1").unwrap(),
            status,
            circuit_breaker: "half-open",
            is_usable: usable,
            last_error: (!usable).then(|| ("tls", "localhost:1: why".to_owned())),
        }]
    });
    AdminState {
        metrics: Metrics::new(&[id], &["enqueue"]),
        readiness: readiness.clone(),
        require_region,
        regions,
        listen: Arc::new(|| crate::policy::testing::config(&["us-east-1"]).listen),
        notes: Arc::new(|| vec!["configuration: kept".to_owned()]),
        state: Arc::new(|| serde_json::json!({"regions": []})),
        configs: Arc::new(|| {
            let config = crate::policy::testing::config(&["us-east-1"]);
            (config.clone(), config)
        }),
        log_level: LogLevel { log: None, is_local: true, clock: crate::base::Clock::system() },
        settling: settling(),
        switching: switching(),
        spooling: Spooling { spool: None, metrics: Metrics::new(&[], &[]), is_local: true },
    }
}

fn settling() -> Settling {
    let metrics = Metrics::new(&[], &[]);
    let config = crate::policy::testing::config(&["us-east-1"]);
    let journal = crate::journal::Journal::open(&config.journal, crate::base::Clock::system(), Arc::clone(&metrics));
    Settling { journal: Arc::new(journal), metrics, is_local: true }
}

fn switching() -> Switching {
    let config = Arc::new(|| crate::policy::testing::config(&["us-east-1"]));
    Switching { journal: settling().journal, config, apply: Arc::new(|| {}), is_local: true }
}

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

fn start(state: AdminState) -> Running {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Listener::register(listener).unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::task::spawn_local(serve(listener, state, async {
        if stopped.await.is_err() {
            // The test never asks it to stop.
            std::future::pending::<()>().await;
        }
    }));
    Running { address, stop, server }
}

/// Sends `head` on a fresh connection and reads until the server ends it.
async fn exchange(address: SocketAddr, head: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), text)
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
}

fn body(text: &str) -> serde_json::Value {
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn metrics_and_liveness_are_answered_while_nothing_is_ready() {
    LocalSet::new()
        .run_until(async {
            let readiness = Readiness::new();
            let _guard = readiness.block("listeners");
            let running = start(state(&readiness, true, false));
            let (status, text) = get(running.address, "/livez").await;
            assert!(status == 200 && text.ends_with("\r\n\r\nok\n"), "{text}");
            let (status, text) = get(running.address, "/metrics").await;
            assert_eq!(status, 200);
            assert!(
                text.contains("text/plain; version=0.0.4") && text.contains("ojs_federation_build_info{"),
                "{text}"
            );
            assert_eq!(get(running.address, "/readyz").await.0, 503);
        })
        .await;
}

#[tokio::test]
async fn readiness_names_what_it_waits_for_and_turns_off_for_a_drain() {
    LocalSet::new()
        .run_until(async {
            let readiness = Readiness::new();
            let (first, second) = (readiness.block("listeners"), readiness.block("first round of probes"));
            let address = start(state(&readiness, false, false)).address;
            let check = async |status: u16, ready: bool, waiting_for: &[&str], draining: bool| {
                let (shown, text) = get(address, "/readyz").await;
                let body = body(&text);
                assert_eq!(
                    (shown, &body["ready"], &body["draining"]),
                    (status, &ready.into(), &draining.into()),
                    "{body}"
                );
                assert_eq!(body["waiting_for"], serde_json::json!(waiting_for));
                let region =
                    serde_json::json!({"id": "us-east-1", "status": "unhealthy", "circuit_breaker": "half-open",
                        "last_error": {"reason": "tls", "message": "localhost:1: why"}});
                assert_eq!(body["regions"], serde_json::json!([region]));
            };
            check(503, false, &["listeners", "first round of probes"], false).await;
            drop(first);
            check(503, false, &["first round of probes"], false).await;
            drop(second);
            check(200, true, &[], false).await;
            readiness.set_draining();
            check(503, false, &[], true).await;
        })
        .await;
}

#[tokio::test]
async fn a_region_is_needed_only_where_the_operator_says_so() {
    LocalSet::new()
        .run_until(async {
            for (require_region, usable, status) in [(false, false, 200), (true, false, 503), (true, true, 200)] {
                let running = start(state(&Readiness::new(), require_region, usable));
                let (shown, text) = get(running.address, "/readyz").await;
                assert_eq!(shown, status, "require_region {require_region}, usable {usable}");
                assert_eq!(text.contains("a usable region"), status == 503, "{text}");
            }
        })
        .await;
}

#[tokio::test]
async fn wrong_paths_and_methods_and_oversized_heads_are_refused() {
    LocalSet::new()
        .run_until(async {
            let address = start(state(&Readiness::new(), false, true)).address;
            let (status, text) = get(address, "/").await;
            assert_eq!((status, &body(&text)["error"]["code"]), (404, &"not_found".into()));
            let post = "POST /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            let (status, text) = exchange(address, post).await;
            assert_eq!((status, &body(&text)["error"]["code"]), (405, &"invalid_request".into()));
            assert!(text.contains("allow: GET, HEAD\r\n"), "{text}");
            let (status, text) =
                exchange(address, "HEAD /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
            assert!(status == 200 && text.ends_with("\r\n\r\n"), "{text}");
            let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
            assert_eq!(exchange(address, &many).await.0, 431);
            let long = format!("GET /livez HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(64 * 1024));
            // Its rest is never read, so the refusal may be lost to the reset that ends the connection.
            assert!(matches!(exchange(address, &long).await.0, 431 | 0));
        })
        .await;
}

#[tokio::test]
async fn connections_beyond_the_bound_take_the_place_of_the_idlest() {
    LocalSet::new()
        .run_until(async {
            let address = start(state(&Readiness::new(), false, true)).address;
            let request = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
            let ask = async |stream: &mut TcpStream| {
                stream.write_all(request).await.unwrap();
                let mut start = [0_u8; 12];
                stream.read_exact(&mut start).await.unwrap();
                assert_eq!(&start, b"HTTP/1.1 200");
            };
            let mut kept = TcpStream::connect(address).await.unwrap();
            ask(&mut kept).await;
            let mut silent = Vec::new();
            for turn in 0..200 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"G").await.unwrap();
                silent.push(stream);
                if turn % 20 == 19 {
                    assert_eq!(get(address, "/livez").await.0, 200, "beside {turn} that never ask");
                    let mut rest = vec![0_u8; 4096];
                    while kept.try_read(&mut rest).is_ok() {}
                    ask(&mut kept).await;
                }
            }
            let mut end = Vec::new();
            // Reset, or closed: either way it is over.
            let _ = silent[0].read_to_end(&mut end).await;
            assert!(end.is_empty(), "it never asked");
        })
        .await;
}

#[tokio::test]
async fn requests_of_web_pages_and_public_names_are_refused() {
    LocalSet::new()
        .run_until(async {
            let address = start(state(&Readiness::new(), false, true)).address;
            let ask = async |method: &str, lines: &str| {
                exchange(address, &format!("{method} /metrics HTTP/1.1\r\n{lines}connection: close\r\n\r\n")).await
            };
            let cross = "origin: https://evil.example\r\n";
            for (method, lines, status) in [
                ("GET", format!("host: {address}\r\n"), 200),
                ("GET", format!("host: {address}\r\n{cross}"), 403),
                ("POST", format!("host: {address}\r\n{cross}content-length: 0\r\n"), 403),
                ("GET", format!("host: {address}\r\nsec-fetch-site: cross-site\r\n"), 403),
                ("GET", format!("host: {address}\r\nsec-fetch-site: none\r\n"), 200),
                ("OPTIONS", format!("host: {address}\r\n{cross}access-control-request-method: GET\r\n"), 403),
                ("OPTIONS", format!("host: {address}\r\naccess-control-request-method: GET\r\n"), 403),
                ("GET", "host: evil.example\r\n".to_owned(), 421),
            ] {
                let (shown, text) = ask(method, &lines).await;
                assert_eq!(shown, status, "{method} {lines}");
                assert!(!text.contains("access-control-allow-origin"), "{text}");
                assert_eq!(text.contains("ojs_federation_build_info"), status == 200, "{lines}");
            }
        })
        .await;
}

#[tokio::test]
async fn the_end_closes_idle_connections_and_the_listener() {
    LocalSet::new()
        .run_until(async {
            let running = start(state(&Readiness::new(), false, true));
            let mut idle = TcpStream::connect(running.address).await.unwrap();
            idle.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut start = [0_u8; 12];
            idle.read_exact(&mut start).await.unwrap();
            running.stop.send(()).unwrap();
            running.server.await.unwrap();
            let mut rest = Vec::new();
            idle.read_to_end(&mut rest).await.unwrap();
            assert!(TcpStream::connect(running.address).await.is_err());
        })
        .await;
}

#[test]
fn two_guards_with_the_same_words_are_two_items() {
    let readiness = Readiness::new();
    let (one, two) = (readiness.block("identities"), readiness.block("identities"));
    drop(one);
    assert_eq!(readiness.waiting_for(), ["identities"]);
    drop(two);
    assert!(readiness.waiting_for().is_empty());
}

#[tokio::test]
async fn readiness_opens_when_the_last_item_is_closed() {
    let readiness = Readiness::new();
    readiness.opened().await;
    let (one, two) = (readiness.block("identities"), readiness.block("first round of probes"));
    let (waiter, waiting) = (readiness.clone(), std::rc::Rc::new(std::cell::Cell::new(true)));
    let told = std::rc::Rc::clone(&waiting);
    let opening = async move {
        waiter.opened().await;
        told.set(false);
    };
    let closing = async {
        drop(one);
        tokio::task::yield_now().await;
        assert!(waiting.get(), "one item is still open");
        drop(two);
    };
    tokio::join!(opening, closing);
    assert!(!waiting.get());
}

#[tokio::test]
async fn switches_are_set_only_where_the_listener_is_on_loopback_and_listed_everywhere() {
    LocalSet::new()
        .run_until(async {
            let mut state = state(&Readiness::new(), false, true);
            state.switching.is_local = false;
            let address = start(state).address;
            let set = "switch=drain&region=us-east-1&for=1h&reason=x&ticket=t&author=a";
            for method in ["PUT", "DELETE"] {
                let head = format!("{method} /switches?{set} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
                let (status, text) = exchange(address, &head).await;
                assert_eq!((status, &body(&text)["error"]["code"]), (403, &"not_local".into()), "{text}");
            }
            let (status, text) = get(address, "/switches").await;
            assert_eq!((status, body(&text)["switches"].as_array().map(Vec::len)), (200, Some(0)), "{text}");
        })
        .await;
}
