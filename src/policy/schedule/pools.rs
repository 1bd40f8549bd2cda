//! The pools of workers: which of them a worker belongs to, and which queues it may have jobs of.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pool_grant::PoolGrant;
use super::rules::Rules;
use crate::config::{PoolConfig, Scheduling};
use crate::policy::glob::Glob;

/// A pool of workers. Spec: fair-scheduling 6.
#[derive(Debug)]
pub struct Pool {
    number: PoolNumber,
    name: Arc<str>,
    queues: Vec<(Arc<str>, Glob)>,
    concurrency: Option<u64>,
    fleet: Option<OfFleet>,
    isolated: bool,
    rules: Rules,
    is_silent: bool,
    is_put: bool,
}

/// The number of a pool, or of the workers of no pool, in one configuration: those of another configuration have other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolNumber {
    /// How many configurations there were before.
    configuration: u64,
    /// The place of the pool; none for workers of no pool.
    place: Option<usize>,
}

/// The bound of a pool in the fleet.
#[derive(Debug)]
struct OfFleet {
    grant: Arc<PoolGrant>,
    /// The jobs at once without a grant.
    local: u64,
    longest_lease: Duration,
}

/// The pools of a configuration.
#[derive(Debug, Default)]
pub struct Pools {
    all: Vec<Pool>,
    /// The number of workers of no pool.
    none: PoolNumber,
    /// The place of the pool that the workers of this sidecar belong to.
    own: Option<usize>,
    isolates: bool,
    /// The queues with a weight outside of pools.
    weighted: Vec<Arc<str>>,
}

/// The reason why a worker belongs to no pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolError<'p> {
    /// It names another one than this, which all workers of this sidecar belong to.
    Other(&'p str),
    /// It names one that there is not.
    Unknown,
}

impl Pool {
    /// `old`: the pools until now, of which it takes over the grant.
    fn of(number: PoolNumber, pool: &PoolConfig, old: Option<&Pools>) -> Self {
        let name: Arc<str> = pool.name.as_str().into();
        let fleet = pool.fleet.as_ref().map(|fleet| {
            let known = old.and_then(|old| old.all().find(|it| it.name == name)?.grant());
            let grant = known.map(Arc::clone).unwrap_or_default();
            OfFleet { grant, local: fleet.local.unwrap_or(0), longest_lease: fleet.longest_lease }
        });
        Self {
            number,
            fleet,
            queues: pool.queues.iter().map(|queue| (queue.as_str().into(), Glob::new(queue))).collect(),
            concurrency: pool.concurrency,
            isolated: pool.isolated,
            rules: Rules::of_pool(pool, Arc::clone(&name)),
            is_silent: pool.strategy.is_none(),
            is_put: pool.is_put,
            name,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The jobs that its workers hold at once at most; none without a bound.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u64> {
        self.concurrency
    }

    /// The jobs that its workers may hold at once now: those of the configuration, and with a bound of the fleet no more than are granted.
    #[must_use]
    pub fn bound(&self, now: Instant) -> u64 {
        let granted = |fleet: &OfFleet| {
            let grant = fleet.grant.grant();
            grant.ends(now).map_or(fleet.local, |_| grant.calls(now))
        };
        self.concurrency.unwrap_or(u64::MAX).min(self.fleet.as_ref().map_or(u64::MAX, granted))
    }

    /// Its part of the fleet's places; none where the bound is that of this sidecar alone.
    #[must_use]
    pub fn grant(&self) -> Option<&Arc<PoolGrant>> {
        self.fleet.as_ref().map(|fleet| &fleet.grant)
    }

    /// The longest lease of its jobs; none where there may be any.
    #[must_use]
    pub fn longest_lease(&self) -> Option<Duration> {
        self.fleet.as_ref().map(|fleet| fleet.longest_lease)
    }

    /// Its queues, as the configuration writes them.
    pub fn queues(&self) -> impl Iterator<Item = &Arc<str>> {
        self.queues.iter().map(|(name, _)| name)
    }

    /// Whether other workers get nothing of its queues.
    #[must_use]
    pub const fn is_isolated(&self) -> bool {
        self.isolated
    }

    /// How its queues take turns.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether its configuration has no strategy, so that the words of its workers count.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Whether an operator has put it at the hub.
    #[must_use]
    pub const fn is_put(&self) -> bool {
        self.is_put
    }

    fn has(&self, queue: &str) -> bool {
        self.queue(queue).is_some()
    }

    /// A queue as the configuration writes it.
    fn queue(&self, queue: &str) -> Option<&Arc<str>> {
        self.queues.iter().find(|(_, known)| known.matches(queue)).map(|(name, _)| name)
    }
}

impl Pools {
    /// The pools of a configuration. Grants go on from those of `old`, the pools until now.
    #[must_use]
    pub fn of(scheduling: &Scheduling, old: Option<&Self>) -> Self {
        let none = PoolNumber { configuration: old.map_or(0, |old| old.none.configuration + 1), place: None };
        let pool = |(place, pool)| Pool::of(PoolNumber { place: Some(place), ..none }, pool, old);
        let all: Vec<Pool> = scheduling.pools.iter().enumerate().map(pool).collect();
        let own = scheduling.pool.as_deref().and_then(|own| all.iter().position(|pool| *pool.name == *own));
        let isolates = all.iter().any(|pool| pool.isolated);
        let weighted = scheduling.weights.keys().map(|queue| queue.as_str().into()).collect();
        Self { all, none, own, isolates, weighted }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them is isolated.
    #[must_use]
    pub const fn isolates(&self) -> bool {
        self.isolates
    }

    /// All of them, in the operator's order.
    pub fn all(&self) -> impl Iterator<Item = &Pool> {
        self.all.iter()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|pool| &*pool.name)
    }

    /// The pool of a worker that asks for these queues: that of the sidecar, else the one that it names, else the only one that has all of the queues
    /// and may have their jobs, which a pool `*` may not of an isolated queue.
    ///
    /// Errors: [`PoolError`] for a name that cannot be followed.
    pub fn of_worker<'q>(
        &self,
        named: Option<&str>,
        queues: impl ExactSizeIterator<Item = &'q str> + Clone,
    ) -> Result<Option<&Pool>, PoolError<'_>> {
        if let Some(own) = self.own.and_then(|own| self.all.get(own)) {
            let is_its = named.is_none_or(|name| *own.name == *name);
            return if is_its { Ok(Some(own)) } else { Err(PoolError::Other(&own.name)) };
        }
        if let Some(name) = named {
            return self.all.iter().find(|pool| *pool.name == *name).map(Some).ok_or(PoolError::Unknown);
        }
        if queues.len() == 0 {
            return Ok(None);
        }
        let fits = |pool: &&Pool| queues.clone().all(|queue| pool.has(queue) && self.permit(Some(pool), queue));
        let mut fitting = self.all.iter().filter(fits);
        let first = fitting.next();
        Ok(first.filter(|_| fitting.next().is_none()))
    }

