//! The crowds: peers that are slow, greedy or both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::setpriority_process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// The priority of crowds and of the region that misbehaves: on a machine of their own they would take no processor from the program
/// or from the client that is timed. What they can do to both is what the program does for them.
pub const LAST: i32 = 19;

/// A kind of crowd.
pub struct Kind {
    pub name: &'static str,
    pub peers: usize,
    does: Does,
}

/// What each of them does.
#[derive(Clone, Copy)]
enum Does {
    /// Sends this once, and then so much of it, byte by byte, one a second.
    Trickle(&'static str),
    /// Sends this, and then the second text without end; starts again when it is cut.
    Flood(&'static str, &'static str),
    /// Sends this and reads nothing.
    Deaf(&'static str),
    /// Sends this, reads the answer and rests.
    Rest(&'static str),
    /// Enqueues a job of this type for the region that misbehaves, reads the answer, and again.
    Provoke(&'static str),
}

const POST: &str = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n{";
const UPLOAD: &str = "POST /ojs/v1/webhooks/data HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n\
                      Content-Length: 4000\r\n\r\n{";
const HEALTH: &str = "GET /ojs/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n";

macro_rules! get {
    ($target:literal $(, $more:literal)?) => {
        concat!("GET ", $target, " HTTP/1.1\r\nHost: localhost\r\n", $($more,)? "\r\n")
    };
}

pub const CROWDS: &[Kind] = &[
    kind("idle, never used", 10_000, Does::Rest("")),
    kind("idle, used once", 10_000, Does::Rest(HEALTH)),
    kind("slow head", 1000, Does::Trickle("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")),
    kind(
        "endless head",
        50,
        Does::Flood("GET / HTTP/1.1\r\n", "x-a: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
    ),
    kind("slow body, interpreted", 1000, Does::Trickle(POST)),
    kind("slow body, streamed", 1000, Does::Trickle(UPLOAD)),
    kind(
        "no reader of a stream",
        500,
        Does::Deaf(get!("/ojs/v1/debug/endless-body", "OJS-Federation-Region: mad\r\n")),
    ),
    kind("no reader of lists", 500, Does::Deaf(get!("/ojs/v1/jobs?region=mad"))),
    kind(
        "no reader of events",
        1000,
        Does::Deaf(get!("/ojs/v1/queues/endless-body/events", "OJS-Federation-Region: mad\r\n")),
    ),
    kind("region: endless head", 50, Does::Provoke("endless-head")),
    kind("region: endless interim answers", 50, Does::Provoke("endless-interim")),
    kind("region: endless body", 20, Does::Provoke("endless-body")),
    kind("region: trickles", 1000, Does::Provoke("trickle")),
    kind("region: compressed bomb", 20, Does::Provoke("bomb")),
];

const fn kind(name: &'static str, peers: usize, does: Does) -> Kind {
    Kind { name, peers, does }
}

/// A crowd at work; dropped, all its connections are gone.
pub struct Crowd {
    _stop: oneshot::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Returns when every peer is connected and has said its first words.
    pub fn start(kind: &Kind, address: SocketAddr) -> Self {
        let (does, peers) = (kind.does, kind.peers);
        let (stop, stopped) = oneshot::channel::<()>();
        let there = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&there);
        let thread = std::thread::spawn(move || {
            let _ = setpriority_process(None, LAST);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // The listen queue of some systems holds no more.
                let connecting = Arc::new(Semaphore::new(64));
                for _ in 0..peers {
                    let (there, connecting) = (Arc::clone(&counted), Arc::clone(&connecting));
                    tokio::spawn(async move {
                        let mut first = Some(there);
                        loop {
                            let permit = connecting.acquire().await.unwrap();
                            let socket = TcpStream::connect(address).await;
                            drop(permit);
                            if let Ok(socket) = socket {
                                // The end is a reset, which leaves no port behind.
                                let _ = socket.set_zero_linger();
                                let _ = peer(does, socket, &mut first).await;
                            }
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    });
                }
                let _ = stopped.await;
            });
        });
        while there.load(Relaxed) < peers {
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { _stop: stop, thread: Some(thread) }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let (gone, _) = oneshot::channel();
        drop(std::mem::replace(&mut self._stop, gone));
        self.thread.take().unwrap().join().unwrap();
    }
}

async fn peer(does: Does, mut socket: TcpStream, first: &mut Option<Arc<AtomicUsize>>) -> std::io::Result<()> {
    let mut begun = || {
        if let Some(there) = first.take() {
            there.fetch_add(1, Relaxed);
        }
    };
    let mut part = [0; 4096];
    match does {
        Does::Trickle(start) => {
            socket.write_all(start.as_bytes()).await?;
            begun();
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                socket.write_all(b"x").await?;
            }
        }
        Does::Flood(start, piece) => {
            socket.write_all(start.as_bytes()).await?;
            begun();
            let many = piece.repeat(256);
            loop {
                socket.write_all(many.as_bytes()).await?;
            }
        }
        Does::Deaf(request) => {
            socket.write_all(request.as_bytes()).await?;
            begun();
            std::future::pending::<()>().await;
        }
        Does::Rest(request) => {
            socket.write_all(request.as_bytes()).await?;
            if !request.is_empty() {
                socket.read_u8().await?;
            }
            begun();
            // Until it is closed.
            while socket.read(&mut part).await? > 0 {}
        }
        Does::Provoke(word) => {
            begun();
            let job = format!(r#"{{"type":"{word}","args":[],"meta":{{"ojs.federation.region":"mad"}}}}"#);
            let head =
                format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", job.len());
            socket.write_all(format!("{head}{job}").as_bytes()).await?;
            // Whatever comes is an answer; it is not looked into.
            socket.read_u8().await?;
        }
    }
    Ok(())
}
