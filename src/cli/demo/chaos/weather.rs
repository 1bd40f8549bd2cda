//! What goes wrong in the regions while the clients work, drawn from the seed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::base::Draw;
use crate::demo::{DemoRegion, Fault, FaultAnswer, Gate, When};

/// The mean time between two faults.
const EVERY: Duration = Duration::from_millis(200);

/// Makes weather until it is told to be calm; then mends everything.
pub(super) async fn make(regions: Rc<Vec<DemoRegion>>, seed: u64, grace: Duration, calm: Rc<Cell<bool>>) {
    let mut draw = Draw::from_seed(seed);
    while !calm.get() {
        tokio::time::sleep(EVERY.mul_f64(0.5 + draw.unit())).await;
        let place = usize::try_from(draw.below(regions.len() as u64)).unwrap_or(0);
        strike(&regions, place, &mut draw, grace).await;
    }
    // What was begun ends by itself within a few seconds; nothing new begins.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for region in regions.iter() {
        region.faults().clear();
        // A port that was reserved all the time can be listened on.
        let _ = region.resume().await;
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
            // Nobody can find out anything for a while.
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
            // Faults that nobody met do not pile up.
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

/// Without [`Fault::GoAway`]: that says of every stream of its connection that nothing was done, which is a lie where other jobs are
/// on it, and a region's lie is not what is judged here.
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
