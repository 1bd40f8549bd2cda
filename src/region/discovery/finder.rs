//! The decision: from the words of sources and the proofs to the regions in force.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use wildmatch::WildMatch;

use super::known::{Known, Proof, ProofFailure, SOURCES, is_same_place};
use super::report::ReportedRegion;
use super::said::{Look, Rejected, Rejection};
use crate::base::RegionId;
use crate::config::{DiscoveryConfig, RegionSource, RegionUrl, Sighting};

/// The time in which changes are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// With an interval of 30 s, a region that is mended is asked again after 8 minutes at most.
const DOUBLINGS_MAX: u32 = 4;

/// Everything that was discovered.
#[derive(Debug)]
pub struct Finder {
    allow: Vec<WildMatch>,
    interval: Duration,
    regions_max: usize,
    changes_max: usize,
    /// The regions of the file.
    statics: BTreeSet<RegionId>,
    /// At most `regions_max`.
    known: BTreeMap<RegionId, Known>,
    /// The changes of the last minute, at most `changes_max`.
    changed_at: VecDeque<Instant>,
}

/// How the regions in force changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// A region came.
    Added,
    /// Its address, weight, tags or source changed.
    Changed,
    /// A region went.
    Removed,
}

/// A change that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The region.
    pub id: RegionId,
    /// Its kind.
    pub kind: ChangeKind,
    /// Where it is known from.
    pub source: RegionSource,
}

impl Finder {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(config: &DiscoveryConfig) -> Self {
        Self {
            allow: config.allow.iter().map(|pattern| WildMatch::new(pattern)).collect(),
            interval: config.interval,
            regions_max: config.regions_max,
            changes_max: config.changes_per_minute,
            statics: BTreeSet::new(),
            known: BTreeMap::new(),
            changed_at: VecDeque::new(),
        }
    }

    /// Takes the ids of the file's regions, each of which wins over one that is discovered. Whether that takes one out of force.
    pub fn set_statics(&mut self, statics: BTreeSet<RegionId>) -> bool {
        let loses = self.known.iter().any(|(id, known)| known.in_force.is_some() && statics.contains(id));
        self.known.retain(|id, _| !statics.contains(id));
        self.statics = statics;
        loses
    }

    /// Takes the regions in force of the last process. Each proves itself again before it is in force in this one.
    pub fn restore(&mut self, sightings: Vec<Sighting>) {
        for sighting in sightings {
            if self.refusal(&sighting).is_none() && SOURCES.contains(&sighting.source) {
                let known = self.known.entry(sighting.id.clone()).or_default();
                known.is_restored = true;
                known.see(sighting);
            }
        }
    }

    /// Takes the regions in force, after the loop of this process was made anew.
    pub fn resume(&mut self, in_force: &[Sighting]) {
        for sighting in in_force {
            let known = self.known.entry(sighting.id.clone()).or_default();
            known.see(sighting.clone());
            known.in_force = Some(sighting.clone());
        }
    }

