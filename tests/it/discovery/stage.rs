//! A sidecar with one region in its file, and regions that it may discover.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ojs_sidecar::net::resolve::{Resolve, Resolving};
use ojs_testbed::{Authority, DemoRegion, RegionOptions, RegionTls};

use super::name_server::{NameServer, SERVICE};
use crate::support::{Federation, Setup, eventually, pinned};

/// Between two looks.
pub const LOOK: Duration = Duration::from_secs(30);

/// Every name is this machine.
struct Here;

impl Resolve for Here {
    fn resolve(&self, _host: &str, port: u16) -> Resolving {
        Box::pin(async move { io::Result::Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))]) })
    }
}

/// What a region that may be discovered needs, and where.
pub struct Fleet {
    pub names: NameServer,
    pub authority: Authority,
    pub files: tempfile::TempDir,
}

impl Fleet {
    pub async fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new("fleet CA");
        authority.write_ca(files.path(), "fleet").unwrap();
        authority.client("sidecar").write_to(files.path(), "client").unwrap();
        Self { names: NameServer::start().await, authority, files }
    }

    /// A region whose certificate shows this URI.
    pub async fn region(&self, id: &str, uri: &str) -> DemoRegion {
        let tls = RegionTls { server: self.authority.server(&[uri]), client_ca_pem: Some(self.authority.ca_pem()) };
        DemoRegion::start(RegionOptions::new(id).tls(tls)).await.unwrap()
    }

    /// A region with the identity of its id.
    pub async fn good(&self, id: &str) -> DemoRegion {
        self.region(id, &format!("spiffe://test/{id}")).await
    }

    /// Has the name server name a region.
    pub fn announce(&self, host: &str, region: &DemoRegion, texts: &[&str]) {
        self.names.add(host, port(region), texts);
    }

    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// A sidecar whose source is the name server; `more` are further keys of `discovery`.
    pub fn setup(&self, more: &str) -> Setup {
        let dns = format!("dns: {{ name: {SERVICE}, servers: [\"{}\"] }}", self.names.address);
        self.setup_with(&format!("{dns}, {more}"))
    }

    /// A sidecar with these sources and further keys of `discovery`.
    pub fn setup_with(&self, keys: &str) -> Setup {
        let file = |name: &str| self.path().join(name).display().to_string();
        let tls = format!(
            "tls: {{ ca: {:?}, cert: {:?}, key: {:?} }}",
            file("fleet.ca.pem"),
            file("client.cert.pem"),
            file("client.key.pem")
        );
        let yaml = format!(
            "discovery: {{ {keys} allow: [\"eu-*\", \"ap-*\"], identity: \"spiffe://test/{{region}}\", defaults: {{ {tls} }} }}"
        );
        Setup::default().regions(1).steered().yaml(&yaml).resolver(Arc::new(Here))
    }
}

pub fn port(region: &DemoRegion) -> u16 {
    region.url().rsplit_once(':').unwrap().1.parse().unwrap()
}

impl Federation {
    /// The regions in force, in their order.
    pub fn known(&self) -> Vec<String> {
        let shared = self.current.load();
        shared.registry.regions().iter().map(|region| region.id.to_string()).collect()
    }

    /// Waits until these are the regions in force.
    pub async fn knows(&self, ids: &[&str]) {
        eventually(&format!("{ids:?} are in force"), async || self.known() == ids).await;
    }

    /// How many looks at a source ended so.
    pub async fn looks(&self, source: &str, result: &str) -> f64 {
        self.metric(&format!("discovery_looks_total{{result=\"{result}\",source=\"{source}\"}}")).await
    }

    /// Lets the name server be looked at so many times more, each time an interval later.
    pub async fn look_at_names(&self, times: usize, result: &str) {
        for _ in 0..times {
            let before = self.looks("dns", result).await;
            let mut moved = false;
            eventually("the name server was looked at", async || {
                // The next look is due an interval after the end of the last one, whose end no clock shows.
                if !std::mem::replace(&mut moved, true) {
                    self.advance(LOOK);
                }
                self.looks("dns", result).await > before
            })
            .await;
        }
    }

    /// A job that may go to this region only; whether it was stored.
    pub async fn stores_in(&self, region: &str) -> bool {
        self.client.enqueue(pinned(region, "x")).await.status == 201
    }

    /// How often a region was turned away for this.
    pub async fn rejected(&self, reason: &str) -> f64 {
        self.metric(&format!("discovery_rejected_total{{reason=\"{reason}\"}}")).await
    }
}

/// Not one byte came after the handshakes with a region.
pub fn assert_untouched(region: &DemoRegion) {
    let record = region.record();
    assert_eq!(record.requests().len(), 0);
    assert!(record.raw_bytes().iter().all(bytes::Bytes::is_empty), "{:?}", record.raw_bytes());
}
