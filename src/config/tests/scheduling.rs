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

fn pools(pools: &str) -> String {
    format!("pools: [{pools}]")
}

#[test]
fn pools_are_taken_over_and_read_back_from_what_is_in_force() {
    let text = "scheduling: { pool: pay, pools: [{ name: pay, queues: [payments, 'refunds-*'], concurrency: 20, strategy: weighted, \
                weights: { payments: 3, refunds-eu: 1 }, isolated: true, starvation_prevention: { enabled: true, min_dispatch_ratio: 0.1 } }, \
                { name: general, queues: ['*'] }] }\n";
    let loaded = loaded(&format!("{REGIONS}{text}"));
    let scheduling = &loaded.config.scheduling;
    let [pay, general] = scheduling.pools.as_slice() else { panic!("{scheduling:?}") };
    assert_eq!((scheduling.pool.as_deref(), &*pay.name, &*general.name), (Some("pay"), "pay", "general"));
    assert_eq!(
        (pay.queues.as_slice(), pay.concurrency, pay.isolated),
        (&["payments".to_owned(), "refunds-*".to_owned()][..], Some(20), true)
    );
    assert_eq!((pay.strategy, pay.weights.len()), (Some(QueueOrder::Weighted), 2));
    assert_eq!(
        pay.floor.map(|floor| (floor.rotation_interval, floor.min_dispatch_ratio)),
        Some((Duration::from_secs(30), 0.1))
    );
    assert_eq!((general.concurrency, general.strategy, general.isolated, general.floor), (None, None, false, None));
    let again = load_layers(&[&effective(&loaded.config)], &[], &[]).unwrap();
    assert_eq!(again.config.scheduling, *scheduling);
}

#[test]
fn pools_that_cannot_be_kept_to_are_refused() {
    let (a, at) = ("{ name: a, queues: [x] }", "scheduling.pools");
    refused(&format!("pool: b, {}", pools(a)), "scheduling.pool", &["scheduling.pools"]);
    refused("pool: b", "scheduling.pool", &["scheduling.pools"]);
    refused(&format!("pool: a, strategy: strict, {}", pools(a)), "scheduling.strategy", &["in the pool"]);
    let floor = "starvation_prevention: { enabled: true }";
    refused(&format!("pool: a, {floor}, {}", pools(a)), "scheduling.starvation_prevention", &["in the pool"]);
    refused(&pools(&format!("{a}, {a}")), &format!("{at}[1].name"), &["another pool"]);
    refused(&pools("{ queues: [x] }"), &format!("{at}[0].name"), &["name of the pool"]);
    refused(&pools("{ name: a }"), &format!("{at}[0].queues"), &["one at least"]);
    refused(&pools("{ name: a, queues: [] }"), &format!("{at}[0].queues"), &["one at least"]);
    refused(&pools("{ name: a, queues: [x, x] }"), &format!("{at}[0].queues[1]"), &["leave it out"]);
    refused(&pools("{ name: a, queues: [x], concurrency: 0 }"), &format!("{at}[0].concurrency"), &["1 to 1000000"]);
    refused(
        &pools("{ name: a, queues: [x], concurrency: 10001 }"),
        &format!("{at}[0].concurrency"),
        &["journal.rows_max"],
    );
    let many: Vec<String> = (0..65).map(|number| format!("{{ name: p{number}, queues: [q{number}] }}")).collect();
    refused(&pools(&many.join(", ")), at, &["64 pools"]);
    let queues: Vec<String> = (0..257).map(|number| format!("q{number}")).collect();
    refused(&pools(&format!("{{ name: a, queues: [{}] }}", queues.join(", "))), at, &["256 queues"]);
}

#[test]
fn weights_and_floors_of_a_pool_are_those_of_its_queues() {
    let weighted = |queues: &str, weights: &str| {
        pools(&format!("{{ name: a, queues: [{queues}], strategy: weighted, weights: {{ {weights} }} }}"))
    };
    let key = "scheduling.pools[0].weights";
    refused(&weighted("x", "x: 1, y: 2"), &format!("{key}.y"), &["queue of the pool"]);
    refused(&weighted("'x*'", "'x*': 2"), &format!("{key}.x*"), &["name of a queue"]);
    refused(&weighted("x", "x: 0"), &format!("{key}.x"), &["1 to 1000"]);
    loaded(&format!("{REGIONS}scheduling: {{ {} }}\n", weighted("'x*', y", "x7: 2, y: 1")));
    refused(&pools("{ name: a, queues: [x], strategy: strict, weights: { x: 2 } }"), key, &["weighted"]);
    refused(&pools("{ name: a, queues: [x], weights: { x: 2 } }"), "scheduling.pools[0].strategy", &["weighted"]);
    let floor = "{ name: a, queues: [x, y, z], starvation_prevention: { enabled: true, min_dispatch_ratio: 0.34 } }";
    refused(&pools(floor), "scheduling.pools[0].starvation_prevention.min_dispatch_ratio", &["3 queues"]);
}

