//! Fleet limits: calls at once to a region, or jobs at once of a pool of workers or of a quota, over all sidecars, which the hub grants in parts.
//!
//! A sidecar asks for calls and gets a number of them for a time; until that is over it decides without the hub. Calls that it may still make are
//! counted until then, whether it lives or not. The parts are in the record, so that hubs which share it grant from one limit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};

use super::limit_settings::{LimitSettings, PoolSettings, Ttl};
use super::put_pools::PutPools;
use super::put_quotas::PutQuotas;
use super::record::{Kept, Record, RecordError, State};
use crate::base::RegionId;
use crate::policy::{LimitAsk as Ask, LimitHolders as Holders, LimitShare as Share};

/// Requests for one limit that wait for the record. A full queue means that the record is stuck.
const WAITING_MAX: usize = 1_024;
/// Tries of a change while other hubs change the same limit.
const TRIES_MAX: usize = 8;
/// For grants to be durable; shorter than the sidecar's wait for the answer.
const GRANT_WAIT: Duration = Duration::from_secs(4);
/// A change writes all holders of a limit, some 100 bytes each: this pause a holder keeps the record at some 400 kB/s, and makes one change of
/// many requests. Units: microseconds.
const PAUSE_US_PER_HOLDER: u64 = 250;
/// The longest pause between two changes of a limit.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A sidecar asks again so many times within the time of a grant.
const RENEWALS: u32 = 6;
/// How long slots of a quota last, as long as its blocks of tokens.
const SLOTS_LAST: Duration = Duration::from_secs(30);
/// The longest time until a sidecar asks again, and the shortest.
const RENEW: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(500));

/// A request that waits for the record.
#[derive(Debug)]
struct Waiting {
    ask: Ask,
    answer: oneshot::Sender<Result<Share, Rc<RecordError>>>,
}

/// The subject of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// The calls to a region.
    Region(RegionId),
    /// The jobs of a pool of workers, by its name.
    Pool(String),
    /// The active jobs of a quota, by its key, which has a tabulator.
    Quota(String),
}

impl Subject {
    /// The subject of a request for places. No name of a pool has a control character.
    pub(super) fn of_places(name: &str) -> Self {
        let of = if name.contains('\t') { Self::Quota } else { Self::Pool };
        of(name.to_owned())
    }
}

/// A limit of the configuration, or of a pool that was put at the hub.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) subject: Subject,
    /// So many at once; operators change that of a pool that they have put.
    most: Cell<u64>,
    ttl: Duration,
}

impl Bound {
    /// How many at once.
    pub(super) const fn most(&self) -> u64 {
        self.most.get()
    }

    /// Its key in the record. The id of a region has no slash.
    fn key(&self) -> String {
        match &self.subject {
            Subject::Region(region) => region.to_string(),
            Subject::Pool(name) => format!("pool/{name}"),
            Subject::Quota(key) => format!("active/{key}"),
        }
    }
}

/// One limit.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) bound: Bound,
    send: mpsc::Sender<Waiting>,
    /// The calls that sidecars held after the last change by this hub.
    granted: Cell<u64>,
    /// Taken by the loop that grants.
    receive: Mutex<mpsc::Receiver<Waiting>>,
    /// Notified when its pool or its quota was deleted.
    deleted: Notify,
}

/// The limits of a hub.
#[derive(Debug, Default)]
pub(super) struct Limits {
    configured: Vec<Rc<Limit>>,
    /// Those of the pools that were put here, by the order of their names; as many as [`crate::config::PUT_POOLS_MAX`].
    put: RefCell<Vec<Rc<Limit>>>,
    /// Those of the quotas with `maxActive`; as many as [`ACTIVE_MAX`](crate::policy::ACTIVE_MAX).
    of_quotas: RefCell<Vec<Rc<Limit>>>,
}

impl Limits {
    pub(super) fn new(regions: &[LimitSettings], pools: &[PoolSettings]) -> Self {
        let of_region = |it: &LimitSettings| Limit::new(Subject::Region(it.region.clone()), it.calls, it.ttl.0);
        let of_pool = |it: &PoolSettings| Limit::new(Subject::Pool(it.name.clone()), it.concurrency, it.ttl.0);
        let configured = regions.iter().map(of_region).chain(pools.iter().map(of_pool)).collect();
        Self { configured, put: RefCell::default(), of_quotas: RefCell::default() }
    }

