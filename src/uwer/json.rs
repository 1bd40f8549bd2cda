//! The same task in JSON: the way of a sender to UWER v5.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::flaw::{Field, Flaw, FlawKind};
use super::task::Task;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'t> {
    #[serde(borrow)]
    metadata: Metadata<'t>,
    #[serde(borrow, rename = "executionStrategy")]
    execution_strategy: ExecutionStrategy<'t>,
    #[serde(borrow)]
    payload: Payload<'t>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Metadata<'t> {
    #[serde(borrow)]
    workflow_id: Cow<'t, str>,
    #[serde(borrow, default)]
    idempotency_key: Option<Cow<'t, str>>,
    #[serde(borrow)]
    priority: Cow<'t, str>,
    #[serde(borrow)]
    origin_service: Cow<'t, str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ExecutionStrategy<'t> {
    // As they are written: a number has digits that a parsed one loses.
    #[serde(borrow)]
    max_retries: &'t RawValue,
    #[serde(borrow)]
    backoff_multiplier: &'t RawValue,
    #[serde(borrow)]
    timeout_ms: &'t RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload<'t> {
    #[serde(borrow)]
    encoding: Cow<'t, str>,
    #[serde(borrow)]
    data: Cow<'t, str>,
}

/// Reads a task in JSON. Shape: `{"metadata": {"workflowId", "idempotencyKey", "priority", "originService"}, "executionStrategy":
/// {"maxRetries", "backoffMultiplier", "timeoutMs"}, "payload": {"encoding": "b64", "data"}}`, numbers as numbers.
///
/// Errors: the first flaw.
pub fn read_json(bytes: &[u8]) -> Result<Task, Flaw> {
    let document: Document<'_> = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    let Document { metadata, execution_strategy: strategy, payload } = document;
    let flaw = |kind, field: &str, expected: &str| Flaw::without_place(kind, field, expected.to_owned());
    let Some(key) = metadata.idempotency_key else {
        let field = Field::IdempotencyKey;
        return Err(flaw(FlawKind::KeyMissing, field.member(), field.expected()));
    };
    if payload.encoding != "b64" {
        return Err(flaw(FlawKind::Value, "payload.encoding", "expected `b64`"));
    }
    let texts = [
        &*metadata.workflow_id,
        &*key,
        &*metadata.priority,
        &*metadata.origin_service,
        strategy.max_retries.get(),
        strategy.backoff_multiplier.get(),
        strategy.timeout_ms.get(),
        &*payload.data,
    ];
    Task::checked(texts).map_err(|field| {
        let kind = if field == Field::IdempotencyKey { FlawKind::KeyMalformed } else { FlawKind::Value };
        flaw(kind, field.member(), field.expected())
    })
}

/// The texts of a document with all members, each once, in the order of [`Field::ALL`]; an empty one for a missing key.
pub(super) fn texts_of(bytes: &[u8]) -> Option<[String; 8]> {
    let Document { metadata, execution_strategy: strategy, payload } = serde_json::from_slice(bytes).ok()?;
    Some([
        metadata.workflow_id.into_owned(),
        metadata.idempotency_key.map(Cow::into_owned).unwrap_or_default(),
        metadata.priority.into_owned(),
        metadata.origin_service.into_owned(),
        strategy.max_retries.get().to_owned(),
        strategy.backoff_multiplier.get().to_owned(),
        strategy.timeout_ms.get().to_owned(),
        payload.data.into_owned(),
    ])
}

fn unreadable(error: &serde_json::Error) -> Flaw {
    let kind = match error.classify() {
        serde_json::error::Category::Data => FlawKind::Structure,
        _ => FlawKind::Syntax,
    };
    let place = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
    let (line, column) = (place(error.line()), place(error.column()));
    // The parser's words may quote a value of the document.
    let expected = "expected a JSON object with the members of a task, each once and no others, as the guide shows it";
    Flaw { kind, field: "body".to_owned(), line, column, expected: expected.to_owned() }
}

/// The JSON of a task.
#[must_use]
pub fn write_json(task: &Task) -> String {
    format!(
        r#"{{"metadata":{{"workflowId":"{}","idempotencyKey":"{}","priority":"{}","originService":"{}"}},"executionStrategy":{{"maxRetries":{},"backoffMultiplier":{},"timeoutMs":{}}},"payload":{{"encoding":"b64","data":"{}"}}}}"#,
        task.workflow_id(),
        task.key(),
        task.priority().as_str(),
        task.origin(),
        task.max_retries(),
        task.backoff(),
        task.timeout_ms(),
        task.payload(),
    )
}
