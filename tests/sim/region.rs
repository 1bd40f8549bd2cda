//! A region as sidecars meet it: it answers, refuses, is silent, slow, grey, flaps or is cut off; and it has a queue.

use ojs_sidecar::base::Draw;

/// What is wrong with a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing.
    Up,
    /// Connections are refused.
    Down,
    /// It takes requests and never answers.
    Silent,
    /// It answers after so many milliseconds.
    Slow(u64),
    /// Its probes are fine and this share of enqueues fails, in percent: by its own 503, a balancer's 502, or silence.
    Grey(u64),
    /// It is up and down in turn, for so many milliseconds each.
    Flapping(u64),
    /// It stores jobs and its answers are lost.
    LateWrites,
    /// Every second sidecar cannot connect.
    Partition,
    /// It asks for less.
    Busy,
    /// It says itself that it takes no job, of this share of enqueues, in percent.
    Refusing(u64),
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reply {
    /// No connection: nothing was sent.
    Refused,
    /// It was sent, and no answer comes.
    Silence,
    /// A status; of a 503, whether it is the region's own error document.
    Status(u16, bool),
}

pub const CONNECT_TIMEOUT_MS: u64 = 5_000;
pub const CALL_TIMEOUT_MS: u64 = 25_000;

#[derive(Debug)]
pub struct Region {
    pub fault: Fault,
    /// Since when the fault lasts, and what is drawn here.
    pub since_ms: u64,
    pub draw: Draw,
    /// Enqueues that came, by second.
    pub arrivals: Vec<u32>,
    /// Those that were more than it could take, by second.
    pub overloads: Vec<u32>,
    /// Probes that came, by second.
    pub probes: Vec<u32>,
    /// Jobs waiting, as of `depth_at_ms`, and how many workers take in a second.
    depth: f64,
    depth_at_ms: u64,
    drain_per_s: f64,
    /// After an outage it takes little at first: (jobs per second when warm, first call since).
    pub cold: Option<(f64, Option<u64>)>,
}

impl Region {
    pub fn new(seed: u64, depth: f64, drain_per_s: f64) -> Self {
        Self {
            fault: Fault::Up,
            since_ms: 0,
            draw: Draw::from_seed(seed),
            arrivals: Vec::new(),
            overloads: Vec::new(),
            probes: Vec::new(),
            depth,
            depth_at_ms: 0,
            drain_per_s,
            cold: None,
        }
    }

    /// Whether its listener is there.
    fn is_up(&self, now_ms: u64) -> bool {
        match self.fault {
            Fault::Down => false,
            Fault::Flapping(period) => (now_ms - self.since_ms) / period % 2 == 1,
            _ => true,
        }
    }

    /// A health probe: whether it succeeds, and after how many milliseconds.
    pub fn probe(&mut self, now_ms: u64, sidecar: usize) -> (bool, u64) {
        count(&mut self.probes, now_ms);
        match self.fault {
            Fault::Silent => (false, CONNECT_TIMEOUT_MS),
            Fault::Partition if sidecar.is_multiple_of(2) => (false, CONNECT_TIMEOUT_MS),
            Fault::Slow(ms) => (ms < CONNECT_TIMEOUT_MS, ms.min(CONNECT_TIMEOUT_MS)),
            _ if !self.is_up(now_ms) => (false, 1),
            _ => (true, self.latency()),
        }
    }

    /// An enqueue: what becomes of it, after how many milliseconds, and whether the job is stored.
    pub fn enqueue(&mut self, now_ms: u64, sidecar: usize) -> (Reply, u64, bool) {
        let latency = self.latency();
        let percent = self.draw.below(100);
        let kind = self.draw.below(3);
        let (reply, ms) = match self.fault {
            Fault::Partition if sidecar.is_multiple_of(2) => return (Reply::Refused, CONNECT_TIMEOUT_MS, false),
            _ if !self.is_up(now_ms) => return (Reply::Refused, 1, false),
            Fault::Silent => (Reply::Silence, CALL_TIMEOUT_MS),
            Fault::LateWrites => (Reply::Silence, CALL_TIMEOUT_MS),
            Fault::Slow(ms) if ms >= CALL_TIMEOUT_MS => (Reply::Silence, CALL_TIMEOUT_MS),
            Fault::Slow(ms) => (Reply::Status(201, false), ms),
            Fault::Grey(share) if percent < share => match kind {
                0 => (Reply::Status(503, true), latency),
                1 => (Reply::Status(502, false), latency),
                _ => (Reply::Silence, 1_000),
            },
            Fault::Refusing(share) if percent < share => (Reply::Status(503, true), latency),
            Fault::Busy if percent < 50 => (Reply::Status(429, false), latency),
            _ => (Reply::Status(201, false), latency),
        };
        count(&mut self.arrivals, now_ms);
        if self.is_overrun(now_ms) {
            count(&mut self.overloads, now_ms);
            return (Reply::Status(503, true), latency, false);
        }
        // Of a lost answer nobody can tell; the region that writes late does store the job.
        let stored = reply == Reply::Status(201, false) || self.fault == Fault::LateWrites;
        if stored {
            self.depth_now(now_ms);
            self.depth += 1.0;
        }
        (reply, ms, stored)
    }

    /// A fetch: what becomes of it, and after how many milliseconds.
    pub fn fetch(&mut self, now_ms: u64, sidecar: usize) -> (Reply, u64) {
        match self.fault {
            Fault::Partition if sidecar.is_multiple_of(2) => (Reply::Refused, CONNECT_TIMEOUT_MS),
            Fault::Silent => (Reply::Silence, CALL_TIMEOUT_MS),
            _ if !self.is_up(now_ms) => (Reply::Refused, 1),
            _ => (Reply::Status(200, false), self.latency()),
        }
    }

    /// Jobs waiting now.
    pub fn depth_now(&mut self, now_ms: u64) -> u64 {
        let elapsed = now_ms.saturating_sub(self.depth_at_ms) as f64 / 1_000.0;
        self.depth = (self.depth - elapsed * self.drain_per_s).max(0.0);
        self.depth_at_ms = now_ms;
        self.depth as u64
    }

    /// From an outage on, it bears a quarter of its usual load at first and all of it ten seconds after the first call.
    fn is_overrun(&mut self, now_ms: u64) -> bool {
        let Some((usual, first)) = &mut self.cold else { return false };
        let warm = (now_ms - *first.get_or_insert(now_ms)) as f64 / 10_000.0;
        let bears = *usual * (0.25 + 0.75 * warm).min(1.0) * 1.25;
        let second = (now_ms / 1_000) as usize;
        f64::from(self.arrivals.get(second).copied().unwrap_or(0)) > bears.max(3.0)
    }

    fn latency(&mut self) -> u64 {
        10 + self.draw.below(20)
    }
}

/// Counts one in its second.
pub fn count(seconds: &mut Vec<u32>, now_ms: u64) {
    let second = (now_ms / 1_000) as usize;
    if seconds.len() <= second {
        seconds.resize(second + 1, 0);
    }
    seconds[second] += 1;
}
