//! `ojs-sidecar run`: the daemon.

use super::load::{complain_of, loaded, usable_files};
use super::out::complain;
use super::{BAD_CONFIG, ConfigArgs, DONE, FAILED, signals};
use crate::app::{BuildError, World, build};
use crate::config::Loaded;
use crate::telemetry::{self, event};

/// Runs until a signal; exit code 0 after a drain, 1 when it cannot start, 78 when the configuration is wrong.
pub(super) fn run(arguments: &ConfigArgs) -> u8 {
    let Loaded { config, warnings } = match loaded(arguments) {
        Ok(loaded) => loaded,
        Err(problems) => {
            complain_of(&problems);
            return BAD_CONFIG;
        }
    };
    if let Err(problems) = usable_files(&config) {
        complain(problems);
        return BAD_CONFIG;
    }
    let log = match telemetry::init(&config.log) {
        Ok(log) => log,
        Err(error) => {
            complain(format_args!("the log cannot be set up: {error}"));
            return FAILED;
        }
    };
    telemetry::tell_panics(&log);
    let bound = match build(config, World::default()) {
        Ok(bound) => bound,
        Err(error) => {
            log.flush();
            complain(format_args!("ojs-sidecar cannot start: {error}"));
            return if matches!(error, BuildError::Region(_)) { BAD_CONFIG } else { FAILED };
        }
    };
    for warning in &warnings {
        event::config_warning(&bound.shared.metrics, &warning.key, &warning.origin, &warning.rule);
    }
    let end = bound.run(signals::first());
    log.flush();
    match end {
        Ok(_) => DONE,
        Err(error) => {
            complain(format_args!("ojs-sidecar ended: {error}"));
            FAILED
        }
    }
}
