//! The beginning and the end of the process, and its figures.

/// The source of the health and the load of regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSource {
    /// This sidecar.
    Own,
    /// Its hub, and this sidecar wherever the hub's views are missing or old.
    Hub,
}

/// How many series a scrape has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDetail {
    /// The series of alerts and panels: at most 60 a region.
    Basic,
    /// Every class, strategy and bucket.
    Full,
}
