//! A client's bare connection: requests as bytes, answers one by one.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Answer;

/// Bounds every read; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's bare connection.
pub struct Wire<S = TcpStream> {
    pub socket: S,
    unread: Vec<u8>,
}

impl Wire {
    /// Whether the sidecar has said something that is still to be read.
    pub fn has_answer(&mut self) -> bool {
        let mut part = [0; 4096];
        if let Ok(read) = self.socket.try_read(&mut part) {
            self.unread.extend_from_slice(&part[..read]);
        }
        !self.unread.is_empty()
    }

    /// Whether the sidecar, asked for nothing much, says that it lets nobody in.
    pub async fn is_refused(&mut self) -> bool {
        self.send("GET /v1/federation/health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        while !self.has_answer() {
            self.socket.readable().await.unwrap();
        }
        let refused = !self.unread.starts_with(b"HTTP/1.1 200");
        if !refused {
            self.answer().await;
        }
        refused
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(socket: S) -> Self {
        Self { socket, unread: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads the next answer: its head, and its body by `Content-Length`, by chunks or up to the close.
    pub async fn answer(&mut self) -> Answer {
        self.answer_to("GET").await
    }

    /// Reads the next answer, to a request with this method: one to HEAD has no body.
    pub async fn answer_to(&mut self, method: &str) -> Answer {
        let (status, headers) = self.head().await;
        let bare = method == "HEAD" || status.is_informational() || status == StatusCode::NO_CONTENT;
        let body = if bare {
            Vec::new()
        } else if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            self.chunks().await
        } else if let Some(length) = headers.get("content-length") {
            self.take(length.to_str().unwrap().parse().unwrap()).await
        } else {
            self.rest().await.unwrap()
        };
        Answer { status, headers, body: Bytes::from(body) }
    }

    /// Reads the next answer's head.
    pub async fn head(&mut self) -> (StatusCode, HeaderMap) {
        let text = self.until(b"\r\n\r\n").await;
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut head = httparse::Response::new(&mut lines);
        assert!(head.parse(&text).unwrap().is_complete(), "{:?}", String::from_utf8_lossy(&text));
        let mut headers = HeaderMap::new();
        for line in head.headers.iter() {
            let name = HeaderName::from_bytes(line.name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(line.value).unwrap());
        }
        (StatusCode::from_u16(head.code.unwrap()).unwrap(), headers)
    }

    /// Reads the next request and its body, as far as a length tells it; answers the request line, or none at the end.
    pub async fn request(&mut self) -> Option<String> {
        while memchr::memmem::find(&self.unread, b"\r\n\r\n").is_none() {
            // Another side that rests is no failure.
            if self.socket.read_buf(&mut self.unread).await.is_ok_and(|read| read > 0) {
                continue;
            }
            return None;
        }
        let head = String::from_utf8(self.until(b"\r\n\r\n").await).unwrap();
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
        self.take(length.map_or(0, |length| length.trim().parse().unwrap())).await;
        Some(head.lines().next().unwrap_or_default().to_owned())
    }

    /// Reads the data of the next chunk; empty for the last one.
    pub async fn chunk(&mut self) -> Vec<u8> {
        let line = self.until(b"\r\n").await;
        let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim(), 16).unwrap();
        let mut data = self.take(size + 2).await;
        assert!(data.ends_with(b"\r\n"));
        data.truncate(size);
        data
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let data = self.chunk().await;
            if data.is_empty() {
                return body;
            }
            body.extend_from_slice(&data);
        }
    }

    /// Reads up to and with `end`.
    pub async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memmem::find(&self.unread[searched..], end) {
                return self.unread.drain(..searched + at + end.len()).collect();
            }
            searched = self.unread.len().saturating_sub(end.len());
            assert!(self.read().await.unwrap() > 0, "closed after {:?}", String::from_utf8_lossy(&self.unread));
        }
    }

    /// Reads exactly so many bytes.
    pub async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.read().await.unwrap() > 0, "closed {} bytes early", length - self.unread.len());
        }
        self.unread.drain(..length).collect()
    }

    /// Reads until the sidecar closes; an error when it does not do so in an orderly way.
    pub async fn rest(&mut self) -> std::io::Result<Vec<u8>> {
        let closed = async {
            while self.read().await? > 0 {}
            Ok(std::mem::take(&mut self.unread))
        };
        tokio::time::timeout(PATIENCE, closed).await.unwrap_or_else(|_| panic!("the connection is not closed"))
    }

    /// Whether the sidecar has closed, with nothing more to say.
    pub async fn is_closed(&mut self) -> bool {
        self.rest().await.is_ok_and(|rest| rest.is_empty())
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        let read = tokio::time::timeout(PATIENCE, self.socket.read_buf(&mut self.unread)).await;
        read.unwrap_or_else(|_| panic!("nothing came after {:?}", String::from_utf8_lossy(&self.unread)))
    }
}
