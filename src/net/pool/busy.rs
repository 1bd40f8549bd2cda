//! How many connections have a request on them.

use prometheus::IntGauge;

/// Counts a connection as busy for as long as it lives.
#[derive(Debug)]
pub(super) struct Busy(IntGauge);

impl Busy {
    pub(super) fn count(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.dec();
    }
}
