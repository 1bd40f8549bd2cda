//! What the parts of one request cost, each alone: `cargo bench --bench micro`, with a word of a name to run some of them.
//!
//! They print and assert nothing, because times are the machine's. What must not grow is held by counts (`tests/allocations.rs`), and
//! the whole hop is measured beside other proxies by `make bench-hop`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

mod bodies;
mod contention;
mod regions;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use ojs_sidecar::base::{Draw, RegionId};
use ojs_sidecar::net::headers::strip_hop_by_hop;
use ojs_sidecar::ojs::{Abridged, Additions, Envelope, Uuid7, Uuid7Room, hint, scan, stamp};
use ojs_sidecar::policy::{Inputs, Job, NoTraffic, View, route, settle};
use ojs_sidecar::region::Owners;

use bodies::{job, job_of_tokens};

const DEPTH_MAX: usize = 128;

criterion_group! {
    name = micro;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = bodies_read, bodies_stamped, decisions, owner_map, contention::breaker, contention::budget, header_lines
}
criterion_main!(micro);

/// Bytes a second, on text and on what has more marks than text.
fn bodies_read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    for (kind, body) in [
        ("text", job(600)),
        ("text", job(64 * 1024)),
        ("tokens", job_of_tokens(600)),
        ("tokens", job_of_tokens(64 * 1024)),
    ] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        let id = |what: &str| BenchmarkId::new(format!("{what}/{kind}"), body.len());
        group.bench_function(id("scan"), |bench| bench.iter(|| scan(black_box(&body), DEPTH_MAX)));
        group.bench_function(id("envelope"), |bench| {
            bench.iter(|| drop(black_box(Envelope::read(black_box(&body), DEPTH_MAX))));
        });
    }
    group.finish();
}

/// A job with both additions: what a read one costs more.
fn bodies_stamped(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stamp");
    for size in [600, 64 * 1024] {
        let body = Bytes::from(job(size));
        let envelope = Envelope::read(&body, DEPTH_MAX).unwrap();
        group.bench_function(BenchmarkId::new("id and tracking id", body.len()), |bench| {
            bench.iter(|| {
                let (mut id, mut federation_id) = (Uuid7Room::default(), Uuid7Room::default());
                let additions = Additions {
                    id: Some(hint::give(Uuid7::new(1_800_000_000_000, [7; 10]), "us-east-1").text(&mut id)),
                    federation_id: Some(Uuid7::new(1_800_000_000_000, [8; 10]).text(&mut federation_id)),
                    ..Additions::default()
                };
                stamp(black_box(&envelope), Abridged::whole(&body), &additions)
            });
        });
    }
    group.finish();
}

/// A decision for a job that says nothing, and for one that is pinned to the last region of the registry.
fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    for regions in [3, 100] {
        let healthy = regions::healthy(&regions::config(regions));
        let mut settled = healthy.clone();
        settle(&mut settled, Instant::now());
        let last = settled.regions.last().unwrap().id.as_str().to_owned();
        let pinned = Job { pin: Some(&last), ..Job::plain("default") };
        let drawn = Job { affinity: Some("weighted"), ..Job::plain("default") };
        for (name, view, job) in [
            ("affinity", &settled, Job::plain("default")),
            ("affinity, one by one", &healthy, Job::plain("default")),
            ("pinned", &settled, pinned),
            ("weighted", &settled, drawn),
        ] {
            decision(&mut group, (name, regions), view, &job);
        }
    }
    group.finish();
}

fn decision(group: &mut BenchmarkGroup<'_, WallTime>, (name, regions): (&str, usize), view: &View, job: &Job<'_>) {
    let (now, mut seed) = (Instant::now(), 0);
    group.bench_function(BenchmarkId::new(name, regions), |bench| {
        bench.iter(|| {
            seed += 1;
            let inputs = Inputs { now, draw: Draw::from_seed(seed), turn: seed, live: &NoTraffic, drill: &0 };
            route(black_box(view), black_box(job), inputs)
        });
    });
}

/// Remembering and asking for jobs, with a map that holds nothing and one that has been full for long.
fn owner_map(criterion: &mut Criterion) {
    const ENTRIES_MAX: usize = 100_000;
    let mut group = criterion.benchmark_group("owners");
    let region = RegionId::parse("us-east-1").unwrap();
    let id = |number: u64| Uuid7::new(number, number.to_le_bytes().repeat(2)[..10].try_into().unwrap());
    for (name, entries) in [("empty", 0), ("full", 2 * ENTRIES_MAX as u64)] {
        let owners = Owners::new(ENTRIES_MAX);
        let mut room = Uuid7Room::default();
        (0..entries).for_each(|number| owners.learn(id(number).text(&mut room), &region));
        let known = id(entries.saturating_sub(1)).text(&mut room).to_owned();
        group.bench_function(BenchmarkId::new("ask", name), |bench| bench.iter(|| owners.region_of(black_box(&known))));
        let mut number = entries;
        group.bench_function(BenchmarkId::new("learn", name), |bench| {
            bench.iter(|| {
                number += 1;
                owners.learn(id(number).text(&mut Uuid7Room::default()), &region);
            });
        });
    }
    group.finish();
}

/// Taking out of a head what belongs to one connection: where nothing does, and where a line names more.
fn header_lines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("headers");
    let mut plain = HeaderMap::new();
    plain.insert(HOST, HeaderValue::from_static("localhost:8080"));
    plain.insert(USER_AGENT, HeaderValue::from_static("ojs-go/1.0"));
    plain.insert(ACCEPT, HeaderValue::from_static("*/*"));
    plain.insert(CONTENT_TYPE, HeaderValue::from_static("application/openjobspec+json"));
    plain.insert("x-request-id", HeaderValue::from_static("req_1"));
    let mut hop = plain.clone();
    hop.insert(CONNECTION, HeaderValue::from_static("keep-alive, x-request-id, x-other"));
    hop.insert("keep-alive", HeaderValue::from_static("timeout=5"));
    for (name, headers) in [("nothing to strip", plain), ("connection names others", hop)] {
        group.bench_function(name, |bench| {
            bench.iter_batched_ref(|| headers.clone(), strip_hop_by_hop, BatchSize::SmallInput);
        });
    }
    group.finish();
}
