//! Faults of the regions while the clients work, drawn from the seed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::time::Instant;

use super::availability::Window;
use super::plan::Plan;
use super::wire::Troubles;
use crate::{DemoRegion, Fault, FaultAnswer, Gate, When};
use ojs_handles::{Clock, Draw};

/// The mean time between two faults.
const EVERY: Duration = Duration::from_millis(200);

/// How long one region is left alone before it is the next one's turn.
const SPARED: Duration = Duration::from_secs(12);
/// How long a job's row may take to be written after a late write has landed, and a held call to end.
const ENDS: Duration = Duration::from_secs(3);

/// The weather over the regions of a run.
#[derive(Debug)]
pub(super) struct Weather {
    pub(super) regions: Rc<Vec<DemoRegion>>,
    pub(super) plan: Plan,
    pub(super) troubles: Rc<Troubles>,
    pub(super) clock: Clock,
    /// The times in which a region was left alone.
    pub(super) windows: RefCell<Vec<Window>>,
}

/// Makes weather until `calm` is set; then mends everything.
pub(super) async fn make(weather: Rc<Weather>, seed: u64, calm: Rc<Cell<bool>>) {
    let mut draw = Draw::from_seed(seed);
    let began = Instant::now();
    let mut turn = None;
    weather.regions.iter().for_each(|region| weather.begin(region));
    while !calm.get() {
        tokio::time::sleep(EVERY.mul_f64(0.5 + draw.unit())).await;
        let now = began.elapsed().as_secs() / SPARED.as_secs();
        if turn != Some(now) {
            turn = Some(now);
            weather.spare(usize::try_from(now).unwrap_or(0) % weather.regions.len()).await;
        }
        let place = usize::try_from(draw.below(weather.regions.len() as u64)).unwrap_or(0);
        if weather.troubles.spared.get() == Some(place) {
            continue;
        }
        match weather.plan.hostile && draw.below(3) == 0 {
            true => weather.be_hostile(place, &mut draw),
            false => strike(&weather.regions, place, &mut draw, weather.plan.grace()).await,
        }
        if let Some(longest) = weather.plan.late.filter(|_| draw.below(6) == 0) {
            weather.write_late(place, longest, &mut draw);
        }
    }
    weather.close_window();
    // Faults in progress end by themselves within a few seconds, and the last late write lands; no new one begins.
    for region in weather.regions.iter() {
        region.faults().clear();
        weather.begin(region);
    }
    tokio::time::sleep(ENDS + weather.plan.late.unwrap_or_default()).await;
    for region in weather.regions.iter() {
        region.faults().clear();
        weather.begin(region);
        // A port that was reserved all the time can be listened on.
        let _ = region.resume().await;
    }
}

impl Weather {
    /// The constant behaviour of a region.
    fn begin(&self, region: &DemoRegion) {
        if self.plan.hostile {
            region.faults().add(When::always(), Fault::OthersUnseen);
        }
    }

    /// Leaves a region alone from now on, and no other one any more.
    async fn spare(&self, place: usize) {
        self.close_window();
        let Some(region) = self.regions.get(place) else { return };
        self.troubles.spared.set(Some(place));
        region.faults().clear();
        self.begin(region);
        let _ = region.resume().await;
        region.cut_connections().await;
        // Open until it is closed.
        self.windows.borrow_mut().push(Window { from_ms: self.clock.unix_ms(), until_ms: u64::MAX });
    }

    fn close_window(&self) {
        if let Some(window) = self.windows.borrow_mut().last_mut().filter(|it| it.until_ms == u64::MAX) {
            window.until_ms = self.clock.unix_ms();
        }
    }

    /// Some writes of this region come as late as a minute after their calls.
    fn write_late(&self, place: usize, longest: Duration, draw: &mut Draw) {
        let Some(region) = self.regions.get(place) else { return };
        // As many within a second as within the last ten of a minute.
        let delay = longest.mul_f64(draw.unit().powi(3));
        let fault = Fault::LateWrite { delay, cut: draw.below(2) == 0 };
        region.faults().add(When::enqueue().next(1 + draw.below(3)), fault);
    }

    /// Reads that lag, hang or are answered by a balancer, false successes, and regions that refuse questions.
    fn be_hostile(&self, place: usize, draw: &mut Draw) {
        let Some(region) = self.regions.get(place) else { return };
        let ms = |from: u64, to: u64, draw: &mut Draw| Duration::from_millis(from + draw.below(to - from));
        let (faults, count) = (region.faults(), 1 + draw.below(3));
        let balancer = |status| Fault::Answer { answer: FaultAnswer::balancer(status), store: false };
        let (when, fault) = match draw.below(10) {
            0 | 1 => {
                let lag_ms = u64::try_from(self.plan.lag().as_millis()).unwrap_or(1_000);
                (When::lookup(), Fault::ReadsLag { by: ms(lag_ms / 4, lag_ms, draw) })
            }
            2 => (When::lookup(), Fault::HangAfterBody { store: false }),
            3 => (When::lookup().next(3 * count), balancer(StatusCode::NOT_FOUND)),
            4 => (When::lookup().next(3 * count), balancer(StatusCode::BAD_GATEWAY)),
            5..8 => (When::enqueue().next(count), Fault::Answer { answer: dishonest(draw), store: false }),
            _ => {
                // Lost, and no question is answered for a moment.
                faults.add(When::enqueue().next(count), Fault::CutAfterRequest { store: draw.below(2) == 0 });
                let answer = FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
                (When::lookup(), Fault::Answer { answer, store: false })
            }
        };
        faults.add(when, fault);
        let (time, begin) = (ms(300, 3_000, draw), self.plan.hostile);
        later(&self.regions, time, async move |regions: &[DemoRegion]| {
            if let Some(region) = regions.get(place) {
                region.faults().clear();
                if begin {
                    region.faults().add(When::always(), Fault::OthersUnseen);
                }
            }
        });
    }
}

