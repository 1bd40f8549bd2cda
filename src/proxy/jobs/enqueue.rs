//! `POST /ojs/v1/jobs`: read, decide, stamp, attempt the candidates in order.
//!
//! Spec: federation-spec §3, RFC-0001 §4.

use std::time::{Duration, Instant};

use crate::net::IncomingBody;
use http::{HeaderValue, Request, Response};

use super::long::{compressed_job, plan_asked, plan_long};
use super::onward::onward;
use super::replay::{Recognised, Turns, is_named, is_volatile, recognise};
use super::replicate::report_stored;
use super::{drilled, outage, repeated};
use crate::base::{RegionId, apart};
use crate::config::OnUnknown;
use crate::journal::Note;
use crate::ojs::{Abridged, ErrorDocument};
use crate::policy::{Decision, GuardClass, RegionIndex, Shed, Step, Stop};
use crate::proxy::{
    body::{
        collect::{OVERLOADED_RETRY_AFTER, collect_job},
        encoding::Encoding,
        received::Reading,
        shown_job::Expected,
    },
    call::{
        ask::{HUB_RETRY_AFTER, shut_for},
        attempt::{Call, Ended, Tried, attempt, shed_document},
        exchange::Exchange,
        failover,
        head::{Head, in_parts, tenant_of, unboxed},
    },
    locate::find::unsure,
    placement::{
        self, Followed, after_lost, answer_until, believe, job::Job, keep_from_fences, send_history::SendHistory,
    },
    routing::{
        asked::AskedHub,
        plan::{Planned, breaker_word, plan},
        quota::Admitted,
    },
    state::{OwnTracking, Proxy, Ran, RegionAnswer, Reply, Spooling},
};
use crate::region::Queue;
use crate::replica::Outline;
use crate::telemetry::AttemptOutcome;

/// `Retry-After` where no better time is known. Units: seconds.
const RETRY_AFTER_MIN: u64 = 1;

/// Answers an enqueue.
///
/// Errors: the error document for the client; its outcome is in the exchange.
pub(crate) async fn enqueue(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Box<Request<IncomingBody>>,
) -> Result<Response<Reply>, ErrorDocument> {
    // The job last, which is dropped first: the rows that it holds are let go before its name is, for which a repetition may be waiting.
    let New { started, shared_queue, turns, outline, own_tracking, spooling, quota, mut job } =
        match new_job(proxy, exchange, request).await {
            Ok(new) => new,
            Err(NotNew::Known(answer)) => return Ok((*answer).into()),
            Err(NotNew::Refused(document)) => return Err(document),
        };
    let strategy = job.decision.strategy;
    quota.iter().for_each(|quota| quota.sent());
    let mut ran = if let Some(own) = own_tracking {
        apart(|| unless_repeated(proxy, &mut job, own, spooling.as_deref())).await
    } else if let Some(spooling) = spooling.as_deref().filter(|it| it.is_for_later()) {
        apart(|| outage::not_tried(proxy, &mut job, spooling)).await
    } else {
        run(proxy, &mut job, started).await
    };
    if let Some(spooling) = spooling.filter(|spooling| outage::is_outage(spooling, &ran)) {
        apart(|| outage::spool(proxy, &mut job, *spooling, &mut ran)).await;
    }
    quota.iter().for_each(|quota| quota.ended(&ran));
    drilled::count(proxy, &job, &ran);
    note_ids(job.note.as_deref_mut(), job.job_id.as_deref(), job.trail.federation_id.as_ref());
    exchange.note = job.note.take();
    // Only of a job that is sent: a repetition has the tracking id of the first one.
    exchange.federation_id = job.trail.federation_id.take();
    exchange.volatile = job.trail.volatile;
    if let Some(index) = ran.stored {
        proxy.metrics(index).stored(strategy, 1);
        proxy.shared.traffic.sent(index, shared_queue.as_ref());
        if let (Some(outline), Ok(answer)) = (outline, &ran.result) {
            report_stored(proxy, &mut job, outline, exchange.federation_id.as_ref(), (index, answer));
        }
    }
    if let Some(turns) = turns {
        turns.end(&ran);
    }
    note(exchange, &mut ran);
    ran.result.map(Into::into)
}

/// Sends a job with the client's own tracking id, unless the index knows that as a job that is there.
async fn unless_repeated(proxy: &Proxy, job: &mut Job, own: Box<OwnTracking>, spooling: Option<&Spooling>) -> Ran {
    match (repeated::refusal(proxy, job, &own).await, spooling.filter(|it| it.is_for_later())) {
        (Some(document), _) => outage::refused(proxy, job, *document).await,
        (None, Some(spooling)) => outage::not_tried(proxy, job, spooling).await,
        (None, None) => run(proxy, job, Instant::now()).await,
    }
}

