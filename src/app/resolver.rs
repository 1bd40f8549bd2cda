//! Clears up what calls had to leave unknown: asks the regions again, with growing pauses, until it is known.
//!
//! On the control thread. A job that landed late, after it had gone elsewhere, is two jobs: the copy that nobody has started is
//! cancelled in its region, and where both have started that is said loudly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Method, StatusCode};

use crate::journal::{Cancelled, Place, State, Tell, Unknown};
use crate::net::pool::{Pool, PoolLimits};
use crate::ojs::answer::is_error_document;
use crate::ojs::{Progress, progress};
use crate::policy::BreakerState;
use crate::policy::resolve::{
    CopyState, Elsewhere, Later, Lost, Next, Remedy, Told as ToldBefore, Word, counts, is_asked_about, later,
    may_come_late, other_copy, remedy, undecided,
};
use crate::proxy::{LONG_BYTES, Shared, aside, pool_limits, pool_meters};
use crate::region::ask_job;
use crate::telemetry::{Resolution, event};

/// Questions under way at once: a region that comes back is not met by a wave.
const CONCURRENT: usize = 8;
/// Looked at in one round.
const ROUND_MAX: usize = 256;
/// How fast long answers are read, by each of those questions: nobody waits for them, and a region that sends nothing else must not
/// keep the processor from those who do. Ten megabytes take 0.6 s, and nothing more than a region that is silent.
const LONG_BYTES_PER_MICROSECOND: u32 = 16;
/// Between two rounds while something is not known.
const TICK: Duration = Duration::from_secs(1);
/// Between two rounds while all is known: what is old is dropped then.
const IDLE_TICK: Duration = Duration::from_secs(60);
/// An answer shows a job, which came by a body, and a little about it.
const ANSWER_EXTRA_BYTES: usize = 1024 * 1024;

pub(super) struct Resolver {
    shared: Arc<Shared>,
    asked: HashMap<u64, Asked>,
}

/// How often one was asked about.
#[derive(Debug, Clone, Copy)]
struct Asked {
    asks: u32,
    noes: u32,
    /// "No such job" from the region that it went to afterwards.
    noes_elsewhere: u32,
    due: Instant,
}

impl Asked {
    const fn at(due: Instant) -> Self {
        Self { asks: 0, noes: 0, noes_elsewhere: 0, due }
    }
}

/// What a region says of a copy.
enum Told {
    /// It has it, so far on its way; and whether it is cancelled, also where a worker had had it.
    Copy(CopyState, bool),
    No,
    Nothing,
}

impl Resolver {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, asked: HashMap::new() }
    }

    /// Asks for ever.
    pub(super) async fn run(mut self) {
        let clock = self.shared.registry.clock().clone();
        let shared = Arc::clone(&self.shared);
        loop {
            self.round().await;
            let ttl = shared.config.idempotency.ttl;
            shared.journal.prune(clock.unix_ms(), ttl);
            let tick = if shared.journal.pending() > 0 { TICK } else { IDLE_TICK };
            tokio::select! {
                () = clock.sleep(tick) => {}
                () = shared.journal.changed() => {}
            }
        }
    }

    /// Asks about all that are due.
    async fn round(&mut self) {
        let now = self.shared.registry.clock().now();
        let is_due = |it: &Unknown| self.asked.get(&it.number).is_none_or(|asked| asked.due <= now);
        let due = self.shared.journal.due(ROUND_MAX, is_due);
        if due.is_empty() {
            return;
        }
        let asked = |number: u64| self.asked.get(&number).copied().unwrap_or_else(|| Asked::at(now));
        let (shared, work) = (&self.shared, due.into_iter().map(|it| (asked(it.number), it)).collect::<Vec<_>>());
        let looks = work.into_iter().map(|(asked, it)| async move { (it.number, look(shared, asked, &it).await) });
        let looked: Vec<_> = stream::iter(looks).buffer_unordered(CONCURRENT).collect().await;
        for (number, next) in looked {
            match next {
                Some(asked) => drop(self.asked.insert(number, asked)),
                None => drop(self.asked.remove(&number)),
            }
        }
        // What others have cleared up meanwhile is not heard of here.
        if self.asked.len() > 2 * self.shared.journal.pending() + ROUND_MAX {
            self.asked.clear();
        }
    }
}

