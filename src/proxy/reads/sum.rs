//! Figures over all regions: asked of each, added up, with each region's own beside the sum.
//!
//! A read names the regions that are missing and returns the rest. A change, such as retrying all dead letters, is
//! answered with the regions that followed and those that did not.

use std::collections::BTreeSet;

use crate::net::IncomingBody;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::by_ids::check_bodies;
use crate::config::QueueControl;
use crate::ojs::list::{Part, is_object, summed};
use crate::ojs::{ErrorDocument, Segments};
use crate::policy::{GuardClass, RegionIndex};
use crate::proxy::{
    call::{
        ask::{NoAnswer, Question, body_of},
        each_name::names_sharded,
        exchange::Exchange,
        fan_out::{RETRY_AFTER_MIN, Said, ask_each_of_all_names, name_missing, name_regions, nobody, read_headers},
        head::read,
    },
    state::{Proxy, RegionAnswer, Reply},
    stream::local::local,
};

/// Sums the figures of all regions, or passes the call to the one that the client named.
///
/// Errors: 503 `owner_unavailable` when no region answered; for a change, 503 `regions_missing` when not all followed.
pub(crate) async fn sum(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if is_for_one(proxy, exchange) && proxy.shared.shards.is_none() {
        return local(proxy, exchange, request).await;
    }
    let is_read = *request.method() == Method::GET;
    let regions = concerned(proxy, exchange);
    let said = everywhere(proxy, exchange, request, regions).await?;
    if is_read { figures(proxy, exchange, said) } else { followed(proxy, exchange, said) }
}

/// Changes a queue in all regions, or in the one that is configured or named.
///
/// Errors: 503 `regions_missing` when not all followed.
pub(crate) async fn control(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let is_for_one = is_for_one(proxy, exchange) || proxy.shared.config.queues.control == QueueControl::Local;
    if is_for_one && !names_sharded(proxy, &exchange.matched, request.uri()) {
        return local(proxy, exchange, request).await;
    }
    let regions = if is_for_one { one(proxy, exchange) } else { every(proxy) };
    let said = everywhere(proxy, exchange, request, regions).await?;
    followed(proxy, exchange, said)
}

/// Whether a call concerns one region only: the one that it names, or the only one that there is.
pub(crate) fn is_for_one(proxy: &Proxy, exchange: &Exchange) -> bool {
    exchange.addressed.is_some() || proxy.shared.registry.regions().len() == 1
}

/// The region that a call names, else the local one.
fn one(proxy: &Proxy, exchange: &Exchange) -> Vec<RegionIndex> {
    vec![exchange.addressed.unwrap_or(proxy.shared.registry.view().local)]
}

fn concerned(proxy: &Proxy, exchange: &Exchange) -> Vec<RegionIndex> {
    if is_for_one(proxy, exchange) { one(proxy, exchange) } else { every(proxy) }
}

/// All regions, in the order of the registry.
pub(crate) fn every(proxy: &Proxy) -> Vec<RegionIndex> {
    proxy.shared.registry.view().indexes().collect()
}

/// Sends one call to each of these regions, and returns their answers.
///
/// Errors: 400 for a body that asks for another region than one of these; those of [`ask_each_of_all_names`].
pub(crate) async fn everywhere(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
    regions: Vec<RegionIndex>,
) -> Result<Vec<Said>, ErrorDocument> {
    let method = request.method().clone();
    let (head, body) = read(proxy, exchange, request).await?;
    let body = body_of(body);
    let bodies: Vec<(RegionIndex, Segments)> = regions.iter().map(|index| (*index, body.clone())).collect();
    check_bodies(proxy, &bodies)?;
    let headers = if method == Method::GET { read_headers(exchange, &head.headers) } else { head.headers };
    let guard = GuardClass::of(exchange.matched.operation).unwrap_or(GuardClass::Admin);
    let question = Question { method, path: head.path, headers, body, deadline: head.deadline, guard, leased: false };
    let questions = regions.into_iter().map(|index| (index, question.clone())).collect();
    ask_each_of_all_names(proxy, exchange, questions).await
}