    /// Grants the calls that wait, for ever, also those of pools that come later.
    pub(super) async fn grant(&self, record: &Record, mut states: watch::Receiver<Arc<State>>) {
        let mut granting: FuturesUnordered<_> =
            self.configured.iter().map(|limit| Limit::grant(Rc::clone(limit), record)).collect();
        loop {
            let current = Arc::clone(&states.borrow_and_update());
            let new = self.follow(&current.pools).into_iter().chain(self.follow_quotas(&current.quotas));
            granting.extend(new.map(|limit| Limit::grant(limit, record)));
            tokio::select! {
                // The sender lives as long as the hub.
                _ = states.changed() => {}
                Some(()) = granting.next() => {}
            }
        }
    }

    /// Takes the bounds of the pools that were put here. A pool of the configuration goes first. Returns those that are new.
    fn follow(&self, pools: &PutPools) -> Vec<Rc<Limit>> {
        let bounds = pools.bounds().filter(|(name, _)| self.configured_bound(name).is_none());
        let bounds = bounds.map(|(name, most)| (Subject::Pool(name.to_owned()), most)).collect();
        follow(&mut self.put.borrow_mut(), bounds, Ttl::default().0)
    }

    /// Takes the bounds of quotas. Returns those that are new.
    fn follow_quotas(&self, quotas: &PutQuotas) -> Vec<Rc<Limit>> {
        let bounds = quotas.quotas.iter().filter_map(|it| Some((Subject::Quota(it.key()), it.max_active?))).collect();
        follow(&mut self.of_quotas.borrow_mut(), bounds, SLOTS_LAST)
    }

    fn all(&self) -> Vec<Rc<Limit>> {
        self.configured.iter().chain(self.put.borrow().iter()).chain(self.of_quotas.borrow().iter()).cloned().collect()
    }

    /// The limits with their holders. Shape: by the order of the configuration, and then the pools that were put here.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn holders(&self, record: &Record) -> Result<Vec<(Rc<Limit>, Holders)>, RecordError> {
        let mut all = Vec::new();
        for limit in self.all() {
            let holders = limit.holders(record).await?;
            all.push((limit, holders));
        }
        Ok(all)
    }

    /// Each limit with the sum that sidecars held of it after the last change by this hub.
    pub(super) fn counts(&self) -> Vec<(Rc<Limit>, u64)> {
        self.all().into_iter().map(|it| (Rc::clone(&it), it.granted.get())).collect()
    }

    /// The jobs of a pool at once in the fleet; none where this hub has no bound for it.
    pub(super) fn bound_of_pool(&self, name: &str) -> Option<u64> {
        let put = || self.put.borrow().iter().find(|it| it.is_of_pool(name)).map(|it| it.bound.most());
        self.configured_bound(name).or_else(put)
    }

    /// The same by the configuration alone.
    pub(super) fn configured_bound(&self, name: &str) -> Option<u64> {
        self.configured.iter().find(|it| it.is_of_pool(name)).map(|it| it.bound.most())
    }

    /// The limit of a region, a pool or a quota.
    pub(super) fn of(&self, subject: &Subject) -> Option<Rc<Limit>> {
        let (put, of_quotas) = (self.put.borrow(), self.of_quotas.borrow());
        self.configured
            .iter()
            .chain(put.iter())
            .chain(of_quotas.iter())
            .find(|it| it.bound.subject == *subject)
            .cloned()
    }
}

/// Takes bounds in place of those before. Returns those that are new.
fn follow(known: &mut Vec<Rc<Limit>>, bounds: Vec<(Subject, u64)>, ttl: Duration) -> Vec<Rc<Limit>> {
    known.retain(|limit| {
        let is_kept = bounds.iter().any(|(subject, _)| limit.bound.subject == *subject);
        if !is_kept {
            limit.deleted.notify_one();
        }
        is_kept
    });
    let mut new = Vec::new();
    for (subject, most) in bounds {
        match known.iter().find(|limit| limit.bound.subject == subject) {
            Some(limit) => limit.bound.most.set(most),
            None => new.push(Limit::new(subject, most, ttl)),
        }
    }
    known.extend(new.iter().cloned());
    new
}

