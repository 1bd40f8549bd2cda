//! The inventory: the sidecars that have reported, with their last status.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::access::Caller;
use super::record::SavedSidecar;
use super::twins::Twins;
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::fleet::Status;
use crate::policy::{Figures, FiguresSum, FleetFigures};
use crate::switch::{RegionSet, Switch, Switches, Version, stranded};
use crate::telemetry::event;

/// More sidecars than one hub serves.
const SIDECARS_MAX: usize = 20_000;
/// A sidecar that was not seen for so long is forgotten. Units: milliseconds.
const FORGET_AFTER_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// The configuration of a sidecar that was not seen for so long binds no operator. Units: milliseconds.
const BINDS_FOR_MS: u64 = 60 * 60 * 1_000;

/// A status that has not changed is saved again after this. Units: milliseconds.
const SAVE_AGAIN_AFTER_MS: u64 = 60 * 1_000;
/// Figures that are older are not summed: three reports were missed. Units: milliseconds.
const FIGURES_LAST_MS: u64 = 30 * 1_000;
/// A sidecar of another hub is shown as connected for so long after it was seen there: it is saved once in [`SAVE_AGAIN_AFTER_MS`]. Units:
/// milliseconds.
const SHOWN_FOR_MS: u64 = 2 * SAVE_AGAIN_AFTER_MS;

#[derive(Debug)]
struct Known {
    caller: String,
    status: Status,
    seen_unix_ms: u64,
    /// How many feeds it holds here.
    feeds: usize,
    /// Whether another hub has seen it last.
    elsewhere: bool,
    /// When it was seen by the status that the record has; none where the record has another one.
    saved_unix_ms: Option<u64>,
    /// The processes that report under its name.
    twins: Twins,
    /// The figures of its pools that it has reported here last, and when; the record has none.
    figures: Option<(Figures, u64)>,
}

impl Known {
    /// Notes the start of the process that has sent the last status.
    fn note_start(&mut self) {
        if self.twins.note(self.status.started_unix_ms, self.seen_unix_ms) {
            event::hub_name_shared(&self.status.name, &self.caller);
        }
    }

    /// Whether it holds a feed of this hub, or of another one as far as is known.
    const fn is_connected(&self, unix_ms: u64) -> bool {
        self.feeds > 0 || (self.elsewhere && self.seen_unix_ms.saturating_add(SHOWN_FOR_MS) > unix_ms)
    }

    fn lacks_save(&self) -> bool {
        self.saved_unix_ms.is_none_or(|saved| saved.saturating_add(SAVE_AGAIN_AFTER_MS) <= self.seen_unix_ms)
    }

    /// Whether it lives, as far as is known.
    const fn binds(&self, unix_ms: u64) -> bool {
        self.feeds > 0 || self.seen_unix_ms.saturating_add(BINDS_FOR_MS) > unix_ms
    }
}

/// The inventory of a hub, by the names of sidecars.
#[derive(Debug, Default)]
pub(super) struct Fleet(HashMap<String, Known>);

/// Why a status is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The certificate is for sidecars of another region.
    Region,
    /// Another client has this name.
    Name,
    /// The inventory has as many sidecars as it may, and each of them holds a feed.
    Full,
}

impl Fleet {
    /// Takes statuses of the record that are newer than those known; one that cannot be read is left out. `elsewhere`: whether other hubs
    /// have seen them.
    pub(super) fn merge(&mut self, saved: Vec<SavedSidecar>, elsewhere: bool) {
        for SavedSidecar { name, caller, status, seen_unix_ms } in saved {
            let Ok(status) = serde_json::from_str::<Status>(&status) else { continue };
            let known = self.0.get(&name);
            if known.is_some_and(|known| known.seen_unix_ms >= seen_unix_ms) {
                continue;
            }
            let (feeds, twins) = known.map(|known| (known.feeds, known.twins.clone())).unwrap_or_default();
            if known.is_none() && self.make_room().is_err() {
                return;
            }
            let (saved_unix_ms, figures) = (Some(seen_unix_ms), None);
            let mut merged = Known { caller, status, seen_unix_ms, feeds, elsewhere, saved_unix_ms, twins, figures };
            merged.note_start();
            self.0.insert(name, merged);
        }
    }