/// A success that stores nothing, and does not show the job.
fn dishonest(draw: &mut Draw) -> FaultAnswer {
    match draw.below(3) {
        0 => FaultAnswer::page(),
        1 => FaultAnswer::other_job(&uuid::Uuid::now_v7().to_string()),
        _ => FaultAnswer::empty(StatusCode::CREATED),
    }
}

/// One fault, which mends itself.
async fn strike(regions: &Rc<Vec<DemoRegion>>, place: usize, draw: &mut Draw, grace: Duration) {
    let Some(region) = regions.get(place) else { return };
    let count = 1 + draw.below(3);
    let ms = |from: u64, to: u64, draw: &mut Draw| Duration::from_millis(from + draw.below(to - from));
    match draw.below(40) {
        0 => {
            region.stop().await;
            let time = ms(200, 1_500, draw);
            later(regions, time, async move |regions: &[DemoRegion]| {
                if let Some(region) = regions.get(place) {
                    let _ = region.resume().await;
                }
            });
        }
        1 | 2 => region.cut_connections().await,
        3 => {
            // No question is answered for a while.
            let asked = When::path("/ojs/v1/jobs/").method(Method::GET);
            let answer = FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
            region.faults().add(asked, Fault::Answer { answer, store: false });
            clear_later(regions, place, ms(300, 2_000, draw));
        }
        4 => {
            region.faults().add(When::health().next(2), Fault::LyingHealth { status_text: "degraded".to_owned() });
        }
        5..10 => {
            // A late write: the connection ends, and the job is stored all the same, after the grace one time in four.
            let gate = Gate::new();
            region.faults().add(When::enqueue().next(count), Fault::Hold { gate: gate.clone() });
            let grace = u64::try_from(grace.as_millis()).unwrap_or(1_000);
            let time = if draw.below(4) == 0 { ms(grace, 4 * grace, draw) } else { ms(20, grace * 8 / 10, draw) };
            let cuts = draw.below(2) == 0;
            later(regions, time, async move |_: &[DemoRegion]| gate.open());
            if cuts {
                later(regions, time / 4, async move |regions: &[DemoRegion]| {
                    if let Some(region) = regions.get(place) {
                        region.cut_connections().await;
                    }
                });
            }
        }
        _ => {
            region.faults().add(When::enqueue().next(count), fault(draw));
            // Faults that no request met do not pile up.
            if draw.below(8) == 0 {
                clear_later(regions, place, Duration::from_secs(1));
            }
        }
    }
}

fn clear_later(regions: &Rc<Vec<DemoRegion>>, place: usize, time: Duration) {
    later(regions, time, async move |regions: &[DemoRegion]| {
        if let Some(region) = regions.get(place) {
            region.faults().clear();
        }
    });
}

fn later(regions: &Rc<Vec<DemoRegion>>, time: Duration, what: impl AsyncFnOnce(&[DemoRegion]) + 'static) {
    let regions = Rc::clone(regions);
    tokio::task::spawn_local(async move {
        tokio::time::sleep(time).await;
        what(&regions).await;
    });
}

/// Without [`Fault::GoAway`]: it says of every stream of its connection that nothing was done, which is a lie where
/// other jobs are on it, and lies of regions are not judged here.
fn fault(draw: &mut Draw) -> Fault {
    let store = draw.below(2) == 0;
    let balancer = |status| Fault::Answer { answer: FaultAnswer::balancer(status), store };
    // A region's own word is the truth: nothing was stored.
    let own = |answer| Fault::Answer { answer, store: false };
    match draw.below(17) {
        0 => Fault::Refuse,
        1 => Fault::HangBeforeBody,
        2 => Fault::HangAfterBody { store },
        3 => Fault::CutBeforeBody,
        4 | 5 => Fault::CutAfterRequest { store },
        6 => Fault::CutMidResponse { after_bytes: usize::try_from(draw.below(300)).unwrap_or(0) },
        7 => balancer(StatusCode::BAD_GATEWAY),
        8 => balancer(StatusCode::SERVICE_UNAVAILABLE),
        9 => balancer(StatusCode::GATEWAY_TIMEOUT),
        10 => own(FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error")),
        11 => own(FaultAnswer::queue_unavailable()),
        12 => own(FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited")),
        13 => own(FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "internal_error")),
        14 => Fault::Raw { bytes: Bytes::from_static(b"HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{\"job\":") },
        15 => Fault::RefuseStream,
        _ => Fault::Slow { delay: Duration::from_millis(20 + draw.below(600)) },
    }
}
