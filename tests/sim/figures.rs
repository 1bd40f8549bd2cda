//! The figures of `docs/failure.md`, at a thousand sidecars, each beside a policy without what this program adds.

use std::fs;
use std::path::Path;

use crate::engine::Sim;
use crate::measure::{Flaps, Ramp, STAMPEDE_MAX, Stampede};
use crate::scenarios;
use crate::svg::{Chart, Line};

const SIDECARS: usize = 1_000;
const SVG_BYTES_MAX: usize = 40 * 1024;
const FILE: &str = "docs/failure.md";
const OPEN: &str = "<!-- figures -->\n";
const CLOSE: &str = "<!-- /figures -->\n";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Two runs at the same time: this program's policy and the naive one.
fn both(scenario: impl Fn(bool) -> crate::scenario::Scenario + Sync) -> [Sim; 2] {
    std::thread::scope(|scope| {
        let naive = scope.spawn(|| Sim::new(scenario(true)).run());
        [Sim::new(scenario(false)).run(), naive.join().unwrap()]
    })
}

fn draw(name: &str, chart: &Chart) {
    let svg = chart.to_svg();
    assert!(svg.len() < SVG_BYTES_MAX, "{name}: {} bytes", svg.len());
    if std::env::var_os("FAILURE_UPDATE").is_some() {
        let folder = root().join("docs/failure");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.svg")), svg).unwrap();
    }
}

fn by_second(name: &str, seconds: &[u32]) -> Line {
    let points = seconds.iter().enumerate().map(|(second, &count)| (second as f64, f64::from(count))).collect();
    Line { name: name.to_owned(), points }
}

fn smoothed(seconds: &[u32], over: usize) -> Vec<u32> {
    seconds.chunks(over).flat_map(|chunk| vec![chunk.iter().sum::<u32>() / chunk.len() as u32; chunk.len()]).collect()
}

fn stampede() -> String {
    let [ours, naive] = both(|naive| scenarios::stampede(6, SIDECARS, naive)).map(|sim| Stampede::of(&sim));
    let worst = |name: &str, run: &Stampede| {
        let windows = run.shares[0].len();
        let worst = |window: usize| run.shares.iter().map(|shares| shares[window]).fold(0.0, f64::max);
        Line { name: name.to_owned(), points: (0..windows).map(|it| (it as f64 * 10.0, worst(it))).collect() }
    };
    let lines = vec![worst("drawn among equals", &ours), worst("least loaded", &naive)];
    let title = "The busiest region's share of the jobs, over its fair share".to_owned();
    draw("stampede", &Chart { title, x: "seconds", y: "", lines });
    println!(
        "stampede: worst region at {:.2} of its fair share; least loaded on stale figures {:.2}",
        ours.worst, naive.worst
    );
    assert!(ours.worst <= STAMPEDE_MAX && naive.worst > 3.0, "{} {}", ours.worst, naive.worst);
    let row =
        format!("| overflow: the busiest region over its fair share | {:.2} | {:.2} |\n", ours.worst, naive.worst);
    assert!(ours.problems().is_empty());
    row
}

fn recovery() -> String {
    let [ours, naive] = both(|naive| scenarios::recovery(2, SIDECARS, naive)).map(|sim| Ramp::of(&sim));
    let lines = vec![
        by_second("with the ramp", &ours.arrivals),
        by_second("at once", &naive.arrivals),
        by_second("refused, at once", &naive.overloads),
    ];
    let title = "Calls a second to a region that was gone from 14 s to 44 s".to_owned();
    draw("recovery", &Chart { title, x: "seconds", y: "", lines });
    println!(
        "recovery: {} overrun, {} tripped again, full after {:?} s",
        ours.overrun, ours.second_trips, ours.full_after
    );
    println!("          at once: {} overrun, {} tripped again", naive.overrun, naive.second_trips);
    let full = ours.full_after.map_or("never".to_owned(), |it| it.to_string());
    let naive_full = naive.full_after.map_or("never".to_owned(), |it| it.to_string());
    let rows = format!(
        "| recovery: calls that a cold region could not take | {} | {} |\n| recovery: sidecars that lost it again | {} | {} |\n| recovery: seconds from the first call to nine tenths of the traffic | {full} | {naive_full} |\n",
        ours.overrun, naive.overrun, ours.second_trips, naive.second_trips
    );
    assert!(naive.overrun > 0);
    assert_eq!(ours.problems(), Vec::<String>::new());
    rows
}

fn flapping() -> String {
    let [ours, naive] = both(|naive| scenarios::flapping(4, SIDECARS, naive)).map(|sim| Flaps::of(&sim));
    let lines = vec![
        by_second("held down", &smoothed(&ours.arrivals, 5)),
        by_second("not held down", &smoothed(&naive.arrivals, 5)),
    ];
    let title = "Calls a second to a region that changes every 15 s from 20 s to 620 s".to_owned();
    draw("flapping", &Chart { title, x: "seconds", y: "", lines });
    println!(
        "flapping: {:.1} changes a sidecar, at most {}; not held {:.1}, {}",
        ours.mean, ours.most, naive.mean, naive.most
    );
    let row = format!(
        "| flapping: changes of mind of a sidecar in ten minutes, mean (most) | {:.1} ({}) | {:.1} ({}) |\n",
        ours.mean, ours.most, naive.mean, naive.most
    );
    assert!(naive.mean > 2.0 * ours.mean);
    assert_eq!(ours.problems(), Vec::<String>::new());
    row
}

fn probes() -> String {
    let [ours, naive] = both(|naive| scenarios::probes(8, SIDECARS, naive));
    let [ours, naive] = [&ours, &naive].map(|sim| sim.regions[0].probes.clone());
    let lines = vec![by_second("jittered, silent while open", &ours), by_second("plain", &naive)];
    let title = "Health probes a second to a region that is down from 40 s to 130 s".to_owned();
    draw("probes", &Chart { title, x: "seconds", y: "", lines });
    let during = |probes: &[u32]| probes.iter().skip(41).take(89).sum::<u32>();
    let peak = |probes: &[u32]| probes.iter().skip(30).max().copied().unwrap_or(0);
    println!(
        "probes: peak {} a second, {} in the outage; plain {}, {}",
        peak(&ours),
        during(&ours),
        peak(&naive),
        during(&naive)
    );
    assert!(during(&ours) < during(&naive) && peak(&ours) <= peak(&naive));
    format!(
        "| probes: the most in one second, after the start | {} | {} |\n| probes: to the region during 89 s of its outage | {} | {} |\n",
        peak(&ours),
        peak(&naive),
        during(&ours),
        during(&naive)
    )
}

/// Everything at a thousand sidecars, measured, held to its bounds, and written where the environment asks for it.
#[test]
fn figures() {
    let table = format!(
        "| at 1 000 sidecars | here | naive |\n|---|---|---|\n{}{}{}{}",
        stampede(),
        recovery(),
        flapping(),
        probes()
    );
    let text = fs::read_to_string(root().join(FILE)).unwrap();
    let (before, rest) = text.split_once(OPEN).unwrap();
    let (_, after) = rest.split_once(CLOSE).unwrap();
    if std::env::var_os("FAILURE_UPDATE").is_some() {
        fs::write(root().join(FILE), format!("{before}{OPEN}{table}{CLOSE}{after}")).unwrap();
    }
}