    /// Takes a status that a sidecar has sent.
    pub(super) fn report(&mut self, caller: &Caller, status: Status, unix_ms: u64) -> Result<(), Refused> {
        if caller.region.as_ref().is_some_and(|region| *region != status.local_region) {
            return Err(Refused::Region);
        }
        if let Some(known) = self.0.get_mut(&status.name) {
            if known.caller != caller.name && known.binds(unix_ms) {
                return Err(Refused::Name);
            }
            if known.status != status || known.caller != caller.name || known.elsewhere {
                known.saved_unix_ms = None;
            }
            known.caller.clone_from(&caller.name);
            (known.status, known.seen_unix_ms, known.elsewhere) = (status, unix_ms, false);
            known.note_start();
            return Ok(());
        }
        self.make_room()?;
        let (name, caller) = (status.name.clone(), caller.name.clone());
        let (seen_unix_ms, feeds, elsewhere, saved_unix_ms) = (unix_ms, 0, false, None);
        let (twins, figures) = (Twins::default(), None);
        let mut known = Known { caller, status, seen_unix_ms, feeds, elsewhere, saved_unix_ms, twins, figures };
        known.note_start();
        self.0.insert(name, known);
        Ok(())
    }

    /// Drops the sidecar that was not seen for the longest time, where the inventory is full.
    fn make_room(&mut self) -> Result<(), Refused> {
        if self.0.len() >= SIDECARS_MAX {
            let without_feed = self.0.iter().filter(|(_, it)| it.feeds == 0);
            let oldest = without_feed.min_by_key(|(_, it)| it.seen_unix_ms).map(|(name, _)| name.clone());
            self.0.remove(&oldest.ok_or(Refused::Full)?);
        }
        Ok(())
    }

    /// Whether the last status of this name came with the client's certificate.
    pub(super) fn is_of(&self, name: &str, caller: &Caller) -> bool {
        self.0.get(name).is_some_and(|it| it.caller == caller.name)
    }

    /// Takes the figures of a known sidecar's pools.
    pub(super) fn take_figures(&mut self, name: &str, figures: Figures, unix_ms: u64) {
        if let Some(known) = self.0.get_mut(name) {
            known.figures = Some((figures, unix_ms));
        }
    }

    /// The sums of the figures of the sidecars that hold a feed here and have reported them lately. `bound`: the jobs of a pool at once in the fleet.
    pub(super) fn figures(&self, unix_ms: u64, bound: impl Fn(&str) -> Option<u64>) -> FleetFigures {
        let mut sum = FiguresSum::default();
        for known in self.0.values().filter(|it| it.feeds > 0) {
            let age = |at: u64| unix_ms.saturating_sub(at);
            if let Some((figures, at)) = known.figures.as_ref().filter(|(_, at)| age(*at) < FIGURES_LAST_MS) {
                sum.add(figures, age(*at));
            }
        }
        let connected = self.0.values().filter(|it| it.is_connected(unix_ms)).count();
        sum.end(connected as u64, bound)
    }

    /// Notes that a sidecar opens a feed; false where the client has reported no sidecar of this name.
    pub(super) fn open_feed(&mut self, name: &str, caller: &Caller) -> bool {
        let known = self.0.get_mut(name).filter(|it| it.caller == caller.name);
        known.map(|it| it.feeds += 1).is_some()
    }

    /// Notes the end of a feed that was noted.
    pub(super) fn close_feed(&mut self, name: &str) {
        if let Some(known) = self.0.get_mut(name) {
            known.feeds = known.feeds.saturating_sub(1);
        }
    }

    fn forget(&mut self, unix_ms: u64) {
        self.0.retain(|_, it| it.feeds > 0 || it.seen_unix_ms.saturating_add(FORGET_AFTER_MS) > unix_ms);
    }

