//! What every measurement stands on: a folder, certificates for this run, ports, the region.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ojs_testbed::Authority;

use super::machine::Process;

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// Files and the region.
pub(crate) struct Stage {
    dir: tempfile::TempDir,
    /// The region's process.
    pub(crate) region: Process,
    /// Where it speaks TLS.
    pub(crate) tls_port: u16,
    /// Where it speaks in the clear.
    pub(crate) plain_port: u16,
}

impl Stage {
    /// Makes the certificates and starts the region on a core.
    pub(crate) fn new(core: Option<usize>, protocol: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let servers = Authority::new("bench servers");
        let clients = Authority::new("bench clients");
        servers.write_ca(dir.path(), "servers").unwrap();
        clients.write_ca(dir.path(), "clients").unwrap();
        servers.server(&["localhost", "127.0.0.1"]).write_to(dir.path(), "region").unwrap();
        let client = clients.client("sidecar");
        client.write_to(dir.path(), "client").unwrap();
        std::fs::write(dir.path().join("client.pem"), format!("{}{}", client.cert_pem, client.key_pem)).unwrap();
        let (tls_port, plain_port) = (free_port(), free_port());
        let file = |name: &str| dir.path().join(name).display().to_string();
        let arguments = ["region".to_owned(), tls_port.to_string(), plain_port.to_string()];
        let files = [file("region.cert.pem"), file("region.key.pem"), file("clients.ca.pem"), protocol.to_owned()];
        let region = Process::start(core, &this_program(), &[&arguments[..], &files[..]].concat());
        listens(plain_port);
        Self { dir, region, tls_port, plain_port }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file of the folder, as text for configurations.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Writes a file of the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// This bench, which is its own neighbours.
pub(crate) fn this_program() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

/// A port that nobody uses now. Somebody else could take it before it is bound; the bench then fails and is run again.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens; how long that took.
pub(crate) fn listens(port: u16) -> Duration {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "nobody listens on {port}");
        std::thread::sleep(Duration::from_micros(200));
    }
    begun.elapsed()
}
