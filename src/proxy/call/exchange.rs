//! One request and its outcome: the data for its answer's head, its counters and its access line.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::net::IncomingBody;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};

use super::header_flags::HeaderFlags;
use super::notes;
use crate::base::{RefusalReason, RegionId, Strategy};
use crate::config::JsonContentType;
use crate::journal::Note;
use crate::net::headers::number;
use crate::net::origin;
use crate::net::{ClientSide, ConnectionInfo};
use crate::ojs::header::{self, MEDIA_TYPE, MEDIA_TYPE_JSON};
use crate::ojs::{self, ErrorDocument, Matched};
use crate::policy::{RegionIndex, jittered};
use crate::proxy::state::{Proxy, Reply};
use crate::telemetry::{AccessEvent, AttemptOutcome, StatusClass};

/// A longer request id of a client is replaced by one of ours: it goes into every answer and log line.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// The media type for clients that cannot read the OJS one.
const JSON: HeaderValue = HeaderValue::from_static(MEDIA_TYPE_JSON);
const VERSION: HeaderValue = HeaderValue::from_static(header::VERSION);
/// The names of the strategies, each at its number.
static STRATEGIES: LazyLock<[HeaderValue; Strategy::ALL.len()]> =
    LazyLock::new(|| Strategy::ALL.map(|strategy| HeaderValue::from_static(strategy.as_str())));
const OJS_JSON: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);
/// The value of a header without anything to name, such as the region of an answer that no region gave; it is no valid
/// region id.
const NONE: HeaderValue = HeaderValue::from_static("none");

/// As many headers as an answer gets here, and the few that hyper adds.
const ADDED_HEADERS: usize = 8;

/// One request and its outcome.
#[derive(Debug)]
pub struct Exchange {
    /// The operation that the request matches.
    pub matched: Matched,
    /// The region that the client named, for reads and administration.
    pub addressed: Option<RegionIndex>,
    /// The allowed origin of the page that sent it, as a place in `listen.allowed_origins`.
    pub(crate) page: Option<usize>,
    /// The region that answered, or the last one that was tried.
    pub region: Option<RegionId>,
    /// Further regions that answered, where a call went to several.
    pub other_regions: Vec<RegionId>,
    /// The region that an enqueue was meant for, where the decision itself moved it elsewhere.
    pub moved_from: Option<RegionId>,
    /// The strategy that chose it, for an enqueue.
    pub strategy: Option<Strategy>,
    /// The tracking id of the job, for an enqueue.
    pub federation_id: Option<HeaderValue>,
    /// The note of the job, for an enqueue.
    pub(crate) note: Option<Box<Note>>,
    /// Tries at regions; `None` where the class of request has none.
    pub attempts: Option<u32>,
    /// How the last try ended.
    pub outcome: Option<AttemptOutcome>,
    /// Time spent waiting for regions.
    pub upstream: Duration,
    refusal: Option<RefusalReason>,
    /// The region that the refusal is about.
    refused_for: Option<RegionIndex>,
    vanished: bool,
    /// Whether the call may be repeated while its record is in memory only.
    pub(crate) volatile: bool,
    method: Method,
    request_id: HeaderValue,
    wants_json: bool,
    /// The headers that it came with.
    pub(crate) header_flags: HeaderFlags,
    connection: ConnectionInfo,
    started: Instant,
}

impl Exchange {
    pub(crate) fn begin(proxy: &Proxy, request: &Request<IncomingBody>, connection: ConnectionInfo) -> Self {
        let headers = request.headers();
        let header_flags = HeaderFlags::of(headers);
        Self {
            matched: ojs::identify(request.method(), request.uri().path()),
            addressed: None,
            page: None,
            region: None,
            other_regions: Vec::new(),
            moved_from: None,
            strategy: None,
            federation_id: None,
            note: None,
            attempts: None,
            outcome: None,
            upstream: Duration::ZERO,
            refusal: None,
            refused_for: None,
            vanished: false,
            volatile: false,
            method: request.method().clone(),
            request_id: request_id(proxy, header_flags, headers),
            wants_json: wants_json(proxy.shared.config.compat.json_content_type, header_flags, headers),
            header_flags,
            connection,
            started: Instant::now(),
        }
    }

