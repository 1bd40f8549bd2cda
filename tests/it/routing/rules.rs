//! Where a strategy comes from, what rules permit, and what a drained region is.

use super::{asking, check, job, land};
use crate::support::{Federation, Setup};

#[tokio::test]
async fn a_pin_goes_before_a_named_strategy_before_a_rule_before_the_default() {
    let yaml = "
failover: { prefer_regions: [ap-south-1] }
routing:
  strategy: active-passive
  rules: [{ match: { queue: ruled }, target: { strategy: affinity } }]";
    let federation = Setup::default().yaml(yaml).start().await;
    let body = |meta: &str, queue: &str| {
        format!(r#"{{"type":"t","args":[],"meta":{{{meta}}},"options":{{"queue":"{queue}"}}}}"#)
    };
    let named = r#""ojs.federation.region_affinity":"active-passive""#;
    let pinned = format!(r#"{named},"ojs.federation.region":"eu-west-1""#);
    for (meta, queue, region, strategy) in [
        ("", "free", "ap-south-1", "active-passive"),
        ("", "ruled", "us-east-1", "affinity"),
        (r#""ojs.federation.region_affinity":null"#, "ruled", "us-east-1", "affinity"),
        (named, "ruled", "ap-south-1", "active-passive"),
        (&pinned, "ruled", "eu-west-1", "geo-pin"),
    ] {
        check(&land(&federation, &body(meta, queue)).await, region, strategy);
    }
}

#[tokio::test]
async fn every_strategy_can_be_the_default_and_geo_pin_then_means_the_local_region() {
    for strategy in
        ["affinity", "overflow", "geo-pin", "round-robin", "latency-based", "weighted", "active-passive", "geographic"]
    {
        let table = "geographic: { meta_key: country, regions: { DE: eu-west-1 } }";
        let yaml = format!("routing: {{ strategy: {strategy}, {table} }}");
        let federation = Setup::default().regions(2).yaml(&yaml).start().await;
        let answer = land(&federation, r#"{"type":"t","args":[]}"#).await;
        assert_eq!(answer.header("ojs-federation-strategy"), Some(strategy));
        if strategy == "geo-pin" {
            assert_eq!(answer.region(), "us-east-1");
        }
    }
}

#[tokio::test]
async fn the_first_rule_that_matches_in_all_its_conditions_decides_the_regions() {
    let yaml = "
routing:
  rules:
    - { match: { job_type: 'ml.*', tags: [gpu] }, target: { region: ap-south-1 } }
    - { match: { queue: 'gdpr-?' }, target: { regions: [eu-west-1] } }
    - { match: { meta: { tenant: acme, plan: gold } }, target: { region: eu-west-1 } }
    - { match: { job_type: 'ml.*' }, target: { region: eu-west-1 } }";
    let federation = Setup::default().yaml(yaml).start().await;
    for (body, region) in [
        (r#"{"type":"ml.train","args":[],"options":{"tags":["x","gpu"]}}"#, "ap-south-1"),
        (r#"{"type":"ml.train","args":[],"tags":["gpu"]}"#, "ap-south-1"),
        (r#"{"type":"ml.train","args":[],"tags":["x","gpu"],"options":{"tags":["gpu","x"]}}"#, "ap-south-1"),
        (r#"{"type":"ml.train","args":[],"tags":["gpu"],"options":{"tags":null}}"#, "ap-south-1"),
        (r#"{"type":"ml.train","args":[]}"#, "eu-west-1"),
        (r#"{"type":"\u006dl.train","args":[]}"#, "eu-west-1"),
        (r#"{"type":"xml.train","args":[]}"#, "us-east-1"),
        (r#"{"type":"t","args":[],"options":{"queue":"gdpr-1"}}"#, "eu-west-1"),
        (r#"{"type":"t","args":[],"queue":"gdpr-1"}"#, "eu-west-1"),
        (r#"{"type":"t","args":[],"options":{"queue":"gdpr-12"}}"#, "us-east-1"),
        (r#"{"type":"t","args":[],"meta":{"tenant":"acme","plan":"gold"}}"#, "eu-west-1"),
        (r#"{"type":"t","args":[],"meta":{"tenant":"acme"}}"#, "us-east-1"),
        (r#"{"type":"t","args":[],"options":{"metadata":{"plan":"gold","tenant":"acme"}}}"#, "eu-west-1"),
        // An empty options.metadata does not hide what a residency rule looks for.
        (r#"{"type":"t","args":[],"meta":{"tenant":"acme","plan":"gold"},"options":{"metadata":{}}}"#, "eu-west-1"),
    ] {
        let answer = land(&federation, body).await;
        assert_eq!(answer.region(), region, "{body}");
    }
}

const RESIDENCY: &str = "
routing:
  rules:
    - { match: { queue: 'secret-*' }, target: { regions: [eu-west-1] } }
    - { match: { tags: [pii] }, target: { regions: [eu-west-1] } }
    - { match: { meta: { residency: EU } }, target: { regions: [eu-west-1] } }";

/// Members of a job, and the one that could be read in two ways.
const UNCLEAR: &[(&str, &str)] = &[
    (r#""queue":"secret-1","options":{"queue":"default"}"#, "queue"),
    (r#""queue":"default","options":{"queue":"secret-1"}"#, "queue"),
    (r#""queue":"secret-1","options":{"queue":""}"#, "queue"),
    (r#""queue":["secret-1"]"#, "queue"),
    (r#""tags":["pii"],"options":{"tags":[]}"#, "tags"),
    (r#""tags":"pii""#, "tags"),
    (r#""tags":[["pii"]]"#, "tags"),
    (r#""meta":{"residency":"EU"},"options":{"metadata":{"residency":"US"}}"#, "meta.residency"),
    (r#""meta":{"residency":"EU","residency":"US"}"#, "meta.residency"),
    (r#""meta":{"residency":["EU"]}"#, "meta.residency"),
];

#[tokio::test]
async fn a_member_that_a_residency_rule_reads_and_servers_read_in_two_ways_is_refused() {
    let federation = Setup::default().yaml(RESIDENCY).start().await;
    for (members, field) in UNCLEAR {
        let step = format!(r#"{{"type":"t","args":["needle"],{members}}}"#);
        for (path, body) in [
            ("/ojs/v1/jobs", step.clone()),
            ("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{{"type":"u","args":[]}},{step}]}}"#)),
            ("/ojs/v1/workflows", format!(r#"{{"type":"chain","steps":[{step}]}}"#)),
            ("/ojs/v1/cron", format!(r#"{{"name":"n","cron":"0 9 * * *","job_template":{step}}}"#)),
        ] {
            let error =
                federation.client.post(path, body).await.check_error(400, "invalid_request", "ambiguous_member");
            assert_eq!(error["details"]["field"].as_str(), Some(*field), "{path} {members}");
        }
    }
    assert!(federation.seen("needle").is_empty());
}

#[tokio::test]
async fn contradictions_that_no_residency_rule_reads_pass_as_they_are() {
    let yaml = "routing: { rules: [{ match: { queue: 'secret-*' }, target: { strategy: affinity } }] }";
    let federation = Setup::default().yaml(yaml).start().await;
    for (members, _) in UNCLEAR.iter().filter(|(_, field)| *field != "tags") {
        let answer = federation.client.enqueue(format!(r#"{{"type":"t","args":[],{members}}}"#)).await;
        assert_ne!(answer.header("ojs-federation-region"), Some("none"), "{members}: {answer:?}");
    }
}

#[tokio::test]
async fn a_rule_narrows_a_pin_and_never_widens_it() {
    let yaml = "
routing: { rules: [{ match: { job_type: 'email.*' }, target: { regions: [us-east-1, eu-west-1] } }] }";
    let federation = Setup::default().yaml(yaml).start().await;
    let pinned = |region: &str| job(&format!(r#""ojs.federation.region":"{region}","m":"needle-{region}""#));
    check(&land(&federation, &pinned("eu-west-1")).await, "eu-west-1", "geo-pin");
    let error =
        federation.client.enqueue(pinned("ap-south-1")).await.check_error(403, "forbidden", "pin_not_permitted");
    assert_eq!(error["details"]["region"], "ap-south-1");
    assert!(federation.seen("needle-ap-south-1").is_empty());
    // The same pin on a job that the rule does not match.
    let free = pinned("ap-south-1").replace("email.send", "sms.send");
    check(&land(&federation, &free).await, "ap-south-1", "geo-pin");
}

#[tokio::test]
async fn a_job_bound_by_a_rule_fails_while_its_regions_are_down() {
    let yaml = "
limits: { connect_timeout: 1s }
routing: { rules: [{ match: { queue: bound }, target: { region: eu-west-1 } }] }";
    let federation = Setup::default().yaml(yaml).start().await;
    federation.regions[1].stop().await;
    let mut body = asking("overflow", "bound");
    body.insert_str(body.len() - 1, r#","mark":"needle""#);
    let answer = federation.client.enqueue(body).await;
    answer.check_error(503, "backend_error", "no_healthy_region");
    assert!(federation.seen("needle").is_empty());
}

#[tokio::test]
async fn a_drained_region_gets_no_job_by_any_strategy_and_no_pinned_one() {
    let federation = Setup::default().region(0, "weight: 0").start().await;
    for strategy in ["affinity", "overflow", "round-robin", "latency-based", "weighted", "active-passive"] {
        for _ in 0..4 {
            assert_ne!(land(&federation, &asking(strategy, "q")).await.region(), "us-east-1", "{strategy}");
        }
    }
    let answer = federation.client.enqueue(job(r#""ojs.federation.region":"us-east-1""#)).await;
    let error = answer.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(error["details"]["region"], "us-east-1");
    assert_eq!(federation.job_requests()[0], 0);
}

#[tokio::test]
async fn a_pin_counts_from_either_place_and_in_any_spelling_of_its_letters() {
    let federation = Federation::start().await;
    for body in [
        r#"{"type":"t","args":[],"meta":{"ojs.federation.region":"eu-west-1"}}"#,
        r#"{"type":"t","args":[],"options":{"metadata":{"ojs.federation.region":"eu-west-1"}}}"#,
        r#"{"type":"t","args":[],"meta":{"ojs.federation.region":"eu-west-1"},"options":{"metadata":{}}}"#,
        r#"{"type":"t","args":[],"meta":{"ojs.federation.region":"eu-west-1"},"options":{"metadata":null}}"#,
        r#"{"type":"t","args":[],"meta":{"ojs.federation.region":null},"options":{"metadata":{"ojs.federation.region":"eu-west-1"}}}"#,
        r#"{"type":"t","args":[],"meta":{"ojs.federation.region":"eu-west-1"},"options":{"metadata":{"ojs.federation.region":"eu-w\u0065st-1"}}}"#,
        r#"{"type":"t","args":[],"m\u0065ta":{"ojs\u002efederation.regio\u006E":"e\u0075-west-1"}}"#,
        r#"{"options":{"metadat\u0061":{"ojs.federation.region":"eu-west-1"}},"args":[],"type":"t"}"#,
    ] {
        check(&land(&federation, body).await, "eu-west-1", "geo-pin");
    }
    assert_eq!(federation.job_requests(), [0, 8, 0]);
}
