//! How many redirects a sidecar may add to its traffic, so that an outage does not become a storm of retries.
//!
//! A balance of tokens: every request pays in a share of one, time pays in a floor, a redirect takes out a whole one. The
//! balance and the time of the last payment share one atomic word, so that a withdrawal is a single compare-exchange: a
//! check followed by a separate subtraction would let two racing threads spend the same token.
//!
//! Shape of the word: the upper 40 bits are milliseconds since the budget was made (34 years), the lower 24 bits are
//! thousandths of a token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::config::Failover;

const BALANCE_BITS: u32 = 24;
const BALANCE_MASK: u64 = (1 << BALANCE_BITS) - 1;
const TOKEN: u64 = 1_000;
/// The balance holds at most the floor's pay of this many seconds …
const BURST_SECONDS: f64 = 10.0;
/// … and never less than this many tokens, so that a budget without a floor can save up from its requests.
const BURST_TOKENS_MIN: f64 = 10.0;

/// The payer of a redirect.
pub trait Pays {
    /// Withdraws the price of one redirect; false when the balance is too low.
    #[must_use]
    fn try_withdraw(&self, now: Instant) -> bool;
}

impl Pays for RetryBudget {
    fn try_withdraw(&self, now: Instant) -> bool {
        Self::try_withdraw(self, now)
    }
}

impl<P: Pays + ?Sized> Pays for Arc<P> {
    fn try_withdraw(&self, now: Instant) -> bool {
        P::try_withdraw(self, now)
    }
}

/// Tokens for redirects, shared by all worker threads.
#[derive(Debug)]
pub struct RetryBudget {
    word: AtomicU64,
    start: Instant,
    /// Thousandths of a token per request.
    per_request: u64,
    /// Thousandths of a token per millisecond, which is tokens per second.
    per_ms: f64,
    /// The fullest balance, in thousandths.
    full: u64,
}

impl RetryBudget {
    /// A full budget.
    #[must_use]
    pub fn new(config: &Failover, now: Instant) -> Self {
        let per_ms = config.retry_budget.floor.max(0.0);
        let full = whole((per_ms * BURST_SECONDS).max(BURST_TOKENS_MIN) * 1_000.0).min(BALANCE_MASK);
        let per_request = whole(config.retry_budget.ratio.max(0.0) * 1_000.0);
        Self { word: AtomicU64::new(full), start: now, per_request, per_ms, full }
    }

    /// Pays in the share of one request. Costs one shared load while the budget is full, which it is while all is well.
    pub fn deposit(&self) {
        self.pay_in(self.per_request);
    }

    /// Pays back a token that was taken out and not used.
    pub(super) fn give_back(&self) {
        self.pay_in(TOKEN);
    }

    fn pay_in(&self, amount: u64) {
        let mut word = self.word.load(Relaxed);
        while word & BALANCE_MASK < self.full {
            let balance = (word & BALANCE_MASK).saturating_add(amount).min(self.full);
            match self.word.compare_exchange_weak(word, word & !BALANCE_MASK | balance, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
    }

    /// Takes out one token; false when there is none.
    #[must_use]
    pub fn try_withdraw(&self, now: Instant) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let (ms, balance) = self.accrued(word, now);
            let Some(rest) = balance.checked_sub(TOKEN) else { return false };
            match self.word.compare_exchange_weak(word, ms << BALANCE_BITS | rest, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => word = other,
            }
        }
    }

    /// The whole tokens at hand.
    #[must_use]
    pub fn available(&self, now: Instant) -> u64 {
        self.accrued(self.word.load(Relaxed), now).1 / TOKEN
    }

