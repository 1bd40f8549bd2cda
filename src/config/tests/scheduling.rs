//! The turns of the queues of a FETCH: what is taken over, and what makes no sense.

use super::*;
use crate::base::QueueOrder;

fn refused(section: &str, key: &str, words: &[&str]) {
    let text = format!("{REGIONS}scheduling: {{ {section} }}\n");
    let problems = load_layers(&[&text], &[], &[]).expect_err(&text).problems;
    let [problem] = problems.as_slice() else { panic!("{problems:?}\nin\n{text}") };
    assert_eq!(problem.key, key, "{problem}");
    for word in words {
        assert!(problem.rule.contains(word), "{word}: {problem}");
    }
}

#[test]
fn strategy_weights_and_floor_of_queues_are_taken_over_and_by_default_there_are_none() {
    let none = loaded(REGIONS).config.scheduling;
    assert_eq!((none.strategy, none.weights.len(), none.floor), (None, 0, None));
    let text = "scheduling: { strategy: weighted, weights: { critical: 5, 'a b': 1000 }, starvation_prevention: { enabled: true, \
                rotation_interval: PT1M, min_dispatch_ratio: 0.1 } }\n";
    let loaded = loaded(&format!("{REGIONS}{text}"));
    let scheduling = loaded.config.scheduling;
    assert_eq!(scheduling.strategy, Some(QueueOrder::Weighted));
    assert_eq!(
        scheduling.weights.into_iter().collect::<Vec<_>>(),
        [("a b".to_owned(), 1_000), ("critical".to_owned(), 5)]
    );
    let floor = scheduling.floor.unwrap();
    assert_eq!((floor.rotation_interval, floor.min_dispatch_ratio), (Duration::from_secs(60), 0.1));
}

#[test]
fn weights_that_nothing_heeds_and_floors_above_all_jobs_are_refused() {
    refused("weights: { a: 5 }", "scheduling.strategy", &["weighted", "scheduling.weights"]);
    for strategy in ["strict", "round-robin", "least-loaded"] {
        let section = format!("strategy: {strategy}, weights: {{ a: 5 }}");
        refused(&section, "scheduling.weights", &["weighted", "leave"]);
    }
    refused("strategy: fifo", "scheduling.strategy", &["strict", "round-robin", "weighted", "least-loaded"]);
    for weight in ["0", "1001", "-1", "1.5", "much"] {
        refused(&format!("strategy: weighted, weights: {{ a: {weight} }}"), "scheduling.weights.a", &["1 to 1000"]);
    }
    let floor = |ratio: &str| {
        let weights = "strategy: weighted, weights: { a: 1, b: 1, c: 1 }";
        format!("{weights}, starvation_prevention: {{ enabled: true, min_dispatch_ratio: {ratio} }}")
    };
    let key = "scheduling.starvation_prevention.min_dispatch_ratio";
    refused(&floor("0.34"), key, &["3 queues", "all jobs"]);
    refused(&floor("0"), key, &["above 0", "enabled: false"]);
    refused(&floor("1.1"), key, &["0 to 1"]);
    loaded(&format!("{REGIONS}scheduling: {{ {} }}\n", floor("0.33")));
}
