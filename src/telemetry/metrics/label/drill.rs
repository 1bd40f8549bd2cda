//! The label of failover drills.

use super::Label;
use crate::base::words;

labels! {
    /// The part of an enqueue in a failover drill.
    DrillJob {
        /// It went to another region than the drilled one first.
        Diverted = "diverted",
        /// It could have, and was not drawn.
        Control = "control",
        /// It could not.
        Kept = "kept",
    }
}
