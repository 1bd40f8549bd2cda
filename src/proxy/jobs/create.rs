//! Calls that make a job out of another one: a dead letter retried, perhaps with another body, an agent's job forked or replayed.
//!
//! The new job is made where the old one is. Nothing of it can go anywhere else, so a body that asks for another region is
//! refused and nothing is sent.

use std::time::Instant;

use crate::net::IncomingBody;
use http::{Method, Request, Response, StatusCode};

use super::enqueue::{note, run};
use crate::base::{Reason, Strategy};
use crate::journal::Note;
use crate::ojs::{ErrorDocument, Segments, jobs_within};
use crate::policy::{Decision, GuardClass, RegionIndex};
use crate::proxy::{
    call::{
        attempt::Call,
        exchange::Exchange,
        feedback::source,
        head::{Head, read, tenant_of},
        shut::{check_breaker, check_evacuated},
    },
    locate::find::{Located, locate, search, unsure},
    placement::{job::Job, send_history::SendHistory},
    reads::residency::Guard,
    routing::{bound::check_routing, several::check_each},
    state::{Proxy, Ran, Reply},
};

/// Passes such a call to the owner of its job.
///
/// Errors: 400 for a body that could be read in two ways, 422 `unsupported` for one that may not go to the owner, 503 when nothing
/// was sent, 500 `outcome_unknown` when something was.
pub(crate) async fn recreate(
    proxy: &Proxy,
    exchange: &mut Exchange,
    mut request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let guard = Guard::of(proxy, exchange, &mut request);
    let response = at_owner(proxy, exchange, request).await?;
    match guard {
        Some(guard) => guard.judge(proxy, exchange, response).await,
        None => Ok(response),
    }
}

async fn at_owner(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let method = request.method().clone();
    let id = exchange.matched.named_in(request.uri().path());
    let (head, body) = read(proxy, exchange, request).await?;
    let index = match locate(proxy, exchange, &head.headers, &id).await.or_left(proxy) {
        Located::At(index) => index,
        // Its id may be another than that of a job.
        Located::Nowhere(_) => return made_in(proxy, exchange, local_of(proxy), (head, method, body)).await,
        Located::Unsure(doubt) => return Err(unsure(proxy, exchange, &doubt)),
    };
    let again = Head { path: head.path.clone(), headers: head.headers.clone(), deadline: head.deadline };
    let response = made_in(proxy, exchange, index, (head, method.clone(), body.clone())).await?;
    if response.status() != StatusCode::NOT_FOUND {
        return Ok(response);
    }
    // The remembered region may be wrong; a region that does not know the job has made nothing of it.
    match search(proxy, exchange, &again.headers, &id).await.or_left(proxy) {
        Located::At(other) if other != index => made_in(proxy, exchange, other, (again, method, body)).await,
        Located::At(_) => Ok(response),
        Located::Nowhere(_) => {
            proxy.shared.owners.forget(&id);
            Ok(response)
        }
        Located::Unsure(doubt) => Err(unsure(proxy, exchange, &doubt)),
    }
}

fn local_of(proxy: &Proxy) -> RegionIndex {
    proxy.shared.registry.view().local
}

/// Sends the call to a region, if the jobs within may go there.
async fn made_in(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    (head, method, body): (Head, Method, bytes::Bytes),
) -> Result<Response<Reply>, ErrorDocument> {
    {
        let tenant = tenant_of(exchange, &head.headers)?;
        let mut found = jobs_within(&body, proxy.shared.config.limits.json_depth)
            .map_err(|fault| ErrorDocument::from_fault(&fault))?;
        found.set_caller_tenant(tenant.as_deref());
        let view = proxy.shared.registry.view();
        check_each(&proxy.shared, &view, found.envelopes.iter())?;
        check_routing(&view, index, &found)?;
    }
    to_region(proxy, exchange, index, (head, method, body), &mut None).await
}

/// Sends a creating call to one given region. Records its course in `noted`.
pub(crate) async fn to_region(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    (head, method, body): (Head, Method, bytes::Bytes),
    noted: &mut Option<Box<Note>>,
) -> Result<Response<Reply>, ErrorDocument> {
    if let Some(note) = noted {
        note.set_candidates(&[index]);
    }
    check_breaker(proxy, exchange, index)?;
    check_evacuated(proxy, index)?;
    let ran = run_whole(proxy, exchange, (head, method, body), only(index), noted).await;
    // It went there because something is there, and not because of a pin.
    let owner = || ErrorDocument::owner_unavailable(Some(proxy.region(index).id.as_str()), 1);
    ran.result
        .map(Into::into)
        .map_err(|document| if document.reason == Reason::RegionUnavailable { owner() } else { document })
}

fn only(index: RegionIndex) -> Decision {
    let candidates = std::iter::once(index).collect();
    let (strategy, pinned, restricted, by_turn) = (Strategy::DEFAULT, true, true, false);
    Decision { strategy, pinned, restricted, by_turn, home: None, candidates, drilled: None }
}

/// Sends a call unchanged through a decision's candidates. Records its course in `noted`.
pub(crate) async fn run_whole(
    proxy: &Proxy,
    exchange: &mut Exchange,
    (head, method, body): (Head, Method, bytes::Bytes),
    decision: Decision,
    noted: &mut Option<Box<Note>>,
) -> Ran {
    // The body holds several types, or none: all calls by this path are one source.
    let source = source(head.path.path());
    let call = Call {
        method,
        path: head.path,
        headers: head.headers.into(),
        body: Segments::from_iter([body]),
        deadline: head.deadline,
        class: exchange.matched.class,
        pinned: decision.pinned,
        guard: GuardClass::Enqueue,
        source: Some(source),
        pressing: false,
    };
    let trail = SendHistory::new(call.deadline, None);
    let mut job = Job { call, decision, job_id: None, hint: None, trail, note: noted.take() };
    let mut ran = run(proxy, &mut job, Instant::now()).await;
    *noted = job.note.take();
    note(exchange, &mut ran);
    ran
}
