//! Requests that two readers could delimit differently, sent raw: answered, closed, and never seen by a region.

use crate::support::{Client, Federation};

const CANARY: &str = "canary-in-the-body";
const SMUGGLED: &str = "canary-behind-the-end";
const JOB: &str = r#"{"type":"t","args":["canary-in-the-body"]}"#;

/// A job of its own, which a reader that finds another end than we do would execute.
fn smuggled() -> String {
    let body = format!(r#"{{"type":"t","args":["{SMUGGLED}"]}}"#);
    format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// Sends bytes and a smuggled job behind them; checks that there is one answer, of this status, and that it is the last.
async fn check(client: &Client, bytes: &[u8], status: u16) {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    let mut wire = client.wire().await;
    // The sidecar may refuse, and close, before everything was sent.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.socket, &[bytes, smuggled().as_bytes()].concat()).await;
    let answer = wire.answer().await;
    assert_eq!(answer.status, status, "{shown:?}: {answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{shown:?}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/openjobspec+json"), "{shown:?}");
    let error = &answer.json()["error"];
    assert_eq!(error["retryable"], false, "{shown:?}: {answer:?}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{shown:?}: {answer:?}");
    assert_eq!(error["request_id"].as_str(), answer.header("x-request-id"), "{shown:?}");
    assert!(wire.is_closed().await, "{shown:?} was followed by more");
}

/// Checks that nothing of what was refused arrived anywhere, and that something else would have been seen.
async fn check_regions(federation: &Federation) {
    for needle in [CANARY, SMUGGLED] {
        assert_eq!(federation.seen(needle), [0; 0], "{needle}");
    }
    let answer = federation.client.enqueue(JOB).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(federation.seen(CANARY), [0]);
    assert_eq!(federation.regions.iter().map(|region| region.jobs().len()).sum::<usize>(), 1);
}

/// Calls of every routing class: an enqueue, a batch, one that streams to the local region, one of ours.
const TARGETS: [&str; 4] = ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/workers/ack", "/v1/federation/route"];

#[tokio::test]
async fn heads_that_delimit_a_body_in_two_ways_reach_no_region() {
    let federation = Federation::start().await;
    let length = JOB.len();
    let (plain, chunks) = (JOB.to_owned(), chunked(JOB));
    let one = format!("Content-Length: {length}");
    let heads = [
        (format!("{one}\r\nTransfer-Encoding: chunked"), &chunks),
        (format!("Transfer-Encoding: chunked\r\n{one}"), &chunks),
        (format!("Content-Length: {}\r\nTransfer-Encoding: chunked", chunks.len()), &chunks),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {}", chunks.len()), &chunks),
        (format!("transfer-encoding: CHUNKED\r\n{one}"), &chunks),
        (format!("{one}\r\n{one}"), &plain),
        (format!("{one}\r\nContent-Length: 0"), &plain),
        (format!("Content-Length: 0\r\n{one}"), &plain),
        (format!("Content-Length: {length}, {length}"), &plain),
        (format!("Content-Length: {length},"), &plain),
        (format!("Content-Length: +{length}"), &plain),
        (format!("Content-Length: -{length}"), &plain),
        (format!("Content-Length: 0{length}"), &plain),
        (format!("Content-Length: 0x{length:x}"), &plain),
        (format!("Content-Length: {length}.0"), &plain),
        (format!("Content-Length: \"{length}\""), &plain),
        (format!("Content-Length: {length} {length}"), &plain),
        ("Content-Length:".to_owned(), &plain),
        ("Content-Length: 99999999999999999999".to_owned(), &plain),
        (format!("Content_Length: {length}"), &plain),
        (format!("Content-Length : {length}"), &plain),
        (format!("Content-Length\t: {length}"), &plain),
        (format!(" {one}"), &plain),
        (format!("X: y\r\n {one}"), &plain),
        (format!("X: y\r\n\t{one}"), &plain),
        (format!("Transfer-Encoding:\r\n chunked\r\n{one}"), &chunks),
        (format!("X: y\n{one}"), &plain),
        (format!("X: y\r{one}"), &plain),
        (format!("X: y\0\r\n{one}"), &plain),
        (format!("X\0: y\r\n{one}"), &plain),
        (format!("X: y\u{b}\r\n{one}"), &plain),
        (format!("{one}\n\n{plain}"), &plain),
        (format!("X\r\n{one}"), &plain),
        (format!(": y\r\n{one}"), &plain),
        (format!("X y: z\r\n{one}"), &plain),
        ("Transfer-Encoding: chunked, identity".to_owned(), &chunks),
        ("Transfer-Encoding: identity, chunked".to_owned(), &chunks),
        ("Transfer-Encoding: gzip, chunked".to_owned(), &chunks),
        ("Transfer-Encoding: chunked, chunked".to_owned(), &chunks),
        ("Transfer-Encoding: xchunked".to_owned(), &chunks),
        ("Transfer-Encoding: \"chunked\"".to_owned(), &chunks),
        ("Transfer-Encoding: chunked;q=1".to_owned(), &chunks),
        ("Transfer-Encoding: \u{b}chunked".to_owned(), &chunks),
        ("Transfer-Encoding:".to_owned(), &chunks),
        ("Transfer-Encoding: identity".to_owned(), &plain),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked".to_owned(), &chunks),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity".to_owned(), &chunks),
        ("Transfer-Encoding : chunked".to_owned(), &chunks),
        ("Transfer_Encoding: chunked".to_owned(), &chunks),
        (" Transfer-Encoding: chunked".to_owned(), &chunks),
    ];
    for target in TARGETS {
        for (headers, body) in &heads {
            let bytes = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n{body}");
            check(&federation.client, bytes.as_bytes(), 400).await;
        }
        let bytes = format!("POST {target} HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        check(&federation.client, bytes.as_bytes(), 400).await;
    }
    check_regions(&federation).await;
}

#[tokio::test]
async fn chunks_of_odd_sizes_reach_no_region() {
    let federation = Federation::start().await;
    let size = format!("{:x}", JOB.len());
    let bodies = [
        format!("0x{size}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("+{size}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("-{size}\r\n{JOB}\r\n0\r\n\r\n"),
        format!(" {size}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size} \r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size}\t\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size};ext\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size};a=b\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size};\n{JOB}\r\n0\r\n\r\n"),
        format!("{size}_\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size}\n{JOB}\n0\n\n"),
        format!("{size}\r{JOB}\r\n0\r\n\r\n"),
        format!("\r\n{JOB}\r\n0\r\n\r\n"),
        format!("g\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size:0>17}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("1{size:0>16}\r\n{JOB}\r\n0\r\n\r\n"),
        format!("{size}\r\n{JOB}0\r\n\r\n"),
        format!("{size}\r\n{JOB}\n0\r\n\r\n"),
        format!("{size}\r\n{JOB}xx\r\n0\r\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0;ext\r\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0x0\r\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0\r\nContent-Length: 5\r\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0\r\nX y\r\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0\r\nHost: localhost\r\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0\r\n\n"),
        format!("{size}\r\n{JOB}\r\n0\n\r\n"),
        format!("{size}\r\n{JOB}\r\n0\r\nPOST /ojs/v1/jobs HTTP/1.1\r\n\r\n"),
    ];
    for target in ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/v1/federation/route"] {
        for body in &bodies {
            let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
            check(&federation.client, format!("{head}{body}").as_bytes(), 400).await;
        }
    }
    check_regions(&federation).await;
}

#[tokio::test]
async fn a_streamed_body_that_breaks_off_is_never_complete_at_the_region_and_blames_nobody() {
    let federation = Federation::start().await;
    for _ in 0..6 {
        let body = format!("{:x}\r\n{JOB}\r\n0x0\r\n\r\n", JOB.len());
        let head = "POST /ojs/v1/workers/ack HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&federation.client, format!("{head}{body}").as_bytes(), 400).await;
    }
    assert_eq!(federation.seen(SMUGGLED), [0; 0]);
    let acks = federation.regions[0].record().requests_to("/ojs/v1/workers/ack");
    assert!(acks.iter().all(|ack| !ack.complete), "{acks:?}");
    assert_eq!(federation.breaker(0), "closed", "what a client does wrong is no failure of the region");
}

#[tokio::test]
async fn request_lines_and_hosts_that_are_not_plain_reach_no_region() {
    let federation = Federation::start().await;
    let one = format!("Content-Length: {}", JOB.len());
    let host = "Host: localhost";
    for (line, headers, status) in [
        ("POST  /ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST /ojs/v1/jobs  HTTP/1.1", host, 400),
        (" POST /ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST\t/ojs/v1/jobs\tHTTP/1.1", host, 400),
        ("POST /ojs/v1/jobs HTTP/1.1 ", host, 400),
        ("PO ST /ojs/v1/jobs HTTP/1.1", host, 400),
        ("P@ST /ojs/v1/jobs HTTP/1.1", host, 400),
        ("P\0ST /ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST", host, 400),
        ("POST /ojs/v1/jobs", host, 400),
        ("/ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST https://localhost/ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST http://user@localhost/ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST http:///ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST //localhost\\ojs/v1/jobs HTTP/1.1", host, 400),
        ("POST /ojs/v1/jobs#x HTTP/1.1", host, 400),
        ("POST /ojs/v1/j\u{e9}bs HTTP/1.1", host, 400),
        ("POST /ojs/v1/jobs\0 HTTP/1.1", host, 400),
        ("POST * HTTP/1.1", host, 400),
        ("CONNECT localhost:443 HTTP/1.1", host, 400),
        ("POST /ojs/v1/jobs http/1.1", host, 400),
        ("POST /ojs/v1/jobs HTTP/11", host, 400),
        ("POST /ojs/v1/jobs HTTP/1.1x", host, 400),
        ("POST /ojs/v1/jobs HTTP/1.2", host, 505),
        ("POST /ojs/v1/jobs HTTP/2.0", host, 505),
        ("POST /ojs/v1/jobs HTTP/0.9", host, 505),
        ("POST /ojs/v1/jobs HTTP/3", host, 505),
        ("PRI * HTTP/2.0", host, 505),
        ("POST /ojs/v1/jobs HTTP/1.1", "X: y", 400),
        ("POST /ojs/v1/jobs HTTP/1.1", "Host:", 400),
        ("POST /ojs/v1/jobs HTTP/1.1", "Host: localhost\r\nHost: localhost", 400),
        ("POST /ojs/v1/jobs HTTP/1.1", "Host: localhost\r\nhost: evil.example", 400),
        ("POST /ojs/v1/jobs HTTP/1.1", "Host: localhost, evil.example", 400),
        ("POST /ojs/v1/jobs HTTP/1.1", "Host: user@localhost", 400),
        ("POST /ojs/v1/jobs HTTP/1.1", "Host: localhost/ojs", 400),
    ] {
        let bytes = format!("{line}\r\n{headers}\r\n{one}\r\n\r\n{JOB}");
        check(&federation.client, bytes.as_bytes(), status).await;
    }
    let tls_hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    check(&federation.client, tls_hello, 400).await;
    // The first answer to HTTP/0.9 is HTTP/1.1, too; there is no older one that an application could ask for.
    check(&federation.client, b"GET /ojs/v1/health\r\n", 400).await;
    check(&federation.client, b"\n\n\nGET /ojs/v1/health HTTP/1.1\r\n", 400).await;
    check_regions(&federation).await;
}

#[tokio::test]
async fn heads_beyond_the_bounds_are_told_which_one() {
    let federation = Federation::start().await;
    let one = format!("Content-Length: {}", JOB.len());
    let (long, lines) = ("a".repeat(70_000), "X: y\r\n".repeat(101));
    for (target, headers, status) in [
        ("/ojs/v1/jobs", format!("X: {long}\r\n"), 431),
        ("/ojs/v1/jobs", lines, 431),
        (&format!("/ojs/v1/{long}"), String::new(), 414),
        (&format!("/ojs/v1/jobs?x={long}"), String::new(), 414),
    ] {
        let bytes = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{headers}{one}\r\n\r\n{JOB}");
        check(&federation.client, bytes.as_bytes(), status).await;
    }
    check_regions(&federation).await;
}

#[tokio::test]
async fn a_host_that_is_not_ours_reaches_no_region() {
    let federation = Federation::start().await;
    for host in ["evil.example", "10.0.0.1:8080", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]"] {
        for target in TARGETS {
            let length = JOB.len();
            let head = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n");
            let mut wire = federation.client.wire().await;
            wire.send(format!("{head}{JOB}")).await;
            let answer = wire.answer().await;
            assert_eq!(answer.status, 421, "{host} {target}");
            assert_eq!(answer.reason(), "host_not_allowed");
        }
    }
    check_regions(&federation).await;
}
