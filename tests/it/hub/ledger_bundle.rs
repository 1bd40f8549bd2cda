//! Bundles with days of the ledger: a check without the hub, by the program and by an implementation of its own, and each kind of tampering by its name.

use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER};
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::ledger::{get, recorded, reporting};
use super::stage::{Hub, HubStage};
use crate::support::{Ended, Process, Stage, command, pinned};

const FILES: [&str; 6] =
    ["audit.jsonl", "history.jsonl", "history.sha256", "jobs.jsonl", "replays.jsonl", "throttles.jsonl"];

/// A hub with a ledger and its sidecar.
struct World {
    stage: HubStage,
    _hub: Hub,
    _federation: Stage,
    sidecar: Process,
    key: PathBuf,
    day: String,
}

impl World {
    /// Two jobs of each of two tenants, one that is bound to another region, and two orders.
    async fn start() -> Self {
        let mut stage = HubStage::new("");
        let (private, key) = (stage.path("audit.key"), stage.path("audit.pub"));
        let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        fs::write(&private, pair.serialize_pem()).unwrap();
        fs::write(&key, pair.public_key_pem()).unwrap();
        let ledger = "index: { region: us-east-1 }\nledger: { retention: 30d }";
        stage.set_more(&format!("{ledger}\naudit: {{ key: {private:?}, log: hub.test }}"));
        let hub = stage.run().await;
        let (federation, sidecar) = reporting(&stage, "one", "").await;
        for tenant in ["acme", "acme", "other", "other"] {
            let job = json!({ "type": "t", "args": ["secret"], "meta": { "tenant_id": tenant } });
            let id = sidecar.client.enqueue(job.to_string()).await.job_id();
            recorded(&stage, &id, "enqueued").await;
        }
        let bound = sidecar.client.enqueue(pinned("eu-west-1", "x")).await.job_id();
        recorded(&stage, &bound, "enqueued").await;
        let paused = stage.order("ann", &["pause", "type", "t", "--for", "1h"]).await;
        assert_eq!(paused.code, Some(0), "{}", paused.all());
        let day = get(&stage, "/api/ledger/days").await.1["days"][0]["day"].as_str().unwrap().to_owned();
        Self { stage, _hub: hub, _federation: federation, sidecar, key, day }
    }

    async fn export(&self, name: &str, more: &[&str]) -> PathBuf {
        let folder = self.stage.path(name);
        // The day may end meanwhile.
        let words =
            ["audit", "export", "--bundle", folder.to_str().unwrap(), "--from", &self.day, "--to", "2999-01-01"];
        let exported = self.stage.command("ann", &[&words, more].concat()).await;
        assert_eq!(exported.code, Some(0), "{}", exported.all());
        assert!(exported.stdout.contains(" jobs, and the signed heads"), "{}", exported.stdout);
        folder
    }

    fn verify(&self, folder: &Path) -> Ended {
        command(&["audit", "verify", folder.to_str().unwrap(), "--key", self.key.to_str().unwrap()], &[], "")
    }
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(folder.join(file)).unwrap().lines().map(str::to_owned).collect()
}

