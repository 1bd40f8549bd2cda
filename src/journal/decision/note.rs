//! The note of one job while it is routed: of a fixed size, so that noting neither allocates nor formats.

use std::time::Duration;

use serde_json::{Value, json};

use super::names::Names;

use crate::base::{RefusalReason, Strategy, text::rfc3339, words};
use crate::policy::{Grounds, Origin, RegionIndex};
use crate::telemetry::{AttemptOutcome, FailoverReason};

/// A UUID has 36 letters, a request id of ours 40.
const ID_BYTES: usize = 40;
const QUEUE_BYTES: usize = 32;
const TYPE_BYTES: usize = 40;
/// A decision has `1 + failover.max_redirects` candidates, 4 by default.
const CANDIDATES_MAX: usize = 8;
/// One try a candidate, and a few that are repeated in the same region.
const TRIES_MAX: usize = 8;

/// A text in place; of a longer one the beginning.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    /// How long the text is, which may be more than is kept.
    len: u16,
}

impl<const N: usize> Text<N> {
    const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    /// Replaces the text.
    #[inline]
    pub fn set(&mut self, text: &[u8]) {
        let kept = text.len().min(N);
        if let (Some(room), Some(text)) = (self.bytes.get_mut(..kept), text.get(..kept)) {
            room.copy_from_slice(text);
        }
        self.len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    }

    const fn clear(&mut self) {
        self.len = 0;
    }

    /// The text, or as many whole letters of it as are kept; none where there is none.
    #[must_use]
    pub fn get(&self) -> Option<&str> {
        let kept = self.bytes.get(..usize::from(self.len)).unwrap_or(&self.bytes);
        let whole = match std::str::from_utf8(kept) {
            Ok(text) => text,
            Err(cut) => std::str::from_utf8(&kept[..cut.valid_up_to()]).unwrap_or_default(),
        };
        (!whole.is_empty()).then_some(whole)
    }

    /// Whether this may be the text: of a long one only the beginning and the length are known.
    fn is(&self, text: &str) -> bool {
        let kept = text.len().min(N);
        usize::from(self.len) == text.len() && self.bytes.get(..kept) == text.as_bytes().get(..kept)
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.get(), f)
    }
}

/// As much of an id as is kept.
pub(super) fn kept(id: &str) -> &str {
    id.get(..id.floor_char_boundary(ID_BYTES)).unwrap_or(id)
}

/// One try at a region.
#[derive(Debug, Clone, Copy)]
struct Try {
    /// The region's number.
    region: u16,
    outcome: AttemptOutcome,
    /// The status of its answer; 0 without one.
    status: u16,
    /// Why another region may be next; none for an answer.
    reason: Option<FailoverReason>,
    ms: u32,
    /// Whether the region was asked afterwards and had the job.
    found: bool,
    /// Whether the try ended before the region had a part in it.
    spared: bool,
}

words! {
    /// The kind of a call with several jobs.
    CallKind {
        /// Jobs, all or none.
        Batch = "batch",
        /// Jobs, each with its own result.
        Bulk = "bulk",
        /// A workflow, whose region creates its jobs.
        Workflow = "workflow",
        /// A cron job, whose region creates its jobs.
        Cron = "cron",
    }
}

/// A call that brought several jobs, of which this note is about one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotedCall {
    /// The kind of the call.
    pub kind: CallKind,
    /// How many jobs it brought.
    pub jobs: u16,
    /// How many of them have no note.
    pub unnoted: u16,
}

/// The note of one job. Regions are indices into the registry until the note is kept, and then numbers of `Names`.
#[derive(Debug, Clone, Copy)]
pub struct Note {
    pub(super) number: u64,
    /// When it was routed, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The job's id, the client's or the minted one.
    pub job_id: Text<ID_BYTES>,
    /// Its tracking id.
    pub federation_id: Text<ID_BYTES>,
    /// The id of the request that brought it.
    pub request_id: Text<ID_BYTES>,
    /// Its queue.
    pub queue: Text<QUEUE_BYTES>,
    /// Its type; never in a file.
    pub job_type: Text<TYPE_BYTES>,
    /// The strategy, where the job's attributes can be followed.
    pub strategy: Option<Strategy>,
    /// The source of the strategy, and the refusals of regions.
    pub grounds: Grounds,
    /// The call that it came with, where that brought several; [`Note::clear`] leaves it alone, because such a note is used once.
    pub call: Option<NotedCall>,
    /// Why it was answered with an error of ours.
    pub refusal: Option<RefusalReason>,
    /// The status that the client got.
    pub status: u16,
    /// How long it took, from the head of the request to that of the answer. Units: milliseconds.
    pub ms: u32,
    pin: Option<u16>,
    moved: Option<(u16, u16, FailoverReason)>,
    candidates: [u16; CANDIDATES_MAX],
    candidate_count: u8,
    tries: [Option<Try>; TRIES_MAX],
    try_count: u8,
}

