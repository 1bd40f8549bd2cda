//! Calls to regions: one way for each purpose.
//!
//! | need | use | tries | breaker, guards, limits |
//! |---|---|---|---|
//! | one answer, read whole | [`ask::ask`] | 1 | checked and fed |
//! | the same, of a call that may be repeated | [`retrying::ask_retrying`] | retry table | as `ask` |
//! | answers of several regions | [`everywhere`] | 1 each | as `ask` |
//! | an enqueue at one candidate | [`attempt::attempt`] | 1 | the caller has a permit; fed |
//! | the answer streamed to the client, unread | `stream::local` | 1 | checked and fed |
//! | an upgraded connection, bytes both ways | `stream::tunnel` | 1 | checked and fed |
//!
//! Jobs are created through `attempt` only, which says whether a byte was written: every other way may not create one.
//! [`race`] connects to the next candidates while a connection takes too long; [`failover`] reports that a job left a
//! region.
//!
//! The rest of the room is the client's side of a call: [`exchange`] (state for the answer's head, the counters and the
//! access line), [`head`] and [`headers`] (the part that goes on to a region), [`address`] (calls that name a region),
//! [`hops`], [`pages`] (web pages of other origins), [`notes`] and [`call_notes`] (the notes that `ojs-sidecar why` prints).

pub(crate) mod address;
pub(crate) mod ask;
pub(crate) mod attempt;
pub(crate) mod call_notes;
pub(crate) mod disconnected;
pub(crate) mod each_name;
pub(crate) mod exchange;
pub(crate) mod failover;
pub(crate) mod fan_out;
pub(crate) mod feedback;
pub(crate) mod head;
pub(crate) mod header_flags;
pub(crate) mod headers;
pub(crate) mod hops;
pub(crate) mod notes;
pub(crate) mod pages;
pub(crate) mod race;
pub(crate) mod retrying;
pub(crate) mod shut;
