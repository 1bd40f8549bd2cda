//! Regions that operators have put at the hub, by its feed. Each event about them is a look.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::looked::Looked;
use crate::base::Clock;
use crate::config::RegionSource;
use crate::region::discovery::{Discovered, Look};

/// The hub says every few seconds that its regions still hold; without a word for so long, and for the interval, the look has failed.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// Hands on looks for ever.
pub(super) async fn watch(discovered: Arc<Discovered>, interval: Duration, clock: Clock, tell: mpsc::Sender<Looked>) {
    loop {
        let looked = tokio::select! {
            look = discovered.said() => read(&look),
            () = clock.sleep(interval.max(SILENCE_MIN)) => {
                Err("the hub says nothing of regions: it is away, or of an earlier version".to_owned())
            }
        };
        if tell.send((RegionSource::Hub, looked)).await.is_err() {
            return;
        }
    }
}

fn read(look: &Look) -> Result<Look, String> {
    if look.sightings.is_empty() && look.malformed.is_empty() {
        return Err("no region was put at the hub".to_owned());
    }
    Ok(look.clone())
}
