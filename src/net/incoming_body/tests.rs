use std::io;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::*;
use crate::net::body::Outgoing;
use crate::net::framing::tests::change;

/// A connection to a region, of which the answer's body is taken out where it came whole.
struct Region {
    stream: DuplexStream,
    awaited: Arc<Awaited>,
    takes_out: bool,
}

impl AsyncRead for Region {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let poll = Pin::new(&mut this.stream).poll_read(cx, buf);
        if this.takes_out {
            this.awaited.came(buf, before);
        }
        poll
    }
}

impl AsyncWrite for Region {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Read {
    status: u16,
    headers: HeaderMap,
    /// None where it breaks off.
    body: Option<Bytes>,
}

/// What is read of an answer that comes in these slices, each on its own, and then the region's end; and whether it was taken out.
async fn read(method: &Method, slices: &[&[u8]], takes_out: bool) -> (Option<Read>, bool) {
    let (stream, mut region) = tokio::io::duplex(1 << 16);
    let awaited = Arc::<Awaited>::default();
    awaited.begin(method);
    let stream = Region { stream, awaited: Arc::clone(&awaited), takes_out };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let request = http::Request::builder().method(method).uri("/").header("host", "a").body(Outgoing::EMPTY);
    let ask = async {
        let answer = sender.send_request(request.unwrap()).await.ok()?;
        let (mut parts, incoming) = answer.into_parts();
        let mut body = IncomingBody::of(&mut parts.headers, incoming, awaited.take());
        let taken = matches!(body, IncomingBody::Whole(_));
        let body = (&mut body).collect().await.ok().map(http_body_util::Collected::to_bytes);
        Some((Read { status: parts.status.as_u16(), headers: parts.headers, body }, taken))
    };
    let answer = async {
        for slice in slices {
            // The request is on its way, and what came before is read.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            let _ = region.write_all(slice).await;
        }
        drop(region);
    };
    let drive = async { drop(connection.await) };
    let (read, (), ()) = tokio::join!(ask, answer, drive);
    read.map_or((None, false), |(read, taken)| (Some(read), taken))
}

fn read_both(method: &Method, slices: &[&[u8]]) -> (Option<Read>, Option<Read>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let work = async { (read(method, slices, false).await, read(method, slices, true).await) };
    let ((mut as_ever, _), (taken, is_taken)) = tokio::task::LocalSet::new().block_on(&runtime, work);
    if let Some(read) = as_ever.as_mut().filter(|_| is_taken) {
        read.headers.remove(CONTENT_LENGTH);
    }
    (as_ever, taken, is_taken)
}

const STORED: &[u8] =
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length:  11 \r\nX-A: 7\r\n\r\n{\"job\":\"1\"}";

#[test]
fn an_answer_that_came_whole_is_taken_out_and_reads_as_ever() {
    let (as_ever, taken, is_taken) = read_both(&Method::POST, &[STORED]);
    assert!(is_taken);
    assert_eq!(taken, as_ever);
    let taken = taken.unwrap();
    assert_eq!((taken.headers.len(), taken.body.unwrap().len()), (2, 11), "its length is the body's");
}

#[test]
fn what_is_not_one_whole_answer_is_left_to_the_library() {
    let head = |status: &str, more: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n{more}\r\nhello");
    for slices in [
        // A slice that looks like an answer, in the body of another.
        &[&b"HTTP/1.1 200 OK\r\nContent-Length: 85\r\n\r\n"[..], STORED][..],
        &[b"HTTP/1.1 100 Continue\r\n\r\n", STORED],
        &[&STORED[..STORED.len() - 1], &STORED[STORED.len() - 1..]],
        &[&[STORED, b"x"].concat()],
        &[&[STORED, STORED].concat()],
        &[head("204 No Content", "").as_bytes()],
        &[head("304 Not Modified", "").as_bytes()],
        &[head("101 Switching Protocols", "").as_bytes()],
        &[head("200 OK", "Content-Length: 5\r\n").as_bytes()],
        &[head("200 OK", "Transfer-Encoding: chunked\r\n").as_bytes()],
        &[head("200 OK", "X-A: b\r\n c\r\n").as_bytes()],
        &[head("200 OK", "X-A : b\r\n").as_bytes()],
        &[b"HTTP/1.1 200 OK\r\nContent-Length: 05\r\n\r\nhello"],
        &[b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello"],
        &[b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"],
        &[b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
        &[b"HTTP/1.1 200 OK\r\n\r\nhello"],
    ] {
        let (as_ever, taken, is_taken) = read_both(&Method::POST, slices);
        let text: Vec<_> = slices.iter().map(|slice| slice.escape_ascii().to_string()).collect();
        assert!(!is_taken, "{text:?}");
        assert_eq!(taken, as_ever, "{text:?}");
    }
    let (as_ever, taken, is_taken) = read_both(&Method::HEAD, &[STORED]);
    assert!(!is_taken && taken == as_ever, "the length is that of what GET would get");
}

#[test]
fn a_long_body_stays_where_it_was_read() {
    for (length, is_taken) in [(COPIED_BYTES_MAX, true), (COPIED_BYTES_MAX + 1, false)] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length));
        let mut room = vec![0; answer.len()];
        let mut buf = ReadBuf::new(&mut room);
        buf.put_slice(answer.as_bytes());
        let awaited = Awaited::default();
        awaited.begin(&Method::GET);
        awaited.came(&mut buf, 0);
        assert_eq!(awaited.take().map(|body| body.len()), is_taken.then_some(length));
        assert_eq!(buf.filled() == answer.as_bytes(), !is_taken);
    }
}

#[test]
fn a_body_waits_for_the_request_of_its_number() {
    let mut room = *b"Content-Length: 5\r\n\r\nhello";
    let mut buf = ReadBuf::new(&mut room);
    buf.set_filled(26);
    let beside = Beside::default();
    beside.put(&mut buf, 0, Alone { head: 21, length_ends: 19, number: 2 }, true);
    assert_eq!((beside.take(1), buf.filled()), (None, &b"Content-Length: 0\r\n\r\n"[..]));
    assert_eq!(beside.take(2).as_deref(), Some(&b"hello"[..]));
    assert_eq!(beside.take(2), None);
}

/// An answer with a few bytes changed, removed, repeated or put in.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    const BYTES: &[u8] = b"\r\n \t:;,0159afx+-\0\x7f\x80_\"";
    let lines = prop::sample::subsequence(
        vec![
            "Content-Length: 5\r\n",
            "content-length:  5\t\r\n",
            "Transfer-Encoding: chunked\r\n",
            "X-A: b\r\n",
            "Connection: close\r\n",
        ],
        0..4,
    );
    let edit = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(BYTES));
    let status =
        prop::sample::select(vec!["200 OK", "201 Created", "204 No Content", "503 Service Unavailable", "304 "]);
    (status, lines, prop::collection::vec(edit, 0..3)).prop_map(|(status, lines, edits)| {
        let mut bytes = format!("HTTP/1.1 {status}\r\n{}\r\nhello", lines.concat()).into_bytes();
        change(&mut bytes, edits);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_reads_as_ever(bytes in mutated()) {
        let (as_ever, taken, _) = read_both(&Method::POST, &[&bytes]);
        prop_assert_eq!(taken, as_ever, "{}", bytes.escape_ascii());
    }
}
