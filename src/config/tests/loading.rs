//! Layers, documents, other spellings.

use super::*;
use crate::base::RegionId;

#[test]
fn variables_override_files_and_flags_override_variables() {
    let file = format!("{REGIONS}log: {{ level: warn, format: json }}\nhealth_check: {{ interval_seconds: 7 }}\n");
    let env = [("OJSF_LOG__LEVEL", "debug"), ("OJSF_HEALTH_CHECK__INTERVAL", "3s"), ("HOME", "/root")];
    let config = load_layers(&[&file], &env, &[("log.level", "trace")]).unwrap().config;
    assert_eq!((config.log.level.as_str(), config.log.format), ("trace", LogFormat::Json));
    assert_eq!(config.health_check.interval, Duration::from_secs(3));
}

#[test]
fn a_later_file_overrides_an_earlier_one_and_replaces_its_lists() {
    let later = "failover: { max_redirects: 1 }\nlisten: { clients: ['127.0.0.1:0', 'unix:/run/ojs.sock'] }";
    let first = format!("{REGIONS}failover: {{ max_redirects: 2, prefer_regions: [eu-west-1] }}");
    let config = load_layers(&[&first, later], &[], &[]).unwrap().config;
    assert_eq!((config.failover.max_redirects, config.failover.prefer_regions.len()), (1, 1));
    let address = "127.0.0.1:0".parse().unwrap();
    let unix = ClientListen::Unix { path: "/run/ojs.sock".into() };
    assert_eq!(config.listen.clients, [ClientListen::Tcp { address, optional: false }, unix]);
}

#[test]
fn variables_are_read_as_the_kind_of_their_key() {
    let env = [
        ("OJSF_LISTEN__CLIENTS", "127.0.0.1:0, [::1]:0"),
        ("OJSF_ROUTING__MINT_ID", "false"),
        ("OJSF_LIMITS__BODY_BYTES", "2MiB"),
        ("OJSF_LIMITS__HEAD_BYTES", "16384"),
        ("OJSF_LOAD__TOLERANCE", "0.5"),
        ("OJSF_LISTEN__UNIX_MODE", "0600"),
        ("OJSF_FEDERATION_ID", "17"),
        ("OJSF_CIRCUIT_BREAKER__HALF_OPEN_AFTER_SECONDS", "20"),
        ("OJSF_FAILOVER__RETRY_BUDGET__FLOOR", "7"),
    ];
    let config = load_layers(&[REGIONS], &env, &[]).unwrap().config;
    assert_eq!(config.listen.clients.len(), 2);
    assert!(!config.routing.mint_id);
    assert_eq!((config.limits.body_bytes, config.limits.head_bytes), (2 << 20, 16384));
    assert_eq!((config.load.tolerance, config.failover.retry_budget.floor), (0.5, 7.0));
    assert_eq!(config.listen.unix_mode, 0o600);
    assert_eq!(config.federation_id, "17");
    assert_eq!(config.circuit_breaker.cooldown, Duration::from_secs(20));
}

/// The one rule that a variable breaks.
fn rule_of(name: &str, text: &str) -> String {
    let problems = load_layers(&[REGIONS], &[(name, text)], &[]).expect_err(name);
    let [problem] = problems.problems.as_slice() else { panic!("{problems}") };
    problem.rule.clone()
}