/// The regions' answers by their meaning.
#[derive(Default)]
struct Sorted {
    done: Vec<(RegionIndex, RegionAnswer)>,
    /// A region that does not know the queue has nothing to add and nothing to change.
    absent: Vec<Said>,
    missing: BTreeSet<RegionIndex>,
    unusable: Vec<Said>,
}

impl Sorted {
    fn of(said: Vec<Said>) -> Self {
        let mut sorted = Self::default();
        for (index, answer) in said {
            match answer {
                Ok(answer) if answer.status.is_success() => sorted.done.push((index, answer)),
                Ok(answer) if answer.status == StatusCode::NOT_FOUND => sorted.absent.push((index, Ok(answer))),
                other => {
                    sorted.missing.insert(index);
                    sorted.unusable.push((index, other));
                }
            }
        }
        sorted
    }
}

/// The figures of the regions that answered, as one answer; the others are named as missing.
///
/// Errors: those of [`nobody`] where none has anything to say.
pub(crate) fn figures(
    proxy: &Proxy,
    exchange: &mut Exchange,
    said: Vec<Said>,
) -> Result<Response<Reply>, ErrorDocument> {
    let mut sorted = Sorted::of(said);
    let (done, unreadable) = sorted.done.into_iter().partition(|(_, answer)| is_object(&answer.body));
    sorted.done = done;
    for (index, answer) in unreadable {
        sorted.missing.insert(index);
        sorted.unusable.push((index, Ok(answer)));
    }
    if sorted.done.is_empty() {
        return nobody(proxy, exchange, sorted.absent.into_iter().chain(sorted.unusable).collect());
    }
    let mut response = joined(proxy, exchange, sorted.done);
    name_missing(proxy, &mut response, &sorted.missing);
    Ok(response)
}

/// The answers of the regions to a change, as one answer.
///
/// Errors: 503 `regions_missing` where some have followed and others have not.
pub(crate) fn followed(
    proxy: &Proxy,
    exchange: &mut Exchange,
    said: Vec<Said>,
) -> Result<Response<Reply>, ErrorDocument> {
    let sorted = Sorted::of(said);
    let refused_alike = sorted.done.is_empty() && sorted.unusable.iter().all(|(_, answer)| answer.is_ok());
    if refused_alike {
        return nobody(proxy, exchange, sorted.unusable.into_iter().chain(sorted.absent).collect());
    }
    if !sorted.missing.is_empty() {
        let id = |index: &RegionIndex| proxy.region(*index).id.as_str();
        let wait = sorted.unusable.iter().filter_map(|(_, answer)| match answer {
            Err(NoAnswer::Closed(document)) => document.retry_after,
            _ => None,
        });
        let wait = wait.max().unwrap_or(RETRY_AFTER_MIN);
        let done = sorted.done.iter().map(|(index, _)| id(index));
        return Err(ErrorDocument::regions_missing(done, sorted.missing.iter().map(id), wait));
    }
    Ok(joined(proxy, exchange, sorted.done))
}

/// One answer out of several; the first one where they are nothing that could be added up, such as nothing at all.
fn joined(proxy: &Proxy, exchange: &mut Exchange, mut answers: Vec<(RegionIndex, RegionAnswer)>) -> Response<Reply> {
    name_regions(proxy, exchange, answers.iter().map(|(index, _)| *index));
    if is_for_one(proxy, exchange)
        && let Some((_, answer)) = answers.pop()
    {
        return answer.into();
    }
    let id = |index: &RegionIndex| proxy.region(*index).id.as_str();
    let parts: Vec<Part<'_>> =
        answers.iter().map(|(index, answer)| Part { region: id(index), body: &answer.body }).collect();
    let sum = summed(&parts);
    let status = answers.first().map_or(StatusCode::OK, |(_, answer)| answer.status);
    match sum {
        Some(sum) => exchange.json(status.as_u16(), sum),
        None => {
            let first = answers.into_iter().next().map(|(_, answer)| answer);
            let nothing = || RegionAnswer { status, headers: HeaderMap::new(), body: Bytes::new() };
            first.unwrap_or_else(nothing).into()
        }
    }
}
