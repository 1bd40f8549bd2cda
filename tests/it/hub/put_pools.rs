//! Pools of workers that operators put at a hub: orders and their refusals in both records, and the sidecars that keep to them. Judged by
//! the calls and the active jobs at the region.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use ojs_testbed::JobState;
use serde_json::{Value, json};

use super::INFO;
use super::later::LaterHub;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, connected, status};
use crate::support::{Answer, Process, Stage, eventually};

const POOLS: &str = "/ojs/v1/admin/pools";
const FETCH: &str = "/ojs/v1/workers/fetch";
const ACK: &str = "/ojs/v1/workers/ack";

fn path(name: &str) -> String {
    format!("{POOLS}/{name}?reason=year%20end&ticket=OPS-7&author=ana")
}

/// Puts a pool at the first hub; the status and the document.
async fn put(stage: &HubStage, who: &str, name: &str, body: &Value) -> (u16, Value) {
    put_text(stage, who, name, body.to_string()).await
}

async fn put_text(stage: &HubStage, who: &str, name: &str, body: String) -> (u16, Value) {
    let request = Request::builder().method(Method::PUT).uri(path(name)).header("host", "hub");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let (head, body) = connected(stage, Some(who)).await.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

async fn delete(stage: &HubStage, name: &str) {
    let (code, done) = status(stage, "ann", &Method::DELETE, &path(name)).await;
    assert_eq!((code, &done["deleted"]["name"]), (200, &json!(name)), "{done}");
}

/// A sidecar with a name and a journal of its own.
async fn sidecar(federation: &Stage, name: &str) -> Process {
    let journal = format!("journal.path={}", federation.files.path().join(format!("journal-{name}")).display());
    let name = format!("hub.name={name}");
    Process::run(&federation.config, &[&INFO[..], &["--set", &name, "--set", &journal]].concat()).await
}

async fn fetch(sidecar: &Process, queues: &[&str], pool: Option<&str>, count: u64) -> Answer {
    let mut body = json!({ "queues": queues, "count": count, "worker_id": "w", "visibility_timeout_ms": 60_000 });
    if let Some(pool) = pool {
        body["pool"] = pool.into();
    }
    sidecar.client.post(FETCH, body.to_string()).await
}

fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = answer.json();
    document["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a sidecar has these pools.
async fn has_pools(sidecar: &Process, expected: &[&str]) {
    eventually("the sidecar has the pools of the hub", async || {
        let shown = sidecar.client.get(POOLS).await;
        let items = if shown.status == 200 { shown.json()["items"].clone() } else { json!([]) };
        let names: Vec<&str> = items.as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
        names == expected
    })
    .await;
}

/// The jobs that come until the region has so many active ones.
async fn fill(federation: &Stage, sidecars: [&Process; 2], active: usize) -> Vec<(usize, String)> {
    let mut came = Vec::new();
    eventually("the places of the pool are taken", async || {
        for (place, sidecar) in sidecars.iter().enumerate() {
            came.extend(ids(&fetch(sidecar, &["payments"], None, 3).await).into_iter().map(|id| (place, id)));
        }
        federation.regions[0].jobs().count_in(JobState::Active) == active
    })
    .await;
    came
}

/// The last FETCH that reached the region, as its body.
fn last_fetch(federation: &Stage) -> Value {
    let record = federation.regions[0].record();
    let last = record.requests_to(FETCH).last().map(|it| it.body.clone()).unwrap_or_default();
    serde_json::from_slice(&last).unwrap()
}

/// The whole life of a pool: put at a hub, kept to by two sidecars, changed, kept over restarts, and deleted.
async fn isolates_and_bounds(stage: &HubStage, replicas: &[usize]) {
    let mut hubs: Vec<Hub> = Vec::new();
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    let federation = stage.federation("one", "").await;
    let region = &federation.regions[0];
    let [one, two] = [sidecar(&federation, "one").await, sidecar(&federation, "two").await];
    let pool = json!({ "queues": ["payments"], "concurrency": 4, "strategy": "strict", "isolated": true });
    let (code, done) = put(stage, "ann", "pay", &pool).await;
    assert_eq!((code, &done["changed"], &done["durable"]), (200, &json!(true), &json!(true)), "{done}");
    assert_eq!(put(stage, "ann", "general", &json!({ "queues": ["default"] })).await.0, 200);
    for sidecar in [&one, &two] {
        has_pools(sidecar, &["general", "pay"]).await;
        let foreign = fetch(sidecar, &["payments"], Some("general"), 1).await;
        foreign.check_error(403, "forbidden", "pool_isolated");
        assert_eq!(ids(&fetch(sidecar, &["payments", "other"], None, 1).await), [""; 0]);
        assert_eq!(last_fetch(&federation)["queues"], json!(["other"]), "the isolated queue is cut out");
    }
    region.fill("payments", 40);
    let came = fill(&federation, [&one, &two], 4).await;
    for sidecar in [&one, &two] {
        assert_eq!(ids(&fetch(sidecar, &["payments"], None, 4).await), [""; 0], "all places are taken");
    }
    assert_eq!(region.most_active("payments"), 4);
    // A change is in force without a restart, and the jobs that are held keep their places.
    let wider = json!({ "queues": ["payments"], "concurrency": 6, "strategy": "strict", "isolated": true });
    assert_eq!(put(stage, "ann", "pay", &wider).await.1["changed"], true);
    let more = fill(&federation, [&one, &two], 6).await;
    assert_eq!(region.most_active("payments"), 6);
    for (place, id) in came.iter().chain(&more).take(1) {
        let done = [&one, &two][*place].client.post(ACK, format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
        assert_eq!(done.status, 200, "{done:?}");
    }
    fill(&federation, [&one, &two], 6).await;
    assert_eq!(region.most_active("payments"), 6);
    // All hubs end; a sidecar that is killed meanwhile knows the pools by its journal.
    hubs.iter_mut().for_each(Hub::kill);
    hubs.clear();
    drop(two);
    let two = sidecar(&federation, "two").await;
    fetch(&two, &["payments"], Some("general"), 1).await.check_error(403, "forbidden", "pool_isolated");
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    let last = *replicas.last().unwrap();
    let listed = stage.command_at(last, "eve", &["pools", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{}", listed.all()));
    let shown = &listed["items"][1];
    assert_eq!((&shown["name"], &shown["concurrency"], &shown["author"]), (&json!("pay"), &json!(6), &json!("ana")));
    stage.follows("one").await;
    assert_eq!(ids(&fetch(&one, &["payments"], None, 4).await), [""; 0], "the bound holds over the restart");
    delete(stage, "pay").await;
    for sidecar in [&one, &two] {
        has_pools(sidecar, &["general"]).await;
        let named = fetch(sidecar, &["payments"], Some("pay"), 1).await;
        named.check_error(400, "invalid_request", "pool_unknown");
        assert_eq!(ids(&fetch(sidecar, &["payments", "other"], None, 5).await).len(), 5, "the bound is lifted");
    }
    assert_eq!(region.jobs().count_in(JobState::Active), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_put_at_the_hub_isolates_and_bounds_at_all_sidecars_until_it_is_deleted() {
    isolates_and_bounds(&HubStage::new(""), &[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_put_at_one_of_two_hubs_on_postgresql_isolates_and_bounds_at_all_sidecars() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    isolates_and_bounds(&stage.on_record(record), &[0, 1]).await;
}

#[tokio::test]
async fn a_wrong_pool_is_refused_with_its_member_and_changes_nothing() {
    let stage = HubStage::new("pools: [{ name: of-file, concurrency: 9 }]");
    let _hub = stage.run().await;
    assert_eq!(put(&stage, "ann", "pay", &json!({ "queues": ["payments"], "isolated": true })).await.0, 200);
    for (name, body, words) in [
        ("a", r#"{"concurrency":4}"#, ["`queues`: ", "one at least"]),
        ("a", r#"{"queues":["a"],"concurrency":0}"#, ["`concurrency`: ", "1 to 1000000"]),
        ("a", r#"{"queues":["a"],"strategy":"fair"}"#, ["`strategy`: ", "round-robin"]),
        ("a", r#"{"queues":["a"],"weights":{"a":3}}"#, ["`strategy`: ", "`weights` is set"]),
        ("a", r#"{"queues":["a"],"ttl":"60s"}"#, ["unknown field `ttl`", "no other member"]),
        ("a", r#"{"name":"b","queues":["a"]}"#, ["`name`: expected a", "path"]),
        ("a", r#"{"queues":["a","payments"]}"#, ["`queues[1]`: ", "the pool `pay` is isolated"]),
        ("a", r#"{"queues":["pay*"],"isolated":true}"#, ["`queues[0]`: ", "the pool `pay` is isolated"]),
        ("a/b", r#"{"queues":["a"]}"#, ["`name`", "path"]),
    ] {
        let (code, refused) = put_text(&stage, "ann", name, body.to_owned()).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(code == 400 && words.iter().all(|word| message.contains(word)), "{name} {body}: {refused}");
    }
    // Also without `concurrency`: sidecars would not know that the hub's file bounds the pool.
    for body in [json!({ "queues": ["a"], "concurrency": 4 }), json!({ "queues": ["a"] })] {
        let of_file = put(&stage, "ann", "of-file", &body).await;
        assert!(of_file.0 == 409 && of_file.1.to_string().contains("`name`: `pools`"), "{}", of_file.1);
    }
    let bare = format!("{POOLS}/pay?ticket=t&author=a");
    let (code, refused) = status(&stage, "ann", &Method::DELETE, &bare).await;
    assert!(code == 400 && refused.to_string().contains("`reason`"), "{refused}");
    let (code, refused) = put(&stage, "eve", "a", &json!({ "queues": ["a"] })).await;
    assert!(code == 403 && refused.to_string().contains("scope operate"), "{refused}");
    assert_eq!(put(&stage, "pod", "a", &json!({ "queues": ["a"] })).await.0, 403);
    assert_eq!(put_text(&stage, "ann", "a", "x".repeat(9_000)).await.0, 400, "longer than any pool");
    assert_eq!(status(&stage, "eve", &Method::GET, &format!("{POOLS}/a")).await.0, 404);
    let (code, shown) = status(&stage, "pod", &Method::GET, &format!("{POOLS}/pay")).await;
    assert_eq!((code, &shown["queues"], &shown["strategy"]), (200, &json!(["payments"]), &json!("round-robin")));
    let (_, listed) = status(&stage, "eve", &Method::GET, POOLS).await;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[tokio::test]
async fn a_hub_whose_record_forgets_takes_pools_and_no_bound() {
    let stage = HubStage::new("").with_record(String::new());
    let _hub = stage.run().await;
    let (code, refused) = put(&stage, "ann", "pay", &json!({ "queues": ["a"], "concurrency": 2 })).await;
    assert!(code == 409 && refused.to_string().contains("`concurrency`: a hub without"), "{refused}");
    let (code, done) = put(&stage, "ann", "pay", &json!({ "queues": ["a"] })).await;
    assert_eq!((code, &done["durable"]), (200, &json!(false)), "{done}");
}

#[tokio::test]
async fn commands_put_list_and_delete_pools_and_each_change_has_its_row() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let arguments = ["pools", "put", "pay", "--queue", "payments", "--queue", "refunds", "--concurrency", "9"];
    let weights = ["--strategy", "weighted", "--weight", "payments=3", "--longest-lease", "5m", "--isolated"];
    let floor = ["--min-dispatch-ratio", "0.1", "--rotation-interval", "PT10S"];
    let order = [&arguments[..], &weights, &floor].concat();
    let done = stage.order("ann", &order).await;
    assert!(done.code == Some(0) && done.stdout.contains("put: pay"), "{}", done.all());
    let again = stage.order("ann", &order).await;
    assert!(again.code == Some(0) && again.stdout.contains("there already"), "{}", again.all());
    let wrong = stage.order("ann", &["pools", "put", "pay", "--queue", "a", "--strategy", "fair"]).await;
    assert!(wrong.code == Some(1) && wrong.stderr.contains("`strategy`: "), "{}", wrong.all());
    let table = stage.command("eve", &["pools", "list"]).await;
    assert!(table.stdout.contains("payments,refunds") && table.stdout.contains("storm ahead"), "{}", table.all());
    let (_, shown) = status(&stage, "eve", &Method::GET, &format!("{POOLS}/pay")).await;
    let floor = json!({ "enabled": true, "min_dispatch_ratio": 0.1, "rotation_interval": "PT10S" });
    assert_eq!((&shown["starvation_prevention"], &shown["weights"]), (&floor, &json!({ "payments": 3 })), "{shown}");
    let done = stage.order("ann", &["pools", "delete", "pay"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("deleted: pay"), "{}", done.all());
    let done = stage.order("ann", &["pools", "delete", "pay"]).await;
    assert!(done.code == Some(1) && done.stderr.contains("pools list"), "{}", done.all());
    let (_, trail) = status(&stage, "ann", &Method::GET, "/v1/hub/audit").await;
    let rows: Vec<&str> = trail["rows"].as_array().unwrap().iter().map(|it| it["action"].as_str().unwrap()).collect();
    assert_eq!(rows, ["pool_put", "pool_deleted"], "a repetition has no row");
    assert!(trail["rows"][0]["subject"].as_str().unwrap().starts_with("pool pay {"), "{trail}");
}

#[tokio::test]
async fn a_pool_of_the_configuration_goes_before_that_of_the_hub_and_a_sidecar_takes_no_put() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let own = "scheduling: { pools: [{ name: pay, queues: [payments], strategy: strict }] }";
    let [federation, bare] = [stage.federation("one", own).await, stage.federation("two", "").await];
    let without = sidecar(&bare, "two").await;
    let body = json!({ "queues": ["payments"] }).to_string();
    for (path, method) in [(format!("{POOLS}/pay"), Method::PUT), (format!("{POOLS}/pay"), Method::DELETE)] {
        let refused = without.client.call(method, &path, body.clone()).await;
        let message = refused.check_error(405, "invalid_request", "method_not_allowed")["message"].to_string();
        assert!(message.contains("to the hub"), "{message}");
    }
    assert_eq!(bare.regions[0].record().requests_to(&format!("{POOLS}/pay")).len(), 0);
    for (name, body) in
        [("gpu", json!({ "queues": ["images"] })), ("pay", json!({ "queues": ["x"], "isolated": true }))]
    {
        assert_eq!(put(&stage, "ann", name, &body).await.0, 200);
    }
    let one = sidecar(&federation, "one").await;
    has_pools(&one, &["pay", "gpu"]).await;
    let shown = one.client.get(POOLS).await.json();
    assert_eq!((&shown["items"][0]["queues"], &shown["items"][0]["source"]), (&json!(["payments"]), &Value::Null));
    assert_eq!(shown["items"][1]["source"], "hub");
    eventually("the pool that is not in force is noted", async || {
        one.admin.get("/readyz").await.json()["notes"].to_string().contains("pool pay: the configuration has a pool")
    })
    .await;
    assert_eq!(put(&stage, "ann", "gpu", &json!({ "queues": ["images", "video"] })).await.0, 200);
    eventually("the change is in force", async || {
        one.client.get(POOLS).await.json()["items"][1]["queues"] == json!(["images", "video"])
    })
    .await;
    let refused = one.log().iter().filter(|it| it.contains("hub_pools_refused")).count();
    assert_eq!(refused, 1, "logged once");
}

#[tokio::test]
async fn the_feed_names_pools_to_a_sidecar_that_wants_them_and_to_no_other() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    assert_eq!(put(&stage, "ann", "pay", &json!({ "queues": ["payments"] })).await.0, 200);
    for (wants, is_named) in [(&[][..], false), (&["views"], false), (&["pools"], true), (&["regions", "pools"], true)]
    {
        let mut request = Request::builder().uri("/v1/hub/feed?sidecar=x").header("host", "hub");
        for word in wants {
            request = request.header("ojs-feed", *word);
        }
        let mut connection = connected(&stage, Some("pod")).await;
        let mut body =
            connection.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap().into_body();
        let mut seen = String::new();
        // The sign of life comes last.
        eventually("the feed begins", async || {
            seen.push_str(&String::from_utf8_lossy(&body.frame().await.unwrap().unwrap().into_data().unwrap()));
            seen.contains(": live")
        })
        .await;
        let whole = "event: pools\ndata: {\"pools\":[{\"name\":\"pay\",\"queues\":[\"payments\"]}]}";
        assert_eq!((seen.contains(whole), seen.contains("event: pools")), (is_named, is_named), "{wants:?}: {seen}");
    }
}

#[tokio::test]
async fn pools_of_a_later_hub_are_taken_as_far_as_they_can_be_read_and_an_earlier_hub_reads_views_first() {
    let mut stage = HubStage::new("");
    let hub = LaterHub::start(&mut stage).await;
    let federation = stage.federation("one", "health_check: { source: hub }").await;
    let one = sidecar(&federation, "one").await;
    hub.asked(1).await;
    let head = hub.received();
    assert!(head.contains(r#""ojs-feed": "views", "ojs-feed": "pools""#), "{head}");
    hub.say("event: pools\ndata: {\"pools\":[{\"queues\":[\"a\"]}]}\n\n");
    hub.say(
        "event: pools\ndata: {\"pools\":[{\"name\":\"gpu\",\"queues\":[\"images\"],\"mood\":1},{\"name\":\"pay\",\"queues\":[\"payments\"],\"isolated\":true}],\"later\":1}\n\n",
    );
    has_pools(&one, &["pay"]).await;
    eventually("the other pool is noted", async || {
        let notes = one.admin.get("/readyz").await.json()["notes"].to_string();
        notes.contains("pool gpu: mood: there is no such member")
    })
    .await;
    // The feed goes on: the sidecar opens it anew with the pools, and takes the next ones.
    hub.asked(2).await;
    hub.say("event: pools\ndata: [\n\n");
    hub.say("event: pools\ndata: {\"pools\":[]}\n\n");
    eventually("the pools are gone", async || {
        // With pools a name that there is not is refused.
        fetch(&one, &["payments"], Some("other"), 1).await.status == 200
    })
    .await;
}
