//! One id that a source names, or that is in force.

use std::time::{Duration, Instant};

use super::said::Look;
use crate::config::{RegionSource, RegionUrl, Sighting};

/// The sources in their order: the word of a directory on an id goes before that of the hub, and both before that of a name server.
pub const SOURCES: [RegionSource; 3] = [RegionSource::Directory, RegionSource::Hub, RegionSource::Dns];

/// Why a proof failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofFailure {
    /// The handshake showed no certificate with the identity of the id.
    Identity,
    /// There was no handshake.
    Unreachable,
}

/// Whether the address that is wanted has shown its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It is asked for.
    Asked,
    /// It has.
    Given,
    /// It has not; it is asked for again then.
    Failed(ProofFailure, Instant),
}

/// So many looks in a row that could not be read whole forget an id that was never in force: its place is for others.
const MISSED_MAX: u32 = 3;

/// A name and a handshake have ended long before, one way or the other.
const PROOF_LIFE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone)]
struct Seen {
    sighting: Sighting,
    /// The first look of those in a row that miss it.
    missing_since: Option<Instant>,
}

/// An id.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    seen: [Option<Seen>; SOURCES.len()],
    pub(super) in_force: Option<Sighting>,
    /// The last proof, and the address that it was asked of.
    pub(super) proof: Option<(RegionUrl, Proof)>,
    /// When it was last asked to prove itself, and how often in a row it has failed.
    pub(super) asked_at: Option<Instant>,
    pub(super) failures: u32,
    /// The looks in a row, also those that could not be read whole, that did not name it.
    pub(super) missed: u32,
    /// It was in force in the last process: it goes by no single look, and comes back without waiting.
    pub(super) is_restored: bool,
    /// Since when a change waits to be put in force.
    pub(super) ready_since: Option<Instant>,
}

impl Known {
    /// The sighting that is to be in force.
    pub(super) fn wanted(&self) -> Option<&Sighting> {
        self.seen.iter().flatten().map(|seen| &seen.sighting).next()
    }

    /// Whether it takes two looks to lose it.
    pub(super) const fn is_kept(&self) -> bool {
        self.in_force.is_some() || self.is_restored
    }

    /// Whether it is in force by this source, at the place that the source names last.
    pub(super) fn is_in_force_as(&self, source: RegionSource) -> bool {
        let named = self.seen.iter().flatten().find(|seen| seen.sighting.source == source);
        let in_force = self.in_force.as_ref().filter(|it| it.source == source);
        in_force.zip(named).is_some_and(|(it, named)| is_same_place(&it.url, &named.sighting.url))
    }

    pub(super) fn see(&mut self, sighting: Sighting) {
        self.missed = 0;
        if let Some(slot) = self.slot_mut(sighting.source) {
            *slot = Some(Seen { sighting, missing_since: None });
        }
    }

    /// A look that could not be read whole did not name it: only an id that was never in force is forgotten by several.
    pub(super) fn miss_partly(&mut self, source: RegionSource) {
        if self.is_kept() {
            return;
        }
        self.missed += 1;
        if self.missed >= MISSED_MAX
            && let Some(slot) = self.slot_mut(source)
        {
            *slot = None;
        }
    }

    /// A complete look of its source did not name it; `is_trusted`: the look may take regions out.
    pub(super) fn miss(&mut self, look: &Look, now: Instant, spacing: Duration, is_trusted: bool) {
        let is_kept = self.is_kept();
        let Some(slot) = self.slot_mut(look.source) else { return };
        let Some(seen) = slot else { return };
        if !is_kept {
            *slot = None;
        } else if is_trusted {
            let since = *seen.missing_since.get_or_insert(now);
            if now.saturating_duration_since(since) >= spacing {
                *slot = None;
            }
        }
    }

    /// Whether the address that is wanted must show its identity before it is in force.
    pub(super) fn unproven(&self) -> Option<&Sighting> {
        let wanted = self.wanted()?;
        let is_in_force = self.in_force.as_ref().is_some_and(|it| is_same_place(&it.url, &wanted.url));
        (!is_in_force && self.proof_of(&wanted.url) != Some(Proof::Given)).then_some(wanted)
    }

    /// Whether it is to be asked for a proof now. One answer is waited for at a time, also where the address has changed meanwhile.
    pub(super) fn is_proof_due(&self, now: Instant) -> bool {
        let Some(seen) = self.unproven() else { return false };
        match self.proof {
            Some((_, Proof::Asked)) => self.is_proof_lost(now),
            _ => match self.proof_of(&seen.url) {
                Some(Proof::Failed(_, again)) => again <= now,
                Some(_) => false,
                None => true,
            },
        }
    }

    /// Whether the answer that is waited for never comes, after a defect.
    pub(super) fn is_proof_lost(&self, now: Instant) -> bool {
        self.asked_at.is_some_and(|at| now.saturating_duration_since(at) >= PROOF_LIFE)
    }

    pub(super) fn proof_of(&self, url: &RegionUrl) -> Option<Proof> {
        self.proof.as_ref().filter(|(of, _)| is_same_place(of, url)).map(|(_, proof)| *proof)
    }

    /// Whether the wanted sighting could be put in force now.
    pub(super) fn is_ready(&self) -> bool {
        self.wanted() != self.in_force.as_ref() && self.unproven().is_none()
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.in_force.is_none() && self.wanted().is_none()
    }

    fn slot_mut(&mut self, source: RegionSource) -> Option<&mut Option<Seen>> {
        self.seen.get_mut(SOURCES.iter().position(|it| *it == source)?)
    }
}

pub(super) fn is_same_place(one: &RegionUrl, other: &RegionUrl) -> bool {
    (&one.host, one.port, &one.base_path) == (&other.host, other.port, &other.base_path)
}
