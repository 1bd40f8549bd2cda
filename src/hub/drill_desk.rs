//! The last failover drill that a hub knows, and the counts of its sidecars.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::drill_order::Drill;
use super::record::{SavedCounts, SavedDrill};
use crate::switch::DrillCounts;

/// Processes of sidecars whose counts are taken: twice as many as an inventory has sidecars, for those that restart.
const PROCESSES_MAX: usize = 40_000;

/// Processes of one sidecar whose counts are taken: one that restarts more often in a drill is no witness.
const PROCESSES_OF_ONE_MAX: usize = 16;

/// A drill that was not judged for so long is not named in feeds: no hub would end it.
const UNJUDGED_MAX: Duration = Duration::from_secs(10);

/// The last drill, with its number and its version in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) drill: Drill,
    pub(super) number: u64,
    pub(super) version: u64,
}

impl Latest {
    /// One of the record; none where a later version of this program has written it.
    pub(super) fn read(saved: &SavedDrill) -> Option<Self> {
        let drill = serde_json::from_str(&saved.document).ok()?;
        Some(Self { drill, number: saved.number, version: saved.version })
    }

    /// Whether it is a later state than another one, by the numbers of the record: clocks may be set back.
    const fn is_later_than(&self, known: &Self) -> bool {
        self.number > known.number || (self.number == known.number && self.version > known.version)
    }
}

/// The drills at a hub.
#[derive(Debug, Default)]
pub(super) struct DrillDesk {
    latest: watch::Sender<Option<Arc<Latest>>>,
    counts: RefCell<Counts>,
    /// When the last drill was looked up and judged to go on; none where it is to end.
    judged: Cell<Option<Instant>>,
}

/// The counts in the last drill, by the sidecar and the start of its process. Units of the start: milliseconds since the Unix epoch.
#[derive(Debug, Default)]
struct Counts {
    of: String,
    /// Those that this hub or, as far as it has read them, others have got.
    all: BTreeMap<(String, u64), Numbered>,
    /// Those that the record does not have.
    unsaved: BTreeMap<(String, u64), Numbered>,
}

/// Counts, and the number of the report that brought them.
#[derive(Debug, Clone)]
struct Numbered {
    seq: u64,
    counts: DrillCounts,
}

impl Counts {
    /// Takes counts in place of those before of the same process, unless those are later.
    fn put(&mut self, of: (String, u64), counts: Numbered) -> bool {
        let is_later = self.all.get(&of).is_none_or(|known| counts.seq >= known.seq);
        if is_later {
            self.all.insert(of, counts);
        }
        is_later
    }

    /// The sum, and the names of the sidecars.
    fn sum(&self) -> (DrillCounts, Vec<String>) {
        let mut sum = DrillCounts::default();
        self.all.values().for_each(|it| sum.add(&it.counts));
        let mut names: Vec<String> = self.all.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        (sum, names)
    }

    /// Takes rows of the record. One that cannot be read is left out.
    fn merge(&mut self, saved: Vec<SavedCounts>) {
        for SavedCounts { sidecar, started_ms, seq, document } in saved {
            if let Ok(counts) = serde_json::from_str(&document) {
                self.put((sidecar, started_ms), Numbered { seq, counts });
            }
        }
    }
}

/// There are counts of as many processes as there may be, or another drill is the last one.
#[derive(Debug)]
pub(super) struct Full;

impl DrillDesk {
    /// The last drill, also where it is over.
    pub(super) fn latest(&self) -> Option<Arc<Latest>> {
        self.latest.borrow().clone()
    }

    /// Follows the last drill from now on.
    pub(super) fn follow(&self) -> watch::Receiver<Option<Arc<Latest>>> {
        self.latest.subscribe()
    }

    /// Takes a drill of the record for the last one, unless a later state is known: the record may have been read before that was kept. The counts of another
    /// drill make room.
    pub(super) fn set(&self, latest: Latest, now: Instant) {
        self.latest.send_if_modified(|known| {
            let is_later = known.as_deref().is_none_or(|known| latest.is_later_than(known));
            if is_later {
                if self.counts.borrow().of != latest.drill.id {
                    *self.counts.borrow_mut() = Counts { of: latest.drill.id.clone(), ..Counts::default() };
                    self.judged.set(Some(now));
                }
                *known = Some(Arc::new(latest));
            }
            is_later
        });
    }

