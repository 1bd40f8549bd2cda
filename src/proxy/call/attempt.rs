//! One try at one region, with the whole answer in memory: for calls that create jobs.
//!
//! The answer is read to its end before anything is decided, because half an answer proves nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode};

use super::feedback;
use super::headers::CallHeaders;
use super::race::Race;
use crate::base::RegionId;
use crate::net::body::Outgoing;
use crate::net::dial::{DialError, Elsewhere, Endpoint};
use crate::net::headers::{number, strip_answer};
use crate::net::pool::{NotSent, Pool, SendError};
use crate::ojs::header::QUEUE_STATUS;
use crate::ojs::{Class, ErrorDocument, Segments, answer, segments_len};
use crate::outcome::Lost;
use crate::policy::{
    Answer, CallPermit, Ending, GuardClass, Limit, RegionIndex, Shed, classify_enqueue, is_turned_away,
};
use crate::proxy::{
    body::collect::{CollectError, OVERLOADED_RETRY_AFTER, collect_answer},
    state::{Proxy, RegionAnswer, Waiting},
};
use crate::telemetry::span::in_span;
use crate::telemetry::{AttemptOutcome, FailoverReason, Held, event};

/// An answer may echo the job and add to it: this much more than a request body may hold.
const ANSWER_EXTRA_BYTES: usize = 1024 * 1024;

/// A request, the same for every region that it is tried at.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: CallHeaders,
    pub(crate) body: Segments,
    pub(crate) deadline: tokio::time::Instant,
    pub(crate) class: Class,
    pub(crate) pinned: bool,
    /// The class by which a region's guards count it.
    pub(crate) guard: GuardClass,
    /// The job type or path that may cause a 500, as [`super::feedback::source`] has it.
    pub(crate) source: Option<u64>,
    /// The call is about a job that the region leased, or undoes something: limits of concurrency let it through.
    pub(crate) pressing: bool,
}

impl Call {
    /// The headers for one try, with the length of the body. `is_plain`: the answer is to be read by us.
    fn headers_to_send(&mut self, is_plain: bool) -> HeaderMap {
        let mut headers = self.headers.for_one_try();
        if is_plain {
            headers.remove(ACCEPT_ENCODING);
        }
        let bytes: usize = self.body.iter().map(Bytes::len).sum();
        if bytes > 0 {
            headers.insert(CONTENT_LENGTH, number(bytes as u64));
        }
        headers
    }
}

/// How a try ended.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) ending: Ending,
    /// The region's own word, where there is one.
    pub(crate) answer: Option<RegionAnswer>,
    /// Why another region may be next.
    pub(crate) reason: FailoverReason,
    /// How it was lost, where the outcome is unknown.
    pub(crate) lost: Lost,
    /// The limit that was reached, where nothing was tried because of it.
    pub(crate) shed: Option<Shed>,
    /// Whether it was not sent because another region was connected first, which says little of this one.
    pub(crate) passed_over: bool,
    /// Whether a read's answer was not taken in because too much of others is in memory: no fault of the region.
    pub(crate) crowded_out: bool,
}

/// The answer to a call that a limit has refused, at this region.
pub(crate) fn shed_document(shed: Shed, region: &RegionId) -> ErrorDocument {
    match shed {
        Shed::Fleet => ErrorDocument::fleet_limit(region.as_str(), OVERLOADED_RETRY_AFTER),
        Shed::Throttle => ErrorDocument::throttled(region.as_str(), OVERLOADED_RETRY_AFTER),
        Shed::Region | Shed::Total | Shed::Sockets => ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER),
    }
}

/// When a try ended, and how long it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
}

/// Tries one region within its limit of concurrency, reports to its breaker and guards, and counts. `started` is now.
/// `others` may take the call where the connection to this region is not made in time.
pub(crate) async fn attempt(
    proxy: &Proxy,
    index: RegionIndex,
    call: &mut Call,
    started: Instant,
    others: &[RegionIndex],
) -> (Tried, Ended) {
    let class = if call.pressing { GuardClass::Ack } else { call.guard };
    let permit = match proxy.shared.concurrency.acquire(index, class, started) {
        Ok(permit) => permit,
        Err(shed) => {
            let ended = Ended { at: started, took: Duration::ZERO };
            return (Tried { shed: Some(shed), ..Tried::not_sent(FailoverReason::Overloaded) }, ended);
        }
    };
    let (tried, ended) = attempt_on(proxy, proxy.pool(index), index, call, started, others).await;
    release(permit, call, ended, &tried);
    let untold = tried.crowded_out || tried.passed_over || tried.shed.is_some();
    if !untold && !was_held(proxy, call, ended, &tried) {
        let answer = tried.answer.as_ref().map(|answer| (answer.status, &answer.headers));
        if answer.is_none() {
            feedback::unanswered(proxy, index, tried.unanswered());
        }
        feedback::report(proxy, index, call.guard, answer, || call.source);
    }
    (tried, ended)
}

