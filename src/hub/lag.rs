//! How far a hub is behind the hub of another region.

/// The state of one source, as this hub knows it. Times are in milliseconds since the Unix epoch, by this hub's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lag {
    /// When the source was last heard; none before the first answer.
    heard_ms: Option<u64>,
    /// Since when it has had facts that this hub lacks; none where the last answer had all.
    lacks_since_ms: Option<u64>,
    /// Since when each answer has had all of its facts, without a pause; none where the last one had not, or none came.
    current_since_ms: Option<u64>,
    /// By how much its clock differed at the last answer, and whether that was too much. Units: milliseconds.
    pub(super) skew: Option<(u64, bool)>,
    /// Why nothing is taken from it now; none while it is.
    pub(super) trouble: Option<String>,
}

/// An answer is no older than this while all is well: pulls come twice a second. Units: milliseconds.
const FRESH_MS: u64 = 2_000;

impl Lag {
    /// Notes an answer whose facts this hub has now. `more`: whether the source has further ones, of which the first was learnt `age_ms` ago.
    pub(super) fn heard(&mut self, now_ms: u64, more: bool, age_ms: u64) {
        let has_paused = self.heard_ms.is_none_or(|heard| now_ms.saturating_sub(heard) > FRESH_MS);
        let since = self.current_since_ms.filter(|_| !has_paused).unwrap_or(now_ms);
        self.current_since_ms = (!more).then_some(since);
        self.heard_ms = Some(now_ms);
        self.lacks_since_ms = more.then(|| now_ms.saturating_sub(age_ms));
        self.trouble = None;
    }

    /// Notes why nothing was taken. Returns whether that is new.
    pub(super) fn failed(&mut self, trouble: String) -> bool {
        let is_new = self.trouble.as_ref() != Some(&trouble);
        self.trouble = Some(trouble);
        self.current_since_ms = None;
        is_new
    }

    /// Whether this hub has had all of its facts for so long, up to now.
    pub(super) fn is_current(&self, now_ms: u64, for_ms: u64) -> bool {
        let is_long = self.current_since_ms.is_some_and(|since| now_ms.saturating_sub(since) >= for_ms);
        is_long && self.ms(now_ms) == Some(0)
    }

    /// How far this hub is behind: 0 while it has all; since the last answer where there is none, because the source may have new facts; none
    /// before the first answer. Units: milliseconds.
    pub(super) fn ms(&self, now_ms: u64) -> Option<u64> {
        let silent_ms = now_ms.saturating_sub(self.heard_ms?);
        let lacking_ms = self.lacks_since_ms.map(|since| now_ms.saturating_sub(since));
        Some(lacking_ms.unwrap_or(if silent_ms > FRESH_MS || self.trouble.is_some() { silent_ms } else { 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_is_that_of_the_oldest_fact_that_is_missing_or_may_be() {
        let mut lag = Lag::default();
        assert_eq!(lag.ms(1_000), None, "nothing is known of the source");
        lag.heard(10_000, false, 0);
        assert_eq!(lag.ms(10_400), Some(0));
        lag.heard(11_000, true, 700);
        assert_eq!(lag.ms(11_100), Some(800));
        lag.heard(12_000, false, 0);
        assert!(lag.failed("cut".to_owned()) && !lag.failed("cut".to_owned()));
        assert_eq!(lag.ms(42_000), Some(30_000), "new facts may wait there");
        lag.heard(43_000, false, 0);
        assert_eq!((lag.ms(43_000), lag.trouble), (Some(0), None));
    }
}
