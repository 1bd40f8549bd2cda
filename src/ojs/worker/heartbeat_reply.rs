//! The answer to a heartbeat: the jobs whose leases were extended, and the directive for the worker.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use super::edit::Edits;
use super::members::{Members, joined, slice, text_of};
use crate::ojs::member::DEPTH_MAX;
use crate::ojs::segments::Segments;

/// More than a heartbeat may name in all three places.
const EXTENDED_MAX: usize = 32_768;

const NAMES: [&str; 3] = ["state", "directive", "jobs_extended"];
const STATE: usize = 0;
const DIRECTIVE: usize = 1;
const JOBS_EXTENDED: usize = 2;

/// A region's directive for a worker, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Directive {
    /// Go on.
    #[default]
    Continue,
    /// Fetch no more.
    Quiet,
    /// Finish and end.
    Terminate,
}

/// A region's answer to a heartbeat, read in place.
pub struct HeartbeatReply<'b> {
    members: Members<'b, 3>,
    /// The jobs whose leases were extended, in the region's spelling.
    extended: Vec<(Cow<'b, str>, &'b str)>,
}

impl std::fmt::Debug for HeartbeatReply<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeartbeatReply").field("extended", &self.extended.len()).finish_non_exhaustive()
    }
}

impl<'b> HeartbeatReply<'b> {
    /// Reads the answer to a heartbeat; `None` when it does not look like one.
    #[must_use]
    pub fn read(body: &'b [u8]) -> Option<Self> {
        let members = Members::read(body, DEPTH_MAX, NAMES).ok()?;
        let spans = members.elements(JOBS_EXTENDED, "job ids", EXTENDED_MAX).ok()?.unwrap_or_default();
        let read = |span| {
            let raw = slice(members.text, span)?;
            Some((text_of(raw)?, raw))
        };
        let extended = spans.into_iter().map(read).collect::<Option<_>>()?;
        Some(Self { members, extended })
    }

    /// The jobs whose leases were extended.
    pub fn extended(&self) -> impl Iterator<Item = &str> {
        self.extended.iter().map(|(id, _)| &**id)
    }

    /// Whether the region names the leases that it has extended.
    #[must_use]
    pub fn says_extended(&self) -> bool {
        self.members.raw(JOBS_EXTENDED).is_some_and(|raw| raw != "null")
    }

    /// The region's directive, from either of the two members; the stricter counts.
    #[must_use]
    pub fn directive(&self) -> Directive {
        let of = |place| match self.members.text(place).as_deref() {
            Some("quiet") => Directive::Quiet,
            Some("terminate") => Directive::Terminate,
            _ => Directive::Continue,
        };
        of(STATE).max(of(DIRECTIVE))
    }

    /// The answer for the client: this one, with the leases that other regions have extended. `body` is the body that
    /// it was read from.
    ///
    /// `calm`: this region's directive is left out, because the region is not the local one.
    #[must_use]
    pub fn with(&self, body: &Bytes, others: &[Self], calm: bool) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "an answer is spliced into its own body");
        let mut edits = Edits::default();
        let mut seen = HashSet::new();
        let all = std::iter::once(self).chain(others).flat_map(|answer| &answer.extended);
        let united: Vec<&str> = all.filter(|(id, _)| seen.insert(&**id)).map(|(_, raw)| *raw).collect();
        if !united.iter().eq(self.extended.iter().map(|(_, raw)| raw)) {
            let list = format!("[{}]", joined(united.iter().copied()));
            if let Some(span) = self.members.span(JOBS_EXTENDED) {
                edits.replace(span, list);
            } else {
                let (place, comma) = self.members.front();
                edits.replace(place, format!("\"jobs_extended\":{list}{comma}"));
            }
        }
        if calm && self.directive() != Directive::Continue {
            for (place, word) in [(STATE, "\"running\""), (DIRECTIVE, "\"continue\"")] {
                let orders = matches!(self.members.text(place).as_deref(), Some("quiet" | "terminate"));
                if let Some(span) = self.members.span(place).filter(|_| orders) {
                    edits.replace(span, word);
                }
            }
        }
        edits.apply(body)
    }
}

#[cfg(test)]
mod tests;
