//! Residency of reads: the part of a job that a sidecar outside the job's region returns.
//!
//! An answer that shows the job is judged by the job's own meta. For an answer that does not (a result, a checkpoint)
//! the job is looked up first; where it cannot be judged, it is hidden. Only where `residency.read` restricts reads:
//! otherwise answers stream through unread.

use crate::net::IncomingBody;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, ETAG};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::config::ReadResidency;
use crate::ojs::residency::{self, Pinned};
use crate::ojs::{
    Class, Envelope, ErrorDocument, Operation, RoutingKind, Scope, jobs_within, path_segment, routing_within,
};
use crate::policy::{RegionIndex, RouteError, View, has_tags, permits};
use crate::proxy::{
    body::collect::collect,
    call::{
        address::admit_unjudged,
        ask::{Question, ask, question_headers},
        exchange::Exchange,
    },
    locate::find::{Located, locate},
    routing::plan::with_job,
    state::{Proxy, RegionAnswer, Reply},
};

/// An answer may echo a job and add to it: this much more than a request body may hold.
const ANSWER_EXTRA_BYTES: usize = 1024 * 1024;
/// Jobs of one call that are asked about at once.
const QUESTIONS: usize = 16;

/// A read whose answer is judged before it reaches the client.
#[derive(Debug)]
pub(crate) struct Guard {
    mode: ReadResidency,
    id: String,
    headers: HeaderMap,
    deadline: Instant,
    /// A change that is answered with the job: done by then, so that its answer is redacted and never refused.
    changes: bool,
}

/// Whether an item or answer of a region is about a job that may not be in the local region.
pub(crate) fn is_foreign(proxy: &Proxy, index: RegionIndex, piece: &[u8]) -> bool {
    let view = proxy.shared.registry.view();
    match residency::pinned(piece, view.region(view.local).id.as_str()) {
        Pinned::Elsewhere => true,
        Pinned::Unsaid => index != view.local,
        // A rule pins, too: for clients that cannot say so themselves.
        Pinned::No if is_tagged_elsewhere(&view, piece, proxy.shared.config.limits.json_depth) => true,
        Pinned::No if !view.settings.restricts() => false,
        Pinned::No => residency::job_in(piece).is_some_and(|job| {
            let Ok(job) = Envelope::read(job, proxy.shared.config.limits.json_depth) else { return true };
            let permitted = with_job(&job, |job| permits(&view, job, view.local));
            // A job that a rule cannot be applied to with certainty may be one of those that it keeps elsewhere.
            !permitted.unwrap_or_else(|error| !matches!(error, RouteError::Unclear { .. }))
        }),
    }
}

/// Whether a job within asks for tags that the local region lacks, or for tags that cannot be read.
fn is_tagged_elsewhere(view: &View, piece: &[u8], depth_max: usize) -> bool {
    let Ok(keys) = routing_within(piece, depth_max) else { return true };
    let mut tags = keys.iter().filter(|key| key.kind == RoutingKind::Tags);
    tags.any(|key| !key.value.as_deref().is_some_and(|tags| has_tags(view, tags, view.local)))
}

/// Whether a workflow or a cron job of a region holds a job that may not be in the local region, or one that cannot be
/// judged.
fn is_foreign_definition(proxy: &Proxy, index: RegionIndex, piece: &[u8]) -> bool {
    let view = proxy.shared.registry.view();
    let elsewhere = index != view.local;
    match residency::pinned(piece, view.region(view.local).id.as_str()) {
        Pinned::Elsewhere => return true,
        Pinned::Unsaid if elsewhere => return true,
        Pinned::Unsaid | Pinned::No => {}
    }
    if is_tagged_elsewhere(&view, piece, proxy.shared.config.limits.json_depth)
        || elsewhere && residency::has_data_alone(piece)
    {
        return true;
    }
    if !view.settings.restricts() {
        return false;
    }
    let Ok(found) = jobs_within(piece, proxy.shared.config.limits.json_depth) else { return true };
    found.envelopes.iter().any(|job| !with_job(job, |job| permits(&view, job, view.local)).unwrap_or(false))
}

/// As [`admit_unjudged`] for a call whose answer is streamed.
pub(crate) fn admit(proxy: &Proxy, exchange: &Exchange) -> Result<(), ErrorDocument> {
    let matched = &exchange.matched;
    let is_passed = matches!(matched.scope, Scope::Local | Scope::Tunnel | Scope::Scheduling);
    let is_unjudged = is_passed && matches!(matched.class, Class::Stream | Class::Other);
    if is_unjudged { admit_unjudged(proxy, exchange) } else { Ok(()) }
}

impl Guard {
    /// The guard of a call about one job, workflow or cron job, which then asks for an answer that can be read; `None` where reads are allowed, which
    /// is usual.
    pub(crate) fn of(proxy: &Proxy, exchange: &Exchange, request: &mut Request<IncomingBody>) -> Option<Self> {
        let config = &proxy.shared.config;
        let mode = config.residency.read;
        if mode == ReadResidency::Allow || exchange.matched.operation == Operation::JobSettle {
            return None;
        }
        request.headers_mut().remove(ACCEPT_ENCODING);
        Some(Self {
            mode,
            id: exchange.matched.named_in(request.uri().path()),
            headers: question_headers(exchange, request.headers()),
            deadline: Instant::now() + config.limits.call_timeout,
            changes: !matches!(*request.method(), Method::GET | Method::HEAD),
        })
    }

