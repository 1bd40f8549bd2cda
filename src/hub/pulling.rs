//! Pulls the facts of other regions from their hubs: in order, with the place in the same commit, again and again from the last place.

use std::time::Duration;

use super::index::Index;
use super::index_settings::SourceSettings;
use super::isolations::take_over;
use super::jobs::{SHOWN_MAX, Shown, joined};
use super::record::IndexPlace;
use super::state::Hub;
use crate::base::RegionId;
use crate::fleet::Pull;
use crate::net::resolve::SystemResolver;
use crate::replica::Change;
use crate::switch::{Isolation, LASTS_MAX, SWITCHES_MAX};
use crate::telemetry::event;

/// Between two pulls where the source had nothing more.
const PULL_EVERY: Duration = Duration::from_millis(500);
/// Waits after a pull that failed: the first, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// Pulls from all sources, for ever.
pub(super) async fn pull(hub: &Hub) {
    let Some(index) = &hub.index else { return std::future::pending().await };
    let all = index.settings.from.iter().map(|source| pull_from(hub, index, source));
    futures_util::future::join_all(all).await;
    std::future::pending().await
}

async fn pull_from(hub: &Hub, index: &Index, source: &SourceSettings) {
    let note = |trouble: String| {
        let mut sources = index.sources.borrow_mut();
        if sources.entry(source.region.clone()).or_default().failed(trouble.clone()) {
            event::hub_pull_failed(source.region.as_str(), &trouble);
        }
    };
    let round = async |connection: &mut Pull| round(hub, index, source, connection).await;
    keep_pulling(hub, source, note, round).await;
}

/// Pulls from a source for ever. `round` takes the next part of its content, and returns whether there is more; `note` gets each trouble.
pub(super) async fn keep_pulling(
    hub: &Hub,
    source: &SourceSettings,
    note: impl Fn(String),
    round: impl AsyncFn(&mut Pull) -> Result<bool, String>,
) {
    let (urls, tls) = (source.urls(), source.tls());
    let (mut wait, mut replica) = (WAITS.0, 0_usize);
    loop {
        // Checked settings have at least one.
        let url = &urls[replica % urls.len()];
        match Pull::connect(url, &tls, &SystemResolver).await {
            Ok(mut connection) => {
                let trouble = loop {
                    match round(&mut connection).await {
                        Ok(more) => {
                            wait = WAITS.0;
                            if !more {
                                hub.clock.sleep(PULL_EVERY).await;
                            }
                        }
                        Err(trouble) => break trouble,
                    }
                };
                note(trouble);
            }
            Err(trouble) => note(trouble),
        }
        replica = replica.wrapping_add(1);
        hub.clock.sleep(wait).await;
        wait = (wait * 2).min(WAITS.1);
    }
}

/// Takes the next facts of a source, and its isolations; whether it has more facts.
///
/// Errors: a sentence for the operator; nothing was taken, or it is taken again.
async fn round(hub: &Hub, index: &Index, source: &SourceSettings, connection: &mut Pull) -> Result<bool, String> {
    let region = &source.region;
    let known = hub.record.index_place(region.as_str()).await.map_err(|error| error.to_string())?;
    let path = format!("/v1/hub/index?epoch={}&written={}&mark={}", known.epoch, known.written, known.mark);
    let sent_ms = hub.clock.unix_ms();
    let shown: Shown = connection.get(&path).await?;
    let now_ms = hub.clock.unix_ms();
    check_isolations(index, region, &shown, now_ms)?;
    // Before all else: a region that comes back with a wrong clock, or with a record that takes no facts, must hear of them.
    if let Some(isolations) = &shown.isolations {
        // Without the permission it is as if the source had set none: those that were taken before end.
        take_over(hub, region, if source.isolations { isolations } else { &[] }).await?;
    }
    index.hear(region);
    check_clock(index, &shown, (sent_ms, now_ms))?;
    check(&shown)?;
    let age_ms = shown.oldest_ms.map_or(0, |oldest| shown.now_ms.saturating_sub(oldest));
    if let Some((written, mark)) = shown.end {
        let place = IndexPlace { epoch: shown.epoch, written, mark };
        let save = hub.record.save_changes(region.as_str(), joined(shown.changes), Some(place));
        save.await.map_err(|error| error.to_string())?;
    }
    let mut sources = index.sources.borrow_mut();
    let lag = sources.entry(region.clone()).or_default();
    if lag.trouble.is_some() {
        event::hub_pull_returns(region.as_str());
    }
    lag.heard(now_ms, shown.more, age_ms);
    Ok(shown.more)
}

/// Whether the isolations of an answer can be taken: it is of the expected region, and each is one that an order can set by now.
fn check_isolations(index: &Index, region: &RegionId, shown: &Shown, now_ms: u64) -> Result<(), String> {
    if shown.region != *region {
        return Err(format!("the hub is that of {}: see index.from of this hub", shown.region.as_str()));
    }
    let isolations = shown.isolations.as_deref().unwrap_or_default();
    if isolations.len() > SWITCHES_MAX {
        return Err(format!("the answer has more than {SWITCHES_MAX} isolations"));
    }
    if let Some(wrong) = isolations.iter().find_map(Isolation::mistake) {
        return Err(format!("an isolation cannot be read: {wrong}"));
    }
    let longest = LASTS_MAX + index.settings.max_skew;
    let is_too_long = |it: &Isolation| u128::from(it.ends_ms.saturating_sub(now_ms)) > longest.as_millis();
    if isolations.iter().any(is_too_long) {
        return Err("an isolation cannot be taken: it ends in more than 7d".to_owned());
    }
    Ok(())
}

/// Whether the clock of the source agrees. The sentence is the same for each difference, so that it is logged once; the gauge has the number.
fn check_clock(index: &Index, shown: &Shown, (sent_ms, now_ms): (u64, u64)) -> Result<(), String> {
    // The source has read its clock between the two.
    let skew_ms = sent_ms.saturating_sub(shown.now_ms).max(shown.now_ms.saturating_sub(now_ms));
    let max = index.settings.max_skew;
    let is_too_much = u128::from(skew_ms) > max.as_millis();
    index.sources.borrow_mut().entry(shown.region.clone()).or_default().skew = Some((skew_ms, is_too_much));
    if is_too_much {
        return Err(format!("its clock differs by more than index.max_skew, which is {} ms", max.as_millis()));
    }
    Ok(())
}

/// Whether the facts of an answer are facts.
fn check(shown: &Shown) -> Result<(), String> {
    if shown.changes.len() > SHOWN_MAX {
        return Err(format!("the answer has more than {SHOWN_MAX} facts"));
    }
    let wrong = shown.changes.iter().find_map(Change::mistake);
    wrong.map_or(Ok(()), |wrong| Err(format!("a fact cannot be read: {wrong}")))
}
