//! The parts of one step of the tour.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use ojs_testbed::DemoRegion;
use serde_json::Value;

use crate::cli::client::{self, Answer};
use crate::cli::demo::stage::Stage;
use crate::cli::out::say;

/// How often the tour looks whether something has come true, and for how long at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 400;

/// Whether a step went as it should; if not, a sentence.
pub(super) type Told = Result<(), String>;

/// Begins a step, below the log lines of the one before.
pub(super) fn step(stage: &Stage, number: u8, title: &str) {
    stage.flush_log();
    say(format_args!("\n{number}. {title}"));
}

/// Shows a check that holds, and fails with one that does not.
pub(super) fn check(holds: bool, what: &str) -> Told {
    if !holds {
        return Err(format!("this does not hold: {what}"));
    }
    say(format_args!("  ok: {what}"));
    Ok(())
}

pub(super) async fn ask(stage: &Stage, method: Method, path: &str, body: Option<Value>) -> Result<Answer, String> {
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    client::ask(&stage.client.to_string(), method, path, body).await
}

/// Posts a document, and reads the answer.
///
/// Errors: a sentence, where the status is no success.
pub(super) async fn post(stage: &Stage, path: &str, body: Value) -> Result<Value, String> {
    let (head, body) = ask(stage, Method::POST, path, Some(body)).await?;
    if !head.status.is_success() {
        return Err(format!("{path} was answered {}: {}", head.status, String::from_utf8_lossy(&body)));
    }
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

pub(super) fn region(stage: &Stage, place: usize) -> Result<&DemoRegion, String> {
    stage.regions.get(place).ok_or_else(|| "a region is missing".to_owned())
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The region that an answer names; empty without one.
pub(super) fn region_of(answer: &Answer) -> &str {
    answer.0.headers.get("ojs-federation-region").and_then(|region| region.to_str().ok()).unwrap_or_default()
}

/// Waits for a bounded time until something is true.
pub(super) async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) -> Told {
    for _ in 0..LOOKS_MAX {
        if is_true().await {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("this did not come true: {what}"))
}
