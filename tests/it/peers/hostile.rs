//! Hostile connections of each kind against one sidecar with little memory: a few on every run, and ten thousand with a table of what the
//! sidecar holds on demand.
//!
//! `HOSTILE_CONNECTIONS=10000 cargo test --release --test it -- --nocapture hostile_connections_of_each_kind`, with 20 000 descriptors

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ojs_sidecar::demo::{Fault, FaultAnswer, When};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Process, Setup, job};

/// How many there are by default.
const FEW: usize = 300;
/// Connected at once, so that the queue of the listener is long enough.
const AT_ONCE: usize = 100;
/// What a process may hold whose control group has 256 MiB.
const RESIDENT_MAX: u64 = 256 << 20;

/// Half of 200 calls in a row take at most so long.
async fn p50(sidecar: &Process) -> Duration {
    let mut wire = sidecar.client.wire().await;
    let body = job("good");
    let call = format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut took = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        wire.send(&call).await;
        let answer = wire.answer().await;
        assert_eq!(answer.status, 201, "{answer:?}");
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

/// Sends what the kernel and the sidecar take, and keeps the connection.
async fn hold(sidecar: &Process, bytes: &[u8]) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(sidecar.client.address()).await.ok()?;
    let _ = tokio::time::timeout(Duration::from_millis(500), socket.write_all(bytes)).await;
    Some(socket)
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "how many there are is asked for by hand, and so is the table"
)]
async fn hostile_connections_of_each_kind_leave_memory_and_others_served() {
    let wanted = std::env::var("HOSTILE_CONNECTIONS").ok().map(|count| count.parse::<usize>().unwrap());
    // A third of 256 MiB, which is the default there; a few connections are to come to the bound, too.
    let memory = if wanted.is_some() { "limits.memory=85MiB" } else { "limits.memory=16MiB" };
    let connections = wanted.unwrap_or(FEW);
    let post = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\n";
    let kinds = [
        ("first byte", connections, "G".to_owned()),
        ("unfinished heads of 60 kB", connections, format!("{post}x: {}", "a".repeat(60_000))),
        ("begun bodies of 60 kB", connections, format!("{post}Content-Length: 100000\r\n\r\n{{{}", " ".repeat(60_000))),
        // Each makes the region encrypt some megabytes, so that they are fewer.
        (
            "unread answers of 100 MB",
            if wanted.is_some() { 450 } else { 100 },
            "GET /ojs/v1/debug/long HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        ),
    ];
    println!("| kind | connections | peak RSS | p50 before | p50 beside |\n|---|---|---|---|---|");
    for (kind, connections, bytes) in kinds {
        // The region shares the machine with those who do not read: that it becomes slow is not what is looked at.
        let patient = "health_check: { interval: 1h }\ncircuit_breaker: { failure_threshold: 1000000 }";
        let stage = Setup::default().regions(1).yaml(patient).stage().await;
        let answer = FaultAnswer { body: vec![b'x'; 100 << 20].into(), ..FaultAnswer::balancer(http::StatusCode::OK) };
        stage.regions[0].faults().add(When::path("/ojs/v1/debug/long"), Fault::Answer { answer, store: false });
        let sidecar = Process::run(&stage.config, &["--set", "log.level=info", "--set", memory]).await;
        let before = p50(&sidecar).await;
        let (mut crowd, mut peak) = (Vec::new(), 0);
        while crowd.len() < connections {
            crowd.extend(join_all((0..AT_ONCE).map(|_| hold(&sidecar, bytes.as_bytes()))).await);
            peak = sidecar.resident_bytes().max(peak);
        }
        let beside = p50(&sidecar).await;
        peak = sidecar.resident_bytes().max(peak);
        println!("| {kind} | {connections} | {} MiB | {before:?} | {beside:?} |", peak >> 20);
        assert!(peak < RESIDENT_MAX, "{kind}: {peak}");
        assert_eq!(sidecar.admin.get("/livez").await.status, 200);
    }
}
