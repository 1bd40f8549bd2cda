//! The client that behaves: one connection, one enqueue after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const BODY: &str = r#"{"type":"email.send","args":["someone@example.com"]}"#;

/// A connection whose calls are timed.
pub struct Timed {
    socket: TcpStream,
    request: Vec<u8>,
}

/// Units: microseconds.
pub struct Times {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

impl Timed {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/openjobspec+json\r\n";
        Self { socket, request: format!("{head}Content-Length: {}\r\n\r\n{BODY}", BODY.len()).into_bytes() }
    }

    /// Calls for so long; every answer must be a 201.
    pub fn run(&mut self, lasts: Duration) -> Times {
        let end = Instant::now() + lasts;
        let mut times = Vec::new();
        while Instant::now() < end {
            let begun = Instant::now();
            self.call();
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(f64::NAN);
        Times { p50: at(50), p90: at(90), p99: at(99) }
    }

    fn call(&mut self) {
        self.socket.write_all(&self.request).unwrap();
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = self.socket.read(&mut part).unwrap();
            assert!(read > 0, "the well-behaved client was cut off: {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(part.get(..read).unwrap_or_default());
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            assert!(head.starts_with("HTTP/1.1 201"), "{text}");
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            if length.is_some_and(|length| body.len() >= length.parse::<usize>().unwrap()) {
                return;
            }
        }
    }
}
