//! Several jobs of one call: their common demand, by their own keys and by the operator's rules.

use serde_json::{Value, json};

use super::asked::{AskedHub, decided};
use super::paused::check_sources;
use super::plan::{check_reserved, count_reserved, refusal, refused, with_word};
use super::turn::in_turn;
use crate::base::{Needs, Strategy};
use crate::journal::Note;
use crate::ojs::{Envelope, ErrorDocument, Found, RoutingKey, RoutingKind, place_of};
use crate::policy::{Decision, Demand, Grounds, Job, RegionIndex, RouteError, View, route_within};
use crate::proxy::state::{Proxy, Shared, Spooling, refuse_shard};
use crate::spool::{Spool, Way};

/// An error document lists at most so many places; a person looks at the first few.
const PLACES_MAX: usize = 16;

/// When a lane may be empty again. Units: seconds.
const RETRY_AFTER: u64 = 1;

/// The demands beside the jobs, which hold for all of them.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) demand: Demand,
    /// The strategy of jobs that name none.
    pub(crate) word: Option<String>,
}

impl Bounds {
    /// Reads routing keys, wherever they stand. Pins that differ leave no region.
    ///
    /// Errors: 400 for a pin or a strategy that cannot be followed.
    pub(crate) fn of(view: &View, keys: &[RoutingKey<'_>]) -> Result<Self, ErrorDocument> {
        let mut bounds = Self { demand: Demand::free(view), word: None };
        let mut needs_region = false;
        for key in keys {
            match key.kind {
                RoutingKind::Region => bounds.demand.narrow(&Demand::only(region_of(view, key)?)),
                RoutingKind::Tags => {
                    let tags = key.value.as_deref().ok_or_else(ErrorDocument::no_region_with_tags)?;
                    let demand = Demand::tagged(view, tags);
                    if demand.is_impossible() {
                        return Err(ErrorDocument::no_region_with_tags());
                    }
                    bounds.demand.narrow(&demand);
                }
                RoutingKind::Affinity => {
                    let value = key.value.as_deref().ok_or_else(ErrorDocument::unknown_strategy)?;
                    match Strategy::parse(value) {
                        Ok(strategy) if strategy.needs() == Needs::Region => needs_region = true,
                        Ok(_) if bounds.word.is_none() => bounds.word = Some(value.to_owned()),
                        Ok(_) => {}
                        // A pin counts also beside keys that cannot be read.
                        Err(_) if keys.iter().any(|key| key.kind == RoutingKind::Region) => {}
                        Err(_) => return Err(ErrorDocument::unknown_strategy()),
                    }
                }
            }
        }
        if needs_region && !bounds.demand.pinned {
            return Err(ErrorDocument::pin_without_region());
        }
        Ok(bounds)
    }
}

fn region_of(view: &View, key: &RoutingKey<'_>) -> Result<RegionIndex, ErrorDocument> {
    let pin = key.value.as_deref().ok_or_else(ErrorDocument::pin_is_no_text)?;
    let known = || view.regions.iter().map(|region| region.id.as_str());
    view.index_of(pin).ok_or_else(|| ErrorDocument::unknown_region(pin, known()))
}

/// The demand of one job.
///
/// Errors: the error document for the client, by whose job they are caused.
pub(crate) fn demand(view: &View, envelope: &Envelope<'_>, word: Option<&str>) -> Result<Demand, ErrorDocument> {
    with_word(envelope, word, |job| Demand::of(view, job)).map_err(|error| refusal(envelope, view, &error))
}

/// The demand of an object that holds jobs and is none itself: its own keys and the rules that fit it, but not the
/// default strategy, which is for jobs.
pub(crate) fn demand_of_holder(view: &View, envelope: &Envelope<'_>) -> Result<Demand, ErrorDocument> {
    demand(view, envelope, Some(Strategy::DEFAULT.as_str()))
}

/// Whether each of several jobs is accepted: as [`check_sources`] and [`check_reserved`] say; accepted keys are counted.
///
/// Errors: also 503 `spool_behind` where jobs of a queue wait in the outage spool, which these would overtake.
pub(crate) fn check_each<'e, 'b: 'e>(
    shared: &Shared,
    view: &View,
    envelopes: impl Iterator<Item = &'e Envelope<'b>> + Clone,
) -> Result<(), ErrorDocument> {
    check_sources(view, envelopes.clone())?;
    envelopes.clone().try_for_each(|envelope| check_reserved(shared, envelope))?;
    if let Some(shards) = shared.shards.as_deref() {
        envelopes.clone().try_for_each(|envelope| refuse_shard(Some(shards), envelope.queue()))?;
    }
    if let Some(spool) = shared.spool.as_deref().filter(|spool| !spool.is_quiet()) {
        envelopes.clone().try_for_each(|envelope| check_spool(spool, envelope))?;
    }
    envelopes.for_each(|envelope| count_reserved(shared, envelope));
    Ok(())
}

