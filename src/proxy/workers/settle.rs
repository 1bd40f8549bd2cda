//! An acknowledgement: to the region that leased the job and to no other, repeated there until it is heard.
//!
//! A region that acts and whose answer is lost refuses the repetition with a 409. The job's state then shows the effect
//! of the first call, and decides the worker's answer.
//!
//! One that comes when its lease is over may be about a job that another worker has by now: `fence` asks the region first.
//!
//! Spec: ojs-protocol 2.3, 5.3.

mod fence;
mod look_up;

use std::borrow::Cow;
use std::time::Instant;

use crate::net::IncomingBody;
use bytes::Bytes;
use http::{Request, Response, StatusCode};

use self::fence::{Fenced, Lease};
use self::look_up::look_up;
use crate::ojs::answer::{ShownJob, is_error_document};
use crate::ojs::worker::{Settled, completed};
use crate::ojs::{ErrorDocument, IdAt, Operation, Scope, Segments};
use crate::policy::{GuardClass, RegionIndex, Repeat};
use crate::proxy::{
    call::{
        ask::{Question, ask},
        exchange::Exchange,
        head::{Head, read},
        retrying::{Insisted, ask_retrying, note},
    },
    locate::find::{Located, in_doubt, locate, search},
    state::{Proxy, RegionAnswer, Reply},
};
use crate::replica::ChangeKind;

/// Sends an acknowledgement to the owner of its job.
///
/// Errors: 400 for a body in which two servers could read two jobs; 503 `owner_unavailable` when no region has the job and not all
/// of them could be asked, or when nothing reached its owner; 504 when the owner did not answer; 409 `lease_lost` as of [`Lease::fence`].
pub(crate) async fn settle(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let path = request.uri().path().to_owned();
    let (head, body) = read(proxy, exchange, request).await?;
    let settled = Settled::read(&body, proxy.shared.config.limits.json_depth);
    let settled = if exchange.matched.scope == Scope::Owner(IdAt::Path) {
        // Clients that write the id into the path send no body, or one that is the region's to judge.
        let worker_id = settled.ok().and_then(|settled| settled.worker_id);
        Settled { job_id: Some(exchange.matched.named_in(&path).into()), worker_id }
    } else {
        settled.map_err(|fault| ErrorDocument::from_fault(&fault))?
    };
    let [id, worker_id] = [settled.job_id, settled.worker_id].map(|text| text.map(Cow::into_owned));
    let repeat = Repeat::of(exchange.matched.operation, path.trim_end_matches('/').ends_with("/nack"));
    let started = Instant::now();
    let settled = to_owner(proxy, exchange, Word { head, body, id, worker_id, repeat }).await;
    exchange.upstream = started.elapsed();
    settled
}

/// A worker's acknowledgement.
struct Word {
    head: Head,
    body: Bytes,
    /// The job's id; without one the local region answers with its own error.
    id: Option<String>,
    /// The worker, where it says.
    worker_id: Option<String>,
    repeat: Repeat,
}

async fn to_owner(proxy: &Proxy, exchange: &mut Exchange, word: Word) -> Result<Response<Reply>, ErrorDocument> {
    let local = proxy.shared.registry.view().local;
    let Some(id) = word.id.as_deref() else {
        return answer(proxy, exchange, local, &word).await.map(|said| said.response);
    };
    let lease = Lease::of(proxy, id, word.repeat);
    let index = match &lease {
        Some(lease) => lease.region,
        None => match locate(proxy, exchange, &word.head.headers, id).await.or_left(proxy) {
            Located::At(index) => index,
            other => return elsewhere(proxy, exchange, other),
        },
    };
    if let Some(lease) = &lease
        && let Fenced::Answered(answer) = lease.fence(proxy, exchange, &word.head, word.worker_id.as_deref()).await?
    {
        return Ok(answer.into());
    }
    let mut said = answer(proxy, exchange, index, &word).await?;
    if said.response.status().is_success() {
        note_end(proxy, id, index, &word, said.state.as_deref());
        lease.into_iter().for_each(|lease| lease.end(proxy));
    }
    if said.response.status() != StatusCode::NOT_FOUND {
        return Ok(said.response);
    }
    // The remembered region may be wrong.
    match search(proxy, exchange, &word.head.headers, id).await.or_left(proxy) {
        Located::At(other) if other != index => said = answer(proxy, exchange, other, &word).await?,
        Located::At(_) => {}
        other @ Located::Nowhere(_) => {
            proxy.shared.owners.forget(id);
            let told = elsewhere(proxy, exchange, other)?;
            return Ok(if said.nobodys { told } else { said.response });
        }
        other @ Located::Unsure(_) => return elsewhere(proxy, exchange, other),
    }
    if said.nobodys { Err(ErrorDocument::owner_unavailable(Some(region_of(exchange)), 1)) } else { Ok(said.response) }
}

