//! The state that calls share: that of all worker threads, and that of one.
//!
//! | question | file |
//! |---|---|
//! | What do all threads share, and what does one thread have of its own? | `shared` |
//! | Which proxy serves a request after a reload? | `proxies` |
//! | How many bytes of bodies are in memory? | `buffered`, `collected` |
//! | Which enqueues with an id or a key are under way? | `running` |
//! | Which searches for jobs are under way, and what did they find? | `lookups` |
//! | Do the regions answer this thread at all? | `watch`, `passed_over` |
//! | Which connections exist before a job needs them? | `pools`, `warm` |
//! | What does an answer to a client, or from a region, look like in memory? | `reply`, `region_answer`, `ran` |
//! | Which changes of jobs does the hub's index get? | `seen` |
//! | Which figures do pools and their queues have? | `figures` |
//! | How are bodies and callers compared? | `fingerprint` |
//! | Which part of a new job does the outage spool look at? | `spooling` |
//! | Which part of a new job is the hub's index asked about? | `own_tracking` |
//! | How do the event streams of a queue's shards become one? | `merged` |
//! | Does the local region's server schedule fairly itself? | `announced` |
//! | Which shard of its queue does a job go into? | `sharded` |
//!
//! Nothing here sends a byte, but for the connections that `warm` opens. No file here knows of a call's [`Exchange`].
//!
//! [`Exchange`]: crate::proxy::Exchange

pub(crate) mod announced;
pub(crate) mod buffered;
pub(crate) mod collected;
pub(crate) mod figures;
pub(crate) mod fingerprint;
pub(crate) mod last_seen;
pub(crate) mod lookups;
pub(crate) mod merged;
pub(crate) mod notebook;
pub(crate) mod ours;
pub(crate) mod own_tracking;
pub(crate) mod passed_over;
pub(crate) mod pools;
pub(crate) mod proxies;
pub(crate) mod ran;
pub(crate) mod random;
pub(crate) mod region_answer;
pub(crate) mod reply;
pub(crate) mod running;
pub(crate) mod seen;
pub(crate) mod sharded;
pub(crate) mod shared;
pub(crate) mod spooling;
pub(crate) mod warm;
pub(crate) mod watch;

pub(crate) use buffered::{Buffered, Share};
pub(crate) use collected::Collected;
pub(crate) use fingerprint::{IDENTIFYING, digest};
pub(crate) use lookups::{Found, Indeterminate, Key, Left, NotFound};
pub(crate) use merged::Merged;
pub(crate) use ours::Ours;
pub(crate) use own_tracking::OwnTracking;
pub(crate) use pools::{pool_limits, pool_meters};
pub(crate) use ran::Ran;
pub(crate) use region_answer::RegionAnswer;
pub(crate) use reply::Reply;
pub(crate) use running::{End, Joined, Name, Turn};
pub(crate) use sharded::{Shard, refuse_shard};
pub(crate) use shared::{Asking, Proxy, Shared};
pub(crate) use spooling::Spooling;
pub(crate) use watch::Waiting;