/// A copy of a bundle with a changed file, whose manifest fits.
fn tampered(from: &Path, to: &Path, change: &dyn Fn(&Path)) {
    fs::create_dir_all(to.join("signatures")).unwrap();
    for entry in fs::read_dir(from.join("signatures")).unwrap() {
        let name = entry.unwrap().file_name();
        fs::copy(from.join("signatures").join(&name), to.join("signatures").join(&name)).unwrap();
    }
    for file in FILES.iter().chain(&["manifest.json"]) {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    change(to);
    let path = to.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for file in manifest["files"].as_array_mut().unwrap() {
        let bytes = fs::read(to.join(file["name"].as_str().unwrap())).unwrap_or_default();
        file["bytes"] = bytes.len().into();
        file["sha256"] = HEXLOWER.encode(digest(&SHA256, &bytes).as_ref()).into();
    }
    fs::write(path, manifest.to_string()).unwrap();
}

fn rewrite(folder: &Path, file: &str, change: impl FnOnce(&mut Vec<String>)) {
    let mut all = lines(folder, file);
    change(&mut all);
    fs::write(folder.join(file), all.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

fn leaf(record: &[u8]) -> Vec<u8> {
    digest(&SHA256, &[&[0], record].concat()).as_ref().to_vec()
}

/// The root of RFC 9162 §2.1.1, by its definition.
fn root(leaves: &[Vec<u8>]) -> Vec<u8> {
    match leaves {
        [one] => one.clone(),
        _ => {
            let half = leaves.len().next_power_of_two() / 2;
            let (left, right) = (root(&leaves[..half]), root(&leaves[half..]));
            digest(&SHA256, &[&[1][..], &left, &right].concat()).as_ref().to_vec()
        }
    }
}

#[tokio::test]
async fn a_bundle_is_checked_without_the_hub_and_by_another_implementation() {
    let world = World::start().await;
    let folder = world.export("whole", &[]).await;
    let verified = world.verify(&folder);
    assert_eq!(verified.code, Some(0), "{}", verified.all());
    // The record of the job that is bound to another region stays at the hub.
    let said = "5 records of 1 days are as they were signed, 1 of them withheld; 4 jobs";
    assert!(verified.stdout.contains(said), "{}", verified.stdout);
    let all = fs::read_to_string(folder.join("history.jsonl")).unwrap();
    assert!(
        all.contains("\"withheld\":\"residency\"") && !all.contains("secret") && !all.contains("eu-west-1"),
        "{all}"
    );
    let throttles = lines(&folder, "throttles.jsonl");
    assert!(throttles.len() == 1 && throttles[0].contains("pause type t"), "{throttles:?}");
    let leaves: Vec<Vec<u8>> = lines(&folder, "history.jsonl")
        .iter()
        .map(|line| {
            let parsed: Value = serde_json::from_str(line).unwrap();
            let withheld = parsed["leaf"].as_str().map(|hex| HEXLOWER.decode(hex.as_bytes()).unwrap());
            withheld.unwrap_or_else(|| leaf(line.as_bytes()))
        })
        .collect();
    let head = fs::read(folder.join(format!("signatures/ledger-{}.dsse.json", world.day))).unwrap();
    let head: Value = serde_json::from_slice(&head).unwrap();
    let statement = BASE64.decode(head["payload"].as_str().unwrap().as_bytes()).unwrap();
    let statement: Value = serde_json::from_slice(&statement).unwrap();
    assert_eq!(statement["subject"][0]["digest"]["rfc9162-sha256"], HEXLOWER.encode(&root(&leaves)).as_str());
    assert_eq!(statement["subject"][0]["name"], format!("hub.test/jobs/{}", world.day).as_str());
    let of_one = world.export("of-one", &["--tenant", "acme"]).await;
    let verified = world.verify(&of_one);
    assert!(verified.code == Some(0) && verified.stdout.contains("3 of them withheld; 2 jobs"), "{}", verified.all());
    assert!(!fs::read_to_string(of_one.join("history.jsonl")).unwrap().contains("other"));
}

#[tokio::test]
async fn a_tenant_that_is_erased_leaves_digests_and_every_earlier_head_holds() {
    let world = World::start().await;
    let before = world.export("before", &[]).await;
    let grounds = ["--reason", "erasure", "--ticket", "GDPR-1", "--author", "ann"];
    let erased = world.stage.command("ann", &[&["ledger", "forget", "--tenant", "acme"][..], &grounds].concat()).await;
    assert_eq!(erased.code, Some(0), "{}", erased.all());
    assert!(erased.stdout.contains("2 jobs of acme, the content of 2 records"), "{}", erased.stdout);
    assert_eq!(get(&world.stage, "/api/jobs?tenant=acme").await.1["jobs"], json!([]));
    let after = world.export("after", &[]).await;
    let verified = world.verify(&after);
    assert!(verified.code == Some(0) && verified.stdout.contains("3 of them withheld; 2 jobs"), "{}", verified.all());
    assert!(!fs::read_to_string(after.join("history.jsonl")).unwrap().contains("acme"));
    assert_eq!(lines(&before, "history.sha256"), lines(&after, "history.sha256"));
    let (key, earlier) =
        (world.key.to_str().unwrap(), before.join(format!("signatures/ledger-{}.dsse.json", world.day)));
    let words = ["audit", "verify", after.to_str().unwrap(), "--key", key, "--head", earlier.to_str().unwrap()];
    let verified = command(&words, &[], "");
    assert!(verified.code == Some(0) && verified.stdout.contains("and 1 earlier heads agree"), "{}", verified.all());
    // A step that is reported later brings nothing of the tenant back.
    let fetch = json!({ "queues": ["default"], "worker_id": "late", "count": 4 }).to_string();
    let fetched = world.sidecar.client.post("/ojs/v1/workers/fetch", fetch).await.json();
    assert_eq!(fetched["jobs"].as_array().map(Vec::len), Some(4), "{fetched}");
    for job in fetched["jobs"].as_array().unwrap().iter().filter(|job| job["meta"]["tenant_id"] == "other") {
        recorded(&world.stage, job["id"].as_str().unwrap(), "leased").await;
    }
    assert_eq!(get(&world.stage, "/api/jobs").await.1["jobs"].as_array().map(Vec::len), Some(3));
    let trail = fs::read_to_string(after.join("audit.jsonl")).unwrap();
    assert!(trail.contains("ledger_forget") && trail.contains("GDPR-1"), "{trail}");
    // The history of the erased tenant is in no page of the file; the index has its own time.
    for line in lines(&before, "history.jsonl").iter().filter(|line| line.contains("acme")) {
        for file in ["hub.db", "hub.db-wal"] {
            let bytes = fs::read(world.stage.path(file)).unwrap_or_default();
            assert!(!bytes.windows(line.len()).any(|it| it == line.as_bytes()), "{file}: {line}");
        }
    }
    let refused =
        world.stage.command("eve", &[&["ledger", "forget", "--tenant", "other"][..], &grounds].concat()).await;
    assert!(refused.code == Some(1) && refused.all().contains("needs the scope operate"), "{}", refused.all());
    let listed = world.stage.command("ann", &["ledger", "jobs", "--tenant", "other"]).await;
    assert_eq!(listed.stdout.matches("leased").count(), 2, "{}", listed.all());
    drop(world.sidecar);
}

/// A name, a change of a bundle, and the words of the check about it, in which DAY is the day.
type Kind<'k> = (&'k str, &'k dyn Fn(&Path), &'k str);

/// A bundle of a world, and each of these changes of it.
fn check(world: &World, whole: &Path, kinds: &[Kind<'_>]) {
    for (name, change, expected) in kinds {
        let folder = world.stage.path(name);
        tampered(whole, &folder, change);
        let found = world.verify(&folder);
        let expected = expected.replace("DAY", &world.day);
        let is_named = found.code == Some(1) && found.all().contains(&expected);
        assert!(is_named, "{name}: {}\nexpected {expected}", found.all());
    }
}

#[tokio::test]
async fn each_kind_of_tampering_is_named() {
    let world = World::start().await;
    let whole = world.export("whole", &[]).await;
    let history = |change: fn(&mut Vec<String>)| move |folder: &Path| rewrite(folder, "history.jsonl", change);
    let forged = |folder: &Path| {
        rewrite(folder, "history.jsonl", |all| all[1] = all[1].replace("\"acme\"", "\"evil\""));
        let lines = lines(folder, "history.jsonl");
        rewrite(folder, "history.sha256", |all| all[1] = HEXLOWER.encode(&leaf(lines[1].as_bytes())));
    };
    let flipped = history(|all| all[1] = all[1].replace("\"acme\"", "\"evil\""));
    let spaced = history(|all| all[1] = all[1].replace("\",\"", "\", \""));
    let digest = |folder: &Path| rewrite(folder, "history.sha256", |all| all[2] = all[1].clone());
    let kinds: [Kind<'_>; 9] = [
        ("flipped", &flipped, "record 1 of DAY was changed: it does not have its digest"),
        ("spaced", &spaced, "record 1 of DAY was changed: it is not written as a hub"),
        ("missing", &history(|all| drop(all.remove(1))), "record 1 of DAY is missing"),
        ("cut", &history(|all| drop(all.pop())), "record 4 of DAY is missing"),
        ("doubled", &history(|all| all.insert(1, all[0].clone())), "record 0 of DAY stands twice"),
        ("exchanged", &history(|all| all.swap(1, 2)), "record 1 of DAY is missing, or stands behind record 2"),
        ("added", &history(|all| all.push(all[0].clone())), "line 6 and those behind it were added"),
        ("digest", &digest, "record 2 of DAY was changed"),
        ("forged", &forged, "the 5 records of DAY are not the 5 that were signed"),
    ];
    check(&world, &whole, &kinds);
}

#[tokio::test]
async fn files_that_follow_from_records_and_the_list_of_files_are_checked_too() {
    let world = World::start().await;
    let whole = world.export("whole", &[]).await;
    let head = format!("signatures/ledger-{}.dsse.json", world.day);
    let jobs = |change: fn(&mut Vec<String>)| move |folder: &Path| rewrite(folder, "jobs.jsonl", change);
    let throttles = |folder: &Path| rewrite(folder, "throttles.jsonl", Vec::clear);
    let signed = |folder: &Path| {
        fs::copy(folder.join("signatures/audit-head.dsse.json"), folder.join(&head)).unwrap();
    };
    let file = |folder: &Path| fs::write(folder.join("more"), "x").unwrap();
    let twice = |folder: &Path| {
        for file in ["history.jsonl", "history.sha256"] {
            rewrite(folder, file, |all| all.extend(all.clone()));
        }
        let path = folder.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let day = manifest["history"]["days"][0].clone();
        manifest["history"]["days"].as_array_mut().unwrap().push(day);
        fs::write(path, manifest.to_string()).unwrap();
    };
    let kinds: [Kind<'_>; 6] = [
        ("jobs", &jobs(|all| all[0] = all[0].replace("enqueued", "canceled")), "jobs.jsonl: line 1 was changed"),
        ("no-job", &jobs(|all| drop(all.pop())), "jobs.jsonl: line 4 is missing"),
        ("throttles", &throttles, "throttles.jsonl: line 1 is missing"),
        ("signed", &signed, "it is the head of hub.test, and not of hub.test/jobs/DAY"),
        ("file", &file, "more: the bundle was made without this file"),
        ("day-twice", &twice, "in order, each once"),
    ];
    check(&world, &whole, &kinds);
    let folder = world.stage.path("manifest");
    tampered(&whole, &folder, &|_| {});
    let path = folder.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    fs::write(path, manifest.replacen("\"bytes\":", "\"bytes\":1", 1)).unwrap();
    let found = world.verify(&folder);
    assert!(found.code == Some(1) && found.all().contains("bytes are not those of the manifest"), "{}", found.all());
}