    /// The exchange of a call that this one makes itself, for the same client.
    #[must_use]
    pub fn within(&self, proxy: &Proxy, request: &Request<IncomingBody>) -> Self {
        Self::begin(proxy, request, self.connection.clone())
    }

    /// The id of the request, echoed or minted, as a header value that is also visible ASCII text.
    #[must_use]
    pub const fn request_id(&self) -> &HeaderValue {
        &self.request_id
    }

    /// Whether its method changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }

    /// When its head was there.
    #[must_use]
    pub const fn started(&self) -> Instant {
        self.started
    }

    /// The client's side of the connection, for work that ends when the client disconnects.
    #[must_use]
    pub const fn client(&self) -> &ClientSide {
        &self.connection.client
    }

    /// Whether it came by a Unix socket.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        self.connection.is_unix()
    }

    /// Records that the client disconnected: the answer reaches no client, and counts as no error.
    pub const fn vanished(&mut self) {
        self.vanished = true;
    }

    /// Answers with an error document of ours. `Retry-After` is jittered for each answer, so that refused clients do
    /// not return together.
    #[must_use]
    pub fn refuse(&mut self, proxy: &Proxy, document: &ErrorDocument) -> Response<Reply> {
        self.refusal = (!self.vanished).then(|| document.label());
        self.refused_for = document.region().and_then(|region| proxy.shared.registry.view().index_of(region.as_str()));
        let id = self.request_id.to_str().unwrap_or_default();
        let mut response = self.json(document.status.as_u16(), document.to_json(id));
        // The rest of such a body is not read, so that no request can follow it.
        let breaks_off = matches!(document.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT);
        if breaks_off || self.refusal == Some(RefusalReason::Overloaded) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if document.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(allow) = document.allow() {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(seconds) = document.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(jittered(seconds, &mut proxy.random.draw())));
        }
        response
    }

    /// Answers with a JSON document of ours.
    #[must_use]
    pub fn json(&self, status: u16, body: Vec<u8>) -> Response<Reply> {
        let mut response = Response::new(Reply::full(body));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, OJS_JSON);
        response
    }

    /// Completes an answer: the headers that every answer carries, the counters, the access line. Called once; by value the whole exchange
    /// would be copied for it.
    #[must_use]
    pub fn finish(&mut self, proxy: &Proxy, mut response: Response<Reply>) -> Response<Reply> {
        let (metrics, class) = (&proxy.shared.metrics, self.matched.class.index());
        let duration = self.started.elapsed();
        let status = if self.vanished { 0 } else { response.status().as_u16() };
        if self.vanished {
            metrics.requests[class][StatusClass::Vanished].inc();
        } else {
            metrics.request(class, status);
        }
        metrics.overhead[class].observe(duration.saturating_sub(self.upstream).as_secs_f64());
        if let Some(reason) = self.refusal {
            let of_pin = self.refused_for.and_then(|index| proxy.metrics(index).refused(reason));
            of_pin.unwrap_or(&metrics.refusals[reason]).inc();
        }
        let note = self.note.take();
        let access = AccessEvent {
            request_id: self.request_id.as_bytes(),
            method: self.method.as_str(),
            operation: self.matched.operation.as_str(),
            status,
            region: self.region.as_ref().map(RegionId::as_str),
            moved_from: self.moved_from.as_ref().map(RegionId::as_str),
            strategy: self.strategy,
            attempts: self.attempts.unwrap_or_else(|| u32::from(self.outcome.is_some())),
            outcome: self.outcome,
            refusal: self.refusal,
            duration,
            upstream: self.upstream,
        };
        notes::end(proxy, &access, note);
        // The version is that of the connection that the answer leaves by. Spec: RFC 9110 §6.2.
        *response.version_mut() = Version::HTTP_11;
        self.complete_headers(proxy, response.headers_mut());
        response
    }

    /// The regions that had a part in the answer, as a header.
    fn regions(&self, proxy: &Proxy) -> Option<HeaderValue> {
        let region = self.region.as_ref()?;
        if self.other_regions.is_empty() {
            return proxy.last_seen.region_value(region);
        }
        let all: Vec<&str> = std::iter::once(region).chain(&self.other_regions).map(RegionId::as_str).collect();
        HeaderValue::from_str(&all.join(", ")).ok()
    }

    fn complete_headers(&mut self, proxy: &Proxy, headers: &mut HeaderMap) {
        // At once, so that the map grows at most once, and for all answers of a connection: it is used again and again.
        headers.reserve(ADDED_HEADERS);
        let retry_after = headers.keys().any(|name| *name == RETRY_AFTER);
        headers.entry(header::OJS_VERSION).or_insert(VERSION);
        headers.insert(header::FEDERATION_REGION, self.regions(proxy).unwrap_or(NONE));
        headers.insert(header::REQUEST_ID, std::mem::replace(&mut self.request_id, NONE));
        if let Some(attempts) = self.attempts {
            headers.insert(header::FEDERATION_ATTEMPTS, number(attempts.into()));
        }
        if let Some(strategy) = self.strategy {
            headers.insert(header::FEDERATION_STRATEGY, STRATEGIES[strategy.index()].clone());
        }
        if let Some(id) = self.federation_id.take() {
            headers.insert(header::FEDERATION_ID, id);
        }
        if self.volatile {
            headers.insert(header::FEDERATION_DURABLE, HeaderValue::from_static("false"));
        }
        if self.wants_json && headers.get(CONTENT_TYPE).is_some_and(is_ojs_media_type) {
            headers.insert(CONTENT_TYPE, JSON);
        }
        if let Some(origin) = self.page.and_then(|place| proxy.shared.config.listen.allowed_origins.get(place)) {
            origin::show(origin, headers);
        }
        if retry_after && proxy.shared.config.compat.retry_after {
            mend_retry_after(headers, || proxy.shared.registry.clock().unix_ms());
        }
    }
}

