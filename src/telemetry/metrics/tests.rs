use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::base::Strategy;
use crate::telemetry::event;

const CLASSES: [&str; 2] = ["enqueue", "other"];

fn metrics() -> Arc<Metrics> {
    let scope = Scope { federation_id: "f", local_region: "us-east-1", full: true };
    Metrics::of(scope, &["us-east-1", "eu-west-1"].map(|id| RegionId::parse(id).unwrap()), &CLASSES)
}

/// The value of the one series that begins with `series`.
fn value(text: &str, series: &str) -> String {
    let full = format!("ojs_federation_{series} ");
    let mut found = text.lines().filter_map(|line| line.strip_prefix(full.as_str()));
    let value = found.next().unwrap_or_else(|| panic!("no series {full}in\n{text}"));
    assert_eq!(found.next(), None, "{series} is there twice");
    value.to_owned()
}

#[test]
fn every_family_of_the_table_is_exposed_before_any_traffic() {
    let text = metrics().render();
    let shown: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter(|line| {
            FAMILIES.iter().any(|family| line.split_once(' ').is_some_and(|(name, _)| family.is_called(name)))
        })
        .map(str::to_owned)
        .collect();
    // Those of discovery are there from its first use on, those of scheduling where the configuration names queues.
    let is_always = |family: &&Family| !family.name.starts_with("discovery_") && !family.is_of_scheduling();
    let always = FAMILIES.iter().filter(is_always);
    let expected = always.map(|family| format!("{} {}", family.full_name(), family.kind.as_str())).collect();
    assert_eq!(shown, expected);
    assert!(FAMILIES.len() >= 10);
}

#[test]
fn every_label_value_has_its_series_before_any_traffic() {
    let text = metrics().render();
    for region in ["us-east-1", "eu-west-1"] {
        for class in CLASSES {
            for outcome in ["not_sent", "answered", "unknown"] {
                let series = format!("attempts_total{{class=\"{class}\",outcome=\"{outcome}\",region=\"{region}\"}}");
                assert_eq!(value(&text, &series), "0");
            }
        }
        for strategy in Strategy::ALL {
            let series = format!("enqueues_total{{region=\"{region}\",strategy=\"{strategy}\"}}");
            assert_eq!(value(&text, &series), "0");
        }
        for (state, shown) in [("closed", "1"), ("open", "0"), ("half-open", "0")] {
            let series = format!("breaker_state{{region=\"{region}\",state=\"{state}\"}}");
            assert_eq!(value(&text, &series), shown);
        }
        // What is not known yet must not look like an expired certificate.
        let series = format!("certificate_expiry_timestamp_seconds{{kind=\"client\",region=\"{region}\"}}");
        assert_eq!(value(&text, &series), "NaN");
    }
}

#[test]
fn traffic_adds_no_series() {
    let metrics = metrics();
    let names = |text: &str| -> BTreeSet<String> {
        text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned()).collect()
    };
    let before = names(&metrics.render());
    let region = metrics.region(1);
    for status in [101, 200, 404, 503] {
        metrics.request(1, status);
    }
    region.attempts[1][AttemptOutcome::Unknown].inc();
    region.request_duration[0].observe(0.2);
    event::unknown_outcome(region, Some("id"), "request");
    event::breaker_transition(region, Breaker::Closed, Breaker::Open, "probe_failures");
    assert_eq!(names(&metrics.render()), before);
}

#[test]
fn a_count_lands_in_the_series_of_its_region_and_label() {
    let metrics = metrics();
    let (first, second) = (metrics.region(0), metrics.region(1));
    metrics.request(0, 201);
    second.attempts[0][AttemptOutcome::NotSent].inc();
    second.stored(Strategy::GeoPin, 1);
    event::failover(first, second, FailoverReason::BreakerOpen, 0);
    event::breaker_transition(first, Breaker::Closed, Breaker::Open, "request_failures");
    event::region_health(second, true, "probe", None);
    event::drain_started(&metrics);
    let text = metrics.render();
    for (series, expected) in [
        ("requests_total{class=\"enqueue\",status_class=\"2xx\"}", "1"),
        ("requests_total{class=\"other\",status_class=\"2xx\"}", "0"),
        ("attempts_total{class=\"enqueue\",outcome=\"not_sent\",region=\"eu-west-1\"}", "1"),
        ("enqueues_total{region=\"eu-west-1\",strategy=\"geo-pin\"}", "1"),
        ("failovers_total{from_region=\"us-east-1\",reason=\"breaker_open\"}", "1"),
        ("breaker_state{region=\"us-east-1\",state=\"open\"}", "1"),
        ("breaker_state{region=\"us-east-1\",state=\"closed\"}", "0"),
        ("breaker_transitions_total{region=\"us-east-1\",to=\"open\"}", "1"),
        ("region_healthy{region=\"eu-west-1\"}", "1"),
        ("region_healthy{region=\"us-east-1\"}", "0"),
        ("draining", "1"),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
}

#[test]
fn gauges_owned_elsewhere_are_refreshed_at_each_scrape() {
    let metrics = metrics();
    let age = metrics.region(0).load_age.clone();
    let scrapes = AtomicU32::new(0);
    metrics.before_render(move || age.set(f64::from(scrapes.fetch_add(1, Ordering::Relaxed))));
    assert_eq!(value(&metrics.render(), "region_load_age_seconds{region=\"us-east-1\"}"), "0");
    assert_eq!(value(&metrics.render(), "region_load_age_seconds{region=\"us-east-1\"}"), "1");
}

#[test]
fn a_held_gauge_falls_back_when_the_holder_goes() {
    let metrics = metrics();
    let region = metrics.region(0);
    let (one, two) = (Held::one(&region.in_flight), Held::one(&region.in_flight));
    assert_eq!(region.in_flight.get(), 2);
    drop((one, two));
    assert_eq!(region.in_flight.get(), 0);
}

#[test]
fn status_codes_fall_into_their_class() {
    for (status, class) in
        [(101, "1xx"), (200, "2xx"), (299, "2xx"), (304, "3xx"), (429, "4xx"), (500, "5xx"), (599, "5xx")]
    {
        assert_eq!(StatusClass::of(status).as_str(), class, "{status}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn process_figures_keep_the_names_that_dashboards_know() {
    let text = metrics().render();
    assert!(text.contains("\nprocess_resident_memory_bytes ") && text.contains("\nprocess_open_fds "));
}
