//! What the kernel says of processes and of the machine: CPU time, memory, cores.

use std::fs;
use std::process::{Child, Command, Stdio};

/// Clock ticks a second in /proc, on every Linux of today.
const TICKS: f64 = 100.0;

/// A process on cores of its own, with its descendants; ended when it is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it, on the given core where there is one; the system ends it if the bench is killed, whose peers would disturb
    /// every measurement after it. Only the main thread starts processes: what counts is the end of the thread that did.
    pub(crate) fn start(core: Option<usize>, program: &str, arguments: &[String]) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        if let Some(core) = core {
            command.args(["taskset", "-c", &core.to_string()]);
        }
        command.arg(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap_or_else(|error| panic!("setpriv, which starts {program}: {error}")) }
    }

    /// Seconds of CPU that it and its children have used.
    pub(crate) fn cpu(&self) -> f64 {
        self.family().iter().filter_map(|pid| cpu_of(*pid)).sum()
    }

    /// Resident memory of it and its children. Units: MB of 1 000 000 bytes.
    pub(crate) fn rss(&self) -> f64 {
        self.family().iter().filter_map(|pid| rss_of(*pid)).sum()
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn end(mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }

    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.child.id()];
        let parents = parents();
        let mut next = 0;
        while next < family.len() {
            let parent = family[next];
            family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        family
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fields of /proc/PID/stat behind the name, which may contain anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn parents() -> Vec<(u32, u32)> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, stat(pid)?.get(1)?.parse().ok()?))).collect()
}

fn cpu_of(pid: u32) -> Option<f64> {
    let stat = stat(pid)?;
    let ticks = |index: usize| stat.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

fn rss_of(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0 / 1e6)
}

/// Seconds that all cores together have worked for processes since the machine was started.
pub(crate) fn worked() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<f64> =
        text.lines().next().unwrap().split_whitespace().skip(1).map(|it| it.parse().unwrap()).collect();
    (ticks[0] + ticks[1] + ticks[2]) / TICKS
}

/// One line on what this was run on.
pub(crate) fn described() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|it| it.strip_prefix("model name"))
        .map_or("", |it| it.trim_start_matches([' ', '\t', ':']));
    let cores = cpu.lines().filter(|it| it.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores ({model}), Linux {}", kernel.trim())
}
