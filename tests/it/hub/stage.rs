//! A hub as a process, with an authority for its clients, and sidecars that follow it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Method;
use http::response::Parts;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use ojs_testbed::Authority;
use serde_json::Value;

use crate::support::{Client, Ended, ReservedPort, Setup, Stage, command, eventually, program_path};

/// The certificates of a hub and of its clients, and its configuration.
pub struct HubStage {
    dir: tempfile::TempDir,
    /// Where each replica listens.
    listen: Vec<SocketAddr>,
    /// Those of them that are kept while no replica listens there.
    ports: Vec<ReservedPort>,
    record: String,
    /// The records of replicas that reach it in another way.
    records: BTreeMap<usize, String>,
    /// Where sidecars reach the replicas, where that is not where they listen.
    via: Vec<String>,
    more: String,
    pub authority: Authority,
}

/// A running hub.
pub struct Hub {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    pub admin: Client,
}

impl HubStage {
    /// `more` is added to the configuration of the hub.
    pub fn new(more: &str) -> Self {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("clients of the hub"));
        authority.write_ca(dir.path(), "hub").unwrap();
        authority.server(&["localhost", "127.0.0.1"]).write_to(dir.path(), "hub").unwrap();
        let record = format!("record: {{ path: {:?} }}", dir.path().join("hub.db"));
        let ports = vec![ReservedPort::new()];
        let listen = vec![ports[0].address()];
        let (records, via) = (BTreeMap::new(), Vec::new());
        let stage = Self { dir, listen, ports, record, records, via, more: more.to_owned(), authority };
        for (stem, name) in
            [("ann", "spiffe://test/ops/ann"), ("eve", "spiffe://test/ops/eve"), ("pod", "spiffe://test/pod")]
        {
            stage.client(stem, name);
        }
        stage
    }

    /// The same on a record of its own.
    pub fn with_record(self, record: String) -> Self {
        Self { record, ..self }
    }

    /// The same with two replicas on a record of their own.
    pub fn on_record(mut self, record: String) -> Self {
        self.ports.push(ReservedPort::new());
        self.listen.push(self.ports[1].address());
        self.with_record(record)
    }

    /// One replica reaches the record in another way, from its next run on.
    pub fn set_record_of(&mut self, replica: usize, record: String) {
        self.records.insert(replica, record);
    }

    /// Sidecars reach the replicas at these addresses.
    pub fn set_via(&mut self, via: &[SocketAddr]) {
        self.via = via.iter().map(|address| format!("https://{address}")).collect();
    }

    /// Adds this to the configuration of the hub, in place of what was added before, from its next run on.
    pub fn set_more(&mut self, more: &str) {
        more.clone_into(&mut self.more);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a certificate for a client.
    pub fn client(&self, stem: &str, name: &str) {
        self.authority.client(name).write_to(self.dir.path(), stem).unwrap();
    }

    /// Runs the hub, on the port that it had before.
    pub async fn run(&self) -> Hub {
        self.again(0).await
    }

    /// Runs one of several replicas, on the port that it had before.
    pub async fn again(&self, replica: usize) -> Hub {
        Hub::run(&self.write_config(replica)).await
    }

    /// Writes the configuration of a replica.
    pub fn write_config(&self, replica: usize) -> PathBuf {
        let dir = self.dir.path().display().to_string();
        let config = format!(
            "listen: {}
admin: 127.0.0.1:0
tls: {{ cert: {dir}/hub.cert.pem, key: {dir}/hub.key.pem, client_ca: {dir}/hub.ca.pem }}
{}
access:
  - {{ san: \"spiffe://test/pod*\", role: sidecar }}
  - {{ san: \"spiffe://test/ops/ann\", role: operator, scopes: [read, operate, audit, quota] }}
  - {{ san: \"spiffe://test/ops/eve\", role: operator, scopes: [read] }}
{}",
            self.listen[replica],
            self.records.get(&replica).unwrap_or(&self.record),
            self.more
        );
        let path = self.path(&format!("hub{replica}.yaml"));
        std::fs::write(&path, config).unwrap();
        path
    }

    /// Another hub than that of the stage is to be followed.
    pub fn listens_at(&mut self, address: SocketAddr) {
        self.listen[0] = address;
    }

    /// The URL of the hub.
    pub fn url(&self) -> String {
        self.url_of(0)
    }

    pub fn url_of(&self, replica: usize) -> String {
        format!("https://{}", self.listen[replica])
    }

    /// The section of a sidecar's configuration that makes it follow the hub.
    pub fn section(&self, name: &str) -> String {
        self.section_with(name, "pod")
    }

    /// The same with the certificate of this stem.
    pub fn section_with(&self, name: &str, stem: &str) -> String {
        let dir = self.dir.path().display();
        let own = || (0..self.listen.len()).map(|replica| self.url_of(replica)).collect();
        let urls: Vec<String> = if self.via.is_empty() { own() } else { self.via.clone() };
        let tls = format!("ca: {dir}/hub.ca.pem, cert: {dir}/{stem}.cert.pem, key: {dir}/{stem}.key.pem");
        format!("hub: {{ urls: {urls:?}, name: {name}, tls: {{ {tls} }} }}")
    }

    /// A federation for sidecars of this hub.
    pub async fn federation(&self, name: &str, yaml: &str) -> Stage {
        Setup::default().yaml(&self.section(name)).yaml(yaml).stage().await
    }

    /// A command of the operator whose certificate has this stem.
    pub async fn command(&self, who: &str, arguments: &[&str]) -> Ended {
        self.command_at(0, who, arguments).await
    }

    /// The same at one of several replicas.
    pub async fn command_at(&self, replica: usize, who: &str, arguments: &[&str]) -> Ended {
        let file = |name: String| self.path(&name).display().to_string();
        let hub = [
            "--hub".to_owned(),
            self.url_of(replica),
            "--hub-ca".to_owned(),
            file("hub.ca.pem".to_owned()),
            "--hub-cert".to_owned(),
            file(format!("{who}.cert.pem")),
            "--hub-key".to_owned(),
            file(format!("{who}.key.pem")),
        ];
        let all: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).chain(hub).collect();
        let run = move || command(&all.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// Sets or ends a switch; the same with a reason, a ticket and a name.
    pub async fn order(&self, who: &str, arguments: &[&str]) -> Ended {
        self.order_at(0, who, arguments).await
    }

    /// The same at one of several replicas.
    pub async fn order_at(&self, replica: usize, who: &str, arguments: &[&str]) -> Ended {
        let why = ["--reason", "storm ahead", "--ticket", "OPS-7", "--author", "ana"];
        self.command_at(replica, who, &[arguments, &why].concat()).await
    }

    /// The inventory.
    pub async fn fleet(&self) -> Vec<Value> {
        let shown = self.command("ann", &["fleet", "--json"]).await;
        let document: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        document["sidecars"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until this sidecar holds the feed and has the last state of it.
    pub async fn follows(&self, name: &str) {
        eventually("the sidecar follows the hub", async || {
            self.fleet().await.iter().any(|it| it["name"] == name && it["connected"] == true)
        })
        .await;
    }
}

impl Hub {
    async fn run(config: &Path) -> Self {
        let mut command = Command::new(program_path());
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.args(["hub", "--config", config.to_str().unwrap()]).spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, seen) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        std::thread::spawn(move || lines.for_each(|line| seen.lock().unwrap().push(line.unwrap())));
        let mut started = None;
        eventually("the hub serves", async || {
            assert!(child.try_wait().unwrap().is_none(), "{:?}", log.lock().unwrap());
            started = log.lock().unwrap().iter().find(|line| line.contains("hub_started")).cloned();
            started.is_some()
        })
        .await;
        let started = started.unwrap();
        let field = |name: &str| {
            let rest = started.split_once(&format!(" {name}=\"")).unwrap().1;
            rest.split('"').next().unwrap().to_owned()
        };
        Self { child, log, admin: Client::new(field("admin").parse().unwrap()) }
    }

    /// Its log, where it has ended by itself.
    pub fn ended(&mut self) -> Option<Vec<String>> {
        self.child.try_wait().unwrap().map(|_| self.log.lock().unwrap().clone())
    }

    /// Whether a line of its log has all of these words.
    pub fn log_has(&self, words: &[&str]) -> bool {
        self.log.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// How many lines of its log have all of these words.
    pub fn log_count(&self, words: &[&str]) -> usize {
        self.log.lock().unwrap().iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// Stops the process without ending it, or lets it go on.
    pub fn pause(&self, pauses: bool) {
        let signal = if pauses { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        assert!(Command::new("sh").args(["-c", &format!("kill -HUP {}", self.child.id())]).status().unwrap().success());
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // Fails when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request as curl would send it, with a certificate of one of the clients.
pub async fn status(stage: &HubStage, who: &str, method: &Method, path: &str) -> (u16, Value) {
    let (head, document) = ask(stage, Some(who), method, path, &[]).await;
    (head.status.as_u16(), document)
}

/// The same with a body.
pub async fn post(stage: &HubStage, who: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = Bytes::from(body.to_string());
    let (head, document) = ask_with(stage, Some(who), &Method::POST, path, &[], body).await;
    (head.status.as_u16(), document)
}

/// The same with headers of credentials, and with a certificate or none.
pub async fn ask(
    stage: &HubStage,
    who: Option<&str>,
    method: &Method,
    path: &str,
    authorization: &[&str],
) -> (Parts, Value) {
    ask_with(stage, who, method, path, authorization, Bytes::new()).await
}

/// A request with headers of its own and a body.
pub async fn ask_as(
    stage: &HubStage,
    who: &str,
    method: &Method,
    path: &str,
    header: (&str, &str),
    body: &'static str,
) -> u16 {
    let request = http::Request::builder().method(method).uri(path).header("host", "hub").header(header.0, header.1);
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    connected(stage, Some(who)).await.send_request(request).await.unwrap().status().as_u16()
}

/// The same with a body.
pub async fn ask_with(
    stage: &HubStage,
    who: Option<&str>,
    method: &Method,
    path: &str,
    authorization: &[&str],
    body: Bytes,
) -> (Parts, Value) {
    use http_body_util::BodyExt as _;
    let mut sender = connected(stage, who).await;
    let mut request = http::Request::builder().method(method).uri(path).header("host", "hub");
    for header in authorization {
        request = request.header("authorization", *header);
    }
    let (head, body) = sender.send_request(request.body(Full::new(body)).unwrap()).await.unwrap().into_parts();
    if head.headers.get("content-type").is_some_and(|it| it == "text/event-stream") {
        return (head, Value::Null);
    }
    let body = body.collect().await.unwrap().to_bytes();
    (head, serde_json::from_slice(&body).unwrap_or_default())
}

/// A connection with a certificate of one of the clients, or with none.
pub async fn connected(stage: &HubStage, who: Option<&str>) -> SendRequest<Full<Bytes>> {
    let file = |name: &str| Some(stage.path(name));
    let tls = ojs_sidecar::config::RegionTls {
        ca: file("hub.ca.pem"),
        cert: who.and_then(|who| file(&format!("{who}.cert.pem"))),
        key: who.and_then(|who| file(&format!("{who}.key.pem"))),
        ..Default::default()
    };
    let files = ojs_sidecar::net::tls::TlsFiles::read(&tls).unwrap();
    let tls = ojs_sidecar::net::tls::build(&tls, &files, "127.0.0.1").unwrap();
    let socket = tokio::net::TcpStream::connect(stage.url().trim_start_matches("https://")).await.unwrap();
    let stream =
        tokio_rustls::TlsConnector::from(tls.config_http1.clone()).connect(tls.name.clone(), socket).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}
