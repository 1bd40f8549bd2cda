//! Orders to a sidecar's admin listener, and the document of its answer.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::client::ask;
use super::out::complain;
use super::runtime::runtime;

/// Sends an order, and returns the document of a success. Otherwise the reason is printed and `None` is returned: no sidecar answers, it
/// refuses, or the document is not the one that `is_ours` expects.
pub(super) fn order(address: &str, method: Method, path: &str, is_ours: impl FnOnce(&Value) -> bool) -> Option<Value> {
    let answer = match runtime() {
        Ok(runtime) => runtime.block_on(ask(address, method, path, Bytes::new())),
        Err(error) => Err(format!("the system refuses a runtime: {error}")),
    };
    let (parts, body) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            complain(error);
            return None;
        }
    };
    let document: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !parts.status.is_success() || !is_ours(&document) {
        let message = document["error"]["message"].as_str().unwrap_or("it is no ojs-sidecar's admin listener");
        complain(format_args!("{address} answered {}: {message}", parts.status.as_u16()));
        return None;
    }
    Some(document)
}
