//! Bundles of the audit trail: signed heads, and every kind of tampering by its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use serde_json::{Value, json};

use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use crate::support::{Ended, command, eventually};

/// A hub that signs its trail with a new key, and the file of its public key.
async fn signing(of: &'static SignatureAlgorithm) -> (HubStage, Hub, PathBuf) {
    let mut stage = HubStage::new("");
    let (private, public) = (stage.path("audit.key"), stage.path("audit.pub"));
    let pair = KeyPair::generate_for(of).unwrap();
    fs::write(&private, pair.serialize_pem()).unwrap();
    fs::write(&public, pair.public_key_pem()).unwrap();
    stage.set_more(&format!("audit: {{ key: {private:?}, log: hub.test }}"));
    let hub = stage.run().await;
    (stage, hub, public)
}

async fn orders(stage: &HubStage, count: usize) {
    for number in 0..count {
        let queue = format!("q{number}");
        assert_eq!(stage.order("ann", &["pause", "queue", &queue, "--for", "1h"]).await.code, Some(0));
    }
}

async fn export(stage: &HubStage, name: &str) -> PathBuf {
    let folder = stage.path(name);
    let exported = stage.command("ann", &["audit", "export", "--bundle", folder.to_str().unwrap()]).await;
    assert_eq!(exported.code, Some(0), "{}", exported.all());
    folder
}

fn verify(folder: &Path, key: &Path, more: &[&str]) -> Ended {
    let words = ["audit", "verify", folder.to_str().unwrap(), "--key", key.to_str().unwrap()];
    command(&[&words, more].concat(), &[], "")
}

fn rows(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("audit.jsonl")).unwrap().lines().map(str::to_owned).collect()
}

/// A forged row: another reason, this previous hash, and the right hash of its own content.
fn forged(row: &str, previous: &str) -> String {
    let (mut members, text): (Value, _) = (serde_json::from_str(row).unwrap(), |value: &Value| value.to_string());
    let mut line = row.to_owned();
    for (name, value) in [("reason", "nothing to see"), ("previous", previous)] {
        let value = Value::from(value);
        line =
            line.replacen(&format!("\"{name}\":{}", text(&members[name])), &format!("\"{name}\":{}", text(&value)), 1);
        members[name] = value;
    }
    let names = [
        "number", "unix_ms", "caller", "action", "subject", "lasts_ms", "force", "reason", "ticket", "author",
        "previous",
    ];
    let hashed = Value::Array(names.iter().map(|name| members[name].clone()).collect());
    let hash = HEXLOWER.encode(digest(&SHA256, hashed.to_string().as_bytes()).as_ref());
    line.replace(&format!("\"hash\":{}", members["hash"]), &format!("\"hash\":\"{hash}\""))
}

