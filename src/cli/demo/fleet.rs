//! The hub of the demo, and two more sidecars beside the first.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::thread::JoinHandle;

use ojs_testbed::Authority;
use tokio::sync::oneshot;

use crate::app::{World, build};
use crate::base::Clock;
use crate::cli::arguments::HubArgs;
use crate::config::{Sources, load};
use crate::hub::{self, Settings};
use crate::net::LocalAddress;

/// The names of the further sidecars in the inventory.
const NAMES: [&str; 2] = ["second", "third"];

/// A thread of the demo that ends when it is asked to.
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// A hub with a record in the demo's folder; dropped, it goes on until the process ends.
pub(super) struct DemoHub {
    /// As an operator reaches it.
    pub(super) operator: HubArgs,
    /// The lines of a sidecar's configuration that make it follow the hub, but for its name.
    section: String,
    running: Running,
}

/// Sidecars that follow a hub.
pub(super) struct Fleet {
    pub(super) hub: DemoHub,
    /// Where the clients of the further sidecars reach them.
    pub(super) clients: Vec<SocketAddr>,
    running: Vec<Running>,
}

impl Running {
    /// Runs `body` on a thread of its own; it gets a future that resolves at the end.
    fn start(body: impl FnOnce(Pin<Box<dyn Future<Output = ()>>>) + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            body(Box::pin(async {
                // A dropped sender means the same: the demo is over.
                let _ = stopped.await;
            }));
        });
        Self { stop, thread }
    }

    async fn end(self) {
        drop(self.stop);
        // A thread that panicked has logged it.
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

impl DemoHub {
    /// Starts the hub on a free port. Its certificates and its record are in the folder.
    ///
    /// Errors: a sentence for the person at the terminal.
    pub(super) fn start(files: &Path) -> Result<Self, String> {
        let authority = Authority::new("demo CA of the hub");
        let file = |error: std::io::Error| format!("the files of the hub: {error}");
        let ca = authority.write_ca(files, "hub").map_err(file)?;
        let server = authority.server(&["localhost"]).write_to(files, "hub").map_err(file)?;
        let client = |stem: &str, name: &str| authority.client(name).write_to(files, stem).map_err(file);
        let sidecar = client("hub-sidecar", "spiffe://demo/sidecar")?;
        let operator = client("hub-operator", "spiffe://demo/operator")?;
        let yaml = format!(
            "listen: 127.0.0.1:0
admin: 127.0.0.1:0
tls: {{ cert: {:?}, key: {:?}, client_ca: {ca:?} }}
record: {{ path: {:?} }}
access:
  - {{ san: \"spiffe://demo/sidecar\", role: sidecar }}
  - {{ san: \"spiffe://demo/operator\", role: operator, scopes: [read, operate, audit] }}
",
            server.cert,
            server.key,
            files.join("hub.db")
        );
        let path = files.join("hub.yaml");
        std::fs::write(&path, yaml).map_err(file)?;
        let settings = Settings::load(&path).map_err(|error| error.to_string())?;
        let bound = hub::bind(settings, Clock::system()).map_err(|error| error.to_string())?;
        let url = format!("https://localhost:{}", bound.address.port());
        let section =
            format!("  urls: [\"{url}\"]\n  tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }}\n", sidecar.cert, sidecar.key);
        let operator = HubArgs {
            hub: Some(url),
            hub_ca: Some(ca),
            hub_cert: Some(operator.cert),
            hub_key: Some(operator.key),
            token_file: None,
        };
        let running = Running::start(move |until| {
            if let Err(error) = bound.run(until) {
                tracing::error!(%error, "the hub of the demo has ended");
            }
        });
        Ok(Self { operator, section, running })
    }

    /// The options of a command that reach the hub as its operator.
    pub(super) fn options(&self) -> String {
        let HubArgs { hub, hub_ca, hub_cert, hub_key, .. } = &self.operator;
        let files = [("--hub-ca", hub_ca), ("--hub-cert", hub_cert), ("--hub-key", hub_key)];
        let files = files.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?)));
        let files = files.map(|(option, path)| format!(" {option} {}", path.display()));
        format!("--hub {}{}", hub.as_deref().unwrap_or_default(), files.collect::<String>())
    }

    /// The section of the configuration of the sidecar of this name.
    pub(super) fn section(&self, name: &str) -> String {
        format!("hub:\n  name: {name}\n{}", self.section)
    }
}

impl Fleet {
    /// Starts two more sidecars with the configuration of the first, on free ports. `yaml` is that without its hub and its listeners.
    ///
    /// Errors: a sentence for the person at the terminal.
    pub(super) fn start(hub: DemoHub, files: &Path, yaml: &str) -> Result<Self, String> {
        let mut fleet = Self { hub, clients: Vec::new(), running: Vec::new() };
        for name in NAMES {
            let path: PathBuf = files.join(format!("{name}.yaml"));
            let listen = "listen: { clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }\n";
            std::fs::write(&path, format!("{yaml}{listen}{}", fleet.hub.section(name)))
                .map_err(|error| error.to_string())?;
            let config =
                load(&Sources { files: vec![path], ..Sources::default() }).map_err(|all| all.to_string())?.config;
            let bound = build(config, World::default()).map_err(|error| error.to_string())?;
            fleet.clients.extend(bound.clients.iter().find_map(|address| match address {
                LocalAddress::Tcp(address) => Some(*address),
                LocalAddress::Unix(_) => None,
            }));
            fleet.running.push(Running::start(move |until| drop(bound.run(until))));
        }
        Ok(fleet)
    }

    /// Ends the sidecars, then the hub.
    pub(super) async fn end(self) {
        for running in self.running {
            running.end().await;
        }
        self.hub.running.end().await;
    }
}
