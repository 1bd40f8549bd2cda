//! Regions with mutual TLS, each with a CA of its own, and the real program before them on free ports.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use ojs_sidecar::app::{Source, World, build};
use ojs_sidecar::base::{Clock, SteeredTime};
use ojs_sidecar::config::{Sources, load};
use ojs_sidecar::net::resolve::{Resolve, SystemResolver};
use ojs_sidecar::net::{DrainEnd, LocalAddress};
use ojs_sidecar::proxy::Shared;
use ojs_testbed::{Authority, DemoRegion, Dialect, DuplicateIds, RegionOptions, RegionTls};
use tokio::sync::oneshot;

use super::Client;
use super::waiting::eventually;

/// The ids of the regions, in the order of the registry; the first one is local.
pub const IDS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];

/// What differs from the defaults.
pub struct Setup {
    regions: usize,
    clients: Vec<String>,
    listen_yaml: String,
    yaml: String,
    region_yaml: Vec<(usize, String)>,
    clock: Clock,
    time: Option<Arc<SteeredTime>>,
    http2: bool,
    dialect: Dialect,
    resolver: Arc<dyn Resolve>,
    demo: Vec<Change>,
}

/// A change of how a demo region runs.
type Change = Box<dyn Fn(&mut RegionOptions)>;

/// Regions, running, and the configuration of a sidecar for them.
pub struct Stage {
    pub regions: Vec<DemoRegion>,
    pub authorities: Vec<Authority>,
    /// The file of the configuration.
    pub config: PathBuf,
    /// The folder of all files; removed with this value.
    pub files: tempfile::TempDir,
    clock: Clock,
    time: Option<Arc<SteeredTime>>,
    resolver: Arc<dyn Resolve>,
}

/// Regions and a sidecar, running. Dropped, everything ends.
pub struct Federation {
    pub regions: Vec<DemoRegion>,
    pub authorities: Vec<Authority>,
    pub client: Client,
    pub admin: Client,
    /// What threads share in the first configuration.
    pub shared: Arc<Shared>,
    /// What they share now.
    pub current: Arc<ArcSwap<Shared>>,
    pub config: PathBuf,
    pub addresses: Vec<LocalAddress>,
    clock: Clock,
    resolver: Arc<dyn Resolve>,
    /// The steered time, where time is steered.
    pub time: Option<Arc<SteeredTime>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<DrainEnd>>,
    pub files: tempfile::TempDir,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            regions: IDS.len(),
            clients: vec!["127.0.0.1:0".to_owned()],
            listen_yaml: String::new(),
            yaml: String::new(),
            region_yaml: Vec::new(),
            clock: Clock::system(),
            time: None,
            http2: false,
            dialect: Dialect::Reference,
            resolver: Arc::new(SystemResolver),
            demo: Vec::new(),
        }
    }
}

impl Setup {
    /// So many regions of [`IDS`].
    pub fn regions(mut self, regions: usize) -> Self {
        self.regions = regions;
        self
    }

    /// Further configuration, top-level keys.
    pub fn yaml(mut self, yaml: &str) -> Self {
        self.yaml.push_str(yaml);
        self.yaml.push('\n');
        self
    }

    /// A further address for clients, behind the TCP one.
    pub fn client_address(mut self, address: &str) -> Self {
        self.clients.push(address.to_owned());
        self
    }

    /// Further configuration below `listen`, such as `unix_mode: "0600"`.
    pub fn listen(mut self, entry: &str) -> Self {
        self.listen_yaml.push_str(&format!(", {entry}"));
        self
    }

    /// Further configuration of one region: lines such as `weight: 0`.
    ///
    /// `{dir}` stands for the folder with `<id>.ca.pem`, `<id>-client.cert.pem` and `<id>-client.key.pem` of every region, and
    /// `all.ca.pem` with the authorities of all.
    pub fn region(mut self, place: usize, line: &str) -> Self {
        self.region_yaml.push((place, line.to_owned()));
        self
    }

    /// Time that moves only when the test says so: for probes, cooldowns and polls.
    pub fn steered(mut self) -> Self {
        let time = SteeredTime::starting_at(1_800_000_000_000);
        self.clock = Clock::new(Arc::new(Arc::clone(&time)));
        self.time = Some(time);
        self
    }

    /// Leases, delays and back-offs of the regions go by the steered clock, too; after [`Setup::steered`].
    pub fn steered_leases(self) -> Self {
        let clock = self.clock.clone();
        self.demo(move |options| options.clock = clock.clone())
    }

