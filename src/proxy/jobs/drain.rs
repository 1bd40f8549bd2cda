//! The drain of the outage spool: its jobs to their regions, in the order of each lane.
//!
//! A job goes through the same plan, attempts and machine as the repetition of its enqueue under its own id. Its row records each send before
//! the first byte leaves; a job with a recorded send is looked up before it is sent again.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::enqueue::run;
use super::replicate::report_stored;
use crate::base::Reason;
use crate::journal::Hold;
use crate::ojs::header::{REQUEST_ID, TENANT, TENANT_ID};
use crate::ojs::{Class, ErrorDocument, Segments, answer::is_error_document};
use crate::outcome::{Copy, Event, Fate, Identity, Lost, Place};
use crate::policy::{BreakerState, GuardClass};
use crate::proxy::{
    body::{received::Received, shown_job::Expected},
    call::{attempt::Call, head::Head},
    placement::{
        self, Caller, Heard, Known, Looked, Names, Purpose, identity, job::Job, keep_from_fences, rules,
        send_history::SendHistory,
    },
    routing::{
        asked::AskedHub,
        plan::{Planned, plan},
        quota::has_token,
    },
    state::{Proxy, Ran, proxies::Proxies},
};
use crate::spool::{Content, RowState, Spool, Taken, Unloaded};

/// Jobs on their way at once, each of another lane: enough that a region across an ocean gets hundreds a second, and few enough that a region
/// that is just back is not flooded.
const LANES_MAX: usize = 8;

/// Sends spooled jobs for ever.
pub async fn drain(proxies: Rc<Proxies>, spool: Arc<Spool>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < LANES_MAX
            && let Some(taken) = spool.take()
        {
            under_way.push(go_on(proxies.current(), taken));
        }
        tokio::select! {
            Some(()) = under_way.next() => {}
            () = spool.due(), if under_way.len() < LANES_MAX => {}
        }
    }
}

/// The end of one turn of a job.
enum Turn {
    /// A region has it.
    Stored,
    /// Nothing will change by itself, for this reason.
    Aside(RowState, String),
    /// Another turn, after a pause.
    Later,
}

/// A job at the end of its turn.
type Ended = (Turn, Option<Box<Taken>>);

async fn go_on(proxy: Rc<Proxy>, taken: Taken) {
    // Nothing of it has left, and nothing will.
    if taken.copies.is_empty() && taken.is_too_old() {
        return taken.set_aside(RowState::Expired, "max_age".to_owned()).await;
    }
    let content = match taken.load().await {
        Ok(content) => content,
        Err(Unloaded::ForGood | Unloaded::NotNow) => return,
    };
    let (turn, taken) = turn(&proxy, Box::new(taken), content).await;
    let Some(mut taken) = taken else { return };
    if let Turn::Later | Turn::Aside(..) = turn {
        // A try that has ended without a copy needs no look-up after a restart.
        taken.record_changes().await;
    }
    match turn {
        Turn::Stored => taken.done().await,
        Turn::Aside(state, reason) => taken.set_aside(state, reason).await,
        Turn::Later => {}
    }
}

async fn turn(proxy: &Proxy, mut taken: Box<Taken>, content: Content) -> Ended {
    let is_old = taken.is_too_old();
    let deadline = tokio::time::Instant::now() + proxy.shared.config.limits.call_timeout;
    let head = Head { path: content.path, headers: content.headers, deadline };
    let hold = match look(proxy, &mut taken, &head, &content.body, is_old).await {
        Ok(hold) => hold,
        Err(Turn::Later) if is_old => {
            return (Turn::Aside(RowState::Expired, "outcome_unknown".to_owned()), Some(taken));
        }
        Err(turn) => return (turn, Some(taken)),
    };
    if is_old {
        hold.leave();
        return (Turn::Aside(RowState::Expired, "max_age".to_owned()), Some(taken));
    }
    // Each of its tries was refused, and no region has it now.
    if taken.failures.are_final(proxy.shared.registry.clock().now()) {
        hold.leave();
        return (Turn::Aside(RowState::Refused, "region_fails".to_owned()), Some(taken));
    }
    if !has_token(proxy, &content.body, tenant(&head.headers).as_deref()) {
        hold.leave();
        return (Turn::Later, Some(taken));
    }
    send(proxy, taken, head, content.body, hold).await
}

