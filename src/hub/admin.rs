//! The admin listener of a hub: liveness, readiness and metrics, in plain HTTP.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::event_counts::EventCounts;
use super::index::Index;
use super::ledger_metrics;
use super::limits::Subject;
use super::state::Hub;
use crate::base::SwitchKind;

/// Scrapers and probes are few.
const CONNECTIONS_MAX: usize = 64;
/// For a head to arrive; it also ends idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection that lives longer is ended, so that a client that never reads cannot hold its place for good.
const LIFETIME: Duration = Duration::from_secs(300);
const HEAD_BYTES: usize = 16 * 1024;
/// After a failed accept: most often the process is out of descriptors, and trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the admin paths for ever.
pub(super) async fn serve(listener: TcpListener, hub: Rc<Hub>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { continue };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the admin listener of the hub could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let hub = Rc::clone(&hub);
        tokio::task::spawn_local(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(&hub, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            // How a scraper's connection ends, well or badly, is its own business.
            let _ = timeout(LIFETIME, served).await;
        });
    }
}

fn answer(hub: &Hub, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" if hub.record.is_stuck() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "the record does not answer; orders cannot be kept\n")
        }
        "/readyz" => text(StatusCode::OK, "ok\n"),
        "/metrics" => {
            let mut response = text(StatusCode::OK, metrics(hub));
            let exposition = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, exposition);
            response
        }
        _ => text(StatusCode::NOT_FOUND, "there is no such path; /livez, /readyz and /metrics are there\n"),
    }
}

/// The figures of a hub in the text form of Prometheus.
fn metrics(hub: &Hub) -> String {
    let (known, connected) = hub.fleet.borrow().counts();
    let current = hub.current();
    let mut out = String::new();
    let mut gauge = |name: &str, help: &str, value: &dyn std::fmt::Display| {
        // Writing to a String cannot fail.
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
    };
    gauge("ojs_hub_sidecars", "Sidecars that were seen within a week", &known);
    gauge("ojs_hub_sidecars_connected", "Sidecars that hold a feed", &connected);
    gauge("ojs_hub_change", "The number of the last change of the switches", &current.version.change);
    gauge("ojs_hub_record_durable", "1 where a restart keeps the record", &u8::from(hub.record.is_durable()));
    gauge("ojs_hub_keys", "Idempotency keys in the record, as of a minute ago at most", &hub.keys.get());
    if let Some((regions, healthy)) = hub.views.as_ref().map(|views| views.counts()) {
        gauge("ojs_hub_regions", "Regions that it probes for sidecars", &regions);
        gauge("ojs_hub_regions_healthy", "Those of them that are healthy", &healthy);
    }
    limit_metrics(hub, &mut out);
    index_metrics(hub, &mut out);
    if let Some(ledger) = &hub.ledger {
        ledger_metrics::write(&ledger.figures, &mut out);
    }
    if hub.breakers.is_on() {
        hub.breakers.metrics(&mut out);
    }
    if hub.views.is_some() {
        hub.replays.metrics(&mut out);
    }
    let dropped = hub.dropped_reports.get();
    let name = "ojs_hub_reports_dropped_total";
    let _ = write!(
        out,
        "# HELP {name} Reports of outcomes that made room for later ones\n# TYPE {name} counter\n{name} {dropped}\n"
    );
    let _ = writeln!(out, "# HELP ojs_hub_switches Switches in force\n# TYPE ojs_hub_switches gauge");
    let in_force = current.in_force();
    for kind in SwitchKind::ALL {
        let count = in_force.iter().filter(|it| it.kind == kind).count();
        let _ = writeln!(out, "ojs_hub_switches{{switch=\"{}\"}} {count}", kind.as_str());
    }
    out
}

/// The fleet limits and the pools.
fn limit_metrics(hub: &Hub, out: &mut String) {
    let (mut regions, mut pools) = (Vec::new(), Vec::new());
    let counts = hub.limits.counts();
    for (limit, granted) in &counts {
        let (most, granted) = (limit.bound.most(), *granted);
        match &limit.bound.subject {
            Subject::Region(region) => regions.push((region.as_str(), most, granted)),
            // The name is the operator's: any text.
            Subject::Pool(name) => pools.push((name.as_str(), most, granted)),
            // Tenants are no labels.
            Subject::Quota(_) => {}
        }
    }
    let mut family = |name: &str, help: &str, label: &str, rows: Vec<(&str, u64)>| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (subject, value) in rows {
            let subject = subject.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(out, "{name}{{{label}=\"{subject}\"}} {value}");
        }
    };
    let held = "that sidecars held after the last change by this hub";
    family(
        "ojs_hub_limit_calls",
        "Calls at once that all sidecars may make",
        "region",
        regions.iter().map(|it| (it.0, it.1)).collect(),
    );
    family(
        "ojs_hub_granted_calls",
        &format!("Those {held}"),
        "region",
        regions.iter().map(|it| (it.0, it.2)).collect(),
    );
    family(
        "ojs_hub_pool_concurrency",
        "Jobs at once that the workers of a pool may hold at all sidecars",
        "pool",
        pools.iter().map(|it| (it.0, it.1)).collect(),
    );
    family("ojs_hub_granted_places", &format!("Those {held}"), "pool", pools.iter().map(|it| (it.0, it.2)).collect());
}

