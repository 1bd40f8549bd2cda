//! The hub's own probes and load polls of regions, and the views that it makes of them for all sidecars.
//!
//! The code of a sidecar probes and polls; here its results become the event `views` of the feed. Each hub probes for itself: none waits for
//! another, and a region gets the probes of as many sidecars as there are hubs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::base::{Clock, RegionId};
use crate::config::Config;
use crate::net::pool::Pool;
use crate::net::resolve::{Resolve, SystemResolver};
use crate::ojs::Class;
use crate::policy::{Figure, Health, View};
use crate::proxy::{Random, pool_limits, pool_meters};
use crate::region::views::{FeedFigure, FeedTrouble, FeedView, FeedViews};
use crate::region::{LoadPoller, ProbeReport, Prober, Region, Registry, Rounds, SetupError, Traffic, names};
use crate::telemetry::{Metrics, event};

/// The results of a round of probes come within moments of each other and are sent together: after this share of an interval, and this time
/// at most. A changed result is sent after a pause in which others change with it.
const TOGETHER_SHARE: f64 = 0.1;
const TOGETHER_MAX: Duration = Duration::from_secs(1);
const TURN_PAUSE: Duration = Duration::from_millis(50);
/// The longest event: half of the longest that a sidecar takes. Longer ones are sent without the figures of queues. Units: bytes.
const EVENT_BYTES_MAX: usize = 512 * 1024;
/// How often the files of regions are compared with those in use.
const FILES_EVERY: Duration = Duration::from_secs(10);

/// The regions of a hub.
#[derive(Debug)]
pub(super) struct Views {
    config: Config,
    registry: Arc<Registry>,
    traffic: Arc<Traffic>,
    metrics: Arc<Metrics>,
    /// The last probe of each region.
    last: RefCell<Vec<Option<LastProbe>>>,
    /// Notified when the result of a region's probe is another one than before.
    turned: Notify,
    made: watch::Sender<Option<Arc<Made>>>,
    /// Whether the last event was too long for the figures of queues.
    was_long: Cell<bool>,
}

#[derive(Debug, Clone, Copy)]
struct LastProbe {
    number: u64,
    at: Instant,
    report: ProbeReport,
}

/// An event that was made for all feeds.
#[derive(Debug)]
pub(super) struct Made {
    at: Instant,
    text: String,
}

impl Made {
    /// The event, sent now.
    pub(super) fn event(&self, now: Instant) -> String {
        FeedViews::event(&self.text, millis(now.saturating_duration_since(self.at)))
    }
}

impl Views {
    /// Loads the files of the regions; nothing is probed yet.
    ///
    /// Errors: [`SetupError`].
    pub(super) fn new(mut config: Config, clock: Clock) -> Result<Self, SetupError> {
        // A hub sends no jobs: it probes a region that is down as often as any other.
        config.circuit_breaker.failure_threshold = u32::MAX;
        let regions = config.regions.iter().enumerate();
        let regions: Vec<_> =
            regions.map(|(place, region)| Region::load(place, region).map(Arc::new)).collect::<Result<_, _>>()?;
        let ids: Vec<RegionId> = config.regions.iter().map(|region| region.id.clone()).collect();
        let metrics = Metrics::new(&ids, &Class::ALL.map(Class::as_str));
        Ok(Self {
            last: RefCell::new(vec![None; regions.len()]),
            traffic: Arc::new(Traffic::new(regions.len(), config.load.queues_max, clock.clone(), Arc::clone(&metrics))),
            registry: Arc::new(Registry::new(&config, regions, clock, Arc::clone(&metrics))),
            metrics,
            turned: Notify::new(),
            made: watch::channel(None).0,
            was_long: Cell::new(false),
            config,
        })
    }

    /// Probes and polls until one of its loops ends, which is a defect. Must run within a local runtime. Cancel: all loops end.
    pub(super) async fn run(self: Rc<Self>) {
        let (random, resolver) = (Random::default(), Arc::new(SystemResolver) as Arc<dyn Resolve>);
        let rounds = Rc::new(Rounds::new(self.config.health_check.interval, random.draw()));
        let mut loops = JoinSet::new();
        for region in self.registry.regions() {
            loops.spawn_local(Rc::clone(&self).watch(Arc::clone(region), Rc::clone(&rounds), &random, &resolver));
        }
        loops.spawn_local(Rc::clone(&self).make_events());
        loops.spawn_local(Rc::clone(&self).reload_identities());
        loops.join_next().await;
    }

    /// Resolves the name of one region, probes it and polls its load, for ever.
    fn watch(
        self: Rc<Self>,
        region: Arc<Region>,
        rounds: Rc<Rounds>,
        random: &Random,
        resolver: &Arc<dyn Resolve>,
    ) -> impl Future<Output = ()> + use<> {
        let index = region.index;
        let pool = Pool::new(pool_limits(&self.config), pool_meters(self.metrics.region(index.get())));
        let health = self.config.health_check.clone();
        let views = Rc::clone(&self);
        let prober = Prober {
            index,
            registry: Arc::clone(&self.registry),
            pool: pool.clone(),
            config: health.clone(),
            early: Duration::ZERO,
            rounds,
            metrics: Arc::clone(&self.metrics),
            draw: random.draw(),
            views: None,
            on_report: Some(Box::new(move |report| views.note(index.get(), report))),
        };
        let poller = LoadPoller {
            index,
            registry: Arc::clone(&self.registry),
            traffic: Arc::clone(&self.traffic),
            pool,
            config: self.config.load.clone(),
            health,
            views: None,
            shards: None,
        };
        let (resolver, clock, metrics) =
            (Arc::clone(resolver), self.registry.clock().clone(), Arc::clone(&self.metrics));
        async move {
            let resolved = Notify::new();
            tokio::join!(
                names::keep_resolved(region, resolver, clock, metrics, || resolved.notify_one()),
                async {
                    resolved.notified().await;
                    prober.run(|| ()).await;
                },
                poller.run(),
            );
        }
    }

