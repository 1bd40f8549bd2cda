//! `GET /uwer/v4/tasks/{id}`: the tasks of a workflow, or the task of a job, with the codes of their states. Spec: UWER §4.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::call::{self, Called};
use super::store;
use crate::net::IncomingBody;
use crate::ojs::ErrorDocument;
use crate::proxy::{Exchange, Proxy};
use crate::replica::is_text;
use crate::uwer::code_of;

/// Shape: `{"tasks": [{"workflow_id", "idempotency_key", "origin_service", "job_id", "region", "claimed_at", "stored_at", "code", "state", "ojs_state",
/// "attempt", "max_attempts"}]}`, the oldest first. `code` is null for a job that has ended with success or was cancelled, for which the matrix has no
/// row, and `state` is then the one of OJS in capitals.
///
/// Errors: 404 for an id that the store does not have; 503 where it does not answer.
pub(super) async fn show(
    proxy: &Proxy,
    exchange: &Exchange,
    request: &Request<IncomingBody>,
) -> Result<Answer, ErrorDocument> {
    let id = exchange.matched.named_in(request.uri().path()).to_ascii_lowercase();
    if !is_text(&id) {
        return Err(ErrorDocument::uwer_no_task());
    }
    let headers = call::further(request.headers());
    let until = Instant::from_std(exchange.started()) + proxy.shared.config.limits.call_timeout;
    let mut document = store::tasks(proxy, &id).await?;
    let Some(tasks) = document["tasks"].as_array_mut().filter(|tasks| !tasks.is_empty()) else {
        return Err(ErrorDocument::uwer_no_task());
    };
    for task in tasks {
        let Some(id) = task["job_id"].as_str().map(str::to_owned) else { continue };
        // The states that the time of the call does not suffice for are unknown.
        match timeout_at(until, call::look_up(proxy, exchange, &headers, &id)).await {
            Ok(found) => add_state(task, &found),
            Err(_) => add_state(task, &Called::late()),
        }
    }
    Ok(Answer::new(StatusCode::OK, &document))
}

/// Adds the state of a job, as its region shows it, to its task.
fn add_state(task: &mut Value, found: &Called) {
    let job: Value = serde_json::from_slice(&found.body).unwrap_or_default();
    let job = if job["job"].is_object() { &job["job"] } else { &job };
    let state = job["state"].as_str().filter(|_| found.status.is_success());
    let code = state.and_then(|state| code_of(state, false));
    let name = code.map_or_else(|| state.map(str::to_ascii_uppercase), |code| Some(code.name().to_owned()));
    let Some(members) = task.as_object_mut() else { return };
    let status = (!found.status.is_success()).then(|| found.status.as_u16());
    for (member, value) in [
        ("code", json!(code.map(crate::uwer::Code::hex))),
        ("state", json!(name)),
        ("ojs_state", json!(state)),
        ("attempt", job["attempt"].clone()),
        ("max_attempts", job["max_attempts"].clone()),
        // Why the state is not known.
        ("look_up_status", json!(status)),
    ] {
        members.insert(member.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_task_has_the_code_of_its_job_or_the_reason_why_that_is_unknown() {
        let shown = |status: u16, body: &'static str| {
            let mut task = json!({ "job_id": "j" });
            let status = StatusCode::from_u16(status).unwrap();
            let body = Bytes::from_static(body.as_bytes());
            add_state(&mut task, &Called { status, region: None, body, retry_after: None, is_unknown: false });
            (task["code"].clone(), task["state"].clone(), task["look_up_status"].clone())
        };
        let found = |code: &str, state: &str| (json!(code), json!(state), Value::Null);
        assert_eq!(shown(200, r#"{"job":{"state":"retryable"}}"#), found("0x30", "RETRY_BACKOFF"));
        assert_eq!(shown(200, r#"{"state":"active"}"#), found("0x20", "LEASE_ACQUIRED"));
        assert_eq!(shown(200, r#"{"job":{"state":"completed"}}"#), (Value::Null, json!("COMPLETED"), Value::Null));
        assert_eq!(shown(503, r#"{"error":{}}"#), (Value::Null, Value::Null, json!(503)));
    }
}
