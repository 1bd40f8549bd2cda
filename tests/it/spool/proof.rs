//! An outage, kills while jobs are spooled and while they are drained: each job is in a permitted region once, in the order of its queue.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Files, eventually, resume, run, setup, shown, stop};
use crate::support::{Client, IDS, rises};

/// Every third job of a queue is pinned to each region, or to none.
const PINS: [Option<&str>; 3] = [Some(IDS[0]), Some(IDS[1]), None];

fn body(queue: usize, number: usize) -> String {
    let id = format!("00000000-0000-7000-8{queue:03}-{number:012}");
    let pin = PINS[number % 3].map_or(String::new(), |pin| format!(r#","meta":{{"ojs.federation.region":"{pin}"}}"#));
    format!(r#"{{"id":"{id}","type":"a.b","queue":"q{queue}","args":["{queue}-{number:06}"]{pin}}}"#)
}

/// Enqueues the jobs of one queue in their order, each until it is held: over kills, too.
async fn fill(client: Arc<Mutex<Client>>, queue: usize, count: usize) {
    for number in 0..count {
        loop {
            let now = *client.lock();
            let request = http::Request::post("/ojs/v1/jobs").header("content-type", "application/json");
            match now.try_send(request, body(queue, number)).await {
                Ok(answer) if answer.status == 202 => break,
                Ok(answer) => assert!(matches!(answer.status.as_u16(), 500 | 503), "{answer:?}"),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
}

async fn prove(queues: usize, of_each: usize, kills: usize) {
    let files = Files::new();
    let stage = setup(&files, "max_bytes: 1GiB, ").stage().await;
    stop(&stage.regions).await;
    let mut process = run(&stage).await;
    let client = Arc::new(Mutex::new(process.client));
    let fillers: Vec<_> = (0..queues).map(|queue| tokio::spawn(fill(Arc::clone(&client), queue, of_each))).collect();
    let total = queues * of_each;
    for kill in 1..=kills {
        let target = total * kill / (kills + 1);
        let held = async || shown(&process.admin).await["waiting"].as_u64().map_or(0, |waiting| waiting as usize);
        rises("more are held", target, held).await;
        drop(process);
        process = run(&stage).await;
        *client.lock() = process.client;
    }
    for filler in fillers {
        filler.await.unwrap();
    }
    assert_eq!(shown(&process.admin).await["waiting"], total, "nothing is stored twice, and nothing is lost");
    resume(&stage.regions).await;
    let stored = || stage.regions.iter().map(|region| region.jobs().len()).sum::<usize>();
    for kill in 1..=kills {
        let target = total * kill / (kills + 1);
        rises("more are sent", target, async || stored()).await;
        drop(process);
        process = run(&stage).await;
    }
    rises("all are sent", total, async || stored()).await;
    eventually("no row is left", async || {
        let list = shown(&process.admin).await;
        list["state"] == "ready" && list["waiting"] == 0
    })
    .await;
    assert_eq!((stored(), &shown(&process.admin).await["set_aside"]), (total, &serde_json::json!([])));
    for (place, region) in stage.regions.iter().enumerate() {
        let jobs = region.jobs();
        assert!(jobs.iter().all(|job| job.stored == 1));
        for queue in 0..queues {
            for (pin, home) in PINS.iter().enumerate() {
                let prefix = format!(r#"["{queue}-"#);
                let number = |args: &str| args[prefix.len()..prefix.len() + 6].parse::<usize>().unwrap();
                let of_lane: Vec<usize> = jobs
                    .iter()
                    .filter(|job| job.args.starts_with(&prefix))
                    .map(|job| number(&job.args))
                    .filter(|number| number % 3 == pin)
                    .collect();
                assert!(of_lane.is_sorted(), "region {place}, queue {queue}, pin {pin}: {of_lane:?}");
                assert!(home.is_none_or(|home| home == region.id()) || of_lane.is_empty(), "a pin is at home");
            }
        }
    }
}

/// A number from the environment: `make spool-proof` sets larger ones.
#[expect(clippy::disallowed_methods, reason = "a size of the proof, and no configuration of the program")]
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test]
async fn over_kills_in_an_outage_and_behind_it_each_job_is_stored_once_in_order_and_pins_are_at_home() {
    prove(number("SPOOL_PROOF_QUEUES", 4), number("SPOOL_PROOF_JOBS", 45), number("SPOOL_PROOF_KILLS", 2)).await;
}
