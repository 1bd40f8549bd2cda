//! A worker asks for jobs: the local region hands them out.
//!
//! For queues that the operator names, other regions add the missing jobs, one after the other, the nearest first, and
//! never more than the worker asked for: a claimed job cannot be given back without counting as an attempt. A job that
//! may not run here is left to its lease, and its queue is fetched from the local region only from then on.
//!
//! An isolated region is not asked, and its jobs are left to their leases where it answers after the isolation was set.
//!
//! Where queues take turns, the one whose turn it is goes first. Queues of isolated pools are taken out of the calls of other workers,
//! and a pool with a bound asks for as many jobs as it has places for.
//!
//! Queues of a quota that bounds active jobs are left out where there is no slot for their jobs, and are asked for as many jobs as there are slots.
//!
//! Queues that an operator has paused are taken out of the call first, and in maintenance no region is asked, nor while
//! `hub.fetch: heard` waits for the hub.
//!
//! Jobs whose worker has disconnected by the time they are claimed are parked for its next FETCH.
//!
//! Spec: ojs-protocol 2.2, 5.3, 5.4; fair-scheduling 6.

mod announced;
mod bounded;
mod claim;
mod others;
mod paused;
mod pooled;
mod round;
mod sharded;
mod slots;
mod slotted;
mod stopped;
mod turn;
mod withheld;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};

use self::announced::server_schedules;
use self::paused::leave_out_paused;
use self::pooled::of_pool;
use self::round::{Call, Local, Round};
use self::slotted::check_bounded;
use self::stopped::{for_one_job, leave_out_stopped};
use self::turn::{NAME_BYTES_MAX, are_unconfigured, rules};
use crate::base::apart;
use crate::net::IncomingBody;
use crate::ojs::ErrorDocument;
use crate::ojs::worker::{FetchReply, FetchRequest};
use crate::policy::{Pool, QueueAsker};
use crate::proxy::{
    call::{
        exchange::Exchange,
        head::{Head, asked_for, read},
        retrying::{rewritten, unanswered},
    },
    state::{Proxy, Reply, refuse_shard},
};
use crate::region::{KeptJob, Workers};
use crate::telemetry::KeptJob as Became;

/// A region may hold a FETCH back until it has jobs, which takes so many of 25 parts longer than other calls may: 29 s by default,
/// because SDKs give up at 30 s, and a job that comes later than that is lost to its lease.
const HOLD_PARTS: u32 = 4;
/// The call for the one job of a half-open breaker has one of so many parts of the time, because a region may hold it back while other queues have jobs.
const ONE_JOB_PARTS: u32 = 8;
/// Answers a FETCH.
///
/// A region that holds the call back for as long as the client waits has no jobs for it, which is answered as such.
///
/// Errors: with pools of workers those of [`of_pool`]; with quotas those of [`check_bounded`]; when no region answered, 503 `owner_unavailable` where nothing was sent, else 504: its jobs come back when their leases end.
pub(crate) async fn fetch(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let (mut head, body) = read(proxy, exchange, request).await?;
    let mut claims = FetchRequest::read(&body, proxy.shared.config.limits.json_depth);
    let mut own = claims.as_ref().ok().and_then(FetchRequest::own_turns);
    if own.is_some() && are_unconfigured(proxy) && apart(|| server_schedules(proxy)).await {
        own = None;
    }
    let (halts, pauses) = proxy.with_view(|view| (view.maintenance || view.fetch_waits, view.pauses.clone()));
    if halts {
        return Ok(handed_out(exchange, &[]));
    }
    let pool = if proxy.shared.pools.is_empty() { None } else { of_pool(proxy, claims.as_mut().map_err(|it| &*it))? };
    if let Some(pauses) = pauses.filter(|pauses| pauses.has_queues())
        && !leave_out_paused(&pauses, claims.as_mut())
    {
        return Ok(handed_out(exchange, &[]));
    }
    if proxy.shared.quotas.active.is_on() {
        check_bounded(proxy, claims.as_ref())?;
    }
    let patience = patience(proxy.shared.config.limits.call_timeout, asked_for(&head.headers));
    head.deadline = tokio::time::Instant::from_std(exchange.started()) + patience;
    if let Some(shards) = proxy.shared.shards.as_deref() {
        // A call that servers could read in two ways could not be taken for one of queues that have shards.
        let claims = claims.as_ref().map_err(ErrorDocument::from_fault)?;
        claims.queues().try_for_each(|queue| refuse_shard(Some(shards), queue))?;
    }
    if proxy.shared.breakers.is_on() {
        if let Some((_probe, one)) = for_one_job(proxy, claims.as_ref().ok(), &body)
            && let Some(answered) = Box::pin(one_job(proxy, exchange, &head, &one, pool)).await
        {
            return answered;
        }
        if !leave_out_stopped(proxy, claims.as_mut()) {
            return Ok(handed_out(exchange, &[]));
        }
    }
    // Elsewhere it is judged by the local region only.
    let rules = claims.as_mut().ok().and_then(|claims| rules(proxy, claims, own, pool));
    let claims = claims.as_ref().ok();
    let worker_id = claims.and_then(FetchRequest::worker_id);
    let worker = worker_id.as_deref().and_then(Workers::name);
    let now = proxy.shared.registry.clock().now();
    if proxy.shared.pools.name_queues() {
        count_call(proxy, claims, (worker, pool), now);
    }
    let started = Instant::now();
    let call = Call { class: exchange.matched.class, head, body: &body, claims, worker, pool, rules, now };
    let mut round = Round::begin(proxy, call);
    round.take_kept();
    // No job is claimed for a disconnected worker.
    if !exchange.client().is_disconnected() && round.take_places() {
        round.take_slots();
        round.ask_local().await;
        round.ask_others(exchange.client()).await;
        round.note_left_places();
        round.note_left_slots();
    }
    ended(proxy, exchange, round, started)
}

