//! The requests of sidecars for calls of fleet limits, and the list of the holders.

use serde_json::{Value, json};

use super::access::Caller;
use super::limits::{Ask, Share};
use super::response::Refusal;
use super::sidecar_request::read;
use super::state::Hub;
use crate::base::text::rfc3339;
use crate::fleet::{GrantAnswer, GrantRequest, RegionCalls, RegionGrant};

/// Grants a sidecar calls; they are durable when this returns.
///
/// Errors: the sidecar keeps to its last grants, and asks again.
pub(super) async fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<Value, Refusal> {
    let request: GrantRequest = read(hub, caller, body)?;
    let regions = request.regions.iter().map(|calls| region_grant(hub, &request, calls));
    let regions = futures_util::future::join_all(regions).await;
    Ok(json!(GrantAnswer { regions }))
}

async fn region_grant(hub: &Hub, request: &GrantRequest, calls: &RegionCalls) -> RegionGrant {
    let region = calls.region.clone();
    let Some(limit) = hub.limits.of(&region) else { return RegionGrant::NoLimit { region } };
    let ask = Ask {
        sidecar: request.sidecar.clone(),
        started_unix_ms: request.started_unix_ms,
        sequence: calls.sequence,
        holds: calls.holds,
        needs: calls.needs,
        wants: calls.wants,
        longest_call_ms: request.longest_call_ms,
    };
    match limit.ask(ask).await {
        Ok(Share::Calls(calls)) => {
            RegionGrant::Granted { region, calls, lasts_ms: limit.ttl_ms(), renew_ms: limit.renew_ms() }
        }
        Ok(Share::Late(sequence)) => RegionGrant::Late { region, sequence },
        Ok(Share::Full) => {
            RegionGrant::Unavailable { region, cause: "the limit has as many holders as may be".to_owned() }
        }
        Err(error) => RegionGrant::Unavailable { region, cause: error.to_string() },
    }
}

/// The limits, with the calls that each sidecar holds. Shape: by the order of the configuration.
pub(super) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    let limits = hub.limits.holders(&hub.record).await?;
    let limits = limits.iter().map(|(limit, holders)| {
        let shown = holders.iter().map(
            |it| json!({ "sidecar": it.sidecar, "calls": it.calls, "needs": it.needs, "ends": rfc3339(it.ends_ms) }),
        );
        let shown: Vec<Value> = shown.collect();
        json!({ "region": limit.region.as_str(), "calls": limit.calls, "granted": holders.calls(), "holders": shown })
    });
    Ok(json!({ "limits": limits.collect::<Vec<_>>() }))
}
