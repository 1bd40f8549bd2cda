//! Every error that this program answers with, in one table.
//!
//! A row determines the error's status, its code, its word in `details.reason`, its label in the metrics and its line in
//! `docs/reference/errors.md`.
//! Control flow matches on the variants, so that a word can change without any decision.

use http::StatusCode;

use super::words::words;

words! {
    /// The `code` of an error document.
    Code {
        /// The request is wrong.
        InvalidRequest = "invalid_request",
        /// The body is wrong.
        InvalidPayload = "invalid_payload",
        /// A body above the bound.
        PayloadTooLarge = "payload_too_large",
        /// Nothing is there.
        NotFound = "not_found",
        /// A policy of the operator forbids it.
        Forbidden = "forbidden",
        /// Something of this name or id is there already.
        Duplicate = "duplicate",
        /// The state of the job does not permit it.
        Conflict = "conflict",
        /// Too much at once.
        RateLimited = "rate_limited",
        /// We do not do this, or not yet.
        Unsupported = "unsupported",
        /// A region, or we ourselves, could not do it now.
        BackendError = "backend_error",
    }

    /// Why the sidecar answered a request with an error of its own.
    RefusalReason {
        /// The body is no job: malformed, nested too deep, not JSON.
        InvalidPayload = "invalid_payload",
        /// The federation attributes, the path or a header cannot be followed.
        InvalidRequest = "invalid_request",
        /// The job names a region that is not registered.
        UnknownRegion = "unknown_region",
        /// A rule forbids the region that the job is pinned to.
        NotPermitted = "not_permitted",
        /// The pinned region cannot be used now.
        RegionUnavailable = "region_unavailable",
        /// No permitted region can be used now.
        NoHealthyRegion = "no_healthy_region",
        /// The region that holds the job cannot be reached.
        OwnerUnavailable = "owner_unavailable",
        /// A further region was left, but the retry budget was spent.
        RetryBudget = "retry_budget",
        /// A call that may be repeated could not be recorded, and `journal.required` is set.
        JournalUnavailable = "journal_unavailable",
        /// A job cannot be put behind those of its queue in the outage spool, or one that is in there cannot be changed now.
        Spool = "spool",
        /// The hub could not claim an `Idempotency-Key`, and `idempotency.on_hub_loss` is `refuse`; or a spoke that does not hear its hub was to
        /// use another region.
        HubUnavailable = "hub_unavailable",
        /// An enqueue may or may not have been stored.
        OutcomeUnknown = "outcome_unknown",
        /// A region did not answer a call in time.
        Timeout = "timeout",
        /// The call cannot be federated.
        Unsupported = "unsupported",
        /// The body is over the cap.
        BodyTooLarge = "body_too_large",
        /// The `Host` is not one of ours.
        Misdirected = "misdirected",
        /// A web page of a foreign origin sent it.
        CrossOrigin = "cross_origin",
        /// No such path or method of our own.
        NotFound = "not_found",
        /// An acknowledgement came when the lease was over and another worker may have the job.
        LeaseLost = "lease_lost",
        /// Too many connections or requests at once.
        Overloaded = "overloaded",
        /// The grant of a fleet limit is used up.
        FleetLimit = "fleet_limit",
        /// An operator has set a bound on the calls to a region.
        Throttled = "throttled",
        /// An operator has paused the type or the tenant of a new job.
        SourcePaused = "source_paused",
        /// The quota of the job has no token for it.
        QuotaExceeded = "quota_exceeded",
        /// A breaker has stopped the type of the job.
        TypeStopped = "type_stopped",
        /// The process is about to end.
        Draining = "draining",
        /// The call has passed as many sidecars as it may.
        TooManyHops = "too_many_hops",
        /// A defect of the sidecar.
        Internal = "internal",
    }
}

