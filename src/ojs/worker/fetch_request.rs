//! A FETCH: which queues, and how many jobs.

use std::borrow::Cow;

use bytes::Bytes;
use smallvec::SmallVec;

use super::cuts::{Cuts, cuts};
use super::edit::Edits;
use super::members::{Member, Members, Span, inside, slice, text_of};
use super::own_pool::{self, OwnPool};
use super::own_turns::{self, OwnTurns};
use crate::ojs::fault::Fault;
use crate::ojs::segments::Segments;

/// Far more queues than any worker serves.
const QUEUES_MAX: usize = 1_000;
/// Far more members than any worker sends: all are kept until the call ends.
const MEMBERS_MAX: usize = 256;
/// Queues of a list that takes turns by the words of its worker at most; a worker serves a few.
const WEIGHTED_MAX: usize = 64;
/// Room for the names of some dozens of queues. Units: bytes.
const NAMES_BYTES_USUAL: usize = 1_024;

/// A FETCH has a few members. Units: members.
const MEMBERS_USUAL: usize = 6;

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
    /// Whether some queues of the body are left out.
    lacks_queues: bool,
    /// All members in their order, and the parts of the body to cut out for those that go.
    all: SmallVec<[Member; MEMBERS_USUAL]>,
    /// Whether one of them has a name for sidecars, or a name like one.
    has_own: bool,
    cuts: Cuts,
    count: Option<usize>,
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
    /// Errors: a [`Fault`] when it is not JSON, names too many queues, has too many members, or could be read in two ways.
    pub fn read(body: &'b [u8], depth_max: usize) -> Result<Self, Fault> {
        let (mut all, mut count, mut has_own) = (SmallVec::new(), 0_usize, false);
        let members = Members::read_all(body, depth_max, NAMES, |member| {
            count += 1;
            has_own |= member.is_own();
            if count <= MEMBERS_MAX {
                all.push(member);
            }
        })?;
        if count > MEMBERS_MAX {
            return Err(Fault::too_many("members", MEMBERS_MAX));
        }
        let spans = members.elements(QUEUES, "queues", QUEUES_MAX)?.unwrap_or_default();
        let named = |span| Some((text_of(slice(members.text, span)?)?, span));
        // One that is no name makes the whole list the region's to judge.
        let queues = spans.into_iter().map(named).collect::<Option<_>>().unwrap_or_default();
        let count = count_of(&members);
        Ok(Self { members, queues, lacks_queues: false, all, has_own, cuts: Cuts::new(), count })
    }

    /// The queues, in the order in which they are to be served; none where the list is not one of names.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.queues.iter().map(|(name, _)| &**name)
    }

    /// The name at a place of the list.
    #[must_use]
    pub fn queue(&self, place: usize) -> Option<&str> {
        self.queues.get(place).map(|(name, _)| &**name)
    }

    /// How many jobs are asked for: `count`, else `batch_size`, else one; `None` where that is no number from 1 up.
    #[must_use]
    pub const fn count(&self) -> Option<usize> {
        self.count
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
        if !self.has_own {
            return None;
        }
        let takes_turns = self.queues.len() <= WEIGHTED_MAX;
        own_turns::read(self.members.text, &self.all, |queue| takes_turns && self.queues().any(|name| name == queue))
    }

    /// The pool that the worker names; none where it names none.
    ///
    /// Errors: a [`Fault`] where that could be read in two ways, or is no text.
    pub fn own_pool(&self) -> Result<Option<OwnPool<'b>>, Fault> {
        if !self.has_own {
            return Ok(None);
        }
        own_pool::read(self.members.text, &self.all)
    }

    /// Leaves all queues out of the call that are not `wanted`.
    pub fn keep_queues(&mut self, wanted: impl Fn(&str) -> bool) {
        let before = self.queues.len();
        self.queues.retain(|(name, _)| wanted(name));
        self.lacks_queues |= self.queues.len() < before;
    }

    /// Leaves the worker's own words about turns out of the call.
    pub fn leave_out_turns(&mut self, own: &OwnTurns) {
        self.leave_out(&own.members);
    }

    /// Leaves the name of the worker's pool out of the call.
    pub fn leave_out_pool(&mut self, own: &OwnPool<'_>) {
        self.leave_out(&[own.member]);
    }

    fn leave_out(&mut self, places: &[usize]) {
        for place in places {
            self.all.get_mut(*place).into_iter().for_each(|member| member.goes = true);
        }
        self.cuts = cuts(&self.all);
    }

    /// The call, without the pieces that are left out. `body`, here and below, is the body that it was read from.
    #[must_use]
    pub fn whole(&self, body: &Bytes) -> Segments {
        if !self.lacks_queues && self.cuts.is_empty() {
            return Segments::from_iter([body.clone()]);
        }
        let names = self.lacks_queues.then(|| self.joined(0..self.queues.len()));
        self.written(body, names, None)
    }

    /// The same call for `count` jobs and only the queues that are `wanted`.
    pub fn part(&self, body: &Bytes, count: usize, wanted: impl Fn(&str) -> bool) -> Segments {
        let is_all = !self.lacks_queues && self.queues().all(&wanted);
        let kept = (0..self.queues.len()).filter(|place| wanted(&self.queues[*place].0));
        let names = (!is_all).then(|| self.joined(kept));
        self.written(body, names, Some(count))
    }

    /// The same call for `count` jobs of the queues at these places of the list, in this order.
    #[must_use]
    pub fn in_order(&self, body: &Bytes, count: usize, order: &[usize]) -> Segments {
        let is_as_listed = !self.lacks_queues && order.iter().copied().eq(0..self.queues.len());
        let names = (!is_as_listed).then(|| self.joined(order.iter().copied()));
        self.written(body, names, Some(count))
    }

    /// As [`Self::in_order`], with several names in place of some queues: `names` writes those of a place, which has this text, and says whether it has.
    /// Without a `count` that stays as it is.
    pub fn with_names(
        &self,
        body: &Bytes,
        count: Option<usize>,
        order: &[usize],
        mut names: impl FnMut(usize, &str, &mut String) -> bool,
    ) -> Segments {
        let mut text = String::with_capacity(NAMES_BYTES_USUAL);
        for place in order {
            let Some(quoted) = self.quoted(*place) else { continue };
            if !text.is_empty() {
                text.push(',');
            }
            if !names(*place, quoted, &mut text) {
                text.push_str(quoted);
            }
        }
        self.written(body, Some(text), count)
    }

    /// The name at a place of the list, as the body has it.
    fn quoted(&self, place: usize) -> Option<&'b str> {
        slice(self.members.text, self.queues.get(place)?.1)
    }

    fn joined(&self, places: impl Iterator<Item = usize>) -> String {
        let mut text = String::with_capacity(self.members.raw(QUEUES).map_or(0, str::len));
        for quoted in places.filter_map(|place| self.quoted(place)) {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(quoted);
        }
        text
    }

    /// The call with other `names` in its list, and for `count` jobs, where these are given.
    fn written(&self, body: &Bytes, names: Option<String>, count: Option<usize>) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "a call is cut out of its own body");
        let mut edits = Edits::default();
        if let Some((span, names)) = self.members.span(QUEUES).zip(names) {
            edits.replace(inside(span), names);
        }
        // A size of batches beside the count is read by some servers.
        let is_as_given = count == self.count && self.members.span(BATCH_SIZE).is_none();
        for place in [COUNT, BATCH_SIZE].into_iter().filter(|_| !is_as_given) {
            if let Some((span, count)) = self.members.span(place).zip(count)
                && self.members.number(place).is_some_and(|given| given != count as u64)
            {
                edits.replace(span, count.to_string());
            }
        }
        self.cuts.iter().for_each(|span| edits.replace(*span, ""));
        edits.apply(body)
    }
}

fn count_of(members: &Members<'_, 5>) -> Option<usize> {
    let given = |place: &usize| members.raw(*place).is_some_and(|raw| raw != "null");
    let Some(place) = [COUNT, BATCH_SIZE].into_iter().find(given) else { return Some(1) };
    usize::try_from(members.number(place)?).ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests;
