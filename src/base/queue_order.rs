//! The orders in which the queues of a FETCH are served, and their names on the wire.

/// The order in which the queues of a FETCH are served. Spec: fair-scheduling 6.1, 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QueueOrder {
    /// As the worker lists them, always.
    #[default]
    Strict,
    /// One job of each after the other.
    RoundRobin,
    /// In proportion to weights.
    Weighted,
    /// The deepest one first.
    LeastLoaded,
}

impl QueueOrder {
    /// The greatest weight of a queue: with it, shares are still kept to a tenth of a percent.
    pub const WEIGHT_MAX: u32 = 1_000;
    /// The names, as configurations and FETCHes write them.
    pub const NAMES: &[&str] = &["strict", "round-robin", "weighted", "least-loaded"];
    const ALL: [Self; 4] = [Self::Strict, Self::RoundRobin, Self::Weighted, Self::LeastLoaded];

    /// Reads a name; `None` for one that is not in the set.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }

    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_itself_and_others_are_none() {
        for (name, strategy) in QueueOrder::NAMES.iter().zip(QueueOrder::ALL) {
            assert_eq!((strategy.as_str(), QueueOrder::parse(name)), (*name, Some(strategy)));
        }
        assert_eq!(["", "Strict", "round_robin", "fifo"].map(QueueOrder::parse), [None; 4]);
    }
}