/// Asks for one job of a queue, for a part of the time: the permission of a half-open breaker is for it. None where no job comes, or where a pool or a quota has
/// no place for it: the other queues are asked then.
async fn one_job(
    proxy: &Proxy,
    exchange: &mut Exchange,
    head: &Head,
    body: &Bytes,
    pool: Option<&Pool>,
) -> Option<Result<Response<Reply>, ErrorDocument>> {
    let claims = FetchRequest::read(body, proxy.shared.config.limits.json_depth).ok()?;
    let worker_id = claims.worker_id();
    let worker = worker_id.as_deref().and_then(Workers::name);
    let left = head.deadline.saturating_duration_since(tokio::time::Instant::now());
    let deadline = tokio::time::Instant::now() + left / ONE_JOB_PARTS;
    let head = Head { path: head.path.clone(), headers: head.headers.clone(), deadline };
    let (class, now, started) = (exchange.matched.class, proxy.shared.registry.clock().now(), Instant::now());
    let call = Call { class, head, body, claims: Some(&claims), worker, pool, rules: None, now };
    let mut round = Round::begin(proxy, call);
    if exchange.client().is_disconnected() || !round.take_places() {
        return None;
    }
    round.take_slots();
    round.ask_local().await;
    round.ask_others(exchange.client()).await;
    round.note_left_places();
    round.note_left_slots();
    (!round.jobs.is_empty()).then(|| ended(proxy, exchange, round, started))
}

/// The answer of a round; the jobs of a vanished worker are kept.
fn ended(
    proxy: &Proxy,
    exchange: &mut Exchange,
    mut round: Round<'_, '_>,
    started: Instant,
) -> Result<Response<Reply>, ErrorDocument> {
    exchange.upstream = started.elapsed();
    if exchange.client().is_disconnected()
        && let Some(claimant) = round.claimant()
    {
        exchange.vanished();
        keep(proxy, &claimant, std::mem::take(&mut round.jobs));
    }
    answer(proxy, exchange, round)
}

/// Counts a call of a worker of this pool, or of none, for the figures of queues and pools.
fn count_call(
    proxy: &Proxy,
    claims: Option<&FetchRequest<'_>>,
    (worker, pool): (Option<&str>, Option<&Pool>),
    now: Instant,
) {
    let shared = &proxy.shared;
    let mut tally = shared.tally.lock();
    if let Some(pool) = pool {
        tally.fetched(worker.unwrap_or_default(), pool.name(), now);
    }
    let interval = pool.map_or(&shared.queue_rules, Pool::rules).interval();
    let by = QueueAsker::new(shared.pools.number(pool), interval, now);
    let Some(claims) = claims else { return };
    for queue in claims.queues().filter(|queue| queue.len() <= NAME_BYTES_MAX) {
        tally.waits.asked(queue, &by, || shared.pools.queue(pool, queue));
    }
}

/// How long the whole call may take: as long as the client asks for, else somewhat longer than other calls.
fn patience(usual: Duration, asked: Option<Duration>) -> Duration {
    asked.unwrap_or_else(|| usual + usual / 25 * HOLD_PARTS)
}

/// Keeps a vanished worker's jobs for its next FETCH.
fn keep(proxy: &Proxy, claimant: &str, jobs: Vec<KeptJob>) {
    let (claimed, shared) = (jobs.len(), &proxy.shared);
    let kept = shared.workers.kept.keep(claimant, jobs, shared.registry.clock().now());
    shared.metrics.kept_jobs[Became::Kept].inc_by(kept as u64);
    shared.metrics.kept_jobs[Became::Left].inc_by((claimed - kept) as u64);
}

/// One answer out of those of all regions: the local region's where there is one, with the jobs of others in it.
fn answer(proxy: &Proxy, exchange: &mut Exchange, round: Round<'_, '_>) -> Result<Response<Reply>, ErrorDocument> {
    let Round { jobs, local, base, first, changed, .. } = round;
    let jobs: Vec<&str> = jobs.iter().map(|job| std::str::from_utf8(&job.raw).unwrap_or_default()).collect();
    if let Some((index, base)) = base {
        exchange.region = Some(proxy.region(index).id.clone());
        exchange.outcome = Some(crate::telemetry::AttemptOutcome::Answered);
        let body = base.body.clone();
        return Ok(match changed.then(|| FetchReply::read(&body)).flatten() {
            Some(own) => rewritten(base, own.with(&body, &jobs, first)),
            None => base.into(),
        });
    }
    let index = proxy.shared.registry.view().local;
    exchange.region = Some(proxy.region(index).id.clone());
    match local {
        Local::Unasked | Local::Held => Ok(handed_out(exchange, &jobs)),
        _ if !jobs.is_empty() => Ok(handed_out(exchange, &jobs)),
        Local::Refused(answer) => Ok(answer.into()),
        Local::Silent(silence) => Err(unanswered(proxy, index, &silence, false)),
    }
}

/// An answer that no region had a part in.
fn handed_out(exchange: &Exchange, jobs: &[&str]) -> Response<Reply> {
    let first = jobs.first().map(|job| format!(",\"job\":{job}")).unwrap_or_default();
    exchange.json(200, format!("{{\"jobs\":[{}]{first}}}", jobs.join(",")).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_held_as_long_as_sdks_wait_or_the_client_asks() {
        let seconds = Duration::from_secs;
        assert_eq!(patience(seconds(25), None), seconds(29));
        assert_eq!(patience(seconds(25), Some(seconds(65))), seconds(65));
        assert_eq!(patience(seconds(25), Some(seconds(6))), seconds(6));
    }
}
