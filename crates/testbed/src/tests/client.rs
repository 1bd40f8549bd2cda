//! A client for these tests: one connection, HTTP/1.1 or h2, over TLS or not.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Authority, DemoRegion, Identity, RegionOptions, RegionTls};

pub(super) struct Client(Sender);

enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

/// An answer that goes on.
pub(super) struct Stream(hyper::body::Incoming);

impl Stream {
    /// Reads until something has come, and returns all that came.
    pub(super) async fn until(&mut self, needle: &str) -> String {
        let mut text = String::new();
        while !text.contains(needle) {
            let frame = self.0.frame().await.unwrap().unwrap();
            text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
        text
    }
}

#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answered {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(super) async fn plain(region: &DemoRegion) -> Self {
        let stream = TcpStream::connect(region.address()).await.unwrap();
        Self(h1(stream).await.unwrap())
    }

    /// Connects over TLS, h2 where `alpn` says so.
    pub(super) async fn tls(region: &DemoRegion, config: Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect(region.address()).await?;
        let stream = TlsConnector::from(config).connect("localhost".try_into().unwrap(), stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            return Ok(Self(Sender::H2(sender)));
        }
        Ok(Self(h1(stream).await.unwrap()))
    }

    pub(super) async fn send(&mut self, method: Method, path: &str, body: &str) -> Result<Answered, hyper::Error> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        self.call(request.body(Full::from(body.to_owned())).unwrap()).await
    }

    pub(super) async fn call(&mut self, mut request: Request<Full<Bytes>>) -> Result<Answered, hyper::Error> {
        let response = match &mut self.0 {
            Sender::H1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::H2(sender) => {
                let uri = format!("https://localhost{}", request.uri());
                *request.uri_mut() = uri.parse().unwrap();
                request.headers_mut().remove("host");
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answered { status: head.status, headers: head.headers, body })
    }

    /// Asks for a stream; returns once its head is there.
    pub(super) async fn open(&mut self, path: &str) -> Stream {
        let Sender::H1(sender) = &mut self.0 else { panic!("a stream is read over HTTP/1.1") };
        let request = Request::get(path).header("host", "localhost").body(Full::default()).unwrap();
        Stream(sender.send_request(request).await.unwrap().into_body())
    }

    pub(super) async fn post(&mut self, path: &str, body: &str) -> Answered {
        self.send(Method::POST, path, body).await.unwrap()
    }

    pub(super) async fn get(&mut self, path: &str) -> Answered {
        self.send(Method::GET, path, "").await.unwrap()
    }
}

async fn h1<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) -> Result<Sender, hyper::Error> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection.with_upgrades());
    Ok(Sender::H1(sender))
}

/// A region with required client certificates, and the authority of both sides.
pub(super) async fn secured() -> (DemoRegion, Authority) {
    let authority = Authority::new("test authority");
    let tls =
        RegionTls { server: authority.server(&["localhost", "127.0.0.1"]), client_ca_pem: Some(authority.ca_pem()) };
    let region = DemoRegion::start(RegionOptions::new("eu-west-1").tls(tls)).await.unwrap();
    (region, authority)
}

pub(super) async fn plain() -> DemoRegion {
    DemoRegion::start(RegionOptions::new("eu-west-1")).await.unwrap()
}

/// A client's configuration: trusts `authority`, shows `identity`, offers `alpn`.
pub(super) fn config(authority: &Authority, identity: Option<&Identity>, alpn: &[&str]) -> Arc<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

pub(super) async fn over(protocol: &str) -> (DemoRegion, Client) {
    let (region, authority) = secured().await;
    let client = authority.client("sidecar");
    let client = Box::pin(Client::tls(&region, config(&authority, Some(&client), &[protocol]))).await.unwrap();
    (region, client)
}
