//! The demo's stage: throw-away certificates, three regions, the sidecar.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;

use super::arguments::DemoArgs;
use super::fleet::{DemoHub, Fleet};
use super::say;
use crate::app::{World, build};
use crate::base::Clock;
use crate::config::{Sources, load};
use crate::net::{DrainEnd, LocalAddress};
use crate::policy::GuardState;
use crate::proxy::Shared;
use crate::telemetry::{self, LogHandle};
use ojs_testbed::{Authority, DemoRegion, RegionOptions, RegionTls, scratch_in};

/// The regions, in the order of the registry; the first one is local.
pub(super) const IDS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];
/// The bytes that a demo region keeps of its requests: enough for the tour's proofs.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// The queues that are free of residency rules here: a worker may take their jobs from other regions, too.
const SHARED: &str = "workers: { remote_fetch: [video, default] }\n";

/// Times that are shorter here than by default, so that the tour takes seconds.
pub(super) const TIMINGS: &str = "\
health_check: { interval: 500ms, timeout: 1s }
circuit_breaker: { failure_threshold: 3, cooldown: 2s, slow_start: 1s }
load: { interval: 500ms }
shutdown: { drain_idle: 100ms, drain_timeout: 5s }
";

/// How queues share workers here. The queues with `plain-` are in none of them.
pub(super) const SCHEDULING: &str = "\
scheduling:
  pools:
    - name: shop
      queues: [orders, newsletters]
      strategy: strict
      starvation_prevention: { enabled: true, min_dispatch_ratio: 0.2 }
    - { name: payments, queues: [payments], isolated: true }
  tenant_queues:
    - { queue: reports, shards: 8 }
";

/// Everything that runs during the demo.
pub(super) struct Stage {
    pub(super) regions: Vec<DemoRegion>,
    pub(super) client: SocketAddr,
    pub(super) admin: SocketAddr,
    /// The hub and two more sidecars; none without `--hub`.
    pub(super) fleet: Option<Fleet>,
    stop: Option<oneshot::Sender<()>>,
    sidecar: Option<JoinHandle<Option<DrainEnd>>>,
    current: Arc<ArcSwap<Shared>>,
    slow_start: Duration,
    log: LogHandle,
    files: Scratch,
}

