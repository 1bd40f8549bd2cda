//! The stage of a run: three regions, a fault proxy before each, and a configuration for the sidecar.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::ids::IDS;
use super::page::ROWS_MAX;
use super::plan::Plan;
use super::wire::{self, Troubles};
use crate::{Authority, DemoRegion, RegionOptions, RegionTls, scratch_in};
use ojs_handles::Draw;

/// The bytes that a region keeps between two searches.
const RECORD_BYTES_MAX: usize = 512 << 20;
/// A file system in memory: it keeps the same content over kill -9, and no slow disk makes a record late.
const MEMORY: &str = "/dev/shm";

/// The settings of every run.
const SETTINGS: &str = "\
log: { level: info, access: off }
workers: { remote_fetch: [video] }
";

/// Short times, so that a run of seconds sees every fault to its end.
const SHORT: &str = "\
health_check: { interval: 500ms, timeout: 1s, unhealthy_threshold: 3 }
circuit_breaker: { failure_threshold: 15, failure_ratio: 0.8, cooldown: 500ms, slow_start: 500ms }
load: { interval: 500ms }
shutdown: { drain_idle: 100ms, drain_timeout: 5s }
limits: { call_timeout: 3s, connect_timeout: 1s }
";

/// Everything but the sidecar.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) regions: Rc<Vec<DemoRegion>>,
    pub(super) troubles: Rc<Troubles>,
    pub(super) config: PathBuf,
    pub(super) journal: PathBuf,
    authorities: Vec<Authority>,
    files: PathBuf,
}

impl Stage {
    /// Starts the regions and the proxies, and writes the configuration.
    ///
    /// Errors: a sentence for the person at the terminal.
    pub(super) async fn set(draw: &mut Draw, plan: Plan) -> Result<Self, String> {
        let memory = Path::new(MEMORY);
        let files = scratch_in(memory).or_else(|_| scratch_in(&std::env::temp_dir()));
        let files = files.map_err(|error| format!("a folder for throw-away files: {error}"))?;
        let mut stage = Self {
            regions: Rc::default(),
            troubles: Rc::default(),
            config: files.join("config.yaml"),
            journal: files.join("journal"),
            authorities: Vec::new(),
            files,
        };
        stage.start(draw, plan).await.map_err(|error| error.to_string())?;
        Ok(stage)
    }

    async fn start(&mut self, draw: &mut Draw, plan: Plan) -> std::io::Result<()> {
        let mut yaml = format!(
            "federation_id: chaos\nlocal_region: {}\nlisten: {{ clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }}\n\
             journal: {{ path: {:?}, rows_max: {ROWS_MAX} }}\n{SETTINGS}{}{}regions:\n",
            IDS[0],
            self.journal,
            if plan.default_timings { "" } else { SHORT },
            waits(plan)
        );
        let mut regions = Vec::new();
        for ((place, id), duplicate_ids) in IDS.iter().enumerate().zip(plan.duplicate_ids()) {
            let authority = Authority::new(&format!("chaos CA of {id}"));
            let mut options = RegionOptions::new(id)
                .tls(RegionTls { server: authority.server(&["localhost"]), client_ca_pem: Some(authority.ca_pem()) });
            options.record_bytes_max = RECORD_BYTES_MAX;
            // Faults below HTTP look different with one stream and with many.
            options.http2 = plan.http2 || place != 1;
            options.duplicate_ids = Some(duplicate_ids);
            // A forgotten job cannot be judged, and its id would be free again.
            options.finished_max = usize::MAX;
            let region = DemoRegion::start(options).await?;
            let proxy = wire::before(place, region.address(), draw.next(), Rc::clone(&self.troubles)).await?;
            let ca = authority.write_ca(&self.files, id)?;
            let client = authority.client("chaos-sidecar").write_to(&self.files, &format!("{id}-client"))?;
            yaml.push_str(&format!(
                "- id: {id}\n  url: https://localhost:{}\n  tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }}\n",
                proxy.port(),
                client.cert,
                client.key
            ));
            yaml.push_str(&format!("  duplicate_ids: {}\n", duplicate_ids.as_str()));
            regions.push(region);
            self.authorities.push(authority);
        }
        self.regions = Rc::new(regions);
        std::fs::write(&self.config, yaml)
    }
}

impl Stage {
    /// Changes the configuration without an effect on calls.
    ///
    /// Errors: the file system's.
    pub(super) fn change_configuration(&self) -> std::io::Result<()> {
        let yaml = std::fs::read_to_string(&self.config)?;
        let (word, other) = ("remote_fetch: [video]", "remote_fetch: [video, nothing-is-here]");
        let changed = if yaml.contains(word) { yaml.replace(word, other) } else { yaml.replace(other, word) };
        std::fs::write(&self.config, changed)
    }

    /// Gives every region and the sidecar other certificates by the same authorities.
    ///
    /// Errors: the file system's.
    pub(super) fn rotate(&self) -> std::io::Result<()> {
        for (region, authority) in self.regions.iter().zip(&self.authorities) {
            region.set_server(authority.server(&["localhost"]))?;
            authority.client("chaos-sidecar").write_to(&self.files, &format!("{}-client", region.id()))?;
        }
        Ok(())
    }
}

/// How long the sidecar waits for late writes and lagging reads.
fn waits(plan: Plan) -> String {
    let ms = |time: Duration| time.as_millis();
    format!("failover: {{ late_write_grace: {}ms, read_lag: {}ms }}\n", ms(plan.grace()), ms(plan.lag()))
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Throw-away files; a file that cannot be removed now is removed at the machine's next start.
        let _ = std::fs::remove_dir_all(&self.files);
    }
}
