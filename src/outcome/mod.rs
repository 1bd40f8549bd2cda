//! The fate of a job as one pure machine: what is known of each of its copies, and what is done next.
//!
//! A [`Placement`] is one job: where it was sent, what each region has said of it, and what its client was told. Events change it
//! ([`Placement::apply`]); [`call::next`] and [`background::next`] say what follows. Nothing here reads a clock, opens a socket or writes
//! a file: whoever carries the actions out brings the time and the answers.
//!
//! Invariants:
//! - a job leaves a region for another one only when it is absent there ([`Absence`]), or where the operator has chosen
//!   `failover.on_unknown: redirect`;
//! - an absence that was only judged by time is watched until no write can come any more;
//! - of several copies one stays: never is the last one cancelled, and a copy is cancelled only when another one was seen in the same
//!   round.

mod absence;
pub mod background;
pub mod call;
mod copy;
mod event;
mod hex;
mod moment;
mod placement;
mod remedy;
mod ruling;
#[cfg(test)]
mod tests;
mod told;
mod word;

pub use absence::{Rules, Trust};
pub use copy::{Absence, Copy, Fate, Lost, Place, Ruling};
pub use event::Event;
pub use hex::Digest;
pub use moment::Moment;
pub use placement::{Identity, Placement, Settled, Settlement, ShownTo, State};
pub use told::Told;
pub use word::{Progress, Word};
