//! The hub: switches for many sidecars, their inventory, the audit trail, and its loss.

mod active_quotas;
mod asked;
mod audit_bundle;
mod bodies;
mod breakers;
mod conflicts;
mod drill;
mod events;
mod figures;
mod heard;
mod history;
mod index;
mod index_history;
mod isolations;
mod keys;
mod keys_history;
mod keys_loss;
mod later;
mod ledger;
mod ledger_bundle;
mod ledger_history;
mod ledger_killed;
mod ledger_kills;
mod limits;
mod list_replicas;
mod look_ups;
mod messages;
mod outcomes;
mod pools;
pub mod postgres;
mod promotion;
mod put_pools;
mod quotas;
mod regions;
mod repeated;
mod replay;
mod roles;
mod several;
mod spoke;
mod sso;
pub mod stage;
mod throttle;
mod tokens;
mod views;

use http::Method;
use serde_json::Value;

use crate::support::{Process, Setup, command, eventually, job, pinned};
use stage::{HubStage, status};

const INFO: [&str; 2] = ["--set", "log.level=info"];

async fn goes_to(sidecar: &Process) -> String {
    sidecar.client.enqueue(job("a")).await.region().to_owned()
}

#[tokio::test]
async fn a_switch_reaches_every_sidecar_and_outlives_the_hub_and_a_kill_of_both() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let (one, two) = (stage.federation("one", &journal).await, stage.federation("two", "").await);
    let first = Process::run(&one.config, &INFO).await;
    let second = Process::run(&two.config, &INFO).await;
    stage.follows("one").await;
    stage.follows("two").await;
    assert_eq!(goes_to(&first).await, "us-east-1");
    let done = stage.order("ann", &["drain", "us-east-1", "--for", "1h"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("drain us-east-1 until "), "{}", done.all());
    assert!(!done.stdout.contains("not on disk"), "{}", done.all());
    for sidecar in [&first, &second] {
        eventually("flexible jobs leave the region", async || goes_to(sidecar).await != "us-east-1").await;
        sidecar.wait_for_line("ojs.federation.switch_set").await;
        let pinned = sidecar.client.enqueue(pinned("us-east-1", "b")).await;
        assert_eq!((pinned.status.as_u16(), pinned.region()), (201, "us-east-1"), "{pinned:?}");
    }
    let shown = first.admin.get("/switches").await.json();
    assert_eq!((&shown["switches"][0]["switch"], &shown["switches"][0]["from"]), (&"drain".into(), &"hub".into()));
    // The loss of the hub changes nothing, and a restarted sidecar has it from its own disk.
    hub.kill();
    first.wait_for_line("ojs.federation.hub_lost").await;
    assert_ne!(goes_to(&first).await, "us-east-1");
    let address = first.admin.address().to_string();
    let undrain = ["undrain", "us-east-1", "--reason", "r", "--ticket", "t", "--author", "a", "--address", &address];
    let local = command(&undrain, &[], "");
    assert!(local.code == Some(1) && local.stderr.contains("end it there, with --hub"), "{}", local.all());
    drop(first);
    let first = Process::run(&one.config, &INFO).await;
    assert_ne!(goes_to(&first).await, "us-east-1");
    let notes = first.admin.get("/readyz").await.json()["notes"].to_string();
    assert!(notes.contains("hub: not connected"), "{notes}");
    // The hub has it, too, from its record; ended there, it ends everywhere.
    let _hub = stage.run().await;
    stage.follows("one").await;
    stage.follows("two").await;
    let listed = stage.command("eve", &["switches"]).await;
    assert!(
        listed.stdout.contains("drain us-east-1 until ") && listed.stdout.contains("storm ahead"),
        "{}",
        listed.all()
    );
    assert_eq!(stage.order("ann", &["undrain", "us-east-1"]).await.code, Some(0));
    for sidecar in [&first, &second] {
        eventually("jobs go there again", async || goes_to(sidecar).await == "us-east-1").await;
    }
    eventually("the inventory says so", async || {
        let all = stage.fleet().await;
        all.len() == 2 && all.iter().all(|it| it["current"] == true && it["local_region"] == "us-east-1")
    })
    .await;
}

