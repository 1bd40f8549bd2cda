//! Times as text.

/// Milliseconds since the Unix epoch as RFC 3339 in UTC with milliseconds, as in `2026-03-15T10:30:00.000Z`.
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let clamped = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(clamped).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_with_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_773_570_600_123), "2026-03-15T10:30:00.123Z");
    }
}