/// A job that is to be sent.
struct New {
    /// Boxed, because it is handed on, and copied each time.
    job: Box<Job>,
    turns: Option<Box<Turns>>,
    shared_queue: Option<Queue>,
    outline: Option<Outline>,
    own_tracking: Option<Box<OwnTracking>>,
    spooling: Option<Box<Spooling>>,
    quota: Option<Box<Admitted>>,
    started: Instant,
}

/// Why there is no job to send.
enum NotNew {
    /// It was sent before, and this is its answer.
    Known(Box<RegionAnswer>),
    Refused(ErrorDocument),
}

impl From<ErrorDocument> for NotNew {
    fn from(document: ErrorDocument) -> Self {
        Self::Refused(document)
    }
}

async fn new_job(proxy: &Proxy, exchange: &mut Exchange, request: Box<Request<IncomingBody>>) -> Result<New, NotNew> {
    exchange.attempts = Some(0);
    let (head, body, until, encoding) = in_parts(proxy, exchange, unboxed(request))?;
    let tenant = tenant_of(exchange, &head.headers)?;
    let mut reading = match encoding {
        Encoding::Plain => collect_job(proxy, body, until).await?,
        Encoding::Gzip => apart(|| compressed_job(proxy, body, until)).await?,
    };
    let mut planned = planned(proxy, exchange, &mut reading, tenant).await?;
    let (mut spooling, mut quota) = (planned.spooling.take(), planned.quota.take());
    let Planned { mut decision, mut body, cuts, job_id, ours, federation_id, .. } = planned;
    let own_id = job_id.as_deref().filter(|_| !ours.minted);
    if let Some(spooling) = &mut spooling {
        let named = (job_id.as_deref(), own_id.is_some());
        if let Some(answer) = apart(|| outage::admit(proxy, exchange, spooling, &head, &reading, named)).await? {
            return Err(NotNew::Known(Box::new(answer)));
        }
    }
    let is_named = is_named(exchange, own_id);
    if is_named {
        // The record of an earlier call may answer this one.
        note_ids(exchange.note.as_deref_mut(), job_id.as_deref(), federation_id.as_ref());
    }
    if is_named || quota.as_deref().is_some_and(Admitted::is_delayed) {
        reading = reading.held(&mut body, cuts.as_ref());
    }
    let sent = placement::Planned { body: &body, job_id: job_id.as_deref(), federation_id: federation_id.as_ref() };
    let mut turns = turns_of(proxy, exchange, &head, reading.body(), own_id, sent).await?;
    quota.as_deref_mut().map_or(Ok(()), Admitted::check)?;
    let hold = turns.as_deref_mut().and_then(Turns::hold);
    if let Some(placement) =
        hold.as_deref().map(crate::journal::Hold::placement).filter(|_| !decision.candidates.is_empty())
    {
        keep_from_fences(proxy, &mut decision, placement, job_id.as_deref()).map_err(NotNew::from)?;
    }
    let hint = decision.target().filter(|_| ours.hinted);
    let received = reading.end(&mut body, cuts);
    let started = Instant::now();
    let deadline = answer_until(head.deadline, started.into(), may_redirect(proxy, &decision));
    // The room is there before the job, which is then made in it instead of elsewhere and copied.
    let place = Box::new_uninit();
    let job = Box::write(
        place,
        Job {
            call: Call {
                method: http::Method::POST,
                path: head.path,
                headers: head.headers.into(),
                body,
                deadline,
                class: exchange.matched.class,
                pinned: decision.pinned,
                guard: GuardClass::Enqueue,
                source: Some(planned.source),
                pressing: false,
            },
            decision,
            job_id,
            hint,
            trail: SendHistory {
                received,
                stamped: ours.stamped,
                expected: Expected::Job { minted: ours.minted, unique: ours.unique },
                hold,
                ..SendHistory::new(head.deadline, federation_id)
            },
            note: exchange.note.take(),
        },
    );
    let (shared_queue, outline, own_tracking) = (planned.shared_queue, planned.outline, planned.own_tracking);
    Ok(New { job, turns, shared_queue, outline, own_tracking, spooling, quota, started })
}

