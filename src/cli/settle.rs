//! `ojs-sidecar outcomes settle`: an operator rules about a job that no region shows.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::arguments::SettleArgs;
use super::client::ask;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::query::cell;
use super::runtime::runtime;
use crate::ojs::path_segment;

/// Settles it; exit code 1 where the sidecar refuses.
pub(super) fn settle(arguments: &SettleArgs) -> u8 {
    let SettleArgs { id, stored, reason, region, address, .. } = arguments;
    let decided = if *stored { "stored" } else { "absent" };
    let region = region.as_ref().map(|region| format!("&region={region}")).unwrap_or_default();
    let (id, reason) = (path_segment(id), path_segment(reason));
    let path = format!("/outcomes/settle?id={id}&as={decided}&reason={reason}{region}");
    let answer = match runtime() {
        Ok(runtime) => runtime.block_on(ask(address, Method::PUT, &path, Bytes::new())),
        Err(error) => Err(format!("the system refuses a runtime: {error}")),
    };
    let (parts, body) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let document: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !parts.status.is_success() || document["decided"].is_null() {
        let message = document["error"]["message"].as_str().unwrap_or("it is no ojs-sidecar's admin listener");
        complain(format_args!("{address} answered {}: {message}", parts.status.as_u16()));
        return FAILED;
    }
    let [row, job, region, state] = ["id", "job_id", "region", "state"].map(|key| cell(&document[key]));
    say(format_args!("row {row}: job {job} is taken for {decided} in {region}; the outcome is {state}"));
    if document["durable"] != true {
        say("the journal is in memory only: a restart forgets this");
    }
    DONE
}
