//! Load at a fixed rate, as a process: each request has its time, and its latency counts from that time whether or not the
//! proxy was ready for it, so that a stall is not hidden by the load that it holds up.
//!
//! All peers have it in turn, a slice of half a second each, over and over: what the machine does for seconds it then does to all of them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use super::stage::this_program;

/// How long it is a peer's turn. Units: seconds.
const SLICE: f64 = 0.5;
/// What of that does not count, in which the peer's connections and its caches are warmed. Units: seconds.
const WARM: f64 = 0.1;

/// What came of it. Units: microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steady {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Requests a second.
    pub(crate) rate: usize,
    /// Connections to each peer.
    pub(crate) connections: usize,
    /// Of each peer's turns together.
    pub(crate) time: Duration,
}

/// Runs it as a process on a core: what each of the peers at these ports did.
pub(crate) fn load(core: Option<usize>, ports: &[u16], pace: Pace, body: &str) -> Vec<Steady> {
    let mut command = Command::new("taskset");
    let core = core.map_or_else(|| "0-1023".to_owned(), |core| core.to_string());
    command.args(["-c", &core, &this_program(), "steady", body]);
    command.args([pace.rate.to_string(), pace.connections.to_string(), pace.time.as_secs().to_string()]);
    let output = command.args(ports.iter().map(u16::to_string)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let figures: Vec<f64> = text.split_whitespace().map(|it| it.parse().unwrap()).collect();
    figures.chunks(4).map(|it| Steady { p50: it[0], p90: it[1], p99: it[2], p999: it[3] }).collect()
}

/// When which peer's turn is.
#[derive(Debug, Clone, Copy)]
struct Turns {
    peers: usize,
    /// How often all of them have their turn; once more before, which does not count.
    rounds: usize,
}

impl Turns {
    fn new(peers: usize, seconds: f64) -> Self {
        Self { peers, rounds: (seconds / SLICE).ceil() as usize }
    }

    /// Units: seconds.
    fn end(self) -> f64 {
        SLICE * ((self.rounds + 1) * self.peers) as f64
    }

    /// Whose turn it is so many seconds after the begin, now from the first to the last and now from the last to the first, and whether it
    /// counts.
    fn at(self, seconds: f64) -> (usize, bool) {
        let slice = (seconds / SLICE) as usize;
        let (round, turn) = (slice / self.peers, slice % self.peers);
        let peer = if round.is_multiple_of(2) { turn } else { self.peers - 1 - turn };
        (peer, round > 0 && seconds - SLICE * slice as f64 >= WARM)
    }
}

/// Arguments: the body, requests a second, connections, seconds, the ports of the peers.
pub(crate) fn run(arguments: &[String]) {
    let [body, rate, connections, seconds, ports @ ..] = arguments else {
        panic!("steady BODY RATE CONNECTIONS SECONDS PORT...")
    };
    let ports: Vec<u16> = ports.iter().map(|it| it.parse().unwrap()).collect();
    let (rate, connections): (f64, u32) = (rate.parse().unwrap(), connections.parse().unwrap());
    let turns = Turns::new(ports.len(), seconds.parse().unwrap());
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
            let every = f64::from(connections) / rate;
            let first = f64::from(number) / rate;
            std::thread::spawn(move || one(&ports, &request, begun, (first, every), turns))
        })
        .collect();
    let mut all = vec![Vec::new(); ports.len()];
    for of_thread in threads.into_iter().map(|it| it.join().unwrap()) {
        all.iter_mut().zip(of_thread).for_each(|(all, its)| all.extend(its));
    }
    for mut latencies in all {
        latencies.sort_unstable();
        let at = |share: f64| {
            let place = (latencies.len() as f64 * share) as usize;
            latencies[place.min(latencies.len() - 1)].as_secs_f64() * 1e6
        };
        println!("{:.1} {:.1} {:.1} {:.1}", at(0.5), at(0.9), at(0.99), at(0.999));
    }
}

/// The latencies of one connection to each peer.
fn one(ports: &[u16], request: &str, begun: Instant, (first, every): (f64, f64), turns: Turns) -> Vec<Vec<Duration>> {
    let socket = |port: &u16| {
        let socket = TcpStream::connect(("127.0.0.1", *port)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
    };
    let mut sockets: Vec<TcpStream> = ports.iter().map(socket).collect();
    let mut latencies = vec![Vec::new(); ports.len()];
    let mut buffer = vec![0; 64 * 1024];
    for number in 0..((turns.end() - first) / every) as usize {
        let due = first + every * number as f64;
        let at = begun + Duration::from_secs_f64(due);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        let (peer, counts) = turns.at(due);
        sockets[peer].write_all(request.as_bytes()).unwrap();
        answer(&mut sockets[peer], &mut buffer);
        if counts {
            latencies[peer].push(at.elapsed());
        }
    }
    latencies
}

/// Reads one whole answer, which must be a 201.
fn answer(socket: &mut TcpStream, buffer: &mut [u8]) {
    let mut have = 0;
    loop {
        let got = socket.read(&mut buffer[have..]).unwrap();
        assert!(got > 0, "the connection was closed");
        have += got;
        let text = &buffer[..have];
        let Some(head) = text.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        assert!(text.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(text));
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
            return;
        }
    }
}
