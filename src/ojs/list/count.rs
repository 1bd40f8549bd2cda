//! Which numbers of regions add up: counts do; shares, scores, times, settings and percentiles do not.
//!
//! Servers call their figures as they like, so a number is judged by its name, and where that says nothing by its value.

/// Words in the names of numbers of which the largest is shown.
const NO_COUNTS: &[&str] = &[
    "age",
    "avg",
    "concurrency",
    "epoch",
    "expires",
    "factor",
    "fairness",
    "index",
    "interval",
    "latency",
    "level",
    "limit",
    "load",
    "max",
    "mean",
    "median",
    "min",
    "ms",
    "page",
    "percent",
    "percentage",
    "percentile",
    "pressure",
    "priority",
    "quantile",
    "quota",
    "rate",
    "ratio",
    "reset",
    "score",
    "seconds",
    "share",
    "stddev",
    "threshold",
    "timeout",
    "timestamp",
    "ttl",
    "uptime",
    "utilization",
    "version",
    "weight",
    "window",
];

/// Words in the names of counts of OJS servers, which are added up at any size.
const COUNTS: &[&str] = &[
    "active",
    "available",
    "bytes",
    "cancelled",
    "completed",
    "count",
    "deleted",
    "depth",
    "discarded",
    "enqueued",
    "failed",
    "jobs",
    "matched",
    "pending",
    "processed",
    "purged",
    "queues",
    "retried",
    "retryable",
    "running",
    "scheduled",
    "skipped",
    "stale",
    "succeeded",
    "total",
    "workers",
];

/// Times since 1970 between 2001 and 2106. Units: seconds; and with thousands of it also milliseconds, micro- and nanoseconds.
const EPOCH: std::ops::RangeInclusive<u64> = 1_000_000_000..=4_294_967_295;

/// Whether the regions' numbers by this name add up.
pub(super) fn is_count(name: &str, values: &[&str]) -> bool {
    let words: Vec<String> = name.split(['_', '-', '.']).map(str::to_ascii_lowercase).collect();
    let any_of = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    if any_of(NO_COUNTS) || words.iter().any(|word| is_percentile(word)) {
        return false;
    }
    !is_share(values) && (any_of(COUNTS) || !values.iter().all(|value| is_time(value)))
}

/// `p50`, `p99`, `p999`.
fn is_percentile(word: &str) -> bool {
    word.strip_prefix('p').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Numbers from 0 to 1, at least one of them with a fraction. Whole zeros and ones alone may be counts.
fn is_share(values: &[&str]) -> bool {
    let within = |value: &&str| value.parse::<f64>().is_ok_and(|number| (0.0..=1.0).contains(&number));
    values.iter().all(within) && values.iter().any(|value| value.contains(['.', 'e', 'E']))
}

fn is_time(value: &str) -> bool {
    let whole = value.split_once('.').map_or(value, |(whole, _)| whole);
    let Ok(number) = whole.parse::<u64>() else { return false };
    [1, 1_000, 1_000_000, 1_000_000_000].into_iter().any(|unit| EPOCH.contains(&(number / unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_shares_times_scores_and_settings_do_not() {
        for (name, values, expected) in [
            ("available", &["3", "4"][..], true),
            ("completed_total", &["1700000000", "1800000000"], true),
            ("throughput", &["12.5", "3"], true),
            ("x", &["0", "1"], true),
            ("retries", &["1", "0"], true),
            ("max_attempts", &["3", "3"], false),
            ("utilization", &["1", "1"], false),
            ("anything", &["0.5", "1", "0"], false),
            ("anything", &["1e-3"], false),
            ("anything", &["0.5", "7"], true),
            ("resets_on", &["1700000000", "1700000100"], false),
            ("at", &["1700000000123", "1700000100000"], false),
            ("at", &["1700000000.5"], false),
            ("percentile_99", &["4", "5"], false),
            ("p999", &["4", "5"], false),
            ("p", &["4", "5"], true),
            ("score", &["7", "5"], false),
            ("Fairness_Index", &["7", "5"], false),
            ("rate_limit_remaining", &["7", "5"], false),
        ] {
            assert_eq!(is_count(name, values), expected, "{name} {values:?}");
        }
    }
}
