//! The closed set of routing strategies and their names on the wire.

/// How a job's region is chosen.
///
/// Spec: federation-spec §3 defines `affinity`, `overflow` and `geo-pin`; the others are the ones that federation
/// configurations in the field name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The local region while it is usable, else the nearest one.
    Affinity,
    /// The least loaded region.
    Overflow,
    /// One region and no other.
    GeoPin,
    /// Each usable region in turn.
    RoundRobin,
    /// The region with the lowest observed latency.
    LatencyBased,
    /// At random, in proportion to weights.
    Weighted,
    /// The first usable region of a fixed order.
    ActivePassive,
    /// The region that a configured table names for a hint in the job's meta.
    Geographic,
}

/// A strategy name that is not in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected one of affinity, overflow, geo-pin, round-robin, latency-based, weighted, active-passive, geographic"
)]
pub struct UnknownStrategy;

impl Strategy {
    /// Every strategy, in the order of their numbers ([`Strategy::index`]).
    pub const ALL: [Self; 8] = [
        Self::Affinity,
        Self::Overflow,
        Self::GeoPin,
        Self::RoundRobin,
        Self::LatencyBased,
        Self::Weighted,
        Self::ActivePassive,
        Self::Geographic,
    ];

    /// Reads a wire name; `latency` is an alias of `latency-based`.
    ///
    /// Errors: [`UnknownStrategy`], never a silent default.
    pub fn parse(name: &str) -> Result<Self, UnknownStrategy> {
        if name == "latency" {
            return Ok(Self::LatencyBased);
        }
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == name).ok_or(UnknownStrategy)
    }

    /// The name on the wire, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Overflow => "overflow",
            Self::GeoPin => "geo-pin",
            Self::RoundRobin => "round-robin",
            Self::LatencyBased => "latency-based",
            Self::Weighted => "weighted",
            Self::ActivePassive => "active-passive",
            Self::Geographic => "geographic",
        }
    }

    /// Its place in [`Strategy::ALL`], for tables with one entry a strategy.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_itself_and_others_are_refused() {
        for (place, strategy) in Strategy::ALL.into_iter().enumerate() {
            assert_eq!(Strategy::parse(strategy.as_str()), Ok(strategy));
            assert_eq!(strategy.index(), place);
        }
        assert_eq!(Strategy::parse("latency"), Ok(Strategy::LatencyBased));
        for unknown in ["", "Affinity", "geopin", "random"] {
            assert_eq!(Strategy::parse(unknown), Err(UnknownStrategy));
        }
    }
}