    /// Demo regions that run otherwise than by default.
    pub fn demo(mut self, change: impl Fn(&mut RegionOptions) + 'static) -> Self {
        self.demo.push(Box::new(change));
        self
    }

    /// Regions that speak HTTP/2.
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Regions that follow the documents; without it they behave as the servers in the field do, which overwrite a job whose id
    /// is repeated and so hide no second send.
    pub fn by_the_documents(mut self) -> Self {
        self.dialect = Dialect::Spec;
        self
    }

    /// Regions that do this with an id that is taken, in whichever dialect, and say so in their manifest.
    pub fn duplicate_ids(self, what: DuplicateIds) -> Self {
        self.demo(move |options| options.duplicate_ids = Some(what))
    }

    /// Names resolved by the test.
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Starts everything, and returns when the first round of probes is over.
    pub async fn start(self) -> Federation {
        let federation = self.stage().await.launch();
        eventually("the first round of probes", async || federation.admin.get("/readyz").await.status == 200).await;
        federation
    }

    /// Starts the regions and writes the configuration; no sidecar runs yet.
    pub async fn stage(self) -> Stage {
        let files = tempfile::tempdir().unwrap();
        let (mut regions, mut authorities) = (Vec::new(), Vec::new());
        for id in &IDS[..self.regions] {
            let authority = Authority::new(&format!("{id} CA"));
            let tls = RegionTls {
                server: authority.server(&["localhost", &format!("{id}.test"), "127.0.0.1"]),
                client_ca_pem: Some(authority.ca_pem()),
            };
            let mut options = RegionOptions::new(id).tls(tls);
            options.http2 = self.http2;
            // What a client calls its job is the region's to judge; here it is to be seen.
            options.any_id = true;
            options.dialect = self.dialect;
            self.demo.iter().for_each(|change| change(&mut options));
            regions.push(DemoRegion::start(options).await.unwrap());
            authorities.push(authority);
        }
        let config = self.write(files.path(), &regions, &authorities);
        Stage { regions, authorities, config, files, clock: self.clock, time: self.time, resolver: self.resolver }
    }
    fn write(&self, dir: &Path, regions: &[DemoRegion], authorities: &[Authority]) -> PathBuf {
        let mut yaml = String::from("federation_id: test\nlocal_region: us-east-1\n");
        let (clients, listen) = (&self.clients, &self.listen_yaml);
        yaml.push_str(&format!("listen: {{ clients: {clients:?}, admin: \"127.0.0.1:0\"{listen} }}\n"));
        yaml.push_str("log: { level: warn }\n");
        if !self.yaml.contains("metrics:") {
            // Tests look at single series.
            yaml.push_str("metrics: { detail: full }\n");
        }
        if self.time.is_none() && !self.yaml.contains("shutdown:") {
            // A test that is over does not wait for clients that are gone.
            yaml.push_str("shutdown: { drain_idle: 0s, drain_timeout: 1s }\n");
        }
        yaml.push_str(&self.yaml);
        yaml.push_str("regions:\n");
        for (place, (region, authority)) in regions.iter().zip(authorities).enumerate() {
            let id = region.id();
            let ca = authority.write_ca(dir, id).unwrap();
            let client = authority.client("sidecar").write_to(dir, &format!("{id}-client")).unwrap();
            let lines: Vec<_> = self.region_yaml.iter().filter(|(at, _)| *at == place).map(|(_, line)| line).collect();
            yaml.push_str(&format!("- id: {id}\n"));
            if !lines.iter().any(|line| line.starts_with("url:")) {
                yaml.push_str(&format!("  url: {}\n", region.url()));
            }
            for line in &lines {
                yaml.push_str(&format!("  {}\n", line.replace("{dir}", dir.to_str().unwrap())));
            }
            if !lines.iter().any(|line| line.starts_with("tls:")) {
                yaml.push_str(&format!("  tls: {{ ca: {:?}, cert: {:?}, key: {:?} }}\n", ca, client.cert, client.key));
            }
        }
        let every: String = authorities.iter().map(Authority::ca_pem).collect();
        std::fs::write(dir.join("all.ca.pem"), every).unwrap();
        let path = dir.join("config.yaml");
        std::fs::write(&path, yaml).unwrap();
        path
    }
}