    /// The statuses that the record lacks, and the time before which it forgets.
    pub(super) fn take_unsaved(&mut self, unix_ms: u64) -> (Vec<SavedSidecar>, u64) {
        self.forget(unix_ms);
        let unsaved = self.0.iter_mut().filter(|(_, it)| !it.elsewhere && it.lacks_save());
        let saved = unsaved.map(|(name, it)| {
            it.saved_unix_ms = Some(it.seen_unix_ms);
            let status = json!(it.status).to_string();
            let (name, caller) = (name.clone(), it.caller.clone());
            SavedSidecar { name, caller, status, seen_unix_ms: it.seen_unix_ms }
        });
        (saved.collect(), unix_ms.saturating_sub(FORGET_AFTER_MS))
    }

    /// Notes that the record did not take these statuses.
    pub(super) fn mark_unsaved(&mut self, names: &[String]) {
        for name in names {
            if let Some(known) = self.0.get_mut(name) {
                known.saved_unix_ms = None;
            }
        }
    }

    /// The names of those that hold a feed, here or at another hub as far as is known, in order.
    pub(super) fn connected(&self, unix_ms: u64) -> Vec<String> {
        let mut names: Vec<String> =
            self.0.iter().filter(|(_, it)| it.is_connected(unix_ms)).map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// How many are known, and how many of them hold a feed.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().filter(|it| it.feeds > 0).count())
    }

    fn binding(&self, unix_ms: u64) -> impl Iterator<Item = &Known> {
        self.0.values().filter(move |it| it.binds(unix_ms))
    }

    /// Whether a sidecar that was seen lately knows the region.
    pub(super) fn knows(&self, region: &RegionId, unix_ms: u64) -> bool {
        let has = |set: &RegionSet| set.regions.iter().any(|it| it.id == *region);
        self.binding(unix_ms).any(|it| it.status.region_sets.iter().any(has))
    }

    /// A sidecar that was seen lately, and the key of its configuration whose jobs a switch would leave without a region.
    pub(super) fn stranded(&self, set: &Switch, after: &Switches, unix_ms: u64) -> Option<(String, String)> {
        self.binding(unix_ms).find_map(|it| {
            let found = stranded(&it.status.region_sets, set, &after.joined(&it.status.own_switches))?;
            Some((it.status.name.clone(), found.key.clone()))
        })
    }

