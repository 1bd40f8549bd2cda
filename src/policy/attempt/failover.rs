//! The steps that may follow an attempt.
//!
//! The first redirect after a connection that was never made is free: it costs the next region no more than the first
//! would have cost. Every other redirect draws on a budget, and a request that may have been received is never sent
//! elsewhere.

use std::time::Instant;

use super::budget::Pays;
use super::outcome::{Answer, Ending, Outcome};

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether it is bound to its region or regions.
    pub pinned: bool,
    /// Redirects so far: 0 after the first attempt.
    pub redirects_done: usize,
    /// Candidates of the decision that were not tried.
    pub candidates_left: usize,
    /// Whether the call's time was over when the attempt ended: a request that is written now cannot be answered in
    /// time.
    pub late: bool,
}

impl Progress {
    /// Whether there is a candidate, and time to try it.
    const fn goes_on(self) -> bool {
        self.candidates_left > 0 && !self.late
    }
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Try the next candidate.
    Next {
        /// Whether the budget has paid for it.
        charged: bool,
    },
    /// Answer the client.
    Stop(Stop),
}

/// Why there is no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The region's answer is the answer.
    Answered,
    /// The outcome is unknown: 500 `outcome_unknown`.
    OutcomeUnknown,
    /// Nothing was sent, and no candidate is left or no time to try it.
    NoCandidateLeft,
    /// A candidate is left and the budget is exhausted: 503 `retry_budget` when nothing was sent.
    RetryBudget {
        /// Whether a region's refusal is at hand.
        answered: bool,
    },
}

/// The step after an attempt that ended so. `now` is read where the budget is needed, which is rare.
pub fn next(ending: Ending, progress: Progress, budget: &impl Pays, now: impl Fn() -> Instant) -> Step {
    let outcome = ending.outcome();
    let answered = outcome == Outcome::Answered;
    match ending {
        Ending::NoAnswer | Ending::Answered(Answer::Unknown) => Step::Stop(Stop::OutcomeUnknown),
        Ending::Answered(Answer::Pass) => Step::Stop(Stop::Answered),
        Ending::Answered(Answer::TryNext) if progress.pinned || !progress.goes_on() => Step::Stop(Stop::Answered),
        Ending::NotSent if !progress.goes_on() => Step::Stop(Stop::NoCandidateLeft),
        Ending::NotSent if progress.redirects_done == 0 => Step::Next { charged: false },
        Ending::NotSent | Ending::Answered(Answer::TryNext) if budget.try_withdraw(now()) => {
            Step::Next { charged: true }
        }
        Ending::NotSent | Ending::Answered(Answer::TryNext) => Step::Stop(Stop::RetryBudget { answered }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{RetryBudget, testing};

    const TRY_NEXT: Ending = Ending::Answered(Answer::TryNext);

    /// What follows with `tokens` left in the budget.
    fn check(ending: Ending, pinned: bool, [redirects_done, candidates_left, tokens]: [usize; 3], expected: Step) {
        let progress = Progress { pinned, redirects_done, candidates_left, late: false };
        check_progress(ending, progress, tokens, expected);
    }

    fn check_progress(ending: Ending, progress: Progress, tokens: usize, expected: Step) {
        let now = Instant::now();
        let budget = RetryBudget::new(&testing::config(&["a"]).failover, now);
        for _ in tokens as u64..budget.available(now) {
            assert!(budget.try_withdraw(now));
        }
        assert_eq!(next(ending, progress, &budget, || now), expected, "{ending:?} {progress:?}");
        let charged = u64::from(expected == Step::Next { charged: true });
        assert_eq!(budget.available(now) + charged, tokens as u64);
    }

    #[test]
    fn the_first_redirect_after_nothing_was_sent_is_free_and_others_are_charged() {
        check(Ending::NotSent, false, [0, 2, 0], Step::Next { charged: false });
        check(Ending::NotSent, false, [1, 1, 1], Step::Next { charged: true });
        check(TRY_NEXT, false, [0, 2, 1], Step::Next { charged: true });
    }

    #[test]
    fn an_exhausted_budget_stops_charged_redirects() {
        check(Ending::NotSent, false, [1, 1, 0], Step::Stop(Stop::RetryBudget { answered: false }));
        check(TRY_NEXT, false, [0, 2, 0], Step::Stop(Stop::RetryBudget { answered: true }));
    }

    #[test]
    fn what_may_have_been_received_is_never_sent_elsewhere() {
        for pinned in [false, true] {
            check(Ending::NoAnswer, pinned, [0, 2, 5], Step::Stop(Stop::OutcomeUnknown));
            check(Ending::Answered(Answer::Unknown), pinned, [0, 2, 5], Step::Stop(Stop::OutcomeUnknown));
            check(Ending::Answered(Answer::Pass), pinned, [0, 2, 5], Step::Stop(Stop::Answered));
        }
    }

    #[test]
    fn past_the_calls_deadline_no_further_candidate_is_tried_and_nothing_is_charged() {
        for redirects_done in [0, 1] {
            let late = Progress { pinned: false, redirects_done, candidates_left: 2, late: true };
            check_progress(Ending::NotSent, late, 5, Step::Stop(Stop::NoCandidateLeft));
            check_progress(TRY_NEXT, late, 5, Step::Stop(Stop::Answered));
        }
    }

    #[test]
    fn without_a_further_candidate_the_last_ending_stands_and_nothing_is_charged() {
        check(Ending::NotSent, true, [0, 0, 5], Step::Stop(Stop::NoCandidateLeft));
        check(TRY_NEXT, false, [3, 0, 5], Step::Stop(Stop::Answered));
        check(TRY_NEXT, true, [0, 1, 5], Step::Stop(Stop::Answered));
    }
}
