//! The errors that always say the same.

use super::ErrorDocument;
use crate::base::Reason;

/// `name: reason at field as catalogue code, message;`
macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $reason:ident $(at $field:literal)? $(as $code:literal)?, $message:literal;)+) => {
        impl ErrorDocument {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name() -> Self {
                Self::new(Reason::$reason, $message)$(.with("field", $field))?$(.with("ojs_code", $code))?
            }
        )+}
    };
}

fixed! {
    /// 400: the call names two regions.
    address_unclear: AddressUnclear at "OJS-Federation-Region",
        "the call names two different regions in `OJS-Federation-Region` and `?region=`; name one";
    /// 400: the count of sidecars that the call has passed is none.
    hops_unreadable: HopsUnreadable at "OJS-Federation-Hops",
        "`OJS-Federation-Hops` is set by sidecars and holds one number of at most three digits: leave it out";
    /// 400: a call that does not take a region names one.
    not_addressable: NotAddressable at "OJS-Federation-Region",
        "`OJS-Federation-Region` and `?region=` address reads and administration; where a job goes is said by the \
         job itself (`ojs.federation.region` in its `meta`), and what workers say goes to the region that holds the \
         job: leave them out";
    /// 400: the event stream is asked for a channel that no server has.
    unknown_channel: UnknownChannel at "channel",
        "the event stream needs one `channel`, which is `job:` and the id of a job, or `queue:` and the name of a \
         queue";
    /// 400: a list cannot be continued there.
    bad_cursor: InvalidCursor at "cursor",
        "the cursor is damaged, or was given for another list or by one region alone; read the list from its \
         beginning";
    /// 403: the job is pinned to another region, and the operator does not let it be read here.
    residency: Residency,
        "the job is pinned to another region than this sidecar's, and `residency.read` does not let it be read here; \
         read it in its own region";
    /// 403: all queues of a FETCH are those of isolated pools of other workers. Spec: fair-scheduling 6.3.
    pool_isolated: PoolIsolated at "queues",
        "all `queues` of this call belong to isolated pools, and this worker is of none of them; fetch from other queues, or have the \
         worker belong to the pool: by `scheduling.pool` of its sidecar, or by `pool` in the call";
    /// 400: the job asks for `geo-pin` and names no region.
    pin_without_region: InvalidFederationMeta at "ojs.federation.region" as "OJS-1004",
        "`geo-pin` needs `ojs.federation.region`; name the region, or ask for another strategy";
    /// 400: a client set `replicated_from`, and the operator refuses that.
    client_replicated_from: InvalidFederationMeta at "ojs.federation.replicated_from" as "OJS-1004",
        "`ojs.federation.replicated_from` is set by replication and not by clients; leave it out";
    /// 415: an interpreted body in a coding that is not read.
    content_encoding: ContentEncoding at "Content-Encoding",
        "the only `Content-Encoding` that is read here is one `gzip`; send the body so, or uncompressed";
    /// 400: a body that does not have the coding of its `Content-Encoding`.
    no_gzip: NoGzip at "Content-Encoding",
        "the body is not one complete gzip document, as its `Content-Encoding` says; compress it again, or send it \
         uncompressed";
    /// 400: a creating call whose path could be read in two ways.
    ambiguous_path: AmbiguousPath,
        "write the path plainly: no overlong UTF-8 and no `%u` escapes, and in a call that creates jobs no doubled \
         or trailing slashes, dot segments or percent-encoding";
    /// 400: a header names another method or path than the request line.
    restated_request: RestatedRequest,
        "a header such as `X-HTTP-Method-Override` or `X-Original-URL` names a method or a path beside the request \
         line, and servers differ in which they follow; leave it out and call with the method and path that are \
         meant";
    /// 400: the `Idempotency-Key` cannot be one.
    idempotency_key_invalid: IdempotencyKeyInvalid at "Idempotency-Key",
        "`Idempotency-Key` must be there once and have 1 to 255 bytes; send one key a call, such as a UUID";
    /// 409: the `Idempotency-Key` came before with another body.
    idempotency_key_reused: IdempotencyKeyReused at "Idempotency-Key",
        "this `Idempotency-Key` came before with another body, and nothing was sent; send a new key for a new job, \
         or the first body again";
    /// 400: the query of `GET /v1/federation/outcomes` has an unknown parameter or value.
    outcomes_query: OutcomesQuery,
        "expected `state` (one of open, unknown, watched, stored, absent, doubled, expired), `job_id`, \
         `federation_id`, `region`, `limit` (1 to 1000) and `cursor` (`next_cursor` of an earlier answer); without \
         any, the newest of all are shown";
    /// 400: the query of `GET /v1/federation/decisions` does not name one job.
    decisions_query: DecisionsQuery,
        "expected exactly one of `job_id`, `federation_id` and `request_id`, with an id of at most 256 bytes, and \
         nothing else; name the job as its client knows it";
    /// 400: the question for a job in the index does not name one.
    index_query: IndexQuery,
        "expected `/v1/federation/jobs/FEDERATION_ID`, or the query `job_id=ID` and nothing else, with an id of 1 to 255 bytes without control \
         characters";
    /// 404: the index has no such job.
    job_not_indexed: JobNotIndexed,
        "the index of the hub has no such job: no sidecar has reported it and no event has shown it, or the index has forgotten it after its `retention`";
    /// 404: there is no index to be asked.
    no_index: NoIndex,
        "there is no index of jobs: set `hub` in this sidecar's configuration, and `index` in that of its hub";
    /// 400: the figures of pools are asked for in a scope that there is not.
    scope_unknown: ScopeUnknown at "X-Scope",
        "expected one `X-Scope`, which is `sidecar` or `fleet`; without it the figures are those of this sidecar";
    /// 404: there is no hub to be asked for the figures of the fleet.
    no_fleet_figures: NoFleetFigures,
        "there are no figures of the fleet without a hub: set `hub` in this sidecar's configuration, or leave `X-Scope: fleet` out";
    /// 404: the hub has no figures of the fleet.
    hub_without_figures: NoFleetFigures,
        "the hub of this sidecar is of an earlier version, which has no figures of the fleet: upgrade it, or leave `X-Scope: fleet` out";
    /// 421: the `Host` is not one that this listener answers to, which stops DNS rebinding.
    misdirected_host: HostNotAllowed,
        "the `Host` header is neither a loopback name nor one of `listen.allowed_hosts`; call the sidecar as \
         localhost, or add the name";
    /// 403: a web page of another origin sent it. Spec: Fetch 3.2, Fetch Metadata 2.3.
    cross_origin: CrossOrigin,
        "a web page of another origin sent this request (`Origin`, `Sec-Fetch-Site`); nothing was done. Serve the \
         page from one of `listen.allowed_origins`, or add its origin there";
    /// 408: the head or the body did not arrive in time.
    request_timeout: RequestTimeout,
        "the request did not arrive completely in time; send it again on a new connection";
    /// 414: the target of the request is too long.
    uri_too_long: UriTooLong,
        "the request target is too long; shorten the path and the query";
    /// 431: the head of the request is too large.
    head_too_large: HeadTooLarge,
        "the request head has too many bytes or lines; send fewer or shorter headers";
    /// 505: not HTTP/1.0 or HTTP/1.1.
    version_not_supported: HttpVersion,
        "this listener speaks HTTP/1.1 and HTTP/1.0; use one of them";
    /// 503: the call has waited for another one, or for a region's word, until there was no time left to send it.
    no_time_left: NoTimeLeft,
        "the call waited for an earlier one until its time was nearly over; nothing was sent, try again";
    /// 503: a call that may be repeated cannot be recorded, and `journal.required` is set.
    journal_unavailable: JournalUnavailable,
        "the journal's file cannot be written, so after a restart a repetition of this call would not be recognised; \
         nothing was stored, try again";
    /// 400: a pin is no text.
    pin_is_no_text: InvalidFederationMeta at "ojs.federation.region" as "OJS-1004",
        "`ojs.federation.region` must be a string; name one region, or leave it out";
    /// 400: a bulk enqueue that must be split does not say how much of it may fail.
    unknown_atomicity: UnknownAtomicity at "atomicity",
        "`atomicity` must be `partial` or `atomic`, because this call is split over regions; nothing was sent";
    /// 400: two tenants are named.
    tenants_differ: TenantsDiffer at "meta.tenant_id",
        "`meta.tenant_id` and the headers `X-OJS-Tenant` and `X-OJS-Tenant-Id` must name one tenant, as text; send \
         it in one of them, or the same in all";
    /// 400: no region that the job may go to has the tags that it asks for.
    no_region_with_tags: InvalidFederationMeta at "ojs.federation.regions_with" as "OJS-1004",
        "no region that the job may go to has all tags of `ojs.federation.regions_with`; ask for at most four, with \
         commas between, that `GET /v1/federation/regions` shows";
}
