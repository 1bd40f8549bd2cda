//! `Retry-After` as every client can read it.
//!
//! Regions write whole seconds, decimals or dates, and some write nonsense; the Rust SDK panics on a negative or an infinite
//! number. Spec: ojs-protocol 1.2.

use std::time::{Duration, SystemTime};

/// Longer waits are useless, and a client that computes with them may overflow: one year.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// The whole seconds of a `Retry-After`, never below 1: a decimal is rounded up, a date is taken from now, and any
/// other value counts as 1.
///
/// Units: `now_ms` in milliseconds since the Unix epoch; the result in seconds.
#[must_use]
pub fn retry_after_seconds(value: &[u8], now_ms: u64) -> u64 {
    let Some(text) = std::str::from_utf8(value).ok().map(str::trim) else { return 1 };
    number(text).or_else(|| until(text, now_ms)).unwrap_or(1).clamp(1, SECONDS_MAX)
}

fn number(text: &str) -> Option<u64> {
    let (digits, is_negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
    // Words such as `inf` are numbers to readers of floats only.
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let seconds: f64 = digits.parse().ok()?;
    if is_negative {
        return Some(1);
    }
    // Rounds up from any fraction; a longer time than the bound, infinity included, is the bound.
    Some(Duration::try_from_secs_f64(seconds).map_or(SECONDS_MAX, whole_seconds))
}

fn until(text: &str, now_ms: u64) -> Option<u64> {
    let at = httpdate::parse_http_date(text).ok()?;
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms);
    Some(at.duration_since(now).map_or(1, whole_seconds))
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_becomes_a_positive_whole_number_of_seconds() {
        // 2026-03-15T10:30:00Z
        let now_ms = 1_773_570_600_000;
        for (value, seconds) in [
            ("1", 1),
            ("120", 120),
            (" 7 ", 7),
            ("0", 1),
            ("0.5", 1),
            (".5", 1),
            ("1.0", 1),
            ("1.001", 2),
            ("-1", 1),
            ("-0.5", 1),
            ("1e2", 100),
            ("1e400", SECONDS_MAX),
            ("99999999999999999999999", SECONDS_MAX),
            ("inf", 1),
            ("-inf", 1),
            ("Infinity", 1),
            ("NaN", 1),
            ("+5", 1),
            ("", 1),
            ("soon", 1),
            ("5 s", 1),
            ("Sun, 15 Mar 2026 10:31:30 GMT", 90),
            ("Sunday, 15-Mar-26 10:31:30 GMT", 90),
            ("Sun Mar 15 10:31:30 2026", 90),
            ("Sun, 15 Mar 2026 10:30:00 GMT", 1),
            ("Sun, 15 Mar 2020 10:30:00 GMT", 1),
            ("Fri, 31 Dec 9999 23:59:59 GMT", SECONDS_MAX),
            ("Sun, 99 Mar 2026 10:31:30 GMT", 1),
        ] {
            assert_eq!(retry_after_seconds(value.as_bytes(), now_ms), seconds, "{value}");
        }
        assert_eq!(retry_after_seconds(b"\xff", now_ms), 1);
        // Half a second of the current one has passed already.
        assert_eq!(retry_after_seconds(b"Sun, 15 Mar 2026 10:30:02 GMT", now_ms + 500), 2);
    }
}
