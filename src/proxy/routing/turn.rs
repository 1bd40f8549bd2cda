//! The inputs of a decision at this sidecar, and the turn that it may use up.

use std::sync::atomic::Ordering;

use crate::base::Draw;
use crate::policy::{Decision, Inputs, RouteError};
use crate::proxy::state::Proxy;

/// Asks for early probes of the regions that a refused job would have gone to.
#[cold]
fn await_regions(proxy: &Proxy, error: &RouteError) {
    let registry = &proxy.shared.registry;
    let view = registry.view();
    error.awaits().filter_map(|id| view.index_of(id.as_str())).for_each(|index| registry.lacked(index));
}

/// Decides, and takes the turn where the decision used it: of two threads with the same turn one decides again.
pub(crate) fn in_turn(
    proxy: &Proxy,
    mut decide: impl FnMut(Inputs<'_>) -> Result<Decision, RouteError>,
) -> Result<Decision, RouteError> {
    let turns = &proxy.shared.turns;
    let mut inputs = inputs(proxy, turns.load(Ordering::Relaxed));
    loop {
        let decision = decide(inputs).inspect_err(|error| await_regions(proxy, error))?;
        if !decision.by_turn {
            return Ok(decision);
        }
        let next = inputs.turn.wrapping_add(1);
        match turns.compare_exchange_weak(inputs.turn, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(decision),
            Err(turn) => inputs.turn = turn,
        }
    }
}

/// The inputs of a decision now, at this turn.
pub(crate) fn inputs(proxy: &Proxy, turn: u64) -> Inputs<'_> {
    let shared = &proxy.shared;
    let draw: Draw = proxy.random.draw();
    Inputs { now: shared.registry.clock().about(), draw, turn, live: shared.traffic.as_ref() }
}
