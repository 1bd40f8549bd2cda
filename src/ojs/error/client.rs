//! The errors that a client can mend.

use std::borrow::Cow;

use serde_json::json;

use super::ErrorDocument;
use crate::base::{Reason, UnknownStrategy};
use crate::ojs::fault::Fault;

/// Refusals of what the client sent.
impl ErrorDocument {
    /// 400: the body cannot be accepted.
    #[must_use]
    pub fn from_fault(fault: &Fault) -> Self {
        let ojs_code = if fault.reason == Reason::InvalidFederationMeta { "OJS-1004" } else { "OJS-1000" };
        Self::new(fault.reason, fault.message.clone()).with("field", fault.field.as_ref()).with("ojs_code", ojs_code)
    }

    /// 400: the pin names a region that is not registered. Spec: federation-spec §3.3.
    #[must_use]
    pub fn unknown_region<'a>(region: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::new(Reason::RegionUnknown,
            "the job is pinned to a region that is not registered here; use one of `details.known_regions`, or add the region \
             to the sidecar's configuration",
        )
        .with_region(region)
        .with("known_regions", json!(known))
        .with("ojs_code", "OJS-1004")
    }

    /// 400: the call names a region that is not registered. Spec: federation-spec §3.3.
    #[must_use]
    pub fn unknown_address<'a>(region: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        Self::new(
            Reason::RegionUnknown,
            "the call names a region that is not registered here; use one of `details.known_regions`",
        )
        .with_region(region)
        .with("known_regions", json!(known))
        .with("field", "OJS-Federation-Region")
    }

    /// 400: the call names two regions.
    #[must_use]
    pub fn address_unclear() -> Self {
        Self::new(
            Reason::AddressUnclear,
            "the call names two different regions in `OJS-Federation-Region` and `?region=`; name one",
        )
        .with("field", "OJS-Federation-Region")
    }

    /// 400: the count of sidecars that the call has passed is none.
    #[must_use]
    pub fn hops_unreadable() -> Self {
        Self::new(
            Reason::HopsUnreadable,
            "`OJS-Federation-Hops` is set by sidecars and holds one number of at most three digits: leave it out",
        )
        .with("field", "OJS-Federation-Hops")
    }

    /// 400: a call that does not take a region names one.
    #[must_use]
    pub fn not_addressable() -> Self {
        Self::new(Reason::NotAddressable,
            "`OJS-Federation-Region` and `?region=` address reads and administration; where a job goes is said by the job itself \
             (`ojs.federation.region` in its `meta`), and what workers say goes to the region that holds the job: leave them out",
        )
        .with("field", "OJS-Federation-Region")
    }

    /// 400: the event stream is asked for a channel that no server has.
    #[must_use]
    pub fn unknown_channel() -> Self {
        Self::new(Reason::UnknownChannel,
            "the event stream needs one `channel`, which is `job:` and the id of a job, or `queue:` and the name of a queue",
        )
        .with("field", "channel")
    }

    /// 400: a list cannot be continued there.
    #[must_use]
    pub fn bad_cursor() -> Self {
        Self::new(Reason::InvalidCursor,
            "the cursor is damaged, or was given for another list or by one region alone; read the list from its beginning",
        )
        .with("field", "cursor")
    }

    /// 403: the job is pinned to another region, and the operator does not let it be read here.
    #[must_use]
    pub fn residency() -> Self {
        Self::new(
            Reason::Residency,
            "the job is pinned to another region than this sidecar's, and `residency.read` does not let it be read here; read it \
             in its own region",
        )
    }

    /// 400: no strategy has the name that the job asks for.
    #[must_use]
    pub fn unknown_strategy() -> Self {
        Self::new(
            Reason::InvalidFederationMeta,
            format!("`ojs.federation.region_affinity` names no strategy: {}", UnknownStrategy),
        )
        .with("field", "ojs.federation.region_affinity")
        .with("ojs_code", "OJS-1004")
    }

    /// 400: the job asks for `geo-pin` and names no region.
    #[must_use]
    pub fn pin_without_region() -> Self {
        Self::new(
            Reason::InvalidFederationMeta,
            "`geo-pin` needs `ojs.federation.region`; name the region, or ask for another strategy",
        )
        .with("field", "ojs.federation.region")
        .with("ojs_code", "OJS-1004")
    }

    /// 403: a routing rule of the operator does not permit the region that the job is pinned to.
    #[must_use]
    pub fn pin_not_permitted(region: &str) -> Self {
        Self::new(Reason::PinNotPermitted,
            "a routing rule of this sidecar does not permit the region that the job is pinned to; change the pin, or ask the \
             operator to change `routing.rules`",
        )
        .with_region(region)
    }

    /// 400: a rule reads a member of the job that servers could read in another way.
    #[must_use]
    pub fn unclear_member(field: &str) -> Self {
        let message = format!(
            "a routing rule of this sidecar reads `{field}`, which servers could read in another way: it is repeated, differs between \
             the job and its `options`, or is no text; send it once, or the same in both places"
        );
        Self::new(Reason::AmbiguousMember, message).with("field", field).with("ojs_code", "OJS-1000")
    }

    /// 400: a client set `replicated_from`, and the operator refuses that.
    #[must_use]
    pub fn client_replicated_from() -> Self {
        Self::new(
            Reason::InvalidFederationMeta,
            "`ojs.federation.replicated_from` is set by replication and not by clients; leave it out",
        )
        .with("field", "ojs.federation.replicated_from")
        .with("ojs_code", "OJS-1004")
    }

    /// 400: a job has undefined keys under `ojs.federation.`, and the operator refuses them. `keys`: as the client wrote them.
    #[must_use]
    pub fn unknown_federation_keys(keys: &[Cow<'_, str>]) -> Self {
        Self::new(Reason::InvalidFederationMeta,
            "the job has keys under `ojs.federation.` that are not defined, which this sidecar refuses; leave them out, or choose \
             names that do not begin with `ojs.federation.`",
        )
        .with("field", "meta")
        .with("keys", keys)
    }

    /// 415: an interpreted body in a coding that is not read.
    #[must_use]
    pub fn content_encoding() -> Self {
        Self::new(
            Reason::ContentEncoding,
            "the only `Content-Encoding` that is read here is one `gzip`; send the body so, or uncompressed",
        )
        .with("field", "Content-Encoding")
    }

    /// 400: a body that is not what its `Content-Encoding` says.
    #[must_use]
    pub fn no_gzip() -> Self {
        Self::new(Reason::NoGzip,
            "the body is not one complete gzip document, as its `Content-Encoding` says; compress it again, or send it uncompressed",
        )
        .with("field", "Content-Encoding")
    }

    /// 413: a compressed body that grows too much.
    #[must_use]
    pub fn compression_ratio(ratio_max: usize) -> Self {
        Self::new(
            Reason::CompressionRatio,
            format!("the body grows to more than 1 MiB and more than {ratio_max} times its size; send it uncompressed"),
        )
    }

    /// 400: a creating call whose path could be read in two ways.
    #[must_use]
    pub fn ambiguous_path() -> Self {
        Self::new(
            Reason::AmbiguousPath,
            "write the path plainly: no overlong UTF-8 and no `%u` escapes, and in a call that creates jobs no doubled or trailing \
             slashes, dot segments or percent-encoding",
        )
    }

    /// 400: a header names another method or path than the request line.
    #[must_use]
    pub fn restated_request() -> Self {
        Self::new(
            Reason::RestatedRequest,
            "a header such as `X-HTTP-Method-Override` or `X-Original-URL` names a method or a path beside the request line, and \
             servers differ in which they follow; leave it out and call with the method and path that are meant",
        )
    }

    /// 400: the `Idempotency-Key` cannot be one.
    #[must_use]
    pub fn idempotency_key_invalid() -> Self {
        Self::new(
            Reason::IdempotencyKeyInvalid,
            "`Idempotency-Key` must be there once and have 1 to 255 bytes; send one key a call, such as a UUID",
        )
        .with("field", "Idempotency-Key")
    }

    /// 409: the `Idempotency-Key` came before with another body.
    #[must_use]
    pub fn idempotency_key_reused() -> Self {
        Self::new(Reason::IdempotencyKeyReused,
            "this `Idempotency-Key` came before with another body, and nothing was sent; send a new key for a new job, or the \
             first body again",
        )
        .with("field", "Idempotency-Key")
    }

    /// 400: the query of `GET /v1/federation/outcomes` names what there is not.
    #[must_use]
    pub fn outcomes_query() -> Self {
        Self::new(
            Reason::OutcomesQuery,
            "expected `state` (one of open, unknown, watched, stored, absent, doubled, expired), `job_id`, `federation_id`, `region`, \
             `limit` (1 to 1000) and `cursor` (`next_cursor` of an earlier answer); without any, the newest of all are shown",
        )
    }

    /// 400: the query of `GET /v1/federation/decisions` does not name one job.
    #[must_use]
    pub fn decisions_query() -> Self {
        Self::new(
            Reason::DecisionsQuery,
            "expected exactly one of `job_id`, `federation_id` and `request_id`, with an id of at most 256 bytes, and nothing else; name \
             the job as its client knows it",
        )
    }

    /// 413: an interpreted body above the bound.
    #[must_use]
    pub fn body_too_large(limit: usize) -> Self {
        Self::new(
            Reason::BodyTooLarge,
            format!("the body is longer than {limit} bytes; send less, or raise `limits.body_bytes`"),
        )
        .with("limit_bytes", limit)
    }

    /// 421: the `Host` is not one that this listener answers to, which stops DNS rebinding.
    #[must_use]
    pub fn misdirected_host() -> Self {
        Self::new(
            Reason::HostNotAllowed,
            "the `Host` header is neither a loopback name nor one of `listen.allowed_hosts`; call the sidecar as localhost, or \
             add the name",
        )
    }

    /// 403: a web page of another origin sent it. Spec: Fetch 3.2, Fetch Metadata 2.3.
    #[must_use]
    pub fn cross_origin() -> Self {
        Self::new(
            Reason::CrossOrigin,
            "a web page of another origin sent this request (`Origin`, `Sec-Fetch-Site`); nothing was done. Serve the page from one of \
             `listen.allowed_origins`, or add its origin there",
        )
    }

    /// 404: no such path here.
    #[must_use]
    pub fn not_found(path: &str) -> Self {
        let shown: String = path.chars().take(200).collect();
        Self::new(
            Reason::NoSuchPath,
            "there is no such path here; the OJS API is below /ojs/v1, the federation API below /v1/federation",
        )
        .with("path", shown)
    }

    /// 405: the path is known, with other methods; `allow` is for the `Allow` header too.
    #[must_use]
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("this path answers to {allow}; use that method");
        Self { allow: Some(allow), ..Self::new(Reason::MethodNotAllowed, message) }
    }
}

/// Refusals of a request head, before there is a request.
impl ErrorDocument {
    /// 400: the request is not strict HTTP/1.1.
    #[must_use]
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Reason::MalformedRequest, message)
    }

    /// 408: the head or the body did not arrive in time.
    #[must_use]
    pub fn request_timeout() -> Self {
        Self::new(
            Reason::RequestTimeout,
            "the request did not arrive completely in time; send it again on a new connection",
        )
    }

    /// 414: the target of the request is too long.
    #[must_use]
    pub fn uri_too_long() -> Self {
        Self::new(Reason::UriTooLong, "the request target is too long; shorten the path and the query")
    }

    /// 431: the head of the request is too large.
    #[must_use]
    pub fn head_too_large() -> Self {
        Self::new(Reason::HeadTooLarge, "the request head has too many bytes or lines; send fewer or shorter headers")
    }

    /// 505: not HTTP/1.0 or HTTP/1.1.
    #[must_use]
    pub fn version_not_supported() -> Self {
        Self::new(Reason::HttpVersion, "this listener speaks HTTP/1.1 and HTTP/1.0; use one of them")
    }
}
