//! The schema against what is read: it accepts what loads, and refuses what a reader of one section can see is wrong.

use jsonschema::Validator;
use serde_json::Value;

use super::loading::{FULL, RFC};
use super::*;

/// The file that editors read, beside the examples.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/schema.json");

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

/// The document as an editor's YAML reader has it.
fn document(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn check_accepted(text: &str) {
    loaded(text);
    let document = document(text);
    let found: Vec<String> =
        validator().iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(found.is_empty(), "{found:?}\nin\n{text}");
}

/// Refused by the schema, at the path, and by the reader.
fn check_refused(text: &str, path: &str) {
    assert!(load_layers(&[text], &[], &[]).is_err(), "loads:\n{text}");
    let document = document(text);
    let found: Vec<String> =
        validator().iter_errors(&document).map(|error| error.instance_path().to_string()).collect();
    assert!(found.iter().any(|found| found == path), "{found:?} instead of {path} in\n{text}");
}

#[test]
fn the_schema_file_is_what_the_command_prints() {
    let printed = format!("{:#}\n", schema());
    if std::env::var_os("SCHEMA_UPDATE").is_some() {
        std::fs::write(FILE, &printed).unwrap();
    }
    let file = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(file == printed, "config/schema.json is out of date; run: SCHEMA_UPDATE=1 cargo test --lib schema");
}

#[test]
fn the_schema_is_valid_under_its_own_draft() {
    jsonschema::draft202012::meta::validate(&schema()).unwrap();
}

#[test]
fn every_key_is_described_and_shown_with_its_default() {
    let schema = schema();
    for key in keys() {
        let pointer = format!("/properties/{}", key.path.replace("[]", "/items").replace('.', "/properties/"));
        let found = schema.pointer(&pointer).unwrap_or_else(|| panic!("{} is missing", key.path));
        assert!(found["description"].as_str().unwrap().contains(key.doc), "{}", key.path);
        assert_eq!(found.get("default").is_some(), key.default.is_some(), "{}", key.path);
        if let Some(default) = found.get("default") {
            let validator = jsonschema::draft202012::new(found).unwrap();
            assert!(validator.is_valid(default), "the default of {} is refused", key.path);
        }
    }
}

#[test]
fn every_example_is_accepted() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            check_accepted(&std::fs::read_to_string(path).unwrap());
        }
    }
    check_accepted(RFC);
    check_accepted(FULL);
    check_accepted(&effective(&loaded(include_str!("../../../config/example.yaml")).config));
}

#[test]
fn every_form_of_a_value_that_loads_is_accepted() {
    for text in [
        "log:\nlisten: { admin: null, clients: ~ }\nrouting: { rules: }\n",
        "circuit_breaker:\nhealth_check:\nx-owner: payments\n",
        "health_check: { interval_seconds: 7, timeout_seconds: 2.5 }\ndefault_strategy: latency\n",
        "circuit_breaker: { open_after_failures: 7, half_open_after_seconds: 45 }\n",
        "listen: { unix_mode: 0660 }\n",
        "listen: { unix_mode: '0o600' }\n",
        "limits: { body_bytes: 2097152, head_bytes: '16384' }\n",
        "limits: { body_bytes: 2 MiB, headers: 20.0 }\n",
        "version: 1.0\n",
        "routing: { rules: [{ match: { meta: { vip: true, tier: 2 } }, target: {} }] }\n",
        "routing: { strategy: geographic, geographic: { meta_key: country, regions: { NO: eu-west-1 } } }\n",
    ] {
        check_accepted(&format!("{REGIONS}{text}"));
    }
    for duration in
        ["250ms", "1m 30s", "1m30s", "1.5s", "5min", "1 hour, 2 minutes", "2hrs", "1500 µs", "3m, 1s", "0d 9s"]
    {
        check_accepted(&format!("{REGIONS}health_check: {{ interval: '{duration}' }}\n"));
    }
}

#[test]
fn what_is_wrong_is_refused_at_its_place() {
    let valid = REGIONS;
    for (text, path) in [
        ("routing: { stratgy: affinity }", "/routing"),
        ("rooting: {}", ""),
        ("health_check: { interval: 10 }", "/health_check/interval"),
        ("health_check: { interval: 10 parsecs }", "/health_check/interval"),
        ("routing: { strategy: fastest }", "/routing/strategy"),
        ("routing: { mint_id: 'yes' }", "/routing/mint_id"),
        ("limits: { idle_timeout: 5 }", "/limits/idle_timeout"),
        ("limits: { json_depth: 4 }", "/limits/json_depth"),
        ("limits: { body_bytes: 1 }", "/limits/body_bytes"),
        ("limits: { body_bytes: 1 MB }", "/limits/body_bytes"),
        ("load: { tolerance: 1.5 }", "/load/tolerance"),
        ("listen: { clients: '127.0.0.1:8080' }", "/listen/clients"),
        ("listen: { unix_mode: '0888' }", "/listen/unix_mode"),
        ("log: { format: yaml }", "/log/format"),
        ("log: info", "/log"),
        ("failover: { max_redirects: many }", "/failover/max_redirects"),
        ("circuit_breaker: { cooldown: 30s, cooldown_seconds: 30 }", "/circuit_breaker"),
        ("circuit_breaker: { half_open_after_seconds: 3, cooldown_seconds: 30 }", "/circuit_breaker"),
        ("routing: { rules: [{ match: {}, target: { regions: [] } }] }", "/routing/rules/0/target/regions"),
        ("routing: { geographic: { meta_key: country } }", "/routing/geographic"),
    ] {
        check_refused(&format!("{valid}{text}\n"), path);
    }
    for (region, path) in [
        ("{ id: us-east-1 }", "/regions/0"),
        ("{ id: US, url: 'https://a.example' }", "/regions/0/id"),
        ("{ id: none, url: 'https://a.example' }", "/regions/0/id"),
        ("{ id: us, url: 'ftp://a.example' }", "/regions/0/url"),
        ("{ id: us, url: 'https://u:p@a.example' }", "/regions/0/url"),
        ("{ id: us, url: 'https://a.example', wieght: 3 }", "/regions/0"),
        ("{ id: us, url: 'https://a.example', weight: -1 }", "/regions/0/weight"),
        ("{ id: us, url: 'https://a.example', tags: [true] }", "/regions/0/tags/0"),
        ("{ id: us, url: 'https://a.example', tls: { cert: /c.pem } }", "/regions/0/tls"),
        ("{ id: us, url: 'https://a.example', tls: { server_name: a, uri_san: 'b:c' } }", "/regions/0/tls"),
    ] {
        check_refused(&format!("regions: [{region}]\n"), path);
    }
    check_refused("local_region: us-east-1\n", "");
    check_refused("regions: []\n", "/regions");
}
