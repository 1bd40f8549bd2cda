use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

mod early;

const LIMITS: HeadLimits = HeadLimits { bytes: 512, headers: 8 };

const JOB: &str = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: 5\r\n\r\nhello";

/// Feeds slices of these lengths, the last one repeated; answers what is settled, the place, and the violation.
fn feed_cut(bytes: &[u8], cuts: &[usize]) -> (usize, Place, Option<Violation>) {
    let mut framing = Framing::new(LIMITS);
    let (mut settled, mut at) = (0, 0);
    let mut cuts = cuts.iter().copied().chain(std::iter::repeat(cuts.last().copied().unwrap_or(usize::MAX)));
    while at < bytes.len() {
        let end = at.saturating_add(cuts.next().unwrap().max(1)).min(bytes.len());
        match framing.feed(&bytes[at..end]) {
            Ok(0) => {}
            Ok(more) => settled = at + more,
            Err(Breach { settled: more, violation }) => {
                let settled = if more > 0 { at + more } else { settled };
                return (settled, framing.place(), Some(violation));
            }
        }
        at = end;
    }
    (settled, framing.place(), None)
}

fn check(text: &str, expected: Option<Violation>) {
    for cut in [usize::MAX, 1, 2, 7] {
        let (_, place, violation) = feed_cut(text.as_bytes(), &[cut]);
        assert_eq!(violation, expected, "{text:?} cut by {cut}");
        if expected.is_none() {
            assert_eq!(place, Place::Between, "{text:?} cut by {cut}");
        }
    }
}

#[test]
fn whole_messages_are_settled() {
    for text in [
        JOB,
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost:a\r\nx:\r\ny: \t b\tc \r\n\r\n",
        "POST /a?b={c}|[d] HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n0000000000000005\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\ny:\r\n\r\n",
        "GET http://localhost:8080/a?b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET HTTP://[::1] HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        check(text, None);
    }
}

#[test]
fn heads_that_could_be_read_two_ways_are_refused() {
    use Violation as V;
    for (request_line, violation) in [
        ("GET / HTTP/1.1\n", V::LineEnd),
        ("\r\n\r\nGET / HTTP/1.1\r\n", V::LineEnd),
        ("\nGET / HTTP/1.1\r\n", V::LineEnd),
        ("\rGET / HTTP/1.1\r\n", V::LineEnd),
        ("\x16\x03\x01", V::RequestLine),
        (" GET / HTTP/1.1\r\n", V::RequestLine),
        ("GET  / HTTP/1.1\r\n", V::RequestLine),
        ("GET / HTTP/1.1 \r\n", V::RequestLine),
        ("GET / http/1.1\r\n", V::RequestLine),
        ("GET /\r\n", V::RequestLine),
        ("GET\t/ HTTP/1.1\r\n", V::RequestLine),
        ("G(T / HTTP/1.1\r\n", V::RequestLine),
        ("GET / HTTP/1.1\r\r\n", V::RequestLine),
        ("GET / HTTP/1.12\r\n", V::RequestLine),
        ("GET / HTTP/1.2\r\n", V::Version),
        ("GET / HTTP/2\r\n", V::Version),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", V::Version),
        ("CONNECT a:443 HTTP/1.1\r\n", V::Connect),
        ("GET https://a/ HTTP/1.1\r\n", V::AbsoluteTarget),
        ("GET http:///a HTTP/1.1\r\n", V::AbsoluteTarget),
        ("GET http://u@a/ HTTP/1.1\r\n", V::AbsoluteTarget),
        ("GET http://a,b/ HTTP/1.1\r\n", V::AbsoluteTarget),
        ("GET x://a/ HTTP/1.1\r\n", V::AbsoluteTarget),
        ("GET * HTTP/1.1\r\n", V::Target),
        ("GET a HTTP/1.1\r\n", V::Target),
        ("GET /a#b HTTP/1.1\r\n", V::Target),
        ("GET /a\\b HTTP/1.1\r\n", V::Target),
        ("GET /é HTTP/1.1\r\n", V::Target),
        ("GET /\0 HTTP/1.1\r\n", V::Target),
    ] {
        check(request_line, Some(violation));
    }
    check(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(600)), Some(V::TargetTooLong));
    check(&format!("GET /{}", "a".repeat(600)), Some(V::TargetTooLong));
}