    /// Whether a region of the last process was not asked yet to prove itself, or has not answered.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        let open = |known: &Known| known.is_restored && known.in_force.is_none();
        self.known
            .values()
            .any(|known| open(known) && matches!(known.proof, None | Some((_, Proof::Asked | Proof::Given))))
    }

    /// Takes a look at a source that has an answer; one without an answer changes nothing. Returns the regions that are turned away.
    pub fn on_look(&mut self, now: Instant, look: &Look) -> BTreeSet<Rejected> {
        let mut rejected: BTreeSet<Rejected> = look
            .malformed
            .iter()
            .map(|(place, _)| Rejected { why: Rejection::Malformed, about: place.clone() })
            .collect();
        let mut reject = |why, id: &RegionId| rejected.insert(Rejected { why, about: id.to_string() });
        let mut named = BTreeMap::<&RegionId, &Sighting>::new();
        for seen in &look.sightings {
            match named.get(&seen.id) {
                None => {}
                Some(other) if is_same_place(&other.url, &seen.url) => continue,
                Some(other) => {
                    reject(Rejection::Ambiguous, &seen.id);
                    if !self.prefers(seen, other) {
                        continue;
                    }
                }
            }
            named.insert(&seen.id, seen);
        }
        // Those that are in force first: newcomers take the room that is left.
        let (kept, new): (Vec<_>, Vec<_>) = named.values().partition(|it| self.known.contains_key(&it.id));
        let mut seen_now = BTreeSet::new();
        for seen in kept.into_iter().chain(new) {
            if let Some(why) = self.refusal(seen) {
                reject(why, &seen.id);
                continue;
            }
            seen_now.insert(seen.id.clone());
            self.known.entry(seen.id.clone()).or_default().see(Sighting::clone(seen));
        }
        if look.is_complete {
            self.miss_others(now, look, &seen_now);
        } else {
            let others = self.known.iter_mut().filter(|(id, _)| !seen_now.contains(*id));
            others.for_each(|(_, known)| known.miss_partly(look.source));
        }
        self.known.retain(|_, known| !known.is_forgotten());
        rejected
    }

    /// Those that the look does not name. A look that has lost all regions of its source in force takes none of them out: it is more
    /// likely wrong than right. Another source's region, or one at another place, is no sign that it is right.
    fn miss_others(&mut self, now: Instant, look: &Look, seen_now: &BTreeSet<RegionId>) {
        let is_trusted =
            self.known.iter().any(|(id, known)| seen_now.contains(id) && known.is_in_force_as(look.source));
        for (id, known) in &mut self.known {
            if !seen_now.contains(id) {
                known.miss(look, now, self.interval, is_trusted);
            }
        }
    }

    /// Whether the first is to be tried before the other, which the source prefers: it is in force already.
    fn prefers(&self, seen: &Sighting, other: &Sighting) -> bool {
        let in_force = self.known.get(&seen.id).and_then(|known| known.in_force.as_ref().or_else(|| known.wanted()));
        in_force.is_some_and(|it| is_same_place(&it.url, &seen.url) && !is_same_place(&it.url, &other.url))
    }

    fn refusal(&self, seen: &Sighting) -> Option<Rejection> {
        if self.statics.contains(&seen.id) {
            return Some(Rejection::Static);
        }
        if !self.allow.iter().any(|pattern| pattern.matches(seen.id.as_str())) {
            return Some(Rejection::NotAllowed);
        }
        let is_full = !self.known.contains_key(&seen.id) && self.known.len() >= self.regions_max;
        is_full.then_some(Rejection::Full)
    }

    /// The regions that are to prove themselves now, `most` at most; each is asked until [`Finder::on_proof`]. The one that was asked longest ago
    /// goes first, so that addresses without an answer keep no other waiting.
    pub fn to_prove(&mut self, now: Instant, most: usize) -> Vec<Sighting> {
        let is_asked = |known: &Known| matches!(known.proof, Some((_, Proof::Asked))) && !known.is_proof_lost(now);
        let asked = self.known.values().filter(|known| is_asked(known)).count();
        let mut due: Vec<_> = self.known.values_mut().filter(|known| known.is_proof_due(now)).collect();
        due.sort_by_key(|known| known.asked_at);
        let mut sightings = Vec::new();
        for known in due.into_iter().take(most.saturating_sub(asked)) {
            let Some(seen) = known.unproven().cloned() else { continue };
            known.proof = Some((seen.url.clone(), Proof::Asked));
            known.asked_at = Some(now);
            sightings.push(seen);
        }
        sightings
    }

    /// Takes the answer of a proof. One that fails again and again is asked for less and less often.
    pub fn on_proof(&mut self, now: Instant, id: &RegionId, url: &RegionUrl, proof: Result<(), ProofFailure>) {
        let Some(known) = self.known.get_mut(id) else { return };
        if known.proof_of(url) != Some(Proof::Asked) {
            return;
        }
        let again = now + self.interval * (1 << known.failures.min(DOUBLINGS_MAX));
        known.failures = if proof.is_ok() { 0 } else { known.failures + 1 };
        let proof = proof.map_or_else(|why| Proof::Failed(why, again), |()| Proof::Given);
        known.proof = Some((url.clone(), proof));
    }

    /// Puts changes in force that are ready, as many as a minute has left; the oldest go first.
    pub fn apply(&mut self, now: Instant) -> Vec<Change> {
        while self.changed_at.front().is_some_and(|at| now.saturating_duration_since(*at) >= MINUTE) {
            self.changed_at.pop_front();
        }
        let mut ready = Vec::new();
        for (id, known) in &mut self.known {
            if !known.is_ready() {
                known.ready_since = None;
                continue;
            }
            let since = *known.ready_since.get_or_insert(now);
            // A region of before the restart is no change.
            let is_free = known.is_restored && known.in_force.is_none();
            ready.push((!is_free, since, id.clone()));
        }
        ready.sort();
        let mut changes = Vec::new();
        for (counts, _, id) in ready {
            if counts {
                if self.changed_at.len() >= self.changes_max {
                    break;
                }
                self.changed_at.push_back(now);
            }
            changes.extend(self.put_in_force(id));
        }
        self.known.retain(|_, known| !known.is_forgotten());
        changes
    }

    fn put_in_force(&mut self, id: RegionId) -> Option<Change> {
        let known = self.known.get_mut(&id)?;
        let wanted = known.wanted().cloned();
        let before = std::mem::replace(&mut known.in_force, wanted);
        (known.ready_since, known.is_restored, known.proof) = (None, false, None);
        let (kind, source) = match (&before, &known.in_force) {
            (None, Some(now)) => (ChangeKind::Added, now.source),
            (Some(_), Some(now)) => (ChangeKind::Changed, now.source),
            (Some(before), None) => (ChangeKind::Removed, before.source),
            (None, None) => return None,
        };
        Some(Change { id, kind, source })
    }

    /// The regions in force, by their ids.
    #[must_use]
    pub fn in_force(&self) -> Vec<Sighting> {
        self.known.values().filter_map(|known| known.in_force.clone()).collect()
    }

    /// The regions to know after a restart: those in force, and those of before the last one that have not proved themselves again yet.
    #[must_use]
    pub fn to_keep(&self) -> Vec<Sighting> {
        let keep = |known: &Known| match &known.in_force {
            Some(in_force) => Some(in_force.clone()),
            None => known.wanted().filter(|_| known.is_restored).cloned(),
        };
        self.known.values().filter_map(keep).collect()
    }

    /// When time alone changes something: a proof is due again, or a change need not wait any longer.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let again = self.known.values().filter_map(|known| {
            let seen = known.unproven()?;
            let Some(Proof::Failed(_, again)) = known.proof_of(&seen.url) else { return None };
            Some(again)
        });
        let is_waiting = self.known.values().any(Known::is_ready);
        let release = self.changed_at.front().filter(|_| is_waiting).map(|at| *at + MINUTE);
        again.chain(release).min()
    }

    /// The changes that wait for the next minute.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.known.values().filter(|known| known.is_ready()).count()
    }

    /// Every region that is known, for display.
    #[must_use]
    pub fn report(&self) -> Vec<ReportedRegion> {
        let known = self.known.iter();
        let report = |(id, known): (&RegionId, &Known)| {
            let wanted = known.wanted();
            let state = match (&known.in_force, wanted) {
                (Some(_), None) => "removed",
                (Some(_), Some(_)) => "in_force",
                (None, _) => "unproven",
            };
            let proof = match wanted.and_then(|it| known.proof_of(&it.url)) {
                _ if known.unproven().is_none() => "given",
                Some(Proof::Failed(ProofFailure::Identity, _)) => "refused",
                Some(Proof::Failed(ProofFailure::Unreachable, _)) => "unreachable",
                Some(Proof::Asked | Proof::Given) | None => "asked",
            };
            let shown = wanted.or(known.in_force.as_ref());
            ReportedRegion {
                id: id.clone(),
                source: shown.map_or(RegionSource::Dns, |it| it.source),
                url: known.in_force.as_ref().map(|it| it.url.text.clone()),
                wanted_url: wanted.map(|it| it.url.text.clone()),
                claimed_tags: shown.map(|it| it.tags.clone()).unwrap_or_default(),
                state,
                proof,
                waits: known.is_ready(),
            }
        };
        known.map(report).collect()
    }
}

#[cfg(test)]
mod tests;
