//! Sending the parts of a batch to their regions, and reading their answers.

use std::collections::HashSet;
use std::time::Instant;

use futures_util::future::join_all;
use http::HeaderMap;

use super::region_part::RegionPart;
use crate::ojs::Segments;
use crate::ojs::batch::answer;
use crate::policy::{GuardClass, RegionIndex};
use crate::proxy::{
    call::{ask::question_headers, attempt::Call, call_notes::CallNotes, exchange::Exchange, head::Head},
    jobs::{enqueue::run, replicate::is_rerouted},
    placement::{job::Job, send_history::SendHistory},
    state::{Proxy, Ran, RegionAnswer},
};
use crate::replica::SentJob;
use crate::telemetry::AttemptOutcome;

/// A client's headers for our own questions about its call.
pub(super) fn own_headers(exchange: &Exchange, headers: &HeaderMap) -> HeaderMap {
    let mut headers = question_headers(exchange, headers);
    headers.remove(http::header::CONTENT_TYPE);
    headers.remove("idempotency-key");
    headers
}

/// Sends every part to its region, all at once, and waits for all of them.
pub(super) async fn send_all(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    parcels: &[RegionPart],
    notes: &mut CallNotes,
) -> Vec<Ran> {
    let mut jobs: Vec<Job> = parcels.iter().map(|parcel| job(exchange, head, parcel, notes)).collect();
    let started = Instant::now();
    parcels.iter().for_each(RegionPart::sent);
    let all = join_all(jobs.iter_mut().map(|job| run(proxy, job, started))).await;
    for (parcel, job) in parcels.iter().zip(jobs) {
        notes.give_back(parcel.part, job.note);
    }
    for (parcel, ran) in parcels.iter().zip(&all) {
        parcel.ended(ran);
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

pub(super) fn job(exchange: &Exchange, head: &Head, parcel: &RegionPart, notes: &mut CallNotes) -> Job {
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
    let trail = SendHistory::new(call.deadline, None);
    let note = notes.lend(parcel.part);
    Job { call, decision: parcel.decision.clone(), job_id: None, hint: None, trail, note }
}

/// Counts the jobs that a region has stored, and remembers the region for their ids.
pub(super) fn account(proxy: &Proxy, parcel: &RegionPart, ran: &Ran) {
    let (Some(index), Ok(answer)) = (ran.stored, &ran.result) else { return };
    let ids = learn(proxy, index, parcel, answer);
    // A body that was forwarded whole is counted as one job.
    let stored = if parcel.jobs.is_empty() { 1 } else { ids };
    proxy.metrics(index).stored(parcel.decision.strategy, stored as u64);
    for job in &parcel.jobs {
        proxy.shared.traffic.sent(index, job.shared_queue.as_ref());
    }
}

/// Notes the stored jobs of a part for the hub's index; `is_stored` says it of an id.
fn note_stored(proxy: &Proxy, index: RegionIndex, parcel: &RegionPart, is_stored: impl Fn(&str) -> bool) {
    let is_rerouted = is_rerouted(&parcel.decision, index);
    for job in &parcel.jobs {
        if let (Some(id), Some(it)) = (&job.id, &job.reported)
            && is_stored(id)
        {
            let sent = SentJob { pieces: it.sent.iter().cloned().collect(), is_rerouted };
            let ids = (Some(id.as_bytes()), it.federation_id.as_ref().map(String::as_bytes));
            proxy.shared.saw_stored(ids, &proxy.region(index).id, (it.outline.clone(), sent), b"");
        }
    }
}

/// Remembers the jobs that an answer shows, and says how many are stored.
fn learn(proxy: &Proxy, index: RegionIndex, parcel: &RegionPart, answer: &RegionAnswer) -> usize {
    let region = &proxy.region(index).id;
    let owners = &proxy.shared.owners;
    if let Some(items) = answer::items(&answer.body, parcel.jobs.len()).filter(|_| !parcel.jobs.is_empty()) {
        let stored = items.iter().filter(|item| item.stored);
        let ids: HashSet<&str> = stored.clone().filter_map(|item| item.id.as_deref()).collect();
        note_stored(proxy, index, parcel, |id| ids.contains(id));
        return stored.inspect(|item| item.id.iter().for_each(|id| owners.learn(id, region))).count();
    }
    note_stored(proxy, index, parcel, |_| true);
    match answer::jobs(&answer.body) {
        Some(jobs) => jobs.iter().filter_map(|job| job.id.as_deref()).for_each(|id| owners.learn(id, region)),
        None => parcel.jobs.iter().filter_map(|job| job.id.as_deref()).for_each(|id| owners.learn(id, region)),
    }
    parcel.jobs.len()
}
