//! A history of the index with faults, by a seed: three regions, each with a hub on PostgreSQL and a sidecar that reports, while hubs are killed,
//! paused and cut off from each other, from their sidecars and from their database. After it all indexes are equal. `INDEX_HISTORY_SEED`,
//! `INDEX_HISTORY_JOBS`, `INDEX_HISTORY_FAULTS` and `INDEX_HISTORY_CUT` (seconds) make it another or a longer one.

mod jobs;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::INFO;
use super::history::{Draw, Link, number, say};
use super::postgres::Postgres;
use super::stage::{Hub, HubStage};
use crate::support::{Process, Setup, Stage};
use jobs::{CANARY, Jobs};

const REGIONS: [&str; 3] = ["us-east-1", "eu-west-1", "ap-south-1"];
/// How long a fault lasts: shorter and longer than the waits of those that depend on it.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(6)];

/// All facts of a hub about jobs that were not replicated, as a number and a digest. Descriptions are left out: those of bound jobs differ by
/// region, as they have to.
const DIGEST: &str = "SELECT count(*) || ' ' || coalesce(md5(string_agg(line, E'\\n' ORDER BY line COLLATE \"C\")), '') FROM (
  SELECT concat_ws('|', job_id, region, kind, lease_ms, CASE kind WHEN 'created' THEN min(at_ms) ELSE max(at_ms) END, max(state),
    max(federation_id)) AS line FROM ojs_hub_change AS it
  WHERE NOT EXISTS (SELECT 1 FROM ojs_hub_change AS o WHERE (o.job_id, o.region) = (it.job_id, it.region) AND o.replicated_from IS NOT NULL)
  GROUP BY job_id, region, kind, lease_ms) AS facts";

/// One region with its hub, the database of that, and a sidecar.
struct Place {
    stage: HubStage,
    hub: Hub,
    database: Postgres,
    sidecar: Option<Process>,
    /// The way of the hub to its database, of its sidecars to it, and of other hubs to it.
    links: [Link; 3],
}

const TO_DATABASE: usize = 0;
const OF_SIDECARS: usize = 1;
const OF_HUBS: usize = 2;

fn rules(region: &str) -> String {
    let others = REGIONS.iter().filter(|it| **it != region);
    others.map(|it| format!("  - {{ san: \"spiffe://test/hub/{it}\", role: hub, region: {it} }}\n")).collect()
}

impl Place {
    /// Nothing is pulled yet; `None` without PostgreSQL.
    async fn start(region: &str) -> Option<Self> {
        let mut stage = HubStage::new(&format!("{}index: {{ region: {region} }}", rules(region)));
        for other in REGIONS {
            stage.client(&format!("hub-{other}"), &format!("spiffe://test/hub/{other}"));
        }
        let database = Postgres::start(&stage.authority).await?;
        let to_database = Link::to(database.listens_at());
        stage
            .set_record_of(0, Postgres::section_at(&[to_database.address], &stage.path(""), &stage.path("hub.ca.pem")));
        let hub = stage.run().await;
        let own = stage.url().trim_start_matches("https://").parse().unwrap();
        let links = [to_database, Link::to(own), Link::to(own)];
        stage.set_via(&[links[OF_SIDECARS].address]);
        Some(Self { stage, hub, database, sidecar: None, links })
    }

    /// The source of another hub's configuration.
    fn source(&self, region: &str, reader: &str) -> String {
        let file = |name: &str| self.stage.path(name);
        let (cert, key) = (file(&format!("hub-{reader}.cert.pem")), file(&format!("hub-{reader}.key.pem")));
        let tls = format!("ca: {:?}, cert: {cert:?}, key: {key:?}", file("hub.ca.pem"));
        let url = format!("https://{}", self.links[OF_HUBS].address);
        format!("{{ region: {region}, urls: [{url:?}], tls: {{ {tls} }} }}")
    }
}

/// The three regions.
struct World {
    federation: Stage,
    places: Vec<Place>,
}

impl World {
    async fn start() -> Option<Self> {
        let mut places = Vec::new();
        for region in REGIONS {
            places.push(Place::start(region).await?);
        }
        for (place, region) in REGIONS.iter().enumerate() {
            let others = (0..REGIONS.len()).filter(|other| *other != place);
            let from: Vec<String> = others.map(|other| places[other].source(REGIONS[other], region)).collect();
            let more = format!("{}index: {{ region: {region}, from: [{}] }}", rules(region), from.join(", "));
            let this = &mut places[place];
            this.stage.set_more(&more);
            this.hub.kill();
            this.hub = this.stage.again(0).await;
        }
        // Room for all calls about each job, some KiB at a region.
        let record = usize::try_from(number("INDEX_HISTORY_JOBS", 400)).unwrap() * (16 << 10) + (64 << 20);
        let federation = Setup::default().demo(move |options| options.record_bytes_max = record).stage().await;
        for (place, region) in places.iter_mut().zip(REGIONS) {
            let section = place.stage.section(region).replace("hub: {", "hub: { report_jobs: true,");
            let overlay = place.stage.path("overlay.yaml");
            std::fs::write(&overlay, format!("local_region: {region}\n{section}\n")).unwrap();
            let more = ["--config", overlay.to_str().unwrap()];
            place.sidecar = Some(Process::run(&federation.config, &[&INFO[..], &more].concat()).await);
            place.stage.follows(region).await;
        }
        Some(Self { federation, places })
    }

