//! The stopped job types at this sidecar. Without any a job pays for one load and a branch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::policy::StoppedType;
use crate::telemetry::event;

/// How long a type stays stopped behind its time while the hub is connected and says nothing: its record may be slow. Units: milliseconds.
const HOLD_ON_MS: u64 = 30_000;
/// The delay of a job whose pause is over by its time while the hub looks for a probe. Units: milliseconds.
const DELAY_MIN_MS: u64 = 2_000;

/// Between two FETCH calls that try a permission: the queue may be empty, and the other queues wait meanwhile. Units: milliseconds.
const TRY_EVERY_MS: u64 = 1_000;
/// The golden ratio as a share of 2^64: its multiples fill a range evenly, however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Permissions that are remembered: twice as many as types are stopped at once.
const PERMISSIONS_MAX: usize = 512;
/// A permission is free, taken by a FETCH that is under way, or spent.
const FREE: u8 = 0;
const TAKEN: u8 = 1;
const SPENT: u8 = 2;

/// The permission to let one job through.
#[derive(Debug)]
struct Permission {
    name: String,
    state: AtomicU8,
    /// When a FETCH has tried it last. Units: milliseconds since the Unix epoch.
    tried_ms: AtomicU64,
}

/// A stopped type and tenant.
#[derive(Debug)]
struct Stop {
    stopped: StoppedType,
    permission: Option<Arc<Permission>>,
}

/// The stopped types of a process; they stay over a reload of the configuration.
#[derive(Debug, Default)]
pub struct Breakers {
    is_on: AtomicBool,
    /// Whether a hub is connected that names them.
    is_live: AtomicBool,
    /// Whether the hub of the present connection has named them.
    is_named: AtomicBool,
    /// Jobs that were delayed, by which they are spread.
    delayed: AtomicU64,
    all: ArcSwap<Vec<Stop>>,
    /// The last permissions: one that another hub does not name yet is not given a second time.
    permissions: Mutex<VecDeque<Arc<Permission>>>,
}

/// A permission that one job goes by. Where the job is stored nowhere, it is given back.
#[derive(Debug)]
pub struct Probe {
    permission: Arc<Permission>,
    is_sent: AtomicBool,
}

impl Probe {
    /// Its name, for the hub.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.permission.name
    }

    /// The job is on its way: from now on the permission is given back by [`Probe::give_back`] only.
    pub fn sent(&self) {
        self.is_sent.store(true, Relaxed);
    }

    /// The job is stored nowhere.
    pub fn give_back(&self) {
        self.permission.state.store(FREE, Relaxed);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if !*self.is_sent.get_mut() {
            self.give_back();
        }
    }
}

/// A permission that one FETCH goes by, for one queue. Where no job comes, it is given back.
#[derive(Debug)]
pub struct FetchProbe {
    permission: Arc<Permission>,
    queue: String,
}

impl FetchProbe {
    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }
}

impl Drop for FetchProbe {
    fn drop(&mut self) {
        let _ = self.permission.state.compare_exchange(TAKEN, FREE, AcqRel, Acquire);
    }
}

/// The fate of a job whose type is looked up.
#[derive(Debug)]
pub enum Held {
    /// Its type is not stopped.
    No,
    /// It goes by the permission of this sidecar.
    Probe(Probe),
    /// It waits until then. Units: milliseconds since the Unix epoch.
    Until(u64),
}