impl Limit {
    fn new(subject: Subject, most: u64, ttl: Duration) -> Rc<Self> {
        let (send, receive) = mpsc::channel(WAITING_MAX);
        let bound = Bound { subject, most: Cell::new(most), ttl };
        Rc::new(Self { bound, send, granted: Cell::new(0), receive: Mutex::new(receive), deleted: Notify::new() })
    }

    fn is_of_pool(&self, name: &str) -> bool {
        matches!(&self.bound.subject, Subject::Pool(pool) if pool == name)
    }

    /// Its holders.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn holders(&self, record: &Record) -> Result<Holders, RecordError> {
        let saved = record.limit(&self.bound.key()).await?;
        let mut holders = Self::read(&saved.holders)?;
        holders.expire(saved.now_ms);
        Ok(holders)
    }

    /// Grants the calls that wait, until its pool is deleted.
    async fn grant(self: Rc<Self>, record: &Record) {
        let mut waiting = self.receive.lock().await;
        let mut batch = Vec::new();
        loop {
            // The sender lives as long as this.
            tokio::select! {
                _ = waiting.recv_many(&mut batch, WAITING_MAX) => {}
                () = self.deleted.notified() => return,
            }
            let result = self.shares(record, &batch).await;
            let holders = result.as_ref().map_or(0, |(_, holders)| *holders);
            let result = result.map(|(shares, _)| shares).map_err(Rc::new);
            for (place, it) in batch.drain(..).enumerate() {
                // A sidecar that disconnected waits for nothing.
                let _ = it.answer.send(result.as_ref().map(|shares| shares[place]).map_err(Rc::clone));
            }
            let pause = Duration::from_micros(PAUSE_US_PER_HOLDER.saturating_mul(holders as u64));
            tokio::time::sleep(pause.min(PAUSE_MAX)).await;
        }
    }

    /// The shares of these requests, once the record has them; and the number of holders.
    async fn shares(&self, record: &Record, batch: &[Waiting]) -> Result<(Vec<Share>, usize), RecordError> {
        let (key, ttl_ms) = (self.bound.key(), self.ttl_ms());
        for _ in 0..TRIES_MAX {
            let saved = record.limit(&key).await?;
            let mut holders = Self::read(&saved.holders)?;
            if !matches!(self.bound.subject, Subject::Region(_)) {
                holders.keep_over_silence(ttl_ms, saved.now_ms);
            }
            holders.expire(saved.now_ms);
            let asks: Vec<&Ask> = batch.iter().map(|it| &it.ask).collect();
            let shares = holders.share(self.bound.most(), ttl_ms, &asks, saved.now_ms);
            let after = json!(holders).to_string();
            if record.change_limit(&key, saved.version, after).await? == Kept::Kept {
                self.granted.set(holders.calls());
                return Ok((shares, holders.count()));
            }
        }
        Err(RecordError::Contended)
    }

    fn read(text: &str) -> Result<Holders, RecordError> {
        serde_json::from_str(text).map_err(|_| RecordError::Later)
    }

    /// The share of a process, once the record has it.
    ///
    /// Errors: [`RecordError`]; the record may have it all the same.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Share, Rc<RecordError>> {
        let (answer, share) = oneshot::channel();
        self.send.try_send(Waiting { ask, answer }).map_err(|_| RecordError::Busy)?;
        let share = tokio::time::timeout(GRANT_WAIT, share).await.map_err(|_| RecordError::Slow)?;
        share.map_err(|_| RecordError::Ended)?
    }

    /// How long a grant lasts. Units: milliseconds.
    pub(super) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.bound.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    /// When a sidecar is to ask again. Units: milliseconds.
    pub(super) fn renew_ms(&self) -> u64 {
        let renew = (self.bound.ttl / RENEWALS).clamp(RENEW.1, RENEW.0);
        u64::try_from(renew.as_millis()).unwrap_or(u64::MAX)
    }
}
