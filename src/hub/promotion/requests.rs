//! Orders and questions of operators about promotions.

use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::name::random_name;
use super::super::record::{JobStep, Kept, PromotionJob, RecordError, SavedPromotion};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::{CLOSED_BY, Promotion, Stage};
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::ojs::query_text;
use crate::switch::Order;

/// Jobs a second where an order names no number, and the most that it may name: one request at a time.
const RATE: (u32, u32) = (100, 1_000);
/// Jobs in one answer.
const JOBS_MAX: usize = 1_000;
/// Promotions that are under way at once: each lost region has one.
const OPEN_MAX: usize = 256;
/// Tries to stop a promotion while the hub that carries it out changes it, and the pause between two.
const STOP_TRIES: usize = 50;
const STOP_PAUSE: Duration = Duration::from_millis(20);
/// An order that is not about time has one all the same.
const ANY_TIME: &str = "1h";

/// Takes an order `region=LOST&to=HERE&reason=TEXT&ticket=TEXT&author=NAME`, and `rate`, `dry_run`, `active`, `force`. Shape of the answer: the
/// promotion, whose plan is made from now on.
///
/// Errors: 400 for a parameter, 404 where the hub has neither the index nor the regions, 409 for a region that is healthy or has a
/// promotion already.
pub(in crate::hub) async fn promote(hub: Rc<Hub>, caller: &Caller, query: &str) -> Result<Value, Refusal> {
    let (fields, rest) = Fields::read(query)?;
    let rest = format!("switch={}&for={ANY_TIME}&{rest}", CLOSED_BY.as_str());
    let order = match &caller.author {
        Some(author) => Order::read_of(author, &rest, true),
        None => Order::read(&rest, true),
    };
    let order = order.map_err(Refusal::bad_request)?;
    let from = order.subject.region().cloned();
    let from = from.ok_or_else(|| Refusal::bad_request("`region`: expected the id of the lost region".to_owned()))?;
    let to = fields.to.clone();
    check(&hub, &from, &to, order.force || fields.is_dry_run)?;
    let known = hub.record.promotions().await?.all;
    let known: Vec<Promotion> = known.iter().filter_map(|it| serde_json::from_str(&it.document).ok()).collect();
    let conflict = |message| Err(Refusal::new(StatusCode::CONFLICT, "promotion_under_way", message));
    if let Some(other) = known.iter().find(|it| it.is_open() && it.from == from && !fields.is_dry_run) {
        return conflict(format!("`region`: the promotion {} of {from} is under way", other.id));
    }
    if known.iter().filter(|it| it.is_open()).count() >= OPEN_MAX {
        return conflict(format!("{OPEN_MAX} promotions are under way; stop one that is not needed"));
    }
    let promotion = Promotion {
        id: random_name(),
        from,
        to,
        rate: fields.rate,
        stage: Stage::Planning,
        is_dry_run: fields.is_dry_run,
        with_active: fields.with_active,
        is_forced: order.force,
        is_stopped: false,
        is_abandoned: false,
        trouble: None,
        planned_to: None,
        began_ms: hub.clock.unix_ms(),
        reason: order.reason,
        ticket: order.ticket,
        author: order.author,
        runner: None,
    };
    let kept = hub.record.change_promotion(promotion.saved(0)).await.map_err(Refusal::unchanged)?;
    if kept == Kept::Behind {
        return conflict(format!("`region`: another promotion of {} is under way", promotion.from));
    }
    Ok(json!({ "promotion": promotion.shown(&[]) }))
}

/// Whether this hub can promote.
fn check(hub: &Hub, from: &RegionId, to: &RegionId, is_forced: bool) -> Result<(), Refusal> {
    let lacks = |message: String| Err(Refusal::new(StatusCode::NOT_FOUND, "no_promotion", message));
    let Some(index) = hub.index.as_ref().filter(|index| index.bodies.is_some()) else {
        return lacks("this hub keeps no bytes of jobs: set `index.bodies` in its configuration".to_owned());
    };
    if index.settings.region != *to {
        return lacks(format!("`to`: this hub is that of {}; ask the hub of {to}", index.settings.region));
    }
    if from == to {
        return Err(Refusal::bad_request("`to`: expected another region than the lost one".to_owned()));
    }
    let Some(views) = &hub.views else {
        return lacks("this hub reaches no region: set `regions` in its configuration".to_owned());
    };
    for (key, region) in [("region", from), ("to", to)] {
        if views.reach(region).is_none() {
            return lacks(format!("`{key}`: {region} is not among the `regions` of this hub"));
        }
    }
    if views.is_healthy(from) && !is_forced {
        let message = format!(
            "`region`: {from} is healthy by the probes of this hub; a promotion is for a lost region, or set `force` (--force)"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, "region_healthy", message));
    }
    Ok(())
}

/// The fields of an order that are not those of a switch.
struct Fields {
    to: RegionId,
    rate: u32,
    is_dry_run: bool,
    with_active: bool,
}

