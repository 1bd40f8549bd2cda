//! Regions that operators put at a hub: orders, their refusals, both records, and the feed.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::postgres::Postgres;
use super::stage::{HubStage, connected, status};
use crate::support::eventually;

const WHY: &str = "reason=new%20hall&ticket=OPS-7&author=ana";

fn path(id: &str) -> String {
    format!("/v1/federation/regions/{id}?{WHY}")
}

/// Puts a region by one of the replicas; the status and the document.
async fn put(stage: &HubStage, who: &str, id: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(Method::PUT).uri(path(id)).header("host", "hub");
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let (head, body) = connected(stage, Some(who)).await.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

async fn ids(stage: &HubStage, replica: usize) -> Vec<String> {
    let shown = stage.command_at(replica, "eve", &["regions", "list", "--json"]).await;
    let document: Value = serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{}", shown.all()));
    document["regions"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

/// The same at any record: put, list, change, delete, each once, over a restart of all hubs.
async fn puts_lists_and_deletes(stage: &HubStage, replicas: &[usize]) {
    let mut hubs = Vec::new();
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    let url = "https://eu.example.com:8443";
    let (code, done) =
        put(stage, "ann", "eu-west-1", &json!({ "url": url, "weight": 2, "tags": ["b", "a"] }).to_string()).await;
    assert_eq!((code, &done["changed"], &done["durable"]), (200, &true.into(), &true.into()), "{done}");
    assert_eq!((&done["region"]["tags"], &done["region"]["author"]), (&json!(["a", "b"]), &"ana".into()));
    let again = ["regions", "put", "eu-west-1", "--url", url, "--weight", "2", "--tag", "a", "--tag", "b"];
    let last = *replicas.last().unwrap();
    let done = stage.order_at(last, "ann", &again).await;
    assert!(done.code == Some(0) && done.stdout.contains("there already"), "{}", done.all());
    let done = stage.order_at(last, "ann", &["regions", "put", "ap-south-1", "--url", "https://ap.example.com"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("put: ap-south-1"), "{}", done.all());
    for replica in replicas {
        assert_eq!(ids(stage, *replica).await, ["ap-south-1", "eu-west-1"]);
    }
    hubs.iter_mut().for_each(super::stage::Hub::kill);
    hubs.clear();
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    let table = stage.command("eve", &["regions", "list"]).await;
    assert!(table.stdout.contains(url) && table.stdout.contains("new hall"), "{}", table.all());
    let done = stage.order("ann", &["regions", "delete", "eu-west-1"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("deleted: eu-west-1"), "{}", done.all());
    for replica in replicas {
        assert_eq!(ids(stage, *replica).await, ["ap-south-1"]);
    }
    let done = stage.order("ann", &["regions", "delete", "eu-west-1"]).await;
    assert!(done.code == Some(1) && done.stderr.contains("regions list"), "{}", done.all());
    let (_, trail) = status(stage, "ann", &Method::GET, "/v1/hub/audit").await;
    let rows = trail["rows"].as_array().unwrap().iter();
    let rows: Vec<_> =
        rows.map(|it| format!("{} {}", it["action"].as_str().unwrap(), it["subject"].as_str().unwrap())).collect();
    assert_eq!(
        rows,
        [
            "region_put region eu-west-1 at https://eu.example.com:8443",
            "region_put region ap-south-1 at https://ap.example.com",
            "region_deleted region eu-west-1 at https://eu.example.com:8443",
        ],
        "a repetition has no row"
    );
    assert_eq!((&trail["rows"][0]["reason"], &trail["rows"][0]["ticket"]), (&"new hall".into(), &"OPS-7".into()));
}

#[tokio::test]
async fn regions_are_put_listed_and_deleted_in_a_file_and_each_change_has_its_row() {
    puts_lists_and_deletes(&HubStage::new(""), &[0]).await;
}

#[tokio::test]
async fn regions_are_put_listed_and_deleted_at_either_of_two_hubs_on_postgresql() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    puts_lists_and_deletes(&stage.on_record(record), &[0, 1]).await;
}

#[tokio::test]
async fn a_wrong_region_is_refused_with_its_member_and_one_too_many_with_the_bound() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    for (id, body, words) in [
        ("eu-west-1", r#"{"url":"http://eu.example.com"}"#, ["`url`: ", "https"]),
        ("eu-west-1", r#"{"url":"https://eu.example.com","weight":0}"#, ["`weight`: expected", "drain"]),
        ("eu-west-1", r#"{"url":"https://eu.example.com","tags":"gdpr"}"#, ["`tags`: expected", "leave it out"]),
        ("eu-west-1", r#"{"url":"https://eu.example.com","geo":"eu"}"#, ["unknown field `geo`", "no other member"]),
        ("eu-west-1", r#"{"id":"eu-west-2","url":"https://eu.example.com"}"#, ["`id`: expected eu-west-1", "path"]),
        ("EU", r#"{"url":"https://eu.example.com"}"#, ["`id`", "path"]),
        ("none", r#"{"url":"https://eu.example.com"}"#, ["`id`: ", "not `none`"]),
        ("a/b", r#"{"url":"https://eu.example.com"}"#, ["`id`", "path"]),
    ] {
        let (code, refused) = put(&stage, "ann", id, body).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(code == 400 && words.iter().all(|word| message.contains(word)), "{id} {body}: {refused}");
    }
    for (query, field) in [("ticket=t&author=a", "`reason`"), ("reason=r&ticket=t&author=a&force=true", "only")] {
        let bare = format!("/v1/federation/regions/a?{query}");
        let (code, refused) = status(&stage, "ann", &Method::DELETE, &bare).await;
        assert!(code == 400 && refused.to_string().contains(field), "{refused}");
    }
    let (code, refused) = put(&stage, "eve", "a", r#"{"url":"https://a.example.com"}"#).await;
    assert!(code == 403 && refused.to_string().contains("scope operate"), "{refused}");
    assert_eq!(put(&stage, "pod", "a", r#"{"url":"https://a.example.com"}"#).await.0, 403);
    assert_eq!(status(&stage, "ann", &Method::GET, "/v1/federation/regions/a").await.0, 405);
    assert_eq!(put(&stage, "ann", "a", &"x".repeat(5_000)).await.0, 400, "longer than any region");

    let mut connection = connected(&stage, Some("ann")).await;
    for number in 0..=200 {
        let request = Request::builder().method(Method::PUT).uri(path(&format!("r{number}"))).header("host", "hub");
        let request = request.body(Full::new(Bytes::from_static(br#"{"url":"https://a.example.com"}"#))).unwrap();
        connection.ready().await.unwrap();
        let (head, body) = connection.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(head.status == 200, number < 200, "{number}: {body:?}");
        if number == 200 {
            let body = String::from_utf8_lossy(&body).into_owned();
            assert!(head.status == 409 && body.contains("at most 200") && body.contains("delete one"), "{body}");
        }
    }
}

#[tokio::test]
async fn the_feed_names_regions_to_a_sidecar_that_wants_them_and_to_no_other() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    assert_eq!(put(&stage, "ann", "eu-west-1", r#"{"url":"https://eu.example.com"}"#).await.0, 200);
    let feed = async |wants: &[&str]| {
        let mut request = Request::builder().uri("/v1/hub/feed?sidecar=x").header("host", "hub");
        for word in wants {
            request = request.header("ojs-feed", *word);
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let mut connection = connected(&stage, Some("pod")).await;
        (connection.send_request(request).await.unwrap().into_body(), connection)
    };
    for (wants, is_named) in
        [(&[][..], false), (&["views"], false), (&["regions"], true), (&["views", "regions"], true)]
    {
        let (mut body, _connection) = feed(wants).await;
        let mut seen = String::new();
        // The sign of life comes last.
        eventually("the feed begins", async || {
            seen.push_str(&String::from_utf8_lossy(&body.frame().await.unwrap().unwrap().into_data().unwrap()));
            seen.contains(": live") || seen.contains("event: regions\ndata: {}")
        })
        .await;
        let whole = r#"data: {"regions":[{"id":"eu-west-1","url":"https://eu.example.com"}]}"#;
        assert_eq!((seen.contains(whole), seen.contains("event: regions")), (is_named, is_named), "{wants:?}: {seen}");
    }
}
