//! The requests of sidecars for calls of fleet limits, places of pools and tokens of quotas, and the list of the holders of the first two.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::access::Caller;
use super::limits::Subject;
use super::quotas;
use super::response::Refusal;
use super::sidecar_request::read;
use super::state::Hub;
use crate::base::text::rfc3339;
use crate::fleet::{GrantAnswer, GrantRequest, PoolAnswer, PoolPlaces, RegionCalls, RegionGrant};
use crate::policy::{LimitAsk as Ask, LimitShare as Share};

/// The cause where a limit takes no further holder.
const FULL: &str = "the limit has as many holders as may be";

/// Grants a sidecar calls, places and tokens; they are durable when this returns.
///
/// Errors: the sidecar keeps to its last grants, and asks again.
pub(super) async fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<Value, Refusal> {
    let request: GrantRequest = read(hub, caller, body)?;
    let regions = request.regions.iter().map(|calls| region_grant(hub, &request, calls));
    let pools = request.pools.iter().map(|places| pool_answer(hub, &request, places));
    let quotas = request.quotas.iter().map(|tokens| quotas::grant(hub, &request, tokens));
    let (regions, pools, quotas) = futures_util::join!(join_all(regions), join_all(pools), join_all(quotas));
    Ok(json!(GrantAnswer { regions, pools, quotas }))
}

async fn region_grant(hub: &Hub, request: &GrantRequest, calls: &RegionCalls) -> RegionGrant {
    let region = calls.region.clone();
    let Some(limit) = hub.limits.of(&Subject::Region(region.clone())) else { return RegionGrant::NoLimit { region } };
    let ask = Ask {
        sidecar: request.sidecar.clone(),
        started_unix_ms: request.started_unix_ms,
        sequence: calls.sequence,
        holds: calls.holds,
        granted: calls.holds,
        needs: calls.needs,
        wants: calls.wants,
        longest_call_ms: request.longest_call_ms,
        held: 0,
    };
    match limit.ask(ask).await {
        Ok(Share::Calls(calls)) => {
            RegionGrant::Granted { region, calls, lasts_ms: limit.ttl_ms(), renew_ms: limit.renew_ms() }
        }
        Ok(Share::Late(sequence)) => RegionGrant::Late { region, sequence },
        Ok(Share::Full) => RegionGrant::Unavailable { region, cause: FULL.to_owned() },
        Err(error) => RegionGrant::Unavailable { region, cause: error.to_string() },
    }
}

async fn pool_answer(hub: &Hub, request: &GrantRequest, places: &PoolPlaces) -> PoolAnswer {
    let pool = places.pool.clone();
    let Some(limit) = hub.limits.of(&Subject::of_places(&pool)) else { return PoolAnswer::NoPool { pool } };
    let ask = Ask {
        sidecar: request.sidecar.clone(),
        started_unix_ms: request.started_unix_ms,
        sequence: places.sequence,
        holds: places.holds,
        granted: places.granted,
        needs: places.needs,
        wants: places.wants,
        longest_call_ms: places.longest_lease_ms,
        held: places.held.unwrap_or_default(),
    };
    match limit.ask(ask).await {
        Ok(Share::Calls(places)) => {
            PoolAnswer::Granted { pool, places, lasts_ms: limit.ttl_ms(), renew_ms: limit.renew_ms() }
        }
        Ok(Share::Late(sequence)) => PoolAnswer::Late { pool, sequence },
        Ok(Share::Full) => PoolAnswer::Unavailable { pool, cause: FULL.to_owned() },
        Err(error) => PoolAnswer::Unavailable { pool, cause: error.to_string() },
    }
}

/// The limits and the pools, with the part that each sidecar holds of them. Shape: by the order of the configuration.
pub(super) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    let limits = hub.limits.holders(&hub.record).await?;
    let (mut regions, mut pools) = (Vec::new(), Vec::new());
    for (limit, holders) in &limits {
        let (subject, most) = (&limit.bound.subject, limit.bound.most());
        let granted = holders.calls();
        let shown = |held: &str| {
            let holder = holders.iter().map(
                |it| json!({ "sidecar": it.sidecar, held: it.calls, "needs": it.needs, "ends": rfc3339(it.ends_ms) }),
            );
            holder.collect::<Vec<Value>>()
        };
        match subject {
            Subject::Region(region) => regions.push(
                json!({ "region": region.as_str(), "calls": most, "granted": granted, "holders": shown("calls") }),
            ),
            Subject::Pool(pool) => {
                pools.push(json!({ "pool": pool, "concurrency": most, "granted": granted, "holders": shown("places") }))
            }
            // `GET /api/quotas` shows them.
            Subject::Quota(_) => {}
        }
    }
    Ok(json!({ "limits": regions, "pools": pools }))
}
