//! A worker asks for jobs: the local region hands them out.
//!
//! For queues that the operator names, other regions add what is still missing, one after the other, the nearest first, and
//! never more than was asked for: what is claimed cannot be given back without counting as an attempt. A job that may not run
//! here is left to its lease, and its queue is fetched from the local region only from then on.
//!
//! Jobs whose worker has gone by the time they are claimed wait for its next FETCH.
//!
//! Spec: ojs-protocol 2.2, 5.3, 5.4.

mod round;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::net::Arriving;
use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, Request, Response};

use super::exchange::Exchange;
use super::head::read;
use super::insist::{rewritten, unanswered};
use super::locate::asker;
use super::{Proxy, Reply};
use crate::ojs::ErrorDocument;
use crate::ojs::worker::{Claimed, Claims};
use crate::region::{KeptJob, Workers};
use crate::telemetry::KeptJob as Became;
use round::{Local, Round};

/// All regions together: SDKs give up at 30 s, and a job that comes later than that is claimed for nobody.
const FETCH_MAX: Duration = Duration::from_secs(24);
/// How long a job is leased when the call does not say. Spec: ojs-protocol 2.4.
const LEASE: Duration = Duration::from_secs(30);
/// A lease is no longer than this to us, whatever the call says.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers a FETCH.
///
/// Errors: when no region answered, 503 `owner_unavailable` where nothing was sent, else 504: its jobs come back when their leases end.
pub(super) async fn fetch(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<Arriving>,
) -> Result<Response<Reply>, ErrorDocument> {
    let (mut head, body) = read(proxy, exchange, request).await?;
    head.deadline = head.deadline.min(tokio::time::Instant::now() + FETCH_MAX);
    // What servers could read in two ways is the local region's to judge, and nobody else's to answer.
    let claims = Claims::read(&body, proxy.shared.config.limits.json_depth).ok();
    let worker_id = claims.as_ref().and_then(Claims::worker_id);
    let worker = worker_id.as_deref().and_then(Workers::name);
    let claimant = worker.map(|worker| claimant(worker, &head.headers));
    let started = Instant::now();
    let mut round = Round::begin(proxy, exchange.matched.class, head, &body, claims.as_ref(), worker);
    if let Some(claimant) = &claimant {
        round.take_kept(claimant);
    }
    // Nothing is claimed for a worker that is known to be gone.
    if !exchange.client().is_gone() {
        round.ask_local().await;
        round.ask_others(exchange.client()).await;
    }
    exchange.upstream = started.elapsed();
    if let Some(claimant) = &claimant
        && exchange.client().is_gone()
    {
        exchange.vanished();
        keep(proxy, claimant, std::mem::take(&mut round.jobs));
    }
    answer(proxy, exchange, round)
}

/// Who may be given what was claimed for a worker. A name such as `worker-1` is many tenants' own, and a region that judges by
/// tenant and credentials is not asked again.
fn claimant(worker: &str, headers: &HeaderMap) -> String {
    let asker = digest(&SHA256, &asker(headers));
    let mut claimant = worker.to_owned();
    for byte in asker.as_ref() {
        let _ = write!(claimant, " {byte:02x}");
    }
    claimant
}

/// Keeps a vanished worker's jobs for its next FETCH.
fn keep(proxy: &Proxy, claimant: &str, jobs: Vec<KeptJob>) {
    let (claimed, shared) = (jobs.len(), &proxy.shared);
    let kept = shared.workers.kept.keep(claimant, jobs, shared.registry.clock().now());
    shared.metrics.kept_jobs[Became::Kept].inc_by(kept as u64);
    shared.metrics.kept_jobs[Became::Left].inc_by((claimed - kept) as u64);
}

/// How long the regions lease the jobs of a call.
fn lease(claims: Option<&Claims<'_>>) -> Duration {
    claims.and_then(Claims::visibility_ms).map_or(LEASE, Duration::from_millis).min(LEASE_MAX)
}

/// One answer out of those of all regions: the local region's where there is one, with the jobs of others in it.
fn answer(proxy: &Proxy, exchange: &mut Exchange, round: Round<'_, '_>) -> Result<Response<Reply>, ErrorDocument> {
    let Round { jobs, local, base, first, .. } = round;
    let jobs: Vec<&str> = jobs.iter().map(|job| std::str::from_utf8(&job.raw).unwrap_or_default()).collect();
    if let Some((index, base)) = base {
        exchange.region = Some(proxy.region(index).id.clone());
        exchange.outcome = Some(crate::telemetry::AttemptOutcome::Answered);
        let body = base.body.clone();
        return Ok(match Claimed::read(&body) {
            Some(own) if !own.jobs.iter().map(|job| job.raw()).eq(jobs.iter().copied()) => {
                rewritten(base, own.with(&body, &jobs, first))
            }
            _ => base.into(),
        });
    }
    let index = proxy.shared.registry.view().local;
    exchange.region = Some(proxy.region(index).id.clone());
    match local {
        Local::Unasked => Ok(handed_out(exchange, &jobs)),
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