impl Fields {
    /// Reads them, and returns the rest of the query.
    fn read(query: &str) -> Result<(Self, String), Refusal> {
        let (mut to, mut rest) = (None, Vec::new());
        let (mut rate, mut is_dry_run, mut with_active) = (RATE.0, false, false);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let wrong = |expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
            let yes = || value.parse::<bool>().map_err(|_| wrong("true or false"));
            match name {
                "to" => {
                    let region = RegionId::parse(&query_text(value));
                    to = Some(region.map_err(|error| wrong(&format!("the id of a region: {error}")))?);
                }
                "rate" => {
                    let read = value.parse().ok().filter(|rate| (1..=RATE.1).contains(rate));
                    rate = read.ok_or_else(|| wrong("1 to 1000 jobs a second"))?;
                }
                "dry_run" => is_dry_run = yes()?,
                "active" => with_active = yes()?,
                "switch" | "for" | "calls" => {
                    return Err(wrong("no such parameter: a promotion lasts until it is done"));
                }
                _ => rest.push(pair),
            }
        }
        let to = to.ok_or_else(|| Refusal::bad_request("`to`: expected the region that takes the jobs".to_owned()))?;
        Ok((Self { to, rate, is_dry_run, with_active }, rest.join("&")))
    }
}

/// All promotions, the oldest first.
pub(in crate::hub) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    let mut shown = Vec::new();
    for saved in hub.record.promotions().await?.all {
        let Ok(promotion) = serde_json::from_str::<Promotion>(&saved.document) else { continue };
        shown.push(promotion.shown(&hub.record.promotion_counts(&saved.id).await?));
    }
    Ok(json!({ "promotions": shown }))
}

/// One promotion with its jobs: of a query `step=S` those at a step, `cursor=C` behind a place.
///
/// Errors: 404 where there is no such promotion.
pub(in crate::hub) async fn show(hub: &Hub, id: &str, query: &str) -> Result<Value, Refusal> {
    let (_, promotion) = find(hub, id).await?;
    let (mut steps, mut after): (&'static [JobStep], _) = (&JobStep::ALL, (0, String::new()));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        match name {
            "step" => {
                let place = JobStep::ALL.iter().position(|step| step.as_str() == value);
                let place = place.ok_or_else(|| wrong(&JobStep::ALL.map(JobStep::as_str).join(", ")))?;
                steps = &JobStep::ALL[place..=place];
            }
            "cursor" => {
                let text = query_text(value);
                let place = text.split_once('.').and_then(|(ms, job)| Some((ms.parse::<u64>().ok()?, job.to_owned())));
                after = place
                    .filter(|(ms, _)| i64::try_from(*ms).is_ok())
                    .ok_or_else(|| wrong("`next_cursor` of an answer"))?;
            }
            _ => return Err(wrong("`step` and `cursor` only")),
        }
    }
    let counts = hub.record.promotion_counts(id).await?;
    let mut jobs = hub.record.promotion_jobs(id, steps, after, JOBS_MAX + 1).await?;
    let more = jobs.len() > JOBS_MAX;
    jobs.truncate(JOBS_MAX);
    let next = jobs.last().filter(|_| more).map(|last| format!("{}.{}", last.enqueued_ms, last.job_id));
    let row = |it: &PromotionJob| json!({ "job_id": it.job_id, "enqueued_at": rfc3339(it.enqueued_ms), "step": it.step, "why": it.why, "status": it.detail });
    let rows: Vec<Value> = jobs.iter().map(row).collect();
    Ok(json!({ "promotion": promotion.shown(&counts), "jobs": rows, "next_cursor": next }))
}

/// Ends a promotion: no further job is enqueued. Copies of those that were moved are cancelled when the region returns, as before; with the
/// query `abandon=true` they are not, and the region is opened as soon as no job is on its way.
///
/// Errors: 404 where there is no such promotion, 409 where it is over.
pub(in crate::hub) async fn stop(hub: Rc<Hub>, id: &str, query: &str) -> Result<Value, Refusal> {
    let abandons = match query {
        "" | "abandon=false" => false,
        "abandon=true" => true,
        _ => return Err(Refusal::bad_request("`abandon`: expected true or false, and no other parameter".to_owned())),
    };
    for _ in 0..STOP_TRIES {
        let (saved, promotion) = find(&hub, id).await?;
        if !promotion.is_open() {
            let message = format!("the promotion {id} is over");
            return Err(Refusal::new(StatusCode::CONFLICT, "promotion_over", message));
        }
        let is_abandoned = promotion.is_abandoned || abandons;
        let stopped = Promotion { is_stopped: true, is_abandoned, ..promotion };
        let kept = hub.record.change_promotion(stopped.saved(saved.version)).await.map_err(Refusal::unchanged)?;
        if kept == Kept::Kept {
            return Ok(json!({ "promotion": stopped.shown(&hub.record.promotion_counts(id).await?) }));
        }
        // The hub that carries it out was first, and is done with that in a moment.
        hub.clock.sleep(STOP_PAUSE).await;
    }
    Err(Refusal::unchanged(RecordError::Contended))
}

async fn find(hub: &Hub, id: &str) -> Result<(SavedPromotion, Promotion), Refusal> {
    let saved = hub.record.promotions().await?.all.into_iter().find(|it| it.id == id);
    let found = saved.and_then(|it| serde_json::from_str(&it.document).ok().map(|promotion| (it, promotion)));
    found.ok_or_else(|| {
        let message = "there is no such promotion; `ojs-sidecar promotions` lists those that there are".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
    })
}
