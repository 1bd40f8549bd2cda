//! The view of the discovery for the rest of the program: the regions in force, and the state for an operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;

use super::said::{Look, Rejected};
use crate::base::RegionId;
use crate::config::{RegionSource, Sighting};

/// The regions in force and the state of the discovery; one for the life of the process.
#[derive(Debug, Default)]
pub struct Discovered {
    in_force: ArcSwap<Vec<Sighting>>,
    report: ArcSwap<Option<Report>>,
    changed: Notify,
    /// How often the regions in force have changed, and how often when the registry was last given them.
    changes: AtomicU64,
    taken: AtomicU64,
    was_taken: Notify,
    /// The last look at the hub that nothing has taken yet: its feed may be faster than the discovery.
    said: ArcSwapOption<Look>,
    was_said: Notify,
}

/// The state of the discovery.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Every region that is known, by its id.
    pub regions: Vec<ReportedRegion>,
    /// The sources that are configured.
    pub sources: Vec<SourceReport>,
    /// The regions that are turned away at the moment.
    pub rejected: Vec<Rejected>,
    /// The changes that wait for the next minute.
    pub waiting: usize,
}

/// One source.
#[derive(Debug, Clone)]
pub struct SourceReport {
    /// Which.
    pub source: RegionSource,
    /// When it last had an answer with a region. Units: milliseconds since the Unix epoch.
    pub good_unix_ms: Option<u64>,
    /// Why the last look had none, or could not be read whole; holds no text of the source.
    pub trouble: Option<String>,
}

/// One region that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedRegion {
    /// Its id.
    pub id: RegionId,
    /// Where it is known from.
    pub source: RegionSource,
    /// The URL in force; none before the first proof.
    pub url: Option<String>,
    /// The URL that its source names; none where its source names it no more.
    pub wanted_url: Option<String>,
    /// The tags that its source names.
    pub claimed_tags: Vec<String>,
    /// `in_force`, `unproven`, or `removed` by its source.
    pub state: &'static str,
    /// Of the URL that is wanted: `given`, `asked`, `refused` or `unreachable`.
    pub proof: &'static str,
    /// Whether its change waits for the next minute.
    pub waits: bool,
}

impl Discovered {
    /// The regions in force, by their ids.
    #[must_use]
    pub fn in_force(&self) -> Arc<Vec<Sighting>> {
        self.in_force.load_full()
    }

    /// Takes the regions in force.
    pub fn set_in_force(&self, sightings: Vec<Sighting>) {
        self.in_force.store(Arc::new(sightings));
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// Resolves when the regions in force have changed since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// How often the regions in force have changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The registry has the regions of this change, or has refused them.
    pub fn take(&self, changes: u64) {
        self.taken.store(changes, Ordering::Release);
        self.was_taken.notify_one();
    }

    /// Whether the registry has had its turn at the regions in force.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire) == self.changes()
    }

    /// Resolves when the registry has had its turn since the last call.
    pub async fn taken(&self) {
        self.was_taken.notified().await;
    }

    /// Takes a look at the hub, in place of one that was not taken yet.
    pub fn say(&self, look: Look) {
        self.said.store(Some(Arc::new(look)));
        self.was_said.notify_one();
    }

    /// The next look at the hub. Cancel: none is lost.
    pub async fn said(&self) -> Arc<Look> {
        loop {
            if let Some(look) = self.said.swap(None) {
                return look;
            }
            self.was_said.notified().await;
        }
    }

    /// The state; none where nothing is discovered.
    #[must_use]
    pub fn report(&self) -> Arc<Option<Report>> {
        self.report.load_full()
    }

    /// Takes the state.
    pub fn set_report(&self, report: Report) {
        self.report.store(Arc::new(Some(report)));
    }
}