    /// The view of all regions, and the time by which it is read.
    pub(super) fn present(&self) -> (Arc<View>, Instant) {
        (Arc::clone(&self.registry.view()), self.registry.clock().now())
    }

    /// A region, and a new pool of connections to it; none where this hub does not probe it.
    pub(super) fn reach(&self, id: &RegionId) -> Option<(Arc<Region>, Pool)> {
        let region = self.registry.regions().iter().find(|region| region.id == *id)?;
        let meters = pool_meters(self.metrics.region(region.index.get()));
        Some((Arc::clone(region), Pool::new(pool_limits(&self.config), meters)))
    }

    /// Whether a region is healthy by the probes of this hub.
    pub(super) fn is_healthy(&self, id: &RegionId) -> bool {
        let view = self.registry.view();
        view.index_of(id.as_str()).is_some_and(|index| view.region(index).health == Health::Healthy)
    }

    fn note(&self, place: usize, report: ProbeReport) {
        let at = self.registry.clock().now();
        let mut all = self.last.borrow_mut();
        let Some(last) = all.get_mut(place) else { return };
        let before = last.replace(LastProbe { number: last.map_or(1, |last| last.number + 1), at, report });
        if before.is_none_or(|before| before.report.healthy != report.healthy) {
            self.turned.notify_one();
        }
    }

    /// Makes an event whenever there is something new, for ever.
    async fn make_events(self: Rc<Self>) {
        let clock = self.registry.clock().clone();
        let together = self.config.health_check.interval.mul_f64(TOGETHER_SHARE).min(TOGETHER_MAX);
        let mut made_of = None;
        loop {
            tokio::select! {
                () = self.turned.notified() => clock.sleep(TURN_PAUSE.min(together)).await,
                () = clock.sleep(together) => {}
            }
            let newest = self.newest();
            if newest > made_of {
                made_of = newest;
                self.made.send_replace(Some(Arc::new(self.make())));
            }
        }
    }

    /// The moment of the last probe or figure.
    fn newest(&self) -> Option<Instant> {
        let view = self.registry.view();
        let figures = view.regions.iter().flat_map(|region| {
            region.load.total().into_iter().chain(region.load.queues().map(|(_, figure)| figure)).map(|it| it.at)
        });
        self.last.borrow().iter().flatten().map(|last| last.at).chain(figures).max()
    }

    fn make(&self) -> Made {
        let now = self.registry.clock().now();
        let mut views = FeedViews { load: self.config.load.source.as_str().to_owned(), ..FeedViews::default() };
        let last = self.last.borrow();
        let regions = self.registry.regions().iter().zip(last.iter());
        views.regions = regions.filter_map(|(region, last)| last.map(|last| self.view(region, last, now))).collect();
        let mut text = views.text();
        let is_long = text.len() > EVENT_BYTES_MAX;
        if self.was_long.replace(is_long) != is_long {
            let bytes = text.len();
            tracing::warn!(
                bytes,
                is_long,
                "events of views go without the load of queues while they are longer than 512 KiB"
            );
        }
        if is_long {
            views.regions.iter_mut().for_each(|region| region.queues.clear());
            text = views.text();
        }
        Made { at: now, text }
    }

    fn view(&self, region: &Region, last: LastProbe, now: Instant) -> FeedView {
        let view = self.registry.view();
        let load = &view.region(region.index).load;
        let ago = |at: Instant| millis(now.saturating_duration_since(at));
        let figure = |it: Figure| FeedFigure { depth: it.depth, age_ms: ago(it.at) };
        let healthy = last.report.healthy;
        let trouble = region.trouble().filter(|_| !healthy);
        FeedView {
            id: region.id.as_str().to_owned(),
            probe: last.number,
            age_ms: ago(last.at),
            healthy,
            round_trip_us: last.report.round_trip.map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX)),
            trouble: trouble.map(|it| FeedTrouble { message: it.message.clone(), status: it.status }),
            ojs_version: region.ojs_version().as_deref().cloned(),
            total: load.total().map(figure),
            queues: load.queues().map(|(queue, it)| (queue.to_owned(), figure(it))).collect(),
        }
    }

    /// Takes changed certificates and tokens of regions, for ever. Files that cannot be used change nothing but the log.
    async fn reload_identities(self: Rc<Self>) {
        let mut refused = vec![None; self.registry.regions().len()];
        loop {
            self.registry.clock().sleep(FILES_EVERY).await;
            for (region, refused) in self.registry.regions().iter().zip(&mut refused) {
                let why = region.reload_identity().err().map(|error| format!("region {}: {error}", region.id.as_str()));
                if why != *refused
                    && let Some(why) = &why
                {
                    event::hub_identity_refused(why);
                }
                *refused = why;
            }
        }
    }

    /// Follows the events from the present one on.
    pub(super) fn follow(&self) -> watch::Receiver<Option<Arc<Made>>> {
        self.made.subscribe()
    }

    /// Notes that sidecars use these queues, so that regions are asked about their load for ten minutes; of too many the one goes that was used
    /// longest ago.
    pub(super) fn note_queues(&self, queues: &[String]) {
        queues.iter().for_each(|queue| self.traffic.used_elsewhere(queue));
    }

    /// How many regions are probed, and how many of them are healthy.
    pub(super) fn counts(&self) -> (usize, usize) {
        let view = self.registry.view();
        (view.regions.len(), view.regions.iter().filter(|region| region.health == Health::Healthy).count())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
