//! One sidecar: the program's quotas, its part that asks the hub, and its record of leases in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ojs_sidecar::base::{Clock, Moment, RegionId};
use ojs_sidecar::config;
use ojs_sidecar::fleet::{PoolAnswer, QuotaAnswer, Quoting, Slotting};
use ojs_sidecar::journal::{Journal, Lease, LeasePlace};
use ojs_sidecar::policy::Quota;
use ojs_sidecar::region::{NoToken, Quotas, TakenToken};
use ojs_sidecar::telemetry::Metrics;

use super::hub::Request;
use super::region::Region;
use super::{Sabotage, name};

/// For so long a slot is held that is not given back.
const DAY: Duration = Duration::from_secs(24 * 3600);

pub struct Sidecar {
    pub quotas: Arc<Quotas>,
    quoting: Quoting,
    slotting: Slotting,
    journal: Arc<Journal>,
    started_unix_ms: u64,
    /// Whether it follows the hub, and when it lost it.
    pub follows: bool,
    pub lost_ms: Option<u64>,
}

impl Sidecar {
    pub fn new(clock: &Clock, metrics: &Arc<Metrics>) -> Self {
        let quotas = Arc::new(Quotas::default());
        let settings = config::Journal { path: None, required: false, rows_max: 10_000 };
        let journal = Arc::new(Journal::open(&settings, clock.clone(), Arc::clone(metrics)));
        Self {
            quoting: Quoting::new(Arc::clone(&quotas), clock.now()),
            slotting: Slotting::new(Arc::clone(&quotas), Arc::clone(&journal)),
            quotas,
            journal,
            started_unix_ms: clock.unix_ms(),
            follows: false,
            lost_ms: None,
        }
    }

    /// The feed of the hub begins, and names the quotas.
    pub fn follow(&mut self, quotas: &[Quota]) {
        self.quoting.feed_begins();
        self.quoting.named(quotas);
        self.slotting.hub_reached();
        (self.follows, self.lost_ms) = (true, None);
    }

    /// The connection is lost.
    pub fn lose(&mut self, now_ms: u64) {
        self.follows = false;
        self.lost_ms.get_or_insert(now_ms);
    }

    /// No hub can be reached.
    pub fn hub_lost(&mut self, now: Instant) {
        self.quoting.hub_lost();
        self.slotting.hub_lost(now);
    }

    /// What it asks the hub for now.
    pub fn ask(&self, sidecar: usize, now: Instant) -> Option<Request> {
        let tokens = self.quoting.ask(now);
        let slots = if self.slotting.is_due(now) { self.slotting.ask(now) } else { Vec::new() };
        let started_unix_ms = self.started_unix_ms;
        (!tokens.is_empty() || !slots.is_empty()).then_some(Request { sidecar, started_unix_ms, tokens, slots })
    }

    pub fn take(&self, (tokens, slots): &(Vec<QuotaAnswer>, Vec<PoolAnswer>), asked: Instant) {
        if !tokens.is_empty() {
            self.quoting.take(tokens, asked);
        }
        if !slots.is_empty() {
            self.slotting.take(slots, asked);
        }
    }

    /// A token for a job.
    pub fn admit(&self, tenant: usize, is_report: bool, now: Instant) -> Result<Option<TakenToken>, NoToken> {
        let job_type = if is_report { "report" } else { "mail" };
        self.quotas.take((Some(&name(tenant)), Some(job_type)), true, now)
    }

    /// A FETCH for jobs of the shard of a tenant, as `proxy::workers` does it. `is_lost`: the answer of the region is.
    pub fn fetch(
        &self,
        region: &mut Region,
        (tenant, count, lease_ms): (usize, u64, u64),
        (now, now_ms): (Instant, u64),
        (is_lost, sabotage): (bool, Option<Sabotage>),
    ) -> Vec<usize> {
        let table = self.quotas.active.table();
        let Some(active) = table.of_job(Some(&name(tenant)), None) else {
            return region.fetch(tenant, count, now_ms, lease_ms);
        };
        let (bound, _) = active.bound(Duration::from_millis(lease_ms), now);
        let bound = if sabotage == Some(Sabotage::GrantsNone) { 0 } else { bound };
        let mut places = self.journal.ask_places(&active.key, count, now, || bound);
        let grant = &active.slots.grant;
        grant.asked(count.min(active.quota.max_active.unwrap().saturating_sub(places.before())) - places.left());
        if places.left() == 0 {
            return Vec::new();
        }
        let jobs = region.fetch(tenant, places.left(), now_ms, lease_ms);
        if is_lost {
            jobs.iter().for_each(|job| region.jobs[*job].is_excepted = true);
            return Vec::new();
        }
        if (jobs.len() as u64) < places.left() {
            grant.emptied();
        }
        if sabotage != Some(Sabotage::ForgetsLeases) && !jobs.is_empty() {
            let is_kept = sabotage == Some(Sabotage::KeepsSlots);
            let lasts = if is_kept { DAY } else { Duration::from_millis(lease_ms) };
            self.journal.leased(jobs.iter().map(|job| lease(*job, &active.key, lasts)));
            let held = places.came(&self.journal, jobs.len() as u64);
            grant.came(jobs.len() as u64, held);
        }
        jobs
    }

    /// A worker has done a job, and this sidecar passes it on.
    pub fn ack(&self, job: usize) {
        if let Some(lease) = self.journal.lease_of(&job.to_string()) {
            self.journal.end_lease(lease.number, true);
        }
    }

    /// A heartbeat of a worker has extended a lease.
    pub fn extend(&self, job: usize, lease_ms: u64) {
        let (region, visibility) = (RegionId::parse("a").unwrap(), Duration::from_millis(lease_ms));
        self.journal.extend_leases(&region, std::iter::once(job.to_string().as_str()), Some(visibility));
    }
}

fn lease(job: usize, key: &Arc<str>, visibility: Duration) -> Lease {
    Lease {
        number: 0,
        job_id: job.to_string(),
        region: RegionId::parse("a").unwrap(),
        worker_id: None,
        started_at: None,
        visibility,
        until: None,
        ends: Moment::default(),
        place: Some(LeasePlace { pool: None, queue: None, slot: Some(Arc::clone(key)) }),
    }
}
