//! The hub of the bench: its files, its process, and its figures.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ojs_testbed::Authority;

/// The kernel's unit of processor time in `/proc`, on every Linux. Units: a second.
const TICKS: f64 = 100.0;

/// The files of a hub and of its clients.
pub(crate) struct Stage {
    dir: tempfile::TempDir,
    port: u16,
    admin: u16,
}

/// A running hub.
pub(crate) struct Hub {
    child: Child,
    program: PathBuf,
    admin: u16,
    client: Vec<String>,
}

/// A port that nothing uses now. Another process could take it before it is bound; the bench then fails and is run again.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Stage {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("bench");
        authority.write_ca(dir.path(), "hub").unwrap();
        authority.server(&["localhost", "127.0.0.1"]).write_to(dir.path(), "hub").unwrap();
        for (stem, name) in [("pod", "spiffe://bench/pod"), ("ann", "spiffe://bench/ops/ann")] {
            authority.client(name).write_to(dir.path(), stem).unwrap();
        }
        let stage = Self { dir, port: free_port(), admin: free_port() };
        let (port, admin) = (stage.port, stage.admin);
        let hub = format!(
            "listen: 127.0.0.1:{port}
admin: 127.0.0.1:{admin}
tls: {{ cert: hub.cert.pem, key: hub.key.pem, client_ca: hub.ca.pem }}
record: {{ path: hub.db }}
log: {{ level: warn }}
access:
  - {{ san: \"spiffe://bench/pod\", role: sidecar }}
  - {{ san: \"spiffe://bench/ops/*\", role: operator, scopes: [read, operate] }}
"
        );
        std::fs::write(stage.path("hub.yaml"), hub).unwrap();
        let regions: String =
            (0..3).map(|id| format!("  - {{ id: r-{id}, url: \"http://127.0.0.1:{}\" }}\n", 9 + id)).collect();
        let sidecar = format!(
            "local_region: r-0
insecure_dev: true
regions:
{regions}hub:
  urls: [\"https://localhost:{port}\"]
  tls: {{ ca: hub.ca.pem, cert: pod.cert.pem, key: pod.key.pem }}
"
        );
        std::fs::write(stage.path("sidecar.yaml"), sidecar).unwrap();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The configuration of a sidecar of this hub.
    pub(crate) fn sidecar(&self) -> PathBuf {
        self.path("sidecar.yaml")
    }

    /// Runs the hub; it serves when this returns.
    pub(crate) fn run(&self) -> Hub {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_ojs-sidecar"));
        let mut command = Command::new(&program);
        command.args(["hub", "--config"]).arg(self.path("hub.yaml")).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let file = |name: &str| self.path(name).display().to_string();
        let client =
            ["--hub-ca", &file("hub.ca.pem"), "--hub-cert", &file("ann.cert.pem"), "--hub-key", &file("ann.key.pem")];
        let url = format!("https://localhost:{}", self.port);
        let client = ["--hub", &url].into_iter().chain(client).map(str::to_owned).collect();
        let hub = Hub { child, program, admin: self.admin, client };
        while hub.get("/readyz").is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        hub
    }
}

impl Hub {
    /// What the admin listener answers.
    fn get(&self, path: &str) -> Option<String> {
        use std::io::{Read as _, Write as _};
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", self.admin)).ok()?;
        write!(socket, "GET {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }

    /// How many sidecars hold a feed.
    pub(crate) fn connected(&self) -> usize {
        let metrics = self.get("/metrics").unwrap_or_default();
        let value = metrics.lines().find_map(|line| line.strip_prefix("ojs_hub_sidecars_connected "));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    }

    /// Sets a switch, and waits for the answer.
    pub(crate) async fn order(&self, switch: &str, region: &str) {
        let mut command = Command::new(&self.program);
        command.args([switch, region, "--for", "1h", "--reason", "bench", "--ticket", "B-1", "--author", "bench"]);
        command.args(&self.client).stdout(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.status()).await.unwrap();
        assert!(done.unwrap().success());
    }

    /// Units: kilobytes.
    pub(crate) fn resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// The processor time that it has used.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the program, in parentheses, may have spaces.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11..13].iter().map(|it| it.parse::<f64>().unwrap()).sum();
        Duration::from_secs_f64(ticks / TICKS)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
