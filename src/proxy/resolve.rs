//! Finding out, within the call, what became of an enqueue that was sent and not answered.
//!
//! The region is asked for the job by its id, on fresh connections: what an old one says may come from before. What cannot be
//! found out is in the journal before the client hears of it, and before the job goes anywhere else.

use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::{Duration, Instant};

use super::Proxy;
use super::aside::aside;
use super::attempt::{Call, RegionAnswer, Tried, attempt_on};
use super::job::Job;
use super::locate::{IDENTIFYING, question};
use super::replay::{digest, tenant_of};
use crate::config::OnUnknown;
use crate::journal::{ID_BYTES_MAX, State, Unknown};
use crate::net::pool::{Pool, PoolLimits};
use crate::ojs::answer::is_error_document;
use crate::ojs::{Class, ErrorDocument, Progress, progress};
use crate::policy::resolve::{Circumstances, Follow, Heard, Lost, Verdict, Word, follow, judge};
use crate::policy::{BreakerState, Pays as _, RegionIndex};
use crate::telemetry::{FailoverReason, Resolution, event};

/// One question takes at most this long, so that a region that hangs is asked again on another connection.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// The part of a call that is kept for asking: a tenth, and no more than one question takes.
const KEPT_PART: u32 = 10;

/// What follows an attempt whose outcome is unknown.
pub(super) enum Followed {
    /// The job is stored; the region's answer shows it.
    Found(RegionAnswer),
    /// On to the next candidate.
    Next(FailoverReason),
    /// To the same region once more.
    Again,
    /// The client's answer.
    Fail(ErrorDocument),
}

/// Until when the region may answer itself: a little is kept of the call's time, to ask what became of the job. With `redirects`
/// half of it, so that there is time for another region.
pub(super) fn answer_until(deadline: Instant, now: Instant, redirects: bool) -> Instant {
    let left = deadline.saturating_duration_since(now);
    let kept = if redirects { left / 2 } else { kept_of(left) };
    deadline.checked_sub(kept).unwrap_or(deadline)
}

/// What is kept for asking of the time that a call has; with less than that of a whole call's, nothing is sent any more.
pub(super) fn kept_of(time: Duration) -> Duration {
    (time / KEPT_PART).min(ASK_TIMEOUT)
}

/// Whether a region's word about a job depends on who asks. Credentials do not travel to a region that has its own.
pub(super) fn is_private(proxy: &Proxy, index: RegionIndex, headers: &HeaderMap) -> bool {
    let [authorization, tenants @ ..] = &IDENTIFYING;
    let has = |name: &http::HeaderName| headers.contains_key(name);
    tenants.iter().any(has) || (has(authorization) && !proxy.region(index).drops_authorization())
}

/// Finds out what became of a job, and decides what follows. What the client is not told is in the journal when this returns.
/// `next` is where the job may go instead.
pub(super) async fn after_unknown(
    proxy: &Proxy,
    job: &mut Job,
    index: RegionIndex,
    tried: &Tried,
    next: Option<RegionIndex>,
) -> Followed {
    let candidates_left = usize::from(next.is_some());
    let region = proxy.region(index).id.clone();
    let redirects = proxy.shared.config.failover.on_unknown == OnUnknown::Redirect
        && job.job_id.is_some()
        && !(job.decision.pinned || job.trail.gone_on_unknown.is_some() || candidates_left == 0);
    let (verdict, answer) = match &job.job_id {
        Some(id) => {
            let inquiry = Inquiry {
                index,
                id,
                headers: &job.call.headers.all(),
                request_id: &job.request_id(),
                lost: tried.lost,
                lost_for: Duration::ZERO,
                until: if redirects { quarter(job.trail.until) } else { job.trail.until },
            };
            inquire(proxy, inquiry).await
        }
        None => (Verdict::Unknown, None),
    };
    let metrics = &proxy.shared.metrics;
    match verdict {
        Verdict::Found => event::outcome_resolved(metrics, Resolution::Found, region.as_str(), job.job_id.as_deref()),
        Verdict::Absent => event::outcome_resolved(metrics, Resolution::Absent, region.as_str(), job.job_id.as_deref()),
        Verdict::AskAt(_) | Verdict::Unknown => {}
    }
    if redirects {
        // The region had half of the time; the next one has what is left.
        job.call.deadline = answer_until(job.trail.until, Instant::now(), false);
    }
    let in_time = Instant::now() < job.call.deadline;
    let circumstances = Circumstances {
        pinned: job.decision.pinned,
        redirects_unknown: redirects,
        candidates_left,
        sent_again: job.trail.sent_again,
        gone_on_unknown: job.trail.gone_on_unknown.is_some(),
    };
    let proved = verdict == Verdict::Absent;
    job.trail.proved = proved.then(|| Box::new(Unknown { proved, ..job.unknown(proxy, index, tried.lost) }));
    match (follow(verdict, circumstances), answer) {
        (Follow::Answer, Some(answer)) => Followed::Found(RegionAnswer { status: StatusCode::CREATED, ..answer }),
        (Follow::Next | Follow::Again, _) if !in_time => fail(proxy, job, index, tried.lost, proved).await,
        (follow @ (Follow::Next | Follow::Again), _) if !pays(proxy, target(follow, index, next)) => match verdict {
            Verdict::Absent => Followed::Fail(ErrorDocument::retry_budget(1)),
            _ => fail(proxy, job, index, tried.lost, false).await,
        },
        (Follow::Next, _) => {
            leave(proxy, job, index, tried.lost);
            Followed::Next(if proved { FailoverReason::Absent } else { FailoverReason::Unknown })
        }
        (Follow::Again, _) => {
            job.trail.sent_again = true;
            if job.mint_again(proxy, index) {
                if let Some(unknown) = job.trail.proved.take() {
                    job.trail.leave(proxy, *unknown);
                }
                remember_id(proxy, job).await;
            }
            Followed::Again
        }
        (Follow::Answer | Follow::Fail, _) => fail(proxy, job, index, tried.lost, proved).await,
    }
}

