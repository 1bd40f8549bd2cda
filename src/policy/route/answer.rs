//! The answer of a hub to a [`RouteQuestion`]: the candidates in the order in which they are to be tried, by the hub's view of the regions.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::candidate::usable_in;
use super::decide::decide_by;
use super::explain::scored;
use super::plan::{Permitted, Plan};
use super::question::{AskedTraffic, FramedRegion, ORDERS_MAX, REGIONS_MAX, RouteFrame, RouteQuestion};
use super::ranking::{Inputs, Ranking};
use crate::base::{Draw, RegionId, Strategy};
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::view::{FramedSettings, Live, NoTraffic, RegionView, Settings, View};

/// An order names so many regions at most: more redirects than any configuration makes in a deadline.
const ORDER_REGIONS_MAX: usize = 16;
/// The longest answer: 256 regions with their reasons, and 60 orders. Units: bytes.
pub const ANSWER_BYTES_MAX: usize = 128 * 1024;
/// Mixed into the seeds of orders, so that those of neighbouring seeds differ.
const SEEDS: u64 = 0x6f6a_735f_6173_6b21;

/// The answer. Spec: RFC-0001 §6; `refusal`, `orders` and `retry_after_ms` are added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteAnswer {
    /// The first region to try; none where no region takes the job.
    pub target_region: Option<RegionId>,
    /// The strategy that ranked.
    pub strategy: String,
    /// Every region of the question: candidates in the order in which they are to be tried, then those that fell out.
    pub candidates: Vec<AnsweredRegion>,
    /// Further orders for the jobs that are routed by this answer, as places in `candidates`; the first one is theirs. None where nothing varies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<Vec<u16>>,
    /// When the first region that fell out may be usable again. Units: milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// One region in an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnsweredRegion {
    /// Its identifier.
    pub id: RegionId,
    /// From 0 to 1; 0 for a region that fell out.
    pub score: f64,
    /// For people.
    pub reason: String,
    /// Why it fell out; none for a candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// The draw and the position of `round-robin` of each order: those of the question, and others that follow from its seed.
pub(super) fn moments(seed: u64, turn: u64) -> impl Iterator<Item = (Draw, u64)> {
    let mut seeds = Draw::from_seed(seed ^ SEEDS);
    (0..u64::from(ORDERS_MAX)).map(move |place| {
        let own = if place == 0 { seed } else { seeds.next() };
        (Draw::from_seed(own), turn.wrapping_add(place))
    })
}