/// Asks about one; none once it is known, else when to ask again.
async fn look(shared: &Shared, before: Asked, unknown: &Unknown) -> Option<Asked> {
    let clock = shared.registry.clock();
    let (age, gone) = (age_of(shared, unknown), shared.journal.gone());
    let place = unknown.sent_to();
    let told = match &place {
        Some(place) => ask(shared, Method::GET, place).await,
        None => Told::Nothing,
    };
    let word = match told {
        Told::Copy(..) => Word::Has,
        Told::No => Word::HasNot,
        Told::Nothing => Word::Silent,
    };
    let watched = unknown.elsewhere.is_some() || unknown.going.is_some() || unknown.proved;
    let counts = counts(word, age, shared.config.failover.late_write_grace, watched);
    let mut asked = Asked { asks: before.asks.saturating_add(1), noes: before.noes + u32::from(counts), ..before };
    let heard = Later {
        lost: if unknown.ended { Lost::Ended } else { Lost::TimedOut },
        trusted: !unknown.private,
        watched,
        age,
        asks: asked.asks,
        noes: asked.noes,
        word,
    };
    let mut next = later(heard);
    if let (Next::Landed, Told::Copy(late, cancelled), Some(place)) = (next, told, place) {
        let is_alone = unknown.elsewhere.is_none() && unknown.going.is_none();
        let done = match unknown.cancelled {
            Some(_) if is_alone => told_to_cancel(shared, unknown, &place, cancelled, age),
            _ => {
                // Started or not, it was cancelled as it was told.
                let is_gone = cancelled && shared.journal.told(&place, unknown).is_some();
                let copy = if is_gone { CopyState::Gone } else { late };
                landed(shared, unknown, Late { place: &place, copy, gone }, &mut asked).await
            }
        };
        if done.is_some() {
            return None;
        }
        next = undecided(heard);
    }
    match next {
        Next::AskIn(pause) => return Some(Asked { due: clock.now() + pause, ..asked }),
        Next::Absent => {
            finish(shared, unknown, State::Absent);
            // Of one that is watched it was said in its call.
            if !watched {
                tell(shared, unknown, Resolution::Absent);
            }
        }
        Next::Expired | Next::Landed => {
            finish(shared, unknown, State::Expired);
            tell(shared, unknown, Resolution::Expired);
        }
    }
    None
}

fn finish(shared: &Shared, unknown: &Unknown, state: State) {
    let now_ms = shared.registry.clock().unix_ms();
    shared.journal.change_found(unknown, |it| it.resolve(state, now_ms));
}

fn tell(shared: &Shared, unknown: &Unknown, result: Resolution) {
    event::outcome_resolved(&shared.metrics, result, unknown.region.as_str(), unknown.job_id.as_deref());
}

/// A job of a batch that was told to be cancelled: it is there, and cancelled or not. None while a cancellation may still come through.
fn told_to_cancel(shared: &Shared, unknown: &Unknown, place: &Place, cancelled: bool, age: Duration) -> Option<()> {
    if !cancelled && may_come_late(age) {
        return None;
    }
    shared.owners.learn(&place.job_id, &place.region);
    let now_ms = shared.registry.clock().unix_ms();
    shared.journal.change_found(unknown, |it| {
        it.cancelled = it.cancelled.filter(|_| cancelled);
        it.resolve(State::Landed, now_ms);
    });
    tell(shared, unknown, Resolution::Landed);
    Some(())
}

/// The copy that landed late.
#[derive(Clone, Copy)]
struct Late<'p> {
    place: &'p Place,
    /// How far it has come.
    copy: CopyState,
    /// How many copies were known to have gone before it was looked at.
    gone: u64,
}