/// The clocks of the hubs that this one pulls from.
fn clock_metrics(index: &Index, out: &mut String) {
    let own = index.settings.region.as_str();
    let (by, is_stopped) = ("ojs_hub_clock_skew_seconds", "ojs_hub_clock_stopped");
    for (name, help) in [
        (by, "By how much the clock of another hub differs at least"),
        (is_stopped, "1 while no facts are taken from a hub because its clock differs by more than index.max_skew"),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (from, lag) in index.sources.borrow().iter() {
            let Some((ms, is_too_much)) = lag.skew else { continue };
            let value = if name == by { ms as f64 / 1_000.0 } else { f64::from(u8::from(is_too_much)) };
            let _ = writeln!(out, "{name}{{from=\"{}\",to=\"{own}\"}} {value}", from.as_str());
        }
    }
}

/// The copies of jobs that count less than a copy elsewhere.
fn conflict_metrics(index: &Index, out: &mut String) {
    let repeated = index.conflicts.repeated.get();
    let name = "ojs_hub_tracking_ids_repeated_total";
    let _ = writeln!(
        out,
        "# HELP {name} Tracking ids that were found in several regions\n# TYPE {name} counter\n{name} {repeated}"
    );
    let name = "ojs_hub_conflicts_total";
    let _ = writeln!(
        out,
        "# HELP {name} Copies of jobs in this region that count less than one elsewhere, by the result\n# TYPE {name} counter"
    );
    for (result, count) in index.conflicts.results() {
        let _ = writeln!(out, "{name}{{result=\"{result}\"}} {count}");
    }
}

/// The event streams of the region.
fn event_metrics(events: &EventCounts, now: Instant, out: &mut String) {
    let (waiting, oldest) = events.waiting.get();
    let wait = oldest.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
    for (name, help, kind, value) in [
        (
            "ojs_hub_events_reading",
            "1 while this hub reads the event streams",
            "gauge",
            f64::from(u8::from(events.is_reading.get())),
        ),
        ("ojs_hub_events_waiting", "Events that were read and are not in the index yet", "gauge", waiting as f64),
        (
            "ojs_hub_events_wait_seconds",
            "How long the oldest of those waits whose job no sidecar describes",
            "gauge",
            wait,
        ),
        (
            "ojs_hub_event_gaps_total",
            "Ends of event streams, and words of a server that it has left out events",
            "counter",
            events.gaps.get() as f64,
        ),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    let name = "ojs_hub_event_streams";
    let _ = writeln!(out, "# HELP {name} Event streams of queues, by their state\n# TYPE {name} gauge");
    for (state, count) in events.states() {
        let _ = writeln!(out, "{name}{{state=\"{state}\"}} {count}");
    }
    let results: Vec<_> = events.results().collect();
    for (name, help, rows) in [
        ("ojs_hub_events_total", "Events and steps of listed jobs, by their result", results),
        (
            "ojs_hub_event_catch_ups_total",
            "Looks at the lists of a queue for missed events, by their result",
            events.catch_ups().collect(),
        ),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
        for (result, count) in rows {
            let _ = writeln!(out, "{name}{{result=\"{result}\"}} {count}");
        }
    }
}

/// How far the index of this region is behind the others, where there is one.
fn index_metrics(hub: &Hub, out: &mut String) {
    let Some(index) = &hub.index else { return };
    let now_ms = hub.clock.unix_ms();
    let name = "ojs_hub_replication_lag_seconds";
    let _ = writeln!(
        out,
        "# HELP {name} How far the index of one region is behind the facts of another\n# TYPE {name} gauge"
    );
    let own = index.settings.region.as_str();
    for (from, lag) in index.sources.borrow().iter() {
        if let Some(ms) = lag.ms(now_ms) {
            let _ = writeln!(out, "{name}{{from=\"{}\",to=\"{own}\"}} {}", from.as_str(), ms as f64 / 1_000.0);
        }
    }
    clock_metrics(index, out);
    conflict_metrics(index, out);
    if index.settings.events.is_some() {
        event_metrics(&index.events, hub.clock.now(), out);
    }
    let Some(bodies) = &index.bodies else { return };
    let (count, bytes) = bodies.total.get();
    for (name, help, kind, value) in [
        ("ojs_hub_bodies", "Bodies of jobs, counted once a minute", "gauge", count),
        ("ojs_hub_bodies_bytes", "What they take, sealed", "gauge", bytes),
        ("ojs_hub_bodies_dropped_total", "Bodies that made room for later ones", "counter", bodies.dropped.get()),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