    /// Notes that the last drill was found in the record and is to go on, or that it is to end, which the feeds then say at once.
    pub(super) fn judged(&self, goes_on: bool, now: Instant) {
        let was_on = self.is_judged(now);
        self.judged.set(goes_on.then_some(now));
        self.latest.send_if_modified(|_| was_on != goes_on);
    }

    /// Whether the last drill was judged lately, so that feeds may name it.
    pub(super) fn is_judged(&self, now: Instant) -> bool {
        self.judged.get().is_some_and(|at| now.saturating_duration_since(at) < UNJUDGED_MAX)
    }

    /// Takes the counts of a sidecar in the last drill in place of those before of the same process, unless those have a higher number.
    ///
    /// Errors: [`Full`].
    pub(super) fn take(&self, drill: &str, of: (String, u64), seq: u64, counts: DrillCounts) -> Result<(), Full> {
        let mut known = self.counts.borrow_mut();
        if known.of != drill {
            return Err(Full);
        }
        if !known.all.contains_key(&of) {
            let of_one = known.all.range((of.0.clone(), 0)..=(of.0.clone(), u64::MAX)).count();
            if known.all.len() >= PROCESSES_MAX || of_one >= PROCESSES_OF_ONE_MAX {
                return Err(Full);
            }
        }
        let counts = Numbered { seq, counts };
        if known.put(of.clone(), counts.clone()) {
            known.unsaved.insert(of, counts);
        }
        Ok(())
    }

    /// Takes counts of the record, unless they are of another drill, or those that are known have as high a number.
    pub(super) fn merge(&self, drill: &str, saved: Vec<SavedCounts>) {
        let mut known = self.counts.borrow_mut();
        if known.of == drill {
            known.merge(saved);
        }
    }

    /// The counts that the record does not have; they count as had from now on.
    pub(super) fn take_unsaved(&self, drill: &str) -> Vec<SavedCounts> {
        let mut known = self.counts.borrow_mut();
        if known.of != drill {
            return Vec::new();
        }
        let saved = |((sidecar, started_ms), it): ((String, u64), Numbered)| {
            let document = serde_json::json!(it.counts).to_string();
            SavedCounts { sidecar, started_ms, seq: it.seq, document }
        };
        std::mem::take(&mut known.unsaved).into_iter().map(saved).collect()
    }

    /// Gives back counts that the record has not taken, but for those that came meanwhile.
    pub(super) fn give_back(&self, drill: &str, saved: Vec<SavedCounts>) {
        let mut known = self.counts.borrow_mut();
        if known.of != drill {
            return;
        }
        for SavedCounts { sidecar, started_ms, seq, document } in saved {
            if let Ok(counts) = serde_json::from_str(&document) {
                known.unsaved.entry((sidecar, started_ms)).or_insert(Numbered { seq, counts });
            }
        }
    }

    /// The sum of the counts in the last drill, and the names of its sidecars; nothing for another drill.
    pub(super) fn sum(&self, drill: &str) -> (DrillCounts, Vec<String>) {
        let known = self.counts.borrow();
        if known.of == drill { known.sum() } else { (DrillCounts::default(), Vec::new()) }
    }
}

