//! Calls that create jobs by other ways than a single enqueue: batches, cron, workflows.
//!
//! They go to the local region as they are. Until they are federated, one whose routing the local region would not satisfy is
//! refused and nothing is sent, so that no pin is lost on the way.

use http::{Request, Response};
use hyper::body::Incoming;

use super::attempt::{Call, RegionAnswer, attempt};
use super::enqueue::read;
use super::exchange::Exchange;
use super::local::check_breaker;
use super::plan::{refusal, with_job};
use super::{Proxy, Reply, Shared};
use crate::base::Strategy;
use crate::config::ClientReplicatedFrom;
use crate::ojs::{ErrorDocument, Found, RoutingKey, RoutingKind, jobs_within};
use crate::policy::{Answer, Ending, RegionIndex, View, permits};
use crate::telemetry::{AttemptOutcome, event};

/// Scans a creating call and passes it to the local region.
///
/// Errors: 400 for a body that could be read in two ways, 422 `unsupported` for a job that may not go to the local region,
/// 503 when nothing was sent, 500 `outcome_unknown` when something was.
pub(super) async fn create(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<Incoming>,
) -> Result<Response<Reply>, ErrorDocument> {
    let method = request.method().clone();
    let (head, body) = read(proxy, exchange, request).await?;
    let index = {
        let view = proxy.shared.registry.view();
        let found = jobs_within(&body, proxy.shared.config.limits.json_depth)
            .map_err(|fault| ErrorDocument::from_fault(&fault))?;
        check_replicated_from(&proxy.shared, &found)?;
        check_routing(&view, &found)?;
        view.local
    };
    check_breaker(proxy, exchange, index)?;
    let call = Call {
        method,
        path: head.path,
        headers: head.headers,
        body: vec![body],
        deadline: head.deadline,
        class: exchange.matched.class,
        pinned: true,
    };
    let started = std::time::Instant::now();
    let ran = run(proxy, index, call).await;
    exchange.upstream = started.elapsed();
    exchange.outcome = Some(ran.outcome);
    let region = proxy.region(index);
    match ran.result {
        Ok(answer) => Ok(answer.into()),
        Err(AttemptOutcome::NotSent) => Err(ErrorDocument::owner_unavailable(Some(region.id.as_str()), 1)),
        Err(_) => {
            let request_id = exchange.request_id().to_str().unwrap_or_default();
            event::unknown_outcome(proxy.metrics(index), None, request_id);
            Err(ErrorDocument::outcome_unknown(region.id.as_str(), None))
        }
    }
}

struct Ran {
    result: Result<RegionAnswer, AttemptOutcome>,
    outcome: AttemptOutcome,
}

async fn run(proxy: &Proxy, index: RegionIndex, call: Call) -> Ran {
    let tried = attempt(proxy, index, &call).await;
    let outcome = AttemptOutcome::from(tried.ending.outcome());
    let result = match (tried.ending, tried.answer) {
        (Ending::Answered(Answer::Pass | Answer::TryNext), Some(answer)) => Ok(answer),
        _ => Err(outcome),
    };
    Ran { result, outcome }
}

/// The operator's switch for a client's own `replicated_from`; where it passes, it is counted.
fn check_replicated_from(shared: &Shared, found: &Found<'_>) -> Result<(), ErrorDocument> {
    let set = found.envelopes.iter().filter(|envelope| envelope.attributes().replicated_from.is_some()).count();
    if set > 0 && shared.config.compat.client_replicated_from == ClientReplicatedFrom::Reject {
        return Err(ErrorDocument::client_replicated_from());
    }
    shared.metrics.client_replicated_from.inc_by(set as u64);
    Ok(())
}

/// Whether every job within may go to the local region, by its own keys and by the operator's rules.
fn check_routing(view: &View, found: &Found<'_>) -> Result<(), ErrorDocument> {
    check_keys(view, view.local, &found.routing)?;
    for envelope in &found.envelopes {
        let permitted = with_job(envelope, |job| permits(view, job, view.local));
        if !permitted.map_err(|error| refusal(envelope, view, &error))? {
            return Err(not_local());
        }
    }
    Ok(())
}

/// Whether a region is all that these keys ask for.
///
/// Errors: 422 where it is not, 400 for a strategy that does not exist.
pub(super) fn check_keys(view: &View, index: RegionIndex, keys: &[RoutingKey<'_>]) -> Result<(), ErrorDocument> {
    let region = view.region(index).id.as_str();
    for key in keys {
        let value = key.value.as_deref();
        let satisfied = match key.kind {
            RoutingKind::Region => value == Some(region),
            RoutingKind::Affinity => match value.map(Strategy::parse) {
                // With a pin to the region beside it, geo-pin asks for nothing more.
                Some(Ok(Strategy::Affinity | Strategy::GeoPin)) => true,
                Some(Ok(_)) => false,
                Some(Err(_)) | None => return Err(ErrorDocument::unknown_strategy()),
            },
        };
        if !satisfied {
            return Err(not_local());
        }
    }
    Ok(())
}

fn not_local() -> ErrorDocument {
    ErrorDocument::unsupported(
        "routing_unsupported",
        "this call carries jobs that ask for, or are bound to, another region than the local one, and only single enqueues are \
         routed to other regions; nothing was sent: enqueue these jobs one by one with POST /ojs/v1/jobs",
    )
}
