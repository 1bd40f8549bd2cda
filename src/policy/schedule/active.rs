//! The quotas that bound the jobs which are active at once, at a sidecar: the slots that its hub has granted, and the quota of a job and of a queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::pool_grant::PoolGrant;
use crate::policy::quota::{ANY, Quota};

/// Between two lines of the log about queues that are left out for one quota.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// How long each of two windows lasts in which the longest lease is looked for: one FETCH with a long lease counts for two hours at most.
const WINDOW: Duration = Duration::from_secs(3600);
/// A grant that ends sooner has no slots, because a FETCH that takes one has to end before it.
const ENDING: Duration = Duration::from_secs(1);
/// A quota whose slots were left over by full answers so often, and for so long, has no jobs that its workers come to.
const VAIN: (u32, Duration) = (3, Duration::from_secs(1));

/// The longest lease of the last hour or two. Units: milliseconds.
#[derive(Debug, Default)]
struct Longest {
    began: Option<Instant>,
    this: u64,
    last: u64,
}

impl Longest {
    /// The longest one at a moment, and that of `ms` from then on.
    fn at(&mut self, ms: u64, now: Instant) -> u64 {
        let age = self.began.map(|began| now.saturating_duration_since(began));
        if age.is_none_or(|age| age >= WINDOW) {
            let is_next = age.is_some_and(|age| age < 2 * WINDOW);
            (self.last, self.this) = (if is_next { self.this } else { 0 }, 0);
            self.began = Some(now);
        }
        self.this = self.this.max(ms);
        self.this.max(self.last)
    }
}

/// The slots of one quota at this sidecar; shared by all threads, and kept while the numbers of the quota change.
#[derive(Debug, Default)]
pub struct Slots {
    /// The granted slots in place of the places of a pool.
    pub grant: Arc<PoolGrant>,
    /// The longest lease that workers have asked for.
    asked: Mutex<Longest>,
    /// The longest lease that the hub counts for a killed sidecar. Units: milliseconds.
    known_ms: AtomicU64,
    /// When the log has last said that queues are left out, and how many FETCHes have lacked one since.
    said: Mutex<(Option<Instant>, u64)>,
    /// Since when full answers of regions have brought no job of it, and how many.
    vain: Mutex<(Option<Instant>, u32)>,
}

/// A quota that bounds the active jobs, with its slots.
#[derive(Debug)]
pub struct ActiveQuota {
    /// The quota.
    pub quota: Quota,
    /// The most jobs that workers hold at once: its `max_active`.
    pub most: u64,
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
    pub fn note_lease(&self, lease: Duration, now: Instant) -> bool {
        let ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        self.asked.lock().at(ms, now);
        self.known_ms.load(Relaxed) >= ms
    }

    /// The longest lease that workers have asked for in the last hour; one of the hour before may count, too. Units: milliseconds.
    pub fn longest_ms(&self, now: Instant) -> u64 {
        self.asked.lock().at(0, now)
    }

    /// The hub counts leases that long. Units: milliseconds.
    pub fn set_known(&self, ms: u64) {
        self.known_ms.store(ms, Relaxed);
    }

    /// Whether the hub is to hear of a longer lease.
    #[must_use]
    pub fn lacks_lease(&self, now: Instant) -> bool {
        self.longest_ms(now) > self.known_ms.load(Relaxed)
    }

    /// Its jobs have come.
    pub fn came(&self) {
        *self.vain.lock() = (None, 0);
    }

