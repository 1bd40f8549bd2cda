//! One FETCH on its way through the regions.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use tokio::time::{Instant as Deadline, timeout};

use super::claim::{claimant, lease, place, tally};
use super::sharded::{Sharded, ShardedCall};
use super::slots::RoundSlots;
use super::turn::Turn;
use super::withheld::is_withheld;
use crate::base::RegionId;
use crate::journal::{AskedPlaces, Lease};
use crate::ojs::worker::{ClaimedJob, FetchReply, FetchRequest};
use crate::ojs::{Class, Segments};
use crate::outcome::Moment;
use crate::policy::{GuardClass, Pool, QueueRules, RegionIndex};
use crate::proxy::{
    call::{
        ask::{NoAnswer, Question, ask},
        head::Head,
    },
    state::{Proxy, RegionAnswer},
};
use crate::region::{KeptJob, handed_out_until};
use crate::telemetry::KeptJob as Became;

/// The local region's answer, where it is not the answer that other jobs are merged into.
#[derive(Debug)]
pub(super) enum Local {
    /// It was not asked: the worker has enough jobs, or has disconnected.
    Unasked,
    /// An error, or something that does not look like jobs.
    Refused(RegionAnswer),
    /// It held the call back for as long as the client waits.
    Held,
    /// Nothing.
    Silent(NoAnswer),
}

/// The jobs of a FETCH so far.
pub(super) struct Round<'p, 'b> {
    /// The jobs for the worker, in the order of the answer.
    pub(super) jobs: Vec<KeptJob>,
    pub(super) local: Local,
    /// The answer that the jobs of others are put into: the local region's, else the first one.
    pub(super) base: Option<(RegionIndex, RegionAnswer)>,
    /// Whether a region repeats the first job in a member of its own.
    pub(super) first: bool,
    /// Whether the jobs are not just those of the answer that others are put into.
    pub(super) changed: bool,
    pub(super) proxy: &'p Proxy,
    class: Class,
    pub(super) head: Head,
    pub(super) body: &'b Bytes,
    pub(super) claims: Option<&'b FetchRequest<'b>>,
    pub(super) worker: Option<&'b str>,
    pub(super) turn: Option<Turn<'p, 'b>>,
    pub(super) sharded: Option<Sharded<'p>>,
    pub(super) pool: Option<&'p Pool>,
    /// When the call was read.
    pub(super) now: Instant,
    /// The places that its pool has for further jobs; none without a bound.
    pub(super) places: Option<AskedPlaces>,
    /// The slots of the quotas that bound active jobs; none without such quotas.
    pub(super) slots: Option<RoundSlots>,
}

/// A FETCH as it was read.
pub(super) struct Call<'p, 'b> {
    pub(super) class: Class,
    pub(super) head: Head,
    pub(super) body: &'b Bytes,
    /// Its parameters; none where servers could read it in two ways.
    pub(super) claims: Option<&'b FetchRequest<'b>>,
    pub(super) worker: Option<&'b str>,
    pub(super) pool: Option<&'p Pool>,
    /// How its queues take turns; none where they stay in their order.
    pub(super) rules: Option<Cow<'p, QueueRules>>,
    pub(super) now: Instant,
}

impl<'p, 'b> Round<'p, 'b> {
    pub(super) fn begin(proxy: &'p Proxy, call: Call<'p, 'b>) -> Self {
        let Call { class, head, body, claims, worker, pool, rules, now } = call;
        let (jobs, local) = (Vec::new(), Local::Unasked);
        let turn = claims.zip(rules).map(|(claims, rules)| Turn::new(proxy, claims, rules));
        let sharded = claims.and_then(|claims| Sharded::of(proxy, claims));
        let (base, first, changed, places, slots) = (None, false, false, None, None);
        Self {
            jobs,
            local,
            base,
            first,
            changed,
            proxy,
            class,
            head,
            body,
            claims,
            worker,
            turn,
            sharded,
            pool,
            now,
            places,
            slots,
        }
    }

    /// The worker that may get parked jobs of this call; `None` for a worker without a name.
    pub(super) fn claimant(&self) -> Option<String> {
        self.worker.map(|worker| claimant(worker, &self.head.headers))
    }

    /// Takes the jobs that were parked for this worker after it disconnected.
    pub(super) fn take_kept(&mut self) {
        let shared = &self.proxy.shared;
        // Hardly ever anything is kept, and then the name is not worked out.
        if shared.workers.kept.is_empty() {
            return;
        }
        let Some(claimant) = self.claimant() else { return };
        let (Some(claims), Some(missing)) = (self.claims, self.missing()) else { return };
        let view = shared.registry.view();
        let is_isolated =
            |region: &RegionId| view.index_of(region.as_str()).is_some_and(|it| view.region(it).is_isolated());
        let asked = |job: &KeptJob| claims.queues().any(|name| name == job.queue) && !is_isolated(&job.region);
        self.jobs = shared.workers.kept.take(&claimant, missing, self.now, asked);
        self.changed = !self.jobs.is_empty();
        shared.metrics.kept_jobs[Became::Given].inc_by(self.jobs.len() as u64);
    }

