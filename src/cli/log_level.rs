//! `ojs-sidecar log-level`: more lines for a while, without a restart.

use http::Method;
use serde_json::Value;

use super::arguments::LogLevelArgs;
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::say;
use super::query::cell;
use crate::ojs::path_segment;

/// Shows or changes the level; exit code 1 where the sidecar refuses.
pub(super) fn log_level(arguments: &LogLevelArgs) -> u8 {
    let (method, path) = match &arguments.level {
        Some(level) => {
            // Commas and equal signs of a filter are written as they are read there.
            let (level, lasts) = (path_segment(level), path_segment(&arguments.lasts));
            (Method::PUT, format!("/log-level?level={level}&for={lasts}"))
        }
        None if arguments.reset => (Method::DELETE, "/log-level".to_owned()),
        None => (Method::GET, "/log-level".to_owned()),
    };
    let is_ours = |document: &Value| !document["level"].is_null();
    let Some(document) = order(To::Sidecar(&arguments.at), method, &path, is_ours) else { return FAILED };
    let until = match document["until"].as_str() {
        Some(until) => format!(" until {until}, then {}", cell(&document["configured"])),
        None => ", as configured".to_owned(),
    };
    say(format_args!("log level {}{until}", cell(&document["level"])));
    DONE
}
