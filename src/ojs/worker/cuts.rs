//! Members that are cut out of a body, with the commas that belong to them.

use super::members::Span;
use crate::ojs::scan::{ScanError, Scanner};

/// The parts of an object that was read before to cut out so that the members whose names begin at these places are not there. The parts do not overlap.
pub(super) fn cuts(text: &str, open: usize, leaving: &[usize]) -> Vec<Span> {
    // Start of the name, end of the value, and whether the member is to go.
    let mut members: Vec<(usize, usize, bool)> = Vec::new();
    let read = Scanner::again(text, open, &[]).object(|scanner, key| {
        let (_, end) = scanner.skip()?;
        members.push((key.at, end, leaving.contains(&key.at)));
        Ok::<(), ScanError>(())
    });
    debug_assert!(read.is_ok(), "the object was read before");
    let kept = members.iter().rposition(|(_, _, goes)| !goes).map_or(0, |last| last + 1);
    // In front of one that stays, a member goes with the comma behind it.
    let starts = members.iter().skip(1).map(|member| member.0);
    let before = members[..kept].iter().zip(starts).filter(|(member, _)| member.2);
    let mut cuts: Vec<Span> = before.map(|(member, next)| (member.0, next)).collect();
    if let (Some(first), Some(last)) = (members.get(kept), members.last()) {
        let from = kept.checked_sub(1).map_or(first.0, |before| members[before].1);
        cuts.push((from, last.1));
    }
    cuts
}