    /// How many jobs the worker still wants; `None` where the call does not say it in a way that we can count by.
    pub(super) fn missing(&self) -> Option<usize> {
        let wanted = self.claims.filter(|claims| claims.queues().next().is_some())?.count()?;
        let missing = wanted.saturating_sub(self.jobs.len());
        let places = self.places.as_ref().map(|places| usize::try_from(places.left()).unwrap_or(usize::MAX));
        let missing = places.map_or(missing, |left| missing.min(left));
        Some(self.slots.as_ref().map_or(missing, |slots| slots.within(missing)))
    }

    /// Asks the local region for all that is missing.
    pub(super) async fn ask_local(&mut self) {
        self.ask_local_once().await;
        if self.goes_on_without_bounded() {
            self.ask_local_once().await;
            self.end_passes();
        }
    }

    async fn ask_local_once(&mut self) {
        let missing = self.missing();
        if missing == Some(0) || !self.admits_any() {
            return;
        }
        self.begin_pass(true);
        let proxy = self.proxy;
        let index = proxy.shared.registry.view().local;
        if is_withheld(proxy, index) {
            return;
        }
        if let Some(mut call) = self.sharded_call(index, missing, |queue| self.admits(queue), self.now) {
            let is_answered = self.ask_local_for(index, std::mem::take(&mut call.body)).await;
            self.end_sharded(index, &call, is_answered);
            return;
        }
        match (self.claims, missing) {
            (Some(_), Some(missing)) if self.turn.is_some() => self.ask_local_by_turn(index, missing).await,
            (Some(claims), Some(missing)) if !self.jobs.is_empty() || self.places.is_some() || self.slots.is_some() => {
                self.ask_local_for(index, claims.part(self.body, missing, |queue| self.admits(queue))).await;
            }
            (Some(claims), _) => {
                self.ask_local_for(index, claims.whole(self.body)).await;
            }
            (None, _) => {
                self.ask_local_for(index, Segments::from_iter([self.body.clone()])).await;
            }
        }
    }

    pub(super) fn sharded_call(
        &self,
        index: RegionIndex,
        missing: Option<usize>,
        wanted: impl Fn(&str) -> bool,
        now: Instant,
    ) -> Option<ShardedCall> {
        let (claims, sharded) = (self.claims?, self.sharded.as_ref()?);
        let admitted = |queue, shard| self.admits_shard(queue, shard);
        Some(sharded.call((claims, self.body), self.turn.as_ref(), (index, missing), (wanted, admitted), now))
    }

    pub(super) fn end_sharded(&mut self, index: RegionIndex, call: &ShardedCall, is_answered: bool) {
        if let (Some(turn), Some(call)) = (&mut self.turn, &call.turn) {
            turn.end(call, is_answered);
        }
        if let Some(sharded) = &mut self.sharded {
            sharded.end(index, &call.shards, is_answered);
        }
    }

    /// Asks the local region for jobs of the queue whose turn it is, and of the others behind it.
    async fn ask_local_by_turn(&mut self, index: RegionIndex, missing: usize) {
        let Some(turn) = &self.turn else { return };
        let call = turn.plan(index, missing, |queue| self.admits(queue), self.now);
        let body = turn.body_of(&call, self.body);
        let is_answered = self.ask_local_for(index, body).await;
        if let Some(turn) = &mut self.turn {
            turn.end(&call, is_answered);
        }
    }

    /// Asks the local region for the jobs of one call. Returns whether it has answered with jobs, or with none.
    async fn ask_local_for(&mut self, index: RegionIndex, body: Segments) -> bool {
        let proxy = self.proxy;
        // A region that hangs leaves time for the others, where there are any to ask.
        let left = self.head.deadline.saturating_duration_since(Deadline::now());
        let share = if self.is_shared() { left / 2 } else { left };
        let local = match self.ask(index, body, share).await {
            Ok(answer) if !answer.status.is_success() => Local::Refused(answer),
            Ok(answer) => {
                self.take_in(index, answer, |_| !is_withheld(proxy, index)).map_or(Local::Unasked, Local::Refused)
            }
            Err(NoAnswer::Unknown) if Deadline::now() >= self.head.deadline => Local::Held,
            Err(silence) => {
                if matches!(silence, NoAnswer::Closed(_)) {
                    // Jobs may wait there that no other region hands out.
                    self.proxy.shared.registry.lacked(index);
                }
                Local::Silent(silence)
            }
        };
        let is_answered = matches!(local, Local::Unasked);
        self.local = local;
        is_answered
    }

