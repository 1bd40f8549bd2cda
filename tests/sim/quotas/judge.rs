//! What a run came to: the promises that it broke, and its figures.

use std::collections::BTreeMap;

use ojs_sidecar::policy::{OverLimit, Quota};

use super::name;
use super::region::{Region, State};

const HOUR_MS: u64 = 3_600_000;
/// A job without a bound on active jobs starts within so long after its time.
const SOON_MS: u64 = 60_000;
/// A delayed job of a tenant with such a bound: the hub may be away for three minutes, and jobs pile up meanwhile.
const DELAYED_MS: u64 = 300_000;

#[derive(Debug, Default)]
pub struct Judged {
    pub broken: Vec<String>,
    pub figures: String,
}

/// Counts while the run goes on.
#[derive(Debug, Default)]
pub struct Judge {
    pub arrived: u64,
    pub refused: u64,
    /// By tenant, the most active jobs; and the most with those that the documents except.
    pub most_active: BTreeMap<usize, (u64, u64)>,
    /// What broke while the run went on, each kind once.
    pub seen: BTreeMap<String, String>,
}

impl Judge {
    /// A worker has fetched jobs of a tenant, of which so many are active now, with so many that the documents except.
    pub fn fetched(&mut self, tenant: usize, (all, excepted): (u64, u64), quota: Option<&Quota>, now_ms: u64) {
        let (most, of_all) = self.most_active.entry(tenant).or_default();
        let active = all - excepted;
        (*most, *of_all) = (active.max(*most), all.max(*of_all));
        if let Some(max) = quota.and_then(|it| it.max_active).filter(|max| active > *max) {
            let said = format!("above: tenant-{tenant} has {active} active jobs of {max} at {now_ms}");
            self.seen.entry(format!("active {tenant}")).or_insert(said);
        }
    }

    /// `quiet_ms`: when the quiet end began, where there was one: now all jobs are done that were due then.
    pub fn end(self, region: &Region, quotas: &[Quota], (quiet_ms, now_ms): (Option<u64>, u64)) -> Judged {
        let Self { arrived, refused, most_active, seen } = self;
        let mut broken: Vec<String> = seen.into_values().collect();
        let stored = region.jobs.len() as u64;
        if stored + refused != arrived {
            broken.push(format!("lost: of {arrived} jobs {stored} are stored and {refused} refused"));
        }
        for quota in quotas.iter().filter(|it| it.max_active.is_some()) {
            let reached =
                most_active.iter().find(|(tenant, _)| name(**tenant) == quota.tenant).map_or(0, |(_, it)| it.0);
            if quiet_ms.is_some() && Some(reached) < quota.max_active {
                broken.push(format!("unreached: {} never has more than {reached} active jobs", quota.tenant));
            }
        }
        let rated: Vec<&Quota> = quotas.iter().filter(|it| it.has_rate()).collect();
        let of = |tenant: usize, is_report: bool| {
            let own = rated.iter().position(|it| it.tenant == name(tenant));
            own.or_else(|| rated.iter().position(|it| it.job_type == "report" && is_report))
        };
        let mut starts: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let (mut done, mut waiting, mut delayed, mut latest_ms) = (0, 0, 0, 0);
        for (number, job) in region.jobs.iter().enumerate() {
            done += u64::from(job.state == State::Done);
            waiting += u64::from(job.state == State::Waits);
            delayed += u64::from(job.due_ms > job.arrived_ms);
            if let Some(quota) = of(job.tenant, job.is_report) {
                starts.entry(quota).or_default().push(job.due_ms);
            }
            let bounded = quotas.iter().find(|it| it.max_active.is_some() && it.tenant == name(job.tenant));
            let is_delayed = bounded.is_some_and(|it| it.over_limit == OverLimit::Delay);
            let latest = job.due_ms + if is_delayed { DELAYED_MS } else { SOON_MS };
            if is_delayed {
                latest_ms = latest_ms.max(job.started_ms.unwrap_or(now_ms).saturating_sub(job.due_ms));
            }
            if quiet_ms.is_some_and(|at| job.due_ms <= at) && job.state != State::Done {
                broken
                    .push(format!("undone: job {number} of {} was due at {}: {:?}", job.tenant, job.due_ms, job.state));
            }
            if job.started_ms.is_some_and(|at| at < job.due_ms) {
                broken.push(format!("early: job {number} of {} started before its time {}", job.tenant, job.due_ms));
            }
            if (bounded.is_none() || is_delayed) && latest < now_ms && job.started_ms.is_none_or(|at| at > latest) {
                broken.push(format!("late: job {number} of {} was due at {}", job.tenant, job.due_ms));
            }
        }
        let mut figures = format!(
            "{arrived} jobs, {done} done, {waiting} waiting, {delayed} delayed, {refused} refused; {} s late at most; most active {most_active:?};",
            latest_ms / 1_000
        );
        for (quota, mut starts) in starts {
            starts.sort_unstable();
            let max = rated[quota].max_per_hour as usize;
            let most = most_in_an_hour(&starts);
            let over = over_the_bucket(rated[quota], &starts);
            if over > 0 {
                broken.push(format!("bucket: {over} jobs above burst and refill of {}", rated[quota].key()));
            }
            figures += &format!(" {} of {max} in an hour of {}:", most, rated[quota].key().replace('\t', " "));
            if most > max {
                broken.push(format!("{most} of {max} jobs in an hour of {}", rated[quota].key()));
            }
        }
        Judged { broken, figures }
    }
}

/// By how many jobs some stretch of sorted times has more than the burst and the refill for as long.
fn over_the_bucket(quota: &Quota, times: &[u64]) -> u64 {
    // In parts of a job: a job is an hour's milliseconds.
    let (mut level, mut last, mut most) = (0_u64, 0, 0);
    for at in times {
        level = level.saturating_sub((at - last) * quota.max_per_hour) + HOUR_MS;
        (last, most) = (*at, most.max(level));
    }
    most.saturating_sub(quota.burst * HOUR_MS).div_ceil(HOUR_MS)
}

/// The most of sorted times that lie in one hour, wherever it begins.
fn most_in_an_hour(times: &[u64]) -> usize {
    let (mut from, mut most) = (0, 0);
    for (to, at) in times.iter().enumerate() {
        while times[from] + HOUR_MS <= *at {
            from += 1;
        }
        most = most.max(to + 1 - from);
    }
    most
}
