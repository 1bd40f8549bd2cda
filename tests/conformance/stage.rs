//! The servers that a case runs against: fresh regions, and perhaps the program before them.

use std::time::Duration;

use ojs_sidecar::app::{World, build};
use ojs_sidecar::config::{Sources, load};
use ojs_sidecar::net::LocalAddress;
use ojs_testbed::{DemoRegion, Dialect, RegionOptions};
use serde_json::{Map, json};
use tokio::sync::oneshot;

use super::client::Client;
use super::hurried::Hurried;
use super::suite::Case;

/// The regions behind the sidecar; the first one is local, and a case pins to the second.
const IDS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];

/// How the queues of a case are kept in shards: the priorities of the cases, 0 and up, meet in two bands.
const SHARDS: usize = 4;
const BANDS: [i64; 1] = [5];

/// The tenant of jobs that name none, where queues have shards.
const TENANT: &str = "acme";

/// Bounds the wait for the first round of probes; reached only when the program does not start.
const PATIENCE: Duration = Duration::from_secs(30);

/// How calls come to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    Direct,
    Sidecar,
    /// Through a sidecar that keeps the queues of the case in shards; each job has a tenant.
    Shards,
}

/// One of the ways in which every case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub dialect: Dialect,
    pub passage: Passage,
}

impl Way {
    pub const ALL: [Self; 6] = [
        Self { dialect: Dialect::Spec, passage: Passage::Direct },
        Self { dialect: Dialect::Spec, passage: Passage::Sidecar },
        Self { dialect: Dialect::Spec, passage: Passage::Shards },
        Self { dialect: Dialect::Reference, passage: Passage::Direct },
        Self { dialect: Dialect::Reference, passage: Passage::Sidecar },
        Self { dialect: Dialect::Reference, passage: Passage::Shards },
    ];
}

/// Regions, and perhaps a sidecar. Dropped, everything ends.
pub struct Stage {
    client: Client,
    // Dropped before the regions, so that the sidecar does not see them die.
    sidecar: Option<Sidecar>,
    regions: Vec<DemoRegion>,
    time: Hurried,
}

struct Sidecar {
    stop: Option<oneshot::Sender<()>>,
    client: Client,
    admin: Client,
    _files: tempfile::TempDir,
}

impl Stage {
    pub async fn set(way: Way, case: &Case) -> Self {
        let ids = if way.passage == Passage::Direct { &IDS[..1] } else { &IDS[..] };
        let time = Hurried::new();
        let mut regions = Vec::new();
        for id in ids {
            let (clock, dialect) = (time.clock(), way.dialect);
            let options = RegionOptions { clock, dialect, record_bytes_max: 0, ..RegionOptions::new(id) };
            regions.push(DemoRegion::start(options).await.unwrap());
        }
        let sidecar = match way.passage {
            Passage::Direct => None,
            Passage::Sidecar => Some(Sidecar::before(&regions, &[]).await),
            Passage::Shards => Some(Sidecar::before(&regions, &case.queues()).await),
        };
        let client = sidecar.as_ref().map_or(Client::new(regions[0].address()), |sidecar| sidecar.client);
        let client = if way.passage == Passage::Shards { client.of_tenant(TENANT) } else { client };
        Self { client, sidecar, regions, time }
    }

    /// Whether a shard of any region holds a job.
    pub fn has_jobs_in_shards(&self) -> bool {
        self.regions.iter().any(|region| region.jobs().iter().any(|job| job.queue.contains(".ojs-")))
    }

    pub const fn client(&self) -> Client {
        self.client
    }

    /// Lets a wait that a case names be over at the regions. The sidecar keeps to the machine's clock.
    pub fn wait(&self, wait: Duration) {
        self.time.skip(wait);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.sidecar = None;
    }
}

impl Sidecar {
    async fn before(regions: &[DemoRegion], queues: &[String]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let listed: Vec<_> = regions.iter().map(|region| json!({"id": region.id(), "url": region.url()})).collect();
        let sharded = |queue: &String| json!({ "queue": queue, "shards": SHARDS, "priority_bands": BANDS });
        let tenant_queues: Vec<_> = queues.iter().map(sharded).collect();
        let config = json!({
            "federation_id": "conformance",
            "local_region": IDS[0],
            "insecure_dev": true,
            "listen": { "clients": ["127.0.0.1:0"], "admin": "127.0.0.1:0" },
            "limits": { "worker_threads": 1 },
            // It mends what servers in Go fail at, and here their own word is compared.
            "compat": { "directive": false },
            "shutdown": { "drain_idle": "1ms", "drain_timeout": "1s" },
            "scheduling": { "tenant_queues": tenant_queues },
            "regions": listed,
        });
        let path = files.path().join("config.json");
        std::fs::write(&path, config.to_string()).unwrap();
        let sources = Sources { files: vec![path], ..Sources::default() };
        let config = load(&sources).unwrap_or_else(|problems| panic!("{problems}")).config;
        let bound = build(config, World::default()).unwrap();
        let LocalAddress::Tcp(client) = bound.clients[0] else { panic!("the first listener is a TCP one") };
        let admin = Client::new(bound.admin);
        let (stop, stopped) = oneshot::channel::<()>();
        // Its end is nobody's concern here: it drains by itself once it is told.
        std::thread::spawn(move || {
            bound.run(async {
                let _ = stopped.await;
            })
        });
        let sidecar = Self { stop: Some(stop), client: Client::new(client), admin, _files: files };
        tokio::time::timeout(PATIENCE, sidecar.is_ready()).await.unwrap();
        sidecar
    }

    async fn is_ready(&self) {
        while self.admin.call("GET", "/readyz", &Map::new(), Vec::new()).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}