#[tokio::test]
async fn a_switch_ends_in_its_time_at_a_sidecar_whose_hub_was_killed() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    assert_eq!(stage.order("ann", &["drain", "us-east-1", "--for", "2s"]).await.code, Some(0));
    sidecar.wait_for_line("ojs.federation.switch_set").await;
    hub.kill();
    sidecar.wait_for_line("ojs.federation.switch_ended").await;
    eventually("jobs go there again", async || goes_to(&sidecar).await == "us-east-1").await;
    let _hub = stage.run().await;
    let listed = stage.command("ann", &["switches"]).await;
    assert!(listed.code == Some(0), "{}", listed.all());
    eventually("the hub ends it, too", async || {
        stage.command("ann", &["switches"]).await.stdout.contains("no switch is in force")
    })
    .await;
}

#[tokio::test]
async fn orders_reach_sidecars_also_after_the_record_of_the_hub_was_restored_from_a_copy() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    hub.kill();
    let copy = ["hub.db", "hub.db-wal"].map(|name| (name, std::fs::read(stage.path(name)).ok()));
    let mut hub = stage.run().await;
    for _ in 0..3 {
        assert_eq!(stage.order("ann", &["maintenance", "on", "--for", "1h"]).await.code, Some(0));
    }
    sidecar.wait_for_line("ojs.federation.switch_set").await;
    hub.kill();
    for (name, content) in copy {
        match content {
            Some(content) => std::fs::write(stage.path(name), content).unwrap(),
            None => drop(std::fs::remove_file(stage.path(name))),
        }
    }
    let _hub = stage.run().await;
    assert_eq!(stage.order("ann", &["drain", "us-east-1", "--force", "--for", "1h"]).await.code, Some(0));
    eventually("flexible jobs leave the region", async || goes_to(&sidecar).await != "us-east-1").await;
    let shown = sidecar.admin.get("/switches").await.json();
    assert_eq!(shown["switches"].as_array().unwrap().len(), 1, "the maintenance of the lost record has ended: {shown}");
}

#[tokio::test]
async fn a_sidecar_whose_status_is_refused_follows_the_switches_and_says_so() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    stage.client("other", "spiffe://test/pod-other");
    let (one, twin) = (stage.federation("one", "").await, Setup::default().yaml(&stage.section_with("one", "other")));
    let _first = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    let twin = twin.stage().await;
    let second = Process::run(&twin.config, &INFO).await;
    second.wait_for_line("ojs.federation.hub_status_refused").await;
    assert_eq!(stage.order("ann", &["drain", "us-east-1", "--for", "1h"]).await.code, Some(0));
    eventually("flexible jobs leave the region", async || goes_to(&second).await != "us-east-1").await;
    let notes = second.admin.get("/readyz").await.json()["notes"].to_string();
    assert!(notes.contains("it refuses the status") && notes.contains("`name`"), "{notes}");
}

#[tokio::test]
async fn a_sidecar_that_follows_no_hub_any_more_ends_what_the_hub_has_set() {
    let stage = HubStage::new("");
    let hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    // SIGHUP, as after a change of certificates, does not end the hub.
    hub.hang_up();
    assert_eq!(stage.order("ann", &["drain", "us-east-1", "--for", "1h"]).await.code, Some(0));
    eventually("flexible jobs leave the region", async || goes_to(&sidecar).await != "us-east-1").await;
    let text = std::fs::read_to_string(&one.config).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("hub:")).collect();
    std::fs::write(&one.config, without.join("\n")).unwrap();
    sidecar.signal("HUP");
    sidecar.wait_for_line("configuration_reloaded").await;
    eventually("jobs go there again", async || goes_to(&sidecar).await == "us-east-1").await;
    let metrics = sidecar.admin.get("/metrics").await;
    let line = String::from_utf8_lossy(&metrics.body)
        .lines()
        .find(|it| it.starts_with("ojs_federation_hub_connected"))
        .unwrap()
        .to_owned();
    assert!(line.ends_with(" 0"), "{line}");
}

#[tokio::test]
async fn an_order_without_its_reasons_is_refused_and_the_last_region_of_any_sidecar_needs_force() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let rule = "routing: { rules: [{ match: { job_type: eu.* }, target: { regions: [eu-west-1] } }] }";
    let one = stage.federation("one", rule).await;
    let _sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    for (query, field) in [
        ("switch=drain&region=us-east-1&for=1h&ticket=t&author=a", "`reason`"),
        ("switch=drain&region=us-east-1&for=1h&reason=r&author=a", "`ticket`"),
        ("switch=drain&region=us-east-1&for=1h&reason=r&ticket=t", "`author`"),
        ("switch=drain&region=us-east-1&reason=r&ticket=t&author=a", "`for`"),
    ] {
        let (status, document) = status(&stage, "ann", &Method::PUT, &format!("/v1/hub/switches?{query}")).await;
        let message = document["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(field), "{query}: {document}");
    }
    let unknown = stage.order("ann", &["drain", "mars", "--for", "1h"]).await;
    assert!(unknown.code == Some(1) && unknown.stderr.contains("404: `region`: no sidecar"), "{}", unknown.all());
    let last = stage.order("ann", &["drain", "eu-west-1", "--for", "1h"]).await;
    let words = "409: `region`: with it no region of `routing.rules[0].target` of the sidecar one";
    assert!(last.code == Some(1) && last.stderr.contains(words), "{}", last.all());
    assert_eq!(stage.order("ann", &["drain", "eu-west-1", "--for", "1h", "--force"]).await.code, Some(0));
}

