//! Alert rules and the dashboard name no metric, label or label value that is not exported.

use std::collections::BTreeSet;

use ojs_sidecar::base::RegionId;
use ojs_sidecar::ojs::Class;
use ojs_sidecar::telemetry::metrics::{Basic, FAMILIES, Family, Kind};
use ojs_sidecar::telemetry::{Metrics, Scope};

use crate::files::{check_judged, document, read};

const FILES: [&str; 7] = [
    "deploy/prometheus/rules.yaml",
    "deploy/prometheus/rules_test.yaml",
    "deploy/prometheus/dashboard.json",
    "deploy/prometheus/prometheus.yml",
    "deploy/prometheus/prometheus-kubernetes.yml",
    "deploy/README.md",
    "docs/runbook.md",
];

/// Labels that a scrape or a histogram adds.
const ADDED: [&str; 5] = ["instance", "job", "le", "namespace", "pod"];

/// A metric as an expression names it, with its matchers: label, operator, value.
#[derive(Debug)]
struct Selector {
    name: String,
    matchers: Vec<(String, String, String)>,
}

/// The metrics of ours that a text names.
fn selectors(text: &str) -> Vec<Selector> {
    // As JSON has them within its texts.
    let text = text.replace("\\\"", "\"").replace("\\|", "|");
    let places = ["ojs_federation_", "ojs_scheduling_"]
        .into_iter()
        .flat_map(|prefix| text.match_indices(prefix))
        .map(|(at, _)| &text[at..]);
    let selector = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let braces = rest[end..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
        Selector {
            name: rest[..end].to_owned(),
            matchers: braces.map(|(inner, _)| matchers(inner)).unwrap_or_default(),
        }
    };
    places.map(selector).collect()
}

fn matchers(inner: &str) -> Vec<(String, String, String)> {
    let matcher = |text: &str| {
        let at = text.find(['=', '!']).unwrap_or_else(|| panic!("no matcher: {text}"));
        let value = text[at..].trim_start_matches(['=', '!', '~']);
        let operator = &text[at..text.len() - value.len()];
        (text[..at].trim().to_owned(), operator.to_owned(), value.trim_matches('"').to_owned())
    };
    inner.split(',').filter(|text| !text.trim().is_empty()).map(matcher).collect()
}

fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| {
        let full = family.full_name();
        let parts = ["_bucket", "_sum", "_count"];
        match family.kind {
            Kind::Histogram(_) => parts.iter().any(|part| name.strip_suffix(part) == Some(&full)),
            _ => name == full,
        }
    })
}

/// Every label value that exists from the start, as `family label value`.
fn values() -> BTreeSet<String> {
    let metrics = Metrics::new(&[RegionId::parse("us-east-1").unwrap()], &Class::ALL.map(Class::as_str));
    std::sync::LazyLock::force(&metrics.discovery);
    let exposition = metrics.render();
    let exposition = String::from_utf8_lossy(exposition.as_ref()).into_owned();
    let of = |selector: Selector| {
        let Selector { name, matchers } = selector;
        matchers.into_iter().map(move |(label, _, value)| format!("{name} {label} {value}"))
    };
    selectors(&exposition).into_iter().flat_map(of).collect()
}

/// What is wrong with one selector.
fn wrong(selector: &Selector, values: &BTreeSet<String>) -> Option<String> {
    let Selector { name, matchers } = selector;
    let Some(family) = family(name) else { return Some(format!("{name} is not exported")) };
    if matches!(family.basic, Basic::Absent) {
        return Some(format!("{name} is exported with metrics.detail: full only"));
    }
    for (label, _, value) in matchers {
        if !family.labels.contains(&label.as_str()) && !ADDED.contains(&label.as_str()) {
            return Some(format!("{name} has no label {label}"));
        }
        // Regions, queues and pools are named by the configuration.
        let named = label.ends_with("region") || family.is_of_scheduling();
        let open = ADDED.contains(&label.as_str()) || named || value.contains('$');
        let missing = value.split('|').find(|value| !open && !values.contains(&format!("{name} {label} {value}")));
        if let Some(missing) = missing {
            return Some(format!("{name} never has {label}={missing}"));
        }
    }
    None
}

