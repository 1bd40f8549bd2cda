//! The load of the regions: polled figures with their age, and this sidecar's own calls in progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::policy::index::RegionIndex;

/// A figure is fresh for this many poll intervals; an older one is no figure.
const FRESH_INTERVALS: u32 = 3;

/// The kind of a figure. Figures of different kinds are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// One queue: available + active.
    Queue,
    /// All queues of the region.
    Total,
}

/// One polled figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Jobs waiting or being worked on.
    pub depth: u64,
    /// When it was polled.
    pub at: Instant,
    /// Its kind.
    pub kind: FigureKind,
    /// How fast it has lately moved, up or down. Units: jobs per second.
    pub drift: u64,
}

impl Figure {
    /// A figure that follows another one of the same thing.
    fn following(before: Option<&Self>, depth: u64, at: Instant, kind: FigureKind) -> Self {
        let moved = |before: &Self| {
            let ms = u64::try_from(at.saturating_duration_since(before.at).as_millis()).unwrap_or(u64::MAX).max(1);
            let speed = before.depth.abs_diff(depth).saturating_mul(1_000) / ms;
            // A burst that comes and ends shows in every other figure only, so that a measured speed fades slowly.
            speed.max(before.drift / 2)
        };
        Self { depth, at, kind, drift: before.map_or(0, moved) }
    }
}

/// The latest figures of one region.
///
/// Shape: at most one figure per queue and one total; the poller bounds the queues by `load.queues_max`.
#[derive(Debug, Clone, Default)]
pub struct LoadFigures {
    total: Option<Figure>,
    /// Sorted by queue.
    queues: Vec<(Arc<str>, Figure)>,
}

impl LoadFigures {
    /// Replaces the region's total.
    pub fn set_total(&mut self, depth: u64, at: Instant) {
        self.total = Some(Figure::following(self.total.as_ref(), depth, at, FigureKind::Total));
    }

    /// Replaces the figure of one queue; beyond `queues_max` the oldest figure goes.
    pub fn set_queue(&mut self, queue: &str, depth: u64, at: Instant, queues_max: usize) {
        let follow = |before| Figure::following(before, depth, at, FigureKind::Queue);
        match self.place(queue) {
            Ok(place) => {
                if let Some((_, known)) = self.queues.get_mut(place) {
                    *known = follow(Some(known));
                }
            }
            Err(place) => self.queues.insert(place, (Arc::from(queue), follow(None))),
        }
        while self.queues.len() > queues_max {
            let oldest = self.queues.iter().enumerate().min_by_key(|(_, (_, figure))| figure.at);
            let Some(oldest) = oldest.map(|(place, _)| place) else { return };
            self.queues.remove(oldest);
        }
    }

    /// The total and the figure of one queue.
    pub(in crate::policy) fn of_queue(&self, queue: &str) -> Self {
        let place = self.place(queue).ok().and_then(|place| self.queues.get(place));
        Self { total: self.total, queues: place.cloned().into_iter().collect() }
    }

    /// The region's total.
    #[must_use]
    pub const fn total(&self) -> Option<Figure> {
        self.total
    }

    /// The figure of one queue.
    #[must_use]
    pub fn queue(&self, queue: &str) -> Option<Figure> {
        self.place(queue).ok().and_then(|place| self.queues.get(place)).map(|(_, figure)| *figure)
    }

    /// Every queue with its figure, sorted by queue, for display.
    pub fn queues(&self) -> impl Iterator<Item = (&str, Figure)> {
        self.queues.iter().map(|(queue, figure)| (&**queue, *figure))
    }

    /// The fresh figure of one kind.
    pub(in crate::policy) fn fresh(
        &self,
        kind: FigureKind,
        queue: &str,
        now: Instant,
        interval: Duration,
    ) -> Option<Figure> {
        let figure = match kind {
            FigureKind::Queue => self.queue(queue),
            FigureKind::Total => self.total,
        };
        figure.filter(|figure| now.saturating_duration_since(figure.at) <= interval * FRESH_INTERVALS)
    }

    fn place(&self, queue: &str) -> Result<usize, usize> {
        self.queues.binary_search_by(|(known, _)| (**known).cmp(queue))
    }
}

/// This sidecar's calls in progress: numbers that move with every request and therefore stand in no view.
pub trait Live {
    /// Enqueues that wait for the region's answer.
    fn in_flight(&self, region: RegionIndex) -> u64;

    /// Jobs that the region took from us since `at`, the time of a figure: into `queue`, or into any queue when it is `None`
    /// because the figure is a total.
    fn sent_since(&self, region: RegionIndex, queue: Option<&str>, at: Instant) -> u64;

    /// Jobs per second that the region took from us lately.
    fn send_rate(&self, region: RegionIndex) -> f64;
}

/// A sidecar that has sent nothing yet.
#[derive(Debug, Clone, Copy)]
pub struct NoTraffic;

impl Live for NoTraffic {
    fn in_flight(&self, _: RegionIndex) -> u64 {
        0
    }

    fn sent_since(&self, _: RegionIndex, _: Option<&str>, _: Instant) -> u64 {
        0
    }

    fn send_rate(&self, _: RegionIndex) -> f64 {
        0.0
    }
}

/// The present depth, as far as it can be known: as polled, plus the jobs sent since.
pub(in crate::policy) fn corrected(figure: Figure, region: RegionIndex, queue: &str, live: &dyn Live) -> u64 {
    let queue = (figure.kind == FigureKind::Queue).then_some(queue);
    figure.depth.saturating_add(live.sent_since(region, queue, figure.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_queue_and_the_oldest_goes_beyond_the_bound() {
        let start = Instant::now();
        let mut figures = LoadFigures::default();
        for (second, queue) in ["mail", "default", "video", "mail"].into_iter().enumerate() {
            figures.set_queue(queue, second as u64, start + Duration::from_secs(second as u64), 2);
        }
        assert_eq!(figures.queues().map(|(queue, _)| queue).collect::<Vec<_>>(), ["mail", "video"]);
        assert_eq!(figures.queue("mail").map(|figure| figure.depth), Some(3));
        assert_eq!(figures.queue("default"), None);
    }

    #[test]
    fn a_figure_remembers_how_fast_it_moved_and_forgets_slowly() {
        let start = Instant::now();
        let mut figures = LoadFigures::default();
        let seen = [100, 1_100, 1_100, 1_080].into_iter().enumerate().map(|(poll, depth)| {
            figures.set_queue("q", depth, start + Duration::from_secs(10) * poll as u32, 1);
            figures.queue("q").map(|figure| figure.drift)
        });
        assert_eq!(seen.collect::<Vec<_>>(), [Some(0), Some(100), Some(50), Some(25)]);
    }

    #[test]
    fn a_figure_older_than_three_intervals_is_no_figure() {
        let start = Instant::now();
        let interval = Duration::from_secs(10);
        let mut figures = LoadFigures::default();
        figures.set_total(7, start);
        let fresh = |seconds| figures.fresh(FigureKind::Total, "q", start + Duration::from_secs(seconds), interval);
        assert!(fresh(30).is_some());
        assert!(fresh(31).is_none());
        assert!(figures.fresh(FigureKind::Queue, "q", start, interval).is_none());
    }
}
