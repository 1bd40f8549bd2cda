//! `ojs-sidecar check`: everything that is wrong at once, or the effective configuration.

use super::load::{complain_of, loaded, sources, warn_of};
use super::out::say;
use super::{BAD_CONFIG, ConfigArgs, DONE};
use crate::config::effective;

/// Exit code 0 with the effective configuration on standard output, or 78 with every problem on standard error.
pub(super) fn check(arguments: &ConfigArgs) -> u8 {
    let loaded = match sources(arguments).and_then(|sources| loaded(&sources)) {
        Ok(loaded) => loaded,
        Err(problems) => {
            complain_of(&problems);
            return BAD_CONFIG;
        }
    };
    warn_of(&loaded.warnings);
    say(effective(&loaded.config).trim_end());
    DONE
}