/// The placement of the job, for a further send; the region of an earlier one is asked first.
///
/// Errors: the job's turn is over.
async fn look(proxy: &Proxy, taken: &mut Taken, head: &Head, body: &Bytes, is_old: bool) -> Result<Box<Hold>, Turn> {
    let id = taken.head().job_id().to_owned();
    let id = id.as_str();
    let names = Names { own_id: Some(id), key: None };
    // The secret of the journal may be another one by now, and its caller is the job's own.
    let caller = identity(proxy, &head.headers, names, &[]).caller;
    let known = Identity { caller, ..taken.head().identity.clone() };
    let mut hold = proxy.shared.journal.begin(known, rules(&proxy.shared.config));
    if taken.copies.is_empty() {
        return Ok(Box::new(hold));
    }
    hold.placement_mut().copies.clone_from(&taken.copies);
    // An answer of an earlier turn proves nothing in this one.
    hold.apply(Event::Restarted);
    let request_id = head.headers.get(REQUEST_ID).cloned().unwrap_or(HeaderValue::from_static(""));
    let federation_id = tracking_id(taken);
    let body: Segments = std::iter::once(body.clone()).collect();
    let planned = placement::Planned { body: &body, job_id: Some(id), federation_id: federation_id.as_ref() };
    let purpose = if is_old { Purpose::Expiry } else { Purpose::Drain };
    let heard = Heard::default();
    let caller =
        Caller { proxy, request_id: &request_id, head, digest: &caller, planned, purpose, heard: Some(&heard) };
    match caller.look(hold).await {
        // Also where it was cancelled there since: it had been stored.
        Ok(Looked::Known(Known { answer, .. })) if answer.status.is_success() => Err(Turn::Stored),
        Ok(Looked::Known(_)) => Err(Turn::Aside(RowState::Refused, "id_in_use".to_owned())),
        // Days after its proof a copy that cannot be asked about may be there.
        Ok(Looked::Nowhere(hold)) if heard.is_unasked.get() => {
            hold.leave();
            Err(unanswered(proxy, taken, &heard))
        }
        Ok(Looked::Nowhere(hold)) => Ok(hold),
        Err(_) => Err(unanswered(proxy, taken, &heard)),
    }
}

/// The end of a turn in which a region has not said whether it has the job.
fn unanswered(proxy: &Proxy, taken: &mut Taken, heard: &Heard) -> Turn {
    let view = proxy.shared.registry.view();
    let is_gone = |copy: &Copy| !copy.is_final() && view.index_of(copy.place.region.as_str()).is_none();
    // A discovered region may come back.
    if taken.copies.iter().any(is_gone) && proxy.shared.config.discovery.is_none() {
        return Turn::Aside(RowState::Refused, "outcome_unknown".to_owned());
    }
    let Some(status) = heard.refused.get() else { return Turn::Later };
    let now = proxy.shared.registry.clock().now();
    taken.failures.note(now);
    if taken.failures.are_final(now) { refused(status) } else { Turn::Later }
}

fn refused(status: StatusCode) -> Turn {
    Turn::Aside(RowState::Refused, format!("region_{}", status.as_u16()))
}

fn tracking_id(taken: &Taken) -> Option<HeaderValue> {
    HeaderValue::from_str(taken.head().federation_id.as_deref()?).ok()
}

