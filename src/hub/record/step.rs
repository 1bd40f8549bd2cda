//! The steps of a job in a promotion.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use serde::{Deserialize, Serialize};

use crate::base::words;

words! {
    /// The step of one job in a promotion.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    JobStep {
        /// It is to be enqueued.
        Planned = "planned",
        /// It may have been enqueued: its answer is not known yet.
        Sending = "sending",
        /// The region of the hub has stored it.
        Moved = "moved",
        /// It stays where it is, for a reason.
        Left = "left",
        /// Moved, and its copy in the region that came back was cancelled.
        Cancelled = "cancelled",
        /// Moved, and the region that came back does not have it.
        Gone = "gone",
        /// Moved, and a worker had it in the region that came back, or that region does not cancel it: it may run twice, or has.
        Doubled = "doubled",
        /// The region that took it does not have it any more, so that the copy in the region that came back stays.
        Kept = "kept",
    }
}
