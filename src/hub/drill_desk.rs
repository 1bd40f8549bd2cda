//! The last failover drill that a hub knows, and the counts of its sidecars.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::drill_order::Drill;
use super::record::SavedCounts;
use crate::switch::DrillCounts;

/// Processes of sidecars whose counts are taken: twice as many as an inventory has sidecars, for those that restart.
const PROCESSES_MAX: usize = 40_000;

/// The last drill, and its version in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Latest {
    pub(super) drill: Drill,
    pub(super) version: u64,
}

impl Latest {
    /// Whether it is a later state than another one. The clock may have been set back between two drills: one that is on comes behind one that is over.
    fn is_later_than(&self, known: &Self) -> bool {
        if self.drill.id == known.drill.id {
            return self.version > known.version;
        }
        self.drill.began_ms > known.drill.began_ms || (self.drill.ended.is_none() && known.drill.ended.is_some())
    }
}

/// The drills at a hub.
#[derive(Debug, Default)]
pub(super) struct DrillDesk {
    latest: watch::Sender<Option<Arc<Latest>>>,
    counts: RefCell<Counts>,
}

/// The counts in the last drill, by the sidecar and the start of its process. Units of the start: milliseconds since the Unix epoch.
#[derive(Debug, Default)]
struct Counts {
    of: String,
    /// Those that this hub or, as far as it has read them, others have got.
    all: BTreeMap<(String, u64), DrillCounts>,
    /// Those that the record does not have.
    unsaved: BTreeMap<(String, u64), DrillCounts>,
}

impl Counts {
    /// Begins anew for another drill.
    fn be_of(&mut self, id: &str) {
        if self.of != id {
            *self = Self { of: id.to_owned(), ..Self::default() };
        }
    }
}

/// There are counts of as many processes as there may be.
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

    /// Takes a drill of the record for the last one, unless a later state is known: the record may have been read before that was kept.
    pub(super) fn set(&self, latest: Latest) {
        self.latest.send_if_modified(|known| {
            let is_later = known.as_deref().is_none_or(|known| latest.is_later_than(known));
            if is_later {
                *known = Some(Arc::new(latest));
            }
            is_later
        });
    }

    /// Takes the counts of a sidecar in place of those before of the same process.
    ///
    /// Errors: [`Full`].
    pub(super) fn take(&self, drill: &str, of: (String, u64), counts: DrillCounts) -> Result<(), Full> {
        let mut known = self.counts.borrow_mut();
        known.be_of(drill);
        if known.all.len() >= PROCESSES_MAX && !known.all.contains_key(&of) {
            return Err(Full);
        }
        known.all.insert(of.clone(), counts.clone());
        known.unsaved.insert(of, counts);
        Ok(())
    }

    /// Takes the counts of the record, besides those that it does not have yet. One that cannot be read is left out.
    pub(super) fn merge(&self, drill: &str, saved: Vec<SavedCounts>) {
        let mut known = self.counts.borrow_mut();
        known.be_of(drill);
        for SavedCounts { sidecar, started_ms, document } in saved {
            let of = (sidecar, started_ms);
            let is_newer = known.unsaved.contains_key(&of);
            if let (false, Ok(counts)) = (is_newer, serde_json::from_str(&document)) {
                known.all.insert(of, counts);
            }
        }
    }

    /// The counts that the record does not have; they count as had from now on.
    pub(super) fn take_unsaved(&self, drill: &str) -> Vec<SavedCounts> {
        let mut known = self.counts.borrow_mut();
        known.be_of(drill);
        let saved = |((sidecar, started_ms), counts): ((String, u64), DrillCounts)| {
            let document = serde_json::json!(counts).to_string();
            SavedCounts { sidecar, started_ms, document }
        };
        std::mem::take(&mut known.unsaved).into_iter().map(saved).collect()
    }

    /// Gives back counts that the record has not taken, but for those that came meanwhile.
    pub(super) fn give_back(&self, drill: &str, saved: Vec<SavedCounts>) {
        let mut known = self.counts.borrow_mut();
        known.be_of(drill);
        for SavedCounts { sidecar, started_ms, document } in saved {
            if let Ok(counts) = serde_json::from_str(&document) {
                known.unsaved.entry((sidecar, started_ms)).or_insert(counts);
            }
        }
    }

    /// The sum of the counts in a drill, and the names of its sidecars.
    pub(super) fn sum(&self, drill: &str) -> (DrillCounts, Vec<String>) {
        let mut known = self.counts.borrow_mut();
        known.be_of(drill);
        let mut sum = DrillCounts::default();
        known.all.values().for_each(|counts| sum.add(counts));
        let mut names: Vec<String> = known.all.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        (sum, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{RegionId, Share};
    use crate::hub::drill_order::{Cause, Ended};

    fn latest(id: &str, version: u64, began_ms: u64, is_over: bool) -> Latest {
        let text = || "x".to_owned();
        let drill = Drill {
            id: id.to_owned(),
            region: RegionId::parse("us").unwrap(),
            share: Share::ALL,
            began_ms,
            ends_ms: began_ms + 1,
            abort_failures: Share::ALL,
            abort_latency_ms: None,
            well: Vec::new(),
            reason: text(),
            ticket: text(),
            author: text(),
            ended: is_over.then(|| Ended { cause: Cause::Stopped, detail: text(), at_ms: began_ms }),
        };
        Latest { drill, version }
    }

    #[test]
    fn a_state_that_was_read_before_a_later_one_was_kept_changes_nothing() {
        let desk = DrillDesk::default();
        let known = |desk: &DrillDesk| desk.latest().map(|it| (it.drill.id.clone(), it.version));
        for (set, expected) in [
            (latest("a", 1, 5, false), ("a", 1)),
            (latest("a", 2, 5, true), ("a", 2)),
            (latest("a", 1, 5, false), ("a", 2)),
            (latest("b", 1, 9, false), ("b", 1)),
            (latest("a", 2, 5, true), ("b", 1)),
            (latest("b", 2, 9, true), ("b", 2)),
            (latest("c", 1, 3, false), ("c", 1)),
        ] {
            desk.set(set);
            assert_eq!(known(&desk), Some((expected.0.to_owned(), expected.1)));
        }
    }

    #[test]
    fn counts_that_the_record_does_not_have_come_before_those_that_it_has() {
        let desk = DrillDesk::default();
        let counts = |returned| DrillCounts { returned, ..DrillCounts::default() };
        let of = |name: &str| (name.to_owned(), 1);
        desk.take("d", of("a"), counts(5)).unwrap();
        let saved = |name: &str, returned| SavedCounts {
            sidecar: name.to_owned(),
            started_ms: 1,
            document: serde_json::json!(counts(returned)).to_string(),
        };
        desk.merge("d", vec![saved("a", 1), saved("b", 2)]);
        assert_eq!(desk.sum("d").0.returned, 7);
        let unsaved = desk.take_unsaved("d");
        assert_eq!((unsaved.len(), desk.take_unsaved("d").len()), (1, 0));
        desk.give_back("d", unsaved);
        assert_eq!(desk.take_unsaved("d").len(), 1, "the record has not taken them");
        assert_eq!(desk.sum("e"), (DrillCounts::default(), Vec::new()), "another drill begins anew");
    }
}
