//! Discovery: its sources, and the proof that regions owe.

use super::*;

const DNS: &str = "dns: { name: _ojs._tcp.example.com }";
const PROOF: &str = "allow: ['eu-*'], identity: 'spiffe://prod/{region}'";
const TLS: &str = "defaults: { tls: { cert: /t/pod.crt, key: /t/pod.key } }";

fn with(keys: &[&str]) -> String {
    format!("{REGIONS}discovery: {{ {} }}\n", keys.join(", "))
}

/// The one problem, whose sentence has all of these words.
fn check_refused(text: &str, key: &str, words: &[&str]) {
    let problems = load_layers(&[text], &[], &[]).expect_err(text).problems;
    let [problem] = problems.as_slice() else { panic!("{problems:?}\nin\n{text}") };
    assert_eq!(problem.key, key, "{problem}");
    for word in words {
        assert!(problem.rule.contains(word), "{word}: {problem}");
    }
}

#[test]
fn discovery_needs_a_source_patterns_and_an_identity_with_the_id() {
    assert!(loaded(REGIONS).config.discovery.is_none());
    check_refused(&with(&[PROOF, TLS]), "discovery", &["discovery.dns.name", "discovery.directory"]);
    check_refused(&with(&[DNS, "identity: 'spiffe://prod/{region}'", TLS]), "discovery.allow", &["expected the globs"]);
    for identity in ["spiffe://prod/ojs", "spiffe://{region}/{region}", "{region}"] {
        let proof = format!("allow: ['*'], identity: '{identity}'");
        check_refused(&with(&[DNS, &proof, TLS]), "discovery.identity", &["{region} once", "spiffe://prod/{region}"]);
    }
    for name in ["example.com", "_ojs.example.com", "_ojs._tcp."] {
        let dns = format!("dns: {{ name: '{name}' }}");
        check_refused(&with(&[&dns, PROOF, TLS]), "discovery.dns.name", &["_ojs._tcp.example.com"]);
    }
    let server = "dns: { name: _ojs._tcp.example.com, servers: [dns.example.com] }";
    check_refused(&with(&[server, PROOF, TLS]), "discovery.dns.servers[0]", &["10.0.0.2:53"]);
    let anonymous = loaded(&with(&[DNS, PROOF])).warnings;
    assert!(anonymous.iter().any(|it| it.key == "discovery.defaults.tls.cert"), "{anonymous:?}");
}

#[test]
fn the_regions_of_a_hub_need_a_hub() {
    let hub = "hub: { urls: ['https://hub.example.com:8443'], tls: { cert: /t/pod.crt, key: /t/pod.key } }\n";
    let text = with(&["hub: true", PROOF, TLS]);
    check_refused(&text, "discovery.hub", &["set hub.urls", "leave discovery.hub out"]);
    let config = loaded(&format!("{text}{hub}")).config;
    assert!(config.discovery.as_ref().is_some_and(|it| it.hub && it.dns.is_none()));
    assert_eq!(loaded(&effective(&config)).config.discovery, config.discovery);
    let off = with(&["hub: false", PROOF, TLS]);
    check_refused(&format!("{off}{hub}"), "discovery", &["discovery.dns.name", "discovery.directory", "discovery.hub"]);
}

#[test]
fn the_cache_is_not_among_the_files_of_the_directory() {
    let keys = |cache: &str| with(&[PROOF, TLS, &format!("directory: /r, cache: {cache}")]);
    check_refused(&keys("/r/known.json"), "discovery.cache", &["discovery.directory"]);
    assert!(loaded(&keys("/r2/known.json")).config.discovery.is_some());
}

#[test]
fn a_hub_spoke_federation_discovers_nothing() {
    let regions = REGIONS.replace("id: us-east-1,", "id: us-east-1, is_hub: true,");
    let text = format!("{regions}topology: hub-spoke\ndiscovery: {{ {DNS}, {PROOF}, {TLS} }}\n");
    check_refused(&text, "discovery", &["hub-spoke", "mesh"]);
}

#[test]
fn the_effective_discovery_reads_back_as_itself_and_waits_for_a_restart() {
    let more = "directory: /r, interval: 1min, regions_max: 9, changes_per_minute: 3, trust_tags: true, cache: /c";
    let config = loaded(&with(&[DNS, PROOF, TLS, more])).config;
    assert_eq!(loaded(&effective(&config)).config.discovery, config.discovery);
    let (live, fixed) = live(&loaded(REGIONS).config, &config);
    assert!(live.discovery.is_none() && fixed == ["discovery"]);
}
