//! `ojs-sidecar job`: the record of a job in the index of the hub, for people.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::arguments::JobArgs;
use super::out::say;
use super::query::{Question, answer, cell, list, table};
use crate::ojs::path_segment;

/// Prints the copies of a job and the history of each; it failed where the index does not have the job.
pub(super) fn job(arguments: &JobArgs) -> u8 {
    let path = match (&arguments.federation_id, &arguments.job_id) {
        (Some(id), _) => format!("/v1/federation/jobs/{}", path_segment(id)),
        (None, id) => format!("/v1/federation/jobs?job_id={}", path_segment(id.as_deref().unwrap_or_default())),
    };
    let question = Question { method: Method::GET, path: &path, body: Bytes::new(), member: "copies" };
    answer(&arguments.query, question, show)
}

fn show(record: &Value) {
    let [id, region, state] = ["federation_id", "region", "state"].map(|key| cell(&record[key]));
    say(format_args!("{id}: {state} in {region}"));
    let copies = list(&record["copies"]).iter();
    let keys = ["job_id", "region", "state", "changed_at", "enqueued_at", "type", "queue", "tenant"];
    let row = |it: &Value| {
        let [job, region, state, changed, enqueued, kind, queue, tenant] = keys.map(|key| cell(&it[key]));
        let counts = if it["winner"] == true { "yes" } else { "no" };
        [job, region, state, changed, enqueued, kind, queue, tenant, counts.to_owned()]
    };
    let heads = ["JOB", "REGION", "STATE", "SINCE", "ENQUEUED", "TYPE", "QUEUE", "TENANT", "COUNTS"];
    table(heads, copies.clone().map(row).collect());
    for copy in copies {
        let change = |it: &Value| format!("{} {}", cell(&it["at"]), cell(&it["change"]));
        let history: Vec<String> = list(&copy["history"]).iter().map(change).collect();
        say(format_args!("{} in {}: {}", cell(&copy["job_id"]), cell(&copy["region"]), history.join(", ")));
    }
}