    /// Whether the configuration names queues, in pools or with weights.
    #[must_use]
    pub const fn name_queues(&self) -> bool {
        !self.all.is_empty() || !self.weighted.is_empty()
    }

    /// The queues with a weight outside of pools.
    pub fn weighted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.weighted.iter()
    }

    /// The number of a pool, or that of the workers of none. A queue is written in one way for all workers of a number.
    #[must_use]
    pub fn number(&self, pool: Option<&Pool>) -> PoolNumber {
        pool.map_or(self.none, |pool| pool.number)
    }

    /// A queue as the configuration writes it, first that of the worker's pool; none for a queue that it does not name.
    #[must_use]
    pub fn queue<'p>(&'p self, pool: Option<&'p Pool>, queue: &str) -> Option<&'p Arc<str>> {
        let own = pool.and_then(|pool| pool.queue(queue));
        let in_pools = own.or_else(|| self.all.iter().find_map(|pool| pool.queue(queue)));
        in_pools.or_else(|| self.weighted.iter().find(|name| ***name == *queue))
    }

    /// Whether workers of a pool, or of none, may have jobs of a queue.
    #[must_use]
    pub fn permit(&self, pool: Option<&Pool>, queue: &str) -> bool {
        let is_foreign = |other: &Pool| pool.is_none_or(|pool| pool.name != other.name);
        !self.isolates || !self.all.iter().any(|other| other.isolated && is_foreign(other) && other.has(queue))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::QueueOrder;

    fn pool(name: &str, queues: &[&str], isolated: bool) -> PoolConfig {
        PoolConfig {
            name: name.to_owned(),
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            concurrency: None,
            fleet: None,
            strategy: None,
            weights: std::collections::BTreeMap::new(),
            isolated,
            floor: None,
            is_put: false,
        }
    }

    fn pools(own: Option<&str>) -> Pools {
        let pools = vec![
            pool("pay", &["payments", "refunds-*"], true),
            pool("gpu", &["images"], true),
            pool("general", &["default", "email"], false),
            pool("mail", &["email", "sms"], false),
        ];
        Pools::of(&Scheduling { pool: own.map(str::to_owned), pools, ..Scheduling::default() }, None)
    }

    #[test]
    fn a_worker_is_of_the_pool_of_its_sidecar_or_that_it_names_or_that_alone_has_its_queues() {
        let open = pools(None);
        let name = |named: Option<&str>, queues: &[&str]| {
            open.of_worker(named, queues.iter().copied()).map(|pool| pool.map(|pool| pool.name().to_string()))
        };
        for (queues, expected) in [
            (&["payments"][..], Some("pay")),
            (&["refunds-eu", "payments"], Some("pay")),
            (&["email"], None),
            (&["email", "sms"], Some("mail")),
            (&["payments", "default"], None),
            (&["other"], None),
            (&[], None),
        ] {
            assert_eq!(name(None, queues), Ok(expected.map(str::to_owned)), "{queues:?}");
        }
        assert_eq!(name(Some("gpu"), &["payments"]), Ok(Some("gpu".to_owned())));
        assert_eq!(name(Some("Gpu"), &["images"]), Err(PoolError::Unknown));
        let own = pools(Some("mail"));
        for (named, expected) in
            [(None, Ok("mail")), (Some("mail"), Ok("mail")), (Some("pay"), Err(PoolError::Other("mail")))]
        {
            let pool = own.of_worker(named, ["payments"].into_iter()).map(|pool| &**pool.unwrap().name());
            assert_eq!(pool, expected);
        }
    }

    #[test]
    fn a_bound_of_the_fleet_goes_on_over_a_reload_and_is_never_above_that_of_the_sidecar() {
        use crate::config::{FleetPool, LimitWithoutHub};

        let scheduling = |concurrency, local| {
            let fleet =
                FleetPool { on_hub_loss: LimitWithoutHub::Local, local, longest_lease: Duration::from_secs(60) };
            let pool =
                PoolConfig { concurrency: Some(concurrency), fleet: Some(fleet), ..pool("pay", &["payments"], false) };
            Scheduling { pools: vec![pool], ..Scheduling::default() }
        };
        let (now, end) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        let first = Pools::of(&scheduling(4, None), None);
        let bound = |pools: &Pools, at| pools.all().next().unwrap().bound(at);
        assert_eq!(bound(&first, now), 0, "nothing is granted");
        first.all().next().unwrap().grant().unwrap().grant().take(3, end);
        assert_eq!((bound(&first, now), bound(&first, end)), (3, 0));
        let second = Pools::of(&scheduling(2, Some(1)), Some(&first));
        assert_eq!((bound(&second, now), bound(&second, end)), (2, 1));
        assert_eq!(bound(&first, end), 0, "a reload that fails changes nothing");
    }

    #[test]
    fn an_isolated_queue_has_its_pool_also_beside_a_pool_of_all_queues() {
        let all = vec![pool("pay", &["payments"], true), pool("general", &["*"], false)];
        let pools = Pools::of(&Scheduling { pools: all, ..Scheduling::default() }, None);
        let name = |queues: &[&str]| {
            pools.of_worker(None, queues.iter().copied()).unwrap().map(|pool| pool.name().to_string())
        };
        assert_eq!([name(&["payments"]), name(&["email"])], [Some("pay".to_owned()), Some("general".to_owned())]);
        assert_eq!(name(&["payments", "email"]), None);
    }

    #[test]
    fn a_pool_takes_turns_by_the_specification_s_default_and_by_itself() {
        let pools = pools(None);
        let pool = pools.of_worker(Some("pay"), [].into_iter()).unwrap().unwrap();
        assert_eq!((pool.rules().strategy, pool.is_silent()), (QueueOrder::RoundRobin, true));
        assert_ne!(pool.rules(), pools.of_worker(Some("gpu"), [].into_iter()).unwrap().unwrap().rules());
    }

    proptest! {
        #[test]
        fn an_isolated_queue_is_for_its_pool_alone(
            isolated in prop::collection::vec(any::<bool>(), 4),
            worker in prop::option::of(0_usize..4),
            queue in 0_usize..5,
        ) {
            // Pool n has queue n; the last queue is in none.
            let all = (0..4).map(|at| pool(&format!("p{at}"), &[&format!("q{at}")], isolated[at])).collect();
            let pools = Pools::of(&Scheduling { pools: all, ..Scheduling::default() }, None);
            let own = worker.map(|at| pools.of_worker(Some(&format!("p{at}")), [].into_iter()).unwrap().unwrap());
            let is_open = queue == 4 || !isolated[queue] || worker == Some(queue);
            prop_assert_eq!(pools.permit(own, &format!("q{queue}")), is_open);
        }
    }
}
