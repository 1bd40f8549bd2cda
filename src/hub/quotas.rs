//! Quotas: orders of operators, the list with their use, and the grants of tokens to sidecars.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::access::Caller;
use super::active_quotas;
use super::audit::Entry;
use super::put_quotas::{PutBy, PutQuotas, QuotasBody};
use super::quota_desk::usage;
use super::response::Refusal;
use super::state::Hub;
use crate::base::text::rfc3339;
use crate::fleet::{GrantRequest, LaterTokens, QuotaAnswer, QuotaTokens};
use crate::ojs::{path_segment, query_text};
use crate::policy::{ANY, BlockAsk, OnHubLoss, Quota, QuotaRefused};
use crate::switch::Grounds;
use crate::telemetry::event;

/// The quotas that were put at this hub, or at another one on its record, each with its use.
pub(super) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    hub.refresh_in_time().await?;
    let current = hub.current();
    let mut quotas = Vec::with_capacity(current.quotas.quotas.len());
    for quota in &current.quotas.quotas {
        let mut shown = json!(quota);
        if quota.has_rate() {
            let (used, now_ms) = usage(&hub.record, quota).await?;
            shown["usedInLastHour"] = used.used.into();
            shown["granted"] = used.granted.into();
            shown["later"] = used.later.into();
            shown["sidecars"] = used.sidecars.into();
            shown["nextEligible"] = used.next_ms.map(|next| rfc3339(next.max(now_ms))).into();
        }
        let mut why = advisory(quota);
        if quota.max_active.is_some() {
            let of_active = active_quotas::show(hub, quota, &mut shown).await?;
            why.extend(of_active.into_iter().filter(|it| !why.contains(it)).collect::<Vec<_>>());
        }
        (shown["advisory"], shown["advisoryReasons"]) = ((!why.is_empty()).into(), why.into());
        quotas.push(shown);
    }
    let mut shown = head(hub, &current.quotas);
    shown["quotas"] = quotas.into();
    Ok(shown)
}

/// Why a quota may be passed by, or exceeded, through sidecars that follow it.
fn advisory(quota: &Quota) -> Vec<&'static str> {
    if !quota.has_rate() {
        return Vec::new();
    }
    // A job with a time of its own counts when it is accepted, and starts at that time.
    let mut why = vec!["scheduled_by_client"];
    if quota.tenant != ANY {
        why.push("tenant_by_client");
    }
    if quota.on_hub_loss == OnHubLoss::Local {
        why.push("local_without_hub");
    }
    why
}

fn head(hub: &Hub, put: &PutQuotas) -> Value {
    let mut shown = json!({
        "version": hub.current().version.to_string(),
        "durable": hub.record.is_durable(),
        "profiles": put.profiles,
        "counts": "enqueues and members of batches that pass sidecars of this hub; not workflows, cron jobs and direct producers",
    });
    if let Some(by) = &put.put {
        shown["since"] = rfc3339(by.put_ms).into();
        shown["quota_reason"] = by.reason.as_str().into();
        shown["quota_ticket"] = by.ticket.as_str().into();
        shown["author"] = by.author.as_str().into();
    }
    shown
}

/// Puts the quotas of a body in place of all before. The answer comes once they are on disk.
pub(super) async fn put(hub: Rc<Hub>, caller: &Caller, query: &str, body: &[u8]) -> Result<Value, Refusal> {
    let body = QuotasBody::read(body).map_err(Refusal::bad_request)?;
    let grounds = grounds(caller, query, &body).map_err(Refusal::bad_request)?;
    if !hub.record.is_durable() && !body.quotas.is_empty() {
        let message =
            "a hub without `record.path` or `record.postgres` forgets at a restart how many jobs have started: set one";
        return Err(Refusal::new(StatusCode::CONFLICT, "not_grantable", message.to_owned()));
    }
    let changed = hub
        .change(|all, _| {
            if all.quotas.is_alike(&body) {
                return (false, Vec::new());
            }
            let Grounds { reason, ticket, author } = grounds.clone();
            let put = Some(PutBy { put_ms: hub.clock.unix_ms(), reason, ticket, author });
            let (profiles, quotas) = (body.profiles.clone(), body.quotas.clone());
            all.quotas = Arc::new(PutQuotas { profiles, quotas, put });
            (true, vec![entry(&hub, caller, &body.quotas, &grounds)])
        })
        .await
        .map_err(Refusal::unchanged)?;
    if changed {
        let count = body.quotas.len();
        event::hub_quotas_put(count, [&grounds.reason, &grounds.ticket, &grounds.author]);
    }
    let current = hub.current();
    let mut shown = head(&hub, &current.quotas);
    (shown["quotas"], shown["changed"]) = (json!(current.quotas.quotas), changed.into());
    Ok(shown)
}

