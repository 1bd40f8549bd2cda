//! The rules between keys and of single keys.

use super::*;

/// The file after [`REGIONS`] has exactly these wrong keys.
fn check(text: &str, keys: &[&str]) {
    let wrong: Vec<String> = wrong(&format!("{REGIONS}{text}\n")).into_iter().map(|(key, _)| key).collect();
    assert_eq!(wrong, keys, "{text}");
}

/// A file of these regions has exactly these wrong keys.
fn check_regions(regions: &str, keys: &[&str]) {
    let wrong: Vec<String> = wrong(&format!("regions:\n{regions}\n")).into_iter().map(|(key, _)| key).collect();
    assert_eq!(wrong, keys, "{regions}");
}

#[test]
fn listeners_for_clients_are_on_loopback_and_differ() {
    check("listen: { clients: ['0.0.0.0:8080'] }", &["listen.clients[0]"]);
    check(
        "listen: { clients: ['10.0.0.1:8080', '[::]:8080', 'localhost:8080'] }",
        &["listen.clients[0]", "listen.clients[1]", "listen.clients[2]"],
    );
    check("listen: { clients: ['127.0.0.1:8080', '127.0.0.1:8080'] }", &["listen.clients[1]"]);
    check(
        "listen: { clients: ['unix:/a', 'unix:/a', 'unix:a', 'unix:/'] }",
        &["listen.clients[1]", "listen.clients[2]", "listen.clients[3]"],
    );
    check("listen: { clients: [] }", &["listen.clients"]);
    check("listen: { admin: '127.0.0.1:8080' }", &["listen.admin"]);
    check("listen: { admin: '0.0.0.0:8080' }", &["listen.admin"]);
    check("listen: { admin: 'localhost' }", &["listen.admin"]);
    check(
        "listen: { allowed_hosts: ['*', 'a:80', 'http://a'] }",
        &["listen.allowed_hosts[0]", "listen.allowed_hosts[1]", "listen.allowed_hosts[2]"],
    );
    let wrong = [
        "*",
        "null",
        "ui.example",
        "https://ui.example/",
        "https://ui.example:443",
        "ftp://a",
        "https://",
        "http://a:0",
    ];
    let paths: Vec<String> = (0..wrong.len()).map(|at| format!("listen.allowed_origins[{at}]")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    check(&format!("listen: {{ allowed_origins: {wrong:?} }}"), &paths);
    let right = ["https://UI.example", "http://localhost:3000", "http://[::1]:3000", "https://10.0.0.1:80"];
    loaded(&format!("{REGIONS}listen: {{ allowed_origins: {right:?} }}"));
    loaded(&format!("{REGIONS}listen: {{ clients: ['127.0.0.1:0', '127.0.0.1:0'], admin: '0.0.0.0:9464' }}"));
}

#[test]
fn regions_have_ids_that_differ_and_urls_that_are_safe() {
    check_regions("  []", &["regions"]);
    check_regions("  - {}", &["regions[0].id", "regions[0].url"]);
    check_regions("  - us-east-1", &["regions[0]"]);
    check_regions("  - { id: US, url: 'https://a.example' }", &["regions[0].id"]);
    check_regions("  - { id: 1, url: 'https://a.example' }", &["regions[0].id"]);
    check_regions(
        "  - { id: a, url: 'https://a.example' }\n  - { id: a, url: 'https://b.example' }",
        &["regions[1].id"],
    );
    check_regions("  - { id: a, url: 'http://a.example' }", &["regions[0].url"]);
    check_regions("  - { id: a, url: 'https://u:p@a.example' }", &["regions[0].url"]);
    check_regions("  - { id: a, url: 'https://a.example', weight: 1000001 }", &["regions[0].weight"]);
    check_regions("  - { id: a, url: 'https://a.example', weight: -1 }", &["regions[0].weight"]);
    check_regions("  - { id: a, url: 'https://a.example', max_queue_depth: -1 }", &["regions[0].max_queue_depth"]);
    check_regions("  - { id: a, url: 'https://a.example', bearer_token: abc }", &["regions[0].bearer_token"]);
}

#[test]
fn the_control_socket_is_a_path_of_its_own() {
    let long = |bytes: usize| format!("control: {{ socket: '/{}' }}", "x".repeat(bytes - 1));
    check(&long(107), &["control.socket"]);
    assert!(loaded(&format!("{REGIONS}\n{}", long(106))).config.control_socket.is_some());
    check("listen: { clients: ['unix:/run/c.sock'] }\ncontrol: { socket: /run/c.sock }", &["control.socket"]);
    let socket = loaded(&format!("{REGIONS}\ncontrol: {{ socket: /run/c.sock }}")).config.control_socket;
    assert_eq!(socket, Some("/run/c.sock".into()));
}

#[test]
fn a_key_that_is_wrong_in_itself_is_not_called_missing() {
    let problems = load_layers(&["regions: [{ id: 1, url: 'https://a.example' }]"], &[], &[]).unwrap_err();
    assert_eq!(problems.problems.len(), 1);
    assert_eq!(problems.problems[0].rule, "expected text: put it in quotes");
}

#[test]
fn credentials_and_identity_are_whole_and_single() {
    let region = |rest: &str| format!("  - {{ id: a, url: 'https://a.example', {rest} }}");
    check_regions(&region("tls: { cert: /c }"), &["regions[0].tls.key"]);
    check_regions(&region("tls: { key: /k }"), &["regions[0].tls.cert"]);
    check_regions(&region("tls: { server_name: a.example, uri_san: 'spiffe://a/b' }"), &["regions[0].tls.uri_san"]);
    check_regions(&region("tls: { server_name: 'https://a' }"), &["regions[0].tls.server_name"]);
    check_regions(&region("tls: { uri_san: 'a b' }"), &["regions[0].tls.uri_san"]);
    check_regions(&region("bearer_token_file: ''"), &["regions[0].bearer_token_file"]);
    let two = region("bearer_token_file: /t, forward_authorization: true");
    check_regions(&two, &["regions[0].forward_authorization"]);
}

#[test]
fn a_clients_authorization_goes_to_the_local_region_unless_it_has_a_token() {
    let text = "\
local_region: b
regions:
  - { id: a, url: 'https://a.example', forward_authorization: true }
  - { id: b, url: 'https://b.example' }
  - { id: c, url: 'https://c.example' }
";
    let forwards = |text: &str| -> Vec<bool> {
        loaded(text).config.regions.iter().map(|region| region.forward_authorization).collect()
    };
    assert_eq!(forwards(text), [true, true, false]);
    assert_eq!(forwards(REGIONS), [false, false]);
}

#[test]
fn whatever_names_a_region_names_a_registered_one() {
    check_regions("  - { id: a, url: 'https://a.example' }\nlocal_region: b", &["local_region"]);
    check(
        "failover: { prefer_regions: [eu-west-1, x], exclude_regions: [y] }",
        &["failover.exclude_regions[0]", "failover.prefer_regions[1]"],
    );
    check("routing: { geographic: { meta_key: k, regions: { DE: x } } }", &["routing.geographic.regions.DE"]);
    check(
        "routing: { rules: [{ target: { region: x } }, { target: { regions: [eu-west-1, y] } }] }",
        &["routing.rules[0].target.region", "routing.rules[1].target.regions[1]"],
    );
}

#[test]
fn a_wrong_region_id_is_not_reported_again_wherever_it_is_named() {
    check_regions(
        "  - { id: A, url: 'https://a.example' }\nlocal_region: A\nfailover: { prefer_regions: [A] }",
        &["regions[0].id"],
    );
}

#[test]
fn rules_leave_at_least_one_region_and_strategies_have_what_they_need() {
    check("routing: { rules: [{ target: { regions: [] } }] }", &["routing.rules[0].target.regions"]);
    let disjoint = "routing: { rules: [{ target: { region: us-east-1, regions: [eu-west-1] } }] }";
    check(disjoint, &["routing.rules[0].target.region"]);
    check("routing: { strategy: geographic }", &["routing.strategy"]);
    check("routing: { rules: [{ target: { strategy: geographic } }] }", &["routing.rules[0].target.strategy"]);
    check("routing: { geographic: { regions: {} } }", &["routing.geographic.meta_key", "routing.geographic.regions"]);
    check("routing: { strategy: random }", &["routing.strategy"]);
    check("routing: { rules: [5] }", &["routing.rules[0]"]);
    check(
        "routing: { rules: [{ match: { meta: { a: [1], b: null, c: { d: e } } } }] }",
        &["routing.rules[0].match.meta.a", "routing.rules[0].match.meta.b", "routing.rules[0].match.meta.c"],
    );
    let long = "x".repeat(257);
    check(
        &format!("routing: {{ rules: [{{ match: {{ job_type: {long} }} }}] }}"),
        &["routing.rules[0].match.job_type"],
    );
}

#[test]
fn times_and_counts_are_in_their_ranges() {
    for (text, key) in [
        ("health_check: { interval: 0s }", "health_check.interval"),
        ("health_check: { interval: -5s }", "health_check.interval"),
        ("health_check: { unhealthy_threshold: 0 }", "health_check.unhealthy_threshold"),
        ("health_check: { accepted_status: [] }", "health_check.accepted_status"),
        ("circuit_breaker: { cooldown_multiplier: 0.5 }", "circuit_breaker.cooldown_multiplier"),
        ("circuit_breaker: { cooldown_multiplier: .inf }", "circuit_breaker.cooldown_multiplier"),
        ("circuit_breaker: { cooldown_max: 61s }", "circuit_breaker.cooldown_max"),
        ("circuit_breaker: { cooldown_max: 10s }", "circuit_breaker.cooldown_max"),
        ("limits: { idle_timeout: 119s }", "limits.idle_timeout"),
        ("limits: { body_bytes: 10 MB }", "limits.body_bytes"),
        ("limits: { body_bytes: 99999999999999999999GiB }", "limits.body_bytes"),
        ("limits: { body_bytes: 2MiB, buffered_bytes: 1MiB }", "limits.buffered_bytes"),
        ("limits: { head_bytes: 4096 }", "limits.head_bytes"),
        ("journal: { required: true }", "journal.required"),
        ("journal: { path: off, required: true }", "journal.required"),
        ("load: { tolerance: 1.5 }", "load.tolerance"),
        ("load: [1]", "load"),
        ("log: { level: debgu }", "log.level"),
        ("log: { level: 'a=b=c' }", "log.level"),
        ("federation_id: ''", "federation_id"),
    ] {
        check(text, &[key]);
    }
    loaded(&format!(
        "{REGIONS}log: {{ level: 'info,ojs_sidecar=debug' }}\ncircuit_breaker: {{ slow_start: 0s, cooldown: 90s }}"
    ));
}

#[test]
fn what_is_allowed_and_unwise_is_a_warning() {
    assert_eq!(warned(&format!("{REGIONS}limits: {{ call_timeout: 31s }}")), ["limits.call_timeout"]);
    assert!(warned(&format!("{REGIONS}limits: {{ call_timeout: 30s }}")).is_empty());
    let drained = "regions: [{ id: a, url: 'https://a.example', weight: 0, bearer_token_file: /t }]\nlocal_region: a";
    assert_eq!(warned(drained), ["regions", "regions"], "one region only, and that one is drained");
    let plain = "insecure_dev: true\nregions: [{ id: a, url: 'http://localhost:1', tls: { ca: /a } }]\nlocal_region: a";
    assert_eq!(warned(plain), ["regions", "regions[0].tls"]);
    let twice = REGIONS.replace("eu.example.com", "us.example.com");
    assert_eq!(warned(&twice), ["regions[1].url"]);
    let warned_by = |text: &str| warned(&format!("{REGIONS}{text}"));
    assert_eq!(warned_by("health_check: { timeout: 30s, interval: 1s }"), ["health_check.timeout"]);
    assert_eq!(warned_by("limits: { connect_timeout: 26s }"), ["limits.connect_timeout"]);
    assert_eq!(warned_by("failover: { exclude_regions: [us-east-1, eu-west-1] }"), ["failover.exclude_regions"]);
    assert_eq!(warned_by("failover: { exclude_regions: [eu-west-1] }"), [""; 0]);
    let rules = |first: &str| {
        let last = "{ match: { queue: q }, target: { region: eu-west-1 } }";
        warned_by(&format!(
            "residency: {{ read: allow }}\nrouting: {{ rules: [{{ {first}target: {{ region: us-east-1 }} }}, {last}] }}"
        ))
    };
    assert_eq!(rules(""), ["routing.rules[0]"]);
    assert_eq!(rules("match: { job_type: a.b }, "), [""; 0]);
}

#[test]
fn references_and_files_are_checked_beside_wrong_regions() {
    let region = |host: &str, ca: &str| {
        format!(
            "  - {{ id: region-a, url: 'https://{host}.test:8443', tls: {{ ca: /nowhere/{ca}, cert: /nowhere/a.crt, key: /nowhere/a.key }} }}\n"
        )
    };
    let text = format!(
        "local_region: region-z\nregions:\n{}{}routing: {{ rules: [{{ match: {{ queue: x }}, target: {{ region: region-q }} }}] }}\n",
        region("a", "nope.crt"),
        region("b", "b-ca.crt")
    );
    let problems = load_layers_with_files(&[&text], |_, _| None).unwrap_err().problems;
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
    let files = |at: usize| ["ca", "cert", "key"].map(|key| format!("regions[{at}].tls.{key}"));
    let expected = ["local_region", "regions[1].id", "routing.rules[0].target.region"].map(str::to_owned);
    assert_eq!(keys, [&expected[..], &files(0), &files(1)].concat());
    assert!(problems[3].rule.contains("(/nowhere/nope.crt)"), "{}", problems[3]);
}

#[test]
fn a_file_of_the_public_schema_has_the_defaults_and_bounds_of_that_schema() {
    let health = |text: &str| {
        let health = loaded(&format!("{REGIONS}{text}")).config.health_check;
        (health.unhealthy_threshold, health.healthy_threshold)
    };
    assert_eq!(health("version: '1.0'"), (3, 2));
    assert_eq!(health("version: '1.0'\nhealth_check: { unhealthy_threshold: 1 }"), (1, 2));
    assert_eq!(health(""), (1, 1));
    let weighty = REGIONS.replace("bearer_token_file: /t/eu", "bearer_token_file: /t/eu, weight: 101");
    loaded(&weighty);
    let wrong: Vec<String> = wrong(&format!("{weighty}version: '1.0'\n")).into_iter().map(|(key, _)| key).collect();
    assert_eq!(wrong, ["regions[1].weight"]);
    let extended = REGIONS.replace("bearer_token_file: /t/eu", "bearer_token_file: /t/eu, x-owner: payments");
    assert!(warned(&format!("{extended}x-team: [payments]\n")).is_empty());
}

#[test]
fn a_relative_path_is_resolved_against_its_file() {
    let text = REGIONS.replace("/t/us", "tokens/us.token");
    let problems = load_layers_with_files(&[&text], |_, _| None).unwrap_err().problems;
    let tried = problems[0].rule.split_once('(').and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
    assert!(tried.starts_with('/') && tried.ends_with("/tokens/us.token"), "{tried}");
    let journal = |text: &str| loaded(&format!("{REGIONS}journal: {{ path: {text} }}")).config.journal.path.unwrap();
    assert!(journal("data/journal").is_absolute());
    assert_eq!(journal("/data/journal"), std::path::Path::new("/data/journal"));
}

#[test]
fn warnings_are_kept_beside_problems_unless_a_wrong_key_may_have_caused_them() {
    let warned = |text: &str| -> Vec<String> {
        let told = load_layers(&[text], &[], &[]).expect_err(text);
        told.warnings.into_iter().map(|warning| warning.key).collect()
    };
    let loud = "log: { level: loud }\n";
    let region = "id: a, url: 'https://a.example'";
    assert_eq!(warned(&format!("{loud}regions: [{{ {region} }}]")), ["regions", "regions[0]", "local_region"]);
    assert_eq!(warned(&format!("{loud}regions: [{{ {region}, bearer_token: t }}]")), ["regions", "local_region"]);
    assert_eq!(warned(&format!("{loud}regions: [{{ {region}, tls: {{ cert: 7 }} }}]")), ["regions", "local_region"]);
    assert_eq!(warned(&format!("regions: [x, {{ {region}, weight: 0, bearer_token_file: /t }}]")), [""; 0]);
    let rule = |target: &str| format!("{loud}{REGIONS}routing: {{ rules: [{{ target: {target} }}] }}");
    assert_eq!(warned(&rule("{}")), ["routing.rules[0]"]);
    assert_eq!(warned(&rule("{ strategy: 7 }")), [""; 0]);
}

#[test]
fn a_repeated_region_is_told_in_its_place_as_written() {
    let region = "{ id: a, url: 'https://a.example', bearer_token_file: /t }";
    let wrong = wrong(&format!("local_region: a\nregions: [x, {region}, {region}]"));
    let keys: Vec<_> = wrong.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["regions[0]", "regions[2].id"]);
}

