//! Carries promotions out. Of the hubs that share a record one has a promotion at a time, for half a minute, and says so again and again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::super::name::random_name;
use super::super::record::{Kept, Promotions, RecordError, SavedPromotion};
use super::super::state::Hub;
use super::super::target::Regions;
use super::super::views::Views;
use super::closing::{close, reopen};
use super::moving::Mover;
use super::plan::Why;
use super::returning::Refusals;
use super::{Promotion, Stage, planning};
use crate::base::RegionId;
use crate::telemetry::event;

/// How often the record is looked at for promotions.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// For one answer of a region, connecting included.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long a promotion that has ended can be looked up.
const KEPT_FOR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Carries promotions out, for ever.
pub(in crate::hub) async fn run(hub: &Hub) {
    let (Some(views), Some(index)) = (&hub.views, &hub.index) else { return std::future::pending().await };
    let runner = Runner {
        hub,
        views,
        name: random_name(),
        return_after: index.settings.return_after,
        regions: Regions::new(ANSWER_WAIT),
        refusals: Refusals::default(),
        healthy_since: RefCell::default(),
        troubles: RefCell::default(),
    };
    loop {
        // Boxed, because it can make connections, which need much room.
        if !Box::pin(runner.round()).await {
            hub.clock.sleep(LOOK_EVERY).await;
        }
    }
}

struct Runner<'h> {
    hub: &'h Hub,
    views: &'h Views,
    /// The name of this hub among those that share the record.
    name: String,
    /// How long a lost region must be healthy before it counts as back.
    return_after: Duration,
    regions: Regions,
    refusals: Refusals,
    /// Since when lost regions have been healthy.
    healthy_since: RefCell<BTreeMap<RegionId, Instant>>,
    /// The last trouble of each promotion that was logged.
    troubles: RefCell<BTreeMap<String, String>>,
}

/// The state of a lost region, by the probes of this hub.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Lost,
    /// It is healthy, and may be so for a moment only.
    Unsure,
    Back,
}

impl Runner<'_> {
    /// One step of each promotion that this hub may have. Returns whether one of them goes on at once.
    async fn round(&self) -> bool {
        let all = self.hub.record.promotions().await;
        self.note("", all.as_ref().err().map(ToString::to_string));
        let Ok(Promotions { all, now_ms }) = all else { return false };
        let mut goes_on = false;
        for saved in all.into_iter().filter(|it| it.is_open) {
            let id = saved.id.clone();
            let (step, trouble) = match serde_json::from_str::<Promotion>(&saved.document) {
                Ok(promotion) => match self.step(saved, promotion, now_ms).await {
                    Ok((step, trouble)) => (step, trouble),
                    Err(error) => (false, Some(error.to_string())),
                },
                Err(error) => (false, Some(format!("a later version of this program has written it: {error}"))),
            };
            self.note(&id, trouble);
            goes_on |= step;
        }
        let before = self.hub.clock.unix_ms().saturating_sub(u64::try_from(KEPT_FOR.as_millis()).unwrap_or(u64::MAX));
        self.note("prune", self.hub.record.prune_promotions(before).await.err().map(|error| error.to_string()));
        goes_on
    }

    /// Logs why a promotion does not go on, once for each cause.
    fn note(&self, id: &str, trouble: Option<String>) {
        let mut troubles = self.troubles.borrow_mut();
        match trouble {
            Some(trouble) if troubles.get(id) != Some(&trouble) => {
                event::promotion_waits(id, &trouble);
                troubles.insert(id.to_owned(), trouble);
            }
            Some(_) => {}
            None => drop(troubles.remove(id)),
        }
    }

    /// Returns whether the promotion goes on at once, and why it does not go on at all.
    async fn step(
        &self,
        saved: SavedPromotion,
        promotion: Promotion,
        now_ms: u64,
    ) -> Result<(bool, Option<String>), RecordError> {
        let mine = promotion.taken_by(&self.name, now_ms, self.hub.record.is_shared());
        let Some(mine) = mine else { return Ok((false, None)) };
        let version = if mine == promotion { Some(saved.version) } else { self.keep(saved.version, &mine).await? };
        let Some(version) = version else { return Ok((true, None)) };
        if !mine.is_dry_run {
            close(self.hub, &mine).await?;
        }
        let (hub, views, regions) = (self.hub, self.views, &self.regions);
        let has_advanced = Cell::new(false);
        let mover = Mover { hub, views, regions, promotion: &mine, version, now_ms, has_advanced };
        let mut next = match (mine.stage, self.seen(&mine.from)) {
            _ if mine.is_abandoned => self.abandon(&mover).await?,
            (Stage::Planning, _) => planning::plan(hub, &mine).await?,
            (Stage::Moving, seen) if seen == Seen::Lost || mine.is_forced => mover.go_on().await?,
            (Stage::Moving | Stage::Moved | Stage::Returning, Seen::Back) => mover.go_back(&self.refusals).await?,
            // It was lost again before all was cancelled: the jobs that had stayed for its return are taken after all.
            (Stage::Returning, Seen::Lost) => {
                hub.record.restore_promotion_jobs(&mine.id, Why::RegionReturned.as_str()).await?;
                Promotion { stage: Stage::Moving, ..mine.clone() }
            }
            _ => mine.clone(),
        };
        if next.stage == Stage::Done && !next.is_dry_run {
            // Before it is over for the record, so that a hub which ends in between opens the region again.
            reopen(self.hub, &next).await?;
        }
        if next.stage != mine.stage {
            event::promotion_stage(&next.id, next.from.as_str(), next.to.as_str(), next.stage.as_str());
        }
        if next.trouble.is_some() {
            // Another hub may reach the region.
            next.runner = None;
        }
        let trouble = next.trouble.clone();
        let goes_on = mover.has_advanced.get() || next != mine;
        if next != mine {
            self.keep(version, &next).await?;
        }
        let waits = trouble.is_some() || self.seen(&mine.from) == Seen::Unsure;
        Ok((goes_on && !waits && next.is_open(), trouble))
    }

    /// Ends a promotion without a word of the lost region, once no job is on its way.
    async fn abandon(&self, mover: &Mover<'_>) -> Result<Promotion, RecordError> {
        self.hub.record.leave_promotion_jobs(&mover.promotion.id, Why::Stopped.as_str()).await?;
        let (is_open, trouble) = mover.settle().await?;
        mover.give_up().await?;
        let stage = if is_open { mover.promotion.stage } else { Stage::Done };
        Ok(Promotion { stage, trouble, ..mover.promotion.clone() })
    }

    fn seen(&self, region: &RegionId) -> Seen {
        let mut since = self.healthy_since.borrow_mut();
        if !self.views.is_healthy(region) {
            since.remove(region);
            return Seen::Lost;
        }
        let now = self.hub.clock.now();
        let since = *since.entry(region.clone()).or_insert(now);
        if now.saturating_duration_since(since) >= self.return_after { Seen::Back } else { Seen::Unsure }
    }

    /// Keeps a promotion that was made from a version; the version behind it, and none where another hub or an operator was first.
    async fn keep(&self, version: u64, promotion: &Promotion) -> Result<Option<u64>, RecordError> {
        let kept = self.hub.record.change_promotion(promotion.saved(version)).await?;
        Ok((kept == Kept::Kept).then_some(version + 1))
    }
}
