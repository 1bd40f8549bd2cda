//! The daemon as a process of its own: signals and exit codes.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

use ojs_testbed::{DemoRegion, RegionOptions};
use serde_json::Value;

use crate::support::{Client, eventually, program_path};

mod handover;

/// A running `ojs-sidecar run`; killed when the test is over.
struct Process {
    child: Child,
    client: Client,
    admin: Client,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(dir: &tempfile::TempDir, url: &str, yaml: &str) -> std::path::PathBuf {
    config_with(dir, &format!("url: \"{url}\""), yaml)
}

fn config_with(dir: &tempfile::TempDir, region: &str, yaml: &str) -> std::path::PathBuf {
    let path = dir.path().join("config.yaml");
    let regions = format!("regions: [{{ id: us-east-1, {region} }}]");
    std::fs::write(&path, format!("insecure_dev: true\nlog: {{ format: json }}\n{yaml}\n{regions}\n")).unwrap();
    path
}

fn listen(clients: &str, admin: &str) -> String {
    format!("listen: {{ clients: [\"{clients}\"], admin: \"{admin}\" }}")
}

fn command(config: &std::path::Path) -> Command {
    let mut command = Command::new(program_path());
    command.arg("run").arg("--config").arg(config).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    command
}

impl Process {
    /// Starts it on free ports and returns when it is ready.
    async fn start(dir: &tempfile::TempDir, region: &DemoRegion, shutdown: &str) -> Self {
        let yaml = format!("{}\nshutdown: {shutdown}", listen("127.0.0.1:0", "127.0.0.1:0"));
        Self::start_with(dir, region, &yaml).await
    }

    async fn start_with(dir: &tempfile::TempDir, region: &DemoRegion, yaml: &str) -> Self {
        Self::spawned(command(&config(dir, &region.url(), yaml))).await
    }

    async fn spawned(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let started = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("ojs.federation.started"));
        // Its first words say where it listens.
        let started: Value = serde_json::from_str(&started.unwrap()).unwrap();
        let address = |name: &str| -> SocketAddr {
            let found = started.get(name).or_else(|| started["fields"].get(name)).unwrap();
            found.as_str().unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        let (client, admin) = (Client::new(address("clients")), Client::new(address("admin")));
        // Nobody reads its log any more, but somebody has to take it.
        std::thread::spawn(move || lines.for_each(drop));
        let process = Self { child, client, admin };
        eventually("it is ready", async || process.admin.get("/readyz").await.status == 200).await;
        process
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    async fn exit(&mut self) -> ExitStatus {
        let mut exit = None;
        eventually("it has ended", async || {
            exit = self.child.try_wait().unwrap();
            exit.is_some()
        })
        .await;
        exit.unwrap()
    }
}

async fn region() -> DemoRegion {
    DemoRegion::start(RegionOptions::new("us-east-1")).await.unwrap()
}

#[tokio::test]
async fn a_signal_drains_and_ends_the_process_with_0() {
    let (dir, region) = (tempfile::tempdir().unwrap(), region().await);
    for signal in ["TERM", "INT"] {
        let mut process = Process::start(&dir, &region, "{ drain_idle: 0s, drain_timeout: 1h }").await;
        assert_eq!(process.client.enqueue(r#"{"type":"t","args":[]}"#).await.status, 201);
        process.signal(signal);
        assert_eq!(process.exit().await.code(), Some(0), "{signal}");
    }
    assert_eq!(region.jobs().len(), 2);
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once_with_130() {
    let (dir, region) = (tempfile::tempdir().unwrap(), region().await);
    for signals in [["TERM", "TERM"], ["INT", "INT"], ["TERM", "INT"]] {
        let mut process = Process::start(&dir, &region, "{ drain_idle: 1h, drain_timeout: 2h }").await;
        process.signal(signals[0]);
        eventually("it drains", async || process.admin.get("/readyz").await.status == 503).await;
        let answer = process.client.enqueue(r#"{"type":"t","args":[]}"#).await;
        assert_eq!((answer.status.as_u16(), answer.header("connection")), (201, Some("close")));
        process.signal(signals[1]);
        assert_eq!(process.exit().await.code(), Some(130), "{signals:?}");
    }
}

/// Runs it to its end, which must come by itself, and answers its exit code and what it said.
async fn fails(config: std::path::PathBuf) -> (Option<i32>, String) {
    ends(command(&config)).await
}

async fn ends(mut command: Command) -> (Option<i32>, String) {
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap().code(), said)
    });
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), output).await;
    ended.unwrap_or_else(|_| panic!("it does not end")).unwrap()
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_with_1_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    for listen in [listen(&taken, "127.0.0.1:0"), listen("127.0.0.1:0", &taken)] {
        let (code, said) = fails(config(&dir, "http://127.0.0.1:9", &listen)).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("{taken} is taken; ")), "{said}");
    }
}

