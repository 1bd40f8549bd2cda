//! Members that are cut out of a body, with the commas that belong to them.

use smallvec::SmallVec;

use super::members::{Member, Span};

/// The parts to cut out: mostly a worker writes one such member, or none.
pub(super) type Cuts = SmallVec<[Span; 1]>;

/// The parts of an object to cut out so that those of its members are not there that go. `members`: all of it, in order. The parts do not overlap.
pub(super) fn cuts(members: &[Member]) -> Cuts {
    let (mut cuts, mut from, mut kept) = (Cuts::new(), None, None);
    for member in members {
        if member.goes {
            from.get_or_insert(member.name_at);
        } else {
            // In front of one that stays, members go with the comma behind them.
            if let Some(from) = from.take() {
                cuts.push((from, member.name_at));
            }
            kept = Some(member.value.1);
        }
    }
    if let Some((from, last)) = from.zip(members.last()) {
        cuts.push((kept.unwrap_or(from), last.value.1));
    }
    cuts
}
