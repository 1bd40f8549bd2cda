//! The wire of Open Job Spec: bytes in and bytes out, nothing else.
//!
//! The operation of a request ([`operation`]), the routing keys of its body ([`Envelope`], [`jobs_within`]), the
//! additions ([`stamp`]), the answers of regions ([`answer`]) and their changes for clients ([`federated_manifest`],
//! [`heartbeat_state`], [`retry_after_seconds`]), and every error document that this program writes ([`error`]). Pure:
//! no sockets, no clock, no randomness, no logging. Bodies are read in place and never re-serialised.
//!
//! Plane: data.

mod abridged;
mod again;
pub mod answer;
mod attributes;
pub mod batch;
mod by_ids;
mod channel;
mod copy;
mod create;
mod directive;
mod due;
mod envelope;
pub mod error;
mod fault;
pub mod header;
pub mod hint;
pub mod hops;
mod job_details;
pub mod job_events;
mod key;
pub mod list;
mod manifest;
mod member;
pub mod operation;
mod path;
mod pointer;
pub mod residency;
mod retry_after;
mod routing_key;
mod scan;
mod segments;
pub mod shards;
mod splice;
mod stamp;
mod uuid7;
pub mod worker;

pub use abridged::{Abridged, GAP_MARK, Gap, is_torn, stretch};
pub use again::{Original, PRIORITIES, REPLAY_OF, Renewal, Unrepeatable};
pub use attributes::Attributes;
pub use batch::{Batch, Element, Several};
pub use by_ids::JobIds;
pub use channel::{Channel, query_value};
pub use copy::{MOMENTS, Progress, content, is_of_fence, moments, progress, shows_fence, tombstone};
pub use create::{Found, jobs_within, routing_within};
pub use directive::heartbeat_state;
pub use due::Due;
pub use envelope::{Envelope, MetaText, Unclear};
pub use error::ErrorDocument;
pub use fault::Fault;
pub use job_details::{JobDetails, TENANT_KEY, args_of_answer};
pub use manifest::{
    FEDERATION_EXTENSION, SCHEDULING_EXTENSION, announces, conformance_level, federated_manifest, restricted_manifest,
};
pub use operation::{
    Class, Endpoint, IdAt, Matched, Operation, Paging, Payload, Scope, federation_methods, identify, surface,
};
pub use path::{JOBS_PATH, has_odd_escape, normal_path, path_segment, query_text};
pub use pointer::place_of;
pub use retry_after::retry_after_seconds;
pub use routing_key::{RoutingKey, RoutingKind};
pub use scan::{ScanError, scan};
pub use segments::{Segments, segments_len};
pub use stamp::{Additions, COPIED_BYTES_MAX, Cuts, Splices, StampedBody, replace_minted, splices, stamp};
pub use uuid7::{UUID7_LETTERS, Uuid7, Uuid7Room, Uuid7Text, federation_id};
