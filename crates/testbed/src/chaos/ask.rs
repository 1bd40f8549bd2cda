//! A client for the sidecar's own endpoints: one request on a connection of its own.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A sidecar on the same machine that takes longer counts as one that does not answer.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The longest answer: a page of outcomes, or the metrics.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The media type of OJS documents. Spec: ojs-protocol 2.1.
pub(super) const MEDIA_TYPE: &str = "application/openjobspec+json";

/// Asks the sidecar at `host:port`; returns the head and the whole body of its answer.
///
/// Errors: the socket's, the connection's, or a timeout.
pub(super) async fn ask(
    address: &str,
    method: Method,
    path: &str,
    body: Bytes,
) -> io::Result<(http::response::Parts, Bytes)> {
    let asked = async {
        let stream = TokioIo::new(TcpStream::connect(address).await?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
        tokio::task::spawn_local(async move { drop(connection.await) });
        let request = Request::builder().method(method).uri(path).header(HOST, address);
        let request = request.header("content-type", MEDIA_TYPE).body(Full::new(body)).map_err(io::Error::other)?;
        let (parts, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
        let whole = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
        Ok((parts, whole.to_bytes()))
    };
    tokio::time::timeout(TIMEOUT, asked).await.map_err(io::Error::other)?
}
