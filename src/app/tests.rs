//! What keeps a program from starting whole, and what ends it.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::{Sources, load};

fn bound() -> Bound {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let yaml = "insecure_dev: true\nlocal_region: a\nregions: [{ id: a, url: \"http://127.0.0.1:9\" }]\n\
                listen: { clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }";
    std::fs::write(file.path(), yaml).unwrap();
    let loaded = load(&Sources { files: vec![file.path().to_owned()], ..Sources::default() }).unwrap();
    build(loaded.config, World::default()).unwrap()
}

/// A descriptor that no runtime can wait for.
fn deaf() -> TcpListener {
    TcpListener::from(OwnedFd::from(tempfile::tempfile().unwrap()))
}

/// Runs until something fails.
fn failure(bound: Bound) -> String {
    bound.run(std::future::pending()).unwrap_err().to_string()
}

#[test]
fn an_admin_listener_that_cannot_be_served_keeps_the_program_from_starting() {
    let mut bound = bound();
    bound.admin_listener = deaf();
    let (admin, error) = (bound.admin, failure(bound));
    assert!(error.starts_with(&format!("{admin} cannot be served: ")) && error.contains("; raise"), "{error}");
}

#[test]
fn a_client_listener_that_cannot_be_served_keeps_the_program_from_starting() {
    let mut bound = bound();
    bound.listeners.push(BoundListener::of(deaf(), LocalAddress::Unix("/run/deaf.sock".into())));
    let error = failure(bound);
    assert!(error.starts_with("unix:/run/deaf.sock cannot be served: ") && error.contains("; raise"), "{error}");
}

/// What ends a program whose only worker does this.
fn end_with(work: impl FnOnce(&worker_threads::Report) + Send + 'static) -> String {
    let bound = bound();
    let runtime = control::runtime().unwrap();
    let mut crew = WorkerThreads::new();
    if let Err(error) = crew.start(work) {
        return error.to_string();
    }
    let admin = runtime.block_on(async { bound.register_admin() }).unwrap();
    runtime.block_on(bound.control((admin, None), &mut crew, std::future::pending())).unwrap_err().to_string()
}

#[test]
fn a_worker_that_ends_while_the_program_runs_ends_the_program() {
    for does_report in [true, false] {
        let error = end_with(move |report| {
            if does_report {
                report.started(Ok(()));
            }
            panic!("a worker's defect");
        });
        assert!(error.starts_with("the worker thread ojs-worker-0 has ended"), "{error}");
    }
    let error = end_with(|report| report.started(Ok(())));
    assert!(error.starts_with("the worker thread ojs-worker-0 has ended"), "{error}");
}

#[test]
fn a_worker_that_cannot_start_ends_those_that_have() {
    let mut crew = WorkerThreads::new();
    let (ended, mut stopped) = (Arc::new(AtomicBool::new(false)), crew.stopped());
    let tell = Arc::clone(&ended);
    let waits = move |report: &worker_threads::Report| {
        report.started(Ok(()));
        let _ = control::runtime().unwrap().block_on(stopped.changed());
        tell.store(true, Ordering::Release);
    };
    crew.start(waits).unwrap();
    let error = crew.start(|report| report.started(Err(RunError::Runtime(std::io::ErrorKind::Other.into()))));
    assert!(error.unwrap_err().to_string().starts_with("a thread cannot make its runtime: "));
    drop(crew);
    assert!(ended.load(Ordering::Acquire));
}