    /// The time up to which the floor was paid, and the balance after it.
    ///
    /// A `now` before the last payment, as another thread may have read it, pays nothing. Only the time that whole
    /// thousandths were paid for is used up, so that frequent calls neither lose nor gain.
    fn accrued(&self, word: u64, now: Instant) -> (u64, u64) {
        let (paid_ms, balance) = (word >> BALANCE_BITS, word & BALANCE_MASK);
        let now_ms = u64::try_from(now.saturating_duration_since(self.start).as_millis()).unwrap_or(u64::MAX);
        let elapsed = now_ms.min(u64::MAX >> BALANCE_BITS).saturating_sub(paid_ms);
        let earned = whole(real(elapsed) * self.per_ms);
        if earned == 0 {
            return (paid_ms, balance);
        }
        if balance.saturating_add(earned) >= self.full {
            return (paid_ms + elapsed, self.full);
        }
        let used = whole((real(earned) / self.per_ms).ceil()).min(elapsed);
        (paid_ms + used, balance + earned)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped: a cast from a double saturates")]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds and thousandths below 2^53")]
const fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::testing;

    fn budget(ratio: f64, floor: f64, now: Instant) -> RetryBudget {
        let config =
            Failover { retry_budget: crate::config::RetryBudget { ratio, floor }, ..testing::config(&["a"]).failover };
        RetryBudget::new(&config, now)
    }

    fn drain(budget: &RetryBudget, now: Instant) -> u64 {
        (0..10_000).take_while(|_| budget.try_withdraw(now)).map(|_| 1).sum()
    }

    #[test]
    fn a_budget_pays_ten_seconds_of_its_floor_at_once_then_the_floor_and_a_share_of_requests() {
        let start = Instant::now();
        let budget = budget(0.2, 3.0, start);
        assert_eq!(budget.available(start), 30);
        assert_eq!(drain(&budget, start), 30);
        assert!(!budget.try_withdraw(start));
        for _ in 0..10 {
            budget.deposit();
        }
        assert_eq!(drain(&budget, start), 2, "a fifth of ten requests");
        assert_eq!(drain(&budget, start + Duration::from_secs(2)), 6, "two seconds of the floor");
        assert_eq!(drain(&budget, start + Duration::from_secs(3_600)), 30, "never more than the burst");
    }

    #[test]
    fn time_that_runs_backwards_pays_nothing() {
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        let budget = budget(0.0, 3.0, start);
        drain(&budget, later);
        assert_eq!(drain(&budget, start), 0);
        assert_eq!(drain(&budget, later), 0);
    }

    #[test]
    fn a_floor_of_one_in_two_seconds_is_paid_in_full_however_often_it_is_asked_for() {
        let start = Instant::now();
        let budget = budget(0.0, 0.5, start);
        drain(&budget, start);
        let paid: u64 = (1..=20_000).map(|ms| drain(&budget, start + Duration::from_millis(ms))).sum();
        assert_eq!(paid, 10);
    }

    #[test]
    fn threads_that_race_never_spend_a_token_twice() {
        let start = Instant::now();
        let budget = budget(0.0, 100.0, start);
        let paid: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| drain(&budget, start))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(paid, 1_000);
    }

    proptest! {
        #[test]
        fn a_budget_never_pays_more_than_burst_floor_and_share_allow(
            ratio in 0.0..1.0_f64,
            floor in 0.0..20.0_f64,
            steps in prop::collection::vec((0..400_u64, 0..8_u64, 0..8_u64), 1..200),
        ) {
            let start = Instant::now();
            let budget = budget(ratio, floor, start);
            let (mut ms, mut requests, mut paid) = (0, 0, 0);
            let burst = (floor * 10.0).max(10.0);
            for (wait, deposits, withdrawals) in steps {
                ms += wait;
                let now = start + Duration::from_millis(ms);
                for _ in 0..deposits {
                    budget.deposit();
                    requests += 1;
                }
                prop_assert!(real(budget.available(now)) <= burst);
                for _ in 0..withdrawals {
                    paid += u64::from(budget.try_withdraw(now));
                }
                let allowed = burst + floor * real(ms) / 1_000.0 + ratio * real(requests);
                prop_assert!(real(paid) <= allowed + 1e-6, "{paid} of {allowed}");
            }
        }
    }
}