/// Plans the job anew, and tries its regions.
async fn send(proxy: &Proxy, taken: Box<Taken>, head: Head, body: Bytes, hold: Box<Hold>) -> Ended {
    let tenant = tenant(&head.headers);
    let (mut strategy, mut note, mut asked) = (None, None, AskedHub::of_call(true));
    let planned = loop {
        let planned = plan(proxy, &body, tenant.as_deref(), &mut asked, &mut strategy, &mut note);
        if !asked.wait(proxy).await {
            break planned;
        }
    };
    let Planned { mut decision, ours, source, shared_queue, outline, spooling, quota, .. } = match planned {
        Ok(planned) => planned,
        Err(document) => {
            hold.leave();
            return (after(proxy, &document), Some(taken));
        }
    };
    let id = taken.head().job_id().to_owned();
    let is_nowhere = spooling.is_some_and(|spooling| spooling.refusal.is_some());
    // Another job has taken the token meanwhile.
    let lacks = quota.as_deref().is_some_and(|quota| !quota.is_for_now());
    if is_nowhere || lacks || keep_from_fences(proxy, &mut decision, hold.placement(), Some(&id)).is_err() {
        hold.leave();
        return (Turn::Later, Some(taken));
    }
    let (strategy, federation_id) = (decision.strategy, tracking_id(&taken));
    let mut job = Box::new(Job {
        call: Call {
            method: Method::POST,
            path: head.path,
            headers: head.headers.into(),
            body: std::iter::once(body.clone()).collect(),
            deadline: head.deadline,
            class: Class::Enqueue,
            pinned: decision.pinned,
            guard: GuardClass::Enqueue,
            source: Some(source),
            pressing: false,
        },
        decision,
        job_id: Some(id),
        hint: None,
        trail: SendHistory {
            received: Received::Held(body, Vec::new()),
            // Its client knows both ids, so that neither is replaced.
            expected: Expected::Job { minted: false, unique: ours.unique },
            hold: Some(hold),
            spooled: Some(taken),
            ..SendHistory::new(head.deadline, federation_id)
        },
        note: None,
    });
    quota.iter().for_each(|quota| quota.sent());
    let ran = run(proxy, &mut job, Instant::now()).await;
    quota.iter().for_each(|quota| quota.ended(&ran));
    if let (Some(index), Ok(answer)) = (ran.stored, &ran.result) {
        proxy.metrics(index).stored(strategy, 1);
        proxy.shared.traffic.sent(index, shared_queue.as_ref());
        if let Some(outline) = outline {
            let federation_id = job.trail.federation_id.clone();
            report_stored(proxy, &mut job, outline, federation_id.as_ref(), (index, answer));
        }
    }
    let turn = ended(proxy, &mut job, &ran);
    (turn, job.trail.spooled.take())
}

/// The end of a try.
fn ended(proxy: &Proxy, job: &mut Job, ran: &Ran) -> Turn {
    let status = match &ran.result {
        Ok(answer) if answer.status.is_success() => return Turn::Stored,
        Ok(answer) => answer.status,
        Err(document) => return after(proxy, document),
    };
    match status.as_u16() {
        408 | 425 | 429 | 503 => Turn::Later,
        400..500 if is_own_word(status, ran) => refused(status),
        // A balancer, or a service for credentials, before a region that is not quite back.
        400..500 => {
            let now = proxy.shared.registry.clock().now();
            job.trail.spooled.iter_mut().for_each(|taken| taken.failures.note(now));
            Turn::Later
        }
        _ => {
            // Such a region may have stored it before it failed.
            if let (Some(region), Some(id)) = (ran.region.clone(), job.job_id.clone()) {
                let (place, now) = (Place { region, job_id: id }, proxy.shared.journal.now());
                let copy = Copy::sending(place, job.trail.stamp(), now);
                let fate = Fate::Unknown { lost: Lost::TimedOut, since: now };
                let view = proxy.shared.registry.view();
                let index = view.index_of(copy.place.region.as_str());
                let is_well = index.is_some_and(|index| view.region(index).breaker == BreakerState::Closed);
                if let Some(taken) = &mut job.trail.spooled {
                    taken.copies.push(Copy { fate, ..copy });
                    if is_well {
                        taken.failures.note(proxy.shared.registry.clock().now());
                    }
                }
            }
            Turn::Later
        }
    }
}

/// Whether a refusal is the server's own word about the job, and not about its caller or of a balancer before it.
fn is_own_word(status: StatusCode, ran: &Ran) -> bool {
    let is_document = ran.result.as_ref().is_ok_and(|answer| is_error_document(&answer.body));
    is_document && !matches!(status.as_u16(), 401 | 403 | 404)
}

/// Whether a refusal of the sidecar's own ends by itself.
fn after(proxy: &Proxy, document: &ErrorDocument) -> Turn {
    // A discovered region may come back.
    let may_come = document.reason == Reason::RegionUnknown && proxy.shared.config.discovery.is_some();
    if may_come || document.status == StatusCode::SERVICE_UNAVAILABLE || document.is_outcome_unknown() {
        return Turn::Later;
    }
    Turn::Aside(RowState::Refused, document.reason.as_str().to_owned())
}

/// The tenant that the head of the call names; it was checked when the job came.
fn tenant(headers: &HeaderMap) -> Option<String> {
    let named = headers.get(TENANT).or_else(|| headers.get(TENANT_ID))?;
    named.to_str().ok().filter(|tenant| !tenant.is_empty()).map(str::to_owned)
}