    /// A region has answered with as many jobs as were asked for, of other queues only. Returns whether that was so in all calls of some time, so that its slots are
    /// better with others.
    pub fn note_vain(&self, now: Instant) -> bool {
        let mut vain = self.vain.lock();
        let since = *vain.0.get_or_insert(now);
        vain.1 = vain.1.saturating_add(1);
        vain.1 >= VAIN.0 && now.saturating_duration_since(since) >= VAIN.1
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
        let is_known = self.slots.note_lease(lease, now);
        let grant = self.slots.grant.grant();
        match grant.ends(now) {
            Some(ends) if ends.saturating_duration_since(now) < ENDING => (0, NoSlot::NoGrant),
            Some(_) if !is_known => (0, NoSlot::LongLease),
            Some(_) => (grant.calls(now).min(self.most), NoSlot::Full),
            None => self.quota.slots_without_hub().map_or((0, NoSlot::NoGrant), |slots| (slots, NoSlot::Full)),
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
        for (quota, most) in quotas.iter().filter_map(|it| Some((it, it.max_active?))) {
            let key: Arc<str> = quota.key().into();
            let slots = before.get(&key).map(|it| Arc::clone(&it.slots)).unwrap_or_default();
            let place = table.all.len();
            for queue in &quota.queues {
                table.by_queue.entry(queue.clone()).or_insert(place);
            }
            if quota.is_of_one_tenant() {
                table.tenants.push(place);
            }
            table.all.push(Arc::new(ActiveQuota { quota: quota.clone(), most, key, slots }));
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

    /// Whether a sidecar is to keep some queue to one of them. `has_shards`: whether it has queues with shards.
    #[must_use]
    pub fn bounds(&self, has_shards: bool) -> bool {
        !self.by_queue.is_empty() || (has_shards && !self.tenants.is_empty())
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
    use crate::policy::quota::{OnHubLoss, OverLimit};

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
        assert!(table.of_queue("p").is_none() && table.bounds(false));
        let of = |tenant, job_type| table.of_job(tenant, Some(job_type)).map(|it| it.quota.clone());
        assert_eq!(of(Some("a"), "mail"), Some(all[2].clone()));
        assert_eq!(of(Some("a"), "x"), Some(all[0].clone()));
        assert_eq!(of(Some("c"), "mail"), Some(all[1].clone()));
        assert_eq!(of(None, "x"), None);
        assert_eq!(table.of_tenants().map(|it| it.quota.tenant.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let fewer = ActiveTable::new(&all[..1], &table);
        assert!(Arc::ptr_eq(&fewer.get("a\t*").unwrap().slots, &table.get("a\t*").unwrap().slots));
        assert!(!ActiveTable::new(&all[1..3], &table).bounds(true));
        let of_tenants = ActiveTable::new(&all[3..], &table);
        assert!(of_tenants.bounds(true) && !of_tenants.bounds(false), "a tenant is bounded in shards only");
    }

    #[test]
    fn slots_are_those_of_the_grant_and_for_leases_that_the_hub_knows() {
        let table = ActiveTable::new(&[quota("a", ANY, &["q"])], &ActiveTable::default());
        let (it, now) = (table.iter().next().unwrap(), Instant::now());
        let (lease, end) = (Duration::from_secs(30), now + Duration::from_secs(30));
        assert_eq!(it.bound(lease, now), (2, NoSlot::Full), "without a grant");
        it.slots.grant.grant().take(9, end);
        assert!(it.slots.lacks_lease(now));
        assert_eq!(it.bound(lease, now), (0, NoSlot::LongLease));
        it.slots.set_known(it.slots.longest_ms(now));
        assert_eq!(it.bound(lease, now), (3, NoSlot::Full), "more than the quota");
        it.slots.grant.grant().take(1, end);
        assert_eq!((it.bound(lease, now).0, it.bound(2 * lease, now).0, it.bound(lease, end).0), (1, 0, 2));
        let (last, soon) = (end - ENDING, Duration::from_millis(1));
        assert_eq!((it.bound(lease, last).0, it.bound(lease, last + soon)), (1, (0, NoSlot::NoGrant)), "it is ending");
    }

    #[test]
    fn a_long_lease_counts_for_an_hour_or_two_and_no_longer() {
        let (slots, now) = (Slots::default(), Instant::now());
        let (day, short) = (24 * WINDOW, Duration::from_secs(30));
        slots.note_lease(day, now);
        slots.set_known(slots.longest_ms(now));
        assert!(slots.note_lease(day, now) && !slots.lacks_lease(now));
        slots.note_lease(short, now + WINDOW);
        assert_eq!(slots.longest_ms(now + 2 * WINDOW - Duration::from_millis(1)), 86_400_000, "it may still be in use");
        assert_eq!(slots.longest_ms(now + 2 * WINDOW), 30_000);
        assert_eq!(slots.longest_ms(now + 5 * WINDOW), 0, "no worker has asked for long");
        slots.set_known(0);
        assert!(!slots.note_lease(short, now + 5 * WINDOW) && slots.lacks_lease(now + 5 * WINDOW));
    }

    #[test]
    fn slots_that_full_answers_leave_over_for_a_second_are_in_vain() {
        let (slots, now) = (Slots::default(), Instant::now());
        let calls = |at: Instant| [(); 3].map(|()| slots.note_vain(at));
        assert_eq!(calls(now), [false; 3], "not for long enough");
        assert!(slots.note_vain(now + VAIN.1));
        slots.came();
        assert_eq!((slots.note_vain(now), calls(now + VAIN.1)), (false, [false, true, true]), "not often enough");
    }

    #[test]
    fn the_log_says_once_a_minute_that_queues_are_left_out() {
        let (slots, now) = (Slots::default(), Instant::now());
        assert_eq!(slots.note_held(now), Some(1));
        assert_eq!((slots.note_held(now), slots.note_held(now + SAY_EVERY / 2)), (None, None));
        assert_eq!(slots.note_held(now + SAY_EVERY), Some(3));
    }
}
