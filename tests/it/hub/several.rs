//! Several hubs on one PostgreSQL database.

use super::postgres::Postgres;
use super::stage::HubStage;
use crate::support::{Process, eventually};

use super::{INFO, goes_to};

/// Two hubs on a new database; none where PostgreSQL is not installed.
async fn two_hubs() -> Option<(HubStage, Postgres)> {
    let stage = HubStage::new("");
    let server = Postgres::start(&stage.authority).await?;
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    Some((stage.on_record(record), server))
}

#[tokio::test]
async fn orders_at_either_of_two_hubs_reach_all_sidecars_and_make_one_trail() {
    let Some((stage, _server)) = two_hubs().await else { return };
    let (mut first, _second) = (stage.again(0).await, stage.again(1).await);
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    let knows = async |replica| stage.command_at(replica, "ann", &["fleet"]).await.stdout.contains("one");
    eventually("the other hub knows the sidecar", async || knows(0).await && knows(1).await).await;
    let (drain, undrain) = (["drain", "us-east-1", "--for", "1h"], ["undrain", "us-east-1"]);
    for (replica, order, region) in [(0, &drain[..], false), (1, &undrain[..], true), (1, &drain[..], false)] {
        let done = stage.order_at(replica, "ann", order).await;
        assert_eq!(done.code, Some(0), "{}", done.all());
        eventually("the order is in force", async || (goes_to(&sidecar).await == "us-east-1") == region).await;
    }
    for replica in [0, 1] {
        eventually("both hubs know the sidecar and its state", async || {
            let shown = stage.command_at(replica, "ann", &["fleet"]).await;
            shown.stdout.contains("one") && shown.stdout.matches("yes").count() == 2
        })
        .await;
    }
    // The sidecar goes to the hub that is left, and orders there are in force.
    first.kill();
    let done = stage.order_at(1, "ann", &undrain).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    eventually("the order is in force", async || goes_to(&sidecar).await == "us-east-1").await;
    let trail = stage.command_at(1, "ann", &["audit", "export"]).await;
    let path = stage.path("trail");
    std::fs::write(&path, &trail.stdout).unwrap();
    let verified = crate::support::command(&["audit", "verify", path.to_str().unwrap()], &[], "");
    assert!(verified.code == Some(0) && verified.all().contains("4 rows"), "{}", verified.all());
}

