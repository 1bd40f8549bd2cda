//! One question to one region, asked once, with the whole answer in memory. Calls over several regions are made of
//! these.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use tokio::time::Instant;

use super::attempt::{Call, attempt, shed_document};
use super::exchange::Exchange;
use super::feedback::source;
use super::headers::CallHeaders;
use crate::base::text::whole_seconds;
use crate::net::headers::strip_hop_by_hop;
use crate::ojs::header::{FEDERATION_HOPS, REQUEST_ID};
use crate::ojs::{Class, ErrorDocument, Segments, path_segment};
use crate::policy::{BreakerState, GuardClass, GuardState, Outcome, RETRY_HUB, RegionIndex, RegionView};
use crate::proxy::{
    body::collect::OVERLOADED_RETRY_AFTER,
    state::{IDENTIFYING, Proxy, RegionAnswer},
};

/// `Retry-After` of a call that needs another region, at a spoke that does not hear its hub. Units: seconds.
pub(crate) const HUB_RETRY_AFTER: u64 = RETRY_HUB.as_secs();

/// A question, the same for every region that it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    /// From [`question_headers`].
    pub(crate) headers: HeaderMap,
    pub(crate) body: Segments,
    pub(crate) deadline: Instant,
    /// The class by which the region's guards count it.
    pub(crate) guard: GuardClass,
    /// About a job that the region leased: passes a breaker and a guard that is open and a limit that is reached, because the
    /// region would run the job again.
    pub(crate) leased: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The breaker or the guard is open, too much is under way, or the memory has no room for the answer: nothing was changed. Holds
    /// the document for the client.
    Closed(ErrorDocument),
    /// Nothing was sent.
    NotSent,
    /// Something was sent, and no whole answer came.
    Unknown,
}

impl Question {
    /// A read.
    pub(crate) fn get(path: PathAndQuery, headers: HeaderMap, deadline: Instant) -> Self {
        Self {
            method: Method::GET,
            path,
            headers,
            body: Segments::new(),
            deadline,
            guard: GuardClass::Read,
            leased: false,
        }
    }
}

/// The pieces of a body: none for an empty one.
pub(crate) fn body_of(body: Bytes) -> Segments {
    Segments::from_iter(Some(body).filter(|body| !body.is_empty()))
}

/// A client's headers for questions to regions: nothing that belongs to its connection or to the body it sent, and nothing that
/// would make an answer unreadable to us.
pub(crate) fn question_headers(exchange: &Exchange, headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    strip_hop_by_hop(&mut headers);
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_ENCODING);
    headers.insert(REQUEST_ID, exchange.request_id().clone());
    headers
}

/// The question for a job, with the authority of the caller that sent these headers.
pub(crate) fn question(request_id: &HeaderValue, headers: &HeaderMap, id: &str, deadline: Instant) -> Option<Question> {
    let path = PathAndQuery::try_from(format!("/ojs/v1/jobs/{}", path_segment(id))).ok()?;
    let mut own = HeaderMap::with_capacity(4);
    // The question passes as many sidecars as the call.
    for name in IDENTIFYING.iter().chain([&FEDERATION_HOPS]) {
        for value in headers.get_all(name) {
            own.append(name.clone(), value.clone());
        }
    }
    own.insert(REQUEST_ID, request_id.clone());
    Some(Question::get(path, own, deadline))
}

/// Asks one region once. The answer is bounded like that of an enqueue; breaker and guards count it; nothing is tried
/// again.
///
/// Errors: [`NoAnswer`].
pub(crate) async fn ask(
    proxy: &Proxy,
    class: Class,
    index: RegionIndex,
    question: Question,
) -> Result<RegionAnswer, NoAnswer> {
    if !question.leased {
        closed(proxy, index, question.guard)?;
    }
    if question.method == Method::GET && !proxy.shared.buffered.has_room_for_reads(&proxy.shared.config.limits) {
        return Err(NoAnswer::Closed(ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER)));
    }
    let mut call = Call {
        // The path names the job or the queue, where there is one.
        source: Some(source(question.path.path())),
        method: question.method,
        path: question.path,
        headers: CallHeaders::once(question.headers),
        body: question.body,
        deadline: question.deadline,
        class,
        pinned: true,
        guard: question.guard,
        pressing: question.leased,
    };
    let (tried, _) = attempt(proxy, index, &mut call, std::time::Instant::now(), &[]).await;
    if let Some(shed) = tried.shed {
        return Err(NoAnswer::Closed(shed_document(shed, &proxy.region(index).id)));
    }
    if tried.crowded_out {
        return Err(NoAnswer::Closed(ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER)));
    }
    let not_sent = tried.ending.outcome() == Outcome::NotSent;
    tried.answer.ok_or(if not_sent { NoAnswer::NotSent } else { NoAnswer::Unknown })
}

/// Whether the region's breaker and the guard of the class let the call through.
fn closed(proxy: &Proxy, index: RegionIndex, class: GuardClass) -> Result<(), NoAnswer> {
    let view = proxy.shared.registry.view();
    let region = view.region(index);
    refusal(proxy, region, Some(class)).map_or(Ok(()), |document| Err(NoAnswer::Closed(document)))
}

/// The error document for a call that may not go to a region: its breaker or the guard of the class is open, or this sidecar is a spoke that does
/// not hear its hub; none for one that may.
pub(crate) fn refusal(proxy: &Proxy, region: &RegionView, class: Option<GuardClass>) -> Option<ErrorDocument> {
    let id = Some(region.id.as_str());
    if region.is_cut_off {
        return Some(ErrorDocument::hub_lost(id, HUB_RETRY_AFTER));
    }
    shut_for(proxy, region, class).map(|wait| ErrorDocument::owner_unavailable(id, wait))
}

/// For how long a region's breaker, or its guard, lets no such call through; none where it does.
///
/// Units: seconds. A guard in trial lets a share of calls through, and each is drawn for anew.
pub(crate) fn shut_for(proxy: &Proxy, region: &RegionView, class: Option<GuardClass>) -> Option<u64> {
    let clock = proxy.shared.registry.clock();
    if region.breaker != BreakerState::Closed {
        let until = region.open_until;
        return Some(until.map_or(1, |until| whole_seconds(until.saturating_duration_since(clock.now()))));
    }
    let guard = region.guard(class?);
    // Hardly ever anything else, and then no time and no draw is needed.
    if matches!(guard, GuardState::Closed { .. }) {
        return None;
    }
    let now = clock.now();
    let admitted = guard.admits(now, &mut proxy.random.draw());
    (!admitted).then(|| guard.wait(now).map_or(1, whole_seconds))
}

/// The error document for a region that was not reached, with the rest of the cooldown where its breaker is open.
pub(crate) fn unavailable(proxy: &Proxy, index: RegionIndex) -> ErrorDocument {
    let view = proxy.shared.registry.view();
    let region = view.region(index);
    ErrorDocument::owner_unavailable(Some(region.id.as_str()), shut_for(proxy, region, None).unwrap_or(1))
}

impl NoAnswer {
    /// The document for a client that needs this region's word.
    pub(crate) fn document(self, proxy: &Proxy, index: RegionIndex) -> ErrorDocument {
        match self {
            Self::Closed(document) => document,
            Self::NotSent | Self::Unknown => unavailable(proxy, index),
        }
    }
}
