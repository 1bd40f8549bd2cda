//! Clears up outcomes that calls left open: carries out the actions that [`background`] returns for each placement,
//! with growing pauses.
//!
//! On the control thread, with the sidecar's own identity and on fresh connections; a region with an open breaker is
//! left alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::journal::Found;
use crate::net::pool::{Pool, PoolLimits};
use crate::ojs::answer::is_error_document;
use crate::ojs::{progress, tombstone};
use crate::outcome::background::{Action, next};
use crate::outcome::{Event, Fate, Moment, Place, Settlement, Told, Word};
use crate::policy::BreakerState;
use crate::proxy::body::shown_job::{Sought, judge};
use crate::proxy::placement::{fence_due, is_fenceable, rules, trust_of_ourselves};
use crate::proxy::{LONG_BYTES, Shared, offload, pool_limits, pool_meters};
use crate::region::{JobQuestion, ask_job};
use crate::telemetry::{Resolution, event};

/// Placements that are looked at at once: a region that comes back is not met by a wave.
const CONCURRENT: usize = 8;
/// Looked at in one round.
const ROUND_MAX: usize = 256;
/// Steps for one placement in one round: each of a few copies is asked about, and one is cancelled or fenced.
const STEPS_MAX: usize = 32;
/// How fast long answers are read, by each of these questions: no client waits for them, and a region that sends long
/// answers must not keep the processor from calls. Ten megabytes take 0.6 s.
const LONG_BYTES_PER_MICROSECOND: u32 = 16;
/// Between two rounds while something is open.
const TICK: Duration = Duration::from_secs(1);
/// The pause between two rounds without open placements, and between two looks for old records.
const IDLE_TICK: Duration = Duration::from_secs(60);
/// An answer shows a job, which came by a body, and a little about it.
const ANSWER_EXTRA_BYTES: usize = 1024 * 1024;

pub(super) struct Resolver {
    shared: Arc<Shared>,
}

impl Resolver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Looks for ever.
    pub(super) async fn run(self) {
        let clock = self.shared.registry.clock().clone();
        let shared = Arc::clone(&self.shared);
        let mut pruned: Option<Moment> = None;
        loop {
            self.round().await;
            let now = shared.journal.now();
            if pruned.is_none_or(|at| now.since(at) >= IDLE_TICK) {
                shared.journal.prune(shared.config.idempotency.ttl);
                pruned = Some(now);
            }
            let tick = if shared.journal.pending() > 0 { TICK } else { IDLE_TICK };
            tokio::select! {
                () = clock.sleep(tick) => {}
                () = shared.journal.changed() => {}
            }
        }
    }

    /// Looks at all for which something is due.
    async fn round(&self) {
        let shared = &*self.shared;
        let round = shared.journal.now();
        let is_due = |action| !matches!(action, Action::Rest | Action::Wait(_));
        let due = shared.journal.due(ROUND_MAX, |placement| {
            let guarded = |place: &Place| is_fenceable(shared, &placement.identity, place);
            is_due(next(placement, round, round, guarded))
        });
        let looks = due.into_iter().map(|found| Look { shared, round, found }.run());
        stream::iter(looks).buffer_unordered(CONCURRENT).collect::<Vec<()>>().await;
    }
}

/// One placement in one round.
struct Look<'s> {
    shared: &'s Shared,
    round: Moment,
    found: Found,
}