#[test]
fn a_journal_has_a_file_unless_it_is_off() {
    let path = |text: &str| loaded(&format!("{REGIONS}{text}")).config.journal.path;
    assert_eq!(path(""), None);
    assert_eq!(path("journal: { path: 'off' }"), None);
    assert_eq!(path("journal: { path: /run/journal }"), Some("/run/journal".into()));
}

#[test]
fn rules_that_restrict_regions_are_warned_of_while_reads_are_not_decided() {
    let warned = |text: &str| warned(&format!("{REGIONS}{text}"));
    let rules = "routing: { rules: [{ match: { queue: q }, target: { regions: [us-east-1] } }] }";
    assert_eq!(warned(rules), ["residency.read"]);
    for read in ["allow", "deny"] {
        assert!(warned(&format!("residency: {{ read: {read} }}\n{rules}")).is_empty());
    }
    assert!(warned(&rules.replace("regions: [us-east-1]", "strategy: overflow")).is_empty());
    assert_eq!(warned("routing: { stamp: never }"), ["routing.stamp"]);
}

#[test]
fn keys_of_all_sidecars_need_a_hub_and_a_word_about_its_loss() {
    let hub = "hub: { urls: ['https://hub.test:8443'], tls: { cert: /t/pod.crt, key: /t/pod.key } }\n";
    let wrong = |text: &str| {
        let problems = load_layers(&[&format!("{REGIONS}{text}")], &[], &[]).unwrap_err().problems;
        problems.into_iter().map(|problem| (problem.key, problem.rule)).collect::<Vec<_>>()
    };
    for (text, key, word) in [
        ("idempotency: { scope: hub, on_hub_loss: local }\n", "idempotency.scope", "hub.urls"),
        (&format!("{hub}idempotency: {{ scope: hub }}\n"), "idempotency.on_hub_loss", "local or refuse"),
        (
            &format!("{hub}idempotency: {{ scope: hub, on_hub_loss: local, enabled: false }}\n"),
            "idempotency.scope",
            "enabled",
        ),
    ] {
        let problems = wrong(text);
        assert!(problems.len() == 1 && problems[0].0 == key && problems[0].1.contains(word), "{text}: {problems:?}");
    }
    let keys =
        loaded(&format!("{REGIONS}{hub}idempotency: {{ scope: hub, on_hub_loss: refuse }}\n")).config.idempotency;
    assert_eq!((keys.scope, keys.on_hub_loss), (KeyScope::Hub, Some(OnHubLoss::Refuse)));
    assert_eq!(loaded(REGIONS).config.idempotency.scope, KeyScope::Sidecar);
}

