//! A plain HTTP client, as a legacy application has one: it knows nothing of federation.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Wire;

/// A client of one sidecar; a connection per call.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    address: SocketAddr,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// `error.details.reason` of an error document.
    pub fn reason(&self) -> String {
        self.json()["error"]["details"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Checks that the client is told to wait at least so long, and at most half as long again or a second more.
    #[track_caller]
    pub fn check_retry_after(&self, least: u64) {
        let wait = self.retry_after();
        assert!((least..=least + (least / 2).max(1)).contains(&wait), "{wait} for {least}: {self:?}");
    }

    /// `Retry-After`. Units: seconds.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        self.header("retry-after").unwrap().parse().unwrap()
    }

    /// The region that answered, as the header says.
    pub fn region(&self) -> &str {
        self.header("ojs-federation-region").unwrap()
    }

    /// Checks everything that an error answer of the sidecar has beside its status: document, media type, version, id, region.
    #[track_caller]
    pub fn check_error(&self, status: u16, code: &str, reason: &str) -> serde_json::Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/openjobspec+json"));
        assert_eq!(self.header("ojs-version"), Some("1.0"));
        assert!(self.header("ojs-federation-region").is_some(), "{self:?}");
        assert_eq!(self.header("retry-after").is_some(), matches!(status, 429 | 503), "{self:?}");
        let mut document = self.json();
        let error = document["error"].take();
        let mut members: Vec<&str> = error.as_object().unwrap().keys().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(members, ["code", "details", "message", "request_id", "retryable"]);
        assert_eq!(
            (error["code"].as_str(), error["details"]["reason"].as_str()),
            (Some(code), Some(reason)),
            "{self:?}"
        );
        assert_eq!(error["request_id"].as_str(), self.header("x-request-id"));
        assert_eq!(error["retryable"], matches!(status, 429 | 502..=504));
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
        error
    }

    /// `job.id` of an enqueue's answer.
    pub fn job_id(&self) -> String {
        self.json()["job"]["id"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The sidecar's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn enqueue(&self, body: impl Into<Bytes>) -> Answer {
        self.post("/ojs/v1/jobs", body).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(Request::post(path).header("content-type", "application/openjobspec+json"), body).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path), Bytes::new()).await
    }

    pub async fn call(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Answer {
        self.send(Request::builder().method(method).uri(path), body).await
    }

    pub async fn send(&self, request: http::request::Builder, body: impl Into<Bytes>) -> Answer {
        self.try_send(request, body).await.unwrap()
    }

    pub async fn try_send(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        let socket = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        let mut request = request.body(Full::new(body.into()))?;
        request.headers_mut().entry("host").or_insert(http::HeaderValue::from_static("localhost"));
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }

    /// Sends bytes as they are and returns everything that comes back until the sidecar closes.
    pub async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        // The sidecar may refuse, and close, before it has read everything.
        let _ = socket.write_all(bytes).await;
        let _ = socket.shutdown().await;
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
        answer
    }

    /// A bare connection.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A bare connection that answers are read from one by one.
    pub async fn wire(&self) -> Wire {
        let socket = self.connect().await;
        socket.set_nodelay(true).unwrap();
        Wire::new(socket)
    }
}