/// How far the copy elsewhere has come, and whether its region has said that it has it. None while that is not known.
async fn seen_elsewhere(
    shared: &Shared,
    unknown: &Unknown,
    elsewhere: &Place,
    asked: &mut Asked,
) -> Option<(CopyState, bool)> {
    let answer = ask(shared, Method::GET, elsewhere).await;
    let cancelling = shared.journal.told(elsewhere, unknown).is_some();
    let shown = match answer {
        Told::Copy(_, true) if cancelling => Some(CopyState::Gone),
        Told::Copy(copy, _) => Some(copy),
        Told::No => None,
        Told::Nothing => return None,
    };
    let stored = unknown.elsewhere.is_some() || shown.is_some();
    let lost_there = shared.journal.state_in(elsewhere, unknown.number);
    if !stored && lost_there == Some(State::Pending) {
        return None;
    }
    // A call that broke off without its process proves nothing about where it was going.
    let ended_for = shared.journal.ended_for(unknown.run);
    let counts = shown.is_none() && ended_for.is_some_and(|it| it >= shared.config.failover.late_write_grace);
    asked.noes_elsewhere += u32::from(counts);
    let other = other_copy(Elsewhere {
        copy: shown,
        stored,
        cancelling,
        absent: lost_there == Some(State::Absent),
        trusted: !unknown.private,
        noes: asked.noes_elsewhere,
    })?;
    Some((other, stored))
}

/// A job has landed; where it went elsewhere, too, one of the two copies has to go. None when that must be tried again.
async fn landed(shared: &Shared, unknown: &Unknown, late: Late<'_>, asked: &mut Asked) -> Option<()> {
    let Late { place, copy: late, gone } = late;
    let Some(elsewhere) = unknown.elsewhere.as_ref().or(unknown.going.as_ref()) else {
        shared.owners.learn(&place.job_id, &place.region);
        finish(shared, unknown, State::Landed);
        tell(shared, unknown, Resolution::Landed);
        return Some(());
    };
    let (other, stored) = seen_elsewhere(shared, unknown, elsewhere, asked).await?;
    let told = told_before(shared, unknown, place, elsewhere);
    let mut found = unknown.clone();
    let (cancelled, result) = match remedy(late, other, told) {
        Remedy::None if late == CopyState::Gone => (Some(Cancelled::Late), Resolution::Landed),
        Remedy::None if told == ToldBefore::Other => (Some(Cancelled::Elsewhere), Resolution::Cancelled),
        Remedy::None if stored => (Some(Cancelled::Elsewhere), Resolution::Landed),
        Remedy::None => (None, Resolution::Landed),
        Remedy::CancelLate | Remedy::CancelOther
            if told == ToldBefore::Nobody && may_have_told(shared, unknown, late, elsewhere) =>
        {
            return None;
        }
        Remedy::CancelLate => {
            let tell = Tell { which: Cancelled::Late, stays_for_good: other == CopyState::Completed, gone };
            found = cancel(shared, unknown, tell, place).await?;
            (Some(Cancelled::Late), Resolution::Cancelled)
        }
        Remedy::CancelOther => {
            let tell = Tell { which: Cancelled::Elsewhere, stays_for_good: late == CopyState::Completed, gone };
            found = cancel(shared, unknown, tell, elsewhere).await?;
            (Some(Cancelled::Elsewhere), Resolution::Cancelled)
        }
        Remedy::Wait => return None,
        Remedy::Doubled => {
            finish(shared, unknown, State::Doubled);
            let regions = [place.region.as_str(), elsewhere.region.as_str()];
            event::doubled(&shared.metrics, regions, [&place.job_id, &elsewhere.job_id]);
            return Some(());
        }
    };
    // Both may have the same id: what is asked of it from now on is asked where it lives.
    let stays = if cancelled == Some(Cancelled::Late) { elsewhere } else { place };
    shared.owners.learn(&stays.job_id, &stays.region);
    let now_ms = shared.registry.clock().unix_ms();
    shared.journal.change_found(&found, |it| {
        let going = it.going.take().filter(|_| stored);
        it.elsewhere = it.elsewhere.take().or(going);
        it.cancelled = cancelled;
        it.resolve(State::Landed, now_ms);
    });
    tell(shared, unknown, result);
    Some(())
}

