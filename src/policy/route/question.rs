//! The question that a spoke asks its hub about one flexible job, and the frame within which it may be answered.
//!
//! The spoke resolves rules, tenants, defaults and preferences before it asks, so that the question has no type, no tags, no arguments and no
//! meta of the client, but for its strategy and weights. Spec: RFC-0001 §6, federation-spec §2.1.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::exact::Exact;
use super::plan::Plan;
use super::ranking::Inputs;
use super::strategy::fallback;
use super::together::Demand;
use crate::base::{RegionId, Strategy};
use crate::policy::error::RouteError;
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::view::{Live, NOT_PREFERRED, View};

/// The longest question: 256 regions with their traffic, 200 bytes each, and a queue. Units: bytes.
pub const QUESTION_BYTES_MAX: usize = 128 * 1024;
/// The orders of one answer. Jobs with a cached answer are spread over them; 60 is a multiple of each number of regions up to six, so that all get
/// equal turns.
pub(super) const ORDERS_MAX: u16 = 60;
/// As many regions as a configuration has at most.
pub(super) const REGIONS_MAX: usize = 256;
/// The longest name of a queue, which is that of OJS. Units: bytes.
const QUEUE_BYTES_MAX: usize = 255;

/// A question about one job. Shape: JSON, in the form of a job; a member that routing does not need is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteQuestion {
    /// The region that asks; without it no region is local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionId>,
    /// The job's type. It is accepted because RFC-0001 has it; a hub has no rules, and a spoke leaves it out.
    #[serde(default, rename = "type", skip_serializing)]
    pub job_type: Option<String>,
    /// The job's queue, for load figures.
    #[serde(default = "default_queue")]
    pub queue: String,
    /// The federation attributes.
    #[serde(default)]
    pub meta: AskedAttributes,
    /// The configuration of the spoke; without it, that of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<RouteFrame>,
    /// The moment, which is no part of the identity of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<AskedMoment>,
}

fn default_queue() -> String {
    "default".to_owned()
}

/// The federation attributes of a question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedAttributes {
    /// A pin. A spoke never asks about a pinned job.
    #[serde(default, rename = "ojs.federation.region", skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionId>,
    /// The strategy, which a spoke has resolved.
    #[serde(default, rename = "ojs.federation.region_affinity", skip_serializing_if = "Option::is_none")]
    pub region_affinity: Option<String>,
    /// The job's own weights, of regions that it may go to.
    #[serde(default, rename = "ojs.federation.weights", skip_serializing_if = "Option::is_none")]
    pub weights: Option<BTreeMap<String, Exact>>,
}

/// The part of a spoke's configuration that an order depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteFrame {
    /// The regions that the job may go to, in the configured order.
    pub regions: Vec<FramedRegion>,
    /// The region that takes the part of the local one: the home of the job's tenant.
    pub local: RegionId,
    /// The region that is meant while all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<RegionId>,
    /// The region that a table names for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<RegionId>,
    /// The strategy that ranks behind a hint.
    pub fallback: String,
    /// The most candidates of a decision.
    pub candidates_max: usize,
    /// `circuit_breaker.slow_start`. Units: milliseconds.
    pub slow_start_ms: u64,
    /// `load.interval`. Units: milliseconds.
    pub load_interval_ms: u64,
    /// `load.tolerance`.
    pub load_tolerance: Exact,
    /// `health_check.interval`. Units: milliseconds.
    pub health_interval_ms: u64,
}

/// A region in a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramedRegion {
    /// Its identifier.
    pub id: RegionId,
    /// Its share of traffic.
    pub weight: u32,
    /// Affinity leaves it while its queue is at least this deep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queue_depth: Option<u64>,
    /// Its place in `prefer_regions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<u32>,
    /// Whether no job fails over into it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
}

/// The part that varies from one job to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedMoment {
    /// The seed of the draws.
    pub seed: u64,
    /// The position of `round-robin`.
    pub turn: u64,
    /// How many orders are wanted, at most [`ORDERS_MAX`].
    pub orders: u16,
    /// The calls of the spoke, one for each region of the frame.
    pub traffic: Vec<AskedRegion>,
}

/// The calls of a spoke to one region.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedRegion {
    /// Enqueues that wait for an answer.
    pub in_flight: u64,
    /// Jobs that it took into the queue since the figure of that queue that the spoke knows.
    pub sent: u64,
    /// Jobs that it took since the total that the spoke knows.
    pub sent_total: u64,
    /// Jobs a second that it took lately.
    pub rate: Exact,
    /// The share of enqueues that failed there lately.
    pub failing: Exact,
}

