//! Definitions that all regions share, such as schemas and the settings of a queue: written to all, read in any one.

use crate::net::IncomingBody;
use bytes::Bytes;
use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use super::by_ids::check_bodies;
use crate::config::QueueControl;
use crate::ojs::{ErrorDocument, Payload, Scope, Segments, normal_path};
use crate::policy::{BreakerState, GuardClass, RegionIndex};
use crate::proxy::{
    body::collect::collect_body,
    call::{
        ask::{NoAnswer, Question, body_of, question_headers},
        each_name::ask_names,
        exchange::Exchange,
        fan_out::RETRY_AFTER_MIN,
        head::{Head, read},
    },
    state::{Proxy, RegionAnswer, Reply},
    stream::local::local,
};
use crate::telemetry::AttemptOutcome;

/// Reads a definition in the local region, else in another; writes it to all.
///
/// Errors: those of [`local`]; 503 `regions_missing` where some regions have taken a change and others have not.
pub(crate) async fn alike(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || normal_path(request.uri().path()).ends_with("/validate");
    let by_control = exchange.matched.scope == Scope::QueueDefinition;
    if by_control && proxy.shared.config.queues.control == QueueControl::Local {
        return local(proxy, exchange, request).await;
    }
    if exchange.addressed.is_none() && is_read {
        exchange.addressed = readable(proxy);
    }
    if exchange.addressed.is_some() {
        return local(proxy, exchange, request).await;
    }
    write(proxy, exchange, request).await
}

/// The local region unless it is known to be down and another is not.
fn readable(proxy: &Proxy) -> Option<RegionIndex> {
    let view = proxy.shared.registry.view();
    let is_open = |index: &RegionIndex| view.region(*index).breaker == BreakerState::Closed;
    let usable = Some(view.local).filter(is_open).or_else(|| view.indexes().find(is_open));
    usable.or(Some(view.local))
}

async fn write(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let method = request.method().clone();
    let regions: Vec<RegionIndex> = proxy.shared.registry.view().indexes().collect();
    let (head, body) = if exchange.matched.payload == Payload::Data {
        as_data(proxy, exchange, request).await?
    } else {
        let (head, body) = read(proxy, exchange, request).await?;
        let bodies: Vec<_> = regions.iter().map(|index| (*index, Segments::from_iter([body.clone()]))).collect();
        check_bodies(proxy, &bodies)?;
        (head, body)
    };
    let body = body_of(body);
    let guard = GuardClass::Admin;
    let question = Question {
        method,
        path: head.path,
        headers: head.headers,
        body,
        deadline: head.deadline,
        guard,
        leased: false,
    };
    let class = exchange.matched.class;
    let started = std::time::Instant::now();
    let all = join_all(regions.iter().map(|&index| ask_names(proxy, class, index, question.clone()))).await;
    exchange.upstream = started.elapsed();
    exchange.outcome =
        Some(if all.iter().all(Result::is_ok) { AttemptOutcome::Answered } else { AttemptOutcome::Unknown });
    answer(proxy, exchange, &question.method, regions.into_iter().zip(all).collect())
}

/// The body of a call that is data, of any form.
async fn as_data(
    proxy: &Proxy,
    exchange: &Exchange,
    request: Request<IncomingBody>,
) -> Result<(Head, Bytes), ErrorDocument> {
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let (parts, body) = request.into_parts();
    let body = collect_body(proxy, body, deadline).await?.hold();
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok((Head { path, headers: question_headers(exchange, &parts.headers), deadline }, body))
}

type Words = Vec<(RegionIndex, Result<RegionAnswer, NoAnswer>)>;

/// One answer out of those of all regions: the local one's where all have followed, or where none has and all say why.
fn answer(
    proxy: &Proxy,
    exchange: &mut Exchange,
    method: &Method,
    words: Words,
) -> Result<Response<Reply>, ErrorDocument> {
    let local = proxy.shared.registry.view().local;
    let has_followed = |word: &Result<RegionAnswer, NoAnswer>| match word {
        Ok(answer) => {
            answer.status.is_success() || (method == Method::DELETE && answer.status == StatusCode::NOT_FOUND)
        }
        Err(_) => false,
    };
    let (followed, missing): (Vec<_>, Vec<_>) = words.iter().partition(|(_, word)| has_followed(word));
    let has_refused = |word: &Result<RegionAnswer, NoAnswer>| word.as_ref().is_ok_and(|it| it.status.is_client_error());
    // A call that every region refuses is the client's mistake, and leaves no region behind.
    let all_refused = followed.is_empty() && words.iter().all(|(_, word)| has_refused(word));
    if !missing.is_empty() && !all_refused {
        let ids = |part: &[&(RegionIndex, _)]| -> Vec<&str> {
            part.iter().map(|(index, _)| proxy.region(*index).id.as_str()).collect()
        };
        return Err(ErrorDocument::regions_missing(ids(&followed), ids(&missing), RETRY_AFTER_MIN));
    }
    // A deletion is answered by a region that had the thing.
    let rank = |index: RegionIndex, answer: &RegionAnswer| (!answer.status.is_success(), index != local, index);
    let words = words.into_iter().filter_map(|(index, word)| Some((index, word.ok()?)));
    let (index, word) = words
        .min_by_key(|(index, answer)| rank(*index, answer))
        .ok_or_else(|| ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN))?;
    exchange.region = Some(proxy.region(index).id.clone());
    Ok(word.into())
}