fn hash(row: &str) -> String {
    serde_json::from_str::<Value>(row).unwrap()["hash"].as_str().unwrap().to_owned()
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("signatures")).unwrap();
    for file in ["audit.jsonl", "manifest.json", "signatures/audit-head.dsse.json"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// Rewrites the manifest so that it fits the changed files.
fn list_anew(folder: &Path) {
    let files = ["audit.jsonl", "signatures/audit-head.dsse.json"].map(|name| {
        let content = fs::read(folder.join(name)).unwrap();
        let sha256 = HEXLOWER.encode(digest(&SHA256, &content).as_ref());
        json!({ "name": name, "bytes": content.len(), "sha256": sha256 })
    });
    fs::write(folder.join("manifest.json"), json!({ "version": 1, "files": files }).to_string()).unwrap();
}

#[tokio::test]
async fn every_kind_of_tampering_with_a_bundle_is_named() {
    let (stage, _hub, key) = signing(&PKCS_ED25519).await;
    orders(&stage, 3).await;
    let early = export(&stage, "early").await;
    orders(&stage, 6).await;
    let whole = export(&stage, "whole").await;
    let early_head = early.join("signatures/audit-head.dsse.json");
    let early_head = ["--head", early_head.to_str().unwrap()];
    let right = verify(&whole, &key, &early_head);
    assert_eq!(right.code, Some(0), "{}", right.all());
    let (rows, early_rows) = (rows(&whole), rows(&early));
    assert!(early_rows.len() == 3 && rows.len() > 5 && rows.starts_with(&early_rows), "{rows:?}");
    assert!(
        right.stdout.contains(&format!("{} rows of hub.test are as they were signed at 2", rows.len())),
        "{}",
        right.all()
    );
    let last = rows.len() - 1;
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed = rows.clone();
        change(&mut changed);
        changed.iter().map(|row| format!("{row}\n")).collect::<String>()
    };
    let rewritten = with(&|all| {
        let mut previous = hash(&all[0]);
        for row in &mut all[1..] {
            *row = forged(row, &previous);
            previous = hash(row);
        }
    });
    let renumbered =
        |row: &str| row.replacen(&format!("\"number\":{}", last + 1), &format!("\"number\":{}", last + 2), 1);
    for (kind, text, words) in [
        ("a flipped byte", with(&|all| all[1] = all[1].replacen("OPS", "OPT", 1)), "row 2 was changed"),
        ("a changed hash", with(&|all| all[1] = all[1].replace(&hash(&all[1]), &hash(&all[2]))), "row 2 was changed"),
        ("a row is missing", with(&|all| drop(all.remove(2))), "row 4 does not follow the row before it"),
        ("the first one", with(&|all| drop(all.remove(0))), "the trail begins at row 2"),
        ("the last one", with(&|all| drop(all.pop())), "the last ones are missing"),
        ("exchanged rows", with(&|all| all.swap(2, 3)), "row 4 does not follow the row before it"),
        ("a repeated row", with(&|all| all.insert(2, all[2].clone())), "row 3 does not follow the row before it"),
        ("an added row", with(&|all| all.push(forged(&renumbered(&all[last]), &hash(&all[last])))), "rows were added"),
        ("all written anew", rewritten, "they are not those that were signed"),
        (
            "a space in a line",
            with(&|all| all[1] = all[1].replacen(":", ": ", 1)),
            "line 2 is a row that is not written as a hub writes it",
        ),
        ("an empty line", with(&|all| all.insert(1, String::new())), "line 2 is empty"),
        ("no row at all", String::new(), "the trail has no rows"),
        ("a torn line", rows.join("\n"), " has no end"),
    ] {
        let folder = stage.path(&kind.replace(' ', "-"));
        copied(&whole, &folder);
        fs::write(folder.join("audit.jsonl"), text).unwrap();
        list_anew(&folder);
        let wrong = verify(&folder, &key, &[]);
        assert!(wrong.code == Some(1) && wrong.stderr.contains(words), "{kind}: {}", wrong.all());
        // The head that was signed before names no less.
        let words =
            if kind == "all written anew" { "the first 3 rows are not those of this earlier head" } else { words };
        let wrong = verify(&folder, &key, &early_head);
        assert!(wrong.code == Some(1) && wrong.stderr.contains(words), "{kind}: {}", wrong.all());
    }
}

