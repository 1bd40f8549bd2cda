//! The slots of quotas that bound active jobs: which queues and shards a FETCH asks for, and for how many jobs.
//!
//! A call that asks for bounded queues asks for as many jobs as each of their quotas has slots. Where that is fewer than the worker wants, and as many came, a
//! second call asks for the queues that no quota bounds.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant as Deadline;

use super::claim::lease;
use super::round::Round;
use super::slots::{Bounded, RoundSlots};
use crate::ojs::shards::Shards;
use crate::ojs::worker::FetchRequest;
use crate::ojs::{ErrorDocument, Fault};
use crate::policy::{ActiveQuota, NoSlot};
use crate::proxy::state::Proxy;
use crate::telemetry::{SlotLack, event};

/// How long the second call of a FETCH may take: the jobs of the first one wait for it, and their leases run. Some round trips to a far region.
const SECOND_CALL: Duration = Duration::from_secs(1);

/// That a FETCH can be kept to the slots of quotas.
///
/// Errors: 400 where a quota bounds queues here, and servers could read other queues; and where it bounds one of these, and servers could read another number of
/// jobs or another lease.
#[cold]
pub(super) fn check_bounded(proxy: &Proxy, claims: Result<&FetchRequest<'_>, &Fault>) -> Result<(), ErrorDocument> {
    let (table, shards) = (proxy.shared.quotas.active.table(), proxy.shared.shards.as_deref());
    if !table.bounds(shards.is_some()) {
        return Ok(());
    }
    let claims = claims.map_err(ErrorDocument::from_fault)?;
    if claims.queues().len() == 0 {
        return Err(ErrorDocument::pool_unclear("queues"));
    }
    let has_tenants = table.of_tenants().next().is_some();
    let sharded = shards.filter(|_| has_tenants).map(Shards::queues).unwrap_or_default();
    let mut named = claims.queues();
    if !named.any(|queue| table.of_queue(queue).is_some() || sharded.iter().any(|it| it.name() == queue)) {
        return Ok(());
    }
    if claims.count().is_none() {
        return Err(ErrorDocument::pool_unclear("count"));
    }
    if claims.has_odd_visibility() {
        return Err(ErrorDocument::pool_unclear("visibility_timeout_ms"));
    }
    Ok(())
}

impl Round<'_, '_> {
    /// Sets slots aside for the missing jobs of the bounded queues.
    #[inline]
    pub(super) fn take_slots(&mut self) {
        if self.proxy.shared.quotas.active.is_on() {
            self.set_slots_aside();
        }
    }

    // Never inlined: most sidecars have no such quotas, and their calls do not carry its weight.
    #[cold]
    #[inline(never)]
    fn set_slots_aside(&mut self) {
        let shared = &self.proxy.shared;
        let table = shared.quotas.active.table();
        let Some(claims) = self.claims else { return };
        // Unclear only where no queue is bounded: its jobs are counted all the same.
        let missing = self.missing().unwrap_or_default();
        let mut bounded: Vec<Bounded> = Vec::new();
        let lease = lease(Some(claims), None);
        for queue in claims.queues() {
            if let Some(active) = table.of_queue(queue) {
                self.set_aside(&mut bounded, active, None, (missing, lease));
                continue;
            }
            let shards = shared.shards.as_deref().map(Shards::queues).unwrap_or_default();
            let Some(at) = shards.iter().position(|it| it.name() == queue) else { continue };
            for active in table.of_tenants() {
                let shard = shards[at].place(&active.quota.tenant, 0).shard;
                self.set_aside(&mut bounded, active, Some((at, shard)), (missing, lease));
            }
        }
        let mut slots =
            RoundSlots { table, bounded, is_second: false, pass: (0, 0), was_full: false, of_shards: Vec::new() };
        if let Some(most) = slots.most() {
            slots.bounded.iter_mut().for_each(|it| it.places.keep(most));
        }
        self.slots = Some(slots);
    }

