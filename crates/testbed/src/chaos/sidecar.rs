//! The sidecar as a process of its own: started, watched by its log, killed.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;

use super::ask::ask;

/// Lines of a log that are kept.
const LINES_MAX: usize = 4_000;
/// How long a process may take to listen, on a machine that is busy.
const START_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

type Lines = Arc<Mutex<VecDeque<String>>>;

/// A running sidecar. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Sidecar {
    child: Child,
    lines: Lines,
    pub(super) client: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// How it is started.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) config: PathBuf,
    /// Another journal than the configured one.
    pub(super) journal: Option<PathBuf>,
    /// The beginning of a command line that runs the rest of it.
    pub(super) under: Vec<String>,
}

impl Sidecar {
    /// Starts a process, and returns when it listens.
    ///
    /// Errors: a sentence with the end of its log.
    pub(super) async fn start(start: &Start) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| format!("the program does not find itself: {error}"))?;
        let mut line: Vec<String> = start.under.clone();
        line.extend([own.display().to_string(), "run".to_owned(), "--config".to_owned(), text(&start.config)]);
        if let Some(journal) = &start.journal {
            line.extend(["--set".to_owned(), format!("journal.path={}", journal.display())]);
        }
        let (program, arguments) = line.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("the sidecar cannot be started: {error}"))?;
        let lines = Lines::default();
        if let Some(stderr) = child.stderr.take() {
            let lines = Arc::clone(&lines);
            // It ends with the process.
            std::thread::spawn(move || keep(&mut BufReader::new(stderr), &lines));
        }
        // From here on the process is killed in any case.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut sidecar = Self { child, lines, client: nowhere, admin: nowhere };
        let listening = tokio::time::timeout(START_MAX, sidecar.listening()).await;
        match listening {
            Ok(Ok(())) => Ok(sidecar),
            Ok(Err(error)) => Err(format!("{error}\n{}", sidecar.tail(20))),
            Err(_) => Err(format!("the sidecar did not listen within {} s\n{}", START_MAX.as_secs(), sidecar.tail(20))),
        }
    }

    async fn listening(&mut self) -> Result<(), String> {
        loop {
            let started = self.line_with("ojs.federation.started");
            if let Some(line) = started {
                let address = |name: &str| field(&line, name).and_then(|text| text.parse().ok());
                self.client = address("clients").ok_or("the log names no address for clients")?;
                self.admin = address("admin").ok_or("the log names no admin address")?;
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the sidecar ended by itself: {status}"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether it runs, and if not, how it ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// The first line of its log with these words.
    pub(super) fn line_with(&self, words: &str) -> Option<String> {
        self.lines.lock().iter().find(|line| line.contains(words)).cloned()
    }

    /// The last lines of its log.
    pub(super) fn tail(&self, count: usize) -> String {
        let lines = self.lines.lock();
        lines.iter().skip(lines.len().saturating_sub(count)).map(|line| format!("    {line}\n")).collect()
    }

    /// kill -9, and its end.
    pub(super) fn kill(&mut self) {
        // Fails only when it has ended by itself, which is found out elsewhere.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Has it look at its files again.
    pub(super) fn hang_up(&self) {
        // It looks by itself, too, a little later.
        let _ = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status();
    }

    /// SIGTERM, and its end; kill -9 after a while.
    pub(super) async fn end(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        for _ in 0..500 {
            if self.ended().is_some() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.kill();
    }

    /// Its counters of these names, summed over their labels; `None` when it does not answer.
    pub(super) async fn count(&self, names: &[&str]) -> Option<f64> {
        let admin = self.admin.to_string();
        let asked = ask(&admin, Method::GET, "/metrics", Bytes::new());
        let (_, body) = tokio::time::timeout(Duration::from_secs(2), asked).await.ok()?.ok()?;
        let text = String::from_utf8_lossy(&body);
        let of = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            let ours = names.iter().any(|wanted| name.strip_prefix("ojs_federation_") == Some(wanted));
            ours.then(|| value.parse::<f64>().ok()).flatten()
        };
        Some(text.lines().filter_map(of).sum())
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
    }
}

fn keep(log: &mut impl std::io::BufRead, lines: &Lines) {
    for line in log.lines() {
        // A line that is no text is none of ours.
        let Ok(line) = line else { continue };
        let mut lines = lines.lock();
        if lines.len() >= LINES_MAX {
            // The beginning, with the addresses and the trouble with the journal, stays.
            lines.remove(LINES_MAX / 4);
        }
        lines.push_back(line);
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A field of a line in the log's format for people.
fn field(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    Some(rest.split('"').next()?.split(' ').next()?.to_owned())
}