impl Default for Note {
    fn default() -> Self {
        Self {
            number: 0,
            at_ms: 0,
            job_id: Text::EMPTY,
            federation_id: Text::EMPTY,
            request_id: Text::EMPTY,
            queue: Text::EMPTY,
            job_type: Text::EMPTY,
            strategy: None,
            grounds: Grounds::default(),
            call: None,
            refusal: None,
            status: 0,
            ms: 0,
            pin: None,
            moved: None,
            candidates: [0; CANDIDATES_MAX],
            candidate_count: 0,
            tries: [None; TRIES_MAX],
            try_count: 0,
        }
    }
}

fn place(region: RegionIndex) -> u16 {
    u16::try_from(region.get()).unwrap_or(u16::MAX)
}

/// Longer than seven weeks is seven weeks.
pub fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

impl Note {
    /// Makes room for the next job. Entries beyond their counts are left as they are.
    pub fn clear(&mut self) {
        self.job_id.clear();
        self.federation_id.clear();
        self.request_id.clear();
        self.queue.clear();
        self.job_type.clear();
        (self.strategy, self.refusal, self.pin, self.moved) = (None, None, None, None);
        (self.candidate_count, self.try_count, self.status, self.ms) = (0, 0, 0, 0);
        self.grounds = Grounds::default();
    }

    /// The regions that were chosen.
    pub fn set_candidates(&mut self, candidates: &[RegionIndex]) {
        let kept = candidates.len().min(CANDIDATES_MAX);
        for (slot, region) in self.candidates.iter_mut().zip(candidates) {
            *slot = place(*region);
        }
        self.candidate_count = u8::try_from(kept).unwrap_or(0);
    }

    /// The region that the job itself names.
    pub fn set_pin(&mut self, region: RegionIndex) {
        self.pin = Some(place(region));
    }

    /// The note of another job of the same call, which names this region itself, or none.
    #[must_use]
    pub fn of_companion(&self, pin: Option<RegionIndex>) -> Box<Self> {
        let origin = if pin.is_some() { Origin::Pin } else { Origin::Together };
        let grounds = Grounds { origin, rule: None, ..self.grounds };
        Box::new(Self { pin: pin.map(place), grounds, ..*self })
    }

    /// The job went to another region than the one it was meant for, or was tried in.
    pub fn moved(&mut self, from: RegionIndex, to: RegionIndex, reason: FailoverReason) {
        self.moved = Some((place(from), place(to), reason));
    }

    /// One try ended. Those that there is no room for are counted.
    pub fn tried(
        &mut self,
        region: RegionIndex,
        outcome: AttemptOutcome,
        status: Option<u16>,
        reason: FailoverReason,
        took: Duration,
    ) {
        let answered = outcome == AttemptOutcome::Answered;
        let reason = (!answered).then_some(reason);
        let ms = milliseconds(took);
        if let Some(slot) = self.tries.get_mut(usize::from(self.try_count)) {
            *slot = Some(Try {
                region: place(region),
                outcome,
                status: status.unwrap_or(0),
                reason,
                ms,
                found: false,
                spared: false,
            });
        }
        self.try_count = self.try_count.saturating_add(1);
    }

    /// The region of the last try was asked for the job, and has it.
    pub fn found(&mut self) {
        let last = usize::from(self.try_count).checked_sub(1).and_then(|last| self.tries.get_mut(last));
        if let Some(Some(last)) = last {
            last.found = true;
        }
    }

    /// The last try ended before the region had a part in it: by a limit here, or because another region was connected first.
    pub fn spared(&mut self) {
        let last = usize::from(self.try_count).checked_sub(1).and_then(|last| self.tries.get_mut(last));
        if let Some(Some(last)) = last {
            last.spared = true;
        }
    }

    /// The region that the job names, by its place in the registry.
    #[must_use]
    pub fn pin(&self) -> Option<RegionIndex> {
        Some(RegionIndex::new(self.pin?.into()))
    }

    /// Where the job left and where it went, by their places in the registry, and why.
    #[must_use]
    pub fn move_made(&self) -> Option<(RegionIndex, RegionIndex, FailoverReason)> {
        self.moved.map(|(from, to, reason)| (RegionIndex::new(from.into()), RegionIndex::new(to.into()), reason))
    }

