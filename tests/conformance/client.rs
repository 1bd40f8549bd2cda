//! A plain HTTP client that knows nothing of federation: one connection a call.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;

/// A client of one server.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    address: SocketAddr,
    /// The tenant of the jobs that name none.
    tenant: Option<&'static str>,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// The body as JSON, where it is JSON.
    pub body: Option<Value>,
    pub took: Duration,
}

impl Client {
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, tenant: None }
    }

    pub const fn of_tenant(self, tenant: &'static str) -> Self {
        Self { tenant: Some(tenant), ..self }
    }

    pub async fn call(&self, method: &str, path: &str, headers: &Map<String, Value>, body: Vec<u8>) -> Answer {
        let begun = Instant::now();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(name, value.as_str().unwrap());
        }
        // A worker that names a tenant gets that one's jobs only, and a job may name its own in its meta.
        let is_enqueue = method == "POST" && path.starts_with("/ojs/v1/jobs");
        if let Some(tenant) = self.tenant.filter(|_| is_enqueue && !names_tenant(&body)) {
            request = request.header("x-ojs-tenant", tenant);
        }
        let response = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            body: serde_json::from_slice(&bytes).ok(),
            took: begun.elapsed(),
        }
    }
}

fn names_tenant(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("\"tenant_id\"")
}

impl Answer {
    /// The answer as templates see it.
    pub fn document(&self) -> Value {
        let headers: Map<String, Value> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into()))
            .collect();
        json!({ "response": { "status": self.status, "headers": headers, "body": self.body } })
    }
}