#[test]
fn headers_that_could_be_read_two_ways_are_refused() {
    use Violation as V;
    for (headers, violation) in [
        ("Host: a\n", V::LineEnd),
        ("Host: a\r\n b\r\n", V::Folded),
        ("\tx: b\r\n", V::Folded),
        ("Host : a\r\n", V::SpaceBeforeColon),
        ("Host\t: a\r\n", V::SpaceBeforeColon),
        (": a\r\n", V::HeaderName),
        ("Host\r\n", V::HeaderName),
        ("Ho st: a\r\n", V::SpaceBeforeColon),
        ("X\0: a\r\n", V::HeaderName),
        ("Content_Length: 5\r\n", V::HeaderName),
        ("transfer_encoding: chunked\r\n", V::HeaderName),
        ("x: a\0b\r\n", V::HeaderValue),
        ("x: a\rb\r\n", V::HeaderValue),
        ("x: a\x7f\r\n", V::HeaderValue),
        ("Host: a\r\nHost: a\r\n", V::HostTwice),
        ("Host:\r\n", V::HostInvalid),
        ("Host: a, b\r\n", V::HostInvalid),
        ("Host: a/b\r\n", V::HostInvalid),
        ("Host: u@a\r\n", V::HostInvalid),
        ("x: a\r\n\r\n", V::HostMissing),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", V::LengthTwice),
        ("Content-Length: 5\r\ncontent-length: 6\r\n", V::LengthTwice),
        ("Content-Length: 5, 5\r\n", V::LengthInvalid),
        ("Content-Length: +5\r\n", V::LengthInvalid),
        ("Content-Length: -5\r\n", V::LengthInvalid),
        ("Content-Length: 05\r\n", V::LengthInvalid),
        ("Content-Length: 0x5\r\n", V::LengthInvalid),
        ("Content-Length: 5 5\r\n", V::LengthInvalid),
        ("Content-Length:\r\n", V::LengthInvalid),
        ("Content-Length: 1000000000000000000\r\n", V::LengthInvalid),
        ("Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", V::LengthAndCoding),
        ("Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", V::LengthAndCoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", V::Coding),
        ("Transfer-Encoding: gzip, chunked\r\n", V::Coding),
        ("Transfer-Encoding: chunked, identity\r\n", V::Coding),
        ("Transfer-Encoding: xchunked\r\n", V::Coding),
        ("Transfer-Encoding:\r\n", V::Coding),
        ("a:\r\nb:\r\nc:\r\nd:\r\ne:\r\nf:\r\ng:\r\nh:\r\ni:\r\n", V::TooManyHeaders),
    ] {
        check(&format!("POST / HTTP/1.1\r\n{headers}"), Some(violation));
    }
    check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Some(V::CodingInHttp10));
    check(&format!("GET / HTTP/1.1\r\nx: {}\r\n", "a".repeat(600)), Some(V::HeadTooLong));
}

