//! Load at a fixed rate, as a process: each request has its time, and its latency counts from that time whether or not the
//! proxy was ready for it, so that a stall is not hidden by the load that it holds up.
//!
//! All peers have it in turn, a slice of a tenth of a second each, over and over: what the machine does for longer it then does to all of them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use super::stage::this_program;

/// How long it is a peer's turn. Short, so that no peer rests for a second between two turns of eight. Units: microseconds.
const SLICE: u64 = 100_000;
/// What of that does not count where there are others: longer than it takes until each connection has had a request. Units: microseconds.
const WARM: u64 = 40_000;
/// Nor does what comes so long at first, with the handshakes in it. Units: microseconds.
const FIRST: u64 = 1_000_000;
/// A peer that does not answer for so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of it. Units: microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steady {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Steady {
    /// What it has more than another.
    pub(crate) fn added_to(&self, other: &Self) -> Self {
        Self {
            p50: self.p50 - other.p50,
            p90: self.p90 - other.p90,
            p99: self.p99 - other.p99,
            p999: self.p999 - other.p999,
        }
    }
}

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Requests a second.
    pub(crate) rate: usize,
    /// Connections to each peer.
    pub(crate) connections: usize,
    /// Of each peer's turns together, but for the first.
    pub(crate) time: Duration,
    /// Of a hundred requests so many may be answered by another status than 201. None is where peers are compared; a program that counts, or
    /// runs under valgrind, is so slow that a busy machine makes it take its region for silent.
    pub(crate) failed_max: usize,
}

/// Runs it as a process on a core: what each of the peers at these ports did.
pub(crate) fn load(core: Option<usize>, ports: &[u16], pace: Pace, body: &str) -> Vec<Steady> {
    let mut command = Command::new("taskset");
    let core = core.map_or_else(|| "0-1023".to_owned(), |core| core.to_string());
    command.args(["-c", &core, &this_program(), "steady", body]);
    command.args([
        pace.rate.to_string(),
        pace.connections.to_string(),
        pace.time.as_secs().to_string(),
        pace.failed_max.to_string(),
    ]);
    let output = command.args(ports.iter().map(u16::to_string)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let figures: Vec<f64> = text.split_whitespace().map(|it| it.parse().unwrap()).collect();
    assert_eq!(figures.len(), 4 * ports.len(), "{text}");
    figures.chunks(4).map(|it| Steady { p50: it[0], p90: it[1], p99: it[2], p999: it[3] }).collect()
}

/// When which peer's turn is: one after the other, always in the same order.
#[derive(Debug, Clone, Copy)]
struct Turns {
    peers: u64,
    /// How often all of them have their turn.
    rounds: u64,
    /// So many of these come first and do not count.
    warm: u64,
}

impl Turns {
    fn new(peers: usize, time: Duration) -> Self {
        let peers = peers as u64;
        let warm = FIRST.div_ceil(SLICE * peers);
        Self { peers, rounds: warm + (time.as_micros() as u64).div_ceil(SLICE), warm }
    }

    /// Units: microseconds.
    fn end(self) -> u64 {
        SLICE * self.rounds * self.peers
    }

    /// Whose turn it is so many microseconds after the begin, and whether it counts.
    fn at(self, time: u64) -> (usize, bool) {
        let (slice, within) = (time / SLICE, time % SLICE);
        let is_warm = self.peers == 1 || within >= WARM;
        ((slice % self.peers) as usize, slice / self.peers >= self.warm && is_warm)
    }
}

/// Arguments: the body, requests a second, connections, seconds, failures in a hundred requests, the ports of the peers.
pub(crate) fn run(arguments: &[String]) {
    let [body, rate, connections, seconds, failed_max, ports @ ..] = arguments else {
        panic!("steady BODY RATE CONNECTIONS SECONDS FAILED_MAX PORT...")
    };
    let ports: Vec<u16> = ports.iter().map(|it| it.parse().unwrap()).collect();
    let (rate, connections): (u64, u64) = (rate.parse().unwrap(), connections.parse().unwrap());
    let turns = Turns::new(ports.len(), Duration::from_secs(seconds.parse().unwrap()));
    let request = format!(
        "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/openjobspec+json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // Threads have what the one has that starts them. The kernel would wake each up to 50 us late, which is half of what a proxy takes.
    fs::write("/proc/self/timerslack_ns", "1").unwrap();
    let begun = Instant::now() + Duration::from_millis(200);
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let (request, ports) = (request.clone(), ports.clone());
            let due = (0..).map(move |turn: u64| (turn * connections + number) * 1_000_000 / rate);
            std::thread::spawn(move || one(&ports, &request, begun, due, turns))
        })
        .collect();
    let mut all = vec![Vec::new(); ports.len()];
    let (mut sent, mut failed) = (0, Vec::new());
    for (of_thread, its_sent, its_failed) in threads.into_iter().map(|it| it.join().unwrap()) {
        sent += its_sent;
        failed.extend(its_failed);
        all.iter_mut().zip(of_thread).for_each(|(all, its)| all.extend(its));
    }
    let failed_max = sent * failed_max.parse::<usize>().unwrap() / 100;
    assert!(failed.len() <= failed_max, "{} of {sent} requests failed, such as: {}", failed.len(), failed[0]);
    for mut latencies in all {
        latencies.sort_unstable();
        let at = |share: f64| {
            let place = (latencies.len() as f64 * share) as usize;
            latencies[place.min(latencies.len() - 1)].as_secs_f64() * 1e6
        };
        println!("{:.1} {:.1} {:.1} {:.1}", at(0.5), at(0.9), at(0.99), at(0.999));
    }
}

/// The latencies of one connection to each peer, how many requests it sent, and the answers that are no 201.
fn one(
    ports: &[u16],
    request: &str,
    begun: Instant,
    due: impl Iterator<Item = u64>,
    turns: Turns,
) -> (Vec<Vec<Duration>>, usize, Vec<String>) {
    let socket = |port: &u16| {
        let socket = TcpStream::connect(("127.0.0.1", *port)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let mut sockets: Vec<TcpStream> = ports.iter().map(socket).collect();
    let mut latencies = vec![Vec::new(); ports.len()];
    let mut buffer = vec![0; 64 * 1024];
    let (mut sent, mut failed) = (0, Vec::new());
    for due in due.take_while(|due| *due < turns.end()) {
        let at = begun + Duration::from_micros(due);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let (peer, counts) = turns.at(due);
        sockets[peer].write_all(request.as_bytes()).unwrap();
        sent += 1;
        let answer = answer(&mut sockets[peer], &mut buffer);
        if !answer.starts_with(b"HTTP/1.1 201") {
            failed.push(String::from_utf8_lossy(answer).into_owned());
        }
        if counts {
            latencies[peer].push(at.elapsed());
        }
    }
    (latencies, sent, failed)
}

/// Reads one whole answer.
fn answer<'b>(socket: &mut TcpStream, buffer: &'b mut [u8]) -> &'b [u8] {
    let mut have = 0;
    loop {
        let got = socket.read(&mut buffer[have..]).unwrap();
        assert!(got > 0, "the connection was closed");
        have += got;
        let text = &buffer[..have];
        let Some(head) = text.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let lines = String::from_utf8_lossy(&text[..head]).to_ascii_lowercase();
        let length = lines
            .lines()
            .find_map(|it| it.strip_prefix("content-length:"))
            .map(|it| it.trim().parse::<usize>().unwrap());
        let whole = match length {
            Some(length) => have >= head + 4 + length,
            None => text.ends_with(b"0\r\n\r\n"),
        };
        if whole {
            return &buffer[..have];
        }
    }
}
