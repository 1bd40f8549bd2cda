//! The kinds of switches.

use super::words::words;

words! {
    /// The kind of a switch that an operator sets.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    SwitchKind {
        /// No job fails over into the region.
        Forbid = "forbid",
        /// No flexible job goes to the region; jobs that are pinned to it do.
        Drain = "drain",
        /// No job goes to the region, pinned ones included.
        Evacuate = "evacuate",
        /// No worker gets a job; everything else goes on.
        Maintenance = "maintenance",
    }
}

impl SwitchKind {
    /// Whether it is about one region.
    #[must_use]
    pub const fn has_region(self) -> bool {
        !matches!(self, Self::Maintenance)
    }

    /// Grows with the jobs that it keeps from a region: of two switches for one region the stricter one is in force.
    #[must_use]
    pub const fn strictness(self) -> u8 {
        match self {
            Self::Maintenance => 0,
            Self::Forbid => 1,
            Self::Drain => 2,
            Self::Evacuate => 3,
        }
    }
}
