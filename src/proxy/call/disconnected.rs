//! When a client no longer reads: the calls to regions of a read end with it.

use std::time::Duration;

use crate::net::ClientSide;

/// A client that closed its sending side only may still read its answer for this long.
const HALF_CLOSED_PATIENCE: Duration = Duration::from_secs(1);

/// Resolves when the client's connection has been closed for [`HALF_CLOSED_PATIENCE`].
pub(crate) async fn disconnected(client: &ClientSide) {
    client.disconnected().await;
    tokio::time::sleep(HALF_CLOSED_PATIENCE).await;
}
