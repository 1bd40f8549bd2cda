//! The tour: each step acts as a user, shows the result, and checks it at the regions.

mod fleet;
mod scheduling;
mod step;
mod worker;

use http::Method;
use serde_json::{Value, json};

use super::say;
use super::stage::{IDS, Stage, TIMINGS};
use crate::cli::client::Answer;
use ojs_testbed::DemoRegion;
use step::{Told, ask, check, region, region_of, step, text, until};

/// Plays the whole tour.
///
/// Errors: a sentence with the step that failed.
pub(super) async fn play(stage: &Stage) -> Told {
    introduce(stage).await?;
    ordinary_job(stage).await?;
    overflow_burst(stage).await?;
    pinned_job(stage).await?;
    dry_run(stage).await?;
    local_region_stops(stage).await?;
    pinned_region_stops(stage).await?;
    both_come_back(stage).await?;
    worker::drain(stage).await?;
    scheduling::share(stage).await?;
    match &stage.fleet {
        Some(with_hub) => fleet::drain(stage, with_hub).await,
        None => Ok(()),
    }
}

async fn introduce(stage: &Stage) -> Told {
    say("An application talks plain HTTP to the sidecar on localhost; the sidecar talks mutual TLS to three regions.");
    say(format_args!("  sidecar   http://{}   metrics http://{}/metrics", stage.client, stage.admin));
    for (region, role) in stage.regions.iter().zip(["local", "remote", "remote"]) {
        say(format_args!("  {:<10} {}   {role}, own CA, client certificates required", region.id(), region.url()));
    }
    say("Timings are shorter than the defaults, so that the tour takes seconds:");
    for line in TIMINGS.lines() {
        say(format_args!("  {line}"));
    }
    until("all regions are healthy", async || statuses(stage).await == ["healthy"; 3]).await
}

async fn ordinary_job(stage: &Stage) -> Told {
    step(stage, 1, "An ordinary job, from a client that knows nothing of regions");
    let answer = enqueue(stage, json!({"type": "email.send", "args": ["ada@example.com"]})).await?;
    show(&answer);
    say("  affinity, the usual strategy, is the local region while it is well, else the nearest one that is");
    check(region_of(&answer) == IDS[0], "the job is in the local region")
}

async fn overflow_burst(stage: &Stage) -> Told {
    step(stage, 2, "A burst of 60 jobs with region_affinity \"overflow\": spread over the least loaded regions");
    let mut counts = [0; 3];
    for number in 0..60 {
        let job = json!({"type": "video.transcode", "args": [number], "options": {"queue": "video"},
                         "meta": {"ojs.federation.region_affinity": "overflow"}});
        let answer = enqueue(stage, job).await?;
        if let Some(place) = IDS.iter().position(|id| *id == region_of(&answer)) {
            counts[place] += 1;
        }
    }
    for (id, count) in IDS.iter().zip(counts) {
        say(format_args!("  {id:<10} {count:>3} jobs  {}", "#".repeat(count)));
    }
    check(counts.iter().sum::<usize>() == 60, "all 60 jobs are stored")?;
    check(counts.iter().all(|count| *count > 0), "every region took some")
}

async fn pinned_job(stage: &Stage) -> Told {
    step(stage, 3, "A job pinned to eu-west-1 (geo-pin): it runs there or nowhere");
    let answer = enqueue(stage, pinned("usr_12345")).await?;
    show(&answer);
    check(region_of(&answer) == IDS[1], "the job is in eu-west-1")?;
    check(regions_that_saw(stage, "usr_12345") == [IDS[1]], "no byte of it reached another region")
}

async fn dry_run(stage: &Stage) -> Told {
    step(stage, 4, "A dry run: where would a job go, and why (POST /v1/federation/route)");
    let body = json!({"type": "email.send", "args": [], "meta": {"ojs.federation.region_affinity": "affinity"}});
    let document = ask(stage, Method::POST, "/v1/federation/route", Some(body)).await?;
    let document: Value = serde_json::from_slice(&document.1).map_err(|error| error.to_string())?;
    say(format_args!("  target {}, strategy {}", text(&document["target_region"]), text(&document["strategy"])));
    say(
        "  tried from the top; the score is 1 for the local region, and lower the longer the probes of another one take",
    );
    for candidate in document["candidates"].as_array().into_iter().flatten() {
        say(format_args!(
            "  {:<10} score {:<5} {}",
            text(&candidate["id"]),
            candidate["score"].to_string(),
            text(&candidate["reason"])
        ));
    }
    check(document["target_region"] == IDS[0], "the dry run names the local region")
}