#[test]
fn a_variable_for_a_list_says_that_a_file_sets_it_and_whether_the_key_exists() {
    for (name, unknown) in [
        ("OJSF_REGIONS", None),
        ("OJSF_REGIONS__0", None),
        ("OJSF_REGIONS__0__WEIGHT", None),
        ("OJSF_REGIONS[0]__TLS__CA", None),
        ("OJSF_REGIONS__WEIGHT", None),
        ("OJSF_REGIONS__0__TLS", None),
        ("OJSF_ROUTING__RULES__0__MATCH__META__TIER", None),
        ("OJSF_ROUTING__GEOGRAPHIC__REGIONS", None),
        ("OJSF_ROUTING__GEOGRAPHIC__REGIONS__NO", None),
        ("OJSF_REGIONS__0__BEARER_TOKEN", Some("name that file as bearer_token_file")),
        ("OJSF_REGIONS__BEARER_TOKEN", Some("name that file as bearer_token_file")),
        ("OJSF_REGIONS__0__WIEGHT", Some("did you mean weight?")),
        ("OJSF_REGIONS[0]__TLS__SERVERNAME", Some("did you mean server_name?")),
        ("OJSF_ROUTING__RULES__0__ZZZ", Some("config/example.yaml shows every key")),
    ] {
        let rule = rule_of(name, CANARY);
        assert!(rule.starts_with("lists and tables of names, such as regions, are set in a file"), "{name}: {rule}");
        assert_eq!(rule.contains("besides, there is no such key"), unknown.is_some(), "{name}: {rule}");
        assert!(rule.contains(unknown.unwrap_or_default()), "{name}: {rule}");
    }
}

fn check_variable(name: &str, text: &str, rule: &str) {
    let problems = load_layers(&[REGIONS], &[(name, text)], &[]).expect_err(name);
    let [problem] = problems.problems.as_slice() else { panic!("{problems}") };
    assert_eq!(problem.origin, format!("variable {name}"));
    assert!(problem.rule.contains(rule), "{problem}");
}

#[test]
fn a_variable_that_sets_nothing_is_a_problem_with_a_suggestion() {
    check_variable("OJSF_LOG__LEVLE", "info", "did you mean level?");
    check_variable("OJSF_INTERVAL", "5s", "did you mean");
    check_variable("OJSF_LOG", "info", "name one of its keys");
    check_variable("OJSF_REGIONS__0__ID", "us", "set in a file");
    check_variable("OJSF_REGIONS", "us", "set in a file");
    check_variable("OJSF_ROUTING__GEOGRAPHIC__REGIONS__NO", "us", "set in a file");
    check_variable("OJSF_", "x", "no such key");
    check_variable("OJSF_ROUTING__MINT_ID", "yes", "expected true or false");
    check_variable("OJSF_LIMITS__HEADERS", "many", "expected a whole number from 8 to 1000");
    check_variable("OJSF_HEALTH_CHECK__TIMEOUT_SECONDS", "5s", "expected a number of seconds without unit");
}

#[test]
fn norway_is_a_country_and_numbers_keep_their_spelling_as_conditions() {
    let text = "\
regions:
  - { id: eu, url: 'https://eu.example.com', tags: [NO, yes, off], bearer_token_file: /t }
local_region: eu
routing:
  geographic: { meta_key: country, regions: { NO: eu } }
  rules: [{ match: { meta: { tier: 1.0, big: 30000000000000000000000, on: true, code: 007 } }, target: { region: eu } }]
";
    let config = loaded(text).config;
    assert_eq!(config.regions[0].tags, ["NO", "yes", "off"]);
    assert!(config.routing.geographic.unwrap().regions.contains_key("NO"));
    let meta: Vec<_> = config.routing.rules[0].matcher.meta.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(meta, [("big", "30000000000000000000000"), ("code", "007"), ("on", "true"), ("tier", "1.0")]);
    assert_eq!(
        wrong("regions: [{ id: eu, url: 'https://e.example', tags: [true] }]"),
        [("regions[0].tags".to_owned(), "config.yaml:1".to_owned())]
    );
}

#[test]
fn an_octal_mode_is_octal_however_it_is_written() {
    for spelling in ["0600", "'0600'", "0o600", "600", "\"600\""] {
        let config = loaded(&format!("{REGIONS}listen: {{ unix_mode: {spelling} }}")).config;
        assert_eq!(config.listen.unix_mode, 0o600, "{spelling}");
    }
    for spelling in ["0888", "01777", "rw", "-1", "0x10"] {
        assert_eq!(wrong(&format!("{REGIONS}listen: {{ unix_mode: {spelling} }}")).len(), 1, "{spelling}");
    }
}