/// Whether a region has held a FETCH back to its end, and had longer for it than for other calls: it waits for jobs, and other calls and
/// probes show whether it answers.
fn was_held(proxy: &Proxy, call: &Call, ended: Ended, tried: &Tried) -> bool {
    call.guard == GuardClass::Fetch
        && tried.ending == Ending::NoAnswer
        && tokio::time::Instant::from_std(ended.at) >= call.deadline
        && ended.took >= proxy.shared.config.limits.call_timeout
}

/// Releases a call's place in the limit, with its duration where that is a sample of the region's latency.
fn release(permit: CallPermit<&Limit>, call: &Call, ended: Ended, tried: &Tried) {
    if !is_even(call) || tried.ending == Ending::NotSent {
        return;
    }
    permit.done(ended.at, tried.answer.as_ref().map(|_| ended.took));
}

/// Whether such calls take about the same time, so that the time says something of the region.
fn is_even(call: &Call) -> bool {
    match call.guard {
        GuardClass::Enqueue => !call.headers.may_block(),
        GuardClass::Ack | GuardClass::Nack | GuardClass::Heartbeat => true,
        GuardClass::Fetch | GuardClass::Read | GuardClass::Admin => false,
    }
}

/// The same on connections of this pool, without a report to breaker and guards: questions about a failed call must not
/// make its failure look forgiven. `started` is now.
pub(crate) async fn attempt_on(
    proxy: &Proxy,
    pool: &Pool,
    index: RegionIndex,
    call: &mut Call,
    started: Instant,
    others: &[RegionIndex],
) -> (Tried, Ended) {
    let metrics = proxy.metrics(index);
    let (tried, ended) = {
        let _in_flight = Held::one(&metrics.in_flight);
        in_span!("attempt", region = proxy.region(index).id.as_str(); exchange(proxy, pool, index, call, started, others))
    };
    let at = ended.unwrap_or_else(Instant::now);
    let took = at.saturating_duration_since(started);
    let outcome = AttemptOutcome::from(tried.ending.outcome());
    metrics.attempts[call.class.index()][outcome].inc();
    if outcome == AttemptOutcome::Answered {
        metrics.request_duration[call.class.index()].observe(took.as_secs_f64());
    }
    (tried, Ended { at, took })
}

/// Sends the call and reads the answer. The moment is that of the answer's end, where it was taken there.
async fn exchange(
    proxy: &Proxy,
    pool: &Pool,
    index: RegionIndex,
    call: &mut Call,
    started: Instant,
    others: &[RegionIndex],
) -> (Tried, Option<Instant>) {
    let region = proxy.region(index);
    if region.drops_authorization() && call.headers.has(&http::header::AUTHORIZATION) {
        event::dropped_authorization(proxy.metrics(index));
    }
    let body = Outgoing::pieces(&call.body);
    let left = call.deadline.into_std().saturating_duration_since(started);
    let reach = region.reach(proxy.connect_timeout().min(left / 2)).await;
    let headers = call.headers_to_send(proxy.shared.shards.is_some());
    let mut request = reach.request(call.method.clone(), &call.path, headers, body);
    if request.is_none() {
        return (Tried::not_sent(FailoverReason::Connect), None);
    }
    let race = Race { proxy, from: index, others };
    let elsewhere: Option<&dyn Elsewhere> = if others.is_empty() { None } else { Some(&race) };
    let endpoint = Endpoint { elsewhere, ..reach.endpoint(proxy.connect_timeout()) };
    let waiting = is_even(call).then(|| proxy.watched(index).begin(&proxy.shared.registry, proxy.pool(index), index));
    let response = match pool.send(&endpoint, &mut request, started, Some(call.deadline)).await {
        Ok(response) => response,
        Err(SendError::NotSent(why)) => {
            let shed = why.is_own().then_some(Shed::Sockets);
            let passed_over = matches!(why, NotSent::PassedOver);
            return (Tried { shed, passed_over, ..Tried::not_sent(reason(&why)) }, None);
        }
        Err(SendError::Unknown(error)) => return (Tried::no_answer(lost(&error)), None),
        // The connection ended with it.
        Err(SendError::Broken(_)) => return (Tried::no_answer(Lost::Ended), None),
        Err(SendError::TimedOut) => return (Tried::no_answer(Lost::TimedOut), None),
    };
    waiting.iter().for_each(Waiting::answered);
    drop(waiting);
    let (parts, mut body) = response.into_parts();
    let bytes_max = proxy.shared.config.limits.body_bytes.saturating_add(ANSWER_EXTRA_BYTES);
    let buffered = &proxy.shared.buffered;
    // A read can be repeated; the outcome of a change must be reported to the client.
    let is_read = call.method == Method::GET;
    let limits = &proxy.shared.config.limits;
    let due = segments_len(&call.body).saturating_mul(2).saturating_add(ANSWER_EXTRA_BYTES);
    let share = match call.guard {
        _ if is_read => buffered.read(limits, bytes_max),
        // It shows the job, perhaps in other words.
        GuardClass::Enqueue => buffered.answer_to(limits.buffered_bytes / 2, due),
        _ => buffered.answer(),
    };
    let whole = match collect_answer(&mut body, bytes_max, call.deadline, share).await {
        Ok(whole) => whole.hold(),
        Err(CollectError::Overloaded) => {
            return (Tried { crowded_out: is_read, ..Tried::no_answer(Lost::Ended) }, None);
        }
        Err(CollectError::Timeout) => return (Tried::no_answer(Lost::TimedOut), None),
        Err(_) => return (Tried::no_answer(Lost::Ended), None),
    };
    let ended = body.ended();
    let mut headers = parts.headers;
    let unavailable = parts.status == StatusCode::SERVICE_UNAVAILABLE;
    // Either is looked for where it means something.
    let queue_status = unavailable && headers.contains_key(QUEUE_STATUS);
    let is_document = unavailable && answer::is_error_document(&whole);
    strip_answer(&call.method, parts.status, &mut headers);
    let meaning = classify_enqueue(parts.status.as_u16(), is_document, queue_status, call.pinned);
    let turned_away = call.guard == GuardClass::Enqueue && is_turned_away(parts.status.as_u16());
    let tried = Tried {
        ending: if turned_away { Ending::NotSent } else { Ending::Answered(meaning) },
        answer: Some(renamed(proxy, call, RegionAnswer { status: parts.status, headers, body: whole })),
        reason: FailoverReason::Unavailable,
        shed: None,
        // An answer in the region's place is no end: a balancer that has given up has not stopped the region.
        lost: Lost::TimedOut,
        passed_over: false,
        crowded_out: false,
    };
    (tried, ended)
}

