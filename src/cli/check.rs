//! `ojs-sidecar check`: everything that is wrong at once, or the effective configuration.

use super::load::{complain_of, loaded, usable_files};
use super::out::{complain, say};
use super::{BAD_CONFIG, ConfigArgs, DONE};
use crate::config::effective;

/// Exit code 0 with the effective configuration on standard output, or 78 with every problem on standard error.
pub(super) fn check(arguments: &ConfigArgs) -> u8 {
    let loaded = match loaded(arguments) {
        Ok(loaded) => loaded,
        Err(problems) => {
            complain_of(&problems);
            return BAD_CONFIG;
        }
    };
    for warning in &loaded.warnings {
        complain(format_args!("warning: {warning}"));
    }
    if let Err(problems) = usable_files(&loaded.config) {
        complain(problems);
        return BAD_CONFIG;
    }
    say(effective(&loaded.config).trim_end());
    DONE
}
