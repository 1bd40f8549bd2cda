//! The quotas that bound the jobs which are active at once, at a sidecar: the slots that its hub has granted, and the quota of a job and of a queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::pool_grant::PoolGrant;
use crate::policy::quota::{ANY, OnHubLoss, Quota};

/// Between two lines of the log about queues that are left out for one quota.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The slots of one quota at this sidecar; shared by all threads, and kept while the numbers of the quota change.
#[derive(Debug, Default)]
pub struct Slots {
    /// The granted slots in place of the places of a pool.
    pub grant: Arc<PoolGrant>,
    /// The longest lease that a worker has asked for. Units: milliseconds.
    asked_ms: AtomicU64,
    /// The longest lease that the hub counts for a killed sidecar. Units: milliseconds.
    known_ms: AtomicU64,
    /// When the log has last said that queues are left out, and how many FETCHes have lacked one since.
    said: Mutex<(Option<Instant>, u64)>,
}

/// A quota that bounds the active jobs, with its slots.
#[derive(Debug)]
pub struct ActiveQuota {
    /// The quota, with `max_active`.
    pub quota: Quota,
    /// Its key, which names its slots at the hub and in the journal.
    pub key: Arc<str>,
    /// Its slots.
    pub slots: Arc<Slots>,
}

/// Why a FETCH finds no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// All slots of this sidecar are taken, or it has none.
    Full,
    /// No hub grants slots.
    NoGrant,
    /// The hub does not know yet that workers ask for leases that long.
    LongLease,
}

impl Slots {
    /// A worker asks for jobs with such a lease, or has extended some by it. Returns whether the hub counts it.
    pub fn note_lease(&self, lease: Duration) -> bool {
        let ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self.asked_ms.fetch_max(ms, Relaxed);
        self.known_ms.load(Relaxed) >= ms
    }

    /// The longest lease that a worker has asked for. Units: milliseconds.
    pub fn longest_ms(&self) -> u64 {
        self.asked_ms.load(Relaxed)
    }

    /// The hub counts leases that long. Units: milliseconds.
    pub fn set_known(&self, ms: u64) {
        self.known_ms.store(ms, Relaxed);
    }

    /// Whether the hub is to hear of a longer lease.
    #[must_use]
    pub fn lacks_lease(&self) -> bool {
        self.asked_ms.load(Relaxed) > self.known_ms.load(Relaxed)
    }

    /// A FETCH has found no slot. Returns how many have since the last line, where the next one is due.
    pub fn note_held(&self, now: Instant) -> Option<u64> {
        let mut said = self.said.lock();
        said.1 += 1;
        let is_due = said.0.is_none_or(|at| now.saturating_duration_since(at) >= SAY_EVERY);
        is_due.then(|| std::mem::replace(&mut *said, (Some(now), 0)).1)
    }
}

impl ActiveQuota {
    /// The most active jobs at this sidecar now, for jobs with such a lease; and the reason where that is none for another reason than the bound.
    #[must_use]
    pub fn bound(&self, lease: Duration, now: Instant) -> (u64, NoSlot) {
        let most = self.quota.max_active.unwrap_or(u64::MAX);
        let is_known = self.slots.note_lease(lease);
        let grant = self.slots.grant.grant();
        match grant.ends(now) {
            Some(_) if !is_known => (0, NoSlot::LongLease),
            Some(_) => (grant.calls(now).min(most), NoSlot::Full),
            None if self.quota.on_hub_loss == OnHubLoss::Local => {
                (self.quota.local_active.unwrap_or_default(), NoSlot::Full)
            }
            None => (0, NoSlot::NoGrant),
        }
    }
}

/// The quotas in force that bound active jobs. Bound: [`crate::policy::ACTIVE_MAX`] of them.
#[derive(Debug, Default)]
pub struct ActiveTable {
    all: Vec<Arc<ActiveQuota>>,
    by_queue: HashMap<String, usize>,
    tenants: Vec<usize>,
}

impl ActiveTable {
    /// Puts quotas in force in place of those of `before`, whose slots stay. Those without `max_active` are left out.
    #[must_use]
    pub fn new(quotas: &[Quota], before: &Self) -> Self {
        let mut table = Self::default();
        for quota in quotas.iter().filter(|it| it.max_active.is_some()) {
            let key: Arc<str> = quota.key().into();
            let slots = before.get(&key).map(|it| Arc::clone(&it.slots)).unwrap_or_default();
            let place = table.all.len();
            for queue in &quota.queues {
                table.by_queue.entry(queue.clone()).or_insert(place);
            }
            if quota.is_of_one_tenant() {
                table.tenants.push(place);
            }
            table.all.push(Arc::new(ActiveQuota { quota: quota.clone(), key, slots }));
        }
        table
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<ActiveQuota>> {
        self.all.iter()
    }

    /// The one with a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<ActiveQuota>> {
        self.all.iter().find(|it| *it.key == *key)
    }