impl Breakers {
    /// Whether any type is stopped. One load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Takes the stopped types that the hub names, in place of those before. A permission that is spent stays so.
    pub fn set(&self, stopped: Vec<StoppedType>) {
        let before = self.all.load();
        let kept = |name: &String| {
            let mut all = self.permissions.lock();
            if let Some(known) = all.iter().find(|it| it.name == *name) {
                return Arc::clone(known);
            }
            let new = Arc::new(Permission {
                name: name.clone(),
                state: AtomicU8::new(FREE),
                tried_ms: AtomicU64::new(u64::MAX),
            });
            all.push_back(Arc::clone(&new));
            if all.len() > PERMISSIONS_MAX {
                all.pop_front();
            }
            new
        };
        let all: Vec<Stop> =
            stopped.into_iter().map(|stopped| Stop { permission: stopped.trial.as_ref().map(kept), stopped }).collect();
        let names = |all: &[Stop]| -> Vec<(String, Option<String>)> {
            all.iter().map(|it| (it.stopped.job_type.clone(), it.stopped.tenant.clone())).collect()
        };
        let (old, new) = (names(&before), names(&all));
        for (job_type, tenant) in new.iter().filter(|it| !old.contains(it)) {
            event::breaker::type_stopped(job_type, tenant.as_deref());
        }
        for (job_type, tenant) in old.iter().filter(|it| !new.contains(it)) {
            event::breaker::type_goes_on(job_type, tenant.as_deref());
        }
        self.is_live.store(true, Relaxed);
        self.is_named.store(true, Relaxed);
        self.is_on.store(!all.is_empty(), Relaxed);
        self.all.store(Arc::new(all));
    }

    /// A connection to a hub begins, which may know no breakers.
    pub fn connected(&self) {
        self.is_named.store(false, Relaxed);
    }

    /// Whether the hub of the present connection knows breakers, as far as it has said.
    pub fn is_named(&self) -> bool {
        self.is_named.load(Relaxed)
    }

    /// No hub can be reached: each type is stopped until its time.
    pub fn hub_lost(&self) {
        self.is_live.store(false, Relaxed);
    }

    /// Whether jobs of a stopped type wait at this time.
    fn holds(&self, stop: &Stop, now_ms: u64) -> bool {
        let hold_on_ms = if self.is_live.load(Relaxed) { HOLD_ON_MS } else { 0 };
        now_ms < stop.stopped.until_ms.saturating_add(hold_on_ms)
    }

    /// Whether a type is stopped for any tenant.
    pub fn has_type(&self, job_type: &str) -> bool {
        self.all.load().iter().any(|it| it.stopped.job_type == job_type)
    }

    /// Whether a new job of a type and a tenant goes now. `is_for_now`: whether its client has scheduled it for no later time.
    pub fn hold(&self, (job_type, tenant): (&str, Option<&str>), queue: &str, is_for_now: bool, now_ms: u64) -> Held {
        let all = self.all.load();
        let stop = all.iter().find(|it| it.stopped.job_type == job_type && it.stopped.tenant.as_deref() == tenant);
        let Some(stop) = stop.filter(|it| self.holds(it, now_ms)) else { return Held::No };
        // In a queue of its own a job that waits there already is the probe.
        let is_fetched = stop.stopped.queues.iter().any(|it| it == queue);
        if let Some(permission) = stop.permission.as_ref().filter(|_| is_for_now && !is_fetched)
            && permission.state.compare_exchange(FREE, SPENT, AcqRel, Acquire).is_ok()
        {
            return Held::Probe(Probe { permission: Arc::clone(permission), is_sent: AtomicBool::new(false) });
        }
        let StoppedType { until_ms, delay_ms, behind_ms, spread_ms, .. } = stop.stopped;
        // While a probe is sought, that time is the end of the permission.
        let (until_ms, behind_ms, spread_ms) = match delay_ms {
            Some(delay_ms) => (now_ms.saturating_add(delay_ms), 0, 0),
            // Of a queue of its own workers get one job alone, and it is to have one at the end of the pause.
            None if is_fetched => (until_ms, 0, 0),
            None => (until_ms, behind_ms, spread_ms),
        };
        let until_ms = until_ms.max(now_ms.saturating_add(DELAY_MIN_MS));
        Held::Until(until_ms.saturating_add(behind_ms).saturating_add(self.place_in(spread_ms)))
    }

