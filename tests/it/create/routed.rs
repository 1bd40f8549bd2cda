//! Whole calls that ask for, or are bound to, another region: they go there, and nothing of them goes anywhere else.

use super::{CALLS, CANARY, SHAPES, bare, body, call, check_goes};
use crate::support::Federation;

#[tokio::test]
async fn a_pin_elsewhere_takes_the_whole_call_to_that_region_wherever_it_stands() {
    let federation = bare("").await;
    for (method, path) in CALLS {
        for shape in SHAPES {
            let body = body(shape, r#""ojs.federation.region":"eu-west-1""#);
            check_goes(&federation, 1, (method, path, &body)).await;
        }
    }
}

#[tokio::test]
async fn a_pin_is_followed_in_every_spelling_that_has_one_meaning() {
    let federation = bare("").await;
    let batch = "/ojs/v1/jobs/batch";
    for attributes in [
        r#""ojs.federation.regio\u006e" : "eu-west-1""#,
        r#""\u006fjs.federation.region":"eu\u002dwest-1""#,
        r#""ojs.federation.region":"eu-west-1","ojs.federation.region_affinity":"overflow""#,
    ] {
        for shape in SHAPES {
            check_goes(&federation, 1, ("POST", batch, &body(shape, attributes))).await;
        }
    }
    // Where nobody reads attributes, an odd spelling still tells what its author meant.
    for attributes in [r#""OJS.Federation.Region":"eu-west-1""#, r#""oj\u017F.federation.region":"eu-west-1""#] {
        check_goes(&federation, 1, ("POST", batch, &body(SHAPES[4], attributes))).await;
    }
}

#[tokio::test]
async fn what_names_a_strategy_goes_whole_to_one_region() {
    let federation = Federation::start().await;
    for strategy in ["overflow", "round-robin", "latency-based", "latency", "weighted", "active-passive", "geographic"]
    {
        let attributes = format!(r#""ojs.federation.region_affinity":"{strategy}""#);
        for path in ["/ojs/v1/jobs/batch", "/ojs/v1/workflows"] {
            for shape in SHAPES {
                let answer = call(&federation, "POST", path, &body(shape, &attributes)).await;
                let seen = federation.seen(CANARY);
                assert_eq!(seen.len(), 1, "{strategy} {path} {shape}: {answer:?}");
                assert_eq!(answer.region(), federation.regions[seen[0]].id());
                federation.regions[seen[0]].record().clear();
            }
        }
    }
    for _ in 0..3 {
        let turn = body(SHAPES[1], r#""ojs.federation.region_affinity":"round-robin""#);
        call(&federation, "POST", "/ojs/v1/jobs/batch", &turn).await;
    }
    assert_eq!(federation.seen(CANARY), [0, 1, 2], "the turn goes round");
}

#[tokio::test]
async fn a_cron_job_lives_in_the_local_region_whatever_strategy_its_jobs_name() {
    let federation = bare("").await;
    for strategy in ["overflow", "round-robin", "active-passive"] {
        let attributes = format!(r#""ojs.federation.region_affinity":"{strategy}""#);
        for shape in &SHAPES[2..4] {
            check_goes(&federation, 0, ("POST", "/ojs/v1/cron", &body(shape, &attributes))).await;
        }
    }
}

#[tokio::test]
async fn a_rule_that_binds_jobs_elsewhere_binds_those_of_creating_calls_too() {
    let rules = r#", rules: [
      { match: { job_type: "a.*" }, target: { region: eu-west-1 } },
      { match: { queue: "train-*" }, target: { region: eu-west-1 } },
      { match: { tags: [gpu] }, target: { region: eu-west-1 } },
      { match: { meta: { country: DE } }, target: { region: eu-west-1 } } ]"#;
    let federation = bare(rules).await;
    for (method, path) in CALLS {
        for body in [
            r#"{"jobs":[{"type":"x","args":[]},{"type":"a.b","args":["canary-4711"]}]}"#,
            r#"{"name":"canary-4711","expression":"x","job_template":{"type":"a.b"}}"#,
            r#"{"type":"chain","name":"canary-4711","steps":[{"type":"x"},{"type":"a.b"}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"options":{"queue":"train-1"}}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"queue":"train-1"}]}"#,
            r#"{"name":"canary-4711","queue":"train-1","job_template":{"type":"x"}}"#,
            r#"{"default_options":{"queue":"train-1"},"jobs":[{"type":"x","args":["canary-4711"]}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"tags":["gpu"]}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"meta":{"country":"DE"}}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"callbacks":{"done":{"type":"a.b"}}}]}"#,
        ] {
            check_goes(&federation, 1, (method, path, body)).await;
        }
    }
}