#[tokio::test]
async fn a_process_that_runs_out_of_descriptors_starts_whole_or_fails_with_1_and_says_what_to_do() {
    let (dir, region) = (tempfile::tempdir().unwrap(), region().await);
    let yaml = format!("{}\nlimits: {{ worker_threads: 2 }}", listen("127.0.0.1:0", "127.0.0.1:0"));
    let config = config(&dir, &region.url(), &yaml);
    let (mut failed, mut files) = (0, 6);
    loop {
        let mut child = limited(&config, files).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
        let mut said = String::new();
        // Its end is told by the end of its lines, so no word of a start means that it has ended by itself.
        for line in lines {
            said.push_str(&line);
            if line.contains("ojs.federation.started") {
                child.kill().unwrap();
            }
        }
        let code = child.wait().unwrap().code();
        if said.contains("ojs.federation.started") {
            break;
        }
        assert_eq!(code, Some(1), "{files}: {said}");
        failed += u32::from(said.contains("; raise the limit on open files"));
        files += 1;
    }
    assert!(failed > 3, "only {failed} limits kept it from running");
}

/// The same command with so many open files at most.
fn limited(config: &std::path::Path, files: u32) -> Command {
    let mut shell = Command::new("/bin/sh");
    let line = format!("ulimit -n {files}; exec \"$0\" run --config \"$1\"");
    shell.args(["-c", &line]).arg(program_path()).arg(config);
    shell.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    shell
}

#[tokio::test]
async fn a_wrong_configuration_is_an_error_with_78_that_tells_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let yaml = "shutdown: { drain_idel: 1s }\nlimits: { call_timeout: 5 }\nrouting: { strategy: best }";
    let (code, said) = fails(config(&dir, "http://example.com", yaml)).await;
    assert_eq!(code, Some(78), "{said}");
    for key in ["shutdown.drain_idel", "limits.call_timeout", "routing.strategy", "regions[0].url"] {
        assert!(said.contains(key), "{key} is not in {said}");
    }
    let (code, said) = fails(dir.path().join("missing.yaml")).await;
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("missing.yaml"), "{said}");
    // Who gave a file is not told to give one.
    let without_regions = dir.path().join("without.yaml");
    std::fs::write(&without_regions, "routing: { strategy: preferred }").unwrap();
    let (_, said) = fails(without_regions).await;
    assert!(said.contains("regions") && !said.contains("--config"), "{said}");
}

#[tokio::test]
async fn files_of_a_region_that_cannot_be_used_are_an_error_with_78() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.pem");
    std::fs::write(&bad, "not PEM").unwrap();
    let region = format!("url: \"https://localhost:1\", tls: {{ ca: {bad:?} }}");
    let (code, said) = fails(config_with(&dir, &region, &listen("127.0.0.1:0", "127.0.0.1:0"))).await;
    assert_eq!(code, Some(78), "{said}");
    let named = format!("the file holds something else ({})", bad.display());
    assert!(said.contains("regions[0].tls.ca") && said.contains(&named), "{said}");
}

#[tokio::test]
async fn a_unix_socket_of_a_process_that_was_killed_is_replaced_and_one_of_a_living_process_is_not() {
    let (dir, region) = (tempfile::tempdir().unwrap(), region().await);
    let socket = dir.path().join("ojs.sock");
    let listen = listen(&format!("127.0.0.1:0\", \"unix:{}", socket.display()), "127.0.0.1:0");
    let mut killed = Process::start_with(&dir, &region, &listen).await;
    let (code, said) = fails(config(&dir, &region.url(), &listen)).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("unix:{} is taken; ", socket.display())), "{said}");
    std::os::unix::net::UnixStream::connect(&socket).expect("the living one was left alone");
    killed.signal("KILL");
    assert_eq!(killed.exit().await.code(), None);
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_err() && socket.exists());
    let mut next =
        Process::start_with(&dir, &region, &format!("{listen}\nshutdown: {{ drain_idle: 0s, drain_timeout: 1h }}"))
            .await;
    std::os::unix::net::UnixStream::connect(&socket).expect("it was replaced");
    next.signal("TERM");
    assert_eq!(next.exit().await.code(), Some(0));
    assert!(!socket.exists(), "an orderly end leaves no file");
}
