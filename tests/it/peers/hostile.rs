//! Hostile connections of each kind against one sidecar with little memory: a few on every run, and ten thousand with a table of what the
//! sidecar holds on demand.
//!
//! `HOSTILE_CONNECTIONS=9600 cargo test --release --test it -- --nocapture hostile_connections_of_each_kind`, with 20 000 descriptors.
//! As root on a machine with version 1 of control groups the sidecar runs in a group of its own that has 256 MiB, and is killed by the
//! kernel where it needs more. `HOSTILE_KIND` chooses the kinds whose name contains it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Federation, Process, Setup, Wire, eventually, job};

/// How many there are by default.
const FEW: usize = 300;
/// Connected at once, so that the queue of the listener is long enough.
const AT_ONCE: usize = 100;
/// What a process may hold whose control group has 256 MiB.
const RESIDENT_MAX: u64 = 256 << 20;
/// Where version 1 of control groups counts memory.
const GROUPS: &str = "/sys/fs/cgroup/memory";

/// A control group with [`RESIDENT_MAX`], where this machine lets us make one; removed with this value.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Self> {
        let path = Path::new(GROUPS).join(format!("hostile-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Self(path);
        std::fs::write(group.0.join("memory.limit_in_bytes"), RESIDENT_MAX.to_string()).ok()?;
        Some(group)
    }

    /// How often the kernel had to reclaim because the group was at its limit.
    fn came_to_limit(&self) -> String {
        std::fs::read_to_string(self.0.join("memory.failcnt")).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be counted; an empty group that is left costs nothing.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Rounds of calls beside many connections: those that have just come may still have their region at work.
const ROUNDS: usize = 10;

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
        assert_eq!(answer.status, 201, "{answer:?} {:?}", sidecar.log());
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

/// The sidecar with the default of `limits.memory` in the group where there is one, and else with `memory`.
async fn sidecar_in(group: Option<&Group>, config: &Path, memory: &str) -> Process {
    let arguments = ["--set", "log.level=info", "--set", memory];
    let Some(group) = group else { return Process::run(config, &arguments).await };
    let arguments = &arguments[..2];
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    Process::run_under(&["/bin/sh", "-c", &enter, "sh"], config, arguments).await
}

/// The name of each kind, and what each connection of it sends.
fn kinds() -> [(&'static str, String); 7] {
    let post = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\n";
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    [
        ("nothing", String::new()),
        ("first byte of a head", "G".to_owned()),
        ("unfinished heads of 60 kB", format!("{post}x: {}", "a".repeat(60_000))),
        ("begun bodies of 60 kB", format!("{post}Content-Length: 100000\r\n\r\n{{{}", " ".repeat(60_000))),
        ("unread answers of 100 MB", get("/ojs/v1/debug/stream?bytes=104857600", "")),
        ("streams of events", get("/ojs/v1/queues/quiet/events", "")),
        ("tunnels", get("/ojs/v1/ws", websocket)),
    ]
}

#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "how many there are is asked for by hand, and so is the table"
)]
async fn hostile_connections_of_each_kind_leave_memory_and_others_served() {
    let wanted = std::env::var("HOSTILE_CONNECTIONS").ok().map(|count| count.parse::<usize>().unwrap());
    let named = std::env::var("HOSTILE_KIND").unwrap_or_default();
    // A third of 256 MiB; a few connections are to come to the bound, too.
    let memory = if wanted.is_some() { "limits.memory=85MiB" } else { "limits.memory=16MiB" };
    let connections = wanted.unwrap_or(FEW);
    println!(
        "| kind | connections | peak RSS | at the limit | p50 before | beside | later |\n|---|---|---|---|---|---|---|"
    );
    for (kind, bytes) in kinds().into_iter().filter(|(kind, _)| kind.contains(&named)) {
        // The region shares the machine with those who do not read: that it becomes slow is not what is looked at.
        let patient = "health_check: { interval: 1h }\ncircuit_breaker: { failure_threshold: 1000000 }";
        let stage = Setup::default().regions(1).yaml(patient).stage().await;
        let group = wanted.and_then(|_| Group::make());
        let sidecar = sidecar_in(group.as_ref(), &stage.config, memory).await;
        let before = p50(&sidecar).await;
        let (mut crowd, mut peak) = (Vec::new(), 0);
        while crowd.len() < connections {
            crowd.extend(join_all((0..AT_ONCE).map(|_| hold(&sidecar, bytes.as_bytes()))).await);
            peak = sidecar.resident_bytes().max(peak);
        }
        let beside = p50(&sidecar).await;
        let mut later = beside;
        for _ in 1..wanted.map_or(1, |_| ROUNDS) {
            later = p50(&sidecar).await;
        }
        peak = sidecar.resident_bytes().max(peak);
        let limit = group.as_ref().map(Group::came_to_limit);
        println!("| {kind} | {connections} | {} MiB | {limit:?} | {before:?} | {beside:?} | {later:?} |", peak >> 20);
        assert!(peak < RESIDENT_MAX, "{kind}: {peak}");
        assert_eq!(sidecar.admin.get("/livez").await.status, 200);
        drop(sidecar);
        drop(group);
    }
}

/// Opens calls that last, with this request, until one is refused; returns those that were not.
async fn until_refused(federation: &Federation, request: &str, status: u16) -> Vec<Wire> {
    let mut open = Vec::new();
    loop {
        let mut wire = federation.client.wire().await;
        wire.send(request).await;
        let head = wire.head().await;
        if head.0 != status {
            assert_eq!(head.0, 503, "{request}");
            let length = head.1["content-length"].to_str().unwrap().parse().unwrap();
            let body = String::from_utf8(wire.take(length).await).unwrap();
            assert!(body.contains(r#""reason":"overloaded""#) && body.contains(r#""retryable":true"#), "{body}");
            assert!(head.1.contains_key("retry-after"), "{body}");
            return open;
        }
        open.push(wire);
        assert!(open.len() < 1_000, "nothing bounds them");
    }
}

#[tokio::test]
async fn streams_and_tunnels_beyond_the_memory_are_refused_and_jobs_are_not() {
    let federation = Setup::default().regions(1).yaml("limits: { memory: 16MiB }").start().await;
    let [.., (_, stream), (_, tunnel)] = kinds();
    for (request, status) in [(stream, 200), (tunnel, 101)] {
        let mut open = until_refused(&federation, &request, status).await;
        assert!(open.len() > 100, "{}", open.len());
        for _ in 0..3 {
            assert_eq!(federation.client.enqueue(job("beside")).await.status, 201);
        }
        // The memory of one that has ended is the next one's.
        open.pop();
        eventually("there is room again", async || {
            let mut wire = federation.client.wire().await;
            wire.send(&request).await;
            let is_open = wire.head().await.0 == status;
            open.push(wire);
            is_open
        })
        .await;
        assert_eq!(federation.breaker(0), "closed");
        drop(open);
        eventually("all have ended", async || federation.metric("client_connections").await < 10.0).await;
    }
}

#[tokio::test]
async fn a_hundred_streamed_calls_make_a_few_connections_at_once() {
    // A region whose handshakes never end.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("url: https://{}", listener.local_addr().unwrap());
    let connected = Arc::new(Mutex::new(Vec::new()));
    let mut clients = Vec::new();
    let held = Arc::clone(&connected);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            held.lock().unwrap().push(socket);
        }
    });
    let patient = "limits: { worker_threads: 1, connect_timeout: 10min }\nhealth_check: { interval: 1h }";
    let federation = Setup::default().regions(1).region(0, &url).yaml(patient).stage().await.launch();
    for _ in 0..100 {
        let mut wire = federation.client.wire().await;
        wire.send("GET /ojs/v1/unknown HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        clients.push(wire);
    }
    let concurrency = &federation.shared.concurrency;
    eventually("all calls are under way", async || concurrency.total_in_flight() == 100).await;
    eventually("some connect", async || connected.lock().unwrap().len() >= 16).await;
    federation.settle().await;
    // And one for the probe.
    let connections = connected.lock().unwrap().len();
    assert!(connections <= 17, "{connections}");
}
