//! A client's connection to the sidecar: one call after the other.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::ledger::{Mark, request_of};
use super::shape::Shape;

/// The most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
}

/// An answer: its status, its headers and its whole body.
pub(super) type Answer = (StatusCode, HeaderMap, Bytes);

impl Connection {
    /// None when no process listens there.
    pub(super) async fn open(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).await.ok()?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        // How it ends is seen by the calls on it.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Some(Self { sender, address })
    }

    /// Whether it can carry a call to the process at this address.
    pub(super) fn is_usable(&self, address: SocketAddr) -> bool {
        !self.sender.is_closed() && self.address == address
    }

    /// Sends a call as its client's SDK would; none when no whole answer comes.
    pub(super) async fn ask(&mut self, first: Mark, number: usize, shape: &Shape) -> Option<Answer> {
        let request = Request::post(shape.path)
            .header("host", "localhost")
            .header("content-type", super::ask::MEDIA_TYPE)
            .header("x-request-id", request_of(first, number));
        let request = match &shape.key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let request = match shape.caller {
            Some(caller) => request
                .header("authorization", format!("Bearer caller-{caller}"))
                .header("x-ojs-tenant-id", format!("tenant-{caller}")),
            None => request,
        };
        let request = request.body(Full::new(Bytes::from(shape.body.clone()))).ok()?;
        let (parts, body) = self.sender.send_request(request).await.ok()?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
        Some((parts.status, parts.headers, body))
    }
}