    /// Refuses an event stream of a job that may not be seen: a stream has no end at which it could be judged.
    ///
    /// Errors: 403 `residency`; those of a look-up when no region knows the job.
    pub(crate) async fn admit(&self, proxy: &Proxy, exchange: &Exchange) -> Result<(), ErrorDocument> {
        if exchange.matched.operation != Operation::JobEvents {
            return Ok(());
        }
        let located = match exchange.addressed {
            Some(index) => Located::At(index),
            None => locate(proxy, exchange, &self.headers, &self.id).await,
        };
        let index = match &located {
            Located::At(index) => Some(*index),
            Located::Nowhere(_) => None,
            // Where the call would go all the same.
            Located::Unsure(doubt) => doubt.left_or_shown(proxy),
        };
        match index {
            Some(index) if self.hides(proxy, index).await => Err(ErrorDocument::residency()),
            // The call itself finds out the same.
            Some(_) | None => Ok(()),
        }
    }

    /// Judges an answer.
    ///
    /// Errors: 403 `residency`; 503 when the answer broke off.
    pub(crate) async fn judge(
        &self,
        proxy: &Proxy,
        exchange: &Exchange,
        response: Response<Reply>,
    ) -> Result<Response<Reply>, ErrorDocument> {
        let region = exchange.region.as_ref().map(crate::base::RegionId::as_str);
        let index = region.and_then(|region| proxy.shared.registry.view().index_of(region));
        let judged = response.status().is_success() && exchange.matched.operation != Operation::JobEvents;
        let Some(index) = index.filter(|_| judged) else { return Ok(response) };
        let (mut parts, body) = response.into_parts();
        let bytes_max = proxy.shared.config.limits.body_bytes.saturating_add(ANSWER_EXTRA_BYTES);
        let share = proxy.shared.buffered.answer();
        let body = body.map_err(std::io::Error::other);
        let collected = collect(body, bytes_max, self.deadline, share).await;
        let body = collected.map_err(|_| ErrorDocument::owner_unavailable(region, 1))?.hold();
        let shows_job = residency::job_in(&body).is_some();
        let is_definition = matches!(exchange.matched.operation, Operation::Cron | Operation::Workflow);
        let hidden = match () {
            () if body.is_empty() => false,
            () if is_definition => is_foreign_definition(proxy, index, &body),
            () if shows_job => is_foreign(proxy, index, &body),
            () => self.hides(proxy, index).await,
        };
        if !hidden {
            return Ok(Response::from_parts(parts, Reply::full(body)));
        }
        if self.mode == ReadResidency::Deny && !self.changes {
            return Err(ErrorDocument::residency());
        }
        parts.headers.remove(CONTENT_LENGTH);
        parts.headers.remove(ETAG);
        Ok(Response::from_parts(parts, Reply::full(Bytes::from(residency::redacted(&body, None)))))
    }

    /// Whether the job itself, in this region, is one that may not be seen here.
    async fn hides(&self, proxy: &Proxy, index: RegionIndex) -> bool {
        hides(proxy, index, &self.id, &self.headers, self.deadline).await
    }
}

/// Asks a region for a job, to learn whether it may be seen here. A job that cannot be judged may not.
async fn hides(proxy: &Proxy, index: RegionIndex, id: &str, headers: &HeaderMap, deadline: Instant) -> bool {
    // The local region's own data is here already.
    if index == proxy.shared.registry.view().local {
        return false;
    }
    let Ok(path) = PathAndQuery::try_from(format!("/ojs/v1/jobs/{}", path_segment(id))) else { return true };
    match ask(proxy, Class::Job, index, Question::get(path, headers.clone(), deadline)).await {
        Ok(answer) if answer.status == StatusCode::OK && residency::job_in(&answer.body).is_some() => {
            is_foreign(proxy, index, &answer.body)
        }
        _ => true,
    }
}

/// The answer to a call about several jobs, without the results of those that may not be seen here.
pub(crate) async fn results(
    proxy: &Proxy,
    exchange: &Exchange,
    headers: &HeaderMap,
    mut answer: RegionAnswer,
) -> RegionAnswer {
    let mode = proxy.shared.config.residency.read;
    let are_results = exchange.matched.operation == Operation::JobResults;
    if mode == ReadResidency::Allow || !are_results || !answer.status.is_success() {
        return answer;
    }
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let ids = residency::ids_of_results(&answer.body);
    let hidden = ids.iter().map(|id| async move {
        match locate(proxy, exchange, headers, id).await {
            Located::At(index) => hides(proxy, index, id, headers, deadline).await,
            Located::Nowhere(_) | Located::Unsure(_) => true,
        }
    });
    let hidden: Vec<bool> = stream::iter(hidden).buffered(QUESTIONS).collect().await;
    if hidden.contains(&true) {
        answer.headers.remove(CONTENT_LENGTH);
        answer.body = Bytes::from(residency::results_without(&answer.body, &hidden, mode == ReadResidency::Deny));
    }
    answer
}
