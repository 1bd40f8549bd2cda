//! Which region to ask for which part of its list, so that the pages of a client are the regions' lists one behind the other.
//!
//! The merged list is a concatenation in the order of the registry: that is exact for every way of paging, stays as it is while
//! contents do, and needs no more than a page of any region, however far the client has come. A merge by time would need the
//! first `offset + limit` items of every region for each page.
//!
//! Pure: [`Walk::asks`] returns the questions, [`Walk::heard`] takes the answers, until no question is left. The number
//! of rounds is bounded by the number of regions.

mod sequence;
mod step;
mod window;

use super::cursor::{BadCursor, Cursor};
use super::page::Told;
use super::wanted::{Start, Wanted};
use crate::base::RegionId;
use crate::ojs::operation::Paging;
use sequence::Sequence;
pub use step::{Ask, Outcome, Pick};
use window::Window;

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

    /// The questions to ask now, all at once; none when the page is complete.
    pub fn asks(&mut self) -> Vec<Ask> {
        match &mut self.0 {
            Kind::Window(window) => window.asks(),
            Kind::Sequence(sequence) => sequence.asks(),
        }
    }

    /// Takes the answer to an ask of the last round. `answer` is the answer's number; `None` without a usable one, and
    /// the region is then passed over.
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

#[cfg(test)]
mod tests;
