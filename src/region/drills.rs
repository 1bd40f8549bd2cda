//! The failover drill that this sidecar takes part in: the numbers by which it draws jobs, and its counts.
//!
//! The view shows the drill to decisions; the connection to the hub begins it, ends it and reports the counts. Without a drill nothing here is touched.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Registry;
use crate::base::RegionId;
use crate::policy::{BreakerState, DrillKept, DrillNumbers, DrillPart, Drilled, Health, RegionIndex, View};
use crate::switch::{DrillCounts, DrillEnd, SentDrill, Unwell};

/// The drills of a process, of which the last one is known.
#[derive(Debug, Default)]
pub struct Drills {
    last: Mutex<Option<Running>>,
    /// Notified when a drill begins, so that its report does not wait.
    begun: Notify,
    /// The number of reports that were made.
    reports: AtomicU64,
}

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
    /// The regions that were seen well since its beginning: others cannot be lost by it.
    seen_well: BTreeSet<RegionId>,
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
    /// draw the same ones. Returns whether it is another one than the last; none, and nothing is changed, where this sidecar does not know the region.
    pub fn begin(&self, registry: &Registry, sent: &SentDrill, now: Instant, seed: u64) -> Option<bool> {
        let until = now + sent.lasts();
        registry.view().index_of(sent.region.as_str())?;
        let mut running = self.last.lock();
        let is_new = running.as_ref().is_none_or(|it| it.id != sent.id);
        if is_new {
            let number = running.as_ref().map_or(1, |it| it.number.wrapping_add(1));
            let (id, region) = (sent.id.clone(), sent.region.clone());
            let (next, until, counts) = (seed, Some(until), DrillCounts::default());
            let seen_well = BTreeSet::new();
            *running = Some(Running { number, id, region, next, until, seen_well, counts });
        }
        if let Some(it) = running.as_mut() {
            it.until = Some(until);
            it.look(&registry.view());
            registry.set_drill(Some((it.number, &it.region, sent.share, until)));
        }
        self.begun.notify_one();
        Some(is_new)
    }

    /// Waits until a drill begins, unless one has since the last wait. Cancel: nothing is lost.
    pub async fn begun(&self) {
        self.begun.notified().await;
    }

    /// The number of the next report of this process: later sums have a higher one.
    pub fn next_report(&self) -> u64 {
        self.reports.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Takes part in it no longer. Returns its name and its region where it did.
    pub fn end(&self, registry: &Registry) -> Option<(String, RegionId)> {
        let mut running = self.last.lock();
        let it = running.as_mut()?;
        it.until.take()?;
        registry.set_drill(None);
        Some((it.id.clone(), it.region.clone()))
    }

    /// When the drill ends by itself; none where there is none.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.last.lock().as_ref()?.until
    }

    /// The number of the next job, which is taken.
    pub fn take(&self) -> u64 {
        let mut running = self.last.lock();
        running.as_mut().map_or(0, |it| {
            let number = it.next;
            it.next = number.wrapping_add(1);
            number
        })
    }

    /// Counts a job. One of an earlier drill is left out: its report is closed.
    pub fn note(&self, job: &DrilledJob) {
        let mut running = self.last.lock();
        let Some(it) = running.as_mut().filter(|it| it.number == job.drilled.number) else { return };
        let counts = &mut it.counts;
        match (job.drilled.part, &job.first) {
            (DrillPart::Kept(DrillKept::Bound), _) => counts.stayed.bound += 1,
            (DrillPart::Kept(DrillKept::NoOther), _) => counts.stayed.no_other_region += 1,
            (DrillPart::Kept(DrillKept::NoFailover), _) => counts.stayed.no_failover += 1,
            (DrillPart::Kept(DrillKept::Named), _) => counts.stayed.named += 1,
            (DrillPart::Control, Some((_, end))) => counts.control.note(*end, job.waited),
            (DrillPart::Diverted, Some((region, end))) => {
                counts.diverted.entry(region.clone()).or_default().note(*end, job.waited);
                counts.returned += u64::from(*region != it.region && job.stored.as_ref() == Some(&it.region));
            }
            // A record has answered it, the spool has it, or the region of the first try had no part in it.
            (DrillPart::Control | DrillPart::Diverted, None) => {}
        }
    }

    /// The name of the last drill and the counts, with the regions that are not well now and were seen well since its beginning; none before the first drill. A region
    /// that was lost once stays among them.
    pub fn counts(&self, view: &View) -> Option<(String, DrillCounts)> {
        let mut running = self.last.lock();
        let it = running.as_mut()?;
        if it.until.is_some() {
            it.look(view);
        }
        Some((it.id.clone(), it.counts.clone()))
    }
}

impl Running {
    /// Notes the regions that are well, and those that were before and are not.
    fn look(&mut self, view: &View) {
        for index in view.indexes() {
            let region = view.region(index);
            match state(view, index) {
                None if region.health == Health::Healthy => {
                    self.seen_well.insert(region.id.clone());
                }
                Some(state) if self.seen_well.contains(&region.id) => {
                    self.counts.unwell.insert(region.id.clone(), state);
                }
                None | Some(_) => {}
            }
        }
    }
}

/// A look at the next number takes none.
impl DrillNumbers for Drills {
    fn number(&self) -> u64 {
        self.last.lock().as_ref().map_or(0, |it| it.next)
    }
}

/// The state by which a region is not well; none where it is, or where nothing is known of it.
fn state(view: &View, index: RegionIndex) -> Option<Unwell> {
    let region = view.region(index);
    match (region.breaker, region.health) {
        (BreakerState::Open | BreakerState::HalfOpen, _) => Some(Unwell::BreakerOpen),
        (BreakerState::Closed, Health::Unhealthy) => Some(Unwell::Unhealthy),
        (BreakerState::Closed, Health::Healthy | Health::Unknown) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{config, healthy, id};

    #[test]
    fn a_region_is_lost_only_where_it_was_seen_well_since_the_beginning() {
        let (mut view, counts) = (healthy(&config(&["us", "eu", "ap"])), DrillCounts::default());
        let (id_of, seen_well) = (|it: &str| id(it), BTreeSet::new());
        let mut drill =
            Running { number: 1, id: "d".to_owned(), region: id_of("us"), next: 0, until: None, seen_well, counts };
        // A process that was just started: one region was lost long ago, of one nothing is known.
        view.regions[1].health = Health::Unhealthy;
        view.regions[2].health = Health::Unknown;
        drill.look(&view);
        assert!(drill.counts.unwell.is_empty(), "it is not the drill that has lost it");
        view.regions[2].health = Health::Unhealthy;
        drill.look(&view);
        assert!(drill.counts.unwell.is_empty(), "it was never seen well");
        view.regions[1].health = Health::Healthy;
        drill.look(&view);
        view.regions[1].breaker = BreakerState::Open;
        view.regions[0].health = Health::Unhealthy;
        drill.look(&view);
        let lost = [(id_of("eu"), Unwell::BreakerOpen), (id_of("us"), Unwell::Unhealthy)];
        assert_eq!(drill.counts.unwell, lost.into());
    }
}
