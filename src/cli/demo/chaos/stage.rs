//! The stage of a run: three regions, a fault proxy before each, and a configuration for the sidecar.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::journal::ROWS_MAX;
use super::wire::{self, Troubles};
use crate::base::Draw;
use crate::cli::demo::stage::{IDS, scratch_in};
use crate::demo::{Authority, DemoRegion, RegionOptions, RegionTls};

/// How long a region may go on writing after the end of a connection, as the sidecar is told.
pub(super) const GRACE: Duration = Duration::from_millis(500);
/// What a region keeps between two looks.
const RECORD_BYTES_MAX: usize = 512 << 20;
/// A file system in memory: what kill -9 leaves behind is the same there, and no slow disk makes a record late.
const MEMORY: &str = "/dev/shm";

/// Short times, so that a run of seconds sees every fault to its end.
const SETTINGS: &str = "\
health_check: { interval: 500ms, timeout: 1s, unhealthy_threshold: 3 }
circuit_breaker: { failure_threshold: 15, failure_ratio: 0.8, cooldown: 500ms, slow_start: 500ms }
load: { interval: 500ms }
shutdown: { drain_idle: 100ms, drain_timeout: 5s }
limits: { call_timeout: 3s, connect_timeout: 1s }
failover: { late_write_grace: 500ms }
log: { level: info, access: off }
workers: { remote_fetch: [video] }
";

/// Everything but the sidecar.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) regions: Rc<Vec<DemoRegion>>,
    pub(super) troubles: Rc<Troubles>,
    pub(super) config: PathBuf,
    pub(super) journal: PathBuf,
    files: PathBuf,
}

impl Stage {
    /// Starts the regions and the proxies, and writes the configuration.
    ///
    /// Errors: a sentence for the person at the terminal.
    pub(super) async fn set(draw: &mut Draw) -> Result<Self, String> {
        let memory = Path::new(MEMORY);
        let files = scratch_in(memory).or_else(|_| scratch_in(&std::env::temp_dir()));
        let files = files.map_err(|error| format!("a folder for throw-away files: {error}"))?;
        let mut stage = Self {
            regions: Rc::default(),
            troubles: Rc::default(),
            config: files.join("config.yaml"),
            journal: files.join("journal"),
            files,
        };
        stage.start(draw).await.map_err(|error| error.to_string())?;
        Ok(stage)
    }

    async fn start(&mut self, draw: &mut Draw) -> std::io::Result<()> {
        let mut yaml = format!(
            "federation_id: chaos\nlocal_region: {}\nlisten: {{ clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }}\n\
             journal: {{ path: {:?}, rows_max: {ROWS_MAX} }}\n{SETTINGS}regions:\n",
            IDS[0], self.journal
        );
        let mut regions = Vec::new();
        for (place, id) in IDS.iter().enumerate() {
            let authority = Authority::new(&format!("chaos CA of {id}"));
            let mut options = RegionOptions::new(id)
                .tls(RegionTls { server: authority.server(&["localhost"]), client_ca_pem: Some(authority.ca_pem()) });
            options.record_bytes_max = RECORD_BYTES_MAX;
            // Faults below HTTP look different with one stream and with many.
            options.http2 = place != 1;
            let region = DemoRegion::start(options).await?;
            let proxy = wire::before(region.address(), draw.next(), Rc::clone(&self.troubles)).await?;
            let ca = authority.write_ca(&self.files, id)?;
            let client = authority.client("chaos-sidecar").write_to(&self.files, &format!("{id}-client"))?;
            yaml.push_str(&format!(
                "- id: {id}\n  url: https://localhost:{}\n  tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }}\n",
                proxy.port(),
                client.cert,
                client.key
            ));
            regions.push(region);
        }
        self.regions = Rc::new(regions);
        std::fs::write(&self.config, yaml)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Throw-away files; what cannot be removed now goes with the machine's next start.
        let _ = std::fs::remove_dir_all(&self.files);
    }
}