    /// Whether some queue is bounded by one of them.
    #[must_use]
    pub fn bounds(&self) -> bool {
        !self.by_queue.is_empty() || !self.tenants.is_empty()
    }

    /// The quota that a queue holds the jobs of alone.
    #[must_use]
    pub fn of_queue(&self, queue: &str) -> Option<&Arc<ActiveQuota>> {
        self.all.get(*self.by_queue.get(queue)?)
    }

    /// Those of one tenant and all types, whose shards are bounded.
    pub fn of_tenants(&self) -> impl Iterator<Item = &Arc<ActiveQuota>> {
        self.tenants.iter().filter_map(|place| self.all.get(*place))
    }

    /// The quota that counts a job of a queue that none bounds: that of its tenant and type, else of its tenant, else of its type, else of all.
    #[must_use]
    pub fn of_job(&self, tenant: Option<&str>, job_type: Option<&str>) -> Option<&Arc<ActiveQuota>> {
        let fits = |said: &str, of: Option<&str>| said == ANY || Some(said) == of;
        let fitting = self.all.iter().filter(|it| fits(&it.quota.tenant, tenant) && fits(&it.quota.job_type, job_type));
        fitting.max_by_key(|it| (u8::from(it.quota.tenant != ANY) * 2) + u8::from(it.quota.job_type != ANY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::quota::OverLimit;

    fn quota(tenant: &str, job_type: &str, queues: &[&str]) -> Quota {
        Quota {
            tenant: tenant.to_owned(),
            job_type: job_type.to_owned(),
            profile: None,
            max_per_hour: 0,
            burst: 0,
            max_active: Some(3),
            queues: queues.iter().map(|it| (*it).to_owned()).collect(),
            over_limit: OverLimit::Refuse,
            on_hub_loss: OnHubLoss::Local,
            local_per_hour: None,
            local_active: Some(2),
        }
    }

    #[test]
    fn a_queue_has_its_quota_and_a_job_of_another_one_the_narrowest() {
        let all = [quota("a", ANY, &["q"]), quota(ANY, "mail", &[]), quota("a", "mail", &[]), quota("b", ANY, &[])];
        let table = ActiveTable::new(&all, &ActiveTable::default());
        assert_eq!(table.of_queue("q").map(|it| &it.quota), Some(&all[0]));
        assert!(table.of_queue("p").is_none() && table.bounds());
        let of = |tenant, job_type| table.of_job(tenant, Some(job_type)).map(|it| it.quota.clone());
        assert_eq!(of(Some("a"), "mail"), Some(all[2].clone()));
        assert_eq!(of(Some("a"), "x"), Some(all[0].clone()));
        assert_eq!(of(Some("c"), "mail"), Some(all[1].clone()));
        assert_eq!(of(None, "x"), None);
        assert_eq!(table.of_tenants().map(|it| it.quota.tenant.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let fewer = ActiveTable::new(&all[..1], &table);
        assert!(Arc::ptr_eq(&fewer.get("a\t*").unwrap().slots, &table.get("a\t*").unwrap().slots));
        assert!(!ActiveTable::new(&all[1..3], &table).bounds());
    }

    #[test]
    fn slots_are_those_of_the_grant_and_for_leases_that_the_hub_knows() {
        let table = ActiveTable::new(&[quota("a", ANY, &["q"])], &ActiveTable::default());
        let (it, now) = (table.iter().next().unwrap(), Instant::now());
        let (lease, end) = (Duration::from_secs(30), now + Duration::from_secs(30));
        assert_eq!(it.bound(lease, now), (2, NoSlot::Full), "without a grant");
        it.slots.grant.grant().take(9, end);
        assert!(it.slots.lacks_lease());
        assert_eq!(it.bound(lease, now), (0, NoSlot::LongLease));
        it.slots.set_known(it.slots.longest_ms());
        assert_eq!(it.bound(lease, now), (3, NoSlot::Full), "more than the quota");
        it.slots.grant.grant().take(1, end);
        assert_eq!((it.bound(lease, now).0, it.bound(2 * lease, now).0, it.bound(lease, end).0), (1, 0, 2));
    }

    #[test]
    fn the_log_says_once_a_minute_that_queues_are_left_out() {
        let (slots, now) = (Slots::default(), Instant::now());
        assert_eq!(slots.note_held(now), Some(1));
        assert_eq!((slots.note_held(now), slots.note_held(now + SAY_EVERY / 2)), (None, None));
        assert_eq!(slots.note_held(now + SAY_EVERY), Some(3));
    }
}