impl Code {
    /// The label of an error of this code whose reason has none of its own.
    #[must_use]
    pub const fn label(self) -> RefusalReason {
        match self {
            Self::InvalidPayload => RefusalReason::InvalidPayload,
            Self::InvalidRequest | Self::Duplicate | Self::Conflict => RefusalReason::InvalidRequest,
            Self::PayloadTooLarge => RefusalReason::BodyTooLarge,
            Self::NotFound => RefusalReason::NotFound,
            Self::Forbidden => RefusalReason::NotPermitted,
            Self::Unsupported => RefusalReason::Unsupported,
            Self::RateLimited | Self::BackendError => RefusalReason::Internal,
        }
    }
}

/// A row of the table.
struct Row {
    status: StatusCode,
    code: Code,
    word: &'static str,
    label: Option<RefusalReason>,
    meaning: &'static str,
}

/// `status code { variant = word in label: meaning }`; without a label of its own, an error has that of its code.
macro_rules! reasons {
    ($($status:ident $code:ident { $($reason:ident = $word:literal $(in $label:ident)?: $meaning:literal,)+ })+) => {
        /// Why this program answers with an error of its own. A word of two rows has two statuses or codes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[doc = $meaning] $reason,)+)+ }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Self] = &[$($(Self::$reason,)+)+];

            const fn row(self) -> Row {
                let (status, code, word, label, meaning) = match self {
                    $($(Self::$reason => (StatusCode::$status, Code::$code, $word, reasons!(@$($label)?), $meaning),)+)+
                };
                Row { status, code, word, label, meaning }
            }
        }
    };
    (@) => { None };
    (@$label:ident) => { Some(RefusalReason::$label) };
}