#[test]
fn views_of_a_hub_need_a_hub() {
    let wrong = load_layers(&[&format!("{REGIONS}health_check: {{ source: hub }}\n")], &[], &[]).unwrap_err().problems;
    assert!(
        wrong.len() == 1 && wrong[0].key == "health_check.source" && wrong[0].rule.contains("hub.urls"),
        "{wrong:?}"
    );
    let hub = "hub: { urls: ['https://hub.test:8443'], tls: { cert: /t/pod.crt, key: /t/pod.key } }\n";
    let source = |text: &str| loaded(&format!("{REGIONS}{hub}{text}")).config.health_check.source;
    assert_eq!(source(""), HealthSource::Own);
    assert_eq!(source("health_check: { source: hub }\n"), HealthSource::Hub);
}

#[test]
fn a_fleet_limit_names_a_region_once_and_says_what_becomes_of_its_calls_without_a_hub() {
    let hub = "hub: { urls: [https://h.example.com], tls: { cert: a, key: b } }\n";
    let limits = |text: &str| format!("{REGIONS}{hub}limits: {{ fleet: [{text}] }}\n");
    let right = "{ region: us-east-1, on_hub_loss: local, local_calls: 4 }";
    let config = loaded(&limits(right)).config;
    assert_eq!((config.fleet_limits.len(), config.fleet_limits[0].calls_without_grant()), (1, 4));
    for (text, key) in [
        (limits("{ region: mars-1, on_hub_loss: hold }"), "limits.fleet[0].region"),
        (limits("{ on_hub_loss: hold }"), "limits.fleet[0].region"),
        (limits("{ region: us-east-1 }"), "limits.fleet[0].on_hub_loss"),
        (limits("{ region: us-east-1, on_hub_loss: local }"), "limits.fleet[0].local_calls"),
        (limits("{ region: us-east-1, on_hub_loss: hold, local_calls: 4 }"), "limits.fleet[0].local_calls"),
        (limits(&format!("{right}, {right}")), "limits.fleet[1].region"),
        (limits(right).replace(hub, ""), "limits.fleet"),
    ] {
        let wrong = load_layers(&[&text], &[], &[]).unwrap_err().problems;
        assert!(wrong.len() == 1 && wrong[0].key == key, "{key}: {wrong:?}");
    }
}
