//! A FETCH: which queues, and how many jobs.

use std::borrow::Cow;

use bytes::Bytes;

use super::edit::Edits;
use super::members::{Members, Span, inside, joined, slice, text_of};
use super::own_pool::{self, OwnPool};
use super::own_turns::{self, OwnTurns};
use crate::ojs::fault::Fault;
use crate::ojs::segments::Segments;

/// Far more queues than any worker serves.
const QUEUES_MAX: usize = 1_000;
/// Room for the names of some dozens of queues. Units: bytes.
const NAMES_BYTES_USUAL: usize = 1_024;

const NAMES: [&str; 5] = ["queues", "count", "batch_size", "worker_id", "visibility_timeout_ms"];
const QUEUES: usize = 0;
const COUNT: usize = 1;
const BATCH_SIZE: usize = 2;
const WORKER_ID: usize = 3;
const VISIBILITY: usize = 4;

/// The parameters of a worker's FETCH, read in place.
pub struct FetchRequest<'b> {
    members: Members<'b, 5>,
    queues: Vec<(Cow<'b, str>, Span)>,
}

impl std::fmt::Debug for FetchRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchRequest")
            .field("queues", &self.queues.len())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl<'b> FetchRequest<'b> {
    /// Reads the body of a FETCH.
    ///
    /// Errors: a [`Fault`] when it is not JSON, names too many queues, or could be read in two ways.
    pub fn read(body: &'b [u8], depth_max: usize) -> Result<Self, Fault> {
        let members = Members::read(body, depth_max, NAMES)?;
        let spans = members.elements(QUEUES, "queues", QUEUES_MAX)?.unwrap_or_default();
        let named = |span| Some((text_of(slice(members.text, span)?)?, span));
        // One that is no name makes the whole list the region's to judge.
        let queues = spans.into_iter().map(named).collect::<Option<_>>().unwrap_or_default();
        Ok(Self { members, queues })
    }

    /// The queues, in the order in which they are to be served; none where the list is not one of names.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| &**name)
    }

    /// How many jobs are asked for: `count`, else `batch_size`, else one; `None` where that is no number from 1 up.
    #[must_use]
    pub fn count(&self) -> Option<usize> {
        let given = |place: &usize| self.members.raw(*place).is_some_and(|raw| raw != "null");
        let Some(place) = [COUNT, BATCH_SIZE].into_iter().find(given) else { return Some(1) };
        usize::try_from(self.members.number(place)?).ok().filter(|count| *count > 0)
    }

    /// The worker; SDKs exist that do not say.
    #[must_use]
    pub fn worker_id(&self) -> Option<Cow<'b, str>> {
        self.members.text(WORKER_ID).filter(|id| !id.is_empty())
    }

    /// How long the jobs are leased; none when it does not say, which 0 does not either. Units: milliseconds.
    #[must_use]
    pub fn visibility_ms(&self) -> Option<u64> {
        self.members.number(VISIBILITY).filter(|ms| *ms > 0)
    }

    /// Whether it says how long in a way that is no number: a server may read another one than we do.
    #[must_use]
    pub fn has_odd_visibility(&self) -> bool {
        self.members.number(VISIBILITY).is_none() && self.members.raw(VISIBILITY).is_some_and(|raw| raw != "null")
    }

    /// The worker's own words about turns. None where there are none, or where they could be read in two ways.
    #[must_use]
    pub fn own_turns(&self) -> Option<OwnTurns> {
        own_turns::read(self.members.text, self.members.open, |queue| self.queues().any(|name| name == queue))
    }

    /// The pool that the worker names; none where it names none.
    ///
    /// Errors: a [`Fault`] where that could be read in two ways, or is no text.
    pub fn own_pool(&self) -> Result<Option<OwnPool<'b>>, Fault> {
        own_pool::read(self.members.text, self.members.open)
    }

    /// The same call for only the queues that are `wanted`, and without the name of its pool. `body` is the body that it was read from.
    pub fn of_pool(&self, body: &Bytes, own: Option<&OwnPool<'_>>, wanted: impl Fn(&str) -> bool) -> Segments {
        let mut edits = self.keep(body, wanted);
        own.into_iter().flat_map(|own| &own.cuts).for_each(|span| edits.replace(*span, ""));
        edits.apply(body)
    }

    /// The same call without these words. `body` is the body that it was read from.
    pub fn without(&self, body: &Bytes, own: &OwnTurns) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "a call is cut out of its own body");
        let mut edits = Edits::default();
        own.cuts.iter().for_each(|span| edits.replace(*span, ""));
        edits.apply(body)
    }

    /// The same call for `count` jobs of the queues at these places of the list, in this order, and without its `own` words about turns.
    /// `body` is the body that it was read from.
    pub fn in_order(&self, body: &Bytes, count: usize, order: &[usize], own: Option<&OwnTurns>) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "a call is cut out of its own body");
        let mut edits = Edits::default();
        let spans = order.iter().filter_map(|place| Some(self.queues.get(*place)?.1));
        if let Some(span) = self.members.span(QUEUES)
            && !order.iter().copied().eq(0..self.queues.len())
        {
            edits.replace(inside(span), joined(spans.filter_map(|span| slice(self.members.text, span))));
        }
        self.ask_for(&mut edits, count);
        own.into_iter().flat_map(|own| &own.cuts).for_each(|span| edits.replace(*span, ""));
        edits.apply(body)
    }

    /// As [`Self::in_order`], with several names in place of some queues: `names` writes those of a place, which has this text, and says whether it has.
    /// Without a `count` that stays as it is.
    pub fn with_names(
        &self,
        body: &Bytes,
        count: Option<usize>,
        order: &[usize],
        own: Option<&OwnTurns>,
        mut names: impl FnMut(usize, &str, &mut String) -> bool,
    ) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "a call is cut out of its own body");
        let mut edits = Edits::default();
        if let Some(span) = self.members.span(QUEUES) {
            let mut text = String::with_capacity(NAMES_BYTES_USUAL);
            for place in order {
                let Some(quoted) = self.queues.get(*place).and_then(|(_, span)| slice(self.members.text, *span)) else {
                    continue;
                };
                if !text.is_empty() {
                    text.push(',');
                }
                if !names(*place, quoted, &mut text) {
                    text.push_str(quoted);
                }
            }
            edits.replace(inside(span), text);
        }
        count.into_iter().for_each(|count| self.ask_for(&mut edits, count));
        own.into_iter().flat_map(|own| &own.cuts).for_each(|span| edits.replace(*span, ""));
        edits.apply(body)
    }

    /// The same call for `count` jobs and only the queues that are `wanted`. `body` is the body that it was read from.
    pub fn part(&self, body: &Bytes, count: usize, wanted: impl Fn(&str) -> bool) -> Segments {
        let mut edits = self.keep(body, wanted);
        self.ask_for(&mut edits, count);
        edits.apply(body)
    }

    fn ask_for(&self, edits: &mut Edits, count: usize) {
        for place in [COUNT, BATCH_SIZE] {
            if let Some(span) = self.members.span(place)
                && self.members.number(place).is_some_and(|given| given != count as u64)
            {
                edits.replace(span, count.to_string());
            }
        }
    }

    /// The same call for only the queues that are `wanted`. `body` is the body that it was read from.
    pub fn with_queues(&self, body: &Bytes, wanted: impl Fn(&str) -> bool) -> Segments {
        self.keep(body, wanted).apply(body)
    }

    fn keep(&self, body: &Bytes, wanted: impl Fn(&str) -> bool) -> Edits {
        debug_assert_eq!(self.members.text.len(), body.len(), "a call is cut out of its own body");
        let mut edits = Edits::default();
        let kept: Vec<_> = self.queues.iter().filter(|(name, _)| wanted(name)).collect();
        if let Some(span) = self.members.span(QUEUES)
            && kept.len() < self.queues.len()
        {
            edits.replace(inside(span), joined(kept.iter().filter_map(|(_, span)| slice(self.members.text, *span))));
        }
        edits
    }
}

#[cfg(test)]
mod tests;
