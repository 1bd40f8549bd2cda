//! Carries replays out. Of the hubs that share a record one has a replay at a time, for half a minute, and says so again and again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::iter;

use super::super::record::{Kept, OpenReplays, RecordError, ReplayJob, ReplayStep, SavedReplay};
use super::super::state::Hub;
use super::super::views::Views;
use super::carry::{Carrier, Tried};
use super::document::Replay;
use super::ending::finish;
use crate::telemetry::event;

/// How often the record is looked at while a replay is open.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while none is, where another hub may take an order; and where none can.
const LOOK_SELDOM: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(60));
/// Jobs that are carried out at once.
const AT_ONCE: usize = 8;
/// Jobs that are read from the record at a time.
const JOBS_AT_A_TIME: u32 = 100;
/// New jobs whose answers were lost; beyond, no further one is sent while a region is silent.
const OPEN_MAX: usize = 2 * AT_ONCE;
/// Jobs one after the other without a word of their regions; then the replay is left alone for a while.
const SILENT_MAX: u32 = 2 * AT_ONCE as u32;
/// How long a replay is open at most: regions that are away for longer are not waited for. Units: milliseconds.
const OPEN_FOR_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// How long a replay that has ended can be looked up. Units: milliseconds.
const KEPT_FOR_MS: u64 = 366 * 24 * 60 * 60 * 1_000;
/// How often the record drops those that are too old.
const PRUNE_EVERY: Duration = Duration::from_secs(60 * 60);

/// Carries replays out, for ever.
pub(in crate::hub) async fn run(hub: &Hub) {
    let Some(views) = &hub.views else { return std::future::pending().await };
    let runner = Runner { hub, views, troubles: RefCell::default() };
    let mut pruned = None;
    loop {
        // Boxed, because it can make connections, which need much room.
        let wait = Box::pin(runner.round()).await;
        let now = hub.clock.now();
        if pruned.is_none_or(|at| now.saturating_duration_since(at) >= PRUNE_EVERY) {
            let before_ms = hub.clock.unix_ms().saturating_sub(KEPT_FOR_MS);
            let dropped = Box::pin(hub.record.prune_replays(before_ms)).await;
            runner.note("prune", dropped.err().map(|error| error.to_string()));
            pruned = Some(now);
        }
        tokio::select! {
            () = hub.clock.sleep(wait) => {}
            () = hub.replays.ordered.notified() => {}
        }
    }
}

struct Runner<'h> {
    hub: &'h Hub,
    views: &'h Views,
    /// The last trouble of each replay that was logged.
    troubles: RefCell<BTreeMap<String, String>>,
}

impl Runner<'_> {
    /// One second of each replay that this hub may have. Returns the wait until the next one.
    async fn round(&self) -> Duration {
        let open = self.hub.record.open_replays().await;
        self.note("", open.as_ref().err().map(ToString::to_string));
        let Ok(OpenReplays { all, now_ms }) = open else { return LOOK_EVERY };
        if all.is_empty() {
            return if self.hub.record.is_shared() { LOOK_SELDOM.0 } else { LOOK_SELDOM.1 };
        }
        let mut goes_on = false;
        for saved in all {
            let id = saved.id.clone();
            if self.hub.replays.held.borrow().contains(&id) {
                continue;
            }
            let (step, trouble) = match serde_json::from_str::<Replay>(&saved.document) {
                Ok(replay) => {
                    let step = Box::pin(self.step(saved, replay, now_ms)).await;
                    step.unwrap_or_else(|error| (false, Some(error.to_string())))
                }
                Err(error) => (false, Some(format!("a later version of this program has written it: {error}"))),
            };
            self.note(&id, trouble);
            goes_on |= step;
        }
        if goes_on { Duration::ZERO } else { LOOK_EVERY }
    }

    /// Logs why a replay does not go on, once for each cause.
    fn note(&self, id: &str, trouble: Option<String>) {
        let mut troubles = self.troubles.borrow_mut();
        match trouble {
            Some(trouble) if troubles.get(id) != Some(&trouble) => {
                event::hub_replay_waits(id, &trouble);
                troubles.insert(id.to_owned(), trouble);
            }
            Some(_) => {}
            None => drop(troubles.remove(id)),
        }
    }

    /// Returns whether the replay goes on at once, and why it does not go on at all.
    async fn step(
        &self,
        saved: SavedReplay,
        replay: Replay,
        now_ms: u64,
    ) -> Result<(bool, Option<String>), RecordError> {
        let mine = replay.taken_by(&self.hub.replays.name, now_ms, self.hub.record.is_shared());
        let Some(mine) = mine else { return Ok((false, None)) };
        let version = if mine == replay { Some(saved.version) } else { self.keep(saved.version, &mine).await? };
        let Some(version) = version else { return Ok((true, None)) };
        let is_over = now_ms.saturating_sub(mine.began_ms) > OPEN_FOR_MS;
        let carrier = Carrier { hub: self.hub, views: self.views, replay: &mine, version, now_ms, is_over };
        // A job whose change the record refuses holds up neither the stop nor the expiry of the others.
        let (open, mut trouble) = carrier.settle().await.unwrap_or_else(|error| (OPEN_MAX, Some(error.to_string())));
        let has_more = if mine.is_stopped || is_over {
            let why = if mine.is_stopped { "stopped" } else { "expired" };
            self.hub.record.stop_replay_jobs(&mine.id, why).await?;
            false
        } else if trouble.is_some() && open >= OPEN_MAX {
            true
        } else {
            let (has_more, silent) = carrier.take_some().await?;
            trouble = trouble.or(silent);
            has_more
        };
        if !has_more && finish(self.hub, &mine, version).await? {
            return Ok((true, None));
        }
        // With trouble, another hub may reach the region.
        let runner = if trouble.is_some() { None } else { mine.runner.clone() };
        let next = Replay { trouble: trouble.clone(), runner, ..mine.clone() };
        if next != mine {
            self.keep(version, &next).await?;
        }
        Ok((has_more && trouble.is_none(), trouble))
    }

    /// Keeps a replay that was made from a version; the version behind it, and none where another hub or an operator was first.
    async fn keep(&self, version: u64, replay: &Replay) -> Result<Option<u64>, RecordError> {
        let kept = self.hub.record.change_replay(replay.saved(version)).await?;
        Ok((kept == Kept::Kept).then_some(version + 1))
    }
}

