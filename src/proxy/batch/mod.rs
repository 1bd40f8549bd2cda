//! Batches and bulk enqueues: to one region where one will do for all jobs, else split by region.
//!
//! Everything is decided before anything is sent. A batch is all or nothing: when a part fails, what the other regions have
//! created is cancelled, and the answer tells the fate of every job. A bulk enqueue is that too when it says `atomic`, else
//! each of its jobs has its own result.

mod bulk;
mod merge;
mod plan;
mod split;
mod undo;

use std::time::Instant;

use crate::net::Arriving;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Request, Response};

use super::attempt::{Call, RegionAnswer};
use super::enqueue::{Ran, note, run};
use super::exchange::Exchange;
use super::head::tenant_of;
use super::head::{Head, read};
use super::job::Job;
use super::notes::calls::CallNotes;
use super::placement::Trail;
use super::shown::source;
use super::{Proxy, Reply};
use crate::base::RegionId;
use crate::ojs::batch::answer;
use crate::ojs::{ErrorDocument, Segments};
use crate::policy::{Decision, GuardClass, RegionIndex};
use crate::region::Queue;
use crate::telemetry::AttemptOutcome;
use merge::illegible;
use plan::{Planned, plan};

/// Jobs that go to one region together.
#[derive(Debug)]
struct Parcel {
    decision: Decision,
    body: Bytes,
    /// Their places in the request.
    members: Vec<usize>,
    jobs: Vec<Sent>,
    /// The type of its first job, as what may be to blame for a 500.
    source: u64,
    /// The place of its note.
    part: usize,
}

impl Parcel {
    /// Whether an answer shows one of the jobs: a page, or an answer to another call, shows none. Where jobs have no id that is known, or
    /// may be answered with others, that cannot be told.
    fn is_shown(&self, body: &[u8]) -> bool {
        let is_one = |job: &Sent| {
            let Some(id) = job.id.as_deref().filter(|_| !job.unique) else { return true };
            memchr::memmem::find(body, id.as_bytes()).is_some()
        };
        !answer::shows_fence(body) && (self.jobs.is_empty() || self.jobs.iter().any(is_one))
    }
}

/// What is remembered of a job that is sent.
#[derive(Debug)]
struct Sent {
    /// The id, the client's or the minted one; none where minting is off and the client sent none.
    id: Option<String>,
    /// Whether the id was minted, so that no other job can have it.
    minted: bool,
    /// Whether the region may answer with another job that was there before.
    unique: bool,
    /// The queue, where other regions may be asked about it.
    shared_queue: Option<Queue>,
}

/// Answers a batch or a bulk enqueue.
///
/// Errors: the error document for the client; where something was sent, it tells what became of each job.
pub(super) async fn batch(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<Arriving>,
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
        Planned::Whole { decision, part } => {
            let source = source(head.path.path());
            let parcel = Parcel { decision, body, members: Vec::new(), jobs: Vec::new(), source, part };
            send_one(proxy, exchange, head, parcel, notes).await
        }
        Planned::One(parcel) => send_one(proxy, exchange, head, parcel, notes).await,
        Planned::Partial(parts) => bulk::send(proxy, exchange, &head, parts, notes).await,
        Planned::Atomic { parcels, keyed } => split::send(proxy, exchange, &head, parcels, keyed, notes).await,
    }
}

/// What is sent where, and what is noted of it.
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
    let read = body.clone();
    Ok(proxy.aside(body.len(), move |proxy| plan(proxy, scope, has_key, tenant.as_deref(), &read)).await)
}