#[test]
fn rules_and_dashboard_name_only_what_is_exported() {
    let values = values();
    for name in FILES {
        let text = read(name);
        let wrong: Vec<String> = selectors(&text).iter().filter_map(|selector| wrong(selector, &values)).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
    assert!(selectors(&read(FILES[0])).len() >= 10, "the rules cannot be read");
    assert!(selectors(&read(FILES[2])).len() >= 20, "the dashboard cannot be read");
}

#[test]
fn a_wrong_name_label_or_value_is_found() {
    let values = values();
    let check = |text: &str, expected: Option<&str>| {
        let found = selectors(text).iter().find_map(|selector| wrong(selector, &values));
        assert_eq!(found.as_deref(), expected, "{text}");
    };
    check("rate(ojs_federation_requests_total{status_class=\"5xx\"}[5m])", None);
    check("ojs_federation_refusals_total{reason=~\"retry_budget|no_healthy_region\",instance=~\"$i\"}", None);
    check("ojs_federation_overhead_seconds_bucket", None);
    check("ojs_federation_overhead_seconds", Some("ojs_federation_overhead_seconds is not exported"));
    check("ojs_federation_request_total", Some("ojs_federation_request_total is not exported"));
    check("ojs_federation_in_flight{class=\"x\"}", Some("ojs_federation_in_flight has no label class"));
    let never = "ojs_federation_refusals_total never has reason=bored";
    check("ojs_federation_refusals_total{reason=~\"retry_budget|bored\"}", Some(never));
}

/// A hub that runs in this process, and what it exports.
fn exposition_of_a_hub() -> String {
    use std::io::{Read as _, Write as _};
    let files = tempfile::tempdir().unwrap();
    let authority = ojs_testbed::Authority::new("clients of the hub");
    let ca = authority.write_ca(files.path(), "hub").unwrap();
    let identity = authority.server(&["localhost"]).write_to(files.path(), "hub").unwrap();
    let (cert, key, record) = (&identity.cert, &identity.key, files.path().join("hub.db"));
    let from =
        format!("{{ region: eu, urls: ['https://127.0.0.1:1'], tls: {{ ca: {ca:?}, cert: {cert:?}, key: {key:?} }} }}");
    let yaml = format!(
        "{{ listen: '127.0.0.1:0', admin: '127.0.0.1:0', tls: {{ cert: {cert:?}, key: {key:?}, client_ca: {ca:?} }}, access: [{{ san: '*', role: sidecar }}], record: {{ path: {record:?} }}, index: {{ region: us, from: [{from}] }}, ledger: {{}}, breakers: [{{ job_type: a }}] }}"
    );
    let file = files.path().join("hub.yaml");
    std::fs::write(&file, yaml).unwrap();
    let settings = ojs_sidecar::hub::Settings::load(&file).unwrap_or_else(|error| panic!("{error}"));
    let bound = ojs_sidecar::hub::bind(settings, ojs_sidecar::base::Clock::system()).unwrap();
    let admin = bound.admin;
    std::thread::spawn(move || bound.run(std::future::pending()));
    let mut stream = std::net::TcpStream::connect(admin).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn rules_name_only_metrics_that_a_hub_exports() {
    let exposition = exposition_of_a_hub();
    let exported: BTreeSet<&str> =
        exposition.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let mut named = 0;
    for name in FILES {
        let text = read(name);
        for (at, _) in text.match_indices("ojs_hub_") {
            let rest = &text[at..];
            let metric = &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())];
            assert!(exported.contains(metric), "{name}: {metric} is not exported, but {exported:?}");
            named += 1;
        }
    }
    assert!(named >= 2, "the rules cannot be read");
}

/// The series of a scrape, by the region that they are of.
fn series(regions: usize, detail_full: bool) -> (usize, Vec<usize>) {
    let ids: Vec<RegionId> = (0..regions).map(|at| RegionId::parse(&format!("region-{at}")).unwrap()).collect();
    let scope = Scope { federation_id: "f", local_region: "region-0", full: detail_full };
    let text = Metrics::of(scope, &ids, &Class::ALL.map(Class::as_str)).render();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("ojs_federation_")).collect();
    // The info names the local region, and is one for all.
    let is_of = |line: &str, id: &RegionId| {
        let named = ["region", "from_region", "to"].map(|label| format!("{label}=\"{id}\""));
        !line.contains("local_region") && named.iter().any(|it| line.contains(it.as_str()))
    };
    let each = ids.iter().map(|id| lines.iter().filter(|line| is_of(line, id)).count()).collect();
    (lines.len(), each)
}

#[test]
fn a_scrape_has_at_most_sixty_series_a_region_unless_all_are_asked_for() {
    for regions in [3, 10] {
        let (all, each) = series(regions, false);
        assert!(each.iter().all(|it| (40..=60).contains(it)), "{regions} regions: {each:?}");
        let own = all - each.iter().sum::<usize>();
        assert!(own <= 224, "{regions} regions: {own} series of none");
        let (full, each) = series(regions, true);
        assert!(each.iter().all(|it| *it > 250) && full > 2 * all, "{regions} regions: {each:?}");
    }
}

#[test]
fn sums_are_by_labels_that_exist() {
    let known: BTreeSet<&str> = FAMILIES.iter().flat_map(|family| family.labels).copied().chain(ADDED).collect();
    for name in FILES {
        let text = read(name);
        let groups = text.split(" by (").skip(1).filter_map(|rest| rest.split_once(')'));
        for label in groups.flat_map(|(labels, _)| labels.split(',')).map(str::trim) {
            assert!(known.contains(label), "{name}: no metric has the label {label}");
        }
    }
}

