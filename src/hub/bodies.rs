//! The bodies of jobs for the loss of a region: the hub takes those that sidecars report, and shows other hubs those that may go there.
//!
//! A hub shows bodies that sidecars have reported here, never one of a job that was replicated itself, and only where the region of the
//! reader is permitted. A body goes when its job has ended. Spec: federation-spec §5, RFC-0001 §5, §6.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::access::Caller;
use super::body_store::Bodies;
use super::jobs::place;
use super::record::{BodiesBehind, IndexPlace, PlacedBody, RecordError};
use super::response::Refusal;
use super::sidecar_request::read as read_request;
use super::state::Hub;
use crate::base::RegionId;
use crate::fleet::{BodiesRequest, NO_BODIES};
use crate::replica::{BODIES_BYTES_MAX, BODIES_MAX};

/// For bodies to be durable; shorter than the sidecar's wait for the answer.
const SAVE_WAIT: Duration = Duration::from_secs(4);

/// The head of an answer to another hub. Shape: JSON; behind it are the bodies, as [`crate::replica::read_bodies`] has them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ShownBodies {
    /// The region of this hub.
    pub(super) region: RegionId,
    /// The name of its record.
    pub(super) epoch: String,
    /// The place of the last body that was read for the answer, shown or not; none where there is none.
    pub(super) end: Option<(u64, u64)>,
    /// Whether there may be more behind it.
    pub(super) more: bool,
}

/// The region of this hub, and its bodies.
///
/// Errors: 404 where this hub keeps none.
pub(super) fn present(hub: &Hub) -> Result<(&RegionId, &Bodies), Refusal> {
    let index = hub.index.as_ref();
    index.and_then(|index| Some((&index.settings.region, index.bodies.as_ref()?))).ok_or_else(|| {
        let message = "this hub keeps no bodies of jobs: set `index.bodies` in its configuration".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, NO_BODIES, message)
    })
}

/// Keeps the bodies of a sidecar; they are durable when this returns.
///
/// Errors: the sidecar sends them again, or drops them where this hub keeps none.
pub(super) async fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<(), Refusal> {
    let (region, bodies) = present(hub)?;
    let mut request: BodiesRequest = read_request(hub, caller, body)?;
    // A sidecar sends none that may not be here.
    request.bodies.retain(|body| body.reach.contains(region.as_str()));
    let save = bodies.keep(&hub.record, region.as_str(), &request.bodies, None);
    Ok(tokio::time::timeout(SAVE_WAIT, save).await.map_err(|_| RecordError::Slow)??)
}

/// The bodies of this region behind the place of a query `epoch=E&written=W&mark=M` that may go to the region of a hub.
///
/// Errors: 400 for another query.
pub(super) async fn show(hub: &Hub, caller: &Caller, query: &str) -> Result<Vec<u8>, Refusal> {
    let (region, bodies) = present(hub)?;
    let asked = place(query)?;
    let epoch = hub.record.index_epoch().await?;
    // A place in another record says nothing about this one.
    let after = if asked.epoch == epoch { asked } else { IndexPlace { epoch: epoch.clone(), ..IndexPlace::default() } };
    let asked = BodiesBehind { after, rows_max: BODIES_MAX, bytes_max: BODIES_BYTES_MAX };
    let found = hub.record.bodies_behind(region.as_str(), asked).await?;
    let end = found.last().map(|it| (it.written, it.mark));
    let head = ShownBodies { region: region.clone(), epoch, end, more: end.is_some() };
    // No text of JSON has a line end.
    let mut message = format!("{}\n", serde_json::json!(head)).into_bytes();
    let may_go = |it: &&PlacedBody| {
        let is_permitted = |region: &RegionId| it.body.reach.contains(region.as_str());
        !it.is_replica && caller.region.as_ref().is_some_and(is_permitted)
    };
    for body in found.iter().filter(may_go).filter_map(|it| bodies.open(&it.body)) {
        body.write(&mut message);
    }
    Ok(message)
}
