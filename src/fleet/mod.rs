//! A sidecar's side of its hub: one HTTP/2 connection with the feed of switches, the sidecar's status, and its outcomes.
//!
//! - [`Link`] keeps the connection for as long as the configuration has a hub.
//! - `events` cuts the feed into events; [`Status`] is the state that the hub's inventory shows; [`Reports`] are outcomes;
//!   [`FiguresReport`] has the figures of pools of workers.
//! - [`Granting`] asks for the calls of fleet limits, and puts them in force.
//! - `keys` claims `Idempotency-Key`s for calls, and reports their ends.
//! - [`Lease`] cuts a spoke off from other regions, and workers from jobs, while the hub is not heard.
//! - `views` hands views of regions to [`crate::region::views::HubViews`]; the regions that were put at the hub go to the discovery, and
//!   the pools of workers and the quotas to the journal.
//! - [`crate::region::Drills`] gets the failover drill of the feed, and the hub its counts.
//!
//! Received switches are kept in the journal and hold until they end by their own time: the loss of the hub changes nothing.
//!
//! Plane: control.

mod bodies;
mod breakers;
mod changes;
mod connect;
mod events;
mod failure;
mod figures;
mod grant;
mod granting;
mod keys;
mod lease;
mod link;
mod pooling;
mod pull;
mod quota_tokens;
mod quoting;
mod report;
mod request;
mod slotting;
mod status;
mod uwer;
mod views;

pub use bodies::{BODIES_REQUEST_BYTES_MAX, BodiesRequest, NO_BODIES};
pub use breakers::{FeedBreakers, WITH_BREAKERS};
pub use changes::{CHANGES_BYTES_MAX, ChangesRequest};
pub use figures::{FIGURES_BYTES_MAX, FiguresReport};
pub use grant::{
    GRANT_POOLS_MAX, GRANT_REGIONS_MAX, GRANTS_BYTES_MAX, GrantAnswer, GrantRequest, PoolAnswer, PoolPlaces,
    RegionCalls, RegionGrant,
};
pub use granting::{Granting, Limited};
pub use keys::{KEY_BYTES_MAX, KEY_TTL_MAX, KeyClaimed, KeyRequest, KeySettled};
pub use lease::{Lease, OnTurn};
pub use link::{Link, OnState};
pub use pooling::Pooled;
pub use pull::Pull;
pub use quota_tokens::{FeedQuotas, LaterTokens, QuotaAnswer, QuotaTokens, WITH_QUOTAS};
pub use quoting::Quoting;
pub use report::{REPORT_BYTES_MAX, REPORTS_BYTES_MAX, REPORTS_MAX, Report, Reports};
pub use request::JOB_NOT_INDEXED;
pub use slotting::Slotting;
pub use status::{NAME_BYTES_MAX, QUEUES_MAX, SET_MEMBERS_MAX, STATUS_BYTES_MAX, Status, is_name};
pub use uwer::{
    CLAIM_TASK, LETTER_BYTES_MAX, LETTER_CONTENT_MAX, LETTERS, LetterKept, LetterRequest, SETTLE_TASK, TASK_BYTES_MAX,
    TASKS, TaskClaimed, TaskEnd, TaskRequest,
};
pub use views::{FEED_HEADER, FeedPools, WITH_DRILLS, WITH_POOLS, WITH_REGIONS, WITH_VIEWS};
