//! How fast the machine is right now: a walk through memory that takes always the same steps, on both cores at once. A virtual machine
//! shares its cores with neighbours of whom its own kernel knows nothing, and who take a third of them for seconds at a time.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::cases::{PROXY, REST};
use super::stage::this_program;

/// Walks within the first and the second level of the cache, of which a neighbour on the other half of the core takes its part, with so
/// many steps that both take about as long. Units: lines of 64 bytes, steps.
const WALKS: [(usize, usize); 2] = [(256, 74_000), (4096, 26_000)];
/// How long it walks.
const TIME: Duration = Duration::from_millis(30);
/// How long a neighbour is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// So often it is looked at behind a measurement.
const LOOKS: usize = 4;
/// How often the first time, when nobody knows what is fast.
const FIRST: usize = 20;

/// The least time that each core has taken. Units: nanoseconds for all walks once.
static LEAST: Mutex<[f64; 2]> = Mutex::new([f64::INFINITY; 2]);

/// Waits until no core is slower than it may be, but not for ever; whether that came.
pub(crate) fn wait(slower_max: f64) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if slower() <= slower_max {
            return true;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

/// How much slower than at its best it is when what was begun has come to its end: large jobs are still on their way for a while.
pub(crate) fn slower_behind(slower_max: f64) -> f64 {
    let mut least = slower();
    for _ in 1..LOOKS {
        if least > slower_max {
            std::thread::sleep(PAUSE);
            least = least.min(slower());
        }
    }
    least
}

/// How much slower the slower core is now than the fastest that it has been since the bench began. Units: percent.
fn slower() -> f64 {
    let mut least = LEAST.lock().unwrap();
    let times = if least[0].is_finite() { 1 } else { FIRST };
    let mut slower = 0.0;
    for _ in 0..times {
        let now = both();
        for (least, now) in least.iter_mut().zip(now) {
            *least = least.min(now);
        }
        slower = now.iter().zip(*least).map(|(now, least)| (now / least - 1.0) * 100.0).fold(0.0, f64::max);
    }
    slower
}

fn both() -> [f64; 2] {
    let start = |core: usize| {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), &this_program(), "gauge"]).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    [PROXY, REST].map(start).map(|it| {
        let output = it.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("the gauge needs taskset and two cores")
    })
}

/// As a process: says how long all walks took on average.
pub(crate) fn run() {
    let mut walks = WALKS.map(|(lines, steps)| (ring(lines), steps, 0));
    for (ring, _, place) in &mut walks {
        *place = walk(ring, ring.len() / LINE, *place);
    }
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < TIME {
        for (ring, steps, place) in &mut walks {
            *place = walk(ring, *steps, *place);
        }
        rounds += 1;
    }
    println!("{}", begun.elapsed().as_secs_f64() * 1e9 / f64::from(rounds));
}

/// Numbers in a line of the cache.
const LINE: usize = 8;

/// Lines that each name the next, all of them in one ring without any order that the processor could foresee.
fn ring(lines: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut random: u64 = 1;
    for last in (1..lines).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(last, (random >> 33) as usize % last);
    }
    let mut ring = vec![0; lines * LINE];
    for (at, line) in order.iter().enumerate() {
        ring[line * LINE] = order[(at + 1) % lines] * LINE;
    }
    ring
}

/// Where so many steps from there lead.
fn walk(ring: &[usize], steps: usize, from: usize) -> usize {
    black_box((0..steps).fold(from, |place, _| ring[place]))
}