#[tokio::test]
async fn the_last_region_is_also_that_which_switches_of_a_sidecar_have_left() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    let address = sidecar.admin.address().to_string();
    for region in ["us-east-1", "eu-west-1"] {
        let why = ["--for", "1h", "--reason", "r", "--ticket", "t", "--author", "a", "--address", &address];
        let done = command(&[&["drain", region], &why[..]].concat(), &[], "");
        assert_eq!(done.code, Some(0), "{}", done.all());
    }
    // The status that confirms this order has the switches of the sidecar.
    assert_eq!(stage.order("ann", &["maintenance", "on", "--for", "1h"]).await.code, Some(0));
    eventually("the sidecar has said so", async || stage.fleet().await[0]["current"] == true).await;
    let last = stage.order("ann", &["drain", "ap-south-1", "--for", "1h"]).await;
    assert!(last.code == Some(1) && last.stderr.contains("409: `region`"), "{}", last.all());
    assert_eq!(stage.order("ann", &["drain", "ap-south-1", "--for", "1h", "--force"]).await.code, Some(0));
}

#[tokio::test]
async fn the_audit_trail_names_who_did_what_and_a_flipped_byte_by_its_row() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    assert_eq!(stage.order("ann", &["maintenance", "on", "--for", "1h"]).await.code, Some(0));
    assert_eq!(stage.order("ann", &["maintenance", "off"]).await.code, Some(0));
    hub.kill();
    let _hub = stage.run().await;
    assert_eq!(stage.order("ann", &["drain", "eu-west-1", "--force", "--for", "1h"]).await.code, Some(0));
    let exported = stage.command("ann", &["audit", "export"]).await;
    assert!(exported.code == Some(0) && exported.stderr.contains("row 3 is the last one"), "{}", exported.all());
    let rows: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = |row: &Value| ["action", "subject", "caller"].map(|key| row[key].as_str().unwrap().to_owned());
    assert_eq!(shown(&rows[0]), ["switch_set", "maintenance", "spiffe://test/ops/ann"]);
    assert_eq!(shown(&rows[1])[0], "switch_ended");
    assert_eq!(shown(&rows[2])[1], "drain eu-west-1");
    assert_eq!((&rows[2]["lasts_ms"], &rows[2]["force"]), (&3_600_000.into(), &true.into()));
    let path = stage.path("trail.jsonl");
    let verify = |text: &str, option: &[&str]| {
        std::fs::write(&path, text).unwrap();
        command(&[&["audit", "verify", path.to_str().unwrap()], option].concat(), &[], "")
    };
    let (first_hash, after_first) = (rows[0]["hash"].as_str().unwrap(), exported.stdout.split_once('\n').unwrap().1);
    for (text, option, words) in [
        (exported.stdout.as_str(), &[][..], "3 rows are as they were written, row 1 to row 3"),
        (&exported.stdout, &["--end", first_hash], "the hash of --end is that of row 1"),
        (after_first, &["--start", first_hash], "2 rows are as they were written, row 2 to row 3"),
    ] {
        let right = verify(text, option);
        assert!(right.code == Some(0) && right.stdout.contains(words), "{}", right.all());
    }
    let flipped = exported.stdout.replacen("switch_ended", "switch_endee", 1);
    for (text, option, words) in [
        (flipped.as_str(), &[][..], "row 2 was changed"),
        (after_first, &[], "the trail begins at row 2"),
        (after_first, &["--end", first_hash], "the trail begins at row 2"),
        (after_first, &["--start", first_hash, "--end", first_hash], "no row of 2 to 3 has the hash of --end"),
        ("", &[], "the trail has no rows"),
    ] {
        let wrong = verify(text, option);
        assert!(wrong.code == Some(1) && wrong.stderr.contains(words), "{}", wrong.all());
    }
    let refused = stage.command("eve", &["audit", "export"]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("403"), "{}", refused.all());
}

