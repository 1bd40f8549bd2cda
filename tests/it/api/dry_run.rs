//! `POST route`: where a job would go, and why, without sending it.

use ojs_sidecar::base::Draw;
use ojs_testbed::{Fault, When};
use serde_json::{Value, json};

use super::{dry_run, members};
use crate::support::{Federation, IDS, Setup};

/// Checks what every dry run has, and returns the ids of its candidates with a score.
#[track_caller]
fn candidates(document: &Value) -> Vec<&str> {
    let candidates = document["candidates"].as_array().unwrap();
    let mut ids: Vec<&str> = candidates.iter().map(|it| it["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["ap-south-1", "eu-west-1", "us-east-1"], "{document}");
    let mut before = 1.0;
    for candidate in candidates {
        assert_eq!(members(candidate), ["id", "reason", "score"]);
        let score = candidate["score"].as_f64().unwrap();
        assert!((0.0..=before).contains(&score), "{document}");
        assert!(!candidate["reason"].as_str().unwrap().is_empty());
        before = score;
    }
    let usable = candidates.iter().filter(|it| it["score"].as_f64() > Some(0.0));
    usable.map(|it| it["id"].as_str().unwrap()).collect()
}

fn asking(meta: &str) -> String {
    format!(r#"{{"type":"t","args":[],"meta":{{{meta}}}}}"#)
}

#[tokio::test]
async fn a_dry_run_names_target_strategy_and_every_region_with_score_and_reason() {
    let federation = Federation::start().await;
    let document = dry_run(&federation, r#"{"type":"email.send"}"#).await;
    assert_eq!(members(&document), ["candidates", "strategy", "target_region"]);
    assert_eq!((&document["target_region"], &document["strategy"]), (&json!("us-east-1"), &json!("affinity")));
    assert_eq!(candidates(&document).len(), 3);
    assert_eq!(document["candidates"][0], json!({ "id": "us-east-1", "score": 1.0, "reason": "local, healthy" }));
    let pinned = dry_run(&federation, &asking(r#""ojs.federation.region":"eu-west-1""#)).await;
    assert_eq!((&pinned["target_region"], &pinned["strategy"]), (&json!("eu-west-1"), &json!("geo-pin")));
    assert_eq!(candidates(&pinned), ["eu-west-1"]);
    assert!(pinned["candidates"][1]["reason"].as_str().unwrap().contains("pinned elsewhere"));
    assert_eq!(federation.job_requests(), [0, 0, 0], "nothing is sent");
}

#[tokio::test]
async fn a_job_that_would_be_refused_has_no_target_and_the_error_of_a_live_call() {
    let yaml = "routing: { rules: [{ match: { job_type: ruled }, target: { region: us-east-1 } }] }";
    let federation = Setup::default().steered().yaml(yaml).start().await;
    let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
    federation.regions[1].faults().add(When::health(), fault);
    federation.advance_until_health(1, "unhealthy").await;
    let pin = r#""ojs.federation.region":"#;
    for (body, status) in [
        (asking(&format!(r#"{pin}"eu-west-1""#)), 503),
        (asking(&format!(r#"{pin}"mars-1""#)), 400),
        (asking(&format!(r#"{pin}"ap-south-1""#)).replace(r#""t""#, r#""ruled""#), 403),
        (asking(r#""ojs.federation.region_affinity":"geo-pin""#), 400),
        (asking(r#""ojs.federation.region_affinity":"fastest""#), 400),
    ] {
        let document = dry_run(&federation, &body).await;
        assert_eq!(members(&document), ["candidates", "error", "status", "strategy", "target_region"]);
        assert_eq!((&document["target_region"], &document["status"]), (&Value::Null, &json!(status)), "{document}");
        assert!(candidates(&document).is_empty());
        let live = federation.client.enqueue(body).await;
        assert_eq!(live.status, status);
        let (mut dry, mut live) = (document["error"].clone(), live.json()["error"].clone());
        assert!(dry["request_id"].take().is_string() && live["request_id"].take().is_string());
        assert_eq!(dry, live);
        assert_eq!(document["strategy"].is_null(), status != 503, "{document}");
    }
    assert_eq!(federation.job_requests(), [0, 0, 0]);
}

#[tokio::test]
async fn a_dry_run_warns_of_federation_keys_that_are_not_defined() {
    let federation = Federation::start().await;
    let document = dry_run(&federation, &asking(r#""ojs.federation.residency":"eu-west-1","team":"x""#)).await;
    assert_eq!(members(&document), ["candidates", "strategy", "target_region", "warnings"]);
    assert_eq!(document["warnings"].as_array().map(Vec::len), Some(1));
    let warning = &document["warnings"][0];
    assert_eq!(
        (&warning["code"], &warning["key"]),
        (&json!("unknown_federation_key"), &json!("ojs.federation.residency"))
    );
    assert!(warning["message"].as_str().unwrap().contains("ojs.federation.region"), "{warning}");
}

#[tokio::test]
async fn a_body_that_is_no_job_is_refused_as_a_live_call_refuses_it() {
    let federation = Federation::start().await;
    for body in ["", "{", "[]", r#"{"meta":[]}"#, r#"{"Meta":{}}"#, r#"{"id":"a","id":"b"}"#] {
        let dry = federation.client.post("/v1/federation/route", body).await;
        let live = federation.client.enqueue(body).await;
        let reason = live.reason();
        dry.check_error(400, live.json()["error"]["code"].as_str().unwrap(), &reason);
    }
    let request = http::Request::post("/v1/federation/route").header("content-encoding", "gzip");
    federation.client.send(request, "{}").await.check_error(400, "invalid_request", "content_encoding");
}

/// Every counter that a job could move.
async fn counters(federation: &Federation) -> Vec<String> {
    let metrics = federation.admin.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let of_a_job = |line: &&str| {
        line.starts_with("ojs_federation_")
            && !line.contains(r#"class="federation""#)
            && !["uptime", "client_connections", "load_age"].iter().any(|name| line.contains(name))
    };
    text.lines().filter(of_a_job).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_dry_run_moves_no_counter_and_takes_no_turn() {
    let federation = Setup::default().steered().start().await;
    let round_robin = asking(r#""ojs.federation.region_affinity":"round-robin""#);
    let before = counters(&federation).await;
    assert!(before.len() > 100);
    for turn in IDS.iter().cycle().take(7) {
        for _ in 0..5 {
            assert_eq!(dry_run(&federation, &round_robin).await["target_region"], *turn);
        }
        for body in [
            asking(r#""ojs.federation.region":"nowhere""#),
            asking(r#""ojs.federation.replicated_from":"x""#),
            asking(r#""ojs.federation.region_affinity":"overflow""#),
        ] {
            dry_run(&federation, &body).await;
        }
        if *turn == IDS[0] && federation.job_requests() == [0, 0, 0] {
            assert_eq!(counters(&federation).await, before);
        }
        assert_eq!(federation.client.enqueue(round_robin.clone()).await.region(), *turn);
    }
    assert_ne!(counters(&federation).await, before, "what is compared does count jobs");
}

#[tokio::test]
async fn live_calls_agree_with_dry_runs_for_random_jobs() {
    let yaml = "
failover: { prefer_regions: [ap-south-1] }
routing:
  geographic: { meta_key: country, regions: { DE: eu-west-1, IN: ap-south-1, US: us-east-1 } }
  rules:
    - { match: { queue: 'gdpr*' }, target: { region: eu-west-1 } }
    - { match: { job_type: 'ml.*', tags: [gpu] }, target: { regions: [us-east-1, ap-south-1], strategy: active-passive } }
    - { match: { meta: { tenant: acme } }, target: { strategy: round-robin } }";
    let federation = Setup::default().steered().yaml(yaml).start().await;
    let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
    federation.regions[0].faults().add(When::health().next(2), fault);
    federation.advance_until_health(0, "unhealthy").await;
    let mut draw = Draw::from_seed(7);
    let mut seen = std::collections::BTreeMap::new();
    for round in 0..220 {
        if round == 110 {
            // Past the ramp after the recovery, which draws at random.
            federation.advance_until("a recovery", || federation.health(0) == "healthy").await;
            federation.advance(std::time::Duration::from_secs(11));
        }
        let body = random_job(&mut draw);
        let dry = dry_run(&federation, &body).await;
        candidates(&dry);
        let live = federation.client.enqueue(body.clone()).await;
        let status = dry["status"].as_u64().unwrap_or(201);
        assert_eq!(u64::from(live.status.as_u16()), status, "{body}: {dry}");
        if status == 201 {
            assert_eq!(dry["target_region"], live.region(), "{body}: {dry}");
        } else {
            assert_eq!(dry["error"]["details"], live.json()["error"]["details"], "{body}");
        }
        assert_eq!(dry["strategy"].as_str(), live.header("ojs-federation-strategy"), "{body}");
        *seen.entry((status, live.region().to_owned())).or_insert(0) += 1;
    }
    assert!(seen.len() >= 6, "the jobs are varied: {seen:?}");
}

/// A job with anything that routing looks at, under strategies that do not draw.
fn random_job(draw: &mut Draw) -> String {
    let mut pick = |from: &[&str]| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "small"
        )]
        let place = (draw.unit() * from.len() as f64) as usize;
        from[place].to_owned()
    };
    let region = pick(&["", "", "", "", "us-east-1", "eu-west-1", "ap-south-1", "mars-1"]);
    let affinity = pick(&["", "", "affinity", "active-passive", "round-robin", "geographic", "geo-pin", "fastest"]);
    let mut meta = vec![format!(r#""country":"{}""#, pick(&["DE", "IN", "US", "FR"]))];
    meta.push(format!(r#""tenant":"{}""#, pick(&["acme", "other"])));
    if !region.is_empty() {
        meta.push(format!(r#""ojs.federation.region":"{region}""#));
    }
    if !affinity.is_empty() {
        meta.push(format!(r#""ojs.federation.region_affinity":"{affinity}""#));
    }
    let meta = meta.join(",");
    let place = match pick(&["meta", "metadata"]).as_str() {
        "meta" => format!(r#""meta":{{{meta}}},"options":{{"#),
        _ => format!(r#""options":{{"metadata":{{{meta}}},"#),
    };
    let (kind, tag, queue) =
        (pick(&["ml.train", "mail"]), pick(&["gpu", "cpu"]), pick(&["default", "gdpr-1", "video"]));
    format!(r#"{{"type":"{kind}","args":[],{place}"tags":["{tag}"],"queue":"{queue}"}}}}"#)
}
