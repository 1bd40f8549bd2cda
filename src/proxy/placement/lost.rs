//! The steps within a call after its answer was lost.
//!
//! An unknown outcome is in the journal before the client's answer is sent, and before the job goes to another region.

use http::StatusCode;
use tokio::time::{Duration, Instant};

use super::inquiry::{ASK_TIMEOUT, Found, Inquiry, Resend, inquire};
use super::job::Job;
use super::{sent, trust};
use crate::config::OnUnknown;
use crate::ojs::ErrorDocument;
use crate::outcome::call::{Circumstances, Follow, follow};
use crate::outcome::{Absence, Copy, Fate, Trust};
use crate::policy::{Pays as _, RegionIndex};
use crate::proxy::{
    call::attempt::Tried,
    state::{Proxy, RegionAnswer},
};
use crate::telemetry::{FailoverReason, Resolution, event};

/// The part of a call that is kept for asking: a tenth, and no more than one question takes.
const KEPT_PART: u32 = 10;

/// The next step after an attempt whose answer is lost.
pub(crate) enum Followed {
    /// The region's word is the answer: the job, or why it has no room for it.
    Answer(RegionAnswer),
    /// On to the next candidate.
    Next(FailoverReason),
    /// To the same region once more.
    Again,
    /// The client's answer.
    Fail(ErrorDocument),
}

/// The deadline for the region's own answer: the rest of the call's time is kept for clearing up the outcome. With
/// `redirects` the deadline is at half of the time, so that another region can be tried.
pub(crate) fn answer_until(deadline: Instant, now: Instant, redirects: bool) -> Instant {
    let left = deadline.saturating_duration_since(now);
    let kept = if redirects { left / 2 } else { kept_of(left) };
    deadline.checked_sub(kept).unwrap_or(deadline)
}

/// The time that is kept for clearing up; a call with less time left than that of a whole call is not sent.
pub(crate) fn kept_of(time: Duration) -> Duration {
    (time / KEPT_PART).min(ASK_TIMEOUT)
}

/// Clears up a job's outcome, and decides the next step. An outcome that stays unknown is in the journal when this
/// returns. `next` is the next candidate.
pub(crate) async fn after_lost(
    proxy: &Proxy,
    job: &mut Job,
    index: RegionIndex,
    tried: &Tried,
    next: Option<RegionIndex>,
) -> Followed {
    let region = proxy.region(index).id.clone();
    let unknown = |job: &Job| ErrorDocument::outcome_unknown(region.as_str(), job.job_id.as_deref());
    let redirects = proxy.shared.config.failover.on_unknown == OnUnknown::Redirect
        && !(job.decision.pinned || job.trail.gone_on_unknown || next.is_none());
    let Some((at, copy)) = sent::lost(proxy, job, index, tried.lost) else {
        // A job without an id cannot be looked up, and its copies are indistinguishable.
        log_unknown(proxy, job, index);
        return Followed::Fail(unknown(job));
    };
    let may_leave = next.is_some() || job.trail.minted();
    let found = find_out(proxy, job, copy, redirects, may_leave).await;
    let copy = found.copy.clone();
    let absent = matches!(copy.fate, Fate::Absent { .. });
    let resolution = match copy.fate {
        Fate::Stored { .. } => Some(Resolution::Found),
        Fate::Absent { .. } => Some(Resolution::Absent),
        _ => None,
    };
    if let Some(resolution) = resolution {
        event::outcome_resolved(&proxy.shared.metrics, resolution, region.as_str(), job.job_id.as_deref());
    }
    if let Some(slot) = job.trail.hold.as_mut().and_then(|hold| hold.placement_mut().copies.get_mut(at)) {
        *slot = found.copy;
    }
    if let Some(answer) = found.answer {
        let status = if absent { answer.status } else { StatusCode::CREATED };
        return Followed::Answer(RegionAnswer { status, ..answer });
    }
    if redirects {
        // The first region had half of the time; the next one has the rest.
        job.call.deadline = answer_until(job.trail.until, Instant::now(), false);
    }
    let circumstances = Circumstances {
        redirects_unknown: redirects,
        candidates_left: next.is_some(),
        sent_again: job.trail.sent_again,
        gone_on_unknown: job.trail.gone_on_unknown,
    };
    let in_time = Instant::now() < job.call.deadline;
    let is_fenced = matches!(copy.fate, Fate::Absent { by: Absence::Fenced | Absence::Buried });
    let follow = match follow(&copy, circumstances) {
        _ if !in_time => Follow::Fail,
        // An id of ours is given up for another one.
        Follow::Fail if is_fenced && job.trail.minted() && !job.trail.sent_again => Follow::Again,
        follow => follow,
    };
    let to = next.filter(|_| follow == Follow::Next).unwrap_or(index);
    match follow {
        Follow::Next | Follow::Again if !pays(proxy, to) => {
            if absent {
                return Followed::Fail(ErrorDocument::retry_budget(1));
            }
        }
        Follow::Next => {
            job.trail.gone_on_unknown |= !absent;
            if !absent {
                log_unknown(proxy, job, index);
            }
            return Followed::Next(if absent { FailoverReason::Absent } else { FailoverReason::Unknown });
        }
        Follow::Again => {
            job.trail.sent_again = true;
            if !job.mint_again(proxy, index) {
                job.stamp_again(proxy);
            }
            return Followed::Again;
        }
        Follow::Answer | Follow::Fail => {}
    }
    log_unknown(proxy, job, index);
    Followed::Fail(unknown(job))
}

async fn find_out(proxy: &Proxy, job: &Job, copy: Copy, redirects: bool, may_leave: bool) -> Found {
    let headers = job.call.headers.all();
    let request_id = job.request_id();
    let Some(hold) = &job.trail.hold else { return Found { copy, answer: None } };
    let identity = &hold.placement().identity;
    // The caller of the look-up is the caller of the job.
    let trust = trust(proxy, identity, &copy, &identity.caller);
    debug_assert_eq!(trust, Trust::Believed, "a caller is shown its own job");
    let until = if redirects { quarter(job.trail.until) } else { job.trail.until };
    let inquiry = Inquiry {
        identity,
        headers: &headers,
        request_id: &request_id,
        until,
        repeats: false,
        trust,
        heard: None,
        may_leave,
    };
    let resend =
        Resend { path: job.call.path.clone(), headers: headers.clone().into_owned(), body: job.call.body.clone() };
    inquire(proxy, inquiry, copy, Some(resend)).await
}

/// A quarter of the time that is left.
fn quarter(until: Instant) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / 4
}

fn pays(proxy: &Proxy, to: RegionIndex) -> bool {
    proxy.shared.budgets.toward(to).try_withdraw(proxy.shared.registry.clock().now())
}

fn log_unknown(proxy: &Proxy, job: &Job, index: RegionIndex) {
    let request_id = job.request_id();
    event::unknown_outcome(proxy.metrics(index), job.job_id.as_deref(), request_id.to_str().unwrap_or_default());
}