impl RouteQuestion {
    /// The question about a flexible job, with its moment; `demand` is that of the call that the job came with. `None` where nothing is asked: for
    /// a pinned job, for one that may not go to the region of the hub or is refused by its attributes, for a spoke that does not hear its hub, and
    /// where no region is left.
    #[must_use]
    pub fn of(view: &View, job: &Job<'_>, demand: Option<&Demand>, inputs: Inputs<'_>, seed: u64) -> Option<Self> {
        let plan = plan_of(view, job, demand).ok().filter(|plan| !plan.pinned)?;
        // The name of a queue may be data that is bound to the job's regions.
        if view.settings.hub.is_some_and(|hub| !plan.permitted.contains(hub)) {
            return None;
        }
        // A hub refuses longer queues, and would be left alone for all jobs by the word of one client.
        if view.is_cut_off() || job.queue.len() > QUEUE_BYTES_MAX {
            return None;
        }
        let asked = |index: &RegionIndex| plan.permitted.contains(*index) && own_refusal(view, *index).is_none();
        let indexes: Vec<RegionIndex> = view.indexes().filter(asked).collect();
        if indexes.is_empty() {
            return None;
        }
        let id = |index: RegionIndex| view.region(index).id.clone();
        let settings = &view.settings;
        let frame = RouteFrame {
            regions: indexes.iter().map(|index| framed(view, *index)).collect(),
            local: id(plan.local),
            home: plan.home.map(id),
            hint: plan.hint.map(id),
            fallback: fallback(view).as_str().to_owned(),
            candidates_max: settings.candidates_max,
            slow_start_ms: millis(settings.slow_start),
            load_interval_ms: millis(settings.load_interval),
            load_tolerance: Exact(settings.load_tolerance),
            health_interval_ms: millis(settings.health_interval),
        };
        let weights = job.weights.map(|own| {
            let named = |index: &RegionIndex| {
                let id = view.region(*index).id.as_str();
                let (_, weight) = own.iter().find(|(named, _)| named == id)?;
                Some((id.to_owned(), Exact(*weight)))
            };
            indexes.iter().filter_map(named).collect()
        });
        let strategy = plan.ranks_by(view).as_str().to_owned();
        let traffic = indexes.iter().map(|index| traffic(view, *index, job.queue, inputs.live)).collect();
        Some(Self {
            region: Some(id(view.local)),
            job_type: None,
            queue: job.queue.to_owned(),
            meta: AskedAttributes { region: None, region_affinity: Some(strategy), weights },
            frame: Some(frame),
            moment: Some(AskedMoment { seed, turn: inputs.turn, orders: ORDERS_MAX, traffic }),
        })
    }

    /// Reads a question.
    ///
    /// Errors: a sentence that names the first member that is not right, without its value.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let question: Self = serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!(
                "expected a question of `queue`, `region` and the routing keys of `meta`, and no member that routing does not need, such as \
                 `args`; line {line}, column {column} has something else"
            )
        })?;
        question.mistake().map_or(Ok(question), |mistake| Err(mistake.to_owned()))
    }

    fn mistake(&self) -> Option<&'static str> {
        if self.queue.len() > QUEUE_BYTES_MAX {
            return Some("`queue`: expected at most 255 bytes");
        }
        if self.meta.region_affinity.as_ref().is_some_and(|name| Strategy::parse(name).is_err()) {
            return Some("`meta.ojs.federation.region_affinity`: expected the name of a strategy");
        }
        let regions = match &self.frame {
            None => 0,
            Some(frame) if frame.regions.is_empty() || frame.regions.len() > REGIONS_MAX => {
                return Some("`frame.regions`: expected 1 to 256 regions");
            }
            Some(frame) if Strategy::parse(&frame.fallback).is_err() => {
                return Some("`frame.fallback`: expected the name of a strategy");
            }
            Some(frame) => frame.regions.len(),
        };
        match &self.moment {
            Some(moment) if !(1..=ORDERS_MAX).contains(&moment.orders) => Some("`moment.orders`: expected 1 to 60"),
            Some(moment) if moment.traffic.len() != regions => {
                Some("`moment.traffic`: expected one entry for each region of `frame`")
            }
            _ => None,
        }
    }

    /// The bytes by which equal questions are recognised: all but the moment.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_vec(&Self { moment: None, ..self.clone() }).unwrap_or_default()
    }

    /// The question as it is sent.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The plan of a job, within the demand of its call.
pub(super) fn plan_of<'v>(view: &'v View, job: &Job<'_>, demand: Option<&'v Demand>) -> Result<Plan<'v>, RouteError> {
    let plan = Plan::of(view, job)?;
    Ok(match demand {
        Some(demand) => plan.within(view, demand),
        None => plan,
    })
}

/// Why the spoke itself sends nothing to a region: its operator, or its own calls. The health of a region is the word of the hub.
pub(super) fn own_refusal(view: &View, index: RegionIndex) -> Option<Refusal> {
    view.region(index).unusable(|| false).filter(|refusal| *refusal != Refusal::Unhealthy)
}

fn framed(view: &View, index: RegionIndex) -> FramedRegion {
    let region = view.region(index);
    let place = view.settings.preference(index);
    FramedRegion {
        id: region.id.clone(),
        weight: region.weight,
        max_queue_depth: region.max_queue_depth,
        preference: Some(place).filter(|place| *place != NOT_PREFERRED),
        excluded: view.is_excluded(index),
    }
}

fn traffic(view: &View, index: RegionIndex, queue: &str, live: &dyn Live) -> AskedRegion {
    let region = view.region(index);
    let since = |queue: Option<&str>, at: Option<Instant>| at.map_or(0, |at| live.sent_since(index, queue, at));
    AskedRegion {
        in_flight: live.in_flight(index),
        sent: since(Some(queue), region.load.queue(queue).map(|figure| figure.at)),
        sent_total: since(None, region.load.total().map(|figure| figure.at)),
        rate: Exact(live.send_rate(index)),
        failing: Exact(region.failing),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The traffic of a question in place of that of a sidecar.
pub(super) struct AskedTraffic<'q>(pub(super) &'q [AskedRegion]);

impl Live for AskedTraffic<'_> {
    fn in_flight(&self, region: RegionIndex) -> u64 {
        self.0.get(region.get()).map_or(0, |it| it.in_flight)
    }

    fn sent_since(&self, region: RegionIndex, queue: Option<&str>, _: Instant) -> u64 {
        self.0.get(region.get()).map_or(0, |it| if queue.is_some() { it.sent } else { it.sent_total })
    }

    fn send_rate(&self, region: RegionIndex) -> f64 {
        self.0.get(region.get()).map_or(0.0, |it| it.rate.0)
    }
}
