//! Requests to the central store, and the refusals where it does not answer.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::fleet::{
    CLAIM_TASK, LETTERS, LetterKept, LetterRequest, SETTLE_TASK, TASKS, TaskClaimed, TaskEnd, TaskRequest,
};
use crate::ojs::{ErrorDocument, path_segment};
use crate::proxy::Proxy;

/// For one request: a claim with a later answer might be over before its job is sent.
pub(super) const ASK_WAIT: Duration = Duration::from_secs(2);
/// When the store may answer again. Units: seconds.
const RETRY_AFTER: u64 = 2;

/// Claims a task for this call.
///
/// Errors: 503; it may have been claimed.
pub(super) async fn claim(proxy: &Proxy, request: &TaskRequest) -> Result<TaskClaimed, ErrorDocument> {
    post(proxy, CLAIM_TASK, request).await
}

/// Keeps the region of the job of a task. Returns whether the store has it; else the key has another job.
///
/// Errors: 503; it may have been kept.
pub(super) async fn settle(proxy: &Proxy, request: &TaskRequest, end: TaskEnd) -> Result<bool, ErrorDocument> {
    let request = TaskRequest { end: Some(end), ..request.clone() };
    let settled: Value = post(proxy, SETTLE_TASK, &request).await?;
    Ok(settled["settled"] == true)
}

/// Keeps a dead letter. Returns its name.
///
/// Errors: 503; it may have been kept.
pub(super) async fn keep_letter(proxy: &Proxy, request: &LetterRequest) -> Result<String, ErrorDocument> {
    post::<LetterKept>(proxy, LETTERS, request).await.map(|kept| kept.id)
}

/// The document of the store about the tasks of a workflow or a job.
///
/// Errors: 503.
pub(super) async fn tasks(proxy: &Proxy, id: &str) -> Result<Value, ErrorDocument> {
    read(ask(proxy, format!("{TASKS}?id={}", path_segment(id)), None).await?)
}

async fn post<T: DeserializeOwned>(proxy: &Proxy, path: &str, request: &impl Serialize) -> Result<T, ErrorDocument> {
    let body = serde_json::to_vec(request).map_err(|_| unavailable("unreadable"))?;
    read(ask(proxy, path.to_owned(), Some(body)).await?)
}

async fn ask(proxy: &Proxy, path: String, body: Option<Vec<u8>>) -> Result<(StatusCode, Bytes), ErrorDocument> {
    let answered = proxy.shared.store.ask(path, body, Instant::now() + ASK_WAIT).await;
    answered.ok_or_else(|| unavailable("unreachable"))
}

fn read<T: DeserializeOwned>((status, body): (StatusCode, Bytes)) -> Result<T, ErrorDocument> {
    match status {
        StatusCode::OK => serde_json::from_slice(&body).map_err(|_| unavailable("unreadable")),
        // A hub of an earlier version has no such path, and one without `uwer` says so.
        StatusCode::NOT_FOUND => Err(unavailable("no_store")),
        StatusCode::INSUFFICIENT_STORAGE => Err(unavailable("full")),
        status if status.is_client_error() => Err(unavailable("refused")),
        _ => Err(unavailable("not_committed")),
    }
}

/// The refusal of a document where too many others are on their way.
pub(super) fn busy() -> ErrorDocument {
    unavailable("busy")
}

fn unavailable(why: &'static str) -> ErrorDocument {
    ErrorDocument::uwer_store(why, RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_says_why_the_store_commits_nothing() {
        let why = |status: u16, body: &'static str| {
            let answer = (StatusCode::from_u16(status).unwrap(), Bytes::from_static(body.as_bytes()));
            let document = read::<TaskClaimed>(answer).unwrap_err();
            let document: Value = serde_json::from_slice(&document.to_json("")).unwrap();
            document["error"]["details"]["why"].as_str().unwrap().to_owned()
        };
        assert_eq!(why(200, "{}"), "unreadable");
        assert_eq!(why(404, ""), "no_store");
        assert_eq!(why(507, ""), "full");
        assert_eq!(why(403, ""), "refused");
        assert_eq!(why(503, ""), "not_committed");
        let held = Bytes::from_static(br#"{"claim":"held","left_ms":7}"#);
        assert_eq!(read::<TaskClaimed>((StatusCode::OK, held)), Ok(TaskClaimed::Held { left_ms: 7 }));
    }
}
