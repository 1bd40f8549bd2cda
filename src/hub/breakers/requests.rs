//! `GET /api/incidents`, `GET /api/incidents/{id}` and `POST /api/incidents/{id}/close`.

use http::StatusCode;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::cursor::{cursor, read_cursor};
use super::super::incident::{Closed, ClosedBy, Incident};
use super::super::record::RecordError;
use super::super::replay::read_grounds;
use super::super::response::Refusal;
use super::super::state::Hub;
use super::errands::{change, one};
use crate::ojs::query_text;
use crate::replica::is_text;
use crate::telemetry::event;

/// Incidents in one answer.
const PAGE_MAX: u64 = 500;
/// Incidents in an answer to a query that does not say how many.
const PAGE_USUAL: u64 = 50;

/// A page of incidents, the newest first. Query: `status=open|closed`, `limit=N`, `cursor=NEXT`.
///
/// Errors: 400 for another query.
pub(in crate::hub) async fn list(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let wrong = |name: &str, expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
    let (mut is_open, mut limit, mut behind) = (None, PAGE_USUAL, (i64::MAX as u64, String::new()));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = query_text(value);
        match (name, value.as_str()) {
            ("status", "open") => is_open = Some(true),
            ("status", "closed") => is_open = Some(false),
            ("status", _) => return Err(wrong(name, "open or closed")),
            ("limit", text) => {
                let number = text.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
                limit = number.ok_or_else(|| wrong(name, &format!("1 to {PAGE_MAX}")))?;
            }
            ("cursor", text) => behind = read_cursor(text).ok_or_else(|| wrong(name, "the `next` of an answer"))?,
            _ => return Err(wrong(name, "`status`, `limit` and `cursor` only")),
        }
    }
    let saved = hub.record.incident_page(is_open, behind, limit).await?;
    let is_full = u64::try_from(saved.len()).is_ok_and(|len| len == limit);
    let next = saved.last().filter(|_| is_full).map(|last| cursor(last.opened_ms, &last.id));
    let (mut incidents, mut later) = (Vec::new(), Vec::new());
    for it in &saved {
        match Incident::read(it) {
            Some(incident) => incidents.push(incident.shown(false)),
            None => later.push(&it.id),
        }
    }
    Ok(json!({ "incidents": incidents, "later": later, "next": next }))
}

/// One incident, with the failed jobs.
///
/// Errors: 404 where there is none.
pub(in crate::hub) async fn show(hub: &Hub, id: &str, query: &str) -> Result<Value, Refusal> {
    if !query.is_empty() {
        return Err(Refusal::bad_request("expected no query".to_owned()));
    }
    Ok(json!({ "incident": find(hub, id).await?.shown(true) }))
}

async fn find(hub: &Hub, id: &str) -> Result<Incident, Refusal> {
    let id = query_text(id);
    let saved = if is_text(&id) { hub.record.incident(&id).await? } else { None };
    let saved = saved.ok_or_else(|| {
        let message = "there is no such incident; `ojs-sidecar incidents` lists those that there are".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
    })?;
    Ok(Incident::read(&saved).ok_or(RecordError::Content("an incident of a later version"))?)
}

/// Closes an incident and its breaker by the word of an operator. The answer comes once it is on disk.
///
/// Errors: 400 for a member, 404 where there is no such incident, 409 where it is closed.
pub(in crate::hub) async fn close(hub: &Hub, caller: &Caller, id: &str, body: &[u8]) -> Result<Value, Refusal> {
    let grounds = read_grounds(caller, body)?;
    let incident = find(hub, id).await?;
    let (now_ms, hook) = (hub.clock.unix_ms(), hub.breakers.incidents.is_some());
    let closed = Closed {
        by: ClosedBy::Operator,
        reason: grounds.reason.clone(),
        ticket: grounds.ticket.clone(),
        author: grounds.author.clone(),
        caller: caller.name.clone(),
    };
    let is_closed = change(hub, &incident.id, |it| {
        let was_open = it.is_open();
        if was_open {
            it.close(closed.clone(), hook, now_ms);
        }
        was_open
    });
    if !is_closed.await.map_err(Refusal::unchanged)? {
        let message = format!("the incident {} is closed", incident.id);
        return Err(Refusal::new(StatusCode::CONFLICT, "incident_closed", message));
    }
    event::breaker::incident_closed(
        &incident.id,
        &incident.job_type,
        incident.tenant.as_deref(),
        ClosedBy::Operator.as_str(),
        &grounds.reason,
    );
    // The jobs go again at once, and the row is there with the answer; where it is not, it is tried again.
    hub.breakers.noted.notify_one();
    let incident = find(hub, id).await?;
    let row = Incident { content: incident.content.clone(), ..incident.clone() };
    let noted = Box::pin(one_row(hub, row)).await;
    hub.breakers.owed.notify_one();
    noted?;
    Ok(json!({ "incident": incident.shown(true), "durable": hub.record.is_durable() }))
}

/// Adds the rows of the trail that an incident lacks; its messages go out behind the answer.
async fn one_row(hub: &Hub, mut incident: Incident) -> Result<(), Refusal> {
    incident.content.errands.retain(|it| it.is_row);
    one(hub, incident).await.map_err(Refusal::from)
}