    /// Asks a region. Its answer has the queues' own names.
    pub(super) async fn ask(
        &mut self,
        index: RegionIndex,
        body: Segments,
        share: Duration,
    ) -> Result<RegionAnswer, NoAnswer> {
        let mut answer = match self.patience().map(|most| most.min(share)) {
            // Its own deadline is later: a region that holds jobs back for a moment has not failed, for breakers and guards.
            Some(most) => {
                timeout(most, self.ask_as_it_is(index, body, 2 * most)).await.unwrap_or(Err(NoAnswer::Unknown))?
            }
            None => self.ask_as_it_is(index, body, share).await?,
        };
        if let Some(shards) = &self.proxy.shared.shards {
            self.slots.iter_mut().for_each(|slots| slots.note_shards(shards, &answer.body));
            let note = |queue, place| self.sharded.iter_mut().for_each(|sharded| sharded.note(queue, place));
            answer.rename(shards, note);
        }
        Ok(answer)
    }

    async fn ask_as_it_is(
        &self,
        index: RegionIndex,
        body: Segments,
        share: Duration,
    ) -> Result<RegionAnswer, NoAnswer> {
        let question = Question {
            method: Method::POST,
            path: self.head.path.clone(),
            headers: self.head.headers.clone(),
            body,
            deadline: Deadline::now() + share,
            guard: GuardClass::Fetch,
            leased: false,
        };
        ask(self.proxy, self.class, index, question).await
    }

    /// Takes in the jobs of a region, as far as they are `fit`, and remembers their region. Gives the answer back when
    /// it does not look like jobs.
    pub(super) fn take_in(
        &mut self,
        index: RegionIndex,
        answer: RegionAnswer,
        mut fit: impl FnMut(&ClaimedJob<'_>) -> bool,
    ) -> Option<RegionAnswer> {
        let shared = &self.proxy.shared;
        let (region, now) = (&self.proxy.region(index).id, shared.registry.clock().now());
        let Some(claimed) = FetchReply::read(&answer.body) else { return Some(answer) };
        self.first |= claimed.has_first();
        self.sharded.iter_mut().for_each(|sharded| sharded.brought(claimed.jobs.len()));
        self.slots.iter_mut().for_each(RoundSlots::answered);
        // Measured from here although the region began earlier: the margin that is left of a lease is far longer.
        let until = handed_out_until(now, lease(self.claims, None));
        if !self.jobs.is_empty() {
            // A parked job whose lease was shorter than remembered comes twice: the newer lease counts.
            let again: HashSet<&str> = claimed.jobs.iter().map(|job| &*job.id).collect();
            self.jobs.retain(|known| !again.contains(&*known.id));
        }
        // Jobs of other regions, and jobs that are left out, change the answer's bytes.
        self.changed |= self.base.is_some() && !claimed.jobs.is_empty();
        let mut leases = Vec::new();
        for job in &claimed.jobs {
            if let Some(turn) = &mut self.turn {
                turn.note(&job.queue);
            }
            if !job.id.is_empty() {
                shared.owners.learn(&job.id, region);
            }
            if fit(job) {
                let leased = self.lease(job, region);
                shared.saw_leased(job, region, leased.as_ref().map(|it| it.visibility));
                leases.extend(leased);
                tally(shared, self.pool, job, now);
                let (id, queue) = (job.id.clone().into_owned(), job.queue.clone().into_owned());
                let raw = answer.body.slice_ref(job.raw().as_bytes());
                self.jobs.push(KeptJob { id, queue, region: region.clone(), raw, until });
            } else {
                self.changed = true;
            }
        }
        if !leases.is_empty() {
            let count = leases.len() as u64;
            let slot = |it: &Lease| Some((it.place.as_ref()?.slot.clone()?, it.visibility));
            let slots: Vec<_> = leases.iter().filter_map(slot).collect();
            shared.journal.leased(leases.into_iter());
            // Afterwards, so that no other FETCH takes their places in between.
            let held = self.places.as_mut().map(|places| places.came(&shared.journal, count));
            if let Some((grant, held)) = self.pool.and_then(Pool::grant).zip(held) {
                grant.came(count, held);
            }
            self.slots.iter_mut().for_each(|it| it.came(&shared.journal, &slots, now));
        }
        if let Some(worker) = self.worker.filter(|_| !claimed.jobs.is_empty()) {
            shared.workers.fetched(worker, region, now);
        }
        drop(claimed);
        self.base.get_or_insert((index, answer));
        None
    }

    /// The lease to remember of a job until it is acknowledged; `None` for a job without an id, which cannot be
    /// acknowledged.
    fn lease(&self, job: &ClaimedJob<'_>, region: &RegionId) -> Option<Lease> {
        let text = |text: Option<&Cow<'_, str>>| text.map(|text| text.clone().into_owned());
        // A server that lets the members of the client stand in an answer may show another worker than the one that has the job.
        let is_this = |shown: &&Cow<'_, str>| self.worker.is_none_or(|worker| worker == **shown);
        (!job.id.is_empty()).then(|| Lease {
            number: 0,
            job_id: job.id.clone().into_owned(),
            region: region.clone(),
            worker_id: text(job.worker_id.as_ref().filter(is_this)),
            started_at: text(job.started_at.as_ref()),
            visibility: lease(self.claims, Some(job)),
            until: None,
            ends: Moment::default(),
            place: place(&self.proxy.shared, self.pool, job, self.slots.as_ref().and_then(|slots| slots.of_job(job))),
        })
    }
}