#[tokio::test]
async fn a_head_proves_itself_its_key_and_the_rows_that_an_earlier_head_had() {
    let (mut stage, mut hub, key) = signing(&PKCS_ECDSA_P256_SHA256).await;
    orders(&stage, 2).await;
    let early = export(&stage, "early").await;
    let early_head = early.join("signatures/audit-head.dsse.json");
    orders(&stage, 3).await;
    let whole = export(&stage, "whole").await;
    let (head, manifest) = (whole.join("signatures/audit-head.dsse.json"), whole.join("manifest.json"));
    let text = fs::read_to_string(&head).unwrap();
    let envelope: Value = serde_json::from_str(&text).unwrap();
    let more_rows = {
        let statement = BASE64.decode(envelope["payload"].as_str().unwrap().as_bytes()).unwrap();
        let mut statement: Value = serde_json::from_slice(&statement).unwrap();
        statement["predicate"]["tree_size"] = 1.into();
        BASE64.encode(statement.to_string().as_bytes())
    };
    let other_payload = text.replace(envelope["payload"].as_str().unwrap(), &more_rows);
    let other_sig = text.replace(envelope["signatures"][0]["sig"].as_str().unwrap(), "AAAA");
    let listed = fs::read_to_string(&manifest).unwrap();
    for (file, content, words) in [
        (&head, other_payload.as_str(), "has signed this statement: it or its signature was changed"),
        (&head, &other_sig, "has signed this statement: it or its signature was changed"),
        (&head, "{}", "expected an envelope"),
        (&head, &fs::read_to_string(&early_head).unwrap(), "rows were added"),
        (&manifest, &listed.replacen("\"bytes\": ", "\"bytes\": 1", 1), "its bytes are not those of the manifest"),
        (&manifest, "[]", "expected the list of files"),
        (&whole.join("more.jsonl"), "{}", "more.jsonl: the bundle was made without this file"),
    ] {
        let before = fs::read(file).ok();
        fs::write(file, content).unwrap();
        let wrong = verify(&whole, &key, &[]);
        assert!(wrong.code == Some(1) && wrong.stderr.contains(words), "{words}: {}", wrong.all());
        match before {
            Some(before) => fs::write(file, before).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
    }
    assert_eq!(verify(&whole, &key, &[]).code, Some(0));
    let unnamed = command(&["audit", "verify", whole.to_str().unwrap()], &[], "");
    assert!(unnamed.code == Some(1) && unnamed.stderr.contains("--key: expected"), "{}", unnamed.all());

    // Another key from now on: the old one is kept for what it has signed.
    hub.kill();
    let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    fs::write(stage.path("new.key"), pair.serialize_pem()).unwrap();
    fs::write(stage.path("new.pub"), pair.public_key_pem()).unwrap();
    stage.set_more(&format!("audit: {{ key: {:?}, log: hub.test }}", stage.path("new.key")));
    hub = stage.run().await;
    orders(&stage, 1).await;
    let later = export(&stage, "later").await;
    let new = stage.path("new.pub");
    assert!(verify(&later, &key, &[]).stderr.contains("none of the keys"));
    let both = ["--head", early_head.to_str().unwrap(), "--key", new.to_str().unwrap()];
    assert_eq!(verify(&later, &key, &both).code, Some(0), "{}", verify(&later, &key, &both).all());

    // The hash chain of a rewritten record is right, but the earlier head does not cover its rows.
    hub.kill();
    fs::remove_file(stage.path("hub.db")).unwrap();
    let _hub = stage.run().await;
    orders(&stage, 6).await;
    let anew = export(&stage, "anew").await;
    assert_eq!(verify(&anew, &new, &[]).code, Some(0));
    let wrong = verify(&anew, &key, &both);
    assert!(
        wrong.code == Some(1) && wrong.stderr.contains("the first 2 rows are not those of this earlier head"),
        "{}",
        wrong.all()
    );
}

#[tokio::test]
async fn a_hub_signs_nothing_over_a_record_that_was_changed_behind_it() {
    let (stage, mut hub, _) = signing(&PKCS_ED25519).await;
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    hub.kill();
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let stage = stage.with_record(record);
    let mut hub = stage.run().await;
    orders(&stage, 3).await;
    let head = async || {
        let (status, answer) = status(&stage, "ann", &http::Method::GET, "/v1/hub/audit/head").await;
        (status, answer["error"]["code"].clone(), answer["error"]["message"].to_string())
    };
    // The hub has written the third row, and has not read it back.
    server.query("UPDATE ojs_hub_audit SET reason = 'other' WHERE number = 3");
    let (status, code, message) = head().await;
    assert!((status, &code) == (500, &"audit_unsigned".into()) && message.contains("row 3 of"), "{status} {message}");
    server.query("DELETE FROM ojs_hub_audit WHERE number = 3");
    let (status, _, message) = head().await;
    assert!(status == 500 && message.contains("row 3 of the audit trail is missing"), "{status} {message}");
    let export = ["audit", "export", "--bundle", &stage.path("none").display().to_string()];
    let refused = stage.command("ann", &export).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("row 3 of"), "{}", refused.all());
    assert!(!stage.path("none").exists() && !stage.path("none.part").exists());
    eventually("the log says so", async || hub.log_has(&["ojs.federation.hub_audit_unsigned", "row 3"])).await;

    // After a restart the hub signs the record as it finds it; from then on a signed row must stay.
    hub.kill();
    let _hub = stage.run().await;
    assert_eq!(head().await.0, 200);
    server.query("DELETE FROM ojs_hub_audit WHERE number = 2");
    let (status, code, message) = head().await;
    assert!((status, &code) == (500, &"audit_unsigned".into()) && message.contains("row 2 of"), "{status} {message}");
}

