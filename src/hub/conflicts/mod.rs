//! Copies of one job in several regions: the hub of each region finds the copies of its own region that count less than another one, and
//! reports or cancels them. No hub touches a copy in another region.
//!
//! `discover` finds tracking ids that several regions have, `decide` decides about one copy from the facts, `confirm` asks the hub of the copy
//! that counts for its present state, `resolve` asks the region and carries the decision out, `order` has the orders to cancel, `prepare` waits
//! for the index of the record, and `run` gives this to one hub of those that share a record. Spec: federation-spec §2.3, §5.2; RFC-0001 §5.

mod confirm;
mod decide;
mod discover;
mod order;
mod prepare;
mod resolve;
mod run;

pub(super) use run::run;
