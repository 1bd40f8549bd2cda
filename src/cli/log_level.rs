//! `ojs-sidecar log-level`: more lines for a while, without a restart.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::arguments::LogLevelArgs;
use super::client::ask;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::query::cell;
use super::runtime::runtime;
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
    let answer = match runtime() {
        Ok(runtime) => runtime.block_on(ask(&arguments.address, method, &path, Bytes::new())),
        Err(error) => Err(format!("the system refuses a runtime: {error}")),
    };
    let (parts, body) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let document: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !parts.status.is_success() || document["level"].is_null() {
        let message = document["error"]["message"].as_str().unwrap_or("it is no ojs-sidecar's admin listener");
        complain(format_args!("{} answered {}: {message}", arguments.address, parts.status.as_u16()));
        return FAILED;
    }
    let until = match document["until"].as_str() {
        Some(until) => format!(" until {until}, then {}", cell(&document["configured"])),
        None => ", as configured".to_owned(),
    };
    say(format_args!("log level {}{until}", cell(&document["level"])));
    DONE
}