/// The folder of throw-away certificates and keys; removed with this value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Below the folder for temporary files: a file that cannot be removed now is removed with that folder's
        // content.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Stage {
    /// Starts the regions and the sidecar.
    ///
    /// Errors: a sentence for the person at the terminal.
    pub(super) async fn set(arguments: &DemoArgs) -> Result<Self, String> {
        let files = scratch_in(&std::env::temp_dir())
            .map_err(|error| format!("a folder for throw-away certificates: {error}"))
            .map(Scratch)?;
        let (regions, yaml) = start_regions(&files.0).await.map_err(|error| error.to_string())?;
        let hub = if arguments.hub { Some(DemoHub::start(&files.0)?) } else { None };
        let section = hub.as_ref().map(|hub| hub.section("first")).unwrap_or_default();
        let (local, port, admin_port) = (Ipv4Addr::LOCALHOST, arguments.port, arguments.admin_port);
        let listen = format!("listen: {{ clients: [\"{local}:{port}\"], admin: \"{local}:{admin_port}\" }}\n");
        let path = files.0.join("config.yaml");
        std::fs::write(&path, format!("{yaml}{listen}{section}")).map_err(|error| error.to_string())?;
        let config = load(&Sources { files: vec![path], ..Sources::default() }).map_err(|all| all.to_string())?.config;
        let slow_start = config.circuit_breaker.slow_start;
        let log = telemetry::init(&config.log).map_err(|error| error.to_string())?;
        let bound = build(config, World::default()).map_err(|error| match error {
            crate::app::BuildError::Bind(bind) => format!("{bind} (--port and --admin-port choose others)"),
            other => other.to_string(),
        })?;
        let client = bound.clients.iter().find_map(|address| match address {
            LocalAddress::Tcp(address) => Some(*address),
            LocalAddress::Unix(_) => None,
        });
        let (admin, current) = (bound.admin, Arc::clone(&bound.current));
        let (stop, stopped) = oneshot::channel::<()>();
        let sidecar = std::thread::spawn(move || {
            let told = async {
                // A dropped sender means the same: the demo is over.
                let _ = stopped.await;
            };
            bound.run(told).ok()
        });
        let client = client.ok_or("the sidecar has no TCP listener")?;
        let fleet = hub.map(|hub| Fleet::start(hub, &files.0, &yaml)).transpose()?;
        Ok(Self {
            regions,
            client,
            admin,
            fleet,
            stop: Some(stop),
            sidecar: Some(sidecar),
            current,
            slow_start,
            log,
            files,
        })
    }

    /// Prints the commands that a visitor can type elsewhere, then `help` on those of the prompt.
    pub(super) fn print_commands(&self, help: &str) {
        let (client, admin) = (self.client, self.admin);
        self.log.flush();
        say("\nThe regions and the sidecar go on running. Try, in another terminal:");
        say(format_args!("  curl -s http://{client}/v1/federation/regions"));
        say(format_args!(
            "  curl -si http://{client}/ojs/v1/jobs -H 'content-type: application/json' -d '{{\"type\":\"email.send\",\"args\":[\"you\"]}}'"
        ));
        say(format_args!(
            "  curl -s http://{client}/v1/federation/route -d '{{\"type\":\"x\",\"args\":[],\"meta\":{{\"ojs.federation.region\":\"eu-west-1\"}}}}'"
        ));
        say(format_args!("  curl -s http://{admin}/metrics | grep '^ojs_federation_attempts_total.* [1-9]'"));
        say(format_args!("  {} regions --address {client}", program()));
        if let Some(fleet) = &self.fleet {
            let (program, hub) = (program(), fleet.hub.options());
            say(format_args!("  {program} fleet {hub}"));
            say(format_args!(
                "  {program} drain us-east-1 --for 10m --reason \"disk exchange\" --ticket DEMO-2 --author you {hub}"
            ));
        }
        say(help);
        say("");
    }

    /// Whether flexible jobs go to all regions as if nothing had happened: none is ramping up after a recovery any more.
    pub(super) fn has_settled(&self) -> bool {
        let (shared, now) = (self.current.load(), Clock::system().now());
        let view = shared.registry.view();
        let ramp = self.slow_start;
        let is_over = |since: Option<Instant>| since.is_none_or(|since| now.saturating_duration_since(since) >= ramp);
        let guard_is_over =
            |guard: &GuardState| matches!(guard, GuardState::Closed { recovered_at } if is_over(*recovered_at));
        view.regions.iter().all(|region| is_over(region.recovered_at) && region.guards.iter().all(guard_is_over))
    }

    /// Writes out the log so far, so that its lines stand where they belong among those of the tour.
    pub(super) fn flush_log(&self) {
        self.log.flush();
    }

    /// Removes the files when a second signal ends the process at once.
    pub(super) fn clean_up(&self) -> impl FnOnce() + use<> {
        let files = self.files.0.clone();
        move || {
            let _ = std::fs::remove_dir_all(&files);
        }
    }

    /// Ends the sidecars, the hub, then the regions; the files are removed with this value.
    pub(super) async fn strike(&mut self) {
        if let Some(fleet) = self.fleet.take() {
            fleet.end().await;
        }
        drop(self.stop.take());
        if let Some(sidecar) = self.sidecar.take() {
            // The thread ends within the drain's timeout; its log has the result.
            let _ = tokio::task::spawn_blocking(move || sidecar.join()).await;
        }
        self.log.flush();
    }
}

/// This program as it was called, for a command that works in the same folder.
fn program() -> String {
    std::env::args().next().filter(|name| !name.is_empty()).unwrap_or_else(|| env!("CARGO_PKG_NAME").to_owned())
}

/// Starts the regions, and returns the configuration of a sidecar before them, without its listeners.
async fn start_regions(files: &Path) -> std::io::Result<(Vec<DemoRegion>, String)> {
    let mut yaml = format!("federation_id: demo\nlocal_region: {}\n{TIMINGS}{SHARED}{SCHEDULING}regions:\n", IDS[0]);
    let mut regions = Vec::new();
    for id in IDS {
        let authority = Authority::new(&format!("demo CA of {id}"));
        let mut options = RegionOptions::new(id)
            .tls(RegionTls { server: authority.server(&["localhost"]), client_ca_pem: Some(authority.ca_pem()) });
        options.record_bytes_max = RECORD_BYTES_MAX;
        let region = DemoRegion::start(options).await?;
        let ca = authority.write_ca(files, id)?;
        let client = authority.client("demo-sidecar").write_to(files, &format!("{id}-client"))?;
        yaml.push_str(&format!(
            "- id: {id}\n  url: {}\n  tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }}\n",
            region.url(),
            client.cert,
            client.key
        ));
        regions.push(region);
    }
    Ok((regions, yaml))
}
