//! A bare pass-through: hyper on both sides, a stack of connections between, one thread, and nothing else.

use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;

use super::region::listener;

struct Upstream {
    port: u16,
    tls: tokio_rustls::TlsConnector,
    idle: RefCell<Vec<SendRequest<Incoming>>>,
}

/// Arguments: port to listen on, the region's port of TLS, certificate, key, authority of the region.
pub(crate) fn run(arguments: &[String]) {
    let [port, to, cert, key, ca] = arguments else { panic!("bare PORT TO CERT KEY CA") };
    let upstream = Rc::new(Upstream {
        port: to.parse().unwrap(),
        tls: tokio_rustls::TlsConnector::from(Arc::new(tls(cert, key, ca))),
        idle: RefCell::default(),
    });
    serve(port, move |request| pass(Rc::clone(&upstream), request));
}

/// Accepts and serves on one thread, for ever.
pub(crate) fn serve<F, B>(port: &str, pass: impl Fn(Request<Incoming>) -> F + Clone + 'static)
where
    F: Future<Output = Result<Response<B>, Infallible>> + 'static,
    B: Body<Data = Bytes, Error: Error + Send + Sync> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = listener(port).await;
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let service = service_fn(pass.clone());
            tokio::task::spawn_local(async move {
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
}

async fn pass(upstream: Rc<Upstream>, request: Request<Incoming>) -> Result<Response<Incoming>, Infallible> {
    let idle = upstream.idle.borrow_mut().pop().filter(|it| !it.is_closed());
    let mut sender = match idle {
        Some(sender) => sender,
        None => connect(&upstream).await,
    };
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    // hyper holds the next request back until this answer was read.
    upstream.idle.borrow_mut().push(sender);
    Ok(response)
}

async fn connect(upstream: &Upstream) -> SendRequest<Incoming> {
    let socket = TcpStream::connect(("127.0.0.1", upstream.port)).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let socket = upstream.tls.connect(ServerName::try_from("localhost").unwrap(), socket).await.unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
    tokio::task::spawn_local(connection);
    sender
}

fn tls(cert: &str, key: &str, ca: &str) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_file(cert).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap()
}
