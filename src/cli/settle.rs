//! `ojs-sidecar outcomes settle`: an operator rules about a job that no region shows.

use http::Method;
use serde_json::Value;

use super::arguments::SettleArgs;
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::say;
use super::query::cell;
use crate::ojs::path_segment;

/// Settles it; exit code 1 where the sidecar refuses.
pub(super) fn settle(arguments: &SettleArgs) -> u8 {
    let SettleArgs { id, stored, reason, region, at, .. } = arguments;
    let decided = if *stored { "stored" } else { "absent" };
    let region = region.as_ref().map(|region| format!("&region={region}")).unwrap_or_default();
    let (id, reason) = (path_segment(id), path_segment(reason));
    let path = format!("/outcomes/settle?id={id}&as={decided}&reason={reason}{region}");
    let is_ours = |document: &Value| !document["decided"].is_null();
    let Some(document) = order(To::Sidecar(at), Method::PUT, &path, is_ours) else { return FAILED };
    let [row, job, region, state] = ["id", "job_id", "region", "state"].map(|key| cell(&document[key]));
    say(format_args!("row {row}: job {job} is taken for {decided} in {region}; the outcome is {state}"));
    if document["durable"] != true {
        say("the journal is in memory only: a restart forgets this");
    }
    DONE
}
