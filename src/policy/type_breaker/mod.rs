//! Breakers of job types: the jobs of a type and a tenant that fail too often are stopped, until one of them succeeds.
//!
//! The hub keeps a [`Course`] for each stopped type and tenant, from the trip to the close. [`BreakerTerms`] say when it trips and how long it stays
//! open. Time comes in as milliseconds since the Unix epoch.

mod course;
mod stopped;
mod terms;
#[cfg(test)]
mod tests;

pub use course::{Course, Phase, ProbeJob, Trial};
pub use stopped::StoppedType;
pub use terms::{BreakerTerms, EndCounts};
