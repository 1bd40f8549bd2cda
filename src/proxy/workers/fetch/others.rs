//! The jobs of other regions than the local one.

use std::time::Duration;

use tokio::time::Instant as Deadline;

use super::round::{Local, Round};
use super::withheld::may_be_given;
use crate::net::ClientSide;
use crate::ojs::Segments;
use crate::policy::RegionIndex;

impl Round<'_, '_> {
    /// Whether other regions may hand out jobs of a queue.
    pub(super) fn shares(&self, queue: &str) -> bool {
        let shared = &self.proxy.shared;
        shared.config.workers.remote_fetch.iter().any(|name| name == queue) && !shared.unfit.contains(queue)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.missing().is_some() && self.claims.is_some_and(|claims| claims.queues().any(|queue| self.shares(queue)))
    }

    /// Asks other regions for the missing jobs, as long as the worker waits. A call that the local region has refused
    /// is refused for all.
    pub(super) async fn ask_others(&mut self, client: &ClientSide) {
        let down = |status: u16| status == 429 || status >= 500;
        if matches!(&self.local, Local::Refused(answer) if !down(answer.status.as_u16())) {
            return;
        }
        let nearest = self.proxy.shared.registry.view().nearest_others();
        let twice = |at| [(at, false), (at, true)];
        for ((place, index), is_second) in nearest.iter().enumerate().flat_map(twice) {
            // Queues that no quota bounds may have more jobs than those behind it have slots for.
            if is_second && !self.goes_on_without_bounded() {
                continue;
            }
            if !is_second {
                self.end_passes();
            }
            let Some(claims) = self.claims.filter(|_| self.is_shared() && !client.is_disconnected()) else { return };
            let missing = self.missing().unwrap_or_default();
            if missing == 0 {
                return;
            }
            if !claims.queues().any(|queue| self.shares(queue) && self.admits(queue)) {
                continue;
            }
            self.begin_pass(false);
            let now = self.proxy.shared.registry.clock().now();
            if let Some(mut call) =
                self.sharded_call(*index, Some(missing), |queue| self.shares(queue) && self.admits(queue), now)
            {
                let body = std::mem::take(&mut call.body);
                let is_answered = self.ask_other(*index, body, self.share(nearest.len() - place)).await;
                self.end_sharded(*index, &call, is_answered);
                continue;
            }
            let call = self
                .turn
                .as_ref()
                .map(|turn| turn.plan(*index, missing, |queue| self.shares(queue) && self.admits(queue), now));
            let body = match (&self.turn, &call) {
                (Some(turn), Some(call)) => turn.body_of(call, self.body),
                _ => claims.part(self.body, missing, |queue| self.shares(queue) && self.admits(queue)),
            };
            let is_answered = self.ask_other(*index, body, self.share(nearest.len() - place)).await;
            if let (Some(turn), Some(call)) = (&mut self.turn, call) {
                turn.end(&call, is_answered);
            }
        }
    }

    /// A part of the time that is left, for one of so many regions.
    fn share(&self, regions: usize) -> Duration {
        let left = self.head.deadline.saturating_duration_since(Deadline::now());
        left / u32::try_from(regions).unwrap_or(u32::MAX)
    }

    /// Asks another region for jobs. Returns whether it has answered with jobs, or with none.
    async fn ask_other(&mut self, index: RegionIndex, body: Segments, share: Duration) -> bool {
        let proxy = self.proxy;
        let (workers, region) = (&proxy.shared.workers, &proxy.region(index).id);
        let now = proxy.shared.registry.clock().now();
        let Some(_fetching) = workers.begin(self.worker.unwrap_or_default(), region, now) else { return false };
        // An answer that does not look like jobs cannot be merged; its jobs are left to their leases.
        match self.ask(index, body, share).await {
            Ok(answer) if answer.status.is_success() => {
                self.take_in(index, answer, |job| may_be_given(proxy, index, job)).is_none()
            }
            _ => false,
        }
    }
}