    /// The inventory, by name.
    pub(super) fn shown(&self, current: &Version, unix_ms: u64) -> Value {
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
                "connected": it.is_connected(unix_ms),
                "name_shared": it.twins.are_several(unix_ms),
                "last_seen": rfc3339(it.seen_unix_ms),
                "current": applied == current,
                "outcomes": { "unknown": it.status.unknown, "watched": it.status.watched },
            })
        };
        Value::Array(all.into_iter().map(show).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::access::Role;

    fn caller(name: &str) -> Caller {
        Caller { name: name.to_owned(), role: Role::Sidecar, scopes: Vec::new(), region: None, author: None }
    }

    fn status(name: &str) -> Status {
        Status {
            name: name.to_owned(),
            version: "1".to_owned(),
            local_region: RegionId::parse("a").unwrap(),
            federation_id: "f".to_owned(),
            config_digest: "d".to_owned(),
            started_unix_ms: 0,
            applied: Version::default(),
            region_sets: Vec::new(),
            own_switches: Switches::default(),
            unknown: 0,
            watched: 0,
            queues: Vec::new(),
        }
    }

    #[test]
    fn a_name_belongs_to_its_certificate_while_its_sidecar_lives() {
        let mut fleet = Fleet::default();
        assert_eq!(fleet.report(&caller("one"), status("pod"), 0), Ok(()));
        assert_eq!(fleet.report(&caller("two"), status("pod"), 1), Err(Refused::Name));
        assert!(!fleet.open_feed("pod", &caller("two")) && fleet.open_feed("pod", &caller("one")));
        assert_eq!(fleet.report(&caller("two"), status("pod"), BINDS_FOR_MS), Err(Refused::Name), "it holds a feed");
        fleet.close_feed("pod");
        assert_eq!(fleet.report(&caller("two"), status("pod"), BINDS_FOR_MS), Ok(()), "an hour later it is free");
    }

    #[test]
    fn in_a_full_inventory_the_sidecar_that_was_not_seen_for_the_longest_time_makes_room() {
        let mut fleet = Fleet::default();
        for at in 0..SIDECARS_MAX as u64 {
            fleet.report(&caller("c"), status(&format!("pod-{at}")), at).unwrap();
        }
        assert!(fleet.open_feed("pod-0", &caller("c")));
        fleet.report(&caller("c"), status("new"), 90_000).unwrap();
        assert_eq!(fleet.counts(), (SIDECARS_MAX, 1));
        assert!(fleet.0.contains_key("pod-0") && !fleet.0.contains_key("pod-1") && fleet.0.contains_key("new"));
    }

    #[test]
    fn a_name_that_several_processes_use_is_marked_in_the_inventory_also_where_they_are_at_two_hubs() {
        let at = |started_unix_ms| Status { started_unix_ms, ..status("pod") };
        let saved = |started, seen_unix_ms| SavedSidecar {
            name: "pod".to_owned(),
            caller: "c".to_owned(),
            status: json!(at(started)).to_string(),
            seen_unix_ms,
        };
        let (mut one_hub, mut two_hubs) = (Fleet::default(), Fleet::default());
        for second in (0..600).step_by(10) {
            let (first, second) = (second * 1_000, second * 1_000 + 5_000);
            one_hub.report(&caller("c"), at(1), first).unwrap();
            one_hub.report(&caller("c"), at(2), second).unwrap();
            two_hubs.report(&caller("c"), at(1), first).unwrap();
            two_hubs.merge(vec![saved(2, second)], true);
        }
        let marks = |fleet: &Fleet, now| fleet.shown(&Version::default(), now)[0]["name_shared"].clone();
        assert_eq!((marks(&one_hub, 600_000), marks(&two_hubs, 600_000)), (true.into(), true.into()));
        assert_eq!(marks(&one_hub, 900_000), false);
    }

    #[test]
    fn figures_are_summed_while_their_sidecar_holds_a_feed_and_reports() {
        let mut fleet = Fleet::default();
        for name in ["a", "b"] {
            fleet.report(&caller("c"), status(name), 0).unwrap();
            assert!(fleet.open_feed(name, &caller("c")));
            fleet.take_figures(name, Figures::default(), 0);
        }
        let sum = |fleet: &Fleet, at| fleet.figures(at, |_| None);
        let counts = |fleet: &Fleet, at| (sum(fleet, at).sidecars, sum(fleet, at).left_out);
        assert_eq!((counts(&fleet, 0), sum(&fleet, 9_000).age_ms), ((2, 0), 9_000));
        fleet.take_figures("b", Figures::default(), 20_000);
        assert_eq!(counts(&fleet, FIGURES_LAST_MS), (1, 1), "one has reported nothing for long");
        fleet.close_feed("b");
        assert_eq!(counts(&fleet, 25_000), (1, 0), "the other one has ended");
        let elsewhere = SavedSidecar {
            name: "d".to_owned(),
            caller: "c".to_owned(),
            status: json!(status("d")).to_string(),
            seen_unix_ms: 25_000,
        };
        fleet.merge(vec![elsewhere], true);
        assert_eq!(counts(&fleet, 25_000), (1, 1), "one is at another hub");
    }

    #[test]
    fn a_status_of_another_region_than_that_of_the_rule_is_refused() {
        let bound = Caller { region: Some(RegionId::parse("b").unwrap()), ..caller("c") };
        assert_eq!(Fleet::default().report(&bound, status("pod"), 0), Err(Refused::Region));
    }
}
