//! Members that are cut out of a body, with the commas that belong to them.

use smallvec::SmallVec;

use super::members::{Member, Span};

/// The parts to cut out: mostly a worker writes one such member, or none.
pub(super) type Cuts = SmallVec<[Span; 1]>;

/// The parts of an object to cut out so that those of its members are not there that go. `members`: all of it, in order. The parts do not overlap.
pub(super) fn cuts(members: &[Member]) -> Cuts {
    let kept = members.iter().rposition(|member| !member.goes).map_or(0, |last| last + 1);
    // In front of one that stays, a member goes with the comma behind it.
    let starts = members.iter().skip(1).map(|member| member.name_at);
    let before = members[..kept].iter().zip(starts).filter(|(member, _)| member.goes);
    let mut cuts: Cuts = before.map(|(member, next)| (member.name_at, next)).collect();
    if let (Some(first), Some(last)) = (members.get(kept), members.last()) {
        let from = kept.checked_sub(1).map_or(first.name_at, |before| members[before].value.1);
        cuts.push((from, last.value.1));
    }
    cuts
}
