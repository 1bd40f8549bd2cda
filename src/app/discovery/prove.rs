//! The proof of a discovered region: a handshake that shows the identity of its id. Nothing of a request is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::config::RegionConfig;
use crate::net::dial::{DialError, dial};
use crate::net::resolve::Resolve;
use crate::region::Region;
use crate::region::discovery::ProofFailure;

/// The answer: the failure, and the error behind it.
pub(super) type Answer = Result<(), (ProofFailure, String)>;

/// As for the names of other regions.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Completes a handshake with a region and hangs up.
pub(super) async fn prove(config: RegionConfig, resolver: Arc<dyn Resolve>, timeout: Duration) -> Answer {
    let unreachable = |error: String| (ProofFailure::Unreachable, error);
    let region = Region::load(0, &config).map_err(|error| unreachable(error.to_string()))?;
    if region.has_name() {
        let resolved = tokio::time::timeout(RESOLVE_TIMEOUT, resolver.resolve(&config.url.host, config.url.port)).await;
        let addresses = resolved.map_err(|_| unreachable("its name did not resolve in time".to_owned()))?;
        region.set_addresses(addresses.map_err(|error| unreachable(error.to_string()))?);
    }
    let reach = region.reach(timeout).await;
    match dial(&reach.endpoint(timeout), true).await {
        Ok(_) => Ok(()),
        Err(error @ DialError::Tls(_)) => Err((ProofFailure::Identity, error.to_string())),
        Err(error) => Err(unreachable(error.to_string())),
    }
}