#[test]
fn panels_of_the_dashboard_are_distinct_and_do_not_overlap() {
    let dashboard = document("deploy/prometheus/dashboard.json");
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cell.0 < 24 && taken.insert(cell), "{} overlaps", panel["title"]);
        }
    }
}

#[test]
fn promtool_accepts_the_rules_and_their_tests() {
    check_judged("promtool", &["check", "rules", "deploy/prometheus/rules.yaml"], "");
    check_judged("promtool", &["test", "rules", "deploy/prometheus/rules_test.yaml"], "");
}

#[test]
fn promtool_accepts_the_scrape_configurations() {
    check_judged("promtool", &["check", "config", "deploy/prometheus/prometheus.yml"], "");
    // Builds of distributions lack the discovery of pods, so that all but this is judged: it finds one address here.
    let pods = read("deploy/prometheus/prometheus-kubernetes.yml");
    let found = pods.replace("kubernetes_sd_configs:\n      - role: pod", "static_configs:\n      - targets: ['a:1']");
    assert_ne!(pods, found, "no discovery of pods in\n{pods}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rules.yaml"), read("deploy/prometheus/rules.yaml")).unwrap();
    let file = dir.path().join("prometheus.yml");
    std::fs::write(&file, found).unwrap();
    check_judged("promtool", &["check", "config", file.to_str().unwrap()], "");
}

#[test]
fn every_alert_has_its_section_in_the_runbook() {
    let rules = document("deploy/prometheus/rules.yaml");
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules: Vec<_> = groups.flat_map(|group| group["rules"].as_array().unwrap()).collect();
    let alerts: BTreeSet<String> = rules.iter().filter_map(|rule| rule["alert"].as_str()).map(str::to_owned).collect();
    assert!(alerts.len() >= 20, "the rules cannot be read: {alerts:?}");
    for rule in rules.iter().filter(|rule| rule["alert"].is_string()) {
        let name = rule["alert"].as_str().unwrap();
        let place = format!("docs/runbook.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], place.as_str(), "{name}");
    }
    let runbook = read("docs/runbook.md");
    let sections: BTreeSet<String> =
        runbook.lines().filter_map(|line| line.strip_prefix("## Ojs")).map(|name| format!("Ojs{name}")).collect();
    assert_eq!(sections, alerts);
}

#[test]
fn what_a_restart_could_forget_is_in_an_alert_and_in_a_panel() {
    let (rules, dashboard) = (read("deploy/prometheus/rules.yaml"), read("deploy/prometheus/dashboard.json"));
    for name in ["outcomes_pending", "journal_durable", "journal_evictions_total", "reload_refused", "ready"] {
        let name = format!("ojs_federation_{name}");
        for (place, text) in [("rules", &rules), ("dashboard", &dashboard)] {
            assert!(selectors(text).iter().any(|selector| selector.name == name), "{name} is not in the {place}");
        }
    }
}

#[test]
fn the_memory_panel_shows_pods_that_the_pod_monitor_found() {
    let dashboard = document("deploy/prometheus/dashboard.json");
    let panels = dashboard["panels"].as_array().unwrap();
    let exprs =
        panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()).map(|it| it["expr"].as_str().unwrap());
    let memory: Vec<&str> = exprs.filter(|expr| expr.contains("process_resident_memory_bytes")).collect();
    let [memory] = memory[..] else { panic!("one panel shows memory: {memory:?}") };
    // The operator's job label is the PodMonitor's namespace and name.
    let labels = r#"job="shop/ojs-sidecar",namespace="shop",instance="a""#;
    let memory = memory.replace("$namespace", ".*").replace("$instance", ".*");
    let test = format!(
        "tests: [{{ interval: 1m, input_series: [\n\
         {{ series: 'process_resident_memory_bytes{{{labels}}}', values: '9x5' }},\n\
         {{ series: 'process_resident_memory_bytes{{job=\"other\",instance=\"b\"}}', values: '7x5' }},\n\
         {{ series: 'ojs_federation_build_info{{{labels}}}', values: '1x5' }}],\n\
         promql_expr_test: [{{ expr: '{memory}', eval_time: 3m,\n\
         exp_samples: [{{ labels: 'process_resident_memory_bytes{{{labels}}}', value: 9 }}] }}] }}]\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.yaml");
    std::fs::write(&file, test).unwrap();
    check_judged("promtool", &["test", "rules", file.to_str().unwrap()], "");
}

#[test]
fn sidecars_are_chosen_by_an_expression_and_by_no_list_of_all_pods() {
    let dashboard = document("deploy/prometheus/dashboard.json");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let instance = variables.iter().find(|variable| variable["name"] == "instance").unwrap();
    assert_eq!((instance["type"].as_str(), instance["query"].as_str()), (Some("textbox"), Some(".*")));
    assert!(variables.iter().any(|variable| variable["name"] == "namespace"));
}
