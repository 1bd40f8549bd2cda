//! Labels of quotas.

use super::Label;
use crate::base::words;

labels! {
    /// Why a FETCH left queues out for a quota that bounds active jobs.
    SlotLack {
        /// Its jobs at this sidecar are as many as may be now.
        Full = "full",
        /// No hub grants slots.
        NoGrant = "no_grant",
        /// The hub does not count leases that long yet.
        LongLease = "long_lease",
    }
}