async fn local_region_stops(stage: &Stage) -> Told {
    step(stage, 5, "us-east-1 stops: jobs flow on to the next region");
    region(stage, 0)?.stop().await;
    let answer = enqueue(stage, json!({"type": "email.send", "args": ["during the outage"]})).await?;
    show(&answer);
    check(answer.0.status == 201 && region_of(&answer) != IDS[0], "the job is stored in another region")?;
    until("the breaker of us-east-1 is open", async || breaker(stage, 0).await == "open").await?;
    say("  the breaker of us-east-1 is open: no request and no probe goes there until the cooldown is over");
    let answer = enqueue(stage, json!({"type": "email.send", "args": ["breaker open"]})).await?;
    check(answer.0.status == 201, "the next job does not even try us-east-1")
}

async fn pinned_region_stops(stage: &Stage) -> Told {
    step(stage, 6, "eu-west-1 stops too: a job pinned to it is refused, and goes nowhere");
    region(stage, 1)?.stop().await;
    until("eu-west-1 is known to be down", async || status(stage, 1).await == "unhealthy").await?;
    let answer = enqueue(stage, pinned("usr_never_leaves")).await?;
    show(&answer);
    say(format_args!("  {}", String::from_utf8_lossy(&answer.1)));
    check(answer.0.status == 503, "the answer is 503 with Retry-After")?;
    check(regions_that_saw(stage, "usr_never_leaves").is_empty(), "no region received a byte of it")
}

async fn both_come_back(stage: &Stage) -> Told {
    step(
        stage,
        7,
        "Both regions come back: probes find that out, and an open breaker lets exactly one through to decide",
    );
    for place in [0, 1] {
        region(stage, place)?.resume().await.map_err(|error| error.to_string())?;
    }
    until("all regions are healthy again", async || statuses(stage).await == ["healthy"; 3]).await?;
    for (place, id) in IDS.iter().enumerate() {
        check(breaker(stage, place).await == "closed", &format!("the breaker of {id} is closed"))?;
    }
    let answer = enqueue(stage, pinned("usr_after_recovery")).await?;
    show(&answer);
    check(region_of(&answer) == IDS[1], "the pinned job is in eu-west-1")?;
    say("  flexible jobs come back bit by bit, over the second of circuit_breaker.slow_start");
    until("the slow start is over", async || stage.has_settled()).await?;
    let answer = enqueue(stage, json!({"type": "email.send", "args": ["after the recovery"]})).await?;
    show(&answer);
    check(region_of(&answer) == IDS[0], "an ordinary job is in the local region again")
}

fn show(answer: &Answer) {
    let named =
        |(what, name): (&str, &str)| answer.0.headers.get(name).map(|value| format!("  {what} {}", lossy(value)));
    let said = [
        ("region", "ojs-federation-region"),
        ("strategy", "ojs-federation-strategy"),
        ("attempts", "ojs-federation-attempts"),
        ("retry-after", "retry-after"),
    ];
    let said: String = said.into_iter().filter_map(named).collect();
    say(format_args!("  HTTP {}{said}", answer.0.status.as_u16()));
}

fn pinned(user: &str) -> Value {
    json!({"type": "user.data.export", "args": [user], "options": {"queue": "gdpr"},
           "meta": {"ojs.federation.region": IDS[1]}})
}

async fn enqueue(stage: &Stage, job: Value) -> Result<Answer, String> {
    ask(stage, Method::POST, "/ojs/v1/jobs", Some(job)).await
}

fn regions_that_saw<'a>(stage: &'a Stage, needle: &str) -> Vec<&'a str> {
    stage.regions.iter().filter(|region| region.record().contains(needle.as_bytes())).map(DemoRegion::id).collect()
}

async fn registry(stage: &Stage) -> Vec<Value> {
    let Ok((_, body)) = ask(stage, Method::GET, "/v1/federation/regions", None).await else { return Vec::new() };
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    document["regions"].as_array().cloned().unwrap_or_default()
}

async fn statuses(stage: &Stage) -> Vec<String> {
    registry(stage).await.iter().map(|region| text(&region["status"]).to_owned()).collect()
}

async fn status(stage: &Stage, place: usize) -> String {
    registry(stage).await.get(place).map(|region| text(&region["status"]).to_owned()).unwrap_or_default()
}

async fn breaker(stage: &Stage, place: usize) -> String {
    registry(stage).await.get(place).map(|region| text(&region["circuit_breaker"]).to_owned()).unwrap_or_default()
}

fn lossy(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
