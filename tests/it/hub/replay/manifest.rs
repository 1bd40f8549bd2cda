//! The manifest of a replay in a bundle: what was run again, as what, and how it ended, proven by the audit trail.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::filter::{all_fail, bed, dead_lettered, enqueued, order};
use super::{Bed, ended};
use crate::hub::stage::{post, status};
use crate::support::command;

const DAYS: [&str; 4] = ["--from", "2020-01-01", "--to", "2999-01-01"];

async fn exported(bed: &Bed, name: &str, more: &[&str]) -> Vec<String> {
    let folder = bed.hubs.path(name);
    let words = [&["audit", "export", "--bundle", folder.to_str().unwrap()], &DAYS[..], more].concat();
    let said = bed.hubs.command("ann", &words).await;
    assert_eq!(said.code, Some(0), "{}", said.all());
    let lines = fs::read_to_string(folder.join("replays.jsonl")).unwrap();
    lines.lines().map(str::to_owned).collect()
}

/// What `audit verify` says about a bundle, and whether it holds.
fn verified(bed: &Bed, folder: &Path) -> (bool, String) {
    let public = bed.hubs.path("audit.pub");
    let words = ["audit", "verify", folder.to_str().unwrap(), "--key", public.to_str().unwrap()];
    let said = command(&words, &[], "");
    (said.code == Some(0), said.all())
}

fn withheld(lines: &[String]) -> Vec<Option<String>> {
    let read = |line: &String| serde_json::from_str::<Value>(line).unwrap()["withheld"].as_str().map(str::to_owned);
    lines.iter().map(read).collect()
}

#[tokio::test]
async fn a_bundle_has_the_manifests_of_replays_and_names_each_change_of_them() {
    let (bed, _hub, sidecar) = bed().await;
    let acme = enqueued(&sidecar, "failing", "acme", 2).await;
    enqueued(&sidecar, "failing", "other", 1).await;
    all_fail(&sidecar, "failing").await;
    dead_lettered(&bed, 3).await;
    let body = order(&json!({ "status": "dead_lettered" }), &json!({ "replay_id": "fix" }));
    assert_eq!(post(&bed.hubs, "bea", "/api/replays", &body).await.0, 200);
    let end = ended(&bed, "fix").await;
    // A replay of one job has one, too, also where nothing was sent.
    let why = json!({ "reason": "r", "ticket": "T-1", "author": "ann" });
    let (code, single) = post(&bed.hubs, "ann", &format!("/api/jobs/{}/replay", acme[0]), &why).await;
    assert_eq!(code, 200, "{single}");

    let lines = exported(&bed, "whole", &[]).await;
    let read: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.len(), 4, "{lines:?}");
    for (line, shown) in read.iter().zip(end["jobs"].as_array().unwrap()) {
        for member in ["job_id", "region", "new_id", "digest", "step", "note", "why", "at"] {
            assert_eq!(line[member], shown[member], "{line}");
        }
        assert_eq!((&line["replay_id"], &line["step"]), (&json!("fix"), &json!("replayed")));
        assert!(line["digest"].as_str().unwrap().starts_with("sha256:") && line["note"] == "available", "{line}");
    }
    assert_eq!(read[3]["replay_id"], single["replay"]["id"]);
    let whole = bed.hubs.path("whole");
    let (holds, said) = verified(&bed, &whole);
    assert!(holds && said.contains("jobs; 2 replays with 0 lines withheld, 0 dropped"), "{said}");

    assert!(read.iter().all(|line| line["salt"].as_str().is_some_and(|salt| salt.len() == 32)), "{lines:?}");

    // A bundle of one tenant has hashes of the others.
    let of_acme = exported(&bed, "acme", &["--tenant", "acme"]).await;
    assert_eq!(withheld(&of_acme).iter().filter(|it| it.as_deref() == Some("tenant")).count(), 1, "{of_acme:?}");
    assert_eq!(of_acme.iter().filter(|line| lines.contains(line)).count(), 3);
    let (holds, said) = verified(&bed, &bed.hubs.path("acme"));
    assert!(holds, "{said}");

    let joined = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let changed = |change: fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        joined(&lines)
    };
    for (kind, text, named) in [
        ("a note", changed(|it| it[1] = it[1].replace("available", "completed")), "lines 1 to 3"),
        ("a digest", changed(|it| it[0] = it[0].replacen("sha256:", "sha256:0", 1)), "lines 1 to 3"),
        (
            "a space",
            changed(|it| it[2] = it[2].replacen(':', ": ", 1)),
            "line 3 is no job of the replay fix, or was changed",
        ),
        ("order", changed(|it| it.swap(0, 1)), "lines 1 to 3"),
        ("of another", changed(|it| it.swap(2, 3)), "line 3 is no job of the replay fix"),
        ("missing", changed(|it| drop(it.pop())), "are missing"),
        ("added", changed(|it| it.push(it[3].clone())), "line 5 and those behind it were added"),
    ] {
        fs::write(whole.join("replays.jsonl"), text).unwrap();
        let (holds, said) = verified(&bed, &whole);
        assert!(!holds && said.contains("replays.jsonl") && said.contains(named), "{kind}: {said}");
    }
    fs::write(whole.join("replays.jsonl"), joined(&lines)).unwrap();
    assert!(verified(&bed, &whole).0);

    // An erased tenant leaves hashes.
    let path = "/api/ledger/tenants/acme?reason=erasure&ticket=GDPR-1&author=ann";
    assert_eq!(status(&bed.hubs, "ann", &http::Method::DELETE, path).await.0, 200);
    let after = exported(&bed, "after", &[]).await;
    assert_eq!(withheld(&after).iter().filter(|it| it.as_deref() == Some("erased")).count(), 3, "{after:?}");
    let (holds, said) = verified(&bed, &bed.hubs.path("after"));
    assert!(holds, "{said}");
}
