//! Limits that jobs share by a key: how many run at once, and how many come in a period.
//!
//! Spec: ojs-rate-limiting. A FETCH leaves jobs alone whose key has as many active ones as it may; more enqueues than the rate
//! allows are only counted and told, never refused.

use super::answer::Object;
use super::members::{Invalid, Members};
use crate::text::rfc3339;

/// A job's limits for its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) key: String,
    /// How many jobs of the key may be active at once.
    pub(super) concurrency: Option<u64>,
    /// How many are meant to come in a period.
    pub(super) rate: Option<Rate>,
}

/// So many in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) max: u64,
    pub(super) period_ms: u64,
    /// As the job wrote it.
    pub(super) period: String,
}

impl Limit {
    /// Reads the `rate_limit` of a job; nothing without a `key`.
    ///
    /// Errors: [`Invalid::Member`] for a member that cannot be.
    pub(super) fn read(limit: &Members) -> Result<Option<Self>, Invalid> {
        let number = "is a whole number from 0";
        let Some(key) = limit.read("key", "is a string")? else { return Ok(None) };
        let rate: Option<u64> = limit.read("rate", number)?;
        let period: String = limit.read("period", PERIOD)?.unwrap_or_else(|| "PT1S".to_owned());
        let period_ms = period_ms(&period).ok_or(Invalid::Member("period", PERIOD))?;
        let rate = rate.map(|max| Rate { max, period_ms, period });
        Ok(Some(Self { key, concurrency: limit.read("concurrency", number)?, rate }))
    }
}

const PERIOD: &str = "is second, minute, hour, day or a duration such as PT1M";

fn period_ms(text: &str) -> Option<u64> {
    match text {
        "second" => Some(1_000),
        "minute" => Some(60_000),
        "hour" => Some(3_600_000),
        "day" => Some(86_400_000),
        other => {
            let span: jiff::SignedDuration = other.parse().ok()?;
            u64::try_from(span.as_millis()).ok().filter(|millis| *millis > 0)
        }
    }
}

/// The state of a key: the limits of the last job with it, and the number of jobs in the running period.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) limit: Limit,
    began_ms: u64,
    count: u64,
    /// An operator's word on the concurrency, and until when it holds.
    pub(super) word: Option<(u64, Option<u64>)>,
}

impl Window {
    /// The window of a key from which no job has come yet.
    pub(super) const fn new(limit: Limit, now_ms: u64) -> Self {
        Self { limit, began_ms: now_ms, count: 0, word: None }
    }

    /// Counts a job that came.
    pub(super) fn count(&mut self, limit: &Limit, now_ms: u64) {
        self.limit = limit.clone();
        if now_ms >= self.resets_ms() {
            (self.began_ms, self.count) = (now_ms, 0);
        }
        self.count += 1;
    }

    fn resets_ms(&self) -> u64 {
        self.began_ms.saturating_add(self.limit.rate.as_ref().map_or(1_000, |rate| rate.period_ms))
    }

    /// How many jobs of the key may be active now.
    pub(super) fn concurrency(&self, now_ms: u64) -> Option<u64> {
        let word = self.word.filter(|(_, until_ms)| until_ms.is_none_or(|until_ms| now_ms < until_ms));
        word.map(|(concurrency, _)| concurrency).or(self.limit.concurrency)
    }

    /// Its document, with the store's counts.
    pub(super) fn document(&self, active: u64, waiting: u64, now_ms: u64) -> String {
        let concurrency = self.concurrency(now_ms).map(|limit| {
            let available = limit.saturating_sub(active);
            Object::new().number("limit", limit).number("active", active).number("available", available).finish()
        });
        let rate = self.limit.rate.as_ref().map(|rate| {
            let count = if now_ms < self.resets_ms() { self.count } else { 0 };
            let object = Object::new().number("limit", rate.max).text("period", &rate.period);
            object.number("current_count", count).text("window_resets_at", &rfc3339(self.resets_ms())).finish()
        });
        Object::new()
            .text("key", &self.limit.key)
            .maybe_raw("concurrency", concurrency.as_deref())
            .maybe_raw("rate", rate.as_deref())
            .number("waiting_count", waiting)
            .finish()
    }

    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, of a key with a rate.
    pub(super) fn headers(&self) -> Option<[(&'static str, u64); 3]> {
        let rate = self.limit.rate.as_ref()?;
        Some([
            ("x-ratelimit-limit", rate.max),
            ("x-ratelimit-remaining", rate.max.saturating_sub(self.count)),
            ("x-ratelimit-reset", self.resets_ms().div_ceil(1_000)),
        ])
    }
}
