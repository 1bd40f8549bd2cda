//! The slots that a FETCH has set aside, and the queues, shards and numbers of jobs that they admit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::journal::{AskedPlaces, Journal};
use crate::ojs::shards::Shards;
use crate::ojs::worker::{ClaimedJob, FetchReply};
use crate::policy::{ActiveQuota, ActiveTable, TENANT_KEY};

/// The slots of one FETCH.
pub(super) struct RoundSlots {
    pub(super) table: Arc<ActiveTable>,
    pub(super) bounded: Vec<Bounded>,
    /// Whether the call under way is for the queues that no quota bounds.
    pub(super) is_second: bool,
    /// The jobs before the call under way, and how many it asks for.
    pub(super) pass: (usize, usize),
    /// Whether a call for bounded queues brought as many jobs as it asked for.
    pub(super) was_full: bool,
    /// The quotas of the jobs of shards that the last answer had, by their ids.
    pub(super) of_shards: Vec<(String, usize)>,
}

/// A quota that bounds a queue or a shard of the FETCH.
pub(super) struct Bounded {
    pub(super) active: Arc<ActiveQuota>,
    pub(super) places: AskedPlaces,
    /// The shards of its tenant: the place of the queue among those with shards, and the shard.
    pub(super) shards: Vec<(usize, u8)>,
    /// Whether the call under way asks for its jobs.
    pub(super) is_asked: bool,
    /// Whether a region has answered such a call.
    pub(super) is_answered: bool,
    /// Whether jobs of it have come.
    pub(super) has_come: bool,
}

impl RoundSlots {
    /// So many missing jobs, or as many as the call under way may ask for.
    pub(super) fn within(&self, missing: usize) -> usize {
        if self.is_second {
            return missing;
        }
        self.most().map_or(missing, |most| missing.min(usize::try_from(most).unwrap_or(usize::MAX)))
    }

    /// The most jobs of a call for bounded queues; none where no bounded queue has a slot.
    pub(super) fn most(&self) -> Option<u64> {
        self.bounded.iter().map(|it| it.places.left()).filter(|left| *left > 0).min()
    }

    fn is_left(&self, bounded: &Bounded) -> bool {
        !self.is_second && bounded.places.left() > 0
    }

    pub(super) fn admits(&self, queue: &str) -> bool {
        let Some(active) = self.table.of_queue(queue) else { return true };
        self.bounded.iter().any(|it| it.active.key == active.key && self.is_left(it))
    }

    pub(super) fn admits_shard(&self, queue: usize, shard: usize) -> bool {
        let is_in = |it: &Bounded| it.shards.iter().any(|(of, at)| *of == queue && usize::from(*at) == shard);
        self.bounded.iter().filter(|it| is_in(it)).all(|it| self.is_left(it))
    }

    /// Notes the quotas of the jobs of an answer that lie in shards, by the names of these.
    pub(super) fn note_shards(&mut self, shards: &Shards, answer: &Bytes) {
        self.of_shards.clear();
        if self.bounded.iter().all(|it| it.shards.is_empty()) {
            return;
        }
        let Some(claimed) = FetchReply::read(answer) else { return };
        for job in &claimed.jobs {
            let Some((queue, place)) = shards.shard(&job.queue) else { continue };
            let at = shards.queues().iter().position(|it| it.name() == queue.name());
            let is_of = |it: &Bounded| it.shards.iter().any(|(of, shard)| Some(*of) == at && *shard == place.shard);
            if let Some(bounded) = self.bounded.iter().position(is_of) {
                self.of_shards.push((job.id.clone().into_owned(), bounded));
            }
        }
    }

    /// The key of the quota that counts a job among the active ones; none where none does.
    pub(super) fn of_job(&self, job: &ClaimedJob<'_>) -> Option<Arc<str>> {
        if let Some(active) = self.table.of_queue(&job.queue) {
            return Some(Arc::clone(&active.key));
        }
        let envelope = job.envelope().ok();
        let said = envelope.as_ref().map(|it| it.meta_text(TENANT_KEY));
        let tenant = said.as_ref().and_then(|said| said.text.as_deref()).filter(|tenant| !tenant.is_empty());
        let job_type = envelope.as_ref().and_then(|it| it.job_type());
        let of_job = || self.table.of_job(tenant, job_type).map(|it| Arc::clone(&it.key));
        // A shard may have jobs of other tenants. A job whose tenant was named by the head of its call does not say it.
        let of_shard = self.of_shards.iter().find(|(id, _)| *id == *job.id).map(|(_, at)| &self.bounded[*at].active);
        match of_shard.filter(|it| tenant.is_none_or(|tenant| tenant == it.quota.tenant)) {
            Some(active) => Some(Arc::clone(&active.key)),
            None => of_job(),
        }
    }

    /// A region has answered the call under way.
    pub(super) fn answered(&mut self) {
        self.bounded.iter_mut().for_each(|it| it.is_answered |= it.is_asked);
    }

    /// Jobs have come, and their leases are in the journal. `slots`: the key of the quota and the lease of each that has one.
    pub(super) fn came(&mut self, journal: &Journal, slots: &[(Arc<str>, Duration)], now: Instant) {
        // A job may have a longer lease of its own than the FETCH has named.
        for (key, lease) in slots {
            self.table.get(key).into_iter().for_each(|it| _ = it.slots.note_lease(*lease, now));
        }
        for it in &mut self.bounded {
            let count = slots.iter().filter(|(key, _)| *key == it.active.key).count() as u64;
            if count > 0 {
                let held = it.places.came(journal, count);
                it.active.slots.grant.came(count, held);
                it.active.slots.came();
                it.has_come = true;
            }
        }
    }

    /// Regions were asked: gives slots up that had no jobs. Those that full answers have left over are kept for a while: another queue may have come first.
    pub(super) fn give_up(&self, now: Instant) {
        for it in self.bounded.iter().filter(|it| it.is_answered && it.places.left() > 0) {
            if !self.was_full || (!it.has_come && it.active.slots.note_vain(now)) {
                it.active.slots.grant.emptied();
            }
        }
    }
}