#[tokio::test]
async fn a_standby_takes_over_with_every_order_that_was_answered() {
    let stage = HubStage::new("");
    let Some(mut primary) = Postgres::start(&stage.authority).await else { return };
    let standby = primary.standby().await;
    let record = Postgres::section(&[&primary, &standby], &stage.path(""), &stage.path("hub.ca.pem"));
    let stage = stage.on_record(record);
    let (first, _second) = (stage.again(0).await, stage.again(1).await);
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    let done = stage.order("ann", &["drain", "us-east-1", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    eventually("the order is in force", async || goes_to(&sidecar).await != "us-east-1").await;
    primary.kill();
    let refused = stage.order("ann", &["undrain", "us-east-1"]).await;
    assert!(refused.code == Some(1), "{}", refused.all());
    assert_ne!(goes_to(&sidecar).await, "us-east-1", "what is in force stays so");
    standby.promote();
    eventually("orders are kept again", async || {
        let done = stage.order_at(1, "ann", &["undrain", "us-east-1"]).await;
        // An order without an answer may have been kept.
        done.code == Some(0) || done.all().contains("404")
    })
    .await;
    eventually("the order is in force", async || goes_to(&sidecar).await == "us-east-1").await;
    eventually("the other hub is ready again", async || first.admin.get("/readyz").await.status == 200).await;
    assert_eq!(standby.query("SELECT count(*) FROM ojs_hub_audit"), "2", "one row for each order that was kept");
}

#[tokio::test]
async fn a_sidecar_that_comes_from_another_hub_with_a_later_state_keeps_it() {
    let Some((stage, server)) = two_hubs().await else { return };
    let (first, mut second) = (stage.again(0).await, stage.again(1).await);
    // The first hub cannot look at the record, as when it is slow.
    first.pause(true);
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    let knows = async || stage.command_at(1, "ann", &["fleet"]).await.stdout.contains("one");
    eventually("the second hub has the sidecar", knows).await;
    let done = stage.order_at(1, "ann", &["drain", "us-east-1", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    sidecar.wait_for_line("ojs.federation.switch_set").await;
    second.kill();
    first.pause(false);
    stage.follows("one").await;
    assert!(!sidecar.log().iter().any(|line| line.contains("switch_ended")), "{:?}", sidecar.log());
    assert_ne!(goes_to(&sidecar).await, "us-east-1");
    // A server with an older state is not believed.
    server.query("UPDATE ojs_hub_state SET change = 0, name = '', switches = '[]'");
    eventually("the hub is not ready", async || first.admin.get("/readyz").await.status == 503).await;
    assert_ne!(goes_to(&sidecar).await, "us-east-1");
}

#[tokio::test]
async fn hubs_that_start_at_once_make_the_tables_once() {
    let Some((stage, server)) = two_hubs().await else { return };
    stage.write_config(0);
    let path = stage.path("hub0.yaml");
    let migrate = || {
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            crate::support::command(&["hub", "--config", path.to_str().unwrap(), "--migrate"], &[], "")
        })
    };
    for run in std::iter::repeat_with(migrate).take(8).collect::<Vec<_>>() {
        let done = run.await.unwrap();
        assert_eq!(done.code, Some(0), "{}", done.all());
    }
    assert_eq!(server.query("SELECT version FROM ojs_hub_version"), "18");
}

#[tokio::test]
async fn a_database_of_a_later_version_or_with_another_password_is_refused_and_named() {
    let Some((stage, server)) = two_hubs().await else { return };
    drop(stage.run().await);
    server.query("UPDATE ojs_hub_version SET version = 99");
    let path = stage.path("hub0.yaml");
    let run = async |arguments: &[&str]| {
        let all: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let run = move || crate::support::command(&all.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    let path = path.to_str().unwrap();
    let later = run(&["hub", "--config", path]).await;
    assert!(later.code == Some(78) && later.stderr.contains("a later version"), "{}", later.all());
    server.query("UPDATE ojs_hub_version SET version = 18");
    let migrated = run(&["hub", "--config", path, "--migrate"]).await;
    assert!(migrated.code == Some(0) && migrated.stdout.contains("of this version"), "{}", migrated.all());
    std::fs::write(stage.path("password"), "wrong").unwrap();
    let refused = run(&["hub", "--config", path]).await;
    assert!(refused.code == Some(78) && refused.stderr.contains("password authentication failed"), "{}", refused.all());
    std::fs::remove_file(stage.path("password")).unwrap();
    let missing = run(&["hub", "--config", path, "--check"]).await;
    assert!(missing.code == Some(78) && missing.stderr.contains("record.postgres: password_file"), "{}", missing.all());
}

#[tokio::test]
async fn a_sidecar_that_another_hub_commits_late_is_known_all_the_same() {
    let Some((stage, server)) = two_hubs().await else { return };
    let _hubs = [stage.again(0).await, stage.again(1).await];
    let one = stage.federation("one", "").await;
    let _sidecar = Process::run(&one.config, &INFO).await;
    let count = "SELECT count(*) FROM ojs_hub_sidecar";
    eventually("the status is kept", async || server.query(count) == "1").await;
    let copy = |name: &str| {
        format!(
            "INSERT INTO ojs_hub_sidecar (name, caller, status, seen_unix_ms, hub)
             SELECT {name}, caller, replace(status, '\"one\"', '\"' || {name} || '\"'), seen_unix_ms, 'other'
             FROM ojs_hub_sidecar WHERE name = 'one'"
        )
    };
    let mut late = server.session();
    late.run(&format!("BEGIN; {}", copy("'late'")));
    let under_way =
        "SELECT count(*) FROM pg_locks WHERE relation = 'ojs_hub_sidecar'::regclass AND mode = 'RowExclusiveLock'";
    eventually("the late one is written", async || server.query(under_way) != "0").await;
    let many = copy("'early-' || number")
        .replace("FROM ojs_hub_sidecar", "FROM generate_series(1, 50) AS number, ojs_hub_sidecar");
    server.query(&many);
    let knows = async |name: &str| stage.fleet().await.iter().any(|it| it["name"] == name);
    eventually("the hub has read further", async || knows("early-50").await).await;
    assert!(!knows("late").await);
    late.run("COMMIT");
    eventually("the hub reads it, too", async || knows("late").await).await;
}

#[tokio::test]
async fn a_hub_waits_for_another_one_that_takes_long_to_make_the_tables() {
    let Some((stage, server)) = two_hubs().await else { return };
    let mut other = server.session();
    other.run("BEGIN; SELECT pg_advisory_xact_lock(1330271048)");
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    eventually("the other hub makes tables", async || server.query(held) == "1").await;
    let path = stage.write_config(0);
    let migrated = tokio::task::spawn_blocking(move || {
        crate::support::command(&["hub", "--config", path.to_str().unwrap(), "--migrate"], &[], "")
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND now() - query_start > '4.5 s'";
    eventually("the hub waits for longer than for other locks", async || server.query(waits) == "1").await;
    other.run("COMMIT");
    let migrated = migrated.await.unwrap();
    assert_eq!(migrated.code, Some(0), "{}", migrated.all());
}
