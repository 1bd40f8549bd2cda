//! A pod whose own network is down: the regions keep their verdicts, and everybody who asks is told so.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::StatusCode;
use ojs_testbed::{Fault, When};
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::support::{Federation, Setup, Wire, eventually, pinned, program_path};

/// Longer than the interval of probes, jitter included.
const PROBE_DUE: Duration = Duration::from_secs(12);

async fn federation_health(federation: &Federation) -> Value {
    federation.client.get("/v1/federation/health").await.json()
}

async fn network_notes(federation: &Federation) -> usize {
    let notes = federation.admin.get("/readyz").await.json()["notes"].take();
    notes.as_array().unwrap().iter().filter(|note| note.as_str().unwrap().starts_with("network: ")).count()
}

#[tokio::test]
async fn a_sidecar_that_suspects_itself_says_so_until_a_region_is_heard() {
    let federation = Setup::default().steered().regions(2).start().await;
    for region in &federation.regions {
        region.faults().add(When::always(), Fault::Refuse);
        region.cut_connections().await;
    }
    federation.advance(PROBE_DUE);
    eventually("both failed", async || (federation.health(0), federation.health(1)) == ("unhealthy", "unhealthy"))
        .await;
    federation.settle().await;
    let document = federation_health(&federation).await;
    assert_eq!((&document["status"], &document["self_suspect"]), (&json!("unhealthy"), &json!(false)));
    assert_eq!(network_notes(&federation).await, 0);
    federation.shared.registry.on_own_check(false);
    let document = federation_health(&federation).await;
    assert_eq!((&document["healthy_regions"], &document["self_suspect"]), (&json!(2), &json!(true)));
    assert_eq!((network_notes(&federation).await, federation.metric("self_suspect").await), (1, 1.0));
    federation.regions[1].faults().clear();
    assert_eq!(federation.client.enqueue(pinned("eu-west-1", "heard")).await.status, StatusCode::CREATED);
    assert_eq!(federation_health(&federation).await["self_suspect"], false);
    assert_eq!((network_notes(&federation).await, federation.metric("self_suspect").await), (0, 0.0));
}

/// Two regions and a sidecar in a network namespace of their own, whose only interface the test takes down and up. The ports are those of the
/// namespace, which nothing else uses.
const SCRIPT: &str = r#"
    ip link set lo up
    "$0" region --listen 127.0.0.1:8081 --id r-1 &
    "$0" region --listen 127.0.0.1:8082 --id r-2 &
    exec "$0" run --config "$1"
"#;

struct Pod(Child);

impl Pod {
    /// None where there are no namespaces.
    fn run(files: &Path) -> Option<Self> {
        let namespaces = ["-Urnpf", "--kill-child"];
        let probe = Command::new("unshare").args(namespaces).args(["ip", "link", "set", "lo", "up"]).status();
        if !probe.is_ok_and(|status| status.success()) {
            return None;
        }
        let config = files.join("config.yaml");
        let yaml = format!(
            "local_region: r-1\ninsecure_dev: true\nlisten: {{ clients: ['unix:{}'], admin: '127.0.0.1:9464' }}\n\
             health_check: {{ interval: 1s, timeout: 500ms }}\nlimits: {{ connect_timeout: 1s, call_timeout: 2s }}\nregions:\n  \
             - {{ id: r-1, url: 'http://127.0.0.1:8081' }}\n  - {{ id: r-2, url: 'http://127.0.0.1:8082' }}\n",
            files.join("socket").display()
        );
        std::fs::write(&config, yaml).unwrap();
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", SCRIPT]).arg(program_path()).arg(&config);
        Some(Self(command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap()))
    }

    fn link(&self, state: &str) {
        let pid = self.0.id().to_string();
        let line = ["-t", &pid, "-U", "-n", "--preserve-credentials", "ip", "link", "set", "lo", state];
        assert!(Command::new("nsenter").args(line).status().unwrap().success());
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status and the document of a call over the socket; none where it is not served yet.
async fn call(files: &Path, head: &str, body: &str) -> Option<(u16, Value)> {
    let mut wire = Wire::new(UnixStream::connect(files.join("socket")).await.ok()?);
    let length = body.len();
    wire.send(&format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
    .await;
    let answer = wire.answer().await;
    Some((answer.status.as_u16(), answer.json()))
}

#[tokio::test]
async fn a_pod_whose_link_is_down_keeps_its_verdicts_and_works_when_it_is_back() {
    let files = tempfile::tempdir().unwrap();
    let Some(pod) = Pod::run(files.path()) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no user and network namespaces here");
        return;
    };
    let health = async || call(files.path(), "GET /v1/federation/health", "").await.map(|(_, document)| document);
    let shows = async |healthy: u64, suspect: bool| {
        health().await.is_some_and(|it| it["healthy_regions"] == healthy && it["self_suspect"] == suspect)
    };
    eventually("both regions are well", async || shows(2, false).await).await;
    pod.link("down");
    eventually("it suspects itself", async || shows(2, true).await).await;
    let (status, _) = call(files.path(), "POST /ojs/v1/jobs", r#"{"type":"email.send","args":[]}"#).await.unwrap();
    assert_ne!(status, 201);
    pod.link("up");
    let enqueued = async || call(files.path(), "POST /ojs/v1/jobs", r#"{"type":"email.send","args":[]}"#).await;
    eventually("a job is stored", async || enqueued().await.is_some_and(|(status, _)| status == 201)).await;
    eventually("it trusts itself", async || shows(2, false).await).await;
}
