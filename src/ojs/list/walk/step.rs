//! The questions of a walk, and the use of their answers.

use crate::ojs::list::cursor::{Cursor, Place};
use crate::ojs::list::page::Told;

/// A question to one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which region, by its place in the walk.
    pub leg: usize,
    /// From where.
    pub place: Place,
    /// For how many items; at least 1, and never more than the client's page holds.
    pub limit: u64,
}

/// Some items of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Which answer, by the number it was heard with.
    pub answer: usize,
    /// The first item.
    pub from: usize,
    /// Behind the last item.
    pub to: usize,
}

/// The client's page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its items, in order.
    pub picks: Vec<Pick>,
    /// How many items it may hold; `None` where everything was wanted.
    pub limit: Option<u64>,
    /// How many items there are in all, as far as regions say so.
    pub total: Option<u64>,
    /// Whether more follow in a region that answers.
    pub has_more: bool,
    /// Where it ends.
    pub cursor: Cursor,
}

/// The number of a region's items, as far as its answer to an ask gives it.
pub(super) fn total_of(told: &Told, ask: &Ask) -> Option<u64> {
    let items = told.items as u64;
    if !told.paged {
        return Some(items);
    }
    let offset = match ask.place {
        Place::Start => 0,
        Place::Offset(offset) if items > 0 => offset,
        _ => return told.total,
    };
    let is_last = told.has_more.map_or(told.next.is_none() && items < ask.limit, |more| !more);
    told.total.or_else(|| is_last.then(|| offset.saturating_add(items)))
}