    /// Sets slots of one quota aside.
    fn set_aside(
        &mut self,
        bounded: &mut Vec<Bounded>,
        active: &Arc<ActiveQuota>,
        shard: Option<(usize, u8)>,
        (missing, lease): (usize, Duration),
    ) {
        if let Some(known) = bounded.iter_mut().find(|it| it.active.key == active.key) {
            known.shards.extend(shard.filter(|it| !known.shards.contains(it)));
            return;
        }
        let (shared, now, missing) = (&self.proxy.shared, self.now, missing as u64);
        let (bound, why) = active.bound(lease, now);
        let places = shared.journal.ask_places(&active.key, missing, now, || bound);
        let most = active.most.saturating_sub(places.before());
        let grant = &active.slots.grant;
        grant.asked(missing.min(most).saturating_sub(places.left()));
        if missing > 0 && places.left() == 0 {
            let reason = match why {
                NoSlot::Full => SlotLack::Full,
                NoSlot::NoGrant => SlotLack::NoGrant,
                NoSlot::LongLease => SlotLack::LongLease,
            };
            shared.metrics.quota_held[reason].inc();
            if let Some(count) = active.slots.note_held(now) {
                event::quota_active_full(&active.quota.tenant, &active.quota.job_type, reason.as_str(), count);
            }
        } else if let Some(ends) = grant.grant().ends(now) {
            // Behind the end of a grant the hub gives its slots to others: no region is asked beyond it.
            self.head.deadline = self.head.deadline.min(Deadline::now() + ends.saturating_duration_since(now));
        }
        let (active, shards) = (Arc::clone(active), shard.into_iter().collect());
        bounded.push(Bounded { active, places, shards, is_asked: false, is_answered: false, has_come: false });
    }

    /// Whether the call under way may ask for a queue.
    pub(super) fn admits(&self, queue: &str) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.admits(queue))
    }

    /// Whether it may ask for some queue.
    pub(super) fn admits_any(&self) -> bool {
        let any = || self.claims.is_none_or(|it| it.queues().len() == 0 || it.queues().any(|queue| self.admits(queue)));
        self.slots.is_none() || any()
    }

    /// Whether the call under way may ask for a shard of a queue, by its place among those with shards.
    pub(super) fn admits_shard(&self, queue: usize, shard: usize) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.admits_shard(queue, shard))
    }

    /// A call begins, to the local region or to another one.
    pub(super) fn begin_pass(&mut self, is_local: bool) {
        let (before, asked) = (self.jobs.len(), self.missing().unwrap_or_default());
        let Some(mut slots) = self.slots.take() else { return };
        slots.pass = (before, asked);
        let shards = self.proxy.shared.shards.as_deref().map(Shards::queues).unwrap_or_default();
        let is_named = |queue: &str| is_local || self.shares(queue);
        for it in 0..slots.bounded.len() {
            let bounded = &slots.bounded[it];
            let of_shards = bounded.shards.iter().any(|(at, _)| is_named(shards[*at].name()));
            let mut named = self.claims.iter().flat_map(|claims| claims.queues()).filter(|queue| is_named(queue));
            let is_of = |queue| slots.table.of_queue(queue).is_some_and(|it| it.key == bounded.active.key);
            let is_asked = !slots.is_second && bounded.places.left() > 0 && (of_shards || named.any(is_of));
            slots.bounded[it].is_asked = is_asked;
        }
        self.slots = Some(slots);
    }

    /// How long the call under way may take at most, where claimed jobs wait for it.
    pub(super) fn patience(&self) -> Option<Duration> {
        let is_second = self.slots.as_ref().is_some_and(|slots| slots.is_second);
        (is_second && !self.jobs.is_empty()).then_some(SECOND_CALL)
    }

    /// The next call is a first one again.
    pub(super) fn end_passes(&mut self) {
        self.slots.iter_mut().for_each(|slots| slots.is_second = false);
    }

    /// Whether a second call follows, for the queues that no quota bounds: the last one asked for fewer jobs than the worker wants, and got them.
    pub(super) fn goes_on_without_bounded(&mut self) -> bool {
        let came = self.jobs.len();
        let Some(slots) = &mut self.slots else { return false };
        let (before, asked) = std::mem::take(&mut slots.pass);
        if slots.is_second || asked == 0 || came < before + asked {
            return false;
        }
        (slots.was_full, slots.is_second) = (true, true);
        let goes_on = self.missing().is_some_and(|missing| missing > 0) && self.admits_any();
        self.slots.iter_mut().for_each(|slots| slots.is_second = goes_on);
        goes_on
    }

    /// The regions were asked: slots that are left had no jobs.
    pub(super) fn note_left_slots(&self) {
        self.slots.iter().for_each(|slots| slots.give_up(self.now));
    }
}
