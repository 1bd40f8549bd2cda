//! What threads share, while all of them use it at once.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use ojs_sidecar::base::Clock;
use ojs_sidecar::ojs::Class;
use ojs_sidecar::policy::{Attempt, Budgets, GuardClass, Pays, RegionIndex};
use ojs_sidecar::region::{Region, Registry};
use ojs_sidecar::telemetry::Metrics;

use super::regions;

const THREADS: [u32; 3] = [1, 2, 4];
const A: RegionIndex = RegionIndex::new(0);

/// Telling breaker and guards of an enqueue that went well.
pub(crate) fn breaker(criterion: &mut Criterion) {
    let config = regions::config(3);
    let all = config.regions.iter().enumerate();
    let all: Vec<_> = all.map(|(place, region)| Arc::new(Region::load(place, region).unwrap())).collect();
    let ids: Vec<_> = config.regions.iter().map(|region| region.id.clone()).collect();
    let metrics = Metrics::new(&ids, &Class::ALL.map(Class::as_str));
    let registry = Registry::new(&config, all, Clock::system(), metrics);
    let attempt =
        Attempt { class: GuardClass::Enqueue, status: Some(201), queue_status: false, retry_after: None, source: None };
    on_threads(criterion, "breaker/success", |_| registry.on_attempt(A, &attempt));
    on_threads(criterion, "breaker/view", |_| drop(registry.view()));
}

/// Paying in for each request, and drawing for a redirect that there is not always a token for.
pub(crate) fn budget(criterion: &mut Criterion) {
    let config = regions::config(3);
    let budgets = Budgets::new(&config.failover, 3, Instant::now());
    on_threads(criterion, "budget/deposit", |_| budgets.deposit(A));
    on_threads(criterion, "budget/withdraw", |now| {
        // Whether there was a token makes no difference here.
        let _ = budgets.toward(A).try_withdraw(now);
    });
}

/// Runs the same on some threads at once; what is shown is the time of one of them for one.
fn on_threads(criterion: &mut Criterion, name: &str, work: impl Fn(Instant) + Sync) {
    let mut group = criterion.benchmark_group(name);
    for threads in THREADS {
        group.bench_function(BenchmarkId::from_parameter(threads), |bench| {
            bench.iter_custom(|times| {
                let one = || {
                    let begun = Instant::now();
                    (0..times).for_each(|_| work(begun));
                    begun.elapsed()
                };
                let all: Duration = thread::scope(|scope| {
                    let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
                    running.into_iter().map(|thread| thread.join().unwrap()).sum()
                });
                all / threads
            });
        });
    }
    group.finish();
}
