//! Conflicts in a large database: plans of statements, tracking ids of very many jobs, and the end of many rows.

use http::Method;
use serde_json::Value;

use super::super::postgres::Postgres;
use super::super::stage::{HubStage, status};
use super::upgrade::{REPEATED, facts, migrated};
use super::{counts_one, figure};
use crate::support::eventually;

/// The statements with this text that the server has carried out, each with its plan.
fn plans(server: &Postgres, text: &str) -> Vec<String> {
    let log = server.log();
    // An entry goes on in lines that begin with a tab.
    let entry = |rest: &str| -> String {
        let is_in = |(at, line): &(usize, &str)| *at == 0 || line.starts_with('\t');
        rest.split_inclusive('\n').enumerate().take_while(is_in).map(|(_, line)| line).collect()
    };
    log.split("\tQuery Text: ").skip(1).map(entry).filter(|entry| entry.contains(text)).collect()
}

/// The same with one tracking id for all jobs.
fn crowd(name: &str, count: u32) -> String {
    facts(name, count).replace(&format!("'{name}' || number, region, ms"), "'crowd', region, ms")
}

#[tokio::test]
async fn no_statement_of_the_search_reads_all_facts() {
    let Some((stage, server)) = migrated().await else { return };
    server.query(&facts("before", 100_000));
    server.query(&crowd("many", 75_000));
    // The search begins behind all of them.
    server.query(
        "INSERT INTO ojs_hub_conflict_place SELECT origin, max(written), max(mark) FROM ojs_hub_change GROUP BY origin",
    );
    server.query("ANALYZE");
    server.query("ALTER ROLE hub SET session_preload_libraries = 'auto_explain'");
    server.query("ALTER ROLE hub SET auto_explain.log_min_duration = 0");
    let hub = stage.again(0).await;
    server.query(&facts("after", 1));
    server.query(&crowd("more", 1));
    eventually("both ids are found", async || figure(&hub, REPEATED).await.as_deref() == Some("2")).await;
    counts_one(&hub, "reported").await;
    for part in ["named AS (", "AS smaller"] {
        eventually("the plan is logged", async || !plans(&server, part).is_empty()).await;
        for plan in plans(&server, part) {
            assert!(plan.contains("ojs_hub_change_search") && !plan.contains("Seq Scan on ojs_hub_change "), "{plan}");
        }
    }
}

/// For each copy with the tracking id of the crowd, whether it counts.
async fn counts(stage: &HubStage) -> Vec<Value> {
    let (_, record) = status(stage, "eve", &Method::GET, "/v1/federation/jobs/crowd").await;
    record["copies"].as_array().into_iter().flatten().map(|it| it["counts"].clone()).collect()
}

#[tokio::test]
async fn of_more_copies_than_a_look_up_reads_none_is_said_to_count() {
    let Some((stage, server)) = migrated().await else { return };
    let _hub = stage.again(0).await;
    server.query(&crowd("some", 500));
    let some = counts(&stage).await;
    assert_eq!((some.len(), some.iter().filter(|it| **it == Value::Bool(false)).count()), (1_000, 500));
    server.query(&crowd("more", 1_600));
    let all = counts(&stage).await;
    assert_eq!((all.len(), all.iter().filter(|it| it.is_null()).count()), (4_096, 4_096));
}

#[tokio::test]
async fn more_rows_that_are_too_old_than_go_at_once_all_go_and_those_of_an_order_stay() {
    let Some((stage, server)) = migrated().await else { return };
    server.query(
        "INSERT INTO ojs_hub_repeated_id SELECT 'noted' || number, 1, NULL, NULL, false FROM generate_series(1, 30000) AS number;
         INSERT INTO ojs_hub_repeated_id SELECT 'waiting' || number, 1, 1, 9e15, false FROM generate_series(1, 30000) AS number;
         INSERT INTO ojs_hub_repeated_id VALUES ('ordered', 1, 1, 9e15, false);
         INSERT INTO ojs_hub_conflict SELECT 'job' || number, 'us-east-1', 'f', 'reported', 'time', NULL, NULL, 1
           FROM generate_series(1, 30000) AS number;
         INSERT INTO ojs_hub_conflict VALUES ('job', 'us-east-1', 'ordered', 'cancelling', NULL, NULL, NULL, 1)",
    );
    let _hub = stage.again(0).await;
    let left = "SELECT string_agg(federation_id, ' ') FROM (
      SELECT federation_id FROM ojs_hub_repeated_id UNION ALL SELECT federation_id FROM ojs_hub_conflict) AS rows";
    eventually("all others are gone", async || server.query(left) == "ordered ordered").await;
}

#[tokio::test]
async fn a_tracking_id_of_very_many_jobs_elsewhere_is_reported_without_a_copy_here() {
    let Some((stage, server)) = migrated().await else { return };
    server.query(&crowd("far", 600).replace("us-east-1", "ap-south-1"));
    // The index has no fact about a copy in this region any more.
    server.query(
        "INSERT INTO ojs_hub_repeated_id SELECT 'crowd', ms, ms, ms, false
         FROM (SELECT (extract(epoch FROM now()) * 1000)::bigint AS ms) AS clock",
    );
    let hub = stage.again(0).await;
    counts_one(&hub, "reported").await;
    // The line is counted before it is written.
    eventually("the conflict is in the log", async || hub.log_has(&["hub_conflict", "ap-south-1", "group"])).await;
    let is_settled = "SELECT is_crowd AND due_ms IS NULL FROM ojs_hub_repeated_id";
    eventually("the record has it as reported", async || server.query(is_settled) == "t").await;
}