/// Calls about several jobs are not spooled, so that they go past the spool or nowhere.
fn check_spool(spool: &Spool, envelope: &Envelope<'_>) -> Result<(), ErrorDocument> {
    let Some(spooling) = Spooling::of(spool, envelope).filter(|_| envelope.is_job()) else { return Ok(()) };
    let is_named = envelope.id().is_some() || spooling.own_federation_id.is_some();
    match spool.way(&spooling.lane, is_named) {
        Way::Direct => Ok(()),
        Way::Behind => Err(ErrorDocument::spool_behind("several_jobs", RETRY_AFTER)),
        Way::NotRead => Err(ErrorDocument::spool_behind("not_read", RETRY_AFTER)),
    }
}

/// The demand of a call that goes to one region as a whole.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) demand: Demand,
    /// The index of the job whose strategy decides, where there are jobs.
    leader: Option<usize>,
    word: Option<String>,
}

impl Whole {
    /// Joins the demands of everything within: steps, jobs, callbacks, templates, and keys at any depth.
    ///
    /// Errors: 400 for contradictions, with their places; the errors of a single job.
    pub(crate) fn of(view: &View, body: &[u8], found: &Found<'_>) -> Result<Self, ErrorDocument> {
        let Bounds { demand: mut all, word } = Bounds::of(view, &found.routing)?;
        let holder = holder(found);
        let named = holder.and_then(|holder| holder.attributes().region_affinity.as_deref());
        let word = named
            .filter(|word| Strategy::parse(word).is_ok_and(|it| it.needs() != Needs::Region))
            .map(str::to_owned)
            .or(word);
        let mut demands = Vec::with_capacity(found.envelopes.len());
        for (place, envelope) in found.envelopes.iter().enumerate() {
            let is_holder = place == 0 && holder.is_some();
            demands.push(if is_holder {
                demand_of_holder(view, envelope)
            } else {
                demand(view, envelope, word.as_deref())
            }?);
        }
        for demand in &demands {
            all.narrow(demand);
        }
        if all.is_impossible() {
            return Err(ErrorDocument::contradicting_pins(places(view, body, found, &demands)));
        }
        let first = |wanted: fn(&Demand) -> bool| demands.iter().position(wanted);
        // A step may be of a tenant where the workflow says nothing of one.
        let leader = first(|demand| demand.pinned).or_else(|| first(|demand| demand.home.is_some()));
        Ok(Self { demand: all, leader: leader.or((!demands.is_empty()).then_some(0)), word })
    }

    /// Decides among the regions that are demanded, by the strategy of the leader, and notes why.
    pub(crate) fn decide(
        &self,
        proxy: &Proxy,
        view: &View,
        found: &Found<'_>,
        asked: &mut AskedHub,
        note: &mut Note,
    ) -> Result<Decision, ErrorDocument> {
        let decided = self.decided(proxy, view, found, asked, &mut note.grounds);
        if let Ok(decision) = &decided {
            note.strategy = Some(decision.strategy);
            note.set_candidates(&decision.candidates);
        }
        decided.map_err(|error| refused(view, &error, ""))
    }

    fn decided(
        &self,
        proxy: &Proxy,
        view: &View,
        found: &Found<'_>,
        asked: &mut AskedHub,
        grounds: &mut Grounds,
    ) -> Result<Decision, RouteError> {
        let Some(leader) = self.leader.and_then(|place| found.envelopes.get(place)) else {
            // Where nothing could be a job there is nothing to choose by: its pin, else the local region.
            let demand = if self.demand.pinned { self.demand.clone() } else { Demand::local(view) };
            return in_turn(proxy, true, |inputs| route_within(view, &Job::plain("default"), &demand, inputs, grounds));
        };
        let word = self.word.as_deref();
        with_word(leader, word, |job| decided(proxy, view, job, Some(&self.demand), asked, grounds))
    }
}

/// The object around everything, where it could be a job and holds others.
fn holder<'f, 'b>(found: &'f Found<'b>) -> Option<&'f Envelope<'b>> {
    let (first, second) = (found.envelopes.first()?, found.envelopes.get(1)?);
    (second.span().start < first.span().end).then_some(first)
}

/// The places of keys with the regions that they bind to, and those that the operator's rules bind.
fn places(view: &View, body: &[u8], found: &Found<'_>, demands: &[Demand]) -> Vec<Value> {
    let pins = places_of_keys(body, &found.routing).into_iter();
    let is_everywhere = |demand: &Demand| view.indexes().all(|region| demand.regions.contains(region));
    let ruled = found.envelopes.iter().zip(demands);
    let ruled = ruled.filter(|(envelope, demand)| envelope.attributes().region.is_none() && !is_everywhere(demand));
    let ruled = ruled.map(|(envelope, demand)| {
        let regions: Vec<&str> = demand.regions.iter().map(|region| view.region(region).id.as_str()).collect();
        json!({ "place": place_of(body, envelope.span().start), "regions": regions })
    });
    pins.chain(ruled).take(PLACES_MAX).collect()
}

/// Where the pins stand; their regions are registered.
pub(crate) fn places_of_keys(body: &[u8], keys: &[RoutingKey<'_>]) -> Vec<Value> {
    let pins = keys.iter().filter(|key| key.kind == RoutingKind::Region).take(PLACES_MAX);
    pins.map(|key| json!({ "place": place_of(body, key.offset), "region": key.value })).collect()
}