    /// Whether all went as planned, as far as it is noted: else it is kept in the file, too.
    #[must_use]
    pub fn went_as_planned(&self) -> bool {
        let is_answered = |it: &Try| it.outcome == AttemptOutcome::Answered && it.status < 500;
        let tried = self.try_count <= 1 && self.tries().all(is_answered);
        tried && self.refusal.is_none() && self.status < 500 && self.moved.is_none()
    }

    /// The first try: the place of its region in the registry, how it ended, and the status of the answer, 0 without one. None where the region had no part
    /// in it.
    #[must_use]
    pub fn first_try(&self) -> Option<(RegionIndex, AttemptOutcome, u16)> {
        self.tries()
            .next()
            .filter(|it| !it.spared)
            .map(|it| (RegionIndex::new(it.region.into()), it.outcome, it.status))
    }

    fn tries(&self) -> impl Iterator<Item = &Try> {
        self.tries.iter().take(usize::from(self.try_count)).flatten()
    }

    /// Numbers all regions otherwise.
    pub(super) fn renumber(&mut self, number: impl Fn(u16) -> u16) {
        let count = usize::from(self.candidate_count);
        self.candidates.iter_mut().take(count).for_each(|region| *region = number(*region));
        self.tries.iter_mut().take(usize::from(self.try_count)).flatten().for_each(|it| it.region = number(it.region));
        self.pin = self.pin.map(&number);
        self.moved = self.moved.map(|(from, to, reason)| (number(from), number(to), reason));
        self.grounds.fallen.listed_mut().iter_mut().for_each(|(region, _)| *region = number(*region));
    }

    /// Whether it is a note of the wanted job.
    pub(super) fn is_about(&self, wanted: &Wanted) -> bool {
        match wanted {
            Wanted::Job(id) => self.job_id.is(id),
            Wanted::Federation(id) => self.federation_id.is(id),
            Wanted::Request(id) => self.request_id.is(id),
        }
    }

    /// The document for people and for the file. `durable` says whether it is on its way to a file, which gets no job type.
    pub(super) fn document(&self, names: &Names, durable: bool) -> Value {
        let count = usize::from(self.candidate_count);
        let candidates: Vec<&str> = self.candidates.iter().take(count).map(|it| names.name(*it)).collect();
        let fallen = self.grounds.fallen.listed().iter().map(|(region, refusal)| {
            json!({ "region": names.name(*region), "reason": refusal.as_str(), "message": refusal.to_string() })
        });
        let tries = self.tries().map(|it| {
            json!({
                "region": names.name(it.region),
                "outcome": it.outcome.as_str(),
                "status": (it.status > 0).then_some(it.status),
                "reason": it.reason.map(FailoverReason::as_str),
                "found": it.found,
                "ms": it.ms,
            })
        });
        let moved = self.moved.map(
            |(from, to, reason)| json!({ "from": names.name(from), "to": names.name(to), "reason": reason.as_str() }),
        );
        json!({
            "job_id": self.job_id.get(),
            "federation_id": self.federation_id.get(),
            "request_id": self.request_id.get(),
            "call": self.call.map(|it| json!({ "kind": it.kind.as_str(), "jobs": it.jobs, "unnoted": it.unnoted })),
            "at": rfc3339(self.at_ms),
            "queue": self.queue.get(),
            "type": self.job_type.get().filter(|_| !durable),
            "strategy": self.strategy.map(Strategy::as_str),
            "strategy_from": self.grounds.origin.as_str(),
            "rule": self.grounds.rule,
            "decided_by": self.grounds.decided_by.as_str(),
            "pin": self.pin.map(|pin| names.name(pin)),
            "candidates": candidates,
            "refused": fallen.collect::<Vec<_>>(),
            "refused_unlisted": self.grounds.fallen.unlisted(),
            "moved": moved,
            "attempts": tries.collect::<Vec<_>>(),
            "attempts_unlisted": usize::from(self.try_count).saturating_sub(TRIES_MAX),
            "answer": { "status": self.status, "refusal": self.refusal.map(RefusalReason::as_str) },
            "ms": self.ms,
        })
    }
}

/// Which job is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// By its id.
    Job(String),
    /// By its tracking id.
    Federation(String),
    /// By the id of the request that brought it.
    Request(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_had_no_part_in_its_try_has_no_first_try() {
        let (mut note, region) = (Note::default(), RegionIndex::new(1));
        note.tried(region, AttemptOutcome::NotSent, None, FailoverReason::Overloaded, Duration::ZERO);
        assert_eq!(note.first_try(), Some((region, AttemptOutcome::NotSent, 0)));
        note.spared();
        assert_eq!(note.first_try(), None);
    }
}