/// The sum of counts of the record, and the names of the sidecars.
pub(super) fn sum_of(saved: Vec<SavedCounts>) -> (DrillCounts, Vec<String>) {
    let mut counts = Counts::default();
    counts.merge(saved);
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{RegionId, Share};
    use crate::hub::drill_order::{Cause, Ended};

    fn latest(id: &str, number: u64, version: u64, is_over: bool) -> Latest {
        let text = || "x".to_owned();
        let drill = Drill {
            id: id.to_owned(),
            region: RegionId::parse("us").unwrap(),
            share: Share::ALL,
            began_ms: 1,
            ends_ms: 2,
            abort_failures: Share::ALL,
            abort_latency_ms: None,
            well: Vec::new(),
            unwell: Vec::new(),
            reason: text(),
            ticket: text(),
            author: text(),
            ended: is_over.then(|| Ended { cause: Cause::Stopped, detail: text(), at_ms: 1 }),
        };
        Latest { drill, number, version }
    }

    fn desk(id: &str) -> DrillDesk {
        let desk = DrillDesk::default();
        desk.set(latest(id, 1, 1, false), Instant::now());
        desk
    }

    fn counts(returned: u64) -> DrillCounts {
        DrillCounts { returned, ..DrillCounts::default() }
    }

    fn saved(name: &str, seq: u64, returned: u64) -> SavedCounts {
        let document = serde_json::json!(counts(returned)).to_string();
        SavedCounts { sidecar: name.to_owned(), started_ms: 1, seq, document }
    }

    fn of(name: &str) -> (String, u64) {
        (name.to_owned(), 1)
    }

    #[test]
    fn a_state_that_was_read_before_a_later_one_was_kept_changes_nothing() {
        let desk = DrillDesk::default();
        let known = |desk: &DrillDesk| desk.latest().map(|it| (it.drill.id.clone(), it.version));
        for (set, expected) in [
            (latest("a", 1, 1, false), ("a", 1)),
            (latest("a", 1, 2, true), ("a", 2)),
            (latest("a", 1, 1, false), ("a", 2)),
            (latest("b", 2, 1, false), ("b", 1)),
            (latest("a", 1, 2, true), ("b", 1)),
            (latest("b", 2, 2, true), ("b", 2)),
            (latest("a", 1, 1, false), ("b", 2)),
            (latest("c", 3, 1, false), ("c", 1)),
        ] {
            desk.set(set, Instant::now());
            assert_eq!(known(&desk), Some((expected.0.to_owned(), expected.1)));
        }
    }

    #[test]
    fn later_counts_come_before_earlier_ones_wherever_they_are() {
        let desk = desk("d");
        desk.take("d", of("a"), 4, counts(5)).unwrap();
        desk.merge("d", vec![saved("a", 3, 1), saved("b", 1, 2)]);
        assert_eq!(desk.sum("d").0.returned, 7);
        desk.take("d", of("a"), 3, counts(9)).unwrap();
        assert_eq!(desk.sum("d").0.returned, 7, "an earlier report came late");
        let unsaved = desk.take_unsaved("d");
        assert_eq!((unsaved.len(), desk.take_unsaved("d").len()), (1, 0));
        desk.give_back("d", unsaved);
        assert_eq!(desk.take_unsaved("d").len(), 1, "the record has not taken them");
        desk.merge("d", vec![saved("a", 5, 6)]);
        assert_eq!(desk.sum("d").0.returned, 8, "another hub got a later report");
        assert_eq!(sum_of(vec![saved("a", 1, 1), saved("b", 1, 2)]).0.returned, 3);
    }

    #[test]
    fn a_look_at_an_earlier_drill_leaves_the_counts_of_the_last_one_alone() {
        let desk = desk("d");
        desk.take("d", of("a"), 1, counts(5)).unwrap();
        assert_eq!(desk.sum("earlier"), (DrillCounts::default(), Vec::new()));
        desk.merge("earlier", vec![saved("b", 1, 1)]);
        desk.give_back("earlier", vec![saved("b", 1, 1)]);
        assert!(desk.take("earlier", of("b"), 1, counts(1)).is_err());
        assert!(desk.take_unsaved("earlier").is_empty());
        assert_eq!((desk.sum("d").0.returned, desk.take_unsaved("d").len()), (5, 1));
        desk.set(latest("e", 2, 1, false), Instant::now());
        assert_eq!((desk.sum("d").0.returned, desk.sum("e").0.returned), (0, 0), "another drill begins anew");
    }

    #[test]
    fn one_sidecar_does_not_take_the_room_of_all() {
        let desk = desk("d");
        let taken = (0..20).filter(|started| desk.take("d", ("a".to_owned(), *started), 1, counts(1)).is_ok()).count();
        assert_eq!(taken, PROCESSES_OF_ONE_MAX);
        assert!(desk.take("d", of("b"), 1, counts(1)).is_ok() && desk.take("d", of("a"), 2, counts(1)).is_ok());
    }

    #[test]
    fn a_drill_is_named_while_it_is_judged() {
        let (desk, now) = (desk("d"), Instant::now());
        assert!(desk.is_judged(now) && !desk.is_judged(now + 2 * UNJUDGED_MAX));
        desk.judged(true, now + UNJUDGED_MAX);
        assert!(desk.is_judged(now + UNJUDGED_MAX));
        desk.judged(false, now + UNJUDGED_MAX);
        assert!(!desk.is_judged(now + UNJUDGED_MAX), "it is to end");
    }
}