reasons! {
    MULTI_STATUS BackendError {
        PartRefused = "part_refused": "in items of a bulk enqueue: the region refused its part as a whole",
    }
    BAD_REQUEST InvalidPayload {
        MalformedJson = "malformed_json": "the body is not valid JSON",
        TooDeep = "too_deep": "it is nested deeper than `limits.json_depth`",
        BodyNotAnObject = "not_an_object": "the body is no object",
    }
    BAD_REQUEST InvalidRequest {
        NotAnObject = "not_an_object": "`meta`, `options` or `options.metadata` is no object",
        AmbiguousMember = "ambiguous_member": "a member that decides about routing is there twice, or in another case",
        InvalidFederationMeta = "invalid_federation_meta":
            "an `ojs.federation.*` key cannot be followed, or contradicts another",
        RegionUnknown = "region_unknown" in UnknownRegion:
            "pinned to a region that is not registered; `details.known_regions` has those that are",
        NoGzip = "content_encoding": "the body is not the gzip document that its `Content-Encoding` announces",
        HopsUnreadable = "hops_unreadable":
            "`OJS-Federation-Hops`, which sidecars set, is there twice or is no number of at most three digits",
        AddressUnclear = "address_unclear": "`OJS-Federation-Region` and `?region=` name two regions",
        NotAddressable = "not_addressable": "a call that is no read and no administration names a region",
        InvalidCursor = "invalid_cursor":
            "a list cannot be continued there: the cursor is damaged, or was given for another list or by one region",
        UnknownChannel = "unknown_channel":
            "an event stream is asked for whose channel is neither `job:ID` nor `queue:NAME`",
        AmbiguousPath = "ambiguous_path": "the path of a call that creates jobs is not written plainly",
        RestatedRequest = "restated_request":
            "a header such as `X-HTTP-Method-Override` restates the method or the path",
        TooManyObjects = "too_many_objects": "more jobs or keys in one call than are looked at",
        MalformedRequest = "malformed_request": "not strict HTTP/1.1",
        MixedBatch = "mixed_batch":
            "jobs that must go to different regions, and `batch.mixed` is `reject`; `details.regions` has them",
        ContradictingPins = "contradicting_pins":
            "parts of what goes to one region are bound to different ones; `details.places` has them",
        UnknownAtomicity = "unknown_atomicity": "a bulk enqueue that must be split is neither `partial` nor `atomic`",
        IdempotencyKeyInvalid = "idempotency_key_invalid":
            "`Idempotency-Key` is there twice, is empty, or has more than 255 bytes",
        OutcomesQuery = "outcomes_query":
            "`GET /v1/federation/outcomes` is asked for a state or a number that there is not",
        DecisionsQuery = "decisions_query":
            "`GET /v1/federation/decisions` does not name one job by `job_id`, `federation_id` or `request_id`, or \
             names something else",
        IndexQuery = "index_query": "`GET /v1/federation/jobs` does not name one job by its tracking id or `job_id`, or names something else",
        ScopeUnknown = "scope_unknown": "`X-Scope` is neither `sidecar` nor `fleet`, or is there several times",
        PoolUnknown = "pool_unknown": "a FETCH names a pool that `scheduling.pools` does not have; `details.known_pools` has those that there are",
        PoolUnclear = "pool_unclear":
            "pools of workers, or quotas with `maxActive`, bound jobs, and a FETCH does not say its pool, its queues, its `count` or its lease in a way that all servers read alike",
        PoolLease = "pool_lease":
            "a FETCH or a heartbeat asks for a longer lease than `longest_lease` of its pool, whose jobs the hub bounds for the fleet, or for one that is no number; \
             no region was asked",
        QueueIsAShard = "queue_is_a_shard": "a call names a shard of a queue of `scheduling.tenant_queues`; `details.queue` is the queue to name",
        TenantsDiffer = "tenants_differ":
            "`meta.tenant_id` and the headers `X-OJS-Tenant` and `X-OJS-Tenant-Id` name different tenants, or one \
             that is no text",
    }
    FORBIDDEN Forbidden {
        PinNotPermitted = "pin_not_permitted": "a routing rule forbids the region that the job is pinned to",
        Residency = "residency":
            "the job is pinned to another region, and `residency.read` does not let it be read here",
        PoolIsolated = "pool_isolated":
            "all queues of a FETCH are those of isolated pools, and its worker is of none of them; no region was asked",
        CrossOrigin = "cross_origin" in CrossOrigin:
            "a web page of another origin sent it; `listen.allowed_origins` names those that may",
    }
    NOT_FOUND NotFound {
        NoSuchPath = "no_such_path": "neither the OJS API nor the federation API",
        JobNotIndexed = "job_not_indexed": "the index of the hub has no such job: no sidecar has reported it and no event has shown it, or its time there is over",
        UwerNoTask = "uwer_no_task": "the hub has no task of UWER with this id of a workflow or a job, or its time there is over",
        NoIndex = "no_index": "the sidecar follows no hub, or the hub keeps no index of jobs",
        NoFleetFigures = "no_fleet_figures": "`X-Scope: fleet` at a sidecar that follows no hub, or whose hub is of a version without figures of pools",
    }
    METHOD_NOT_ALLOWED InvalidRequest {
        MethodNotAllowed = "method_not_allowed":
            "the federation API knows the path, with other methods; or the method is TRACE or TRACK, which no region \
             gets; or pools are to be changed, which `scheduling.pools` configures",
    }
    REQUEST_TIMEOUT InvalidRequest {
        RequestTimeout = "request_timeout" in Timeout: "the request did not arrive in time",
    }
    CONFLICT Duplicate {
        CronInOtherRegion = "cron_in_other_region": "a cron job of this name lives in another region",
        FederationIdRepeated = "federation_id_repeated":
            "`hub.repeated_ids` is `refuse`, and the index of the hub knows a job with the client's own `ojs.federation.federation_id` that was neither \
             cancelled nor discarded: `details.existing_job_id` in `details.region`, where these may be shown; nothing was sent",
    }
    CONFLICT InvalidRequest {
        IdempotencyKeyReused = "idempotency_key_reused": "the `Idempotency-Key` came before with another body",
    }
    CONFLICT Conflict {
        PoolMismatch = "pool_mismatch":
            "a FETCH names another pool than `scheduling.pool`, to which all workers of this sidecar belong; no region was asked",
        SpoolAside = "spool_aside" in Spool:
            "the job is set aside in the outage spool, `details.state` says how: only an operator can have it sent",
        LeaseLost = "lease_lost" in LeaseLost:
            "an acknowledgement came when its lease was over, and the region shows the job in another state or with \
             another worker; nothing was sent",
    }
    PAYLOAD_TOO_LARGE PayloadTooLarge {
        BodyTooLarge = "body_too_large": "longer than `limits.body_bytes`, compressed or not",
        CompressionRatio = "compression_ratio":
            "a compressed body grows to more than 1 MiB and more than 100 times its size",
    }
    URI_TOO_LONG InvalidRequest {
        UriTooLong = "uri_too_long": "the request target is too long",
    }
    UNSUPPORTED_MEDIA_TYPE Unsupported {
        UwerMediaType = "uwer_media_type": "a task of UWER is neither `application/xml`, `text/xml` nor `application/json`",
        ContentEncoding = "content_encoding":
            "a body that is read here comes in another `Content-Encoding` than one `gzip`",
    }
    MISDIRECTED_REQUEST InvalidRequest {
        HostNotAllowed = "host_not_allowed" in Misdirected:
            "`Host` is neither a loopback name nor one of `listen.allowed_hosts`",
    }
    UNPROCESSABLE_ENTITY InvalidPayload {
        UwerDeadLetter = "uwer_dead_letter":
            "a task of UWER is none, or its idempotency key came before with another task: it is a dead letter (0xFF) of the hub, `details.letter` names it",
    }
    UNPROCESSABLE_ENTITY Unsupported {
        RoutingUnsupported = "routing_unsupported":
            "a call that can only go to one region carries keys that ask for another, such as a dead letter's retry",
    }
    TOO_MANY_REQUESTS RateLimited {
        QuotaExceeded = "quota_exceeded" in QuotaExceeded:
            "as many jobs of its tenant and type have started as a quota of the hub permits, `details.quota` names it; nothing was sent: send it \
             again after `Retry-After`",
        TypeStopped = "type_stopped" in TypeStopped:
            "the jobs of its type and tenant fail too often and are stopped by the hub, `details.breaker` names them, and this one cannot be delayed; \
             nothing was sent: send it again after `Retry-After`",
    }
    REQUEST_HEADER_FIELDS_TOO_LARGE InvalidRequest {
        HeadTooLarge = "head_too_large": "over `limits.head_bytes` or `limits.headers`",
    }
    INTERNAL_SERVER_ERROR BackendError {
        OutcomeUnknown = "outcome_unknown" in OutcomeUnknown:
            "it was sent, no answer came, and the region could not say what became of it: look in `details.region` \
             for `details.job_id`, or at `GET /v1/federation/outcomes`, before sending it again; for a batch, look \
             up `details.jobs`",
        PartlyCreated = "partly_created":
            "a part of a batch failed and what others had stored could not be cancelled: look up `details.jobs`",
    }
    BAD_GATEWAY BackendError {
        BrokenAnswer = "broken_answer" in OwnerUnavailable:
            "what the region answered to a call that may be repeated is not HTTP that is read one way only (two \
             lengths, an unknown transfer coding, bytes behind its end); mend the region or what stands before it",
    }
    SERVICE_UNAVAILABLE BackendError {
        RegionUnavailable = "region_unavailable" in RegionUnavailable:
            "the region that the job is pinned to is down; nothing was sent",
        NoHealthyRegion = "no_healthy_region" in NoHealthyRegion: "no permitted region is usable; nothing was stored",
        OwnerUnavailable = "owner_unavailable" in OwnerUnavailable:
            "the local region, which alone may answer this, is down; or a job was found in no region and not all of \
             them could be asked",
        BatchFailed = "batch_failed":
            "a part of a batch failed and the rest was cancelled, `details` has every job; the region's own status \
             where it refused",
        IdInUse = "id_in_use" in OwnerUnavailable:
            "another job came with this id, and it is not known yet whether that one is stored, or a late copy of it is looked for; nothing was sent: send it again later, or under another id",
        RegionsMissing = "regions_missing" in OwnerUnavailable:
            "a change meant for all regions was not followed by all: `details.followed`, `details.missing`",
        RetryBudget = "retry_budget" in RetryBudget:
            "another region is left, but too many jobs are being redirected already",
        JournalUnavailable = "journal_unavailable" in JournalUnavailable:
            "a call with a key, or with the client's own id, cannot be recorded and `journal.required` is set; \
             nothing was stored",
        UwerStore = "uwer_store" in HubUnavailable:
            "the hub, which is the central store of UWER, does not answer, has no place, or keeps no tasks; no task was accepted and no lease given: \
             send it again after `Retry-After`",
        UwerUnsettled = "uwer_unsettled" in HubUnavailable:
            "another call with the same idempotency key is under way, or it is not known yet whether its job is stored: send the task again after `Retry-After`, \
             with the same key",
        SpoolBehind = "spool_behind" in Spool:
            "jobs of its queue wait in the outage spool, and this one cannot be put behind them, `details.why` says why; nothing was stored: send \
             it again after `Retry-After`",
        SpoolBusy = "spool_busy" in Spool:
            "a job that is, or may be, spooled cannot be cancelled or looked up now, because it may be on its way to a region, or because the spool \
             cannot be read or written, `details.why` says why; nothing was changed: try again after `Retry-After`",
        HubUnavailable = "hub_unavailable" in HubUnavailable:
            "the hub could not claim the `Idempotency-Key` in time, and `idempotency.on_hub_loss` is `refuse`; or the call needs another region, and \
             the sidecar is a spoke (`topology: hub-spoke`) that does not hear its hub; or a look-up in the hub's index, or a question for figures of the fleet, has no answer. Nothing was sent: send it again after `Retry-After`",
        NoTimeLeft = "no_time_left":
            "the call waited for an earlier one until its time was nearly over; nothing was sent",
        Overloaded = "overloaded" in Overloaded:
            "more than `limits.client_connections` connections, more than `limits.buffered_bytes` of bodies in \
             memory, or as many calls under way as `limits.calls` and the region's limit permit; nothing was sent",
        FleetLimit = "fleet_limit" in FleetLimit:
            "the limit of the fleet, `limits.fleet`, leaves this sidecar no call to the region; nothing was sent: send it again after \
             `Retry-After`",
        Throttled = "throttled" in Throttled:
            "an operator has set a bound on the calls of this sidecar to the region, and as many are under way; nothing was sent: send it again \
             after `Retry-After`",
        SourcePaused = "source_paused" in SourcePaused:
            "an operator has paused the job type or the tenant, `details.switch` names it; nothing was stored: send it \
             again after `Retry-After`",
        Draining = "draining" in Draining:
            "the sidecar ends within seconds and only finishes what it has begun; nothing was sent",
    }
    GATEWAY_TIMEOUT BackendError {
        UpstreamTimeout = "upstream_timeout" in Timeout: "the region did not answer a call that may be repeated",
    }
    HTTP_VERSION_NOT_SUPPORTED InvalidRequest {
        HttpVersion = "http_version": "neither HTTP/1.1 nor HTTP/1.0",
    }
    LOOP_DETECTED BackendError {
        TooManyHops = "too_many_hops" in TooManyHops:
            "the call has come back to a sidecar, or has passed `limits.hops` of them: a region's URL leads to one; \
             nothing was stored",
    }
}

impl Reason {
    /// The word in `details.reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().word
    }

    /// The status, unless a region's own is passed on.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        self.row().status
    }

    /// The code, unless it follows from a region's status.
    #[must_use]
    pub const fn code(self) -> Code {
        self.row().code
    }

    /// The label of an error of this reason. `code`: that of its document.
    #[must_use]
    pub fn label(self, code: Code) -> RefusalReason {
        self.row().label.unwrap_or(code.label())
    }

    /// The table of `docs/reference/errors.md`.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tables in documents"))]
    pub fn table_markdown() -> String {
        let row = |reason: &Self| {
            let Row { status, code, word, meaning, .. } = reason.row();
            let status = status.as_u16();
            // The region's status gives the code of a refused part.
            let code = if *reason == Self::PartRefused { "by status" } else { &format!("`{}`", code.as_str()) };
            format!("| {status} | {code} | `{word}` | {meaning} |\n")
        };
        let rows: String = Self::ALL.iter().map(row).collect();
        format!("| status | `code` | `details.reason` | meaning |\n|---|---|---|---|\n{rows}")
    }
}