/// Notes the end of an attempt for the hub's index.
fn note_end(proxy: &Proxy, id: &str, index: RegionIndex, word: &Word, state: Option<&str>) {
    let kind = match word.repeat {
        Repeat::Ack => ChangeKind::Completed,
        Repeat::Nack => ChangeKind::Failed,
        _ => return,
    };
    proxy.shared.saw(kind, id, &proxy.region(index).id, state.filter(|_| kind == ChangeKind::Failed));
}

fn region_of(exchange: &Exchange) -> &str {
    exchange.region.as_ref().map_or("", crate::base::RegionId::as_str)
}

/// The answer where the job has no owner to send to.
fn elsewhere(proxy: &Proxy, exchange: &mut Exchange, located: Located) -> Result<Response<Reply>, ErrorDocument> {
    match located {
        Located::Nowhere(nobody) => {
            let view = proxy.shared.registry.view();
            exchange.region = Some(view.region(view.local).id.clone());
            Ok(nobody.answer.clone().into())
        }
        Located::Unsure(doubt) => in_doubt(proxy, exchange, &doubt).map(Into::into),
        Located::At(index) => Err(ErrorDocument::owner_unavailable(Some(proxy.region(index).id.as_str()), 1)),
    }
}

/// A region's answer to an acknowledgement.
struct Said {
    response: Response<Reply>,
    /// A 404 that is no answer of an OJS server. For paths that not every server has it cannot be distinguished, and
    /// counts as one.
    nobodys: bool,
    /// The state of the job, where the answer shows it and the hub's index hears of it.
    state: Option<String>,
}

impl Said {
    fn of(proxy: &Proxy, exchange: &Exchange, answer: RegionAnswer) -> Self {
        let everybody_has = matches!(exchange.matched.operation, Operation::Ack | Operation::Nack);
        let is_no = answer.status == StatusCode::NOT_FOUND;
        let nobodys = is_no && everybody_has && !is_error_document(&answer.body);
        let state =
            proxy.shared.outbox.is_on().then(|| ShownJob::read(&answer.body).state.map(Cow::into_owned)).flatten();
        Self { response: answer.into(), nobodys, state }
    }
}

/// One region's answer, the one that was lost included.
async fn answer(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    word: &Word,
) -> Result<Said, ErrorDocument> {
    let question = Question {
        method: http::Method::POST,
        path: word.head.path.clone(),
        headers: word.head.headers.clone(),
        body: Segments::from_iter([word.body.clone()]),
        deadline: word.head.deadline,
        guard: GuardClass::of(exchange.matched.operation).unwrap_or(GuardClass::Ack),
        leased: true,
    };
    let insisted = ask_retrying(proxy, exchange.matched.class, index, &question, word.repeat).await;
    note(proxy, exchange, index, &insisted.result);
    if let Some(document) = insisted.document(proxy, index) {
        return Err(document);
    }
    if insisted.to_confirm
        && let Some(id) = &word.id
        && let Some(done) = first_was_heard(proxy, exchange, index, id, &question).await
    {
        return Ok(Said { response: exchange.json(StatusCode::OK.as_u16(), done), nobodys: false, state: None });
    }
    match insisted {
        Insisted { result: Ok(answer), .. } => Ok(Said::of(proxy, exchange, answer)),
        Insisted { .. } => Err(ErrorDocument::upstream_timeout(proxy.region(index).id.as_str())),
    }
}

/// The answer that was lost, where the job is completed as the worker has said.
async fn first_was_heard(
    proxy: &Proxy,
    exchange: &Exchange,
    index: RegionIndex,
    id: &str,
    question: &Question,
) -> Option<Vec<u8>> {
    let look = look_up(id, &question.headers, question.deadline)?;
    let job = ask(proxy, exchange.matched.class, index, look).await.ok()?;
    if job.status != StatusCode::OK {
        return None;
    }
    completed(&job.body, id)
}
