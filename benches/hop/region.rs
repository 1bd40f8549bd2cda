//! A tiny fast region as a process: mutual TLS on one port, the same in the clear on another.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// About 400 bytes, as a reference server answers an enqueue: with the job's own id, else with one that differs in each.
const BEFORE: &str = r#"{"job":{"id":""#;
const OWN_ID: &str = "0190aaaa-bbbb-7ccc-8ddd-";
const AFTER: &str = r#"","type":"email.send","state":"available","queue":"default","args":["someone@example.com","welcome",{"locale":"en"}],"priority":0,"attempt":0,"max_attempts":3,"created_at":"2026-01-01T00:00:00.000Z","enqueued_at":"2026-01-01T00:00:00.000Z","scheduled_at":null,"meta":{"tenant":"t-1","trace":"0123456789abcdef"}}}"#;

/// As long as the other peers' queues: where one of 256 connections is dropped from a shorter one, it comes again after a second, and
/// that would be a peer's p99.
const QUEUE: i32 = 4096;

/// Listens at a port of this machine, where bursts of connections wait and none is dropped.
pub(crate) async fn listener(port: &str) -> TcpListener {
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    SockRef::from(&listener).listen(QUEUE).unwrap();
    listener
}

/// Arguments: port of TLS, port in the clear, certificate, key, authority of clients, `h1` or `h2`.
pub(crate) fn run(arguments: &[String]) {
    let [tls_port, port, cert, key, ca, protocol] = arguments else {
        panic!("region TLS-PORT PORT CERT KEY CA PROTOCOL")
    };
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls(cert, key, ca, protocol == "h2")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let numbers = Rc::new(Cell::new(0));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (secure, plain) = (listener(tls_port).await, listener(port).await);
        loop {
            tokio::select! {
                accepted = secure.accept() => {
                    let (socket, _) = accepted.unwrap();
                    socket.set_nodelay(true).unwrap();
                    let (tls, numbers) = (tls.clone(), Rc::clone(&numbers));
                    tokio::task::spawn_local(async move {
                        let Ok(socket) = tls.accept(socket).await else { return };
                        let is_h2 = socket.get_ref().1.alpn_protocol() == Some(b"h2");
                        serve(socket, numbers, is_h2).await;
                    });
                }
                accepted = plain.accept() => {
                    let (socket, _) = accepted.unwrap();
                    socket.set_nodelay(true).unwrap();
                    tokio::task::spawn_local(serve(socket, Rc::clone(&numbers), false));
                }
            }
        }
    });
}

async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin + 'static, numbers: Rc<Cell<u64>>, is_h2: bool) {
    let service = service_fn(move |request| answer(request, Rc::clone(&numbers)));
    let io = TokioIo::new(socket);
    // Ends with whatever ends the connection.
    if is_h2 {
        let _ = hyper::server::conn::http2::Builder::new(Local).serve_connection(io, service).await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    }
}

async fn answer(request: Request<Incoming>, numbers: Rc<Cell<u64>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_health = request.method() == Method::GET;
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let (status, text) = if is_health {
        (200, Bytes::from_static(br#"{"status":"ok"}"#))
    } else {
        let number = numbers.get();
        numbers.set(number + 1);
        let id = serde_json::from_slice::<Job<'_>>(&body).ok().and_then(|job| job.id.map(str::to_owned));
        let id = id.unwrap_or_else(|| format!("{OWN_ID}{number:012x}"));
        (201, Bytes::from(format!("{BEFORE}{id}{AFTER}")))
    };
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/openjobspec+json"));
    Ok(response)
}

/// The part of a job that its answer repeats. A sidecar takes a 2xx for a success only if it shows the job.
#[derive(serde::Deserialize)]
struct Job<'b> {
    #[serde(borrow)]
    id: Option<&'b str>,
}

/// hyper's tasks of an HTTP/2 connection, on this thread.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

fn tls(cert: &str, key: &str, ca: &str, h2: bool) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_file(cert).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = if h2 { vec![b"h2".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    config
}