fn request_id(proxy: &Proxy, header_flags: HeaderFlags, headers: &HeaderMap) -> HeaderValue {
    let given = if header_flags.has(HeaderFlags::REQUEST_ID) { headers.get(header::REQUEST_ID) } else { None };
    let echoed = given
        .filter(|id| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    if let Some(id) = echoed {
        return id.clone();
    }
    let uuid = ojs::federation_id(proxy.shared.registry.clock().unix_ms_about(), proxy.random.uuid_bits());
    let mut id = *b"req_00000000-0000-0000-0000-000000000000";
    if let Some(letters) = id.last_chunk_mut() {
        *letters = *uuid.letters();
    }
    // Its copies, in the request, the answer and the journal, share these bytes.
    HeaderValue::from_maybe_shared(Bytes::from_owner(id)).unwrap_or(NONE)
}

fn wants_json(setting: JsonContentType, header_flags: HeaderFlags, headers: &HeaderMap) -> bool {
    match setting {
        JsonContentType::Always => true,
        JsonContentType::Never => false,
        // The Python SDK reads only types that contain `application/json`.
        JsonContentType::Auto => {
            header_flags.has(HeaderFlags::USER_AGENT)
                && headers.get(USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"python-httpx/"))
        }
    }
}

/// Makes a region's `Retry-After` one that every client can read; of several lines the first counts.
fn mend_retry_after(headers: &mut HeaderMap, now_ms: impl FnOnce() -> u64) {
    if let Some(value) = headers.get(RETRY_AFTER) {
        let seconds = ojs::retry_after_seconds(value.as_bytes(), now_ms());
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

fn is_ojs_media_type(value: &HeaderValue) -> bool {
    value.as_bytes().get(..MEDIA_TYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()))
}
