//! The index of jobs of one hub: its settings, and how far it is behind others.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tokio::sync::watch;

use super::body_store::{Bodies, BodiesError};
use super::conflict_counts::ConflictCounts;
use super::event_counts::EventCounts;
use super::index_settings::{BoundField, IndexSettings};
use super::lag::Lag;
use crate::base::RegionId;
use crate::replica::{Change, FeedLags};

/// The index of one hub.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) settings: IndexSettings,
    /// How far behind this hub is, by the region of the source.
    pub(super) sources: RefCell<BTreeMap<RegionId, Lag>>,
    /// The bodies of jobs; none where it keeps none.
    pub(super) bodies: Option<Bodies>,
    /// The figures of its conflicts.
    pub(super) conflicts: ConflictCounts,
    /// The figures of its event streams.
    pub(super) events: EventCounts,
    /// The sources that this process has not heard yet.
    pub(super) unheard: watch::Sender<Vec<RegionId>>,
}

impl Index {
    /// An index that is behind by all; reads the key of the bodies.
    ///
    /// Errors: [`BodiesError::Key`].
    pub(super) fn load(settings: IndexSettings) -> Result<Self, BodiesError> {
        let bodies = settings.bodies.clone().map(Bodies::load).transpose()?;
        let unheard = watch::Sender::new(settings.from.iter().map(|it| it.region.clone()).collect());
        let (conflicts, events) = (ConflictCounts::default(), EventCounts::default());
        Ok(Self { settings, sources: RefCell::default(), bodies, conflicts, events, unheard })
    }

    /// Notes that all of an answer of a source was taken, its isolations included.
    pub(super) fn hear(&self, source: &RegionId) {
        self.unheard.send_if_modified(|unheard| {
            let before = unheard.len();
            unheard.retain(|it| it != source);
            unheard.len() < before
        });
    }

    /// How far this hub is behind the regions that it pulls from.
    pub(super) fn lags(&self, now_ms: u64) -> FeedLags {
        let sources = self.sources.borrow();
        let behind = |region: &RegionId| sources.get(region).and_then(|lag| lag.ms(now_ms));
        let behind_ms = self.settings.from.iter().map(|it| (it.region.as_str().to_owned(), behind(&it.region)));
        FeedLags { region: self.settings.region.as_str().to_owned(), behind_ms: behind_ms.collect() }
    }

    /// Whether this hub has had all facts of all its sources for so long, up to now.
    pub(super) fn is_current(&self, now_ms: u64, for_ms: u64) -> bool {
        let sources = self.sources.borrow();
        let is_current = |region: &RegionId| sources.get(region).is_some_and(|lag| lag.is_current(now_ms, for_ms));
        self.settings.from.iter().all(|it| is_current(&it.region))
    }

    /// A fact as other hubs get it: of a job that is bound to some regions only the members that the operator lets leave.
    pub(super) fn shown(&self, mut change: Change) -> Change {
        if let Some(job) = change.job.as_mut().filter(|job| job.bound) {
            let leaves = |field| self.settings.bound_fields.contains(&field);
            job.job_type = job.job_type.take().filter(|_| leaves(BoundField::Type));
            job.queue = job.queue.take().filter(|_| leaves(BoundField::Queue));
            job.tenant = job.tenant.take().filter(|_| leaves(BoundField::Tenant));
        }
        change
    }
}
