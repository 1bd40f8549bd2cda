//! Whatever a region answers to one call, the next calls on the client's connection get their own answers.

#![no_main]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use ojs_sidecar::app::{World, build};
use ojs_sidecar::base::Clock;
use ojs_sidecar::config::{Sources, load};
use ojs_sidecar::net::LocalAddress;
use ojs_sidecar::net::resolve::SystemResolver;
use tokio::net::TcpStream;

const HEALTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}";

/// A sidecar, running, and what its one region answers.
struct Program {
    client: SocketAddr,
    answer: Arc<Mutex<Vec<u8>>>,
}

/// Answers calls without a body: its health at once, every other with the bytes of this run, behind which it closes.
fn region(listener: &TcpListener, answer: &Arc<Mutex<Vec<u8>>>) {
    for socket in listener.incoming().flatten() {
        let (mut socket, answer) = (socket, Arc::clone(answer));
        std::thread::spawn(move || {
            let (mut head, mut part) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = socket.read(&mut part) {
                head.extend_from_slice(&part[..read]);
                if !head.ends_with(b"\r\n\r\n") {
                    continue;
                }
                if !head.starts_with(b"GET /ojs/v1/health ") {
                    let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let _ = socket.write_all(&answer);
                    return;
                }
                let _ = socket.write_all(HEALTH);
                head.clear();
            }
        });
    }
}

impl Program {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the region");
        let files = tempfile::tempdir().expect("a folder");
        let path = files.path().join("config.yaml");
        let yaml = format!(
            "insecure_dev: true\nlisten: {{ clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }}\nlog: {{ level: error }}\n\
             limits: {{ worker_threads: 1, stream_idle_timeout: 1s }}\n\
             circuit_breaker: {{ failure_threshold: 1000000, failure_ratio: 1000 }}\n\
             local_region: a\nregions:\n- id: a\n  url: http://{}\n",
            listener.local_addr().expect("an address")
        );
        std::fs::write(&path, yaml).expect("a file");
        let answer = Arc::<Mutex<Vec<u8>>>::default();
        let of_region = Arc::clone(&answer);
        std::thread::spawn(move || region(&listener, &of_region));
        let loaded = load(&Sources { files: vec![path], ..Sources::default() });
        let config = loaded.unwrap_or_else(|problems| panic!("{problems}")).config;
        let world = World { clock: Clock::system(), resolver: Arc::new(SystemResolver), source: None };
        let bound = build(config, world).expect("it binds");
        let LocalAddress::Tcp(client) = bound.clients[0] else { panic!("a TCP listener") };
        std::thread::spawn(move || drop(bound.run(std::future::pending())));
        Self { client, answer }
    }

    /// Calls the region, and then the sidecar itself, twice each, by one connection for as long as it is kept.
    async fn calls(&self) {
        let mut kept: Option<http1::SendRequest<Empty<Bytes>>> = None;
        for path in ["/ojs/v1/webhooks/x", "/v1/federation/health", "/ojs/v1/webhooks/x", "/v1/federation/health"] {
            if let Some(sender) = &mut kept
                && sender.ready().await.is_err()
            {
                kept = None;
            }
            let mut sender = match kept.take() {
                Some(sender) => sender,
                None => {
                    let socket = TcpStream::connect(self.client).await.expect("the sidecar listens");
                    let (sender, connection) = http1::handshake(TokioIo::new(socket)).await.expect("a connection");
                    tokio::spawn(connection);
                    sender
                }
            };
            let request = Request::get(path).header("host", "localhost").body(Empty::new()).expect("a request");
            let answered = async {
                let (head, body) = sender.send_request(request).await.ok()?.into_parts();
                Some((head, body.collect().await.ok()?.to_bytes()))
            };
            let answered = answered.await;
            kept = answered.is_some().then_some(sender);
            if path.starts_with("/v1/") {
                let (head, body) = answered.expect("an answer of the sidecar");
                assert_eq!(head.headers["ojs-federation-region"], "none");
                assert!(serde_json::from_slice::<serde_json::Value>(&body).expect("JSON")["total_regions"] == 1);
            } else if let Some((head, _)) = answered {
                assert_eq!(head.headers.get_all("ojs-federation-region").iter().collect::<Vec<_>>(), ["a"]);
            }
        }
    }
}

fuzz_target!(|answer: &[u8]| {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let program = PROGRAM.get_or_init(Program::start);
    *program.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer.to_vec();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(program.calls());
});