#[test]
fn no_queue_is_in_two_isolated_pools_nor_listed_where_it_never_comes() {
    let two = |one: &str, other: &str, isolated: bool| {
        pools(&format!(
            "{{ name: a, queues: [{one}], isolated: true }}, {{ name: b, queues: [{other}], isolated: {isolated} }}"
        ))
    };
    let key = "scheduling.pools[1].queues[0]";
    for (one, other, isolated) in
        [("x", "x", true), ("'x*'", "xy", true), ("x", "'?'", true), ("'a*'", "'*b'", true), ("'x*'", "xy", false)]
    {
        refused(&two(one, other, isolated), key, &["scheduling.pools[0]", "isolated"]);
    }
    for (one, other, isolated) in [("x", "y", true), ("'a*'", "'b*'", true), ("x", "'*'", false)] {
        loaded(&format!("{REGIONS}scheduling: {{ {} }}\n", two(one, other, isolated)));
    }
}

const OF_FLEET: &str = "concurrency: 4, concurrency_of: fleet";

/// A configuration with a hub and a journal.
fn with_hub(section: &str) -> String {
    let hub =
        "hub: { urls: [https://hub:8443], tls: { ca: ca.pem, cert: a.pem, key: b.pem } }\njournal: { path: /tmp/j }\n";
    format!("{REGIONS}{hub}scheduling: {{ {section} }}\n")
}

#[test]
fn a_pool_of_the_fleet_is_taken_over_and_read_back_from_what_is_in_force() {
    let pool = |more: &str| pools(&format!("{{ name: a, queues: [x], {OF_FLEET}, {more} }}"));
    let config = loaded(&with_hub(&pool("on_hub_loss: local, local_concurrency: 2, longest_lease: 5m"))).config;
    let fleet = config.scheduling.pools[0].fleet.clone().unwrap();
    assert_eq!((fleet.on_hub_loss, fleet.local), (LimitWithoutHub::Local, Some(2)));
    assert_eq!(fleet.longest_lease, Duration::from_secs(300));
    assert_eq!(loaded(&effective(&config)).config.scheduling, config.scheduling);
    let config = loaded(&with_hub(&pool("on_hub_loss: hold"))).config;
    assert_eq!(config.scheduling.pools[0].fleet.as_ref().unwrap().longest_lease, Duration::from_secs(60));
}

#[test]
fn a_pool_of_the_fleet_needs_a_hub_a_journal_and_a_word_for_the_loss_of_the_hub() {
    let refused_with_hub = |pool: &str, key: &str, words: &str| {
        let text = with_hub(&pools(&format!("{{ name: a, queues: [x], {pool} }}")));
        let problems = load_layers(&[&text], &[], &[]).expect_err(&text).problems;
        let [problem] = problems.as_slice() else { panic!("{problems:?}\nin\n{text}") };
        assert!(problem.key == format!("scheduling.pools[0].{key}") && problem.rule.contains(words), "{problem}");
    };
    refused_with_hub("concurrency_of: fleet, on_hub_loss: hold", "concurrency", "this sidecar");
    refused_with_hub(OF_FLEET, "on_hub_loss", "hold, local or refuse");
    refused_with_hub(&format!("{OF_FLEET}, on_hub_loss: local"), "local_concurrency", "for `local`");
    refused_with_hub(
        &format!("{OF_FLEET}, on_hub_loss: hold, local_concurrency: 1"),
        "local_concurrency",
        "leave it out",
    );
    for key in ["on_hub_loss: hold", "local_concurrency: 1", "longest_lease: 1m"] {
        refused_with_hub(&format!("concurrency: 4, {key}"), key.split(':').next().unwrap(), "concurrency_of: fleet");
    }
    let pool = pools(&format!("{{ name: a, queues: [x], {OF_FLEET}, on_hub_loss: hold }}"));
    refused(&pool, "scheduling.pools[0].concurrency_of", &["hub.urls"]);
    let without_journal = with_hub(&pool).replace("journal: { path: /tmp/j }\n", "");
    let problems = load_layers(&[&without_journal], &[], &[]).unwrap_err().problems;
    assert!(problems[0].rule.contains("journal.path"), "{problems:?}");
}

#[test]
fn a_queue_with_shards_is_not_spooled() {
    let text = |queues: &str| {
        format!(
            "{REGIONS}scheduling: {{ tenant_queues: [{{ queue: mail.eu }}] }}\n\
             spool: {{ path: /tmp/s, key_file: /tmp/k, queues: [{queues}] }}\n"
        )
    };
    for queues in ["x, mail.eu", "x, '*'", "x, 'mail.*'", "x, 'm?il.eu'"] {
        let problems = load_layers(&[&text(queues)], &[], &[]).expect_err(queues).problems;
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(problem.key == "spool.queues[1]" && problem.rule.contains("such as mail.eu"), "{problem}");
    }
    loaded(&text("mail, 'mail.us*'"));
}
