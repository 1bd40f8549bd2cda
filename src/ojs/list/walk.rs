//! Which region to ask for which part of its list, so that the pages of a client are the regions' lists one behind the other.
//!
//! The merged list is a concatenation in the order of the registry: that is exact for every way of paging, stays as it is while
//! contents do, and needs no more than a page of any region, however far the client has come. A merge by time would need the
//! first `offset + limit` items of every region for each page.
//!
//! Pure: says what to ask ([`Walk::asks`]), is told what came ([`Walk::heard`]), until there is nothing left to ask. The number
//! of rounds is bounded by the number of regions.

mod sequence;
mod window;

use super::cursor::{BadCursor, Cursor, Place};
use super::page::Told;
use super::wanted::{Start, Wanted};
use crate::base::RegionId;
use crate::ojs::operation::Paging;
use sequence::Sequence;
use window::Window;

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
    /// What it holds, in order.
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

/// The way through the regions for one page.
#[derive(Debug)]
pub struct Walk(Kind);

#[derive(Debug)]
enum Kind {
    Window(Window),
    Sequence(Sequence),
}

impl Walk {
    /// A walk over regions in the order of the registry. `list` is the path of the list.
    ///
    /// Errors: [`BadCursor`] when the client's cursor is none of this list.
    pub fn begin(wanted: &Wanted, list: &str, regions: &[RegionId]) -> Result<Self, BadCursor> {
        let limit = wanted.limit.unwrap_or(wanted.usual());
        let log = wanted.paging == Paging::After;
        let sequence = |cursor| Kind::Sequence(Sequence::new(regions, cursor, limit, log));
        Ok(Self(match &wanted.start {
            Start::Cursor(text) => sequence(Some(Cursor::decode(text, list)?)),
            Start::Offset(0) => sequence(None),
            Start::Offset(offset) => Kind::Window(Window::by_offset(regions, *offset, limit)),
            Start::Page(page) => Kind::Window(Window::by_page(regions, *page, limit)),
        }))
    }

    /// What is to be asked now, all of it at once; nothing when the page is complete.
    pub fn asks(&mut self) -> Vec<Ask> {
        match &mut self.0 {
            Kind::Window(window) => window.asks(),
            Kind::Sequence(sequence) => sequence.asks(),
        }
    }

    /// What an ask of the last round was answered. `answer` is the answer's number; `None` when there is no usable one, and the
    /// region is then passed over.
    pub fn heard(&mut self, ask: &Ask, told: Option<(&Told, usize)>) {
        match &mut self.0 {
            Kind::Window(window) => window.heard(ask, told),
            Kind::Sequence(sequence) => sequence.heard(ask, told),
        }
    }

    /// The page.
    #[must_use]
    pub fn finish(self) -> Outcome {
        match self.0 {
            Kind::Window(window) => window.finish(),
            Kind::Sequence(sequence) => sequence.finish(),
        }
    }
}

/// How many items a region has, as far as its answer to an ask tells.
fn total_of(told: &Told, ask: &Ask) -> Option<u64> {
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

#[cfg(test)]
mod tests;
