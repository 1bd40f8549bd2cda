//! Peers that are slow, greedy or both: clients here, regions in `peers/regions`. What they hold is bounded, and it is theirs.

mod hostile;
mod http2;
mod memory;
mod regions;

use std::time::Duration;

use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Answer, Federation, Process, Setup, Wire, eventually, job};

/// Sends a text over and over, steadily, until there is an answer; meanwhile others are served.
async fn trickle(federation: &Federation, wire: &mut Wire, piece: &str) -> Answer {
    loop {
        // Refused once the sidecar has said its last word, which is still to be read.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.socket, piece.as_bytes()).await;
        // Takes a while, and shows that nobody else waits.
        assert_eq!(federation.client.get("/ojs/v1/health").await.status, 200);
        if wire.has_answer() {
            return wire.answer().await;
        }
    }
}

#[tokio::test]
async fn a_head_that_trickles_is_given_up_however_steadily_it_comes() {
    let federation = Setup::default().yaml("limits: { head_timeout: 300ms, head_bytes: 1MiB }").start().await;
    let mut wire = federation.client.wire().await;
    wire.send("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
    let answer = trickle(&federation, &mut wire, "x").await;
    answer.check_error(408, "invalid_request", "request_timeout");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(wire.is_closed().await);
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up_even_if_its_client_lets_the_region_wait() {
    let federation = Setup::default().yaml("limits: { call_timeout: 300ms }").start().await;
    let mut wire = federation.client.wire().await;
    let head = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nOJS-Block-Timeout: 600\r\n";
    wire.send(format!("{head}Content-Length: 1000000\r\n\r\n{{")).await;
    let answer = trickle(&federation, &mut wire, " ").await;
    answer.check_error(408, "invalid_request", "request_timeout");
    assert!(wire.is_closed().await);
    assert_eq!(federation.shared.buffered.bytes(), 0, "nothing of it is kept");
}

#[tokio::test]
async fn an_answer_of_ours_that_nobody_reads_is_given_up_and_its_memory_free() {
    let federation = Setup::default().yaml("limits: { stream_idle_timeout: 1s }").start().await;
    // More than the buffers of two sockets hold.
    let body = format!(r#"{{"job":{{"id":"a","args":["{}"]}}}}"#, "x".repeat(9 << 20));
    let answer = FaultAnswer { body: body.into(), ..FaultAnswer::balancer(http::StatusCode::CREATED) };
    federation.regions[0].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
    let mut wire = federation.client.wire().await;
    let job = r#"{"id":"a","type":"unread","args":[]}"#;
    wire.send(format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{job}", job.len()))
        .await;
    eventually("the answer is held", async || federation.shared.buffered.bytes() > 8 << 20).await;
    eventually("it is held no more", async || federation.shared.buffered.bytes() == 0).await;
    assert!(wire.rest().await.is_err(), "and does not look complete");
}

#[tokio::test]
async fn clients_that_open_every_connection_leave_descriptors_for_regions() {
    let stage = Setup::default().regions(1).stage().await;
    let shell = ["/bin/sh", "-c", "ulimit -n 80; exec \"$0\" \"$@\""];
    let sidecar = Process::run_under(&shell, &stage.config, &["--set", "log.level=info"]).await;
    sidecar
        .wait_for_line("client connections are accepted at a time, because regions and probes need descriptors")
        .await;
    // One that is there before, and has not needed a region yet.
    let mut early = sidecar.client.wire().await;
    early.send("GET /v1/federation/health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(early.answer().await.status, 200);
    let mut crowd = Vec::new();
    let refused = loop {
        assert!(crowd.len() <= 40, "nobody is refused");
        let mut wire = sidecar.client.wire().await;
        if wire.is_refused().await {
            break wire.answer().await;
        }
        crowd.push(wire);
    };
    refused.check_error(503, "backend_error", "overloaded");
    // Calls of all who are in, at once: each may need a connection of its own.
    let job = job("crowd");
    let call = format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{job}", job.len());
    crowd.truncate(16);
    crowd.push(early);
    for wire in &mut crowd {
        wire.send(&call).await;
    }
    for wire in &mut crowd {
        assert_eq!(wire.answer().await.status, 201);
    }
}

#[tokio::test]
async fn a_thousand_idle_connections_cost_little_memory() {
    const CONNECTIONS: usize = 1000;
    let stage = Setup::default().regions(1).stage().await;
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let before = sidecar.resident_bytes();
    let mut crowd = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut wire = sidecar.client.wire().await;
        wire.send("GET /v1/federation/health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(wire.answer().await.status, 200);
        crowd.push(wire);
    }
    let each = sidecar.resident_bytes().saturating_sub(before) / CONNECTIONS as u64;
    assert!(each < 32 * 1024, "{each} bytes each");
    tokio::time::timeout(Duration::from_secs(60), crowd[0].send("G")).await.unwrap();
}

#[tokio::test]
async fn a_lack_of_descriptors_here_is_not_held_against_any_region() {
    let yaml = "limits: { worker_threads: 1, pool_idle_per_region: 1 }\nhealth_check: { interval: 50ms }";
    let stage = Setup::default().yaml(yaml).stage().await;
    let limit = ["sh", "-c", "ulimit -n 48; exec \"$@\"", "sh"];
    let sidecar = Process::run_under(&limit, &stage.config, &["--set", "log.level=info"]).await;
    let (mut stored, mut refused) = (0, 0);
    for _ in 0..6 {
        let turn = (0..25).map(async |_| sidecar.client.try_send(http::Request::post("/ojs/v1/jobs"), job("a")).await);
        for answer in futures_util::future::join_all(turn).await {
            match answer {
                Ok(answer) if answer.status == 201 => stored += 1,
                Ok(answer) => {
                    assert_eq!(answer.reason(), "overloaded", "{answer:?}");
                    refused += 1;
                }
                // There was no descriptor to say so.
                Err(_) => refused += 1,
            }
        }
    }
    assert!(stored > 0 && refused > 0, "{stored} stored, {refused} refused");
    let transitions = sidecar.log().into_iter().filter(|line| line.contains("breaker") || line.contains("unhealthy"));
    assert_eq!(transitions.collect::<Vec<_>>(), [""; 0]);
    eventually("a call passes", async || {
        let answer = sidecar.client.try_send(http::Request::get("/v1/federation/regions"), "").await;
        answer.is_ok_and(|answer| !String::from_utf8_lossy(&answer.body).contains("\"open\""))
    })
    .await;
}

#[tokio::test]
async fn signals_of_log_reopeners_leave_the_sidecar_serving() {
    let stage = Setup::default().regions(1).stage().await;
    let sidecar = Process::run_under(&[], &stage.config, &["--set", "log.level=info"]).await;
    for name in ["USR1", "USR2"] {
        sidecar.signal(name);
        sidecar.wait_for_line(&format!("SIG{name}")).await;
        assert_eq!(sidecar.client.enqueue(job("a")).await.status, 201);
    }
}
