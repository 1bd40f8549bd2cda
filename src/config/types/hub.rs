//! The hub of a sidecar.

use super::{RegionTls, RegionUrl};

/// Where the hub is, and how this sidecar shows itself there.
#[derive(Debug, Clone, PartialEq)]
pub struct HubConfig {
    /// Where its replicas are, at least one; always `https`.
    pub urls: Vec<RegionUrl>,
    /// Certificates and the expected identity.
    pub tls: RegionTls,
    /// The name of this sidecar in the inventory; the host and the port of the first client listener when absent.
    pub name: Option<String>,
}
