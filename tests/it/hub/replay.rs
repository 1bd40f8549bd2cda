//! Jobs are run again, and cancelled, in the region that has them: judged at the sockets of all regions.

mod bulk;
mod cancel;
mod filter;
mod index;
mod manifest;
mod refused;

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use http::Method;
use ojs_testbed::{Fault, FaultAnswer, Gate, JobState, Recorded, When};
use serde_json::{Value, json};

use super::stage::{Hub, HubStage, post, status};
use super::views::regions;
use crate::support::{Stage, eventually};

/// An operator who may run many jobs again, and nothing else.
const BEA: &str = "  - { san: \"spiffe://test/ops/bea\", role: operator, scopes: [backfill] }\n";
/// Spaces, escapes, numbers beyond every type, members that repeat each other or look like those of a job, and letters beyond ASCII.
const ODD: &str = r#"[ 1e400 , {"a":1,"a" : 2,"A":{"args":[0],"id":"x","meta":{"ojs.federation.region":"us-east-1"}}},"\u00e4\ud83d\ude00\/canary ä",12345678901234567890123 , -0.0,[ ]]"#;

/// A hub that reaches three regions, and no sidecar.
struct Bed {
    hubs: HubStage,
    stage: Stage,
}

impl Bed {
    async fn on(hubs: HubStage) -> Self {
        hubs.client("bea", "spiffe://test/ops/bea");
        let stage = hubs.federation("one", "").await;
        let mut hubs = hubs;
        hubs.set_more(&format!("{BEA}{}", regions(&stage, |_| None)));
        Self { hubs, stage }
    }

    async fn new() -> (Self, Hub) {
        let bed = Self::on(HubStage::new("")).await;
        let hub = bed.hubs.run().await;
        (bed, hub)
    }

    /// The requests of a method to jobs that a region has got.
    fn asked(&self, place: usize, method: &Method) -> Vec<Recorded> {
        let requests = self.stage.regions[place].record().requests_to("/ojs/v1/jobs");
        requests.into_iter().filter(|it| it.method == *method).collect()
    }

    /// The number of requests of a method to jobs at each region.
    fn counts(&self, method: &Method) -> [usize; 3] {
        [0, 1, 2].map(|place| self.asked(place, method).len())
    }

    async fn rows(&self) -> Vec<(String, String)> {
        let (_, trail) = status(&self.hubs, "ann", &Method::GET, "/v1/hub/audit").await;
        let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
        trail["rows"].as_array().unwrap().iter().map(|it| (text(it, "action"), text(it, "subject"))).collect()
    }

    /// The ids of the new jobs for each original, over all regions.
    fn replayed(&self) -> BTreeMap<String, Vec<(usize, String)>> {
        let mut all: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        for (place, region) in self.stage.regions.iter().enumerate() {
            for job in region.jobs().iter() {
                let meta: Value = serde_json::from_str(job.meta.as_deref().unwrap_or("{}")).unwrap();
                if let Some(original) = meta["ojs.replay_of"].as_str() {
                    assert_eq!(job.stored, 1, "{} was sent twice", job.id);
                    all.entry(original.to_owned()).or_default().push((place, job.id.clone()));
                }
            }
        }
        all
    }
}

fn id(number: usize) -> String {
    format!("00000000-0000-7000-8000-{number:012}")
}

fn job(number: usize, args: &str, meta: &str) -> String {
    format!(
        r#"{{"id":"{}","type":"a.b","args":{args},"meta":{meta},"options":{{"queue":"q","priority":3,"timeout_ms":5000,"retry":{{"max_attempts":7}}}}}}"#,
        id(number)
    )
}

fn sha256(text: &str) -> String {
    let digits: Vec<String> = digest(&SHA256, text.as_bytes()).as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256:{}", digits.concat())
}

