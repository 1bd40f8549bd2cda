//! Tests of the configuration of a hub.

use super::super::limit_settings::Ttl;
use super::*;

const RIGHT: &str = "
listen: 0.0.0.0:8443
tls: { cert: hub.pem, key: hub.key, client_ca: clients.pem }
access:
  - { san: \"spiffe://example.org/sidecar/*\", role: sidecar }
  - { san: ann.example.org, role: operator, scopes: [read, operate] }
";

fn parse(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse(text, Path::new("conf/hub.yaml"))
}

#[test]
fn an_index_needs_a_record_that_lasts() {
    let index = "index: { region: us }\n";
    let wrong = parse(&format!("{RIGHT}{index}")).unwrap_err().to_string();
    assert!(wrong.contains("\nindex: a hub without `record.path`"), "{wrong}");
    assert!(parse(&format!("{RIGHT}{index}record: {{ path: hub.db }}\n")).is_ok());
}

#[test]
fn copies_are_cancelled_only_by_a_hub_that_reaches_its_region_and_hears_all_others() {
    let with = |region: &str, regions: &str| {
        parse(&format!(
            "{RIGHT}record: {{ path: hub.db }}\nindex: {{ region: {region}, conflicts: cancel }}\n{regions}"
        ))
    };
    let regions = "regions: [{ id: a, url: \"https://a.example.com\", tls: { ca: a.pem } }]\n";
    let two = "regions: [{ id: a, url: \"https://a.example.com\", tls: { ca: a.pem } }, { id: b, url: \"https://b.example.com\", tls: { ca: b.pem } }]\n";
    assert!(with("a", regions).is_ok());
    for (region, regions, words) in [
        ("a", "", "cancel needs `regions` with a"),
        ("c", regions, "cancel needs `regions` with c"),
        ("a", two, "cancel needs the hub of each of the `regions` in `index.from`"),
    ] {
        let error = with(region, regions).unwrap_err().to_string();
        assert!(error.contains(&format!("\nindex.conflicts: {words}")), "{error}");
    }
    let from = "a, from: [{ region: b, urls: [\"https://h:1\"], tls: { ca: a, cert: b, key: c } }]";
    assert!(with(from, two).is_ok());
}

#[test]
fn the_regions_are_read_as_those_of_a_sidecar_and_their_mistakes_name_key_and_line() {
    let regions =
        "regions: [{ id: a, url: \"https://a.example.com\", tls: { ca: a.pem } }]\nhealth_check: { interval: 3s }\n";
    let probing = parse(&format!("{RIGHT}{regions}")).unwrap().probing.unwrap();
    assert_eq!(probing.regions[0].tls.ca.as_deref(), Some(Path::new("conf/a.pem")));
    assert_eq!((probing.health_check.interval.as_secs(), probing.health_check.timeout.as_secs()), (3, 5));
    assert_eq!(parse(RIGHT).unwrap().probing, None);
    for (from, to, words) in [
        ("interval: 3s", "interval: soon", "health_check.interval (conf/hub.yaml:8)"),
        ("interval: 3s", "intervall: 3s", "did you mean interval?"),
        ("interval: 3s", "source: hub", "health_check.source: expected own"),
        ("id: a, ", "", "regions[0].id"),
        ("https:", "http:", "regions[0].url"),
        ("[{ id: a", "[{ id: 7, is: x", "regions[0].is"),
        ("regions: [", "regio: [", "regio"),
    ] {
        let error = parse(&format!("{RIGHT}{}", regions.replace(from, to))).unwrap_err().to_string();
        assert!(error.contains(words), "{to}: {error}");
    }
    let alone = parse(&format!("{RIGHT}health_check: {{ interval: 3s }}\n")).unwrap_err().to_string();
    assert!(alone.contains("health_check: without `regions`"), "{alone}");
}

#[test]
fn tokens_are_read_and_their_mistakes_name_their_keys() {
    let tokens =
        "tokens: { jwks_file: k.json, issuer: \"https://sso\", audience: hub, scopes: { admins: [read, operate] } }\n";
    let read = parse(&format!("{RIGHT}{tokens}")).unwrap().tokens.unwrap();
    assert_eq!((read.scope_claim.as_str(), read.scopes["admins"].len()), ("scope", 2));
    assert_eq!(parse(RIGHT).unwrap().tokens, None);
    for (from, to, key) in [
        ("jwks_file: k.json, ", "", "jwks_file"),
        ("issuer: \"https://sso\", ", "", "issuer"),
        ("audience: hub, ", "", "audience"),
        ("https://sso", "https://sso#a", "tokens.issuer"),
        ("https://sso", "", "tokens.issuer"),
        ("audience: hub", "audience: \"a b\"", "tokens.audience"),
        ("scopes:", "scope_claim: \"\", scopes:", "tokens.scope_claim"),
        ("[read, operate]", "[]", "tokens.scopes"),
        ("{ admins: [read, operate] }", "{}", "tokens.scopes"),
        ("admins", "\"\"", "tokens.scopes"),
        ("[read, operate]", "[sidecar]", "admins"),
        ("issuer:", "issuers:", "issuers"),
    ] {
        let error = parse(&format!("{RIGHT}{}", tokens.replace(from, to))).unwrap_err().to_string();
        assert!(error.contains(key), "{to}: {error}");
    }
}

#[test]
fn a_short_file_is_enough() {
    let settings = parse(RIGHT).unwrap();
    assert_eq!((settings.admin.port(), settings.record.path.is_none(), settings.access.len()), (9465, true, 2));
}

#[test]
fn limits_need_a_record_that_outlives_the_hub_and_their_mistakes_name_their_key() {
    let with = |limits: &str, record: &str| parse(&format!("{RIGHT}{record}limits: [{limits}]\n"));
    let (right, record) = ("{ region: a, calls: 7 }", "record: { path: hub.db }\n");
    assert_eq!(with(right, record).unwrap().limits[0].ttl, Ttl::default());
    for (limits, record, words) in [
        (right, "", "limits: a hub without `record.path`"),
        ("{ region: a, calls: 0 }", record, "limits[0].calls"),
        ("{ region: a, calls: 7, ttl: 1s }", record, "limits[0].ttl"),
        ("{ region: a, calls: 7 }, { region: a, calls: 8 }", record, "limits[1].region"),
        ("{ region: a, calls: 7, ttl: soon }", record, "expected a duration"),
    ] {
        let error = with(limits, record).unwrap_err().to_string();
        assert!(error.contains(words), "{limits}: {error}");
    }
}

#[test]
fn every_mistake_names_its_key() {
    for (from, to, key) in [
        ("listen: 0.0.0.0:8443", "listen: here", "listen"),
        ("key: hub.key, ", "", "key"),
        ("client_ca:", "clients:", "clients"),
        ("role: sidecar", "role: guest", "role"),
        ("scopes: [read, operate]", "scopes: [all]", "scopes"),
        ("scopes: [read, operate]", "scopes: []", "access[1].scopes"),
        ("ann.example.org", "\"\"", "access[1].san"),
        ("role: sidecar }", "role: sidecar, scopes: [read] }", "access[0].scopes"),
        ("role: operator,", "role: operator, region: a,", "access[1].region"),
    ] {
        let error = parse(&RIGHT.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(key), "{to}: {error}");
    }
    let error = parse(&format!("{RIGHT}log: {{ level: loud, format: xml }}\n")).unwrap_err().to_string();
    assert!(error.contains("log.level") && error.contains("log.format"), "{error}");
}
