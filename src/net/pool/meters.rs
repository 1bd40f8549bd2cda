//! The reports of a pool.

use prometheus::{Gauge, IntCounter, IntGauge};

use crate::net::dial::DialError;

/// The reports of a pool.
#[derive(Debug, Clone)]
pub struct PoolMeters {
    /// Idle connections.
    pub idle: IntGauge,
    /// Connections with a request on them, and every HTTP/2 connection.
    pub busy: IntGauge,
    /// Connections made.
    pub established: IntCounter,
    /// Connections not made, because the name has no address.
    pub dns: IntCounter,
    /// Connections not made, because no address accepted.
    pub refused: IntCounter,
    /// Connections not made, because the TLS handshake failed.
    pub tls: IntCounter,
    /// Connections not made in time.
    pub timeout: IntCounter,
    /// When the certificate that the server showed last ends. Units: seconds since the Unix epoch.
    pub server_expiry: Gauge,
}

impl PoolMeters {
    pub(super) fn count(&self, made: Result<(), &DialError>) {
        let counter = match made {
            Ok(()) => &self.established,
            Err(DialError::NoAddress) => &self.dns,
            Err(DialError::Connect(_) | DialError::Own(_) | DialError::Crowded) => &self.refused,
            Err(DialError::Tls(_)) => &self.tls,
            Err(DialError::Timeout) => &self.timeout,
        };
        counter.inc();
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
    pub(super) fn saw(&self, expiry: Option<i64>) {
        if let Some(expiry) = expiry {
            self.server_expiry.set(expiry as f64);
        }
    }
}
