//! Pulls the bodies of jobs of other regions from their hubs, as `pulling` does it with facts, over connections of their own: megabytes do not
//! hold facts up.

use super::bodies::ShownBodies;
use super::body_store::Bodies;
use super::index_settings::{IndexSettings, SourceSettings};
use super::pulling::keep_pulling;
use super::record::IndexPlace;
use super::state::Hub;
use crate::base::RegionId;
use crate::fleet::Pull;
use crate::replica::read_bodies;
use crate::telemetry::event;

/// Pulls from all sources whose bodies are wanted, for ever.
pub(super) async fn pull_bodies(hub: &Hub) {
    let kept = hub.index.as_ref().and_then(|index| Some((&index.settings, index.bodies.as_ref()?)));
    if let Some((settings, bodies)) = kept {
        let wanted = settings.from.iter().filter(|source| source.bodies);
        futures_util::future::join_all(wanted.map(|source| pull_from(hub, (settings, bodies), source))).await;
    }
    std::future::pending().await
}

async fn pull_from(hub: &Hub, (settings, bodies): (&IndexSettings, &Bodies), source: &SourceSettings) {
    let note = |trouble: String| {
        let mut sources = bodies.sources.borrow_mut();
        if sources.entry(source.region.clone()).or_default().failed(trouble.clone()) {
            event::hub_bodies_pull_failed(source.region.as_str(), &trouble);
        }
    };
    let round = async |connection: &mut Pull| {
        let more = round(hub, (&settings.region, bodies), &source.region, connection).await?;
        let mut sources = bodies.sources.borrow_mut();
        let state = sources.entry(source.region.clone()).or_default();
        if state.trouble.is_some() {
            event::hub_bodies_pull_returns(source.region.as_str());
        }
        state.heard(hub.clock.unix_ms(), more, 0);
        Ok(more)
    };
    keep_pulling(hub, source, note, round).await;
}

/// Takes the next bodies of a source; whether it has more.
///
/// Errors: a sentence for the operator; nothing was taken, or it is taken again.
async fn round(
    hub: &Hub,
    (here, bodies): (&RegionId, &Bodies),
    region: &RegionId,
    connection: &mut Pull,
) -> Result<bool, String> {
    let known = hub.record.bodies_place(region.as_str()).await.map_err(|error| error.to_string())?;
    let path = format!("/v1/hub/bodies?epoch={}&written={}&mark={}", known.epoch, known.written, known.mark);
    let answer = connection.get_bytes(&path).await?;
    let end = answer.iter().position(|byte| *byte == b'\n').ok_or("the answer has no head")?;
    let (head, message) = answer.split_at(end);
    let head: ShownBodies =
        serde_json::from_slice(head).map_err(|error| format!("the answer cannot be read: {error}"))?;
    if head.region != *region {
        return Err(format!("the hub is that of {}: see index.from of this hub", head.region.as_str()));
    }
    let mut shown = read_bodies(&message[1..]).map_err(|mistake| format!("the answer cannot be read: {mistake}"))?;
    // The source shows no others; a defect there must not bring a job where it may not be.
    shown.retain(|body| body.reach.contains(here.as_str()));
    if let Some((written, mark)) = head.end {
        let place = IndexPlace { epoch: head.epoch, written, mark };
        let kept = bodies.keep(&hub.record, region.as_str(), &shown, Some(place)).await;
        kept.map_err(|error| error.to_string())?;
    }
    Ok(head.more)
}