/// The plan of a job; a short one is planned at once, unless the hub is to be asked.
#[inline]
async fn planned(
    proxy: &Proxy,
    exchange: &mut Exchange,
    reading: &mut Reading,
    tenant: Option<String>,
) -> Result<Planned, ErrorDocument> {
    if !reading.is_short() {
        return apart(|| plan_long(proxy, exchange, reading, tenant)).await;
    }
    let mut asked = AskedHub::of_call(is_named(exchange, None));
    let (strategy, note) = (&mut exchange.strategy, &mut exchange.note);
    let planned = plan(proxy, reading.body().text(), tenant.as_deref(), &mut asked, strategy, note);
    if asked.is_wanting() { apart(|| plan_asked(proxy, exchange, reading, tenant, asked)).await } else { planned }
}

/// The turns of an enqueue that is new, as far as the records say; none where it has no name by which it could be repeated.
async fn turns_of(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    body: Abridged<'_>,
    own_id: Option<&str>,
    sent: placement::Planned<'_>,
) -> Result<Option<Box<Turns>>, NotNew> {
    match recognise(proxy, exchange, head, body, own_id, sent).await {
        Ok(Recognised::New(turns)) => Ok(turns),
        Ok(Recognised::Answer(answer, region)) => {
            exchange.region = region;
            exchange.volatile = is_volatile(proxy, exchange);
            Err(NotNew::Known(Box::new(answer)))
        }
        Err(document) => Err(unsure(proxy, exchange, &document).into()),
    }
}

/// Notes under which ids a job goes out.
fn note_ids(note: Option<&mut Note>, job_id: Option<&str>, federation_id: Option<&HeaderValue>) {
    let Some(note) = note else { return };
    note.job_id.set(job_id.unwrap_or_default().as_bytes());
    note.federation_id.set(federation_id.map_or(&[], HeaderValue::as_bytes));
}

/// Records the outcome of a creating call in the exchange, and takes the call's regions from `ran`.
pub(crate) fn note(exchange: &mut Exchange, ran: &mut Ran) {
    exchange.region = ran.region.take();
    exchange.moved_from = ran.moved_from.take();
    exchange.attempts = Some(ran.attempts);
    exchange.outcome = ran.outcome;
    exchange.upstream = ran.upstream;
}

/// Whether an unknown outcome may lead to another region.
fn may_redirect(proxy: &Proxy, decision: &Decision) -> bool {
    let redirects = proxy.shared.config.failover.on_unknown == OnUnknown::Redirect;
    redirects && !decision.pinned && decision.candidates.len() > 1
}

/// Attempts the candidates in order until the rules say stop. Bounded by the number of candidates and by the deadline. `started` is now.
pub(crate) async fn run(proxy: &Proxy, job: &mut Job, started: Instant) -> Ran {
    let moved_from = moved_from(proxy, job);
    if let Some(target) = job.decision.target() {
        proxy.shared.budgets.deposit(target);
    }
    let (mut tries, mut attempts, mut passed_over, mut place, mut stored, mut ended) = (0_usize, 0, 0, 0, None, None);
    let (result, outcome, region) = loop {
        let Some(&index) = job.decision.candidates.get(place) else {
            break (Err(ErrorDocument::no_healthy_region(RETRY_AFTER_MIN)), None, None);
        };
        if let Err(document) = placement::sending(proxy, job, index).await {
            break (Err(document), None, None);
        }
        let now = if tries == 0 { started } else { Instant::now() };
        let (mut tried, end) = attempt(proxy, index, &mut job.call, now, others(&job.decision, place)).await;
        believe(job, &mut tried);
        placement::tried(job, &tried);
        tries += 1;
        passed_over += usize::from(tried.passed_over);
        attempts += u32::from(tried.shed.is_none());
        if tried.shed == Some(Shed::Total) {
            break (Err(ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER)), None, None);
        }
        // A region that lost the race was not tried.
        let redirects_done = (tries - 1).saturating_sub(passed_over);
        let late = end.at >= job.call.deadline.into_std();
        let (step, next_place) = onward(proxy, &job.decision, &tried, place, (redirects_done, late));
        let to = next_place.and_then(|next| job.decision.candidates.get(next)).copied();
        let outcome = AttemptOutcome::from(tried.ending.outcome());
        job.note_try(index, outcome, &tried, end);
        let region = (index, proxy.region(index).id.clone());
        let reason = match step {
            Step::Next { .. } => tried.reason,
            Step::Stop(Stop::OutcomeUnknown) => match apart(|| after_lost(proxy, job, index, &tried, to)).await {
                Followed::Next(reason) => reason,
                Followed::Again => continue,
                Followed::Answer(answer) => {
                    job.note_found();
                    stored = Some(index).filter(|_| answer.status.is_success());
                    break (Ok(answer), Some(outcome), Some(region));
                }
                Followed::Fail(document) => break (Err(document), Some(outcome), Some(region)),
            },
            Step::Stop(stop) => {
                (stored, ended) = (tried.is_stored().then_some(index), Some(end));
                break (settle(proxy, job, index, stop, tried), Some(outcome), Some(region));
            }
        };
        let Some(to) = to else { continue };
        failover::record(proxy, index, to, reason);
        job.note_move(index, Some(to), reason);
        proxy.metrics(to).redirects.inc();
        place = next_place.unwrap_or(place + 1);
        job.hint_at(proxy, to);
    };
    let last = region.as_ref().map(|(index, _)| *index);
    let was_unknown = matches!(&result, Err(document) if document.is_outcome_unknown());
    let result =
        if job.trail.hold.is_some() { apart(|| placement::ended(proxy, job, last, result)).await } else { result };
    let left = result.as_ref().err().filter(|document| document.is_outcome_unknown() && !was_unknown);
    // Not the last region decides, but one that was left on the way.
    let (outcome, region) = left.map_or((outcome, region.map(|(_, id)| id)), unknown_in);
    let upstream = upstream(ended, tries, started);
    Ran { result, stored, region, moved_from, attempts, outcome, upstream }
}