#[tokio::test]
async fn a_hub_that_cannot_start_says_why() {
    let stage = HubStage::new("");
    let path = stage.path("wrong.yaml");
    let run = |text: &str| {
        std::fs::write(&path, text).unwrap();
        command(&["hub", "--config", path.to_str().unwrap()], &[], "")
    };
    let dir = stage.path("");
    let dir = dir.display();
    let access = "access: [{ san: a, role: sidecar }]";
    let tls = format!("tls: {{ cert: {dir}hub.cert.pem, key: {dir}hub.key.pem, client_ca: {dir}hub.ca.pem }}");
    let no_key = format!("tls: {{ cert: {dir}hub.cert.pem, key: {dir}hub.ca.pem, client_ca: {dir}hub.ca.pem }}");
    for (text, code, words) in [
        (format!("listen: 127.0.0.1:0\n{tls}\n"), 78, "access"),
        (format!("listen: 127.0.0.1:0\n{no_key}\n{access}\n"), 78, "tls.key: expected a PEM private key"),
        (format!("listen: 127.0.0.1:0\n{tls}\n{access}\nrecord: {{ path: /nowhere/hub.db }}\n"), 1, "record.path"),
        (format!("listen: 192.0.2.1:1\n{tls}\n{access}\n"), 1, "listen: 192.0.2.1:1 cannot be bound"),
    ] {
        let ended = run(&text);
        assert!(ended.code == Some(code) && ended.stderr.contains(words), "{text}: {}", ended.all());
        let checked = command(&["hub", "--check", "--config", path.to_str().unwrap()], &[], "");
        assert_eq!(checked.code, Some(if code == 78 { 78 } else { 0 }), "{text}: {}", checked.all());
    }
}

#[tokio::test]
async fn a_pause_at_the_hub_reaches_every_sidecar_outlives_the_hub_and_is_one_row_of_the_trail() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let (one, two) = (stage.federation("one", &journal).await, stage.federation("two", "").await);
    let first = Process::run(&one.config, &INFO).await;
    let second = Process::run(&two.config, &INFO).await;
    stage.follows("one").await;
    stage.follows("two").await;
    let job = r#"{"type":"mail","args":[],"options":{"queue":"email"}}"#;
    let mail = async |sidecar: &Process| sidecar.client.enqueue(job).await;
    assert_eq!(mail(&first).await.status, 201);
    for what in [["queue", "email"], ["type", "mail"]] {
        let done = stage.order("ann", &[&["pause"], &what[..], &["--for", "1h"]].concat()).await;
        assert!(done.code == Some(0) && done.stdout.contains(&format!("pause {} ", what.join(" "))), "{}", done.all());
    }
    for sidecar in [&first, &second] {
        eventually("new jobs are refused", async || mail(sidecar).await.status == 503).await;
        mail(sidecar).await.check_error(503, "backend_error", "source_paused");
    }
    let fetched = async |sidecar: &Process| {
        let body = r#"{"queues":["email"],"worker_id":"w"}"#;
        sidecar.client.post("/ojs/v1/workers/fetch", body).await.json()["jobs"].as_array().unwrap().len()
    };
    let seen = || one.regions.iter().map(|it| it.record().requests_to("/ojs/v1/workers/fetch").len()).sum::<usize>();
    assert_eq!((fetched(&first).await, seen()), (0, 0), "no region was asked");
    // Without the hub and after a kill, the sidecar has both from its own disk.
    hub.kill();
    drop(first);
    let first = Process::run(&one.config, &INFO).await;
    mail(&first).await.check_error(503, "backend_error", "source_paused");
    assert_eq!((fetched(&first).await, seen()), (0, 0));
    let address = first.admin.address().to_string();
    let why = ["--reason", "r", "--ticket", "t", "--author", "a", "--address", &address];
    let local = command(&[&["resume", "queue", "email"], &why[..]].concat(), &[], "");
    assert!(local.code == Some(1) && local.stderr.contains("end it there, with --hub"), "{}", local.all());
    // The hub has them, too, from its record.
    let _hub = stage.run().await;
    stage.follows("one").await;
    assert_eq!(stage.order("ann", &["resume", "type", "mail"]).await.code, Some(0));
    assert_eq!(stage.order("ann", &["resume", "queue", "email"]).await.code, Some(0));
    eventually("new jobs are accepted again", async || mail(&first).await.status == 201).await;
    eventually("workers get jobs again", async || fetched(&first).await == 1).await;
    let trail = stage.command("ann", &["audit", "export"]).await.stdout;
    assert_eq!(trail.matches(r#""subject":"pause queue email""#).count(), 2, "set and ended: {trail}");
}
