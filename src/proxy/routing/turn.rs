//! The inputs of a decision at this sidecar, and the turn that it may use up.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::base::Draw;
use crate::policy::{Decision, DrillNumbers, Inputs, RouteError};
use crate::proxy::state::Proxy;
use crate::region::Drills;

/// Asks for early probes of the regions that a refused job would have gone to.
#[cold]
fn await_regions(proxy: &Proxy, error: &RouteError) {
    let registry = &proxy.shared.registry;
    let view = registry.view();
    error.awaits().filter_map(|id| view.index_of(id.as_str())).for_each(|index| registry.lacked(index));
}

/// `is_named`: see [`DrillNumbers::is_named`]. Decides, and takes the turn where the decision used it: of two threads with the same turn one decides again.
pub(crate) fn in_turn(
    proxy: &Proxy,
    is_named: bool,
    mut decide: impl FnMut(Inputs<'_>) -> Result<Decision, RouteError>,
) -> Result<Decision, RouteError> {
    let turns = &proxy.shared.turns;
    let drill = OneNumber { drills: &proxy.shared.drills, taken: Cell::new(None), is_named };
    let mut inputs = Inputs { drill: &drill, ..inputs(proxy, turns.load(Ordering::Relaxed)) };
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

/// The number of one job in a drill, taken when it is asked for, and once also where the job is decided again.
struct OneNumber<'p> {
    drills: &'p Drills,
    taken: Cell<Option<u64>>,
    is_named: bool,
}

impl DrillNumbers for OneNumber<'_> {
    fn number(&self) -> u64 {
        let number = self.taken.get().unwrap_or_else(|| self.drills.take());
        self.taken.set(Some(number));
        number
    }

    fn is_named(&self) -> bool {
        self.is_named
    }
}

/// The inputs of a decision now, at this turn. Taking it moves no counter.
pub(crate) fn inputs(proxy: &Proxy, turn: u64) -> Inputs<'_> {
    let shared = &proxy.shared;
    let draw: Draw = proxy.random.draw();
    let (now, live) = (shared.registry.clock().about(), shared.traffic.as_ref());
    Inputs { now, draw, turn, live, drill: shared.drills.as_ref() }
}
