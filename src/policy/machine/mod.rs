//! State machines of one region, which results drive: breaker, guards, health, hold-down, pressure, self-suspicion.

mod breaker;
mod guard;
mod health;
mod hold;
mod pressure;
mod ratio;
pub mod silence;
mod suspect;

pub use breaker::{Breaker, BreakerState, Cause, Permit, RequestOutcome, Transition};
pub(super) use guard::Guard;
pub use guard::{Attempt, ClassTotals, GuardClass, GuardState, Shown};
pub use health::{Health, HealthTracker};
pub(super) use hold::HoldDown;
pub use pressure::Pressure;
pub(super) use suspect::Suspicion;
