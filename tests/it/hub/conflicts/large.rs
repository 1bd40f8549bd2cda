//! Conflicts in a large database.

use super::super::postgres::Postgres;
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