    /// The place of the next job in a time over which jobs are spread. Units: milliseconds.
    fn place_in(&self, spread_ms: u64) -> u64 {
        if spread_ms == 0 {
            return 0;
        }
        let share = self.delayed.fetch_add(1, Relaxed).wrapping_mul(GOLDEN);
        u64::try_from((u128::from(share) * u128::from(spread_ms)) >> 64).unwrap_or(spread_ms)
    }

    /// Whether workers get no job of this queue now.
    pub fn holds_queue(&self, queue: &str, now_ms: u64) -> bool {
        let all = self.all.load();
        all.iter().any(|it| it.stopped.queues.iter().any(|name| name == queue) && self.holds(it, now_ms))
    }

    /// Takes the permission for one job of one of these queues, once a second at most.
    pub fn take_for_fetch<'q>(&self, mut queues: impl Iterator<Item = &'q str>, now_ms: u64) -> Option<FetchProbe> {
        let all = self.all.load();
        queues.find_map(|queue| {
            let lists = |it: &&Stop| it.stopped.queues.iter().any(|name| name == queue);
            let stop = all.iter().filter(lists).find(|it| self.holds(it, now_ms))?;
            let permission = stop.permission.as_ref()?;
            if permission.tried_ms.load(Relaxed).abs_diff(now_ms) < TRY_EVERY_MS
                || permission.state.compare_exchange(FREE, TAKEN, AcqRel, Acquire).is_err()
            {
                return None;
            }
            permission.tried_ms.store(now_ms, Relaxed);
            Some(FetchProbe { permission: Arc::clone(permission), queue: queue.to_owned() })
        })
    }

    /// The name of the permission that a job of this queue has come by; it is spent then.
    #[must_use]
    pub fn came(&self, queue: &str) -> Option<String> {
        let all = self.all.load();
        let stop = all.iter().find(|it| it.stopped.queues.iter().any(|name| name == queue))?;
        let permission = stop.permission.as_ref()?;
        let spent = permission.state.compare_exchange(TAKEN, SPENT, AcqRel, Acquire);
        spent.is_ok().then(|| permission.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(trial: Option<&str>) -> StoppedType {
        StoppedType {
            job_type: "mail".to_owned(),
            tenant: Some("acme".to_owned()),
            queues: vec!["mails".to_owned()],
            until_ms: 10_000,
            delay_ms: None,
            behind_ms: 0,
            spread_ms: 0,
            trial: trial.map(str::to_owned),
        }
    }

    fn held(breakers: &Breakers, tenant: Option<&str>, queue: &str, now_ms: u64) -> Held {
        breakers.hold(("mail", tenant), queue, true, now_ms)
    }

    #[test]
    fn only_the_stopped_tenant_waits_and_without_a_hub_until_its_time() {
        let breakers = Breakers::default();
        assert!(!breakers.is_on() && matches!(held(&breakers, Some("acme"), "q", 0), Held::No));
        breakers.set(vec![stopped(None)]);
        assert!(breakers.is_on() && breakers.holds_queue("mails", 5_000) && !breakers.holds_queue("q", 5_000));
        assert!(matches!(held(&breakers, Some("acme"), "q", 5_000), Held::Until(10_000)));
        assert!(matches!(held(&breakers, None, "q", 5_000), Held::No));
        assert!(matches!(held(&breakers, Some("other"), "q", 5_000), Held::No));
        assert!(matches!(held(&breakers, Some("acme"), "q", 11_000), Held::Until(13_000)), "the hub has not said more");
        breakers.hub_lost();
        assert!(matches!(held(&breakers, Some("acme"), "q", 9_999), Held::Until(_)));
        assert!(matches!(held(&breakers, Some("acme"), "q", 10_000), Held::No));
        breakers.set(Vec::new());
        assert!(!breakers.is_on());
    }

    #[test]
    fn one_job_goes_by_a_permission_and_one_that_is_stored_nowhere_gives_it_back() {
        let breakers = Breakers::default();
        breakers.set(vec![stopped(Some("i/1"))]);
        let probe = |now| held(&breakers, Some("acme"), "q", now);
        assert!(matches!(breakers.hold(("mail", Some("acme")), "q", false, 5), Held::Until(_)), "for later");
        let Held::Probe(first) = probe(5) else { panic!("it goes") };
        assert!(first.name() == "i/1" && matches!(probe(5), Held::Until(_)));
        drop(first);
        let Held::Probe(second) = probe(5) else { panic!("the first was not sent") };
        second.sent();
        drop(second);
        breakers.set(vec![StoppedType { until_ms: 20_000, ..stopped(Some("i/1")) }]);
        assert!(matches!(probe(5), Held::Until(_)), "it is spent");
        breakers.set(vec![stopped(None)]);
        breakers.set(vec![stopped(Some("i/1"))]);
        assert!(matches!(probe(5), Held::Until(_)), "also where another hub had not heard of it");
        breakers.set(vec![StoppedType { delay_ms: Some(3_000), ..stopped(Some("i/2")) }]);
        let another = probe(5);
        assert!(matches!(another, Held::Probe(_)), "another permission");
        assert!(matches!(probe(5), Held::Until(3_005)), "a pause from now on");
        breakers.set(vec![StoppedType { delay_ms: Some(60_000), ..stopped(None) }]);
        assert!(matches!(probe(5), Held::Until(60_005)), "also where the permission ends sooner");
    }

    #[test]
    fn jobs_that_are_delayed_while_it_is_open_come_behind_the_probe_and_apart() {
        let breakers = Breakers::default();
        breakers.set(vec![StoppedType { behind_ms: 500, spread_ms: 1_000, ..stopped(None) }]);
        let mut times: Vec<u64> = (0..100)
            .map(|_| match held(&breakers, Some("acme"), "mixed", 5_000) {
                Held::Until(at_ms) => at_ms,
                other => panic!("{other:?}"),
            })
            .collect();
        times.sort_unstable();
        assert!(times[0] >= 10_500 && times[99] <= 11_500, "{times:?}");
        assert!(times.windows(2).all(|two| (3..=30).contains(&(two[1] - two[0]))), "{times:?}");
        assert!(
            matches!(held(&breakers, Some("acme"), "mails", 5_000), Held::Until(10_000)),
            "the probe comes by FETCH"
        );
    }

    #[test]
    fn a_hub_has_named_them_on_this_connection_or_not() {
        let breakers = Breakers::default();
        assert!(!breakers.is_named());
        breakers.set(Vec::new());
        assert!(breakers.is_named());
        breakers.connected();
        assert!(!breakers.is_named());
    }

    #[test]
    fn a_queue_of_its_own_gives_one_job() {
        let breakers = Breakers::default();
        breakers.set(vec![stopped(Some("i/1"))]);
        assert!(matches!(held(&breakers, Some("acme"), "mails", 5), Held::Until(_)), "the probe waits there");
        let take = |now_ms| breakers.take_for_fetch(["q", "mails"].into_iter(), now_ms);
        let fetch = take(1_000).unwrap();
        assert!(fetch.queue() == "mails" && take(3_000).is_none());
        drop(fetch);
        assert!(take(1_999).is_none(), "no job came a moment ago");
        let fetch = take(2_000).unwrap();
        assert_eq!((breakers.came("q"), breakers.came("mails").as_deref()), (None, Some("i/1")));
        drop(fetch);
        assert!(take(9_000).is_none() && breakers.came("mails").is_none());
        breakers.set(vec![stopped(Some("i/2"))]);
        breakers.hub_lost();
        assert!(take(10_000).is_none(), "without a hub its time is over, and all queues are asked for");
        assert!(take(9_999).is_some());
    }
}