impl Stage {
    /// Starts the sidecar, and waits for nothing.
    pub fn launch(self) -> Federation {
        let sources = Sources { files: vec![self.config.clone()], ..Sources::default() };
        let Running { client, admin, current, addresses, stop, thread } =
            run(sources, self.clock.clone(), Arc::clone(&self.resolver));
        let shared = current.load_full();
        Federation {
            regions: self.regions,
            authorities: self.authorities,
            client,
            admin,
            shared,
            current,
            config: self.config,
            addresses,
            clock: self.clock,
            resolver: self.resolver,
            time: self.time,
            stop: Some(stop),
            thread: Some(thread),
            files: self.files,
        }
    }
}

/// A further sidecar over the same regions, which knows nothing of the first one. Dropped, it ends.
pub struct Sidecar {
    pub client: Client,
    pub current: Arc<ArcSwap<Shared>>,
    _stop: oneshot::Sender<()>,
}

/// A sidecar that was started.
struct Running {
    client: Client,
    admin: Client,
    current: Arc<ArcSwap<Shared>>,
    addresses: Vec<LocalAddress>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<DrainEnd>,
}

fn run(sources: Sources, clock: Clock, resolver: Arc<dyn Resolve>) -> Running {
    let config = load(&sources).unwrap_or_else(|problems| panic!("{problems}")).config;
    let files = sources.files.clone();
    let load_again = move || load(&sources);
    let source = Source { load: Arc::new(load_again), files, log: None };
    let bound = build(config, World { clock, resolver, source: Some(source) }).unwrap();
    let (current, addresses, admin) = (Arc::clone(&bound.current), bound.clients.clone(), bound.admin);
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        bound
            .run(async {
                let _ = stopped.await;
            })
            .unwrap()
    });
    let LocalAddress::Tcp(client) = addresses[0] else { panic!("the first listener is a TCP one") };
    Running { client: Client::new(client), admin: Client::new(admin), current, addresses, stop, thread }
}

impl Federation {
    /// A further sidecar, ready, in the pod of another region; `flags` are keys with values, as on the command line.
    pub async fn sidecar_in(&self, region: &str, flags: &[(&str, &str)]) -> Sidecar {
        let own = [("local_region", region)];
        let flags = own.iter().chain(flags).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let sources = Sources { files: vec![self.config.clone()], flags, ..Sources::default() };
        let Running { client, admin, current, stop, .. } = run(sources, self.clock.clone(), Arc::clone(&self.resolver));
        eventually("the first round of probes", async || admin.get("/readyz").await.status == 200).await;
        Sidecar { client, current, _stop: stop }
    }

    /// Three healthy regions and defaults.
    pub async fn start() -> Self {
        Setup::default().start().await
    }

    /// Moves the steered clock.
    pub fn advance(&self, by: Duration) {
        self.time.as_ref().unwrap().advance(by);
    }

    /// Sets the steered wall clock by so many milliseconds; monotonic time does not follow.
    pub fn jump(&self, by_ms: i64) {
        let time = self.time.as_ref().unwrap();
        time.set_wall(self.clock.unix_ms().checked_add_signed(by_ms).unwrap());
    }

    /// The requests below `/ojs/v1/jobs` that each region has received, by place.
    pub fn job_requests(&self) -> Vec<usize> {
        self.regions.iter().map(|region| region.record().requests_to("/ojs/v1/jobs").len()).collect()
    }

    /// The state of a region's breaker, as the API shows it.
    pub fn breaker(&self, place: usize) -> &'static str {
        self.shared.registry.view().regions[place].breaker.as_str()
    }

    /// The health of a region.
    pub fn health(&self, place: usize) -> &'static str {
        self.shared.registry.view().regions[place].health.as_str()
    }

    /// Tells the sidecar to end.
    pub fn begin_drain(&mut self) {
        drop(self.stop.take());
    }

    /// Whether the sidecar has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the sidecar's end.
    pub async fn ended(&mut self) -> DrainEnd {
        let thread = self.thread.take().unwrap();
        tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap()
    }

    /// Whether any region's socket has ever received these bytes, by place.
    pub fn seen(&self, needle: &str) -> Vec<usize> {
        let seen = |(place, region): (usize, &DemoRegion)| region.record().contains(needle.as_bytes()).then_some(place);
        self.regions.iter().enumerate().filter_map(seen).collect()
    }

    /// The address of the client listener.
    pub fn address(&self) -> SocketAddr {
        let LocalAddress::Tcp(address) = self.addresses[0] else { panic!("a TCP listener") };
        address
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        self.begin_drain();
        // Where time is steered, the drain's time is too; in the background, because a test that is over does not wait.
        let (Some(time), Some(thread)) = (self.time.take(), self.thread.take()) else { return };
        std::thread::spawn(move || {
            while !thread.is_finished() {
                time.advance(Duration::from_secs(1));
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
    }
}
