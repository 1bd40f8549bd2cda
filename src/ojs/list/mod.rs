//! Lists and aggregates of several regions as one.
//!
//! A region's answer is read in place ([`Page`]); the client's parameters are read from its query ([`Wanted`]); a
//! [`Walk`] decides which region to ask for which part, with the composite [`Cursor`]; [`merged`] writes the answer.
//! Figures are added up by [`summed`], queues united by [`united`]. Items stay byte for byte as the regions wrote them.

mod count;
mod cursor;
mod merged;
pub(super) mod object;
mod page;
mod sum;
mod walk;
mod wanted;

pub use cursor::{BadCursor, Cursor, Leg, Place};
pub use merged::{Figures, merged, replaced};
pub use page::{NoPage, PAGE_ITEMS_MAX, Page, Told};
pub use sum::{Part, added_up, is_object, summed, united};
pub use walk::{Ask, Outcome, Pick, Walk};
pub use wanted::{LIMIT_MAX, Start, Wanted};
