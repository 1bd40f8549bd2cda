//! Durations and times as people write them.

use std::time::Duration;

use jiff::fmt::friendly::{SpanParser, SpanPrinter};
use jiff::{SignedDuration, SpanRelativeTo};

/// Reads a duration with units: `250ms`, `10s`, `1m 30s`, `5min`, `7d`; also one of ISO 8601 up to hours, such as `PT30S`. A day is 24 hours;
/// longer units have no fixed length and are refused.
///
/// Errors: a sentence with the expectation, without the given text.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "expected a duration with a unit, such as 250ms, 10s, 5min or 7d";
    let iso = || text.starts_with('P').then(|| text.parse::<SignedDuration>().ok())?;
    let signed =
        SpanParser::new().parse_duration(text).ok().or_else(|| parse_days(text)).or_else(iso).ok_or(EXPECTED)?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative")
}

/// Reads a number of bytes, such as `512` or `10 GiB`. `None` for another text.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = UNITS.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (count, bytes) = unit.unwrap_or((text, 1));
    count.trim_end().parse::<u64>().ok()?.checked_mul(bytes)
}

/// A duration with days, which jiff takes for a unit of the calendar.
fn parse_days(text: &str) -> Option<SignedDuration> {
    let span = SpanParser::new().parse_span(text).ok().filter(|span| span.get_weeks() == 0)?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
}

/// Writes a duration in the form that [`parse_duration`] reads.
#[must_use]
pub fn print_duration(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    SpanPrinter::new().unsigned_duration_to_string(&duration)
}

/// Whole seconds, rounded up, as `Retry-After` has them.
#[must_use]
pub const fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add((wait.subsec_nanos() > 0) as u64)
}

/// Milliseconds since the Unix epoch as RFC 3339 in UTC with milliseconds, as in `2026-03-15T10:30:00.000Z`.
#[must_use]
pub fn rfc3339(unix_ms: u64) -> String {
    let clamped = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(clamped).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// From the first of March of the year 0 to the first of January 1970.
const DAYS_TO_1970: u64 = 719_468;

/// A time of RFC 3339 as milliseconds since the Unix epoch; none for another text, and before the epoch.
#[must_use]
pub fn read_rfc3339(text: &str) -> Option<u64> {
    let usual = text.as_bytes().try_into().ok().and_then(read_usual);
    usual.or_else(|| read_any_rfc3339(text))
}

/// The form that servers write: `2026-03-15T10:30:00.000Z`. The general reading takes ten times as many instructions, for each enqueue.
fn read_usual(text: &[u8; 24]) -> Option<u64> {
    const FORM: &[u8; 24] = b"0000-00-00T00:00:00.000Z";
    let (mut digits, mut beyond) = ([0_u8; 24], 0);
    // All bytes are looked at together, and none on its own.
    for ((digit, form), byte) in digits.iter_mut().zip(FORM).zip(text) {
        *digit = byte.wrapping_sub(*form);
        beyond |= digit.saturating_sub(if *form == b'0' { 9 } else { 0 });
    }
    if beyond != 0 {
        return None;
    }
    let number = |from: usize, to: usize| digits[from..to].iter().fold(0, |sum, digit| sum * 10 + u64::from(*digit));
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (hours, minutes, seconds) = (number(11, 13), number(14, 16), number(17, 19));
    // A leap day, leap seconds and early years are for the general reading.
    let days_in_month = match month {
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_plain = year >= 1970 && (1..=12).contains(&month) && (1..=days_in_month).contains(&day);
    if !is_plain || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    // Years begin in March here, so that a leap day is the last one: its months have 153 days in each five.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 - DAYS_TO_1970;
    Some((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000 + number(20, 23))
}

fn read_any_rfc3339(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_survive_a_round_trip() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("1m 30s", 90_000),
            ("5min", 300_000),
            ("0s", 0),
            ("7d", 604_800_000),
            ("1 day, 2 hours", 93_600_000),
            ("0d", 0),
            ("PT30S", 30_000),
            ("PT1H30M", 5_400_000),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(parse_duration(&print_duration(duration)), Ok(duration));
        }
        for bad in ["", "10", "-5s", "-1d", "1w", "1mo", "1y", "soon", "10 parsecs", "P1Y", "PT", "99999999999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_773_570_600_123), "2026-03-15T10:30:00.123Z");
        assert_eq!(read_rfc3339("2026-03-15T12:30:00.123456+02:00"), Some(1_773_570_600_123));
        for text in [
            "Sat Nov 28 16:00:34 2026",
            "2026-02-29T00:00:00.000Z",
            "2026-02-30T00:00:00.000Z",
            "2026-04-31T00:00:00.000Z",
            "2026-01-32T00:00:00.000Z",
            "2026-03-15T24:00:00.000Z",
            "2026-13-15T10:30:00.000Z",
            "2026-03-15T10:60:00.000Z",
        ] {
            assert_eq!(read_rfc3339(text), None, "{text}");
        }
        for day in 0..200_000 {
            let ms = day * 86_400_000 + day * 7_919 % 86_400_000;
            assert_eq!(read_rfc3339(&rfc3339(ms)), Some(ms));
        }
        for day in ["01-29", "03-30", "12-31"] {
            let text = format!("2026-{day}T10:30:00.123Z");
            assert_eq!(read_usual(text.as_bytes().try_into().unwrap()), read_any_rfc3339(&text), "{day}");
        }
        assert_eq!(["1969-12-31T23:59:59Z", "yesterday", ""].map(read_rfc3339), [None; 3]);
    }
}
