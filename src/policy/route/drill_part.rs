//! The part that a job has in a failover drill.

/// Why a drill leaves a job in its region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrillKept {
    /// A pin, a rule or its tenant binds it to the region.
    Bound,
    /// No other region that it may go to is usable.
    NoOther,
    /// Failover is off, so that it could not come back to the region.
    NoFailover,
    /// Its client may send it again under a name, and each time it has to meet the same region first.
    Named,
}

/// The part that a job has in a drill of its first candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrillPart {
    /// It goes to another region first.
    Diverted,
    /// It could, and is not drawn: one of the control group.
    Control,
    /// It could not.
    Kept(DrillKept),
}

/// The part of a job, and the drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drilled {
    /// [`crate::policy::Drill::number`].
    pub number: u16,
    /// The part.
    pub part: DrillPart,
}
