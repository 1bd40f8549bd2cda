//! The step behind a try of an enqueue, and the candidate that it leads to.

use http::StatusCode;

use crate::policy::{Decision, DrillPart, Ending, Progress, Step, Stop, next};
use crate::proxy::{
    call::{attempt::Tried, failover},
    state::Proxy,
};

/// The step behind a try of the candidate at this place, and the place of the next one; none where no candidate is left. `redirects_done`: those before this
/// try. `late`: whether the call's time is over.
pub(super) fn onward(
    proxy: &Proxy,
    decision: &Decision,
    tried: &Tried,
    place: usize,
    (redirects_done, late): (usize, bool),
) -> (Step, Option<usize>) {
    let candidates = &decision.candidates;
    let left = failover::usable_after(proxy, tried.ending, candidates, place);
    let progress = Progress { pinned: decision.pinned, redirects_done, candidates_left: left.count, late };
    // Without a next region nothing is paid for.
    let to = left.first.and_then(|first| candidates.get(first)).unwrap_or(&candidates[place]);
    let budget = proxy.shared.budgets.toward(*to);
    let step = next(tried.ending, progress, &budget, || proxy.shared.registry.clock().now());
    match step {
        Step::Stop(stop) if decision.drilled.is_some() && !late => match home(proxy, decision, (tried, stop), place) {
            Some(home) => (Step::Next { charged: false }, Some(home)),
            None => (step, left.first),
        },
        _ => (step, left.first),
    }
}

/// The place of the drilled region, where a job that a drill has diverted ends without being stored, and would not have without the drill: refused for the
/// load of the other region or of the queue there, or by the retry budget. It is one more try at most, of a job that belongs there.
#[cold]
fn home(proxy: &Proxy, decision: &Decision, (tried, stop): (&Tried, Stop), place: usize) -> Option<usize> {
    if decision.drilled?.part != DrillPart::Diverted {
        return None;
    }
    let is_refused = |status: StatusCode| {
        // A balancer's 503 leaves the outcome open, and does not end as answered.
        matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    };
    let returns = match stop {
        Stop::RetryBudget { .. } => true,
        Stop::Answered => {
            matches!(tried.ending, Ending::Answered(_)) && tried.answer.as_ref().is_some_and(|it| is_refused(it.status))
        }
        Stop::OutcomeUnknown | Stop::NoCandidateLeft => false,
    };
    let last = decision.candidates.len().checked_sub(1).filter(|last| returns && place < *last)?;
    let view = proxy.shared.registry.view();
    failover::is_usable(view.region(decision.candidates[last])).then_some(last)
}