/// Answers a question by a view, in the functions that route every job. The view is that of a hub, which has no rules.
#[must_use]
pub fn answer(view: &View, question: &RouteQuestion, now: Instant) -> RouteAnswer {
    let own;
    let frame = match &question.frame {
        Some(frame) => frame,
        None => {
            own = frame_of(view, question);
            &own
        }
    };
    let traffic = question.moment.as_ref().map(|moment| AskedTraffic(&moment.traffic));
    let asked = asked_view(view, frame, question);
    let plan = plan(&asked, frame, question);
    let weights: Option<Vec<(String, f64)>> =
        question.meta.weights.as_ref().map(|own| own.iter().map(|(id, weight)| (id.clone(), weight.0)).collect());
    let job = Job { weights: weights.as_deref(), ..Job::plain(&question.queue) };
    let (seed, turn, count) = question.moment.as_ref().map_or((0, 0, 1), |it| (it.seed, it.turn, it.orders));
    let live: &dyn Live = traffic.as_ref().map_or(&NoTraffic, |it| it);
    let mut rankings = moments(seed, turn).take(usize::from(count)).map(|(draw, turn)| {
        let mut ranking = Ranking::default();
        let decided = decide_by(&asked, &job, &plan, Inputs { now, draw, turn, live, drill: &0 }, &mut ranking);
        (decided.ok(), ranking)
    });
    let (first, ranking) = rankings.next().unwrap_or_default();
    let places = places(&asked, &ranking);
    let order = |ranking: &Ranking| -> Vec<u16> {
        let regions = ranking.slots.iter().map(|slot| slot.region);
        regions.take(ORDER_REGIONS_MAX).filter_map(|region| places.get(region.get()).copied()).collect()
    };
    let mut orders = vec![order(&ranking)];
    orders.extend(rankings.map(|(_, ranking)| order(&ranking)));
    if orders.iter().all(|it| Some(it) == orders.first()) {
        orders.clear();
    }
    let waits = ranking.refused.iter().filter_map(|&(region, refusal)| usable_in(&asked, region, refusal, now));
    RouteAnswer {
        target_region: first.and_then(|decision| decision.target()).map(|target| asked.region(target).id.clone()),
        strategy: plan.strategy.as_str().to_owned(),
        candidates: scored(&asked, &ranking)
            .into_iter()
            .map(|it| AnsweredRegion {
                id: asked.region(it.region).id.clone(),
                score: (it.score * 1_000.0).round() / 1_000.0,
                reason: it.reason,
                refusal: it.refusal.map(|refusal| refusal.as_str().to_owned()),
            })
            .collect(),
        orders,
        retry_after_ms: waits.min().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// The place of each region in the answer.
fn places(view: &View, ranking: &Ranking) -> Vec<u16> {
    let mut places = vec![u16::MAX; view.regions.len()];
    let listed = ranking.slots.iter().map(|slot| slot.region).chain(ranking.refused.iter().map(|(region, _)| *region));
    for (place, region) in listed.enumerate() {
        if let (Some(slot), Ok(place)) = (places.get_mut(region.get()), u16::try_from(place)) {
            *slot = place;
        }
    }
    places
}

/// The frame of a question without one: all regions of the hub, by its own configuration.
fn frame_of(view: &View, question: &RouteQuestion) -> RouteFrame {
    let framed = |region: &RegionView| FramedRegion {
        id: region.id.clone(),
        weight: region.weight,
        max_queue_depth: region.max_queue_depth,
        preference: None,
        excluded: false,
    };
    let settings = &view.settings;
    let local = question.region.clone().unwrap_or_else(|| view.region(view.local).id.clone());
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    RouteFrame {
        regions: view.regions.iter().take(REGIONS_MAX).map(framed).collect(),
        home: question.region.clone(),
        local,
        hint: None,
        fallback: Strategy::DEFAULT.as_str().to_owned(),
        candidates_max: settings.candidates_max,
        slow_start_ms: millis(settings.slow_start),
        load_interval_ms: millis(settings.load_interval),
        load_tolerance: super::exact::Exact(settings.load_tolerance),
        health_interval_ms: millis(settings.health_interval),
    }
}

/// The regions of a frame in the state that the hub sees; one that it does not know was never probed.
fn asked_view(view: &View, frame: &RouteFrame, question: &RouteQuestion) -> View {
    let region = |(place, framed): (usize, &FramedRegion)| {
        let known = view.index_of(framed.id.as_str()).map(|index| view.region(index).of_queue(&question.queue));
        let traffic = question.moment.as_ref().and_then(|moment| moment.traffic.get(place));
        RegionView {
            weight: framed.weight,
            max_queue_depth: framed.max_queue_depth,
            failing: traffic.map_or(0.0, |it| it.failing.0.clamp(0.0, 1.0)),
            ..known.unwrap_or_else(|| RegionView::unknown(framed.id.clone()))
        }
    };
    let settings = Settings::framed(FramedSettings {
        regions: frame.regions.iter().map(|it| (it.id.clone(), it.preference, it.excluded)).collect(),
        // A question with another name is not read.
        fallback: Strategy::parse(&frame.fallback).unwrap_or(Strategy::DEFAULT),
        candidates_max: frame.candidates_max,
        slow_start: Duration::from_millis(frame.slow_start_ms),
        load_interval: Duration::from_millis(frame.load_interval_ms),
        load_tolerance: frame.load_tolerance.0,
        health_interval: Duration::from_millis(frame.health_interval_ms),
    });
    View::framed(frame.regions.iter().enumerate().map(region).collect(), settings)
}

fn plan<'v>(view: &View, frame: &RouteFrame, question: &RouteQuestion) -> Plan<'v> {
    let known = |id: &RegionId| view.regions.iter().position(|region| region.id == *id).map(RegionIndex::new);
    let strategy = question.meta.region_affinity.as_deref().and_then(|name| Strategy::parse(name).ok());
    let nowhere = RegionIndex::new(view.regions.len());
    let local = known(&frame.local).unwrap_or(nowhere);
    let plan = Plan::anywhere(view, strategy.unwrap_or(Strategy::DEFAULT));
    let home = frame.home.as_ref().map(|id| known(id).unwrap_or(nowhere));
    match &question.meta.region {
        Some(pin) => Plan {
            strategy: Strategy::PIN,
            pinned: true,
            permitted: Permitted::One(known(pin).unwrap_or(nowhere)),
            local,
            home: None,
            ..plan
        },
        None => Plan { local, home, hint: frame.hint.as_ref().and_then(known), ..plan },
    }
}

impl RouteAnswer {
    /// Reads an answer.
    ///
    /// Errors: a sentence, for an answer of another form.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let mut answer: Self =
            serde_json::from_slice(body).map_err(|error| format!("the answer of the hub: {error}"))?;
        let count = answer.candidates.len();
        let is_place = |place: &u16| usize::from(*place) < count;
        if count > REGIONS_MAX || answer.orders.len() > usize::from(ORDERS_MAX) {
            return Err("the answer of the hub has more regions or orders than asked for".to_owned());
        }
        if !answer.orders.iter().flatten().all(is_place) {
            return Err("the answer of the hub has an order of regions that it does not name".to_owned());
        }
        if answer.orders.is_empty() {
            let usable = answer.candidates.iter().enumerate().filter(|(_, it)| it.refusal.is_none());
            answer.orders = vec![usable.filter_map(|(place, _)| u16::try_from(place).ok()).collect()];
        }
        Ok(answer)
    }
}

impl AnsweredRegion {
    /// Why it fell out; of a word that this version does not know, that it is not usable.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let word = self.refusal.as_deref()?;
        Some(Refusal::ALL.into_iter().find(|refusal| refusal.as_str() == word).unwrap_or(Refusal::Unhealthy))
    }
}
