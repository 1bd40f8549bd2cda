//! The beginning and the end of the process, and its figures.

/// How many series a scrape has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDetail {
    /// The series of alerts and panels: at most 60 a region.
    Basic,
    /// Every class, strategy and bucket.
    Full,
}
