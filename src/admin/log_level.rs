//! `/log-level`: another level of the log for a while, from this machine only.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::json;

use super::response::{document, error};
use crate::base::Clock;
use crate::base::text::{parse_duration, print_duration, rfc3339};
use crate::config::{LOG_LEVEL_EXPECTED, is_log_level};
use crate::ojs::query_text;
use crate::telemetry::{LogHandle, event};

/// How long a level lasts when the call does not say.
const DEFAULT_FOR: Duration = Duration::from_secs(600);
/// The longest: a level that is forgotten fills a disk, and a longer need is a matter of the configuration.
const FOR_MAX: Duration = Duration::from_secs(3_600);
/// A filter is a few names with a level each. Units: bytes.
const LEVEL_BYTES_MAX: usize = 256;
/// The methods of the path, as `Allow` has them.
pub(super) const METHODS: &str = "GET, HEAD, PUT, POST, DELETE";

/// The level of the log while the process runs.
#[derive(Debug, Clone)]
pub struct LogLevel {
    /// The log of this process; none where another program logs.
    pub log: Option<LogHandle>,
    /// Whether only this machine reaches the listener.
    pub is_local: bool,
    /// By which a level ends.
    pub clock: Clock,
}

impl LogLevel {
    /// Answers one call. Must run within a `LocalSet`, on which the end of a level is awaited.
    pub(super) fn answer(&self, method: &Method, query: Option<&str>) -> Response<Bytes> {
        let Some(log) = &self.log else {
            return error(StatusCode::NOT_FOUND, "not_found", "this process writes no log of its own");
        };
        if matches!(*method, Method::GET | Method::HEAD) {
            return shown(log);
        }
        if !self.is_local {
            let message = "the level changes only where `listen.admin` is a loopback address: set `log.level` in the configuration, \
                           which is read again while the sidecar runs";
            return error(StatusCode::FORBIDDEN, "not_local", message);
        }
        if *method == Method::DELETE {
            if log.end_passing_level(None) {
                event::log_level_ended(&log.levels().configured);
            }
            return shown(log);
        }
        match asked(query) {
            Ok((level, lasts)) => self.set(log, &level, lasts),
            Err(message) => error(StatusCode::BAD_REQUEST, "invalid_request", &message),
        }
    }

    fn set(&self, log: &LogHandle, level: &str, lasts: Duration) -> Response<Bytes> {
        let until_unix_ms = self.clock.unix_ms().saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let number = match log.set_passing_level(level, until_unix_ms) {
            Ok(number) => number,
            Err(refused) => return error(StatusCode::BAD_REQUEST, "invalid_request", &refused.to_string()),
        };
        event::log_level_changed(level, &print_duration(lasts));
        let (log_then, clock) = (log.clone(), self.clock.clone());
        tokio::task::spawn_local(async move {
            clock.sleep(lasts).await;
            if log_then.end_passing_level(Some(number)) {
                event::log_level_ended(&log_then.levels().configured);
            }
        });
        shown(log)
    }
}

fn shown(log: &LogHandle) -> Response<Bytes> {
    let levels = log.levels();
    let (level, until) = levels.passing.unzip();
    document(&json!({
        "level": level.as_ref().unwrap_or(&levels.configured),
        "configured": levels.configured,
        "until": until.map(rfc3339),
    }))
}

/// The level and the time of a query such as `level=debug&for=10m`.
///
/// Errors: the expectation.
fn asked(query: Option<&str>) -> Result<(String, Duration), String> {
    let (mut level, mut lasts) = (None, DEFAULT_FOR);
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "level" => level = Some(query_text(value)),
            "for" => {
                let time = parse_duration(&query_text(value))
                    .ok()
                    .filter(|time| (Duration::from_secs(1)..=FOR_MAX).contains(time));
                lasts = time.ok_or("`for`: expected a time from 1s to 1h, such as 10m")?;
            }
            _ => return Err("expected `level` and `for` only, such as ?level=debug&for=10m".to_owned()),
        }
    }
    let level = level.ok_or("`level` is missing: expected a query such as ?level=debug&for=10m")?;
    if level.len() > LEVEL_BYTES_MAX || !is_log_level(&level) {
        return Err(format!("`level`: {LOG_LEVEL_EXPECTED}, of at most {LEVEL_BYTES_MAX} bytes"));
    }
    Ok((level, lasts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_needs_a_name_and_lasts_at_most_an_hour() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(asked(Some("level=debug")), Ok(("debug".to_owned(), minutes(10))));
        assert_eq!(asked(Some("for=1h&level=trace")), Ok(("trace".to_owned(), minutes(60))));
        assert_eq!(
            asked(Some("level=info%2Cojs_federation%3Ddebug")).map(|it| it.0),
            Ok("info,ojs_federation=debug".to_owned())
        );
        for refused in [
            None,
            Some(""),
            Some("level="),
            Some("level=debug&for=2h"),
            Some("level=debug&for=0s"),
            Some("level=debug&x=1"),
            Some("level=loud"),
        ] {
            assert!(asked(refused).is_err(), "{refused:?}");
        }
        assert!(asked(Some(&format!("level={}", "x".repeat(300)))).is_err());
    }
}
