//! The labels of the discovery of regions.

use super::Label;
use crate::base::words;

labels! {
    /// The state of a discovered region.
    DiscoveryState {
        /// It is one of the regions.
        InForce = "in_force",
        /// It has not shown its identity.
        Unproven = "unproven",
        /// Its change is held down.
        Waiting = "waiting",
    }

    /// How the discovered regions changed.
    DiscoveryChange {
        /// One came.
        Added = "added",
        /// The address, weight, tags or source of one changed.
        Changed = "changed",
        /// One went.
        Removed = "removed",
    }

    /// Why a discovered region is turned away.
    DiscoveryRejection {
        /// Its id fits no pattern.
        NotAllowed = "not_allowed",
        /// The certificate shows another identity.
        Identity = "identity",
        /// The text of the source is none of a region.
        Malformed = "malformed",
        /// The source names an id twice.
        Ambiguous = "ambiguous",
        /// There are as many as there may be.
        Full = "full",
        /// The file has a region with this id.
        Static = "static",
    }

    /// A source of regions.
    DiscoverySource {
        /// A watched directory.
        Directory = "directory",
        /// The hub, by its feed.
        Hub = "hub",
        /// A name server.
        Dns = "dns",
    }

    /// The result of a look at it.
    DiscoveryLook {
        /// It named a region.
        Good = "good",
        /// It named none, or did not answer.
        Failed = "failed",
    }
}
