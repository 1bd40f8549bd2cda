//! The program as a service manager, an image and an editor run it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::files::{check_judged, read};
use crate::support::program_path;

/// Bounds every wait; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sidecar whose only region is down, and the manager that it reports to.
struct Running {
    child: Child,
    admin: String,
    manager: UnixDatagram,
    _files: tempfile::TempDir,
}

impl Running {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let socket = files.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        // A port that was free a moment ago: nobody answers there.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = files.path().join("config.yaml");
        let yaml = format!(
            "insecure_dev: true\nlocal_region: here\nregions: [{{ id: here, url: 'http://{closed}', bearer_token_file: {token:?} }}]\n\
             listen: {{ clients: ['127.0.0.1:0'], admin: '127.0.0.1:0' }}\nlog: {{ format: json }}\nshutdown: {{ drain_idle: 0s }}\n",
            token = files.path().join("token"),
        );
        std::fs::write(files.path().join("token"), "t").unwrap();
        std::fs::write(&config, yaml).unwrap();
        let mut child = Command::new(program_path())
            .args(["run", "--config"])
            .arg(&config)
            .env("NOTIFY_SOCKET", &socket)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let admin = log.by_ref().find_map(|line| {
            let line = line.unwrap();
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            let text = line.to_string();
            text.contains("ojs.federation.started").then(|| field(&line, "admin"))
        });
        // Read on, so that the program never waits for us.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, admin: admin.unwrap(), manager, _files: files }
    }

    fn heard(&self) -> String {
        let mut heard = [0; 256];
        let length = self.manager.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    }

    fn healthcheck(&self, more: &[&str]) -> Output {
        healthcheck(&self.admin, more)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn healthcheck(admin: &str, more: &[&str]) -> Output {
    Command::new(program_path()).args(["healthcheck", "--address", admin]).args(more).output().unwrap()
}

/// A field of a log line, wherever the format puts it.
fn field(line: &Value, name: &str) -> String {
    let found = line.get(name).or_else(|| line["fields"].get(name));
    found.and_then(Value::as_str).unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
}

#[test]
fn the_manager_is_told_of_readiness_and_of_the_end_while_every_region_is_down() {
    let mut running = Running::start();
    assert_eq!(running.heard(), "READY=1\n");
    let pid = running.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(running.heard(), "STOPPING=1\n");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_health_check_is_content_with_what_lives_and_with_nothing_else() {
    let running = Running::start();
    assert_eq!(running.heard(), "READY=1\n");
    for more in [&[][..], &["--ready"]] {
        let output = running.healthcheck(more);
        assert_eq!((output.status.code(), output.stdout.len(), output.stderr.len()), (Some(0), 0, 0), "{more:?}");
    }
    let admin = running.admin.clone();
    drop(running);
    let output = healthcheck(&admin, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&admin), "{output:?}");
}

#[test]
fn the_health_check_says_what_is_wrong_with_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 8\r\n\r\nstarting").unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    let output = healthcheck(&address, &["--ready"]);
    assert!(answering.join().unwrap().starts_with("GET /readyz HTTP/1.1\r\n"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "/readyz answered 503: starting\n");
}

#[test]
fn the_schema_command_prints_the_schema_file() {
    let output = Command::new(program_path()).arg("schema").output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), read("config/schema.json"));
}

#[test]
fn promtool_accepts_the_exposition() {
    let running = Running::start();
    let mut stream = TcpStream::connect(&running.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    check_judged("promtool", &["check", "metrics"], body);
}
