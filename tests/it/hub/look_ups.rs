//! A sidecar that has never seen a job asks the region first that the index of the hub names.

use http::Method;
use ojs_testbed::{Fault, Gate, When};
use serde_json::Value;

use super::INFO;
use super::index::{enqueued_as, hub_of, recorded, reporting};
use crate::support::{Process, Stage, eventually};

const ID: &str = "01912e4a-7b3c-7def-8a12-abcdef123456";

/// How often it is tried whether the hub answers in time.
const TRIES: usize = 3;

/// How often a region was asked for the job.
fn asked(federation: &Stage, region: &str) -> usize {
    let place = federation.regions.iter().position(|it| it.id() == region).unwrap();
    let requests = federation.regions[place].record().requests_to(&format!("/ojs/v1/jobs/{ID}"));
    requests.iter().filter(|it| it.method == Method::GET).count()
}

/// A sidecar that has seen no job yet, beside the first one.
async fn newcomer(federation: &Stage) -> Process {
    let sidecar = Process::run(&federation.config, &[&INFO[..], &["--set", "local_region=us-east-1"]].concat()).await;
    let path = format!("/v1/federation/jobs?job_id={ID}");
    eventually("the hub answers the sidecar", async || sidecar.client.get(&path).await.status == 200).await;
    sidecar
}

async fn state(sidecar: &Process) -> (u16, Value) {
    let shown = sidecar.client.get(&format!("/ojs/v1/jobs/{ID}")).await;
    let document = shown.json();
    let job = if document["job"].is_object() { &document["job"] } else { &document };
    (shown.status.as_u16(), job["id"].clone())
}

#[tokio::test]
async fn a_job_is_looked_up_in_the_region_that_the_index_names_and_without_the_hub_in_all() {
    let stage = hub_of("us-east-1", "eu-west-1");
    let mut hub = stage.run().await;
    let (federation, sidecar) = reporting(&stage, "one", "us-east-1", "").await;
    enqueued_as(&sidecar, ID, "eu-west-1").await;
    recorded(&stage, ID, "available").await;
    let counts = || ["us-east-1", "eu-west-1", "ap-south-1"].map(|region| asked(&federation, region));
    let home = federation.regions.iter().find(|it| it.id() == "eu-west-1").unwrap();
    let hold = |gate: &Gate| {
        home.faults().add(When::path("/ojs/v1/jobs/").method(Method::GET).next(1), Fault::Hold { gate: gate.clone() });
    };
    // On a busy machine the hub may answer later than a search waits for it; then a further sidecar looks.
    let mut others = 0;
    for _ in 0..TRIES {
        let (second, gate, before) = (newcomer(&federation).await, Gate::new(), counts());
        hold(&gate);
        let is_asked = async {
            eventually("the region that has it is asked", async || counts()[1] > before[1]).await;
            gate.open();
        };
        let (found, ()) = tokio::join!(state(&second), is_asked);
        assert_eq!(found, (200, ID.into()));
        others = counts()[0] + counts()[2] - before[0] - before[2];
        if others == 0 {
            break;
        }
    }
    assert_eq!(others, 0, "only the region that has it is asked");
    let after = counts();
    // The index is a hint: a job that it names in the wrong region, or no more, is found all the same.
    let third = newcomer(&federation).await;
    hub.kill();
    third.wait_for_line("ojs.federation.hub_lost").await;
    // The first answer ends the search, so that the region with the job waits for the others to be asked.
    let gate = Gate::new();
    hold(&gate);
    let all_are_asked = async {
        eventually("every region is asked", async || {
            asked(&federation, "us-east-1") > after[0] && asked(&federation, "ap-south-1") > after[2]
        })
        .await;
        gate.open();
    };
    let (found, ()) = tokio::join!(state(&third), all_are_asked);
    assert_eq!(found, (200, ID.into()));
}
