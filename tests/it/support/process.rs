//! The program as a process of its own, as operators run it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use super::{Client, eventually};

/// A process that ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; none after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the program with these arguments and variables and nothing else in its environment, until it ends by itself.
pub fn command(arguments: &[&str], env: &[(&str, &str)], stdin: &str) -> Ended {
    let mut child = program(arguments).envs(env.iter().copied()).stdin(Stdio::piped()).spawn().unwrap();
    // A program that reads no input has closed it by now, which is its right.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// Everything that it wrote.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// A running sidecar.
pub struct Process {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    pub client: Client,
    pub admin: Client,
    /// The address of the first client listener as text.
    pub client_address: String,
}

impl Process {
    /// Runs a sidecar with this configuration, whose log must show `info`; returns when it is ready.
    pub async fn run(config: &Path, arguments: &[&str]) -> Self {
        Self::run_under(&[], config, arguments).await
    }

    /// The same, as the end of another command's line.
    pub async fn run_under(under: &[&str], config: &Path, arguments: &[&str]) -> Self {
        let process = Self::begin_under(under, config, arguments).await;
        eventually("the sidecar is ready", async || process.admin.get("/readyz").await.status == 200).await;
        process
    }

    /// The same; returns once it has said where it listens.
    pub async fn begin_under(under: &[&str], config: &Path, arguments: &[&str]) -> Self {
        let begun = Self::try_begin_under(under, config, arguments).await;
        begun.unwrap_or_else(|log| panic!("it has ended: {}", log.join("\n")))
    }

    /// The same.
    ///
    /// Errors: the log of one that has ended before.
    pub async fn try_begin_under(under: &[&str], config: &Path, arguments: &[&str]) -> Result<Self, Vec<String>> {
        let own = program_path();
        let line = [under, &[own.to_str().unwrap(), "run", "--config", config.to_str().unwrap()], arguments].concat();
        let mut child = started(Command::new(line[0]).args(&line[1..])).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, seen) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        let reader = std::thread::spawn(move || lines.for_each(|line| seen.lock().unwrap().push(line.unwrap())));
        let mut started = None;
        eventually("the sidecar has started", async || {
            let has_ended = child.try_wait().unwrap().is_some();
            started = log.lock().unwrap().iter().find(|line| line.contains("ojs.federation.started")).cloned();
            started.is_some() || has_ended
        })
        .await;
        let Some(started) = started else { return Err(log.lock().unwrap().clone()) };
        let client_address = field(&started, "clients").split(' ').next().unwrap().to_owned();
        let client = Client::new(client_address.parse().unwrap());
        let admin = Client::new(field(&started, "admin").parse().unwrap());
        Ok(Self { child, log, reader: Some(reader), client, admin, client_address })
    }

    /// Every line that it has logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line with these words.
    pub async fn wait_for_line(&self, words: &str) {
        eventually(words, async || self.log().iter().any(|line| line.contains(words))).await;
    }

    /// How much memory it has.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends the signal of this name, without `SIG`.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for its end, and returns its status and its whole log.
    pub async fn ended(&mut self) -> (ExitStatus, Vec<String>) {
        let mut status = None;
        eventually("the sidecar has ended", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        self.reader.take().unwrap().join().unwrap();
        (status.unwrap(), self.log())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program: cargo names it when it runs the tests, and else it lies where it was built with them.
pub fn program_path() -> PathBuf {
    std::env::var_os("CARGO_BIN_EXE_ojs-sidecar")
        .map_or_else(|| std::env::current_exe().unwrap().parent().unwrap().with_file_name("ojs-sidecar"), PathBuf::from)
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(program_path());
    started(command.args(arguments));
    command
}

/// With nothing of ours but the pipes.
fn started(command: &mut Command) -> &mut Command {
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// A field of a log line in either format.
fn field(line: &str, name: &str) -> String {
    let rest = line.split_once(&format!("\"{name}\":\"")).or_else(|| line.split_once(&format!(" {name}=\"")));
    let (_, rest) = rest.unwrap_or_else(|| panic!("{line} has no {name}"));
    rest.split('"').next().unwrap().to_owned()
}
