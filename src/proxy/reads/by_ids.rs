//! Calls that name several jobs: each region gets the ids of the jobs that it holds, and the answers become one.
//!
//! Jobs without a known region are searched for first, so that no region is asked about jobs of others. An id that no
//! region has goes to the local region, whose answer says so; where that has a tombstone under the id, to another one.
//! With a filter in place of ids, every region is asked and the counts are summed.

use crate::net::IncomingBody;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response};

use super::residency::results;
use crate::ojs::{ErrorDocument, JobIds, Operation, Segments, routing_within};
use crate::policy::{GuardClass, RegionIndex};
use crate::proxy::{
    call::{
        ask::{NoAnswer, Question},
        each_name::ask_names,
        exchange::Exchange,
        fan_out::name_regions,
        head::{Head, read},
    },
    locate::find::{Located, locate, unsure},
    routing::bound::check_keys,
    state::{Proxy, RegionAnswer, Reply},
};

/// Searches of one call at once, so that one call does not take every turn.
const SEARCHES: usize = 16;

/// Splits a call by owner and merges the answers.
///
/// Errors: 503 `owner_unavailable` when a region that holds one of the jobs, or may hold it, cannot be asked; 500
/// `outcome_unknown` when it was asked and did not answer; 400 and 422 as for other bodies.
pub(crate) async fn by_ids(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let method = request.method().clone();
    let (head, body) = read(proxy, exchange, request).await?;
    let depth_max = proxy.shared.config.limits.json_depth;
    let ids = JobIds::read(&body, depth_max).map_err(|fault| ErrorDocument::from_fault(&fault))?;
    let Some(ids) = ids.filter(|_| exchange.addressed.is_none()) else {
        return whole(proxy, exchange, method, head, body).await;
    };
    let parts = by_owner(proxy, exchange, &head.headers, &ids).await?;
    let call = Call { method, path: head.path, headers: head.headers, deadline: head.deadline };
    let asked = parts.into_iter().map(|(index, places)| {
        let body = if places.len() == ids.ids.len() {
            Segments::from_iter([body.clone()])
        } else {
            ids.part(&body, &places).into()
        };
        (index, body)
    });
    let answers = call.ask_all(proxy, exchange, asked.collect()).await?;
    let answer = join(exchange, answers, |bodies| ids.merge(bodies))?;
    Ok(results(proxy, exchange, &call.headers, answer).await.into())
}

/// A call without ids, such as one with a filter.
async fn whole(
    proxy: &Proxy,
    exchange: &mut Exchange,
    method: Method,
    head: Head,
    body: Bytes,
) -> Result<Response<Reply>, ErrorDocument> {
    let regions: Vec<RegionIndex> = match exchange.addressed {
        Some(index) => vec![index],
        None => proxy.shared.registry.view().indexes().collect(),
    };
    let call = Call { method, path: head.path, headers: head.headers, deadline: head.deadline };
    let asked = regions.into_iter().map(|index| (index, Segments::from_iter([body.clone()]))).collect();
    let answers = call.ask_all(proxy, exchange, asked).await?;
    let answer = join(exchange, answers, |bodies| JobIds::default().merge(bodies))?;
    Ok(results(proxy, exchange, &call.headers, answer).await.into())
}

/// The places of the ids, by the region that holds the jobs; regions in the order in which they first come up.
async fn by_owner(
    proxy: &Proxy,
    exchange: &mut Exchange,
    headers: &HeaderMap,
    ids: &JobIds,
) -> Result<Vec<(RegionIndex, Vec<usize>)>, ErrorDocument> {
    let local = proxy.shared.registry.view().local;
    let located: Vec<Located> = {
        let exchange = &*exchange;
        let searches = ids.ids.iter().map(|id| locate(proxy, exchange, headers, id));
        stream::iter(searches).buffered(SEARCHES).collect().await
    };
    let mut parts: Vec<(RegionIndex, Vec<usize>)> = Vec::new();
    for (place, located) in located.into_iter().enumerate() {
        let index = match located {
            Located::At(index) => index,
            Located::Nowhere(nobody) => nobody.index(proxy).unwrap_or(local),
            Located::Unsure(doubt) => match doubt.left_or_shown(proxy) {
                Some(index) => index,
                None => return Err(unsure(proxy, exchange, &doubt)),
            },
        };
        match parts.iter_mut().find(|part| part.0 == index) {
            Some((_, places)) => places.push(place),
            None => parts.push((index, vec![place])),
        }
    }
    if parts.is_empty() {
        parts.push((local, Vec::new()));
    }
    Ok(parts)
}