/// The job leaves a region, where it is absent, or where nobody knows.
fn leave(proxy: &Proxy, job: &mut Job, index: RegionIndex, lost: Lost) {
    let unknown = match job.trail.proved.take() {
        Some(unknown) => *unknown,
        None => {
            tell_unknown(proxy, job, index);
            let unknown = job.unknown(proxy, index, lost);
            job.trail.gone_on_unknown = unknown.sent_to();
            unknown
        }
    };
    job.trail.leave(proxy, unknown);
}

/// A key is remembered with the id that its job has now, before the job is sent with it.
async fn remember_id(proxy: &Proxy, job: &Job) {
    let store = &proxy.shared.journal;
    let Some(keyed) = job.trail.key.and_then(|key| store.keyed(&key)) else { return };
    job.trail.rename(job.job_id.as_deref()).await;
    store.begin_key(crate::journal::Keyed { job_id: job.job_id.clone(), ..keyed }).await;
}

/// A quarter of the time that is left.
fn quarter(until: Instant) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / 4
}

/// Where what follows is sent.
fn target(follow: Follow, index: RegionIndex, next: Option<RegionIndex>) -> RegionIndex {
    next.filter(|_| follow == Follow::Next).unwrap_or(index)
}

fn pays(proxy: &Proxy, to: RegionIndex) -> bool {
    proxy.shared.budgets.toward(to).try_withdraw(proxy.shared.registry.clock().now())
}

fn tell_unknown(proxy: &Proxy, job: &Job, index: RegionIndex) {
    let request_id = job.request_id();
    event::unknown_outcome(proxy.metrics(index), job.job_id.as_deref(), request_id.to_str().unwrap_or_default());
}

/// Journals what is not known, and says so.
async fn fail(proxy: &Proxy, job: &Job, index: RegionIndex, lost: Lost, proved: bool) -> Followed {
    tell_unknown(proxy, job, index);
    let unknown = Unknown { proved, ..job.unknown(proxy, index, lost) };
    proxy.shared.journal.record_unknown(unknown).await;
    Followed::Fail(ErrorDocument::outcome_unknown(proxy.region(index).id.as_str(), job.job_id.as_deref()))
}

/// A job that may be in a region, and how it got lost there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inquiry<'h> {
    pub(super) index: RegionIndex,
    pub(super) id: &'h str,
    /// Of whoever is to be told.
    pub(super) headers: &'h HeaderMap,
    pub(super) request_id: &'h HeaderValue,
    pub(super) lost: Lost,
    /// How long ago.
    pub(super) lost_for: Duration,
    pub(super) until: Instant,
}

