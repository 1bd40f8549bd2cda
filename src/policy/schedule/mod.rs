//! The order in which the queues of a FETCH are served, pure: time comes in as an [`std::time::Instant`].
//!
//! Plain servers serve the `queues` of a FETCH strictly in their order. So the queue whose turn it is goes first and the others follow it:
//! the turn of an empty queue costs no further call. [`Turns`] chooses that queue by its [`Rules`] and learns from the jobs that came;
//! [`Lists`] keeps the turns of each list of queues that workers ask for. [`Pools`] says which workers may have jobs of which queues.
//!
//! Each sidecar shares out the jobs that pass it. Where each of them keeps a share, their sum does.
//!
//! Spec: fair-scheduling 5.2, 6, 7, 8.

mod account;
mod active;
mod figures;
mod lists;
mod pool_grant;
mod pools;
mod recent;
mod rules;
mod shards;
mod tally;
#[cfg(test)]
mod tests;
mod turns;
mod waits;

pub use active::{ActiveQuota, ActiveTable, NoSlot, Slots};
pub use figures::{Figures, FiguresSum, FleetFigures, PoolFigures, QueueFigures};
pub use lists::{Lists, ShownList};
pub use pool_grant::{PoolGrant, PoolSeen};
pub use pools::{Pool, PoolError, PoolNumber, Pools};
pub use rules::Rules;
pub use shards::ShardTurns;
pub use tally::{Dispatched, Tally};
pub use turns::{Call, Depth, End, Turns};
pub use waits::{Asker, Starving};
