//! The closed set of routing strategies and their names on the wire.

/// Generates the strategies from one table: the enum, [`Strategy::ALL`], names, aliases and needs.
///
/// A row: documentation, variant, name on the wire, aliases that are read too, and [`Needs`].
macro_rules! strategies {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal $(or $alias:literal)*, needs $needs:ident;)+) => {
        /// How a job's region is chosen.
        ///
        /// Spec: federation-spec §3 defines `affinity`, `overflow` and `geo-pin`; the others are the ones that federation
        /// configurations in the field name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Strategy {
            $($(#[$doc])+ $variant),+
        }

        impl Strategy {
            /// Every strategy, in the order of their numbers ([`Strategy::index`]).
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The names that are read beside those of [`Strategy::ALL`].
            pub const ALIASES: &[&str] = &[$($($alias,)*)+];

            /// Reads a name on the wire, or an alias.
            ///
            /// Errors: [`UnknownStrategy`], never a silent default.
            pub fn parse(name: &str) -> Result<Self, UnknownStrategy> {
                match name {
                    $($name $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(UnknownStrategy),
                }
            }

            /// The name on the wire, in logs and in metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }

            /// The input without which the strategy cannot rank.
            #[must_use]
            pub const fn needs(self) -> Needs {
                match self {
                    $(Self::$variant => Needs::$needs),+
                }
            }
        }
    };
}

// The rules of each strategy are in its file in `policy/route/strategy/`.
strategies! {
    /// The local region while it is usable, else the nearest one.
    Affinity = "affinity", needs Nothing;
    /// The least loaded region.
    Overflow = "overflow", needs Nothing;
    /// One region and no other.
    GeoPin = "geo-pin", needs Region;
    /// Each usable region in turn.
    RoundRobin = "round-robin", needs Nothing;
    /// The region with the lowest observed latency.
    LatencyBased = "latency-based" or "latency", needs Nothing;
    /// At random, in proportion to weights.
    Weighted = "weighted", needs Nothing;
    /// The first usable region of a fixed order.
    ActivePassive = "active-passive", needs Nothing;
    /// The region that a configured table names for a hint in the job's meta.
    Geographic = "geographic", needs Table;
}

/// The input without which a strategy cannot rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// It ranks any regions.
    Nothing,
    /// The region of a pin: the job may go to no other, and names it in `ojs.federation.region`.
    Region,
    /// The table `routing.geographic`. Jobs that it has no usable region for are ranked by the default strategy.
    Table,
}

/// A strategy name that is not in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}", Strategy::list())]
pub struct UnknownStrategy;

impl Strategy {
    /// The strategy of jobs where nothing else is configured. Spec: federation-spec §3.1.
    pub const DEFAULT: Self = Self::Affinity;

    /// The strategy of jobs that are pinned to a region. Spec: federation-spec §3.3.
    pub const PIN: Self = Self::GeoPin;

    /// Its place in [`Strategy::ALL`], for tables with one entry a strategy.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// All names, separated by commas, for errors and documents.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
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

    #[test]
    fn the_error_of_an_unknown_name_lists_all_names() {
        let expected = "expected one of affinity, overflow, geo-pin, round-robin, latency-based, weighted, active-passive, \
                        geographic";
        assert_eq!(UnknownStrategy.to_string(), expected);
    }
}