fn why(more: Value) -> Value {
    let mut body = json!({ "reason": "bad release", "ticket": "OPS-7", "author": "ana" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn order(bed: &Bed, verb: &str, number: usize, more: Value) -> (u16, Value) {
    post(&bed.hubs, "ann", &format!("/api/jobs/{}/{verb}", id(number)), &why(more)).await
}

#[tokio::test]
async fn a_job_is_run_again_with_the_same_bytes_in_its_region_which_alone_gets_them() {
    let (bed, hub) = Bed::new().await;
    let meta =
        r#"{"tenant" : "t\u0031","ojs.federation.region":"eu-west-1","ojs.federation.federation_id":"old","n":1.50}"#;
    bed.stage.regions[1].put(&job(1, ODD, meta), 1);
    let before = bed.stage.regions[1].jobs()[0].envelope.clone();
    let (code, done) = order(&bed, "replay", 1, json!({ "payload_digest": sha256(ODD) })).await;
    assert_eq!(
        (code, &done["job"]["step"], &done["job"]["region"]),
        (200, &"replayed".into(), &"eu-west-1".into()),
        "{done}"
    );
    assert_eq!((&done["job"]["digest"], &done["replay"]["done"]), (&sha256(ODD).into(), &true.into()), "{done}");
    let jobs = bed.stage.regions[1].jobs();
    let (original, new) = (jobs.job(&id(1)).unwrap(), jobs.job(done["job"]["new_id"].as_str().unwrap()).unwrap());
    assert_eq!((original.envelope.clone(), original.state, original.stored), (before, JobState::Available, 1));
    assert_eq!((new.args.as_str(), new.kind.as_str(), new.queue.as_str()), (ODD, "a.b", "q"));
    assert_eq!(new.id.as_bytes()[14], b'7', "a UUIDv7");
    let sent = &bed.asked(1, &Method::POST)[0].body;
    let sent = std::str::from_utf8(sent).unwrap();
    assert!(sent.contains(&format!(r#""args":{ODD},"#)), "{sent}");
    assert!(sent.contains(r#"{"tenant" : "t\u0031","ojs.federation.region":"eu-west-1","n":1.50,"#), "{sent}");
    let (_, options) = sent.split_once(r#""options":"#).unwrap();
    let options: Value = serde_json::from_str(options.strip_suffix('}').unwrap()).unwrap();
    assert_eq!(
        options,
        json!({ "queue": "q", "priority": 100, "timeout_ms": 5000, "retry": { "max_attempts": 7 } }),
        "{sent}"
    );
    let meta: Value = serde_json::from_str(new.meta.as_deref().unwrap()).unwrap();
    assert_eq!(meta["ojs.replay_of"], id(1).as_str());
    let tracking = meta["ojs.federation.federation_id"].as_str().unwrap();
    assert!(tracking != "old" && tracking.len() == 36, "{meta}");
    for place in [0, 2] {
        let record = bed.stage.regions[place].record();
        for bytes in ["canary", new.id.as_str(), tracking, "replay_of"] {
            assert!(!record.contains(bytes.as_bytes()), "{bytes} at {place}");
        }
    }
    assert_eq!(bed.counts(&Method::POST), [0, 1, 0]);
    let expected = [
        ("job_replay_ordered", format!("job {} in eu-west-1", id(1))),
        ("job_replay_ended", format!("job {} in eu-west-1 as {}: replayed", id(1), new.id)),
    ];
    assert_eq!(bed.rows().await, expected.map(|(action, subject)| (action.to_owned(), subject)));
    let metrics = hub.admin.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    assert!(metrics.contains("ojs_hub_replays_total{result=\"replayed\"} 1"), "{metrics}");
}

#[tokio::test]
async fn nothing_is_sent_where_the_arguments_differ_or_the_order_is_a_dry_run() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[2].put(&job(1, ODD, "null"), 1);
    let (code, refused) = order(&bed, "replay", 1, json!({ "payload_digest": sha256("[]") })).await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert_eq!((code, &refused["error"]["code"]), (409, &"digest_differs".into()), "{refused}");
    assert!(message.contains(&sha256("[]")) && message.contains(&sha256(ODD)), "{message}");
    let (code, shown) = order(&bed, "replay", 1, json!({ "dry_run": true })).await;
    assert_eq!(
        (code, &shown["job"]["step"], &shown["job"]["digest"]),
        (200, &"would_replay".into(), &sha256(ODD).into())
    );
    assert_eq!(bed.counts(&Method::POST), [0, 0, 0]);
    assert!(bed.rows().await.is_empty() && bed.stage.regions[2].jobs().len() == 1);
}

#[tokio::test]
async fn an_order_with_a_name_that_is_sent_twice_is_one_replay() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    let named = json!({ "replay_id": "fix-7", "priority": -5 });
    let (code, first) = order(&bed, "replay", 1, named.clone()).await;
    assert_eq!((code, &first["replay"]["id"]), (200, &"fix-7".into()), "{first}");
    let (code, second) = order(&bed, "replay", 1, named).await;
    assert_eq!((code, &second["job"]), (200, &first["job"]), "{second}");
    // Also where both are on their way at once.
    let twice = || order(&bed, "replay", 2, json!({ "replay_id": "fix-8" }));
    bed.stage.regions[0].put(&job(2, "[2]", "null"), 1);
    let ((one, _), (other, _)) = tokio::join!(twice(), twice());
    assert_eq!((one, other, bed.replayed()[&id(2)].len()), (200, 200, 1));
    let (code, other) = order(&bed, "replay", 1, json!({ "replay_id": "fix-7" })).await;
    assert_eq!((code, &other["error"]["code"]), (409, &"replay_exists".into()), "{other}");
    assert_eq!(bed.replayed()[&id(1)].len(), 1);
    assert!(String::from_utf8_lossy(&bed.asked(0, &Method::POST)[0].body).contains(r#""priority":-5"#));
}

#[tokio::test]
async fn a_job_whose_hub_is_killed_while_it_is_sent_is_run_again_once() {
    let (bed, mut hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    let gate = Gate::new();
    bed.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    tokio::select! {
        answered = order(&bed, "replay", 1, json!({ "replay_id": "one" })) => panic!("{answered:?}"),
        () = eventually("it is on its way", async || bed.stage.regions[0].faults().struck() == 1) => {}
    }
    hub.kill();
    gate.open();
    let _hub = bed.hubs.run().await;
    let mut shown = Value::Null;
    eventually("the next hub finds it", async || {
        shown = status(&bed.hubs, "eve", &Method::GET, "/api/replays/one").await.1;
        shown["replay"]["done"] == true
    })
    .await;
    assert_eq!((&shown["jobs"][0]["step"], bed.replayed()[&id(1)].len()), (&"replayed".into(), 1), "{shown}");
    let rows: Vec<_> = bed.rows().await.into_iter().map(|it| it.0).collect();
    assert_eq!(rows, ["job_replay_ordered", "job_replay_ended"]);
}

#[tokio::test]
async fn a_new_job_whose_answer_is_lost_is_found_and_not_sent_again() {
    let (bed, _hub) = Bed::new().await;
    bed.stage.regions[0].put(&job(1, "[1]", "null"), 1);
    bed.stage.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    let (code, open) = order(&bed, "replay", 1, json!({})).await;
    assert_eq!(code, 200, "{open}");
    let path = format!("/api/replays/{}", open["replay"]["id"].as_str().unwrap());
    let mut shown = Value::Null;
    eventually("the hub finds the new job", async || {
        shown = status(&bed.hubs, "eve", &Method::GET, &path).await.1;
        shown["replay"]["done"] == true
    })
    .await;
    assert_eq!((&shown["jobs"][0]["step"], bed.replayed()[&id(1)].len()), (&"replayed".into(), 1), "{shown}");
    assert_eq!(bed.counts(&Method::POST), [1, 0, 0]);
    // One that its region refuses ends with the order, and says why.
    let answer = FaultAnswer::error_document(http::StatusCode::UNPROCESSABLE_ENTITY, "queue_paused");
    bed.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    let (code, refused) = order(&bed, "replay", 1, json!({})).await;
    assert_eq!((code, &refused["error"]["code"]), (409, &"region_refused".into()), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("us-east-1 answers 422 queue_paused"), "{refused}");
    // So does one that certainly was not sent.
    let answer = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    bed.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    let (code, refused) = order(&bed, "replay", 1, json!({})).await;
    assert_eq!((code, &refused["error"]["code"]), (503, &"region_unavailable".into()), "{refused}");
    assert_eq!(bed.replayed()[&id(1)].len(), 1);
}

/// The state of a replay once it is done.
async fn ended(bed: &Bed, name: &str) -> Value {
    let mut shown = Value::Null;
    eventually("the replay is done", async || {
        shown = status(&bed.hubs, "eve", &Method::GET, &format!("/api/replays/{name}")).await.1;
        shown["replay"]["done"] == true
    })
    .await;
    shown
}

#[tokio::test]
async fn a_new_job_that_a_balancer_forwards_and_answers_with_503_is_stored_once() {
    let (bed, _hub) = Bed::new().await;
    for (number, status) in [(1, 503), (2, 404), (3, 408), (4, 422)] {
        bed.stage.regions[0].put(&job(number, "[1]", "null"), 1);
        let status = http::StatusCode::from_u16(status).unwrap();
        let answer = FaultAnswer { status, ..FaultAnswer::page() };
        bed.stage.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: true });
        let name = format!("at-{number}");
        let (code, open) = order(&bed, "replay", number, json!({ "replay_id": name })).await;
        assert_eq!(code, 200, "nothing says that it was not run again: {open}");
        let shown = ended(&bed, &name).await;
        assert_eq!((&shown["jobs"][0]["step"], bed.replayed()[&id(number)].len()), (&"replayed".into(), 1), "{shown}");
    }
    assert_eq!(bed.counts(&Method::POST), [4, 0, 0]);
}