/// Which of the two was told to go before, and may at any time. Several rows may speak of the same two, and each knows what the others
/// have told.
fn told_before(shared: &Shared, unknown: &Unknown, place: &Place, elsewhere: &Place) -> ToldBefore {
    let may_go = |place| shared.journal.told(place, unknown) == Some(State::Pending);
    if may_go(place) {
        ToldBefore::Late
    } else if may_go(elsewhere) {
        ToldBefore::Other
    } else {
        ToldBefore::Nobody
    }
}

/// Whether a process that was killed may have told the copy to go that would stay now, and not have had that on its disk: the late one
/// that is started, or the other one where that is the late one of another row. Where nothing is asked any more, nothing is waited for.
fn may_have_told(shared: &Shared, unknown: &Unknown, late: CopyState, elsewhere: &Place) -> bool {
    let ended_for = shared.journal.ended_for(unknown.run);
    let is_recent = ended_for.is_some_and(|it| it < shared.config.failover.late_write_grace);
    let may_stay = late == CopyState::Started || shared.journal.state_in(elsewhere, unknown.number).is_some();
    is_recent && may_stay && is_asked_about(age_of(shared, unknown))
}

fn age_of(shared: &Shared, unknown: &Unknown) -> Duration {
    Duration::from_millis(shared.registry.clock().unix_ms().saturating_sub(unknown.at_ms))
}

/// Cancels a copy that waits, which is in the journal before it is told: what is under way may come through at any time, and the other
/// copy must then stay. Returns the row as it is then; none when a worker was faster, or nobody answered: what follows then is judged
/// anew.
async fn cancel(shared: &Shared, found: &Unknown, tell: Tell, place: &Place) -> Option<Unknown> {
    let told = shared.journal.tell(found, tell).await?;
    match ask(shared, Method::DELETE, place).await {
        // Cancelled, or gone otherwise.
        Told::Copy(CopyState::Gone, _) | Told::No => Some(told),
        Told::Copy(..) | Told::Nothing => None,
    }
}

/// Asks a region about a copy, on a fresh connection and as ourselves; a region whose breaker is open is left alone.
async fn ask(shared: &Shared, method: Method, place: &Place) -> Told {
    let view = shared.registry.view();
    let Some(index) = view.index_of(place.region.as_str()) else { return Told::Nothing };
    if view.region(index).breaker != BreakerState::Closed {
        return Told::Nothing;
    }
    drop(view);
    let limits = PoolLimits { idle_max: 0, ..pool_limits(&shared.config) };
    let pool = Pool::new(limits, pool_meters(shared.metrics.region(index.get())));
    let bytes_max = shared.config.limits.body_bytes.saturating_add(ANSWER_EXTRA_BYTES);
    let timeout = shared.config.health_check.timeout;
    let region = shared.registry.region(index);
    let Ok((status, body)) = ask_job(region, &pool, method, &place.job_id, bytes_max, timeout).await else {
        return Told::Nothing;
    };
    let (bytes, id) = (body.len(), place.job_id.clone());
    let told = aside(bytes, move || told(status, &body, &id)).await;
    if bytes > LONG_BYTES {
        let pause = Duration::from_micros(bytes as u64) / LONG_BYTES_PER_MICROSECOND;
        shared.registry.clock().sleep(pause.min(timeout)).await;
    }
    told
}

fn told(status: StatusCode, body: &[u8], id: &str) -> Told {
    let shows = |it: &Progress| it.id.eq_ignore_ascii_case(id);
    match (status.as_u16(), progress(body).filter(shows)) {
        (200..=299, Some(it)) => Told::Copy(CopyState::of(&it.state, it.attempt), it.state == "cancelled"),
        (404, _) if is_error_document(body) => Told::No,
        _ => Told::Nothing,
    }
}