#[test]
fn a_key_that_stands_twice_is_reported_beside_what_else_is_wrong() {
    let wrong = wrong(&format!("{REGIONS}log: {{ level: info }}\nlog: {{ level: debug }}\nloda: {{}}\n"));
    let expected = [("log", "config.yaml:6"), ("loda", "config.yaml:7")];
    assert_eq!(wrong, expected.map(|(key, origin)| (key.to_owned(), origin.to_owned())));
}

#[test]
fn a_broken_document_is_reported_with_its_line_and_nothing_that_would_follow_from_it() {
    let wrong = wrong("local_region: x\nregions: [\n  { id: a,, }\n]\n");
    assert_eq!(wrong, [(String::new(), "config.yaml:3".to_owned())]);
    let deep = "[".repeat(100_000);
    assert!(load_layers(&[&deep], &[], &[]).is_err());
    let missing = Sources { files: vec!["/nonexistent/a.yaml".into(), "/".into()], ..Sources::default() };
    let origins: Vec<_> = load(&missing).unwrap_err().problems.into_iter().map(|problem| problem.origin).collect();
    assert_eq!(origins, ["/nonexistent/a.yaml", "/"]);
}

#[test]
fn without_a_file_the_missing_registry_is_named() {
    let problems = load(&Sources::default()).unwrap_err();
    let keys: Vec<_> =
        problems.problems.iter().map(|problem| (problem.key.as_str(), problem.origin.as_str())).collect();
    assert_eq!(keys, [("regions", "default")]);
}

#[test]
fn other_spellings_mean_the_same_and_two_at_once_are_refused() {
    let text = "\
default_strategy: overflow
health_check: { interval_seconds: 15, timeout_seconds: 2.5 }
circuit_breaker: { open_after_failures: 7, half_open_after_seconds: 45 }
";
    let config = loaded(&format!("{REGIONS}{text}")).config;
    assert_eq!(config.routing.strategy, Strategy::Overflow);
    assert_eq!(config.health_check.interval, Duration::from_secs(15));
    assert_eq!(config.health_check.timeout, Duration::from_millis(2500));
    assert_eq!(config.circuit_breaker.failure_threshold, 7);
    assert_eq!(config.circuit_breaker.cooldown, Duration::from_secs(45));

    let twice =
        format!("{REGIONS}circuit_breaker:\n  cooldown: 30s\n  cooldown_seconds: 30\n  half_open_after_seconds: 3\n");
    let expected = [("circuit_breaker.cooldown_seconds", 7), ("circuit_breaker.half_open_after_seconds", 8)];
    assert_eq!(wrong(&twice), expected.map(|(key, line)| (key.to_owned(), format!("config.yaml:{line}"))));
    let alias = format!("{REGIONS}health_check:\n  interval_seconds: 0\n");
    assert_eq!(wrong(&alias), [("health_check.interval_seconds".to_owned(), "config.yaml:6".to_owned())]);
}

#[test]
fn null_leaves_a_key_at_its_default() {
    let config =
        loaded(&format!("{REGIONS}log:\nlisten: {{ admin: null, clients: ~ }}\nrouting: {{ rules: }}\n")).config;
    assert_eq!(config.log.level, "info");
    assert_eq!(config.listen.clients.len(), 2);
}

/// The registry of RFC-0001 §3 and its failover policy, in JSON with tabs.
pub(super) const RFC: &str = r#"{
	"federation_id": "prod-global",
	"regions": [
		{ "id": "us-east-1", "url": "https:\/\/ojs-us-east-1.example.com", "weight": 2, "tags": ["gpu", "high-memory"] },
		{ "id": "eu-west-1", "url": "https://ojs-eu-west-1.example.com", "weight": 1, "tags": ["gdpr"] },
		{ "id": "ap-south-1", "url": "https://ojs-ap-south-1.example.com", "weight": 1, "tags": [] }
	],
	"failover": {
		"enabled": true, "max_redirects": 3,
		"exclude_regions": ["ap-south-1"], "prefer_regions": ["us-east-1", "eu-west-1"]
	}
}"#;

