//! Names of headers, media types and the version that this program speaks.

use http::HeaderName;

/// The media type of every answer. Spec: ojs-protocol 1.1.
pub const MEDIA_TYPE: &str = "application/openjobspec+json";

/// The media type for clients that cannot read [`MEDIA_TYPE`].
pub const MEDIA_TYPE_JSON: &str = "application/json";

/// The value of [`OJS_VERSION`] in answers.
pub const VERSION: &str = "1.0";

/// The version of the specification; on every response.
pub const OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");

/// Echoed or minted; on every response, and equal to `error.request_id`.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The region that answered.
pub const FEDERATION_REGION: HeaderName = HeaderName::from_static("ojs-federation-region");

/// The `federation_id` of the enqueued job.
pub const FEDERATION_ID: HeaderName = HeaderName::from_static("ojs-federation-id");

/// The strategy that chose the region.
pub const FEDERATION_STRATEGY: HeaderName = HeaderName::from_static("ojs-federation-strategy");

/// How many regions were tried.
pub const FEDERATION_ATTEMPTS: HeaderName = HeaderName::from_static("ojs-federation-attempts");

/// How many sidecars a call has passed; on calls to regions, never on answers to clients.
pub const FEDERATION_HOPS: HeaderName = HeaderName::from_static("ojs-federation-hops");

/// On an answer from a record: the call was recognised as a repetition and nothing was sent to be stored.
pub const FEDERATION_REPLAYED: HeaderName = HeaderName::from_static("ojs-federation-replayed");

/// `false` on an answer to a call that may be repeated, where its record is not on disk: a restart forgets it.
pub const FEDERATION_DURABLE: HeaderName = HeaderName::from_static("ojs-federation-durable");

/// `true` on answers about a job that is in the outage spool and in no region.
pub const FEDERATION_SPOOLED: HeaderName = HeaderName::from_static("ojs-federation-spooled");

/// The client's name for a call that it may repeat.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The regions that are missing from a merged list.
pub const FEDERATION_PARTIAL: HeaderName = HeaderName::from_static("ojs-federation-partial");

/// The regions whose part of a list is that of the hub's index, each with its age in seconds.
pub const FEDERATION_REPLICAS: HeaderName = HeaderName::from_static("ojs-federation-replicas");

/// With a 503: one queue is down, not the region.
pub const QUEUE_STATUS: HeaderName = HeaderName::from_static("x-ojs-queue-status");

/// How long a region may hold an enqueue back, in seconds.
pub const BLOCK_TIMEOUT: HeaderName = HeaderName::from_static("ojs-block-timeout");

/// The tenant of a call's jobs, where they do not name one themselves. Spec: multi-tenancy.
pub const TENANT: HeaderName = HeaderName::from_static("x-ojs-tenant");

/// The same as some clients spell it.
pub const TENANT_ID: HeaderName = HeaderName::from_static("x-ojs-tenant-id");
