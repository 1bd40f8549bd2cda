//! Topologies: what each asks of the regions, the hub and the stamp.

use super::*;

const HUB: &str = "hub: { urls: ['https://hub.test:8443'], tls: { cert: /t/pod.crt, key: /t/pod.key } }\n";

/// The two regions, of which these are hubs.
fn regions(hubs: &[&str]) -> String {
    let mark = |text: String, id: &&str| text.replace(&format!("id: {id},"), &format!("id: {id}, is_hub: true,"));
    hubs.iter().fold(REGIONS.to_owned(), mark)
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
fn a_hub_spoke_federation_has_exactly_one_hub_and_its_spokes_know_where_it_is() {
    let spokes = |hubs: &[&str], more: &str| format!("{}topology: hub-spoke\n{more}", regions(hubs));
    check_refused(&spokes(&[], HUB), "topology", &["exactly one", "is_hub: true", "mesh"]);
    check_refused(&spokes(&["us-east-1", "eu-west-1"], HUB), "regions[1].is_hub", &["exactly one", "leave it out"]);
    check_refused(&spokes(&["eu-west-1"], ""), "hub.urls", &["spoke", "hub.tls", "mesh"]);
    let spoke = loaded(&spokes(&["eu-west-1"], HUB)).config;
    assert!(spoke.is_spoke() && spoke.regions.iter().all(|region| !spoke.is_other_spoke(region)));
    assert_eq!(spoke.hub.unwrap().lease, Duration::from_secs(10));
    // The sidecars beside the hub need no feed.
    assert!(!loaded(&spokes(&["us-east-1"], "")).config.is_spoke());
}

#[test]
fn a_hub_region_and_its_lease_are_refused_where_they_have_no_effect() {
    for topology in ["mesh", "active-active"] {
        let hub = HUB.replace("tls", "report_jobs: true, tls");
        let text = format!("{}topology: {topology}\n{hub}", regions(&["eu-west-1"]));
        check_refused(&text, "regions[1].is_hub", &[topology, "hub-spoke", "leave is_hub out"]);
        let lease = hub.replace("tls", "lease: 20s, tls");
        check_refused(&format!("{REGIONS}topology: {topology}\n{lease}"), "hub.lease", &["hub-spoke", "leave"]);
    }
    let heard = loaded(&format!("{REGIONS}{}", HUB.replace("tls", "fetch: heard, lease: 20s, tls"))).config;
    assert!(heard.fetches_when_heard() && !heard.is_spoke());
    assert!(!loaded(&format!("{REGIONS}{HUB}")).config.fetches_when_heard());
    check_refused(&format!("{REGIONS}hub: {{ fetch: heard }}\n"), "hub.urls", &["expected the URL of the hub"]);
    loaded(&format!("{}topology: mesh\n", REGIONS.replace("/t/us", "/t/us, is_hub: false")));
    for lease in ["4s", "301s", "10"] {
        let hub = HUB.replace("tls", &format!("lease: {lease}, tls"));
        let text = format!("{}topology: hub-spoke\n{hub}", regions(&["eu-west-1"]));
        check_refused(&text, "hub.lease", &["a duration from 5s to"]);
    }
}

#[test]
fn a_spoke_asks_its_hub_only_where_its_configuration_says_so() {
    let hub = |keys: &str| HUB.replace("tls", &format!("{keys}, tls"));
    let spoke = |keys: &str| format!("{}topology: hub-spoke\n{}", regions(&["eu-west-1"]), hub(keys));
    assert_eq!(loaded(&spoke("lease: 10s")).config.asks_hub(), None);
    assert_eq!(loaded(&spoke("decide: view")).config.asks_hub(), None);
    let times = |text: &str| loaded(text).config.asks_hub();
    assert_eq!(times(&spoke("decide: ask")), Some((Duration::from_secs(3), Duration::from_secs(2))));
    let set = spoke("decide: ask, decide_cache: 10s, decide_wait: 250ms");
    assert_eq!(times(&set), Some((Duration::from_secs(10), Duration::from_millis(250))));
    // A sidecar in the region of the hub is no spoke, and has the same configuration.
    assert_eq!(times(&set.replace("local_region: us-east-1", "local_region: eu-west-1")), None);
    for topology in ["topology: mesh\n", ""] {
        check_refused(&format!("{REGIONS}{topology}{}", hub("decide: ask")), "hub.decide", &["hub-spoke", "view"]);
    }
    for key in ["decide_cache: 4s", "decide_wait: 1s"] {
        let name = format!("hub.{}", key.split(':').next().unwrap());
        check_refused(&spoke(key), &name, &["has no effect", "hub.decide: ask"]);
    }
    for (key, name) in [("decide_cache: 500ms", "hub.decide_cache"), ("decide_wait: 11s", "hub.decide_wait")] {
        check_refused(&spoke(&format!("decide: ask, {key}")), name, &["a duration from"]);
    }
    let without = format!("{}topology: hub-spoke\nhub: {{ decide: ask }}\n", regions(&["eu-west-1"]));
    check_refused(&without, "hub.urls", &["expected the URL of the hub"]);
}

#[test]
fn every_job_of_an_active_active_federation_is_stamped() {
    let hub = HUB.replace("tls", "report_jobs: true, tls");
    let text = |stamp: &str| format!("{REGIONS}topology: active-active\nrouting: {{ stamp: {stamp} }}\n{hub}");
    for stamp in ["never", "federated-only"] {
        check_refused(&text(stamp), "routing.stamp", &["expected always", "leave routing.stamp out"]);
    }
    loaded(&text("always"));
    let config = loaded(&format!("{REGIONS}topology: active-active\n{hub}")).config;
    assert_eq!((config.topology, config.routing.stamp), (Topology::ActiveActive, Stamp::Always));
}

#[test]
fn bytes_of_jobs_are_reported_only_where_their_end_is() {
    let hub = |keys: &str| format!("{REGIONS}{}", HUB.replace("tls", &format!("{keys}, tls")));
    check_refused(&hub("report_bodies: [email]"), "hub.report_bodies", &["hub.report_jobs: true", "leave this out"]);
    let config = loaded(&hub("report_bodies: [email], report_jobs: true")).config;
    assert_eq!(config.hub.unwrap().report_bodies, ["email"]);
    check_refused(&format!("{REGIONS}hub: {{ report_bodies: [email] }}"), "hub.urls", &["URL of the hub"]);
}

#[test]
fn the_jobs_of_an_active_active_federation_are_reported() {
    for hub in ["", HUB, &HUB.replace("tls", "report_jobs: false, tls")] {
        let text = format!("{REGIONS}topology: active-active\n{hub}");
        check_refused(&text, "hub.report_jobs", &["expected true", "hub.urls", "mesh"]);
    }
}

#[test]
fn replicas_of_lists_need_a_hub() {
    let mark = "lists: { replicas: mark }\n";
    check_refused(&format!("{REGIONS}{mark}"), "lists.replicas", &["hub.urls", "off", "leave"]);
    assert_eq!(loaded(&format!("{REGIONS}{mark}{HUB}")).config.lists.replicas, ListReplicas::Mark);
    for text in ["", "lists: { replicas: off }\n"] {
        assert_eq!(loaded(&format!("{REGIONS}{HUB}{text}")).config.lists.replicas, ListReplicas::Off, "{text}");
    }
}

#[test]
fn repeated_ids_are_refused_by_default_where_every_job_is_reported() {
    let of = |topology: &str, keys: &str| {
        format!("{REGIONS}topology: {topology}\n{}", HUB.replace("tls", &format!("{keys}, tls")))
    };
    let said = |text: &str| loaded(text).config.hub.unwrap().repeated_ids;
    let (active, mesh) = (of("active-active", "report_jobs: true"), of("mesh", "report_jobs: true"));
    assert_eq!((said(&active), said(&mesh)), (RepeatedIds::Refuse, RepeatedIds::Pass));
    let set =
        |text: &str, word: &str| text.replace("report_jobs: true", &format!("report_jobs: true, repeated_ids: {word}"));
    assert_eq!((said(&set(&active, "pass")), said(&set(&mesh, "refuse"))), (RepeatedIds::Pass, RepeatedIds::Refuse));
    check_refused(&of("mesh", "repeated_ids: refuse"), "hub.repeated_ids", &["report_jobs: true", "pass", "leave"]);
    assert_eq!(said(&of("mesh", "repeated_ids: pass")), RepeatedIds::Pass);
    check_refused(&format!("{REGIONS}hub: {{ repeated_ids: pass }}"), "hub.urls", &["URL of the hub"]);
}

#[test]
fn the_effective_configuration_of_each_topology_reads_back_as_itself() {
    let spoke = HUB.replace("tls", "lease: 20s, decide: ask, decide_wait: 1s, tls");
    for text in [
        format!("{}topology: hub-spoke\n{spoke}", regions(&["eu-west-1"])),
        format!("{REGIONS}topology: active-active\n{}", HUB.replace("tls", "report_jobs: true, tls")),
    ] {
        let first = effective(&loaded(&text).config);
        assert_eq!(effective(&loaded(&first).config), first);
        assert!(first.contains("topology: \"hub-spoke\"") == text.contains("is_hub"), "{first}");
    }
}
