//! The inventory: the sidecars that have reported, with their last status.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::access::Caller;
use super::record::SavedSidecar;
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::fleet::Status;
use crate::switch::{RegionSet, Switch, Switches, Version, stranded};

/// More sidecars than one hub serves.
const SIDECARS_MAX: usize = 20_000;
/// A sidecar that was not seen for so long is forgotten. Units: milliseconds.
const FORGET_AFTER_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// The configuration of a sidecar that was not seen for so long binds no operator. Units: milliseconds.
const BINDS_FOR_MS: u64 = 60 * 60 * 1_000;

#[derive(Debug)]
struct Known {
    caller: String,
    status: Status,
    seen_unix_ms: u64,
    /// How many feeds it holds.
    feeds: usize,
    is_saved: bool,
}

/// The inventory of a hub, by the names of sidecars.
#[derive(Debug, Default)]
pub(super) struct Fleet(HashMap<String, Known>);

/// Why a status is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The certificate is for sidecars of another region.
    Region,
    /// The inventory has as many sidecars as it may.
    Full,
}

impl Fleet {
    /// The inventory of an earlier process; a status that cannot be read is left out.
    pub(super) fn new(saved: Vec<SavedSidecar>) -> Self {
        let known = saved.into_iter().filter_map(|it| {
            let status = serde_json::from_str(&it.status).ok()?;
            let (caller, seen_unix_ms) = (it.caller, it.seen_unix_ms);
            Some((it.name, Known { caller, status, seen_unix_ms, feeds: 0, is_saved: true }))
        });
        Self(known.collect())
    }

    /// Takes a status that a sidecar has sent.
    pub(super) fn report(&mut self, caller: &Caller, status: Status, unix_ms: u64) -> Result<(), Refused> {
        if caller.region.as_ref().is_some_and(|region| *region != status.local_region) {
            return Err(Refused::Region);
        }
        if let Some(known) = self.0.get_mut(&status.name) {
            known.caller.clone_from(&caller.name);
            (known.status, known.seen_unix_ms, known.is_saved) = (status, unix_ms, false);
            return Ok(());
        }
        if self.0.len() >= SIDECARS_MAX {
            self.forget(unix_ms);
            if self.0.len() >= SIDECARS_MAX {
                return Err(Refused::Full);
            }
        }
        let (name, caller) = (status.name.clone(), caller.name.clone());
        self.0.insert(name, Known { caller, status, seen_unix_ms: unix_ms, feeds: 0, is_saved: false });
        Ok(())
    }

    /// Notes that a sidecar opens a feed, or has closed one.
    pub(super) fn feed(&mut self, name: &str, is_open: bool) {
        if let Some(known) = self.0.get_mut(name) {
            known.feeds = if is_open { known.feeds + 1 } else { known.feeds.saturating_sub(1) };
        }
    }

    fn forget(&mut self, unix_ms: u64) {
        self.0.retain(|_, it| it.feeds > 0 || it.seen_unix_ms.saturating_add(FORGET_AFTER_MS) > unix_ms);
    }

    /// The statuses that the record lacks, and the time before which it forgets.
    pub(super) fn take_unsaved(&mut self, unix_ms: u64) -> (Vec<SavedSidecar>, u64) {
        self.forget(unix_ms);
        let unsaved = self.0.iter_mut().filter(|(_, it)| !it.is_saved);
        let saved = unsaved.filter_map(|(name, it)| {
            it.is_saved = true;
            let status = serde_json::to_string(&it.status).ok()?;
            let (name, caller) = (name.clone(), it.caller.clone());
            Some(SavedSidecar { name, caller, status, seen_unix_ms: it.seen_unix_ms })
        });
        (saved.collect(), unix_ms.saturating_sub(FORGET_AFTER_MS))
    }

    /// How many are known, and how many of them hold a feed.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().filter(|it| it.feeds > 0).count())
    }

    fn binding(&self, unix_ms: u64) -> impl Iterator<Item = &Known> {
        self.0.values().filter(move |it| it.feeds > 0 || it.seen_unix_ms.saturating_add(BINDS_FOR_MS) > unix_ms)
    }

    /// Whether a sidecar that was seen lately knows the region.
    pub(super) fn knows(&self, region: &RegionId, unix_ms: u64) -> bool {
        let has = |set: &RegionSet| set.regions.iter().any(|it| it.id == *region);
        self.binding(unix_ms).any(|it| it.status.region_sets.iter().any(has))
    }

    /// A sidecar that was seen lately, and the key of its configuration whose jobs a switch would leave without a region.
    pub(super) fn stranded(&self, set: &Switch, after: &Switches, unix_ms: u64) -> Option<(String, String)> {
        self.binding(unix_ms).find_map(|it| {
            let found = stranded(&it.status.region_sets, set, after)?;
            Some((it.status.name.clone(), found.key.clone()))
        })
    }

    /// The inventory, by name.
    pub(super) fn shown(&self, current: &Version) -> Value {
        let mut all: Vec<&Known> = self.0.values().collect();
        all.sort_by(|a, b| a.status.name.cmp(&b.status.name));
        let show = |it: &Known| {
            let Status { name, version, local_region, federation_id, config_digest, started_unix_ms, applied, .. } =
                &it.status;
            json!({
                "name": name,
                "identity": it.caller,
                "version": version,
                "local_region": local_region.as_str(),
                "federation_id": federation_id,
                "config_digest": config_digest,
                "started": rfc3339(*started_unix_ms),
                "connected": it.feeds > 0,
                "last_seen": rfc3339(it.seen_unix_ms),
                "current": applied == current,
                "outcomes": { "unknown": it.status.unknown, "watched": it.status.watched },
            })
        };
        Value::Array(all.into_iter().map(show).collect())
    }
}