#[test]
fn chunks_that_could_be_read_two_ways_are_refused() {
    use Violation as V;
    for (body, violation) in [
        ("0x5\r\nhello\r\n", V::ChunkSize),
        ("+5\r\nhello\r\n", V::ChunkSize),
        ("-5\r\nhello\r\n", V::ChunkSize),
        (" 5\r\nhello\r\n", V::ChunkSize),
        ("5 \r\nhello\r\n", V::ChunkSize),
        ("\r\nhello\r\n", V::ChunkSize),
        ("5\nhello\r\n", V::ChunkSize),
        ("5\rhello\r\n", V::ChunkSize),
        ("00000000000000005\r\nhello\r\n", V::ChunkSize),
        ("5;ext=1\r\nhello\r\n", V::ChunkExtension),
        ("5\r\nhello!\r\n", V::ChunkEnd),
        ("5\r\nhello\n", V::ChunkEnd),
        ("5\r\nhello\r0", V::ChunkEnd),
        ("0\r\nContent-Length: 5\r\n\r\n", V::Trailer),
        ("0\r\ntransfer-encoding: chunked\r\n\r\n", V::Trailer),
        ("0\r\nHost: b\r\n\r\n", V::Trailer),
        ("0\r\nContent_Length: 5\r\n\r\n", V::HeaderName),
        ("0\r\nGET / HTTP/1.1\r\n\r\n", V::SpaceBeforeColon),
        ("0\r\nx : y\r\n\r\n", V::SpaceBeforeColon),
        ("0\r\nx: y\r\n z\r\n\r\n", V::Folded),
        ("0\r\nx: y\n\r\n", V::LineEnd),
        ("0\r\n\n", V::LineEnd),
        ("0\r\n\rx", V::LineEnd),
    ] {
        check(&format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"), Some(violation));
    }
    let long = format!("0\r\nx: {}\r\n\r\n", "y".repeat(TRAILER_BYTES_MAX));
    check(&format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{long}"), Some(V::Trailer));
}

#[test]
fn what_precedes_a_refused_head_is_settled_and_what_follows_is_not() {
    let text = format!("{JOB}GET / HTTP/1.1\nHost: a\r\n\r\n");
    assert_eq!(feed_cut(text.as_bytes(), &[usize::MAX]), (JOB.len(), Place::Head, Some(Violation::LineEnd)));
    let half = &text[..JOB.len() + 9];
    assert_eq!(feed_cut(half.as_bytes(), &[3]), (JOB.len(), Place::Head, None));
}

#[test]
fn a_line_is_judged_alike_in_one_pass_and_byte_by_byte() {
    let check = |line: &[u8]| {
        let begun = [b"GET / HTTP/1.1\r\n", line, b"\r\n"].concat();
        let whole = [&begun[..], b"Host: a\r\n\r\n", JOB.as_bytes()].concat();
        for bytes in [begun, whole] {
            assert_eq!(feed_cut(&bytes, &[usize::MAX]), feed_cut(&bytes, &[1]), "{}", bytes.escape_ascii());
        }
    };
    for line in
        ["X-Some-Header-9: some value, \u{e9}", "Content-Length: 0", "Transfer-Encoding: chunked", "Content_Length: 0"]
    {
        for at in 0..line.len() {
            for byte in 0..=u8::MAX {
                let mut line = line.as_bytes().to_vec();
                line[at] = byte;
                check(&line);
            }
        }
    }
    for length in 0..LIMITS.bytes + 8 {
        check(&[b"x: ", &vec![b'a'; length][..]].concat());
        check(&[&vec![b'a'; length][..], b": x"].concat());
    }
    for count in 0..LIMITS.headers + 2 {
        check("x-header: value\r\n".repeat(count).as_bytes());
    }
}

#[test]
fn nothing_is_judged_behind_an_upgrade() {
    let mut framing = Framing::new(LIMITS);
    framing.tunnel();
    assert_eq!(framing.feed(b"\x81\x00\n\n"), Ok(4));
    assert_eq!(framing.place(), Place::Tunnel);
}

#[test]
fn what_is_refused_behind_a_body_makes_no_message_of_its_end() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n";
    for refused in ["{", "\n"] {
        let mut framing = Framing::new(LIMITS);
        let first = format!("{head}{}", "x".repeat(100 - head.len()));
        assert_eq!(framing.feed(first.as_bytes()), Ok(first.len()));
        assert_eq!(framing.alone(first.len()), None);
        // As long as the head and the body, which it is not.
        let second = format!("{}{}", "x".repeat(head.len()), refused.repeat(100));
        assert!(framing.feed(second.as_bytes()).is_err());
        assert_eq!(framing.alone(second.len()), None);
    }
}

/// How many whole requests hyper reads from `bytes`; `None` when it refuses any of them.
async fn hyper_reads(bytes: &[u8]) -> Option<usize> {
    let (mut client, server) = tokio::io::duplex(1 << 16);
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

/// The same by this machine.
fn framing_reads(bytes: &[u8]) -> Option<usize> {
    let mut framing = Framing::new(LIMITS);
    let (mut whole, mut before) = (0, Place::Between);
    for byte in bytes {
        framing.feed(std::slice::from_ref(byte)).ok()?;
        let place = framing.place();
        whole += usize::from(before != Place::Between && place == Place::Between);
        before = place;
    }
    (before == Place::Between).then_some(whole)
}

fn request() -> impl Strategy<Value = String> {
    let head = prop_oneof![
        Just("GET /ojs/v1/health"),
        Just("GET http://localhost:8080/a"),
        Just("POST /ojs/v1/jobs"),
        Just("OPTIONS *"),
        Just("ACK /a?b=c")
    ];
    let body = prop_oneof![
        Just("\r\n".to_owned()),
        "[a-z]{1,12}".prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len())),
        prop::collection::vec("[a-z]{1,20}", 0..3).prop_map(|chunks| {
            let chunks: String = chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
            format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
        }),
        "(X-A: [ -~]{0,8}\r\n){0,2}"
            .prop_map(|trailers| format!("Transfer-Encoding: chunked\r\n\r\n0\r\n{trailers}\r\n")),
    ];
    (head, body, "(|X-A: [ -~]{0,8}\r\n)")
        .prop_map(|(head, body, extra)| format!("{head} HTTP/1.1\r\nHost: localhost\r\n{extra}{body}"))
}