/// Asks for a job until it is known what became of it, or cannot be within the time.
pub(super) async fn inquire(proxy: &Proxy, inquiry: Inquiry<'_>) -> (Verdict, Option<RegionAnswer>) {
    let grace = proxy.shared.config.failover.late_write_grace;
    let began = Instant::now();
    let since = || inquiry.lost_for + began.elapsed();
    let until = inquiry.lost_for + inquiry.until.saturating_duration_since(began);
    let mut heard: Vec<Heard> = Vec::new();
    loop {
        let at = match judge(inquiry.lost, &heard, grace, until) {
            Verdict::AskAt(at) => at,
            verdict => return (verdict, None),
        };
        tokio::time::sleep(at.saturating_sub(since())).await;
        let view = proxy.shared.registry.view();
        // Nothing is sent to a region whose breaker is open, and the call would be over before it is closed again.
        if view.region(inquiry.index).breaker != BreakerState::Closed {
            return (Verdict::Unknown, None);
        }
        drop(view);
        let at = since();
        let (word, answer) = ask_fresh(proxy, &inquiry).await;
        if let Some(answer) = answer {
            proxy.shared.owners.learn(inquiry.id, &proxy.region(inquiry.index).id);
            return (Verdict::Found, Some(answer));
        }
        heard.push(Heard { at, word });
    }
}

/// Asks once whether a job that was proved absent has come since: its region's answer where it has.
pub(super) async fn has_come(proxy: &Proxy, inquiry: Inquiry<'_>) -> Option<RegionAnswer> {
    if proxy.shared.registry.view().region(inquiry.index).breaker != BreakerState::Closed {
        return None;
    }
    let (_, answer) = ask_fresh(proxy, &inquiry).await;
    if answer.is_some() {
        proxy.shared.owners.learn(inquiry.id, &proxy.region(inquiry.index).id);
    }
    answer
}

/// Asks once, on a connection of its own.
async fn ask_fresh(proxy: &Proxy, inquiry: &Inquiry<'_>) -> (Word, Option<RegionAnswer>) {
    let deadline = inquiry.until.min(Instant::now() + ASK_TIMEOUT);
    let Some(question) = question(inquiry.request_id, inquiry.headers, inquiry.id, deadline) else {
        return (Word::Silent, None);
    };
    let mut call = Call {
        method: question.method,
        path: question.path,
        headers: question.headers.into(),
        body: question.body.into(),
        deadline,
        class: Class::Job,
        pinned: true,
        guard: question.guard,
        source: None,
        pressing: true,
    };
    let metrics = super::pool_meters(proxy.metrics(inquiry.index));
    let pool = Pool::new(PoolLimits { idle_max: 0, ..super::pool_limits(&proxy.shared.config) }, metrics);
    let started = Instant::now().into_std();
    let (tried, _) = attempt_on(proxy, &pool, inquiry.index, &mut call, started, &[]).await;
    let Some(answer) = tried.answer else { return (Word::Silent, None) };
    match word(&answer, inquiry.id).await {
        Word::Has => (Word::Has, Some(answer)),
        word => (word, None),
    }
}

/// What an answer to the question for a job says.
pub(super) async fn word(answer: &RegionAnswer, id: &str) -> Word {
    let (status, body, id) = (answer.status.as_u16(), answer.body.clone(), id.to_owned());
    let read = move || match status {
        200..=299 if progress(&body).is_some_and(|it: Progress| it.id.eq_ignore_ascii_case(&id)) => Word::Has,
        // A 404 that is no document is a balancer's, or a path that is not served.
        404 if is_error_document(&body) => Word::HasNot,
        _ => Word::Silent,
    };
    aside(answer.body.len(), read).await
}

impl Job {
    /// The record of this job, lost in a region.
    fn unknown(&self, proxy: &Proxy, index: RegionIndex, lost: Lost) -> Unknown {
        let (region, headers) = (proxy.region(index), self.call.headers.all());
        let bounded = |text: &str| (text.len() <= ID_BYTES_MAX).then(|| text.to_owned());
        Unknown {
            number: 0,
            run: 0,
            job_id: self.job_id.as_deref().and_then(bounded),
            known_as: None,
            tenant: tenant_of(&headers),
            body: digest(&self.trail.received.pieces(&self.call.body)),
            region: region.id.clone(),
            federation_id: self.trail.federation_id.as_ref().and_then(|id| bounded(id.to_str().ok()?)),
            request_id: self.request_id().to_str().unwrap_or_default().to_owned(),
            at_ms: proxy.shared.registry.clock().unix_ms(),
            ended: lost == Lost::Ended,
            private: is_private(proxy, index, &headers),
            proved: false,
            state: State::Pending,
            going: None,
            elsewhere: None,
            cancelled: None,
            resolved_ms: None,
        }
    }
}