#[test]
fn a_variable_with_one_underscore_and_a_tab_are_named() {
    let problems = load_layers(&[REGIONS], &[("OJSF_LOG_LEVEL", "debug")], &[]).unwrap_err().problems;
    assert_eq!(problems[0].rule, "there is no such key; did you mean log.level (OJSF_LOG__LEVEL)?");
    let problems = load_layers(&["log:\n\tlevel: info\n"], &[], &[]).unwrap_err().problems;
    assert_eq!(problems[0].origin, "config.yaml:2");
    assert!(problems[0].rule.starts_with("a tab stands in the indentation of this line"), "{}", problems[0]);
}

#[test]
fn the_registry_of_the_rfc_loads_as_it_is() {
    let loaded = loaded(RFC);
    assert_eq!(loaded.config.local_region.as_str(), "us-east-1");
    assert_eq!(loaded.config.regions[0].url.text, "https://ojs-us-east-1.example.com");
    assert_eq!(loaded.config.regions[0].weight, 2);
    let warned: Vec<_> =
        loaded.warnings.iter().map(|warning| (warning.key.as_str(), warning.origin.as_str())).collect();
    let expected = [
        ("regions[0]", "config.yaml:4"),
        ("regions[1]", "config.yaml:5"),
        ("regions[2]", "config.yaml:6"),
        ("local_region", "default"),
    ];
    assert_eq!(warned, expected);
}

/// Every setting of the public federation schema.
pub(super) const FULL: &str = r#"{
  "version": "1.0", "topology": "hub-spoke", "local_region": "us-1",
  "regions": [
    { "id": "us-1", "url": "https://us.example.com", "weight": 0, "tags": ["gpu"], "is_hub": true, "max_queue_depth": 500 },
    { "id": "eu-1", "url": "https://eu.example.com", "is_hub": false }
  ],
  "routing": {
    "strategy": "latency", "fallback_strategy": "random",
    "rules": [
      { "match": { "job_type": "ml.*", "queue": "q*", "tags": ["a"], "meta": { "country": "DE", "vip": true, "tier": 2 } },
        "target": { "regions": ["us-1", "eu-1"], "strategy": "latency" } },
      { "match": {}, "target": { "region": "eu-1", "regions": ["us-1", "eu-1"] } },
      { "match": {}, "target": {} }
    ]
  },
  "health_check": { "interval_seconds": 1, "timeout_seconds": 86400, "unhealthy_threshold": 3, "healthy_threshold": 2 },
  "replication": { "enabled": true, "mode": "full", "max_lag_seconds": 30 },
  "circuit_breaker": { "enabled": false, "open_after_failures": 5, "half_open_after_seconds": 120, "probe_count": 3 }
}"#;

#[test]
fn a_full_file_of_the_public_schema_loads_and_every_setting_that_is_not_honoured_is_named() {
    let text = FULL;
    let config = loaded(text).config;
    assert_eq!(config.routing.strategy, Strategy::LatencyBased);
    assert_eq!(config.regions.iter().map(|region| region.weight).collect::<Vec<_>>(), [0, 100]);
    assert_eq!(config.routing.rules[1].regions.iter().map(RegionId::as_str).collect::<Vec<_>>(), ["eu-1"]);
    assert_eq!(config.circuit_breaker.cooldown_max, Duration::from_secs(120));
    let warned = warned(text);
    for key in keys().iter().filter(|key| !key.honoured && key.path != "version") {
        assert!(warned.iter().any(|warned| keys::generic(warned) == key.path), "{} is not named", key.path);
    }
    assert!(warned.contains(&"routing.rules[2]".to_owned()));
    assert!(
        super::warned(&format!("{REGIONS}version: 1.0\ntopology: mesh\nreplication: {{ enabled: false }}")).is_empty()
    );
    assert_eq!(super::warned(&format!("{REGIONS}version: '2.0'")), ["version"]);
}
