//! A configuration without the breakers of before.

use serde_json::json;

use super::super::stage::HubStage;
use super::{Receiver, ended, enqueued, federation, job, only, rows, settings, sidecar};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn without_any_breaker_in_the_configuration_open_incidents_are_closed_with_their_errands() {
    let (mut stage, receiver) = (HubStage::new(""), Receiver::start().await);
    stage.set_more(&settings("", &receiver.url).replace("pause: 2s, pause_most: 4s", "pause: 1h, pause_most: 2h"));
    let mut hub = stage.run().await;
    let federation = federation(&stage).await;
    let one = sidecar(&stage, &federation, "one", &[]).await;
    for _ in 0..4 {
        let (id, _) = enqueued(&federation, &one, job("mail.send", "acme", "mixed")).await;
        ended(&one, "mixed", &id, "nack").await;
    }
    let id = only(&stage, "open").await["id"].as_str().unwrap().to_owned();
    one.wait_for_line("ojs.federation.type_stopped").await;
    hub.kill();
    let before = settings("", &receiver.url);
    let more = before.lines().filter(|line| !line.starts_with("breakers:")).collect::<Vec<_>>().join("\n");
    assert!(before.contains("breakers:") && !more.contains("breakers:"), "{more}");
    stage.set_more(&more);
    let _hub = stage.again(0).await;
    let closed = only(&stage, "closed").await;
    assert_eq!((&closed["id"], &closed["closedBy"]["by"]), (&json!(id), &json!("configuration")));
    one.wait_for_line("ojs.federation.type_goes_on").await;
    eventually("both messages came", async || receiver.events().len() == 2).await;
    eventually("the trail has both rows", async || rows(&stage).await.len() == 2).await;
}
