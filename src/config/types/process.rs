//! How the process begins and ends, and what it shows of itself.

/// How many series a scrape has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDetail {
    /// What alerts and panels need: at most 60 a region.
    Basic,
    /// Every class, strategy and bucket.
    Full,
}
