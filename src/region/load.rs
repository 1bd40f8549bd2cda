//! Load polling: one loop a region, on the control thread.
//!
//! Spec: federation-spec §3.2: load is collected from all healthy regions, every 10 seconds by default. A region with
//! an open breaker is not polled, as it is not probed.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use http::StatusCode;

use super::ask::ask;
use super::views::HubViews;
use super::{Registry, Traffic};
use crate::config::{HealthCheck, Load, LoadSource};
use crate::net::pool::Pool;
use crate::ojs::shards::Shards;
use crate::ojs::{answer, path_segment};
use crate::policy::{BreakerState, Health, RegionIndex};

/// Names of a queue with shards that are asked about at once.
const AT_ONCE: usize = 8;

/// Polls one region's load for ever.
#[derive(Debug)]
pub struct LoadPoller {
    /// Which region.
    pub index: RegionIndex,
    /// Where figures go.
    pub registry: Arc<Registry>,
    /// The queues in use, and the jobs sent to them.
    pub traffic: Arc<Traffic>,
    /// The control thread's own connections to the region.
    pub pool: Pool,
    /// The figure that is polled, and how often.
    pub config: Load,
    /// A poll may take as long as a probe.
    pub health: HealthCheck,
    /// The views of the hub, whose figures stand for polls of our own.
    pub views: Option<Rc<HubViews>>,
    /// The queues with shards, whose figure is the sum over all their names.
    pub shards: Option<Arc<Shards>>,
}

impl LoadPoller {
    /// Polls for ever.
    pub async fn run(self) {
        let clock = self.registry.clock().clone();
        loop {
            clock.sleep(self.config.interval).await;
            self.traffic.measure_rate(self.index);
            if self.answers() {
                self.poll().await;
            } else if let Some(views) = &self.views {
                views.await_figures(self.index);
            }
        }
    }

    /// Polls the figures once that no hub has polled for us.
    pub async fn poll(&self) {
        let figures = match self.config.source {
            LoadSource::Admin => vec![None],
            LoadSource::Queue => self.traffic.queues().into_iter().map(Some).collect(),
        };
        let missing = match &self.views {
            Some(views) => views.without_figure(self.index, figures),
            None => figures,
        };
        for figure in missing {
            match figure {
                None => self.poll_total().await,
                // A region that does not answer about one queue is not asked about the others in this round.
                Some(queue) if !self.poll_queue(&queue).await => return,
                Some(_) => {}
            }
        }
    }

    fn answers(&self) -> bool {
        let view = self.registry.view();
        let region = view.region(self.index);
        // The load of a region that gets no jobs decides nothing.
        region.breaker == BreakerState::Closed && region.health == Health::Healthy && !region.is_cut_off
    }

    async fn poll_total(&self) {
        let mark = self.traffic.mark(self.index, None);
        let Some((StatusCode::OK, body)) = self.ask("/ojs/v1/admin/stats").await else { return };
        let Some(depth) = answer::admin_depth(&body) else { return };
        let now = self.registry.clock().now();
        self.traffic.figure_taken(self.index, None, mark);
        self.registry.on_load(self.index, |load| load.set_total(depth, now));
    }

    /// False when the region did not answer.
    async fn poll_queue(&self, queue: &str) -> bool {
        let mark = self.traffic.mark(self.index, Some(queue));
        let sharded = self.shards.as_deref().and_then(|shards| shards.queue(queue));
        let names = sharded.map_or_else(|| vec![queue.to_owned()], |sharded| sharded.names().collect());
        let now = self.registry.clock().now();
        let depths: Vec<_> =
            stream::iter(names.iter().map(|name| self.depth_of(name))).buffered(AT_ONCE).collect().await;
        let mut depth = 0_u64;
        for of_name in depths {
            match of_name {
                Some(Some(of_name)) => depth = depth.saturating_add(of_name),
                // A part of a queue is no figure of it.
                Some(None) => return true,
                None => return false,
            }
        }
        self.traffic.figure_taken(self.index, Some(queue), mark);
        self.registry.on_load(self.index, |load| load.set_queue(queue, depth, now, self.config.queues_max));
        true
    }

    /// The jobs in a queue of the region, if it says so; none when it did not answer.
    async fn depth_of(&self, queue: &str) -> Option<Option<u64>> {
        Some(match self.ask(&format!("/ojs/v1/queues/{}/stats", path_segment(queue))).await? {
            (StatusCode::OK, body) => answer::queue_depth(&body),
            // A region that does not know the queue has nothing in it; one that does not know the path says so in plain text.
            (StatusCode::NOT_FOUND, body) => answer::is_error_document(&body).then_some(0),
            _ => None,
        })
    }

    async fn ask(&self, path: &str) -> Option<(StatusCode, bytes::Bytes)> {
        ask(self.registry.region(self.index), &self.pool, path, self.health.timeout).await.ok()
    }
}
