//! The load that goes as fast as it can: wrk, from the distribution's packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::figures::Sample;
use super::gauge;
use super::machine::{Process, worked};

const DONE: &str = "
done = function(summary, latency)
  io.write(string.format('RESULT %d %d %d %d %d %d %d\\n', summary.requests, summary.duration,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout, summary.errors.status,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
";

/// The script that posts one body over and over.
pub(crate) fn script(dir: &Path, body: &str) -> PathBuf {
    let path = dir.join(format!("post-{}.lua", body.len()));
    let file = dir.join(format!("body-{}.json", body.len()));
    fs::write(&file, body).unwrap();
    let head = format!(
        "local file = io.open('{}')\nwrk.method = 'POST'\nwrk.body = file:read('*a')\nfile:close()\n\
         wrk.headers['Content-Type'] = 'application/openjobspec+json'\n",
        file.display()
    );
    fs::write(&path, format!("{head}{DONE}")).unwrap();
    path
}

/// How long others are given to come to an end.
const OTHERS: Duration = Duration::from_secs(3);

/// What is sent: how, from which core, for how long.
pub(crate) struct Load<'l> {
    pub(crate) core: Option<usize>,
    pub(crate) script: &'l Path,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    /// How much others may use of the machine. Units: percent of a core.
    pub(crate) foreign_max: f64,
    /// How much slower than at its best the machine may be right before it and right after. Units: percent.
    pub(crate) slower_max: f64,
}

/// One load of wrk against a port: what it saw, and what the proxy used meanwhile.
///
/// `None` when others used more of the machine than they may, as its kernel tells or by how fast it is.
pub(crate) fn load(what: &Load<'_>, port: u16, proxy: Option<&Process>, region: &Process) -> Option<Sample> {
    let Load { core, script, connections, time, foreign_max, slower_max } = *what;
    if !gauge::wait(slower_max) {
        eprintln!("  not begun: the machine has been slower than at its best for long");
        return None;
    }
    let used = || (proxy.map_or(0.0, Process::cpu), region.cpu(), worked());
    let before = used();
    let begun = std::time::Instant::now();
    let threads = if core.is_some() || connections == 1 { "1" } else { "2" };
    let mut command = match core {
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string(), "wrk"]);
            command
        }
        None => Command::new("wrk"),
    };
    command.args(["-t", threads, "-c", &connections.to_string(), "-d", &format!("{}s", time.as_secs())]);
    command.args(["--timeout", "30s", "-s"]).arg(script).arg(format!("http://127.0.0.1:{port}/ojs/v1/jobs"));
    // The shell's `times` tells what wrk itself has used.
    let timed = format!("{} ; times", shell(&command));
    let output = Command::new("bash").args(["-c", &timed]).stderr(Stdio::inherit()).output().unwrap();
    let elapsed = begun.elapsed().as_secs_f64();
    let after = used();
    let text = String::from_utf8_lossy(&output.stdout);
    let own = times(&text);
    let (proxy_cpu, region_cpu) = (after.0 - before.0, after.1 - before.1);
    let foreign = (after.2 - before.2 - proxy_cpu - region_cpu - own).max(0.0) / elapsed * 100.0;
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT ")).unwrap_or_else(|| panic!("wrk said: {text}"));
    let numbers: Vec<f64> = line.split(' ').map(|it| it.parse().unwrap()).collect();
    assert!(numbers[2] == 0.0 && numbers[3] == 0.0, "wrk counts errors: {text}");
    if foreign > foreign_max {
        eprintln!("  thrown away: others used {foreign:.0} % of a core");
        std::thread::sleep(OTHERS);
        return None;
    }
    // Before what looks at the machine.
    let rss = proxy.map_or(0.0, Process::rss);
    let slower = gauge::slower_behind(slower_max);
    if slower > slower_max {
        eprintln!("  thrown away: the machine is {slower:.0} % slower than at its best");
        return None;
    }
    Some(Sample {
        rate: numbers[0] / (numbers[1] / 1e6),
        cpu: proxy_cpu / numbers[0] * 1e5,
        p50: numbers[4],
        p99: numbers[5],
        p999: numbers[6],
        rss,
    })
}

fn shell(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// The seconds of a shell's children, from the last line of its `times`.
fn times(text: &str) -> f64 {
    let seconds = |word: &str| {
        let (minutes, rest) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + rest.parse::<f64>().unwrap()
    };
    text.lines().next_back().unwrap().split_whitespace().map(seconds).sum()
}
