//! The step with a hub: one order for three sidecars.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::step::{Told, check, region_of, step, until};
use crate::cli::client::{ask, ask_hub};
use crate::cli::demo::fleet::Fleet;
use crate::cli::demo::stage::{IDS, Stage};
use crate::cli::out::say;

/// Drains the local region at the hub, and shows where each sidecar then sends an ordinary job.
pub(super) async fn drain(stage: &Stage, fleet: &Fleet) -> Told {
    step(stage, 10, "A hub: one order drains us-east-1 for three sidecars");
    until("the hub has three sidecars", async || connected(fleet).await == 3).await?;
    say("  $ ojs-sidecar drain us-east-1 --for 1m --reason \"disk exchange\" --ticket DEMO-1 --author you --hub ...");
    order(fleet, Method::PUT, "switch=drain&region=us-east-1&for=1m").await?;
    let all: Vec<SocketAddr> = std::iter::once(stage.client).chain(fleet.clients.iter().copied()).collect();
    until("no sidecar uses the region", async || !used(&all).await.contains(&IDS[0].to_owned())).await?;
    for (sidecar, region) in all.iter().zip(used(&all).await) {
        say(format_args!("  sidecar http://{sidecar}  ->  {region}"));
    }
    check(all.len() == 3, "an ordinary job of each sidecar left the region")?;
    order(fleet, Method::DELETE, "region=us-east-1").await?;
    until("all use the region again", async || used(&all).await == [IDS[0]; 3]).await?;
    check(true, "undrain: the jobs of all three are in the local region again")
}

/// Where each sidecar sends an ordinary job.
async fn used(sidecars: &[SocketAddr]) -> Vec<String> {
    let mut regions = Vec::new();
    for sidecar in sidecars {
        let job = json!({"type": "email.send", "args": ["fleet"]}).to_string().into();
        let answer = ask(&sidecar.to_string(), Method::POST, "/ojs/v1/jobs", job).await;
        regions.push(answer.map(|answer| region_of(&answer).to_owned()).unwrap_or_default());
    }
    regions
}

async fn connected(fleet: &Fleet) -> usize {
    let Ok((_, body)) = ask_hub(&fleet.hub.operator, Method::GET, "/v1/hub/sidecars", Bytes::new()).await else {
        return 0;
    };
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    document["sidecars"].as_array().map_or(0, |all| all.iter().filter(|it| it["connected"] == true).count())
}

async fn order(fleet: &Fleet, method: Method, query: &str) -> Told {
    let path = format!("/v1/hub/switches?{query}&reason=disk%20exchange&ticket=DEMO-1&author=you");
    let (head, body) = ask_hub(&fleet.hub.operator, method, &path, Bytes::new()).await?;
    if head.status.is_success() {
        return Ok(());
    }
    Err(format!("the hub answered {}: {}", head.status, String::from_utf8_lossy(&body)))
}
