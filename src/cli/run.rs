//! `ojs-sidecar run`: the daemon.

use std::sync::Arc;

use super::arguments::ConfigArgs;
use super::exit::{BAD_CONFIG, DONE, FAILED};
use super::load::{complain_of, loaded, sources};
use super::out::complain;
use super::signals;
use super::supervisor::Supervisor;
use crate::app::{BuildError, Source, World, build_with};
use crate::config::{Loaded, Problems, Sources, load};
use crate::net::{HandedOver, descriptors};
use crate::telemetry::{self, event};

/// Runs until a signal; exit code 0 after a drain, 1 when it cannot start, 78 when the configuration is wrong.
pub(super) fn run(arguments: &ConfigArgs) -> u8 {
    // While there are no threads: it takes variables out of the environment.
    let handed_over = match HandedOver::of_this_process() {
        Ok(handed_over) => handed_over,
        Err(error) => {
            complain(format_args!("ojs-sidecar cannot start: {error}"));
            return FAILED;
        }
    };
    match first_load(arguments) {
        Ok((sources, loaded)) => run_with(sources, loaded, handed_over),
        Err(problems) => {
            complain_of(arguments, &problems);
            BAD_CONFIG
        }
    }
}

fn first_load(arguments: &ConfigArgs) -> Result<(Sources, Loaded), Problems> {
    let sources = sources(arguments)?;
    let loaded = loaded(&sources)?;
    Ok((sources, loaded))
}

fn run_with(sources: Sources, Loaded { config, warnings }: Loaded, handed_over: HandedOver) -> u8 {
    let log = match telemetry::init(&config.log) {
        Ok(log) => log,
        Err(error) => {
            complain(format_args!("the log cannot be set up: {error}"));
            return FAILED;
        }
    };
    telemetry::install_panic_hook(&log);
    descriptors::raise_limit(config.limits.client_connections, descriptors::Need::SIDECAR);
    let files = sources.files.clone();
    let source = Source { load: Arc::new(move || load(&sources)), files, log: Some(log.clone()) };
    let bound = match build_with(config, World { source: Some(source), ..World::default() }, handed_over) {
        Ok(bound) => bound,
        Err(error) => {
            log.flush();
            complain(format_args!("ojs-sidecar cannot start: {error}"));
            return if matches!(error, BuildError::Region(_)) { BAD_CONFIG } else { FAILED };
        }
    };
    let metrics = Arc::clone(&bound.current.load().metrics);
    for warning in &warnings {
        event::config_warning(&metrics, &warning.key, &warning.origin, &warning.rule);
    }
    let supervisor = Supervisor::of_this_process();
    let ready = bound.ready();
    let end = bound.run(async {
        tokio::select! {
            () = signals::first() => {}
            () = signals::ignored() => {}
            // Sending is over at once; the signal is awaited all the same.
            () = async { ready.await; supervisor.ready(); std::future::pending().await } => {}
        }
        supervisor.stopping();
    });
    log.flush();
    match end {
        Ok(_) => DONE,
        Err(error) => {
            complain(format_args!("ojs-sidecar ended: {error}"));
            FAILED
        }
    }
}
