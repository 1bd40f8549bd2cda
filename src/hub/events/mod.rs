//! The second source of the index: the event streams of this hub's region, so that jobs that no sidecar saw are in it, too.
//!
//! `run` gives the streams to one hub of those that share a record, and follows the queues of the region, which `queues` lists. `stream` reads
//! the stream of one queue, `catch_up` the lists of that queue where events may have been missed. Both hand steps of jobs to the `intake`
//! through a bounded channel: while that is full, nothing is read. The intake asks the region for each job that no sidecar describes, with
//! `shown`, before a fact about it is kept: a replica must not leave the region a second time, and a bound job leaves without its fields.
//! Spec: RFC-0001 §5; federation-spec §2.3; ojs-realtime §2.

mod catch_up;
mod intake;
mod later;
mod queues;
mod run;
mod shown;
mod source;
mod stream;
mod taken_step;

pub(super) use run::run;
