//! Batches and bulk enqueues: to one region where one will do for all jobs, else split by region.
//!
//! Everything is decided before the first part is sent. A batch is all or nothing: when a part fails, the jobs that
//! other regions have created are cancelled, and the answer has the fate of every job. So is a bulk enqueue that says
//! `atomic`; in any other one each job has its own result.

mod bulk;
mod deliver;
mod merge;
mod plan;
mod region_part;
mod split;
mod undo;

use std::time::Instant;

use crate::net::IncomingBody;
use bytes::Bytes;
use http::{Request, Response};

use self::deliver::{account, job};
use self::merge::illegible;
use self::plan::{Planned, plan};
use self::region_part::RegionPart;
use super::enqueue::{note, run};
use crate::ojs::ErrorDocument;
use crate::proxy::{
    call::{
        call_notes::CallNotes,
        exchange::Exchange,
        feedback::source,
        head::{Head, read, tenant_of},
    },
    routing::asked::AskedHub,
    state::{Proxy, Reply},
};

/// Answers a batch or a bulk enqueue.
///
/// Errors: the error document for the client; once a part was sent, it has the fate of each job.
pub(crate) async fn batch(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    exchange.attempts = Some(0);
    let (head, body) = read(proxy, exchange, request).await?;
    let (planned, mut notes) = planned(proxy, exchange, &head, &body).await?;
    let answer = match planned {
        Ok(planned) => send(proxy, exchange, head, body, planned, &mut notes).await,
        Err(document) => Err(document),
    };
    notes.keep(proxy, exchange, &answer);
    answer
}

async fn send(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: Head,
    body: Bytes,
    planned: Planned,
    notes: &mut CallNotes,
) -> Result<Response<Reply>, ErrorDocument> {
    match planned {
        Planned::Whole { decision, part, tokens } => {
            let source = source(head.path.path());
            let tokens = tokens.into_iter().enumerate().collect();
            let parcel = RegionPart { decision, body, members: Vec::new(), jobs: Vec::new(), source, part, tokens };
            send_one(proxy, exchange, head, parcel, notes).await
        }
        Planned::One(parcel) => send_one(proxy, exchange, head, parcel, notes).await,
        Planned::Partial(parts) => bulk::send(proxy, exchange, &head, parts, notes).await,
        Planned::Atomic { parcels, keyed } => split::send(proxy, exchange, &head, parcels, keyed, notes).await,
    }
}

/// The parts by region, and their notes.
///
/// Errors: the head of the call names two tenants.
async fn planned(
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    body: &Bytes,
) -> Result<(Result<Planned, ErrorDocument>, CallNotes), ErrorDocument> {
    let has_key = head.headers.contains_key("idempotency-key");
    let (scope, tenant) = (exchange.matched.scope, tenant_of(exchange, &head.headers)?);
    let mut asked = AskedHub::of_call(true);
    loop {
        let (read, tenant) = (body.clone(), tenant.clone());
        let work = move |proxy: &Proxy| (plan(proxy, scope, has_key, tenant.as_deref(), &read, &mut asked), asked);
        let (planned, left) = proxy.offload(body.len(), work).await;
        asked = left;
        if !asked.wait(proxy).await {
            return Ok(planned);
        }
    }
}

/// Sends all jobs to one region, as a single enqueue is sent, and passes its answer on.
async fn send_one(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: Head,
    parcel: RegionPart,
    notes: &mut CallNotes,
) -> Result<Response<Reply>, ErrorDocument> {
    exchange.strategy = Some(parcel.decision.strategy);
    let mut job = job(exchange, &head, &parcel, notes);
    parcel.sent();
    let mut ran = run(proxy, &mut job, Instant::now()).await;
    parcel.ended(&ran);
    notes.give_back(parcel.part, job.note.take());
    note(exchange, &mut ran);
    let is_doubtful = ran.stored.is_some() && ran.result.as_ref().is_ok_and(|answer| !parcel.is_shown(&answer.body));
    if is_doubtful {
        illegible(proxy, exchange, &ran);
        let region = exchange.region.as_ref().map_or("", |region| region.as_str());
        return Err(ErrorDocument::outcome_unknown(region, None));
    }
    account(proxy, &parcel, &ran);
    ran.result.map(Into::into)
}
