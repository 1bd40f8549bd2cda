//! The steps after an attempt: the meaning of its end, the next attempt and its budget, and the number of calls at
//! once.

mod budget;
mod budgets;
mod concurrency;
mod failover;
mod outcome;
mod retry;

pub use budget::{Pays, RetryBudget};
pub use budgets::{Budgets, Toward};
pub use concurrency::{Bounds, CallPermit, CallsSeen, Concurrency, Grant, Limit, Shed, Throttle};
pub use failover::{Progress, Step, Stop, next};
pub use outcome::{Answer, Ending, Outcome, classify_enqueue, effect, is_turned_away};
pub use retry::{End, Repeat, TRIES_MAX, Then, Tries};