impl Look<'_> {
    async fn run(mut self) {
        for _ in 0..STEPS_MAX {
            let action = next(&self.found.placement, self.now(), self.round, |place| {
                is_fenceable(self.shared, &self.found.placement.identity, place)
            });
            let goes_on = match action {
                Action::Rest | Action::Wait(_) => false,
                Action::Ask(at) => self.ask(at).await,
                Action::Fence(at) => self.fence(at).await,
                Action::Bury(at) => self.bury(at).await,
                Action::Cancel(at) => self.cancel(at).await,
                Action::Settle(how) => {
                    self.settle(how);
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    fn now(&self) -> Moment {
        self.shared.journal.now()
    }

    async fn ask(&mut self, at: usize) -> bool {
        let word = self.put(at, &JobQuestion::Look).await;
        self.heard(at, word)
    }

    /// Takes in a region's word; false where the placement is in other hands by now.
    fn heard(&mut self, at: usize, word: Word) -> bool {
        let Some(copy) = self.found.placement.copies.get(at) else { return false };
        if matches!(word, Word::Tombstone(_)) {
            self.shared.owners.forget_in(&copy.place.job_id, &copy.place.region);
        }
        let before = copy.fate;
        let trust = trust_of_ourselves(self.shared, &self.found.placement.identity, &copy.place.region);
        self.apply(Event::Heard(at, word, trust));
        let after = self.found.placement.copies.get(at).map(|copy| copy.fate);
        if after == Some(before) {
            self.shared.journal.note(&self.found);
            return true;
        }
        if !self.shared.journal.update(&mut self.found) {
            return false;
        }
        let is_open = matches!(self.found.placement.told, Told::Unknown | Told::BrokenOff);
        if is_open
            && matches!((before, after), (Fate::Unknown { .. }, Some(Fate::Absent { .. })))
            && let Some(place) = self.place(at)
        {
            self.log_resolution(Resolution::Absent, &place);
        }
        true
    }

    async fn fence(&mut self, at: usize) -> bool {
        let Some(place) = self.place(at) else { return false };
        let due = fence_due(self.shared.registry.clock().unix_ms());
        let body = tombstone(&place.job_id, &due).into();
        match self.put(at, &JobQuestion::Create(body)).await {
            Word::Tombstone(_) => {
                self.apply(Event::Fenced(at));
                let is_taken = self.shared.journal.update(&mut self.found);
                if is_taken {
                    self.shared.metrics.fences.inc();
                    self.shared.owners.forget_in(&place.job_id, &place.region);
                    self.log_resolution(Resolution::Absent, &place);
                }
                is_taken
            }
            Word::Silent => self.heard(at, Word::Silent),
            // The id is taken: a look-up shows by which job.
            _ => self.ask(at).await,
        }
    }

    async fn bury(&mut self, at: usize) -> bool {
        match self.put(at, &JobQuestion::Cancel).await {
            Word::Tombstone(true) | Word::No => {
                self.apply(Event::Buried(at));
                self.shared.journal.update(&mut self.found)
            }
            word => self.heard(at, if matches!(word, Word::Has(_)) { word } else { Word::Silent }),
        }
    }

    /// Cancels a copy. The intent is durable before the cancellation is sent: it may succeed at any time, and the other
    /// copies must then stay.
    async fn cancel(&mut self, at: usize) -> bool {
        self.apply(Event::Cancelling(at));
        if !self.shared.journal.update_durably(&mut self.found).await {
            return false;
        }
        let word = self.put(at, &JobQuestion::Cancel).await;
        self.heard(at, word)
    }

    fn settle(&mut self, how: Settlement) {
        self.apply(Event::Settled(how));
        if !self.shared.journal.update(&mut self.found) {
            return;
        }
        let placement = &self.found.placement;
        if let Some(place) = placement.stored() {
            // Both copies may have the same id: later look-ups go to the region where the job lives.
            self.shared.owners.learn(&place.job_id, &place.region);
            self.shared.saw_found(&place.job_id, None, &place.region);
        }
        let is_told = matches!(placement.told, Told::Stored { .. });
        let cancelled = placement.copies.iter().find(|copy| copy.fate == Fate::Cancelled { by_us: true });
        match (how, cancelled) {
            (Settlement::Doubled, _) => self.log_doubled(),
            (Settlement::Expired, _) => {
                let open = placement.copies.iter().find(|copy| !copy.is_final());
                open.or(placement.copies.first())
                    .into_iter()
                    .for_each(|copy| self.log_resolution(Resolution::Expired, &copy.place));
            }
            (Settlement::Stored, Some(copy)) => self.log_resolution(Resolution::Cancelled, &copy.place),
            (Settlement::Stored, None) if !is_told => {
                placement.stored().into_iter().for_each(|place| self.log_resolution(Resolution::Landed, place));
            }
            (Settlement::Stored | Settlement::Absent, _) => {}
        }
    }

    fn log_resolution(&self, result: Resolution, place: &Place) {
        let job_id = Some(place.job_id.as_str()).filter(|id| !id.is_empty());
        event::outcome_resolved(&self.shared.metrics, result, place.region.as_str(), job_id);
    }

    fn log_doubled(&self) {
        let is_one = |fate: &Fate| matches!(fate, Fate::Stored { .. } | Fate::Cancelling { .. } | Fate::Overwritten);
        let mut places = self.found.placement.copies.iter().filter(|copy| is_one(&copy.fate)).map(|copy| &copy.place);
        let (first, second) = (places.next(), places.next());
        let Some(first) = first else { return };
        let second = second.unwrap_or(first);
        let regions = [first.region.as_str(), second.region.as_str()];
        event::doubled(&self.shared.metrics, regions, [&first.job_id, &second.job_id]);
    }

    fn apply(&mut self, event: Event) {
        let now = self.now();
        self.found.placement.apply(event, now, rules(&self.shared.config));
    }

    fn place(&self, at: usize) -> Option<Place> {
        self.found.placement.copies.get(at).map(|copy| copy.place.clone())
    }

    /// Asks a region about a copy; returns its verdict.
    async fn put(&self, at: usize, question: &JobQuestion) -> Word {
        let shared = self.shared;
        let Some(place) = self.place(at).filter(|place| !place.job_id.is_empty()) else { return Word::Silent };
        let view = shared.registry.view();
        let Some(index) = view.index_of(place.region.as_str()) else { return Word::Silent };
        if view.region(index).breaker != BreakerState::Closed {
            return Word::Silent;
        }
        drop(view);
        let limits = PoolLimits { idle_max: 0, ..pool_limits(&shared.config) };
        let pool = Pool::new(limits, pool_meters(shared.metrics.region(index.get())));
        let bytes_max = shared.config.limits.body_bytes.saturating_add(ANSWER_EXTRA_BYTES);
        let timeout = shared.config.health_check.timeout;
        let region = shared.registry.region(index);
        let asked = ask_job(region, &pool, question, &place.job_id, bytes_max, timeout).await;
        let (Ok((status, body)), Some(copy)) = (asked, self.found.placement.copies.get(at)) else {
            return Word::Silent;
        };
        // The client and its identity know the queue's own name.
        let body = shared.shards.as_deref().and_then(|shards| shards.renamed(&body)).unwrap_or(body);
        let (bytes, sought) = (body.len(), Sought::of(copy, &self.found.placement.identity));
        let creates = matches!(question, JobQuestion::Create(_));
        let word = offload(bytes, move || {
            let is_taken = creates && status == http::StatusCode::CONFLICT && is_error_document(&body);
            // The holder of the id is looked up: an answer to a tombstone that shows another job is a verdict of the
            // same kind.
            if is_taken || (creates && progress(&body).is_some_and(|it| !it.is_fence)) {
                return Word::Other;
            }
            judge(status, &body, &sought)
        })
        .await;
        if bytes > LONG_BYTES {
            let pause = Duration::from_micros(bytes as u64) / LONG_BYTES_PER_MICROSECOND;
            shared.registry.clock().sleep(pause.min(timeout)).await;
        }
        word
    }
}
