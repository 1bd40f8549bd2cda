//! The programs under measurement, as processes of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Both ends of ten thousand connections need descriptors; children inherit the limit.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// A process that ends with this value.
pub struct Program {
    child: Child,
    pub address: SocketAddr,
}

impl Program {
    /// A demo region.
    pub fn region() -> Self {
        let mut child =
            command(&["region", "--listen", "127.0.0.1:0", "--id", "good"]).stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let (_, rest) = line.split_once("http://").unwrap();
        let address = rest.split(' ').next().unwrap().trim_end_matches('/').parse().unwrap();
        Self { child, address }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A sidecar before two regions.
pub struct Sidecar {
    program: Program,
    pub address: SocketAddr,
    _files: tempfile::TempDir,
}

/// What the process uses.
#[derive(Default, Clone, Copy)]
pub struct Usage {
    pub rss_kib: u64,
    pub files: usize,
}

impl Usage {
    pub fn max(self, other: Self) -> Self {
        Self { rss_kib: self.rss_kib.max(other.rss_kib), files: self.files.max(other.files) }
    }
}

impl Sidecar {
    /// With so many threads for calls; 0 is as many as it is made for.
    pub fn start(good: SocketAddr, mad: SocketAddr, threads: usize) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("config.yaml");
        // A region that misbehaves stays in use, and probes and retries are not what is measured.
        let yaml = format!(
            "local_region: good\ninsecure_dev: true\nlog: {{ level: info, format: text, access: \"off\" }}\n\
             limits: {{ worker_threads: {threads} }}\n\
             listen: {{ clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }}\n\
             circuit_breaker: {{ failure_threshold: 1000000, ratio_min_requests: 1000000 }}\n\
             health_check: {{ timeout: 30s }}\n\
             regions: [{{ id: good, url: \"http://{good}\" }}, {{ id: mad, url: \"http://{mad}\" }}]\n"
        );
        std::fs::write(&path, yaml).unwrap();
        let mut child = command(&["run", "--config", path.to_str().unwrap()]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let started = loop {
            let Some(Ok(line)) = lines.next() else { panic!("the sidecar does not start: {said}") };
            if line.contains("ojs.federation.started") {
                break line;
            }
            said.push_str(&line);
        };
        // What it says later is read, so that it never waits.
        std::thread::spawn(move || lines.for_each(drop));
        let [address, admin] = ["clients", "admin"].map(|name| {
            let (_, rest) = started.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse::<SocketAddr>().unwrap()
        });
        while !is_ready(admin) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { program: Program { child, address }, address, _files: files }
    }

    pub fn usage(&self) -> Usage {
        let process = format!("/proc/{}", self.program.child.id());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let files = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
        Usage { rss_kib: rss.trim().trim_end_matches(" kB").parse().unwrap(), files }
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO_BIN_EXE_ojs-sidecar").unwrap());
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

fn is_ready(admin: SocketAddr) -> bool {
    let mut socket = TcpStream::connect(admin).unwrap();
    socket.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    answer.starts_with("HTTP/1.1 200")
}
