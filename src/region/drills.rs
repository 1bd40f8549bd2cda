//! The failover drill that this sidecar takes part in: the numbers by which it draws jobs, and its counts.
//!
//! The view shows the drill to decisions; the connection to the hub begins it, ends it and reports the counts. Without a drill nothing here is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Registry;
use crate::base::RegionId;
use crate::policy::{BreakerState, DrillKept, DrillNumbers, DrillPart, Drilled, Health, View};
use crate::switch::{DrillCounts, DrillEnd, SentDrill, Unwell};

/// The drills of a process, of which the last one is known.
#[derive(Debug, Default)]
pub struct Drills(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    /// Distinguishes it from an earlier one of this process.
    number: u16,
    id: String,
    region: RegionId,
    /// The number of the next job.
    next: u64,
    /// When it ends by itself; none where it has ended.
    until: Option<Instant>,
    /// The regions that were not well at its beginning.
    unwell_before: BTreeSet<RegionId>,
    counts: DrillCounts,
}

/// A job that has a part in a drill, once it was answered.
#[derive(Debug, Clone)]
pub struct DrilledJob {
    /// Its part.
    pub drilled: Drilled,
    /// The region of its first try, and how that ended; none where there was no try.
    pub first: Option<(RegionId, DrillEnd)>,
    /// The region that has stored it.
    pub stored: Option<RegionId>,
    /// The time spent waiting for regions.
    pub waited: Duration,
}

impl Drills {
    /// Takes part in a drill from now on, or again, as after a loss of the hub. `seed`: where the numbers of jobs begin, so that the sidecars of a fleet do not
    /// draw the same ones. Returns whether it is another one than the last.
    pub fn begin(&self, registry: &Registry, sent: &SentDrill, now: Instant, seed: u64) -> bool {
        let until = now + sent.lasts();
        let mut running = self.0.lock();
        let is_new = running.as_ref().is_none_or(|it| it.id != sent.id);
        if is_new {
            let number = running.as_ref().map_or(1, |it| it.number.wrapping_add(1));
            let (id, region) = (sent.id.clone(), sent.region.clone());
            let unwell_before = unwell(&registry.view()).into_keys().collect();
            let (next, until, counts) = (seed, Some(until), DrillCounts::default());
            *running = Some(Running { number, id, region, next, until, unwell_before, counts });
        }
        if let Some(it) = running.as_mut() {
            it.until = Some(until);
            registry.set_drill(Some((it.number, &it.region, sent.share, until)));
        }
        is_new
    }

    /// Takes part in it no longer. Returns its name and its region where it did.
    pub fn end(&self, registry: &Registry) -> Option<(String, RegionId)> {
        let mut running = self.0.lock();
        let it = running.as_mut()?;
        it.until.take()?;
        registry.set_drill(None);
        Some((it.id.clone(), it.region.clone()))
    }

    /// When the drill ends by itself; none where there is none.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.0.lock().as_ref()?.until
    }

    /// The number of the next job, which is taken.
    pub fn take(&self) -> u64 {
        let mut running = self.0.lock();
        running.as_mut().map_or(0, |it| {
            let number = it.next;
            it.next = number.wrapping_add(1);
            number
        })
    }

    /// Counts a job. One of an earlier drill is left out: its report is closed.
    pub fn note(&self, job: &DrilledJob) {
        let mut running = self.0.lock();
        let Some(it) = running.as_mut().filter(|it| it.number == job.drilled.number) else { return };
        let counts = &mut it.counts;
        match (job.drilled.part, &job.first) {
            (DrillPart::Kept(DrillKept::Bound), _) => counts.stayed.bound += 1,
            (DrillPart::Kept(DrillKept::NoOther), _) => counts.stayed.no_other_region += 1,
            (DrillPart::Kept(DrillKept::NoFailover), _) => counts.stayed.no_failover += 1,
            (DrillPart::Control, Some((_, end))) => counts.control.note(*end, job.waited),
            (DrillPart::Diverted, Some((region, end))) => {
                counts.diverted.entry(region.clone()).or_default().note(*end, job.waited);
                counts.returned += u64::from(*region != it.region && job.stored.as_ref() == Some(&it.region));
            }
            // A record has answered it, or the spool has it.
            (DrillPart::Control | DrillPart::Diverted, None) => {}
        }
    }

    /// The name of the last drill and the counts, with the regions that are not well now and were at its beginning; none before the first drill. A region that
    /// was lost once stays among them.
    pub fn counts(&self, view: &View) -> Option<(String, DrillCounts)> {
        let mut running = self.0.lock();
        let it = running.as_mut()?;
        if it.until.is_some() {
            let lost = unwell(view).into_iter().filter(|(region, _)| !it.unwell_before.contains(region));
            it.counts.unwell.extend(lost);
        }
        Some((it.id.clone(), it.counts.clone()))
    }
}

/// A look at the next number takes none.
impl DrillNumbers for Drills {
    fn number(&self) -> u64 {
        self.0.lock().as_ref().map_or(0, |it| it.next)
    }
}

/// The regions that are not well.
fn unwell(view: &View) -> BTreeMap<RegionId, Unwell> {
    let state = |index| {
        let region = view.region(index);
        let state = match (region.breaker, region.health) {
            (BreakerState::Open | BreakerState::HalfOpen, _) => Unwell::BreakerOpen,
            (BreakerState::Closed, Health::Unhealthy) => Unwell::Unhealthy,
            (BreakerState::Closed, Health::Healthy | Health::Unknown) => return None,
        };
        Some((region.id.clone(), state))
    };
    view.indexes().filter_map(state).collect()
}