/// The grounds of an order: `quota_reason`, `quota_ticket` and `author`, of the query or of the body.
fn grounds(caller: &Caller, query: &str, body: &QuotasBody) -> Result<Grounds, String> {
    let mut found = [
        ("quota_reason", "reason", &body.reason),
        ("quota_ticket", "ticket", &body.ticket),
        ("author", "author", &body.author),
    ]
    .map(|(name, short, text)| (name, short, text.clone()));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((_, _, text)) = found.iter_mut().find(|(known, ..)| *known == name) else {
            return Err("expected `quota_reason`, `quota_ticket` and `author` only in the query".to_owned());
        };
        let value = query_text(value);
        if text.as_ref().is_some_and(|text| *text != value) {
            return Err(format!("`{name}`: expected it once, in the query or in the body"));
        }
        *text = Some(value);
    }
    let query: Vec<String> =
        found.iter().filter_map(|(_, short, text)| Some(format!("{short}={}", path_segment(text.as_ref()?)))).collect();
    let read = Grounds::read(caller.author.as_deref(), &query.join("&"));
    read.map_err(|error| error.replace("`reason`", "`quota_reason`").replace("`ticket`", "`quota_ticket`"))
}

fn entry(hub: &Hub, caller: &Caller, quotas: &[Quota], grounds: &Grounds) -> Entry {
    let Grounds { reason, ticket, author } = grounds.clone();
    let (unix_ms, caller) = (hub.clock.unix_ms(), caller.name.clone());
    let subject = format!("quotas {}", json!(quotas));
    Entry { unix_ms, caller, action: "quotas_put", subject, lasts_ms: None, force: false, reason, ticket, author }
}

/// Grants a sidecar tokens of one quota; they are durable when this returns.
pub(super) async fn grant(hub: &Hub, request: &GrantRequest, tokens: &QuotaTokens) -> QuotaAnswer {
    let name = tokens.quota.clone();
    let current = hub.current();
    let Some(quota) = current.quotas.get(&name) else { return QuotaAnswer::NoQuota { quota: name } };
    let ask = BlockAsk {
        // A name of a sidecar has no space.
        process: format!("{} {}", request.sidecar, request.started_unix_ms),
        sequence: tokens.sequence,
        answered: tokens.answered,
        left: tokens.left,
        dropped: tokens.dropped,
        wants: tokens.wants,
        needs: tokens.needs,
        later: tokens.later.clone(),
        wants_later: tokens.wants_later,
    };
    match hub.quota_desk.ask(quota, ask).await {
        Ok(Ok((block, now_ms))) => {
            let later = block.later.iter();
            let later =
                later.map(|&(at_ms, tokens)| LaterTokens { at_ms, in_ms: at_ms.saturating_sub(now_ms), tokens });
            QuotaAnswer::Granted {
                quota: name,
                further: block.further,
                lasts_ms: block.ends_ms.saturating_sub(now_ms),
                later: later.collect(),
                next_ms: block.next_ms.map(|next| next.saturating_sub(now_ms)),
                is_pressed: block.is_pressed,
            }
        }
        Ok(Err(QuotaRefused::Late(sequence))) => QuotaAnswer::Late { quota: name, sequence },
        Ok(Err(QuotaRefused::Full)) => {
            QuotaAnswer::Unavailable { quota: name, cause: "the quota has as many sidecars as may be".to_owned() }
        }
        Err(error) => QuotaAnswer::Unavailable { quota: name, cause: error.to_string() },
    }
}
