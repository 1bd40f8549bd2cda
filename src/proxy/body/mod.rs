//! Reading bodies into memory, within bounds, and work on long ones.
//!
//! | need | use |
//! |---|---|
//! | the whole body of a request or of an answer | [`collect`] |
//! | the same, decompressed where a client compressed it | [`encoding`] |
//! | the chunks of a body while they arrive | [`gather`] |
//! | the part of an enqueue that outlives its sending | [`received`] |
//! | a parse of a body of 64 kB and more, off the worker thread | [`offload`] |
//! | whether an answer shows the job that was asked for | [`shown_job`] |
//!
//! Every byte that is kept is counted against `limits.memory` by the share that travels with the body.

pub(crate) mod collect;
pub(crate) mod encoding;
pub(crate) mod gather;
pub(crate) mod offload;
pub(crate) mod received;
pub(crate) mod shown_job;