impl Carrier<'_> {
    /// Looks for the new jobs whose answers were lost. Returns how many there were, and why one of them is still open, where a region is silent.
    async fn settle(&self) -> Result<(usize, Option<String>), RecordError> {
        let jobs =
            self.hub.record.due_replay_jobs(&self.replay.id, ReplayStep::Sending, JOBS_AT_A_TIME as usize).await?;
        let open = jobs.len();
        let mut tries = iter(jobs).map(|job| self.resume(job)).buffer_unordered(AT_ONCE);
        let mut trouble = None;
        while let Some(tried) = tries.next().await {
            match tried {
                Ok(Tried::Silent(why)) => trouble = Some(why),
                Ok(_) => {}
                Err(error) => trouble = Some(error.to_string()),
            }
        }
        Ok((open, trouble))
    }

    /// Takes some of the jobs that wait, at the rate of the replay. Returns whether there may be more, and why it broke off.
    async fn take_some(&self) -> Result<(bool, Option<String>), RecordError> {
        let (rate, began) = (self.replay.per_second.max(1), self.hub.clock.now());
        let (pace, most) = (Duration::from_secs(1) / rate, rate.min(JOBS_AT_A_TIME));
        let jobs = self.hub.record.due_replay_jobs(&self.replay.id, ReplayStep::Waiting, most as usize).await?;
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        let (silent, is_behind) = (Cell::new(0_u32), Cell::new(false));
        let take = async |(place, job): (u32, ReplayJob)| {
            let due = pace.saturating_mul(place);
            self.hub.clock.sleep(due.saturating_sub(self.hub.clock.now().saturating_duration_since(began))).await;
            if is_behind.get() || silent.get() >= SILENT_MAX {
                return None;
            }
            match self.take(job).await.unwrap_or_else(|error| Tried::Silent(error.to_string())) {
                Tried::Advanced => {
                    silent.set(0);
                    None
                }
                Tried::Behind => {
                    is_behind.set(true);
                    None
                }
                Tried::Silent(why) => {
                    silent.set(silent.get() + 1);
                    Some(why)
                }
            }
        };
        let mut tries = iter((0..count).zip(jobs)).map(take).buffer_unordered(AT_ONCE);
        let mut trouble = None;
        while let Some(tried) = tries.next().await {
            trouble = tried.or(trouble);
        }
        drop(tries);
        if count == 0 {
            return Ok((false, None));
        }
        // The next ones begin when their time has come, too.
        let lasted = self.hub.clock.now().saturating_duration_since(began);
        self.hub.clock.sleep(pace.saturating_mul(count).saturating_sub(lasted)).await;
        // A region that is away holds up its own jobs alone.
        Ok((true, trouble.filter(|_| silent.get() > 0)))
    }
}
