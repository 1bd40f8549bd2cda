//! The slots of quotas that bound the jobs which are active at once: how many this sidecar asks its hub for, and when.
//!
//! A quota is asked for as a pool of workers is; its key stands for the name of the pool.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::grant::{PoolAnswer, PoolPlaces};
use super::pooling::Pooled;
use crate::config::LimitWithoutHub;
use crate::journal::Journal;
use crate::policy::{ActiveQuota, OnHubLoss};
use crate::region::Quotas;

/// Between two requests at most, where a hub says nothing else.
const RENEW_MAX: Duration = Duration::from_secs(10);
/// Before the next request where one has failed.
const FAILED_WAIT: Duration = Duration::from_secs(2);

/// One quota.
#[derive(Debug)]
struct Slotted {
    active: Arc<ActiveQuota>,
    places: Pooled,
    /// The longest lease that the last request has named. Units: milliseconds.
    said_ms: Cell<u64>,
    /// When the hub is asked again at the latest, and whether the next request asks for it.
    next: Cell<Option<Instant>>,
    is_due: Cell<bool>,
}

/// The quotas that bound active jobs, at this sidecar. Lives on the control thread.
#[derive(Debug)]
pub struct Slotting {
    quotas: Arc<Quotas>,
    journal: Arc<Journal>,
    all: RefCell<Vec<Slotted>>,
    refused: RefCell<Option<String>>,
}

impl Slotting {
    /// Nothing asked yet.
    #[must_use]
    pub fn new(quotas: Arc<Quotas>, journal: Arc<Journal>) -> Self {
        let (all, refused) = Default::default();
        Self { quotas, journal, all, refused }
    }

    /// Takes the quotas in force.
    fn follow(&self) {
        let table = self.quotas.active.table();
        let mut all = self.all.borrow_mut();
        if all.iter().map(|it| Arc::as_ptr(&it.active)).eq(table.iter().map(Arc::as_ptr)) {
            return;
        }
        let mut before = std::mem::take(&mut *all);
        for active in table.iter() {
            let known = before.iter().position(|it| it.active.quota == active.quota);
            all.push(known.map_or_else(|| self.slotted(active), |at| before.swap_remove(at)));
            all.last_mut().into_iter().for_each(|it| it.active = Arc::clone(active));
        }
    }

    fn slotted(&self, active: &Arc<ActiveQuota>) -> Slotted {
        let on_hub_loss = match active.quota.on_hub_loss {
            OnHubLoss::Hold => LimitWithoutHub::Hold,
            OnHubLoss::Local => LimitWithoutHub::Local,
            OnHubLoss::Refuse => LimitWithoutHub::Refuse,
        };
        // The longest lease is that which workers ask for: each request names it.
        let bounds = (on_hub_loss, active.most, Duration::ZERO);
        let grant = Arc::clone(&active.slots.grant);
        let places = Pooled::new(Arc::clone(&active.key), bounds, grant, Arc::clone(&self.journal));
        Slotted {
            active: Arc::clone(active),
            places,
            said_ms: Cell::new(0),
            next: Cell::default(),
            is_due: Cell::default(),
        }
    }

    /// Whether the hub is to be asked now, for the slots of some quotas.
    pub fn is_due(&self, now: Instant) -> bool {
        self.follow();
        let all = self.all.borrow();
        for it in all.iter() {
            let presses = it.places.look(now) | it.active.slots.lacks_lease(now);
            it.is_due.set(presses || it.next.get().is_none_or(|next| next <= now));
        }
        all.iter().any(|it| it.is_due.get())
    }

    /// The next request, for the quotas that were due at the last look. From now on no FETCH takes more slots than it says.
    pub fn ask(&self, now: Instant) -> Vec<PoolPlaces> {
        let ask = |it: &Slotted| {
            // Until an answer says when to ask again, the request counts as failed.
            it.next.set(Some(now + FAILED_WAIT));
            it.said_ms.set(it.active.slots.longest_ms(now));
            let places = it.places.ask(now);
            let held = self.journal.with_places(&it.active.key, |taken| taken.held);
            PoolPlaces {
                longest_lease_ms: places.longest_lease_ms.max(it.said_ms.get()),
                held: Some(held.min(places.holds)),
                ..places
            }
        };
        self.all.borrow().iter().filter(|it| it.is_due.get()).map(ask).collect()
    }

    /// Puts the slots of an answer in force. `asked`: when the request was made.
    pub fn take(&self, answers: &[PoolAnswer], asked: Instant) {
        let all = self.all.borrow();
        for answer in answers {
            let (PoolAnswer::Granted { pool, .. }
            | PoolAnswer::Late { pool, .. }
            | PoolAnswer::NoPool { pool }
            | PoolAnswer::Unavailable { pool, .. }) = answer;
            let Some(it) = all.iter().find(|it| *it.active.key == **pool) else { continue };
            let wait = match answer {
                PoolAnswer::Granted { places, lasts_ms, renew_ms, .. } => {
                    it.active.slots.set_known(it.said_ms.get());
                    let wait = it.places.take(*places, asked + Duration::from_millis(*lasts_ms));
                    wait.unwrap_or(RENEW_MAX).min(Duration::from_millis(*renew_ms))
                }
                PoolAnswer::Late { sequence, .. } => {
                    it.places.set_sequence(*sequence);
                    Duration::ZERO
                }
                // Another hub on its record has the quota, and this one has not read it yet.
                PoolAnswer::NoPool { .. } => FAILED_WAIT,
                PoolAnswer::Unavailable { cause, .. } => {
                    *self.refused.borrow_mut() = Some(format!("{}: {cause}", pool.replace('\t', " ")));
                    FAILED_WAIT
                }
            };
            it.next.set(Some(asked + wait));
        }
    }

    /// The reason why the last answer did not grant slots of each quota; none where it did.
    pub fn take_refused(&self) -> Option<String> {
        self.refused.take()
    }

    /// A hub is reached: it is asked at once.
    pub fn hub_reached(&self) {
        self.all.borrow().iter().for_each(|it| it.next.set(None));
    }

    /// No hub can be reached: ends the slots that may not be used without one.
    pub fn hub_lost(&self, now: Instant) {
        self.follow();
        self.all.borrow().iter().for_each(|it| it.places.hub_lost(now));
    }
}
