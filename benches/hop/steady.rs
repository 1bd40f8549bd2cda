//! Load at a fixed rate, as a process: each request has its time, and its latency counts from that time whether or not the
//! proxy was ready for it, so that a stall is not hidden by the load that it holds up.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use super::stage::this_program;

/// What came of it. Units: microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steady {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// Runs it as a process on a core.
pub(crate) fn load(
    core: Option<usize>,
    port: u16,
    rate: usize,
    connections: usize,
    time: Duration,
    body: &str,
) -> Steady {
    let arguments = [port, u16::try_from(rate.min(65535)).unwrap(), u16::try_from(connections).unwrap()];
    let mut command = Command::new("taskset");
    let core = core.map_or_else(|| "0-1023".to_owned(), |core| core.to_string());
    command.args(["-c", &core, &this_program(), "steady"]);
    command.args(arguments.map(|it| it.to_string())).args([time.as_secs().to_string(), body.to_owned()]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let figures: Vec<f64> = text.split_whitespace().map(|it| it.parse().unwrap()).collect();
    Steady { p50: figures[0], p90: figures[1], p99: figures[2], p999: figures[3] }
}

/// Arguments: port, requests a second, connections, seconds, the body.
pub(crate) fn run(arguments: &[String]) {
    let [port, rate, connections, seconds, body] = arguments else {
        panic!("steady PORT RATE CONNECTIONS SECONDS BODY")
    };
    let (port, connections): (u16, u32) = (port.parse().unwrap(), connections.parse().unwrap());
    let rate: f64 = rate.parse().unwrap();
    let seconds: f64 = seconds.parse().unwrap();
    let request = format!(
        "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/openjobspec+json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // A second of warming, which does not count, is within every thread's own share.
    let begun = Instant::now() + Duration::from_millis(200);
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let request = request.clone();
            let every = f64::from(connections) / rate;
            let first = begun + Duration::from_secs_f64(every * f64::from(number) / f64::from(connections));
            std::thread::spawn(move || one(port, &request, first, every, seconds + 1.0))
        })
        .collect();
    let mut all: Vec<u32> = threads.into_iter().flat_map(|it| it.join().unwrap()).collect();
    all.sort_unstable();
    let at = |share: f64| f64::from(all[((all.len() as f64 * share) as usize).min(all.len() - 1)]);
    println!("{} {} {} {}", at(0.5), at(0.9), at(0.99), at(0.999));
}

/// The latencies of one connection.
fn one(port: u16, request: &str, first: Instant, every: f64, seconds: f64) -> Vec<u32> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut latencies = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    for turn in 0..(seconds / every) as usize {
        let at = first + Duration::from_secs_f64(every * turn as f64);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        socket.write_all(request.as_bytes()).unwrap();
        answer(&mut socket, &mut buffer);
        if every * turn as f64 >= 1.0 {
            latencies.push(u32::try_from(at.elapsed().as_micros()).unwrap_or(u32::MAX));
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
