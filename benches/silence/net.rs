//! Regions and sidecars in network namespaces of their own.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ojs_testbed::{Authority, DemoRegion, Dialect, Identity, RegionOptions, RegionTls};

const REGIONS: [&str; 2] = ["local", "other"];
const PORT: u16 = 8443;
/// How long everything may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a region falls silent.
#[derive(Clone, Copy)]
pub enum Way {
    /// Its process is stopped: the kernel accepts and acknowledges, and nothing is answered.
    Stopped,
    /// What it sends is dropped: nothing is acknowledged, and no connection comes about.
    Dropped,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Dropped => "dropped",
        })
    }
}

/// Two regions and some sidecars, running. Dropped, processes and namespaces end.
pub struct Stage {
    regions: Vec<Child>,
    sidecars: Vec<Child>,
    sockets: Vec<PathBuf>,
    _files: tempfile::TempDir,
}

impl Stage {
    pub fn start(sidecars: usize) -> Self {
        remove_namespaces();
        let files = tempfile::tempdir().unwrap();
        let dir = files.path().to_owned();
        ip(&["netns", "add", &name("pods")]);
        ip(&["-n", &name("pods"), "link", "set", "lo", "up"]);
        let mut config = String::from("local_region: local\nlog: { access: \"off\" }\nregions:\n");
        let mut stage = Self { regions: Vec::new(), sidecars: Vec::new(), sockets: Vec::new(), _files: files };
        for (place, id) in REGIONS.iter().enumerate() {
            join(id, place);
            let address = region_address(place);
            let authority = Authority::new(id);
            let ca = authority.write_ca(&dir, id).unwrap();
            let server = authority.server(&[&address]);
            fs::write(dir.join(format!("{id}.server.cert")), server.cert_pem).unwrap();
            fs::write(dir.join(format!("{id}.server.key")), server.key_pem).unwrap();
            let client = authority.client("sidecar").write_to(&dir, &format!("{id}-client")).unwrap();
            config.push_str(&format!(
                "- id: {id}\n  url: https://{address}:{PORT}\n  tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }}\n",
                client.cert, client.key
            ));
            let mut region = within(id, std::env::current_exe().unwrap())
                .args(["region", id, &format!("{address}:{PORT}"), dir.to_str().unwrap()])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = String::new();
            BufReader::new(region.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
            assert_eq!(ready.trim(), "ready");
            stage.regions.push(region);
        }
        for number in 0..sidecars {
            let socket = dir.join(format!("{number}.sock"));
            let path = dir.join(format!("{number}.yaml"));
            let listen = format!("listen: {{ clients: [\"unix:{}\"], admin: \"127.0.0.1:0\" }}\n", socket.display());
            fs::write(&path, listen + &config).unwrap();
            let program = std::env::var_os("CARGO_BIN_EXE_ojs-sidecar").unwrap();
            let mut command = within("pods", program);
            command.args(["run", "--config", path.to_str().unwrap()]).stderr(Stdio::null());
            stage.sidecars.push(command.spawn().unwrap());
            stage.sockets.push(socket);
        }
        let begun = Instant::now();
        while !stage.sockets.iter().all(|socket| is_ready(socket)) {
            assert!(begun.elapsed() < PATIENCE, "the sidecars do not become ready");
            std::thread::sleep(Duration::from_millis(100));
        }
        stage
    }

    pub fn sockets(&self) -> Vec<PathBuf> {
        self.sockets.clone()
    }

    pub fn silence(&self, region: usize, way: Way) {
        match way {
            Way::Stopped => signal("-STOP", &self.regions[region]),
            Way::Dropped => ip(&["-n", &name(REGIONS[region]), "route", "add", "blackhole", &pods_address(region)]),
        }
    }

    pub fn recover(&self, region: usize, way: Way) {
        match way {
            Way::Stopped => signal("-CONT", &self.regions[region]),
            Way::Dropped => ip(&["-n", &name(REGIONS[region]), "route", "del", "blackhole", &pods_address(region)]),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.sidecars.iter_mut().chain(&mut self.regions) {
            let _ = child.kill();
            let _ = child.wait();
        }
        remove_namespaces();
    }
}

/// A region, until it is killed.
pub fn serve(id: &str, address: &str, files: &Path) {
    let read = |end: &str| fs::read_to_string(files.join(format!("{id}.{end}"))).unwrap();
    let server = Identity { cert_pem: read("server.cert"), key_pem: read("server.key") };
    let client_ca_pem = fs::read_dir(files)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with(&format!("{id}.ca"))));
    let client_ca_pem = client_ca_pem.map(|path| fs::read_to_string(path).unwrap());
    let mut options = RegionOptions::new(id).tls(RegionTls { server, client_ca_pem });
    options.listen = address.parse().unwrap();
    options.dialect = Dialect::Reference;
    options.record_bytes_max = 0;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _region = runtime.block_on(DemoRegion::start(options)).unwrap();
    println!("ready");
    loop {
        std::thread::park();
    }
}

fn name(of: &str) -> String {
    format!("ojs-silence-{of}")
}

fn region_address(place: usize) -> String {
    format!("10.117.{place}.2")
}

fn pods_address(place: usize) -> String {
    format!("10.117.{place}.1")
}

/// A namespace for a region, joined with that of the pods.
fn join(id: &str, place: usize) {
    let (pods, region) = (name("pods"), name(id));
    let [near, far] = [format!("ojs-p{place}"), format!("ojs-r{place}")];
    ip(&["netns", "add", &region]);
    ip(&["-n", &pods, "link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &region]);
    for (namespace, link, address) in [(&pods, &near, pods_address(place)), (&region, &far, region_address(place))] {
        ip(&["-n", namespace, "addr", "add", &format!("{address}/24"), "dev", link]);
        ip(&["-n", namespace, "link", "set", link, "up"]);
    }
}

fn within(namespace: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name(namespace)]).arg(program).stdin(Stdio::null());
    command
}

fn remove_namespaces() {
    for of in ["pods", "local", "other"] {
        let _ = Command::new("ip").args(["netns", "del", &name(of)]).stderr(Stdio::null()).status();
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}: needs root and iproute2");
}

/// `ip netns exec` becomes the program that it starts.
fn signal(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn is_ready(socket: &Path) -> bool {
    let Ok(mut socket) = UnixStream::connect(socket) else { return false };
    let asked =
        socket.write_all(b"GET /v1/federation/regions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    asked.and_then(|()| socket.read_to_string(&mut answer)).is_ok()
        && answer.matches("\"healthy\"").count() == REGIONS.len()
}