    /// Breaks one thing and mends it.
    async fn break_one(&mut self, draw: &mut Draw) {
        let (place, pause) = (draw.below(REGIONS.len()), PAUSES[draw.below(PAUSES.len())]);
        let kind = draw.below(5);
        say(&format!("fault {kind} in {} for {pause:?}", REGIONS[place]));
        let it = &mut self.places[place];
        match kind {
            0 => {
                it.hub.kill();
                it.hub = it.stage.again(0).await;
            }
            1 => {
                it.hub.pause(true);
                tokio::time::sleep(pause).await;
                it.hub.pause(false);
            }
            cut => {
                let link = &it.links[[TO_DATABASE, OF_SIDECARS, OF_HUBS][cut - 2]];
                link.cut(true);
                tokio::time::sleep(pause).await;
                link.cut(false);
            }
        }
    }

    /// Cuts the first region off from all hubs for so long; their lags then say how long it was.
    async fn check_lag(&self, cut: Duration) {
        let link = &self.places[0].links[OF_HUBS];
        link.cut(true);
        let begun = Instant::now();
        tokio::time::sleep(cut).await;
        for (place, region) in self.places.iter().zip(REGIONS).skip(1) {
            let metrics = place.hub.admin.get("/metrics").await;
            let since = begun.elapsed().as_secs_f64();
            let name = format!("ojs_hub_replication_lag_seconds{{from=\"{}\",to=\"{region}\"}}", REGIONS[0]);
            let text = String::from_utf8_lossy(&metrics.body).into_owned();
            let lag = text.lines().find_map(|line| line.strip_prefix(&*name)?.trim().parse::<f64>().ok()).unwrap();
            say(&format!("{region} is behind by {lag:.2} s after a cut of {since:.2} s"));
            assert!((lag - since).abs() <= 1.0, "{region}: {lag} after {since}");
        }
        link.cut(false);
    }

    /// Waits until all indexes are equal and complete; how many facts each has. `created`: how many jobs were stored and are replicated.
    async fn equal(&self, created: usize) -> String {
        let count = "SELECT count(DISTINCT job_id) FROM ojs_hub_change AS it WHERE NOT EXISTS
            (SELECT 1 FROM ojs_hub_change AS o WHERE o.job_id = it.job_id AND o.replicated_from IS NOT NULL)";
        let mut digests = Vec::new();
        let begun = Instant::now();
        loop {
            digests.clear();
            digests.extend(self.places.iter().map(|place| place.database.query(DIGEST)));
            let is_complete = self.places[0].database.query(count) == created.to_string();
            if is_complete && digests.iter().all(|it| *it == digests[0]) {
                say(&format!("all indexes are equal after {:?}: {}", begun.elapsed(), digests[0]));
                return digests.remove(0);
            }
            assert!(begun.elapsed() < Duration::from_secs(180), "the indexes differ: {digests:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The record in the index of a region, by its sidecar.
    async fn look_up(&self, place: usize, path: &str) -> (u16, Value) {
        let sidecar = self.places[place].sidecar.as_ref().unwrap();
        let answer = sidecar.client.get(&format!("/v1/federation/jobs{path}")).await;
        (answer.status.as_u16(), answer.json())
    }

    /// No argument of a job is in a file of any hub or database, nor in any log.
    fn check_files(&self) {
        for (place, region) in self.places.iter().zip(REGIONS) {
            for folder in [place.stage.path(""), place.database.folder()] {
                check_folder(&folder);
            }
            assert!(!place.hub.log_has(&[CANARY]), "{region}");
            let log = place.sidecar.as_ref().unwrap().log();
            assert!(log.iter().all(|line| !line.contains(CANARY)), "{region}");
        }
    }
}

fn check_folder(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_folder(&path);
        } else if let Ok(content) = std::fs::read(&path) {
            assert!(memchr::memmem::find(&content, CANARY.as_bytes()).is_none(), "{}", path.display());
        }
    }
}

#[tokio::test]
async fn indexes_of_three_regions_are_equal_after_faults_and_hold_what_became_of_each_job() {
    let seed = number("INDEX_HISTORY_SEED", 1);
    let (jobs, faults) = (number("INDEX_HISTORY_JOBS", 400), number("INDEX_HISTORY_FAULTS", 3));
    let Some(mut world) = World::start().await else { return };
    let clients: Vec<_> = world.places.iter().map(|it| it.sidecar.as_ref().unwrap().client).collect();
    let load = Jobs::start(clients, usize::try_from(jobs).unwrap(), seed);
    let mut draw = Draw(seed);
    for _ in 0..faults {
        world.break_one(&mut draw).await;
    }
    let made = load.end().await;
    if let Some(cut) = std::env::var_os("INDEX_HISTORY_CUT") {
        world.check_lag(Duration::from_secs(cut.to_str().unwrap().parse().unwrap())).await;
    }
    world.equal(made.replicated()).await;
    made.check(&world).await;
    made.check_pins(&world.federation.regions);
    world.check_files();
}