/// The outcome and the region of a call that ended with `outcome_unknown`.
fn unknown_in(document: &ErrorDocument) -> (Option<AttemptOutcome>, Option<RegionId>) {
    (Some(AttemptOutcome::Unknown), document.region().cloned())
}

/// The time spent waiting for regions: of one try as long as it took, of several until the last one ended.
fn upstream(ended: Option<Ended>, tries: usize, started: Instant) -> Duration {
    match ended {
        Some(ended) if tries == 1 => ended.took,
        ended => ended.map_or_else(Instant::now, |ended| ended.at).saturating_duration_since(started),
    }
}

/// The candidates that may take a job which one at this place is not connected for in time.
fn others(decision: &Decision, place: usize) -> &[RegionIndex] {
    if decision.pinned { &[] } else { &decision.candidates[place + 1..] }
}

/// The region that the job left before its first try, because of that region's state.
fn moved_from(proxy: &Proxy, job: &mut Job) -> Option<RegionId> {
    let (home, reason) = failover::before_first_try(proxy, &job.decision)?;
    job.note_move(home, job.decision.target(), reason);
    Some(proxy.region(home).id.clone())
}

/// Turns the end of the last attempt into the client's answer.
fn settle(
    proxy: &Proxy,
    job: &Job,
    index: RegionIndex,
    stop: Stop,
    tried: Tried,
) -> Result<RegionAnswer, ErrorDocument> {
    let id = &proxy.region(index).id;
    if let Some(shed) = tried.shed {
        return Err(shed_document(shed, id));
    }
    match (stop, tried.answer) {
        (Stop::Answered | Stop::RetryBudget { answered: true }, Some(answer)) => {
            job.learn(proxy, index, &answer);
            Ok(answer)
        }
        // Unreachable: an unknown outcome is handled above, and an answered call has its answer.
        (Stop::OutcomeUnknown | Stop::Answered | Stop::RetryBudget { answered: true }, _) => {
            Err(ErrorDocument::outcome_unknown(id.as_str(), job.job_id.as_deref()))
        }
        (Stop::RetryBudget { answered: false }, _) => Err(ErrorDocument::retry_budget(RETRY_AFTER_MIN)),
        (Stop::NoCandidateLeft, _) => {
            let registry = &proxy.shared.registry;
            let view = registry.view();
            if job.decision.restricted {
                job.decision.candidates.iter().for_each(|index| registry.lacked(*index));
            } else {
                view.indexes().for_each(|index| registry.lacked(index));
            }
            let wait = shut_for(proxy, view.region(index), Some(job.call.guard)).unwrap_or(RETRY_AFTER_MIN);
            Err(match job.decision.pinned {
                true => ErrorDocument::region_unavailable(id.as_str(), breaker_word(&view, id), wait),
                // With its hub there were other regions.
                false if !job.decision.restricted && view.is_cut_off() => {
                    ErrorDocument::hub_lost(None, HUB_RETRY_AFTER)
                }
                false => ErrorDocument::no_healthy_region(wait),
            })
        }
    }
}