/// Changes, removes, puts in or repeats a byte, once for each.
pub(in crate::net) fn change(bytes: &mut Vec<u8>, edits: Vec<(prop::sample::Index, u8, u8)>) {
    for (at, kind, byte) in edits {
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            _ => bytes.insert(at, bytes[at]),
        }
    }
}

/// A few requests with a few bytes changed, removed, repeated or put in.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    const BYTES: &[u8] = b"\r\n \t:;,0159afx+-\0\x7f\x80_\"#/\\{}|^`<>%?@*";
    let edit = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(BYTES));
    (prop::collection::vec(request(), 1..4), prop::collection::vec(edit, 0..3)).prop_map(|(requests, edits)| {
        let mut bytes = requests.concat().into_bytes();
        change(&mut bytes, edits);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_judgement_does_not_depend_on_how_the_bytes_are_cut(
        bytes in mutated(),
        cuts in prop::collection::vec(1..40_usize, 1..12),
    ) {
        prop_assert_eq!(feed_cut(&bytes, &[usize::MAX]), feed_cut(&bytes, &cuts));
    }

    #[test]
    fn hyper_reads_what_is_accepted_and_ends_every_message_at_the_same_byte(bytes in mutated()) {
        if let Some(whole) = framing_reads(&bytes) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(hyper_reads(&bytes));
            // An HTTP/1.0 request without keep-alive is the last one that hyper reads.
            let last = memchr::memmem::find(&bytes, b"HTTP/1.0").is_some();
            let agreed = read.is_some_and(|read| read == whole || (last && read < whole));
            prop_assert!(agreed, "{:?} for {}: {}", read, whole, bytes.escape_ascii());
        }
    }

    #[test]
    fn a_slice_is_alone_that_is_one_message_with_a_body_and_nothing_else(
        bytes in mutated(),
        again in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(1..100_usize, 0..4),
    ) {
        let repeated = &bytes[again.index(bytes.len())..];
        let mut framing = Framing::new(LIMITS);
        let mut rest: &[u8] = &[&bytes[..], repeated].concat();
        let mut cuts = cuts.into_iter();
        while !rest.is_empty() {
            let (slice, behind) = rest.split_at(cuts.next().unwrap_or(usize::MAX).min(rest.len()));
            rest = behind;
            let fed = framing.feed(slice);
            if let Some(alone) = framing.alone(slice.len()) {
                let mut fresh = Framing::new(LIMITS);
                prop_assert_eq!(fresh.feed(slice), Ok(slice.len()));
                prop_assert_eq!((fed, fresh.heads), (Ok(slice.len()), 1));
                let of_its_own = fresh.alone(slice.len()).map(|own| (own.head, own.length_ends));
                prop_assert_eq!(of_its_own, Some((alone.head, alone.length_ends)));
            }
            if fed.is_err() {
                break;
            }
        }
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        feed_cut(&bytes, &[usize::MAX]);
    }
}
