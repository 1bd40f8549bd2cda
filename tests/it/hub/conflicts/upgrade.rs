//! A database of an earlier version with many facts: hubs open it while earlier ones write, and its index is built behind that.

use super::super::postgres::Postgres;
use super::super::stage::{Hub, HubStage};
use super::figure;
use crate::support::{command, eventually};

pub(super) const REPEATED: &str = "ojs_hub_tracking_ids_repeated_total";
const IS_VALID: &str =
    "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('ojs_hub_change_search') AND indisvalid";

/// A database with the tables of this version, and two hubs that are to share it; none where PostgreSQL is not installed.
pub(super) async fn migrated() -> Option<(HubStage, Postgres)> {
    let mut stage = HubStage::new("");
    let server = Postgres::start(&stage.authority).await?;
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    stage.set_more("index: { region: us-east-1, conflicts_after: 5s }");
    let stage = stage.on_record(record);
    migrate(&stage);
    assert_eq!(server.query(IS_VALID), "1");
    Some((stage, server))
}

fn migrate(stage: &HubStage) {
    let done = command(&["hub", "--config", stage.write_config(0).to_str().unwrap(), "--migrate"], &[], "");
    assert_eq!(done.code, Some(0), "{}", done.all());
}

/// Takes the tables back to version 8.
fn take_back(server: &Postgres) {
    server.query(
        "DROP TABLE ojs_hub_repeated_id, ojs_hub_conflict, ojs_hub_conflict_place, ojs_hub_conflict_turn, ojs_hub_drill, ojs_hub_drill_count;
         DROP INDEX ojs_hub_change_search;
         CREATE INDEX ojs_hub_change_federation ON ojs_hub_change (federation_id) WHERE federation_id IS NOT NULL;
         ALTER TABLE ojs_hub_state DROP COLUMN regions; ALTER TABLE ojs_hub_state DROP COLUMN pools; ALTER TABLE ojs_hub_state DROP COLUMN quotas;
         DROP TABLE ojs_hub_events_turn, ojs_hub_replay, ojs_hub_replay_job, ojs_hub_incident, ojs_hub_type_end, ojs_hub_ledger_day, ojs_hub_ledger_turn, ojs_hub_job_history, ojs_hub_ledger_job, ojs_hub_uwer_task, ojs_hub_uwer_letter; ALTER TABLE ojs_hub_change DROP COLUMN observed_by;
         UPDATE ojs_hub_version SET version = 8",
    );
}

/// A job for each number up to this in each of two regions, each pair with a tracking id of its own.
pub(super) fn facts(name: &str, count: u32) -> String {
    format!(
        "INSERT INTO ojs_hub_change (job_id, region, kind, lease_ms, at_ms, federation_id, origin, learned_ms)
         SELECT '{name}' || number || region, region, 'created', 0, ms, '{name}' || number, region, ms
         FROM generate_series(1, {count}) AS number, (VALUES ('us-east-1'), ('eu-west-1')) AS regions (region),
           (SELECT (extract(epoch FROM now()) * 1000)::bigint AS ms) AS clock"
    )
}

async fn searches(hub: &Hub) {
    eventually("conflicts are looked for", async || hub.log_has(&["hub_search_begins"])).await;
}

#[tokio::test]
async fn a_database_with_many_facts_is_opened_and_gets_its_index_while_earlier_hubs_write() {
    let Some((stage, server)) = migrated().await else { return };
    take_back(&server);
    server.query(&facts("before", 150_000));
    let mut earlier = server.session();
    // The transaction of an earlier hub that begins before the change of the tables, and writes behind it.
    earlier.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()");
    let under_way =
        "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND state = 'idle in transaction'";
    eventually("an earlier hub is about to write", async || server.query(under_way) != "0").await;
    let hub = stage.again(0).await;
    earlier.run(&facts("open", 1));
    assert_eq!(server.query("SELECT version FROM ojs_hub_version"), "18");
    eventually("the index is being built", async || {
        server.query("SELECT count(*) FROM pg_stat_progress_create_index") == "1"
    })
    .await;
    assert!(hub.log_has(&["hub_search_waits"]));
    server.query(&facts("during", 1));
    assert_eq!((server.query(IS_VALID).as_str(), figure(&hub, REPEATED).await.as_deref()), ("0", Some("0")));
    earlier.run("COMMIT");
    searches(&hub).await;
    assert_eq!(server.query(IS_VALID), "1");
    assert_eq!(server.query("SELECT to_regclass('ojs_hub_change_federation') IS NULL"), "t");
    server.query(&facts("after", 1));
    eventually("what came since is found", async || figure(&hub, REPEATED).await.as_deref() == Some("3")).await;
    let found = "SELECT string_agg(federation_id, ' ' ORDER BY federation_id) FROM ojs_hub_repeated_id";
    assert_eq!(server.query(found), "after1 during1 open1");
}