/// Sends all jobs to one region, as a single enqueue is sent, and passes its answer on.
async fn send_one(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: Head,
    parcel: Parcel,
    notes: &mut CallNotes,
) -> Result<Response<Reply>, ErrorDocument> {
    exchange.strategy = Some(parcel.decision.strategy);
    let mut job = job(exchange, &head, &parcel, notes);
    let mut ran = run(proxy, &mut job, Instant::now()).await;
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

/// Sends every part to its region, all at once, and waits for all of them.
async fn send_all(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    parcels: &[Parcel],
    notes: &mut CallNotes,
) -> Vec<Ran> {
    let mut jobs: Vec<Job> = parcels.iter().map(|parcel| job(exchange, head, parcel, notes)).collect();
    let started = Instant::now();
    let all = join_all(jobs.iter_mut().map(|job| run(proxy, job, started))).await;
    for (parcel, job) in parcels.iter().zip(jobs) {
        notes.give_back(parcel.part, job.note);
    }
    for (parcel, ran) in parcels.iter().zip(&all) {
        account(proxy, parcel, ran);
        exchange.strategy = exchange.strategy.or(Some(parcel.decision.strategy));
        exchange.attempts = Some(exchange.attempts.unwrap_or(0) + ran.attempts);
        exchange.upstream = exchange.upstream.max(ran.upstream);
        exchange.outcome = worse(exchange.outcome, ran.outcome);
    }
    let mut regions = all.iter().filter_map(|ran| ran.region.clone());
    exchange.region = regions.next();
    exchange.other_regions = regions.collect();
    all
}

/// The outcome that a person should hear of.
fn worse(one: Option<AttemptOutcome>, other: Option<AttemptOutcome>) -> Option<AttemptOutcome> {
    let rank = |outcome: &Option<AttemptOutcome>| match outcome {
        None => 0,
        Some(AttemptOutcome::Answered) => 1,
        Some(AttemptOutcome::NotSent) => 2,
        Some(AttemptOutcome::Unknown) => 3,
    };
    if rank(&one) >= rank(&other) { one } else { other }
}

fn job(exchange: &Exchange, head: &Head, parcel: &Parcel, notes: &mut CallNotes) -> Job {
    let call = Call {
        method: http::Method::POST,
        path: head.path.clone(),
        headers: head.headers.clone().into(),
        body: Segments::from_iter([parcel.body.clone()]),
        deadline: head.deadline,
        class: exchange.matched.class,
        // A server that stores one job after the other may have said 503 in the middle: it is its last word.
        pinned: parcel.decision.pinned || parcel.jobs.len() != 1,
        guard: GuardClass::Enqueue,
        source: Some(parcel.source),
        pressing: false,
    };
    let trail = Trail::new(call.deadline, None);
    let note = notes.lend(parcel.part);
    Job { call, decision: parcel.decision.clone(), job_id: None, hint: None, trail, note }
}

/// Counts what a region has stored, and remembers where it is.
fn account(proxy: &Proxy, parcel: &Parcel, ran: &Ran) {
    let (Some(index), Ok(answer)) = (ran.stored, &ran.result) else { return };
    let region = &proxy.region(index).id;
    let ids = learn(proxy, region, parcel, answer);
    // What was not taken apart is not counted by job.
    let stored = if parcel.jobs.is_empty() { 1 } else { ids };
    proxy.metrics(index).stored(parcel.decision.strategy, stored as u64);
    for job in &parcel.jobs {
        proxy.shared.traffic.sent(index, job.shared_queue.as_ref());
    }
}

/// Remembers the jobs that an answer shows, and says how many are stored.
fn learn(proxy: &Proxy, region: &RegionId, parcel: &Parcel, answer: &RegionAnswer) -> usize {
    let owners = &proxy.shared.owners;
    if let Some(items) = answer::items(&answer.body, parcel.jobs.len()).filter(|_| !parcel.jobs.is_empty()) {
        let stored = items.iter().filter(|item| item.stored);
        return stored.inspect(|item| item.id.iter().for_each(|id| owners.learn(id, region))).count();
    }
    match answer::jobs(&answer.body) {
        Some(jobs) => jobs.iter().filter_map(|job| job.id.as_deref()).for_each(|id| owners.learn(id, region)),
        None => parcel.jobs.iter().filter_map(|job| job.id.as_deref()).for_each(|id| owners.learn(id, region)),
    }
    parcel.jobs.len()
}

impl Parcel {
    /// The region that a part of a split call goes to.
    fn region(&self) -> Option<RegionIndex> {
        self.decision.target()
    }
}

/// A client's headers for what is asked beside its own call.
fn own_headers(exchange: &Exchange, headers: &HeaderMap) -> HeaderMap {
    let mut headers = super::ask::question_headers(exchange, headers);
    headers.remove(http::header::CONTENT_TYPE);
    headers.remove("idempotency-key");
    headers
}
