//! Sidecars are killed while jobs pass them: with the event streams of its region a hub's ledger still has each job as the region has it.
//! `LEDGER_KILLS_SEED` and `LEDGER_KILLS` make it another or a longer run.

use std::collections::BTreeMap;
use std::fs;

use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::Value;

use super::history::{Draw, number, say};
use super::ledger::get;
use super::ledger_killed::{flow, index, judge_all, of_region, sidecar};
use super::stage::HubStage;
use super::views::regions;
use crate::support::{Setup, eventually};

/// Calls between two kills.
const CALLS: usize = 12;

#[tokio::test]
async fn the_ledger_has_each_job_as_its_region_has_it_after_kills_of_sidecars() {
    let (seed, kills) = (number("LEDGER_KILLS_SEED", 1), number("LEDGER_KILLS", 6));
    let mut hubs = HubStage::new("");
    let key = hubs.path("audit.key");
    fs::write(&key, KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem()).unwrap();
    let stage = Setup::default().demo(|options| options.retry_jitter = false).stage().await;
    let (index, regions) = (index(), regions(&stage, |_| None));
    hubs.set_more(&format!("{index}\nledger: {{}}\naudit: {{ key: {key:?}, log: hub.test }}\n{regions}"));
    let _hub = hubs.run().await;
    let mut draw = Draw(seed);
    for number in 0..kills {
        let sidecar = sidecar(&hubs, &stage.config, (&format!("s{number}"), "us-east-1")).await;
        let flow = tokio::spawn(flow(sidecar.client, Draw(seed * 1_000 + number)));
        let before = stage.regions[0].record().requests().len();
        let calls = before + CALLS + draw.below(CALLS);
        eventually("calls reach the region", async || stage.regions[0].record().requests().len() >= calls).await;
        sidecar.signal("KILL");
        flow.await.unwrap();
    }
    let mut judged = Err(String::new());
    eventually("the ledger has each job as its region has it", async || {
        let jobs = of_region(&stage.regions[0]);
        assert!(jobs.len() > usize::try_from(kills).unwrap(), "{jobs:?}");
        let mut records = BTreeMap::new();
        for (job, _) in &jobs {
            let (_, found) = get(&hubs, &format!("/api/jobs/{}", job.id)).await;
            let history = found["copies"][0]["history"].as_array().cloned().unwrap_or_default();
            records.insert(job.id.clone(), history.iter().map(|it| it["record"].clone()).collect::<Vec<Value>>());
        }
        let before = std::mem::replace(&mut judged, judge_all(&jobs, &records));
        if before != judged {
            say(&format!("{judged:?}"));
        }
        judged.is_ok()
    })
    .await;
    assert!(judged.unwrap() > 0, "only the events have shown some steps");
}
