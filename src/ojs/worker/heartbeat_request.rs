//! A heartbeat: a worker lives, and still has these jobs.
//!
//! Clients write the ids in three ways: as an array `active_jobs`; as `active_job_ids` beside a number `active_jobs`; as one
//! `job_id`. Servers in the field read the first only.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use super::edit::Edits;
use super::members::{Members, Span, inside, joined, slice, text_of};
use crate::ojs::fault::Fault;
use crate::ojs::segments::Segments;

/// Far more jobs than a worker has at once.
const IDS_MAX: usize = 10_000;

const NAMES: [&str; 5] = ["worker_id", "active_jobs", "active_job_ids", "job_id", "visibility_timeout_ms"];
const WORKER_ID: usize = 0;
const ACTIVE_JOBS: usize = 1;
const ACTIVE_JOB_IDS: usize = 2;
const JOB_ID: usize = 3;
const VISIBILITY: usize = 4;

/// A heartbeat, read in place.
pub struct HeartbeatRequest<'b> {
    members: Members<'b, 5>,
    /// The ids, each once, and how the client wrote them.
    ids: Vec<(Cow<'b, str>, &'b str)>,
    /// Something stands in the place of ids that is none; the region judges that.
    odd: bool,
}

impl std::fmt::Debug for HeartbeatRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeartbeatRequest").field("ids", &self.ids.len()).field("odd", &self.odd).finish_non_exhaustive()
    }
}

impl<'b> HeartbeatRequest<'b> {
    /// Reads the body of a heartbeat.
    ///
    /// Errors: a [`Fault`] when it is not JSON, names too many jobs, or could be read in two ways.
    pub fn read(body: &'b [u8], depth_max: usize) -> Result<Self, Fault> {
        let members = Members::read(body, depth_max, NAMES)?;
        let mut beat = Self { ids: Vec::new(), odd: false, members };
        let mut seen = HashSet::new();
        for place in [ACTIVE_JOBS, ACTIVE_JOB_IDS] {
            let Some(spans) = beat.members.elements(place, "job ids", IDS_MAX)? else {
                let counts = place == ACTIVE_JOBS && beat.members.number(place).is_some();
                beat.odd |= !counts && beat.members.raw(place).is_some_and(|raw| raw != "null");
                continue;
            };
            for span in spans {
                beat.add(span, &mut seen);
            }
        }
        match beat.members.span(JOB_ID) {
            Some(span) if beat.members.raw(JOB_ID) != Some("null") => beat.add(span, &mut seen),
            _ => {}
        }
        Ok(beat)
    }

    fn add(&mut self, span: Span, seen: &mut HashSet<Cow<'b, str>>) {
        let raw = slice(self.members.text, span).unwrap_or_default();
        match text_of(raw) {
            Some(id) if seen.insert(id.clone()) => self.ids.push((id, raw)),
            Some(_) => {}
            None => self.odd = true,
        }
    }

    /// The jobs that the worker speaks for, each once; none where they cannot all be read.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().filter(|_| !self.odd).map(|(id, _)| &**id)
    }

    /// The worker, when it says.
    #[must_use]
    pub fn worker_id(&self) -> Option<Cow<'b, str>> {
        self.members.text(WORKER_ID).filter(|id| !id.is_empty())
    }

    /// How long the leases are extended; none when it does not say, which 0 does not either. Units: milliseconds.
    #[must_use]
    pub fn visibility_ms(&self) -> Option<u64> {
        self.members.number(VISIBILITY).filter(|ms| *ms > 0)
    }

    /// Whether it says how long in a way that is no number: a server may read another one than we do.
    #[must_use]
    pub fn has_odd_visibility(&self) -> bool {
        self.members.number(VISIBILITY).is_none() && self.members.raw(VISIBILITY).is_some_and(|raw| raw != "null")
    }

    /// The heartbeat for the jobs that are `wanted`, everything else as the client wrote it. `body` is the body that it
    /// was read from.
    ///
    /// `array`: the ids stand in an array `active_jobs`, however the client wrote them.
    pub fn part(&self, body: &Bytes, array: bool, wanted: impl Fn(&str) -> bool) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "a heartbeat is cut out of its own body");
        let mut edits = Edits::default();
        if !self.odd {
            let kept: Vec<&str> = self.ids.iter().filter(|(id, _)| wanted(id)).map(|(_, raw)| *raw).collect();
            self.cut_array(ACTIVE_JOBS, &wanted, &mut edits);
            self.cut_array(ACTIVE_JOB_IDS, &wanted, &mut edits);
            self.write_active(&kept, array, &mut edits);
            if let Some(span) = self.members.span(JOB_ID)
                && !self.members.text(JOB_ID).is_some_and(|id| wanted(&id))
            {
                edits.replace(span, "null");
            }
        }
        edits.apply(body)
    }

    fn cut_array(&self, place: usize, wanted: &impl Fn(&str) -> bool, edits: &mut Edits) {
        let Ok(Some(spans)) = self.members.elements(place, "job ids", IDS_MAX) else { return };
        let raws = || spans.iter().filter_map(|span| slice(self.members.text, *span));
        let is_kept = |raw: &&str| text_of(raw).is_some_and(|id| wanted(&id));
        if let Some(span) = self.members.span(place)
            && !raws().all(|raw| is_kept(&raw))
        {
            edits.replace(inside(span), joined(raws().filter(is_kept)));
        }
    }

    /// Writes `active_jobs` where it is no array.
    fn write_active(&self, kept: &[&str], array: bool, edits: &mut Edits) {
        let list = || format!("[{}]", joined(kept.iter().copied()));
        match (self.members.span(ACTIVE_JOBS), self.members.raw(ACTIVE_JOBS)) {
            (Some(_), Some(raw)) if raw.starts_with('[') => {}
            (Some(span), Some("null")) if array => edits.replace(span, list()),
            (Some(_), Some("null")) => {}
            (Some(span), Some(_)) if array => edits.replace(span, list()),
            // A number of jobs, of which some are another region's.
            (Some(span), Some(_)) if kept.len() < self.ids.len() => edits.replace(span, kept.len().to_string()),
            (Some(_), _) => {}
            (None, _) if array && !kept.is_empty() => {
                let (place, comma) = self.members.front();
                edits.replace(place, format!("\"active_jobs\":{}{comma}", list()));
            }
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests;
