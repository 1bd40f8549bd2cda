//! What our framing accepts, httparse and hyper accept, and end at the same byte, however the network cuts it.

#![no_main]

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use ojs_sidecar::net::Violation;
use ojs_sidecar::net::framing::{Framing, HeadLimits, Place};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMITS: HeadLimits = HeadLimits { bytes: 16 * 1024, headers: 100 };

/// Fed in slices of `cut` bytes: where the whole requests end, where the stream stands, and what was refused.
fn frame(bytes: &[u8], cut: usize) -> (Vec<usize>, Place, Option<Violation>) {
    let mut framing = Framing::new(LIMITS);
    let (mut ends, mut before) = (Vec::new(), Place::Between);
    for (at, slice) in bytes.chunks(cut).enumerate() {
        match framing.feed(slice) {
            Ok(settled) => assert!(settled <= slice.len()),
            Err(breach) => {
                assert!(breach.settled <= slice.len());
                return (ends, before, Some(breach.violation));
            }
        }
        let place = framing.place();
        if before != Place::Between && place == Place::Between {
            ends.push((at + 1) * cut);
        }
        before = place;
    }
    (ends, before, None)
}

/// How many whole requests hyper reads; `None` when it refuses one.
async fn hyper_reads(bytes: &[u8]) -> Option<usize> {
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let whole = Rc::new(Cell::new(Some(0)));
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let whole = Rc::clone(&whole);
        async move {
            let body = request.into_body().collect().await.ok();
            whole.set(whole.get().and_then(|whole| body.map(|_| whole + 1)));
            Ok::<_, Infallible>(http::Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).half_close(true);
    let serve = http.serve_connection(TokioIo::new(server), service);
    let speak = async {
        let _ = client.write_all(bytes).await;
        let _ = client.shutdown().await;
        let _ = client.read_to_end(&mut Vec::new()).await;
    };
    let (served, ()) = tokio::join!(serve, speak);
    served.ok()?;
    whole.get()
}

/// Where the first head ends.
fn first_head(bytes: &[u8]) -> Option<usize> {
    let mut framing = Framing::new(LIMITS);
    let mut before = Place::Between;
    bytes.iter().zip(1..).find_map(|(byte, end)| {
        framing.feed(std::slice::from_ref(byte)).ok()?;
        let was = std::mem::replace(&mut before, framing.place());
        (was == Place::Head && before != Place::Head).then_some(end)
    })
}

/// Whether any request asks hyper to stop after it, or to treat what follows as something else.
fn ends_early(bytes: &[u8]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let holds = |word: &[u8]| lower.windows(word.len()).any(|window| window == word);
    holds(b"http/1.0") || holds(b"connection") || holds(b"upgrade") || holds(b"expect")
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    let (ends, place, violation) = frame(bytes, 1);
    let (_, cut_place, cut_violation) = frame(bytes, usize::from(cut).max(1));
    assert_eq!(violation, cut_violation, "the verdict depends on how the bytes are cut");
    if violation.is_none() {
        assert_eq!(place, cut_place);
    }

    // httparse ends the first head at the same byte.
    if let (None, Some(end)) = (violation, first_head(bytes)) {
        let mut headers = [httparse::EMPTY_HEADER; LIMITS.headers];
        let parsed = httparse::Request::new(&mut headers).parse(bytes);
        assert_eq!(parsed, Ok(httparse::Status::Complete(end)), "httparse ends the head elsewhere");
    }

    if violation.is_none() && place == Place::Between && !ends.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let read = runtime.block_on(hyper_reads(bytes));
        let agreed = read.is_some_and(|read| read == ends.len() || (ends_early(bytes) && read < ends.len()));
        assert!(agreed, "hyper reads {read:?} requests, we read {}", ends.len());
    }
});
