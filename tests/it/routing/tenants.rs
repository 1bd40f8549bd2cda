//! Tenants and tags of regions, judged by where jobs land.

use http::Request;
use serde_json::json;

use super::land;
use crate::support::{Answer, Federation, IDS, Setup};

const TENANTS: &str = "
tenants:
  - { match: 'acme-*', regions: [us-east-1, eu-west-1], home: eu-west-1 }
  - { match: globex, home: ap-south-1 }
routing: { rules: [{ match: { queue: us }, target: { regions: [us-east-1, ap-south-1] } }] }";

fn job(tenant: &str, more: &str) -> String {
    format!(r#"{{"type":"t","args":["needle"],"meta":{{"tenant_id":"{tenant}"{more}}}}}"#)
}

async fn of_tenant(federation: &Federation, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let request = headers.iter().fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
    federation.client.send(request.header("content-type", "application/json"), body.to_owned()).await
}

#[tokio::test]
async fn the_tenant_of_a_job_names_its_home_and_narrows_its_pin() {
    let federation = Setup::default().yaml(TENANTS).start().await;
    let queue = |queue: &str| format!(r#"{{"type":"t","args":[],"queue":"{queue}"}}"#);
    for (headers, body, region) in [
        (&[][..], job("acme-1", ""), "eu-west-1"),
        (&[], job("globex", ""), "ap-south-1"),
        (&[], job("other", ""), "us-east-1"),
        (&[], job("acme-1", r#","ojs.federation.region":"us-east-1""#), "us-east-1"),
        (&[("X-OJS-Tenant", "acme-2")], queue("q"), "eu-west-1"),
        (&[("X-OJS-Tenant-Id", "globex")], queue("q"), "ap-south-1"),
        (&[("X-OJS-Tenant-Id", "globex")], job("globex", ""), "ap-south-1"),
        // Only what the rule and the tenant both permit.
        (&[("X-OJS-Tenant", "acme-2")], queue("us"), "us-east-1"),
    ] {
        let answer = of_tenant(&federation, "/ojs/v1/jobs", headers, &body).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (201, region), "{headers:?} {body}: {answer:?}");
        let dry = of_tenant(&federation, "/v1/federation/route", headers, &body).await.json();
        assert_eq!(dry["target_region"], region, "{headers:?} {body}");
    }
    let pinned = job("acme-1", r#","ojs.federation.region":"ap-south-1""#);
    federation.client.enqueue(pinned).await.check_error(403, "forbidden", "pin_not_permitted");
    let batch = format!(r#"{{"jobs":[{}]}}"#, queue("q"));
    let answer = of_tenant(&federation, "/ojs/v1/jobs/batch", &[("X-OJS-Tenant", "acme-2")], &batch).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    let workflow = format!(r#"{{"type":"chain","steps":[{}]}}"#, queue("q"));
    let answer = of_tenant(&federation, "/ojs/v1/workflows", &[("X-OJS-Tenant", "acme-2")], &workflow).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
}

#[tokio::test]
async fn a_cron_job_and_a_workflow_of_a_tenant_live_in_its_home() {
    let federation = Setup::default().yaml(TENANTS).start().await;
    let cron = |name: &str, meta: &str| {
        let job = format!(r#"{{"type":"t","args":[],"meta":{{{meta}}}}}"#);
        format!(r#"{{"name":"{name}","expression":"0 3 * * *","job_template":{job}}}"#)
    };
    let of_acme = r#""tenant_id":"acme-1""#;
    for (name, headers, meta, place) in [
        ("by-meta", &[][..], of_acme.to_owned(), 1),
        ("by-head", &[("X-OJS-Tenant", "globex")], String::new(), 2),
        ("pinned", &[], format!(r#"{of_acme},"ojs.federation.region":"us-east-1""#), 0),
        ("of-nobody", &[], String::new(), 0),
    ] {
        for _ in 0..2 {
            // Registered again, it means the same region.
            let answer = of_tenant(&federation, "/ojs/v1/cron", headers, &cron(name, &meta)).await;
            assert!(answer.status.is_success() || answer.status == 409, "{name}: {answer:?}");
            assert_eq!(answer.region(), IDS[place], "{name}: {answer:?}");
        }
        let jobs = federation.regions.iter().map(|region| region.record().requests_to("/ojs/v1/cron"));
        let written = jobs.map(|calls| calls.iter().filter(|it| it.method == http::Method::POST).count());
        assert_eq!(written.collect::<Vec<_>>()[place], 2, "{name}");
        federation.regions.iter().for_each(|region| region.record().clear());
    }
    let step = job("globex", "");
    let workflow = format!(r#"{{"type":"chain","steps":[{step}]}}"#);
    let answer = of_tenant(&federation, "/ojs/v1/workflows", &[], &workflow).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "ap-south-1"), "{answer:?}");
}

#[tokio::test]
async fn flexible_jobs_of_a_mixed_batch_go_to_the_home_of_their_tenant() {
    const YAML: &str = "tenants: [{ match: acme, home: ap-south-1 }, { match: here, home: us-east-1 }]";
    let federation = Setup::default().by_the_documents().yaml(YAML).start().await;
    let one = |kind: &str, meta: &str| format!(r#"{{"type":"{kind}","args":[],"meta":{{{meta}}}}}"#);
    let pin = |region: &str| format!(r#""ojs.federation.region":"{region}""#);
    let of = |tenant: &str| format!(r#""tenant_id":"{tenant}""#);
    for path in ["/ojs/v1/jobs/batch", "/ojs/v1/jobs/bulk"] {
        let jobs = [
            one("t.eu", &pin("eu-west-1")),
            one("t.acme", &of("acme")),
            one("t.us", &pin("us-east-1")),
            one("t.here", &of("here")),
            one("t.free", ""),
            one("t.bound", &format!("{},{}", of("acme"), pin("eu-west-1"))),
        ];
        let answer = of_tenant(&federation, path, &[], &format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        for (kind, place) in [("t.eu", 1), ("t.acme", 2), ("t.us", 0), ("t.here", 0), ("t.free", 0), ("t.bound", 1)] {
            assert_eq!(federation.seen(kind), [place], "{path} {kind}");
        }
    }
    // The home has a part of its own also where no pin leads there.
    let jobs = [one("u.eu", &pin("eu-west-1")), one("u.ap", &pin("ap-south-1")), one("u.here", &of("here"))];
    let answer =
        of_tenant(&federation, "/ojs/v1/jobs/batch", &[], &format!(r#"{{"jobs":[{}]}}"#, jobs.join(","))).await;
    assert_eq!((answer.status.as_u16(), federation.seen("u.here")), (201, vec![0]), "{answer:?}");
}

#[tokio::test]
async fn a_rule_and_a_tenant_bind_jobs_in_calls_that_nobody_knows_to_create_any() {
    const YAML: &str = "
tenants: [{ match: acme, regions: [eu-west-1] }]
routing: { rules: [{ match: { queue: eu }, target: { regions: [eu-west-1] } }] }";
    const CALLS: [(&str, &str); 5] = [
        ("PUT", "/ojs/v1/jobs"),
        ("QUERY", "/ojs/v1/jobs"),
        ("PUT", "/ojs/v1/jobs/0190"),
        ("POST", "/ojs/v2/jobs"),
        ("POST", "/ojs/v1/brand/new"),
    ];
    let federation = Setup::default().yaml(YAML).start().await;
    let send = async |(method, path): (&str, &str), headers: &[(&str, &str)], body: &str| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        federation.client.send(request, body.to_owned()).await
    };
    let queue = r#"{"type":"t","args":["needle"],"queue":"eu"}"#;
    let plain = r#"{"type":"t","args":["needle"]}"#;
    let head = &[("X-OJS-Tenant", "acme")][..];
    for call in CALLS {
        for (headers, body, status, reason) in [
            (&[][..], queue.to_owned(), 422, "routing_unsupported"),
            (&[], r#"{"type":"t","args":["needle"],"options":{"queue":"eu"}}"#.to_owned(), 422, "routing_unsupported"),
            (&[], format!(r#"{{"items":[{plain},{queue}]}}"#), 422, "routing_unsupported"),
            (&[], job("acme", ""), 422, "routing_unsupported"),
            (head, plain.to_owned(), 422, "routing_unsupported"),
            (head, job("other", ""), 400, "tenants_differ"),
            (&[], job("acme", r#","ojs.federation.region":"us-east-1""#), 403, "pin_not_permitted"),
            (&[], queue.replace(r#""eu""#, r#"["eu"]"#), 400, "ambiguous_member"),
        ] {
            let answer = send(call, headers, &body).await;
            assert_eq!(answer.status, status, "{call:?} {headers:?} {body}: {answer:?}");
            assert_eq!(answer.reason(), reason, "{call:?} {headers:?} {body}");
        }
        assert!(federation.seen("needle").is_empty(), "{call:?}");
        // What they leave free passes as it is.
        for body in [plain, r#" {"note":"needle", "url":1E400} "#] {
            send(call, &[], body).await;
            let received = federation.regions[0].record().requests_to(call.1).pop();
            assert_eq!(received.map(|it| it.body), Some(body.to_owned().into()), "{call:?} {body}");
            federation.regions.iter().for_each(|region| region.record().clear());
        }
    }
    let answer = federation.client.enqueue(queue).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "the same job where it is known as one");
}

#[tokio::test]
async fn a_job_of_a_tenant_fails_while_the_regions_of_that_tenant_are_down() {
    let yaml = "limits: { connect_timeout: 1s }\ntenants: [{ match: acme, regions: [eu-west-1] }]";
    let federation = Setup::default().yaml(yaml).start().await;
    federation.regions[1].stop().await;
    let answer = federation.client.enqueue(job("acme", "")).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(federation.seen("needle").is_empty());
}

#[tokio::test]
async fn two_tenants_of_one_job_are_refused_and_nothing_is_sent() {
    for yaml in ["", TENANTS] {
        let federation = Setup::default().yaml(yaml).start().await;
        let one = job("acme-1", "");
        for (headers, body) in [
            (&[("X-OJS-Tenant", "globex")][..], one.clone()),
            (&[("X-OJS-Tenant-Id", "globex")], one.clone()),
            (&[("X-OJS-Tenant", "acme-1"), ("X-OJS-Tenant-Id", "globex")], one.clone()),
            (&[("X-OJS-Tenant", "acme-1"), ("X-OJS-Tenant", "globex")], r#"{"type":"t","args":["needle"]}"#.to_owned()),
        ] {
            for (path, body) in [
                ("/ojs/v1/jobs", body.clone()),
                ("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{body}]}}"#)),
                ("/ojs/v1/workflows", format!(r#"{{"type":"chain","steps":[{body}]}}"#)),
            ] {
                let answer = of_tenant(&federation, path, headers, &body).await;
                answer.check_error(400, "invalid_request", "tenants_differ");
            }
        }
        assert!(federation.seen("needle").is_empty());
    }
}

#[tokio::test]
async fn tags_of_regions_are_shown_and_choose_among_them_for_rules_and_jobs() {
    let yaml = "routing: { strategy: round-robin, rules: [
      { match: { queue: train }, target: { regions_with: [gpu] } },
      { match: { queue: both }, target: { regions_with: [gpu, gdpr] } }] }";
    let tags = [("us-east-1", &["cheap"][..]), ("eu-west-1", &["gpu", "gdpr"]), ("ap-south-1", &["gpu"])];
    let setup = tags.iter().enumerate().fold(Setup::default(), |setup, (place, (_, tags))| {
        setup.region(place, &format!("tags: [{}]", tags.join(", ")))
    });
    let federation = setup.yaml(yaml).start().await;
    let regions = federation.client.get("/v1/federation/regions").await.json();
    for (region, (id, tags)) in regions["regions"].as_array().unwrap().iter().zip(tags) {
        assert_eq!((&region["id"], &region["tags"]), (&json!(id), &json!(tags)));
    }
    let asking = |tags: &str| format!(r#"{{"type":"t","args":[],"meta":{{"ojs.federation.regions_with":"{tags}"}}}}"#);
    for (body, permitted) in [
        (r#"{"type":"t","args":[],"queue":"train"}"#.to_owned(), &["eu-west-1", "ap-south-1"][..]),
        (r#"{"type":"t","args":[],"queue":"both"}"#.to_owned(), &["eu-west-1"]),
        (asking("gpu"), &["eu-west-1", "ap-south-1"]),
        (asking("gpu, gdpr"), &["eu-west-1"]),
        (asking("cheap"), &["us-east-1"]),
    ] {
        for _ in 0..4 {
            let answer = land(&federation, &body).await;
            assert!(permitted.contains(&answer.region()), "{body}: {}", answer.region());
        }
    }
    for meta in [
        r#""ojs.federation.regions_with":"tpu""#,
        r#""ojs.federation.regions_with":"cheap,gpu""#,
        r#""ojs.federation.regions_with":"""#,
        r#""ojs.federation.regions_with":"gpu","ojs.federation.region":"us-east-1""#,
    ] {
        let body = format!(r#"{{"type":"t","args":["needle"],"meta":{{{meta}}}}}"#);
        let error =
            federation.client.enqueue(body).await.check_error(400, "invalid_request", "invalid_federation_meta");
        assert_eq!(error["details"]["field"], "ojs.federation.regions_with");
    }
    assert!(federation.seen("needle").is_empty());
}

#[tokio::test]
async fn tags_that_a_job_asks_for_hold_wherever_they_stand_and_for_its_reading() {
    let setup = Setup::default().region(1, "tags: [gdpr]").yaml("residency: { read: deny, read_lists: deny }");
    let federation = setup.start().await;
    let stray = r#"{"type":"t","args":["canary"],"ojs.federation.regions_with":"gdpr"}"#;
    federation.client.enqueue(stray).await.check_error(400, "invalid_request", "invalid_federation_meta");
    let job = r#"{"type":"t","args":["canary"],"meta":{"ojs.federation.regions_with":"gdpr"}}"#;
    let put = federation.client.call(http::Method::PUT, "/ojs/v1/jobs", job).await;
    assert_eq!(put.status, 422, "{put:?}");
    assert_eq!(federation.seen("canary"), [0; 0]);
    let id = federation.client.enqueue(job).await.job_id();
    assert_eq!(federation.client.get(&format!("/ojs/v1/jobs/{id}")).await.status, 403);
}
