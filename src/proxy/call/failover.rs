//! Records that a job leaves a region for another, before its first try or after one.

use crate::policy::{Answer, BreakerState, Decision, Ending, GuardClass, GuardState, Health, RegionIndex, RegionView};
use crate::proxy::state::Proxy;
use crate::telemetry::{FailoverReason, event};

/// A job that was meant for one region and was decided elsewhere because of that region's state is a failover, too. Returns the
/// region that it left so, and why. Spec: RFC-0001 §4.
pub(crate) fn before_first_try(proxy: &Proxy, decision: &Decision) -> Option<(RegionIndex, FailoverReason)> {
    let (home, target) = (decision.home?, decision.target()?);
    if home == target {
        return None;
    }
    let view = proxy.shared.registry.view();
    let region = view.region(home);
    let reason = match (region.breaker, region.health) {
        // The operator took it out, or a spoke lost its hub: there is nothing to fail over from.
        _ if region.is_drained() || region.is_cut_off => return None,
        (BreakerState::Open | BreakerState::HalfOpen, _) => FailoverReason::BreakerOpen,
        (BreakerState::Closed, Health::Unhealthy) => FailoverReason::Unhealthy,
        (BreakerState::Closed, Health::Healthy | Health::Unknown) => match region.guard(GuardClass::Enqueue) {
            GuardState::Closed { .. } if region.silent => FailoverReason::Silent,
            GuardState::Closed { .. } => return None,
            GuardState::Open { .. } | GuardState::Trial { .. } => FailoverReason::GuardOpen,
        },
    };
    record(proxy, home, target, reason);
    Some((home, reason))
}

/// Counts a failover, and writes a line about it unless one about the same region was written just now.
pub(crate) fn record(proxy: &Proxy, from: RegionIndex, to: RegionIndex, reason: FailoverReason) {
    let ration = proxy.failovers.get(from.get());
    let (from, to) = (proxy.metrics(from), proxy.metrics(to));
    match ration.and_then(|ration| ration.take(proxy.shared.rations.now_ms())) {
        Some(suppressed) => event::failover(from, to, reason, suppressed),
        None => event::failover_repeated(from, reason),
    }
}

/// The candidates behind `place` that are still usable: a region may have become unusable since the decision.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) count: usize,
    pub(crate) first: Option<usize>,
}

/// Whether a call that creates jobs may go to a region now.
pub(crate) fn is_usable(region: &RegionView) -> bool {
    let shut = matches!(region.guard(GuardClass::Enqueue), GuardState::Open { .. });
    let is_open = !shut && region.switch.is_none() && !region.is_cut_off;
    region.breaker == BreakerState::Closed && region.health != Health::Unhealthy && is_open
}

pub(crate) fn usable_after(proxy: &Proxy, ending: Ending, candidates: &[RegionIndex], place: usize) -> Left {
    // The call ends here, so that no next candidate is needed.
    if ending == Ending::Answered(Answer::Pass) {
        return Left::default();
    }
    let view = proxy.shared.registry.view();
    let mut left = Left::default();
    let mut silent = None;
    for (place, index) in
        candidates.iter().enumerate().skip(place + 1).filter(|(_, index)| is_usable(view.region(**index)))
    {
        left.count += 1;
        // One that fell silent since is tried when nothing else is left.
        let first = if view.region(*index).silent { &mut silent } else { &mut left.first };
        first.get_or_insert(place);
    }
    Left { first: left.first.or(silent), ..left }
}