/// The answer with the queues' own names; the jobs of a FETCH are counted by their shards first.
#[inline]
fn renamed(proxy: &Proxy, call: &Call, mut answer: RegionAnswer) -> RegionAnswer {
    if let Some(shards) = proxy.shared.shards.as_deref().filter(|_| call.guard != GuardClass::Fetch) {
        answer.rename(shards, |_, _| {});
    }
    answer
}

/// Whether the connection ended by the word of the other side, or only because nothing more was heard.
fn lost(error: &hyper::Error) -> Lost {
    use std::io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        let silent = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout)
            || cause.downcast_ref::<std::io::Error>().is_some_and(|error| {
                matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown)
            });
        if silent {
            return Lost::TimedOut;
        }
        source = cause.source();
    }
    Lost::Ended
}

impl Tried {
    const fn not_sent(reason: FailoverReason) -> Self {
        Self {
            ending: Ending::NotSent,
            answer: None,
            reason,
            lost: Lost::Ended,
            shed: None,
            passed_over: false,
            crowded_out: false,
        }
    }

    const fn no_answer(lost: Lost) -> Self {
        Self {
            ending: Ending::NoAnswer,
            answer: None,
            reason: FailoverReason::Unavailable,
            lost,
            shed: None,
            passed_over: false,
            crowded_out: false,
        }
    }

    /// The closed word for why there is no answer.
    const fn unanswered(&self) -> &'static str {
        match (self.ending, self.lost) {
            (Ending::NotSent, _) => self.reason.as_str(),
            (_, Lost::TimedOut) => feedback::TIMEOUT,
            (_, Lost::Ended) => feedback::BROKEN,
        }
    }

    /// Whether the answer is the region's own word for "stored".
    pub(crate) fn is_stored(&self) -> bool {
        self.ending == Ending::Answered(Answer::Pass)
            && self.answer.as_ref().is_some_and(|answer| answer.status.is_success())
    }
}

/// The closed word for why a request was not sent.
pub(crate) const fn reason(why: &NotSent) -> FailoverReason {
    match why {
        NotSent::Dial(error) => of_dial(error),
        NotSent::PassedOver => FailoverReason::Silent,
        NotSent::Closed => FailoverReason::Closed,
        NotSent::RefusedStream => FailoverReason::RefusedStream,
    }
}

/// The closed word for why no connection came about.
pub(crate) const fn of_dial(error: &DialError) -> FailoverReason {
    match error {
        DialError::NoAddress => FailoverReason::Dns,
        DialError::Connect(_) => FailoverReason::Connect,
        DialError::Tls(_) => FailoverReason::Tls,
        DialError::Timeout => FailoverReason::Timeout,
        DialError::Own(_) | DialError::Crowded => FailoverReason::Overloaded,
    }
}