/// The root over these records by the definition of RFC 9162 §2.1.1.
fn root(records: &[&[u8]]) -> Vec<u8> {
    let hash = |parts: &[&[u8]]| digest(&SHA256, &parts.concat()).as_ref().to_vec();
    match records {
        [] => hash(&[]),
        [record] => hash(&[&[0], record]),
        _ => {
            let half = records.len().next_power_of_two() / 2;
            hash(&[&[1], &root(&records[..half]), &root(&records[half..])])
        }
    }
}

#[tokio::test]
async fn public_tools_verify_a_bundle_and_the_log_has_its_heads() {
    for of in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
        let (stage, mut hub, key) = signing(of).await;
        orders(&stage, 5).await;
        let folder = export(&stage, "bundle").await;
        let envelope: Value =
            serde_json::from_slice(&fs::read(folder.join("signatures/audit-head.dsse.json")).unwrap()).unwrap();
        let decode = |value: &Value| BASE64.decode(value.as_str().unwrap().as_bytes()).unwrap();
        let (kind, payload) = (envelope["payloadType"].as_str().unwrap(), decode(&envelope["payload"]));
        let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
        let (message, signature) = (stage.path("message"), stage.path("signature"));
        fs::write(&message, [head.as_bytes(), &payload].concat()).unwrap();
        fs::write(&signature, decode(&envelope["signatures"][0]["sig"])).unwrap();
        let mut openssl = Command::new("openssl");
        openssl.args(["pkeyutl", "-verify", "-pubin", "-rawin"]);
        openssl.arg("-inkey").arg(&key).arg("-in").arg(&message).arg("-sigfile").arg(&signature);
        if of == &PKCS_ECDSA_P256_SHA256 {
            openssl.args(["-digest", "sha256"]);
        }
        let said = openssl.output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let statement: Value = serde_json::from_slice(&payload).unwrap();
        let rows = rows(&folder);
        let records: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        assert_eq!(statement["subject"][0]["digest"]["rfc9162-sha256"], HEXLOWER.encode(&root(&records)));
        assert_eq!(
            (&statement["predicate"]["tree_size"], &statement["subject"][0]["name"]),
            (&rows.len().into(), &"hub.test".into())
        );
        hub.kill();
        let hub = stage.run().await;
        let words = ["ojs.federation.hub_audit_head", &format!("size={}", rows.len())];
        eventually("a head is in the log", async || hub.log_has(&words)).await;
    }
}

#[tokio::test]
async fn without_a_key_nothing_is_signed_and_a_wrong_key_keeps_the_hub_from_starting() {
    let mut stage = HubStage::new("");
    let mut hub = stage.run().await;
    let refused = stage.command("ann", &["audit", "export", "--bundle", stage.path("none").to_str().unwrap()]).await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("set `audit` in its configuration"),
        "{}",
        refused.all()
    );
    let denied = stage.command("eve", &["audit", "export", "--bundle", stage.path("none").to_str().unwrap()]).await;
    assert!(denied.code == Some(1) && denied.stderr.contains("403"), "{}", denied.all());
    assert!(!stage.path("none").exists());
    hub.kill();
    fs::write(stage.path("audit.key"), "my secret").unwrap();
    let key = stage.path("audit.key");
    for (section, words) in [
        (format!("audit: {{ key: {key:?}, log: hub.test }}"), "audit.key: expected a private key of Ed25519 or P-256"),
        (
            "audit: { key: /nowhere/audit.key, log: hub.test }".to_owned(),
            "audit.key: expected the path of a private key",
        ),
        (format!("audit: {{ key: {key:?}, log: \"\" }}"), "audit.log: expected a name"),
        ("audit: { key: /, log: hub.test }".to_owned(), "audit.key: expected the path of a private key: it is no file"),
    ] {
        stage.set_more(&section);
        let config = stage.write_config(0);
        let ended = command(&["hub", "--config", config.to_str().unwrap(), "--check"], &[], "");
        assert!(ended.code == Some(78) && ended.all().contains(words), "{}", ended.all());
        assert!(!ended.all().contains("secret") && !ended.all().contains("nowhere"), "{}", ended.all());
    }
}
