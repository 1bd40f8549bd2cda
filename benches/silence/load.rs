//! Flexible jobs at a steady rate, each on a connection of its own, whatever became of those before.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const BODY: &str = r#"{"type":"email.send","args":[1]}"#;

/// One call. Times are since the start of the load.
pub struct Call {
    /// The place of its sidecar.
    pub sidecar: usize,
    pub began: Duration,
    pub took: Duration,
    /// 0 where the connection ended without an answer.
    pub status: u16,
    pub region: String,
}

/// A load under way.
pub struct Load {
    begun: Instant,
    under_way: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<Call>>>,
    thread: JoinHandle<()>,
}

impl Load {
    /// So many calls a second over these sidecars in turn.
    pub fn start(sockets: Vec<PathBuf>, rate: u32) -> Self {
        let begun = Instant::now();
        let (under_way, ends, calls) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default(), Arc::default());
        let thread = {
            let (under_way, ends, calls) = (Arc::clone(&under_way), Arc::clone(&ends), Arc::clone(&calls));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(run(begun, &sockets, rate, &under_way, &ends, &calls));
            })
        };
        Self { begun, under_way, ends, calls, thread }
    }

    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn under_way(&self) -> usize {
        self.under_way.load(SeqCst)
    }

    /// Begins no more calls and waits for the end of those that are under way.
    pub fn end(self) -> Vec<Call> {
        self.ends.store(true, SeqCst);
        self.thread.join().unwrap();
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

async fn run(
    begun: Instant,
    sockets: &[PathBuf],
    rate: u32,
    under_way: &Arc<AtomicUsize>,
    ends: &AtomicBool,
    calls: &Arc<Mutex<Vec<Call>>>,
) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
    for (sidecar, socket) in sockets.iter().enumerate().cycle() {
        ticks.tick().await;
        if ends.load(SeqCst) {
            break;
        }
        let (socket, under_way, calls) = (socket.clone(), Arc::clone(under_way), Arc::clone(calls));
        tokio::spawn(async move {
            under_way.fetch_add(1, SeqCst);
            let began = begun.elapsed();
            let (status, region) = call(socket).await.unwrap_or_default();
            let took = begun.elapsed() - began;
            calls.lock().unwrap().push(Call { sidecar, began, took, status, region });
            under_way.fetch_sub(1, SeqCst);
        });
    }
    while under_way.load(SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn call(socket: PathBuf) -> std::io::Result<(u16, String)> {
    let mut socket = UnixStream::connect(socket).await?;
    let head =
        "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    socket.write_all(format!("{head}Content-Length: {}\r\n\r\n{BODY}", BODY.len()).as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let region = answer.lines().find_map(|line| line.strip_prefix("ojs-federation-region: ")).unwrap_or("none");
    Ok((status, region.to_owned()))
}