#[tokio::test]
async fn a_backup_that_reads_the_tables_holds_up_the_new_version_and_no_hub_of_the_earlier_one() {
    let Some((stage, server)) = migrated().await else { return };
    take_back(&server);
    let mut backup = server.session();
    backup.run("BEGIN; SELECT * FROM ojs_hub_state");
    let of_state = |mode: &str, granted: bool| {
        format!(
            "SELECT count(*) FROM pg_locks WHERE relation = 'ojs_hub_state'::regclass AND mode = '{mode}' AND granted = {granted}"
        )
    };
    eventually("the backup reads", async || server.query(&of_state("AccessShareLock", true)) == "1").await;
    let waits = async || {
        eventually("the tables are to be changed", async || {
            server.query(&of_state("AccessExclusiveLock", false)) == "1"
        })
        .await;
    };
    let meanwhile = async {
        for _ in 0..2 {
            waits().await;
            // As long as an earlier hub waits for a lock.
            let read = "SET lock_timeout = '4s'; SELECT count(*) FROM ojs_hub_state";
            assert!(server.query(read).ends_with('1'));
        }
        assert_eq!(server.query("SELECT version FROM ojs_hub_version"), "8");
        backup.run("COMMIT");
    };
    let (_hub, ()) = tokio::join!(stage.again(0), meanwhile);
    assert_eq!(server.query("SELECT version FROM ojs_hub_version"), "18");
}

#[tokio::test]
async fn an_index_whose_build_has_failed_is_built_again_by_one_of_two_hubs() {
    let Some((stage, server)) = migrated().await else { return };
    server.query(&facts("before", 1_000));
    server.query("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ojs_hub_change_search'::regclass");
    let oid = "SELECT to_regclass('ojs_hub_change_search')::oid";
    let failed = server.query(oid);
    let (one, two) = tokio::join!(stage.again(0), stage.again(1));
    eventually("one of them has built it", async || server.query(IS_VALID) == "1").await;
    assert_ne!(server.query(oid), failed);
    server.query(&facts("after", 1));
    eventually("what came since is found by one of them", async || {
        server.query("SELECT string_agg(federation_id, ' ') FROM ojs_hub_repeated_id WHERE federation_id LIKE 'after%'")
            == "after1"
    })
    .await;
    for hub in [&one, &two] {
        assert!(!hub.log_has(&["hub_record_failed"]));
    }
}

#[tokio::test]
async fn a_role_that_may_not_build_the_index_says_so_and_the_migration_of_another_one_builds_it() {
    let Some((mut stage, server)) = migrated().await else { return };
    take_back(&server);
    migrate(&stage);
    server.query("DROP INDEX ojs_hub_change_search");
    server.query(
        "CREATE ROLE other LOGIN PASSWORD 'of-a-test';
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO other;
         GRANT USAGE ON SEQUENCE ojs_hub_mark TO other",
    );
    let owned = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    stage.set_record_of(0, owned.replace("user: hub", "user: other"));
    let hub = stage.again(0).await;
    eventually("the role is refused", async || hub.log_has(&["hub_record_failed", "--migrate", "owner"])).await;
    assert_eq!(server.query(IS_VALID), "0");
    stage.set_record_of(0, owned);
    migrate(&stage);
    assert_eq!(server.query(IS_VALID), "1");
}