/// The parts of the call that are the same for every region.
struct Call {
    method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
    deadline: tokio::time::Instant,
}

impl Call {
    /// Asks regions at once, each with its own body. All or nothing: a region that is missing makes the answer a wrong one.
    async fn ask_all(
        &self,
        proxy: &Proxy,
        exchange: &mut Exchange,
        bodies: Vec<(RegionIndex, Segments)>,
    ) -> Result<Vec<(RegionIndex, RegionAnswer)>, ErrorDocument> {
        check_bodies(proxy, &bodies)?;
        let class = exchange.matched.class;
        let guard = GuardClass::of(exchange.matched.operation).unwrap_or(GuardClass::Admin);
        let started = std::time::Instant::now();
        let asked = bodies.into_iter().map(|(index, body)| {
            let question = Question {
                method: self.method.clone(),
                path: self.path.clone(),
                headers: self.headers.clone(),
                body,
                deadline: self.deadline,
                guard,
                leased: false,
            };
            async move { (index, ask_names(proxy, class, index, question).await) }
        });
        let answers = futures_util::future::join_all(asked).await;
        exchange.upstream = started.elapsed();
        let mut all = Vec::with_capacity(answers.len());
        let mut missing = None;
        for (index, answer) in answers {
            match answer {
                Ok(answer) => all.push((index, answer)),
                // A part that may have been done outweighs a part that was not begun.
                Err(NoAnswer::Unknown) => missing = Some((index, NoAnswer::Unknown)),
                Err(silence) => drop(missing.get_or_insert((index, silence))),
            }
        }
        match &missing {
            Some((index, _)) => name_regions(proxy, exchange, [*index]),
            None => name_regions(proxy, exchange, all.iter().map(|(index, _)| *index)),
        }
        match missing {
            None => Ok(all),
            Some((index, NoAnswer::Unknown)) => {
                let region = proxy.region(index).id.as_str();
                let is_read = exchange.matched.operation == Operation::JobResults;
                Err(if is_read {
                    ErrorDocument::upstream_timeout(region)
                } else {
                    ErrorDocument::outcome_unknown(region, None)
                })
            }
            Some((index, silence)) => Err(silence.document(proxy, index)),
        }
    }
}

/// A body that asks for another region than the one it would go to goes nowhere.
pub(crate) fn check_bodies(proxy: &Proxy, bodies: &[(RegionIndex, Segments)]) -> Result<(), ErrorDocument> {
    let view = proxy.shared.registry.view();
    for (index, body) in bodies {
        let body = body.concat();
        let keys = routing_within(&body, proxy.shared.config.limits.json_depth);
        check_keys(&view, *index, &keys.map_err(|fault| ErrorDocument::from_fault(&fault))?)?;
    }
    Ok(())
}

/// One answer out of several: a refusal of any region is the answer, as it is one whole call to the client.
fn join(
    exchange: &mut Exchange,
    answers: Vec<(RegionIndex, RegionAnswer)>,
    merge: impl FnOnce(&[Bytes]) -> Option<Vec<u8>>,
) -> Result<RegionAnswer, ErrorDocument> {
    let refused = answers.iter().position(|(_, answer)| !answer.status.is_success()).unwrap_or(0);
    let bodies: Vec<Bytes> = answers.iter().map(|(_, answer)| answer.body.clone()).collect();
    let all_well = answers.iter().all(|(_, answer)| answer.status.is_success());
    let merged = (all_well && bodies.len() > 1).then(|| merge(&bodies)).flatten();
    let Some((_, mut answer)) = answers.into_iter().nth(refused) else {
        return Err(ErrorDocument::owner_unavailable(None, 1));
    };
    exchange.outcome = Some(crate::telemetry::AttemptOutcome::Answered);
    if let Some(merged) = merged {
        answer.headers.remove(http::header::CONTENT_LENGTH);
        answer.body = merged.into();
    }
    Ok(answer)
}
