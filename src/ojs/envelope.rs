//! One job as it stands in a body: the parts that routing needs, and the places for the stamp.
//!
//! Members are read in place; nothing is copied unless it is escaped. `type`, `queue`, `tags`, `id`, `meta`, `options` and
//! `options.metadata` must be spelled once and exactly, because servers that fold case or take the last duplicate would
//! otherwise read another job than we routed.

use std::borrow::Cow;
use std::ops::Range;

mod draft;
mod parts;
mod stray;
mod unread;

use super::abridged::Abridged;
use super::attributes::{Attributes, Place, Slot, join, unknown_keys};
use super::fault::Fault;
use super::key::{Likeness, Text, likeness};
use super::scan::Scanner;
use draft::Draft;
pub(super) use parts::Id;
pub use parts::Unclear;
pub(super) use stray::refuse_strays;
use unread::{ROUTING_KEY_BYTES_MIN, are_unread};

/// The queue of a job that names none.
pub(super) const DEFAULT_QUEUE: &str = "default";

/// The text of a job's meta under a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetaText<'b> {
    /// The text, of `options.metadata`, else of `meta`.
    pub text: Option<Cow<'b, str>>,
    /// Whether servers could read another one: the key is repeated, differs between the two places, or holds no text.
    pub unclear: bool,
}

impl<'b> From<Option<Cow<'b, str>>> for MetaText<'b> {
    fn from(text: Option<Cow<'b, str>>) -> Self {
        Self { text, unclear: false }
    }
}

/// How far to read.
#[derive(Clone, Copy)]
enum End {
    /// To the end of the job, which something else may follow.
    Job,
    /// To the end of the body, which is the job and nothing else.
    Body,
}

/// One job, read in place.
#[derive(Clone)]
pub struct Envelope<'b> {
    pub(super) text: &'b str,
    pub(super) id: Id<'b>,
    pub(super) root: Slot,
    pub(super) meta: Place,
    pub(super) metadata: Place,
    span: (usize, usize),
    job_type: Option<Cow<'b, str>>,
    queue: Option<Cow<'b, str>>,
    tags: Vec<Cow<'b, str>>,
    attributes: Attributes<'b>,
    unclear: Unclear,
    caller_tenant: Option<&'b str>,
    fingerprints_meta: bool,
    unique: bool,
}

impl std::fmt::Debug for Envelope<'_> {
    // A job's content belongs in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Envelope").field("span", &self.span).finish_non_exhaustive()
    }
}

impl<'b> Envelope<'b> {
    /// Reads a body that is one job.
    ///
    /// Errors: a [`Fault`] when the body is not JSON, is nested too deeply, could be read in two ways, or holds a routing key
    /// where it would be lost.
    pub fn read(body: &'b [u8], depth_max: usize) -> Result<Self, Fault> {
        Self::read_to(&mut Scanner::new(body, depth_max)?, End::Body)
    }

    /// As [`Envelope::read`]; `None` where a part that routing reads was cut out of the body, or where only the whole
    /// body could show a fault. `reads_meta` names the members of meta that are read.
    #[must_use]
    pub fn read_abridged(body: Abridged<'b>, depth_max: usize, reads_meta: impl Fn(&str) -> bool) -> Option<Self> {
        let envelope = Self::read(body.text(), depth_max).ok()?;
        are_unread(envelope.text, envelope.span.0, body.gaps(), &reads_meta).then_some(envelope)
    }

    /// Reads the job that begins at the scanner.
    pub(super) fn read_at(scanner: &mut Scanner<'b, '_>) -> Result<Self, Fault> {
        Self::read_to(scanner, End::Job)
    }

    // In one function, because arguments between functions are copied each time.
    fn read_to(scanner: &mut Scanner<'b, '_>, end: End) -> Result<Self, Fault> {
        let mut draft = Draft::default();
        if scanner.next() != Some(b'{') {
            scanner.skip()?;
            scanner.end()?;
            return Err(Fault::body_not_an_object());
        }
        let open = scanner.at();
        let any = scanner.object(|scanner, key| draft.member(scanner, key))?;
        let (text, span) = (scanner.text(), (open, scanner.at()));
        let unclear = draft.unclear();
        let attributes = join(text, &draft.meta, &draft.metadata, draft.weights)?;
        if let End::Body = end {
            scanner.end()?;
            if scanner.longest_name() >= ROUTING_KEY_BYTES_MIN {
                refuse_strays(text)?;
            }
        }
        Ok(Self {
            text,
            id: draft.id,
            root: Slot::Object { open, empty: !any },
            meta: draft.meta,
            metadata: draft.metadata,
            span,
            job_type: draft.job_type,
            queue: named(draft.options_queue).or(named(draft.queue)),
            tags: draft.options_tags.or(draft.tags).unwrap_or_default(),
            attributes,
            unclear,
            caller_tenant: None,
            fingerprints_meta: draft.fingerprints_meta,
            unique: draft.unique,
        })
    }

    /// The bytes of the job, as they stand.
    #[must_use]
    pub fn raw(&self) -> &'b str {
        self.text.get(self.span.0..self.span.1).unwrap_or_default()
    }

    /// The job's type, when it is a string.
    #[must_use]
    pub fn job_type(&self) -> Option<&str> {
        self.job_type.as_deref()
    }

    /// The queue: `options.queue`, else a queue at the top level, else `default`.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.queue.as_deref().unwrap_or(DEFAULT_QUEUE)
    }

    /// The tags: `options.tags`, else tags at the top level.
    #[must_use]
    pub fn tags(&self) -> &[Cow<'b, str>] {
        &self.tags
    }

    /// Whether a region would make a job of it: it has a type and arguments. A policy that only has a `type`, such as that of a
    /// backoff, and a workflow, which has steps, are none.
    #[must_use]
    pub fn is_job(&self) -> bool {
        let mut has_args = false;
        let read = Scanner::again(self.text, self.span.0, &[]).object(|scanner, key| {
            has_args |= key.decode() == "args";
            scanner.skip().map(drop)
        });
        read.is_ok() && has_args && self.job_type.is_some()
    }

    /// Whether any region may make a job of it, where a job must not slip by: also without arguments, or with a name of them that only some
    /// servers read. A workflow or a cron definition without arguments, which holds others, is none, nor is a policy of `retry` or `backoff`.
    #[must_use]
    pub fn may_be_job(&self) -> bool {
        let (mut has_args, mut holds) = (false, false);
        let read = Scanner::again(self.text, self.span.0, &[]).object(|scanner, key| {
            let name = key.decode();
            has_args |= likeness(&name, "args") != Likeness::Different;
            holds |= ["steps", "jobs", "job_template"].contains(&&*name);
            scanner.skip().map(drop)
        });
        let is_policy = || self.stands_under("retry") || self.stands_under("backoff");
        read.is_err() || has_args || self.stands_under("job_template") || !(holds || is_policy())
    }

    /// Whether it is the value of a member with this name, spelled letter for letter.
    fn stands_under(&self, name: &str) -> bool {
        let before = self.text.get(..self.span.0).and_then(|text| text.trim_ascii_end().strip_suffix(':'));
        let key = before.and_then(|text| text.trim_ascii_end().strip_suffix('"'));
        key.and_then(|text| text.strip_suffix(name)).is_some_and(|text| text.ends_with('"'))
    }

    /// The client's own id, when it is a string.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match &self.id {
            Id::Text(id) => Some(id),
            Id::Absent | Id::Null(_) | Id::Other => None,
        }
    }

    /// Whether the job has no `id`, so that one may be minted. False for an id that is no string: the region judges that.
    #[must_use]
    pub const fn lacks_id(&self) -> bool {
        matches!(self.id, Id::Absent | Id::Null(_))
    }

    /// Notes the tenant that the head of the job's call names.
    pub const fn set_caller_tenant(&mut self, tenant: Option<&'b str>) {
        self.caller_tenant = tenant;
    }

    /// The tenant that the head of the job's call names.
    #[must_use]
    pub const fn caller_tenant(&self) -> Option<&'b str> {
        self.caller_tenant
    }

    /// Which members servers could read in another way.
    #[must_use]
    pub const fn unclear(&self) -> Unclear {
        self.unclear
    }

    /// A string member of `options.metadata`, else of `meta`: an empty `options.metadata`, which makes some servers
    /// forget `meta`, must not hide the job's meta from a residency rule.
    #[must_use]
    pub fn meta_text(&self, key: &str) -> MetaText<'b> {
        let (inner, outer) = (self.text_in(&self.metadata, key), self.text_in(&self.meta, key));
        let differ = inner.text.is_some() && outer.text.is_some() && inner.text != outer.text;
        MetaText { unclear: inner.unclear || outer.unclear || differ, text: inner.text.or(outer.text) }
    }

    /// A string member of one of the two.
    pub(super) fn text_in(&self, place: &Place, key: &str) -> MetaText<'b> {
        let Slot::Object { open, .. } = place.slot else { return MetaText::default() };
        let (mut found, mut seen, mut unclear) = (None, false, false);
        let mut scanner = Scanner::again(self.text, open, &[]);
        let read = scanner.object(|scanner, name| {
            if name.decode() != key {
                return scanner.skip().map(drop);
            }
            unclear |= seen;
            seen = true;
            // The last one counts, as in the servers' own maps.
            found = None;
            match scanner.next() {
                Some(b'"') => found = Some(scanner.string()?),
                first => {
                    unclear |= first != Some(b'n');
                    scanner.skip()?;
                }
            }
            Ok(())
        });
        if read.is_err() {
            return MetaText::default();
        }
        MetaText { text: found.map(Text::decode), unclear }
    }

    /// The job's federation attributes.
    #[must_use]
    pub const fn attributes(&self) -> &Attributes<'b> {
        &self.attributes
    }

    /// Whether a `unique` policy fingerprints meta in such a way that a stamp would make every job unique.
    #[must_use]
    pub const fn fingerprints_meta(&self) -> bool {
        self.fingerprints_meta
    }

    /// Whether the job has a `unique` policy, so that a region may answer with another job that was there before.
    #[must_use]
    pub const fn is_unique(&self) -> bool {
        self.unique
    }

    /// Whether the job carries any `ojs.federation.*` key.
    #[must_use]
    pub const fn is_federated(&self) -> bool {
        self.meta.federated || self.metadata.federated
    }

    /// How many keys under `ojs.federation.` are undefined; `null` counts as absent.
    #[must_use]
    pub const fn unknown_keys(&self) -> u16 {
        self.meta.unknown.saturating_add(self.metadata.unknown)
    }

    /// The names of those, at most `most` of each of the two places, as the client wrote them.
    #[must_use]
    pub fn unknown_key_names(&self, most: usize) -> Vec<Cow<'b, str>> {
        let open = |place: &Place| match place.slot {
            Slot::Object { open, .. } if place.unknown > 0 => Some(open),
            _ => None,
        };
        let places = [&self.meta, &self.metadata].into_iter().filter_map(open);
        places.flat_map(|open| unknown_keys(self.text, open, most)).collect()
    }

    /// Where the job stands in the body that it was read from.
    #[must_use]
    pub const fn span(&self) -> Range<usize> {
        self.span.0..self.span.1
    }
}

/// A queue that is named at all.
fn named(queue: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    queue.filter(|queue| !queue.is_empty())
}

#[cfg(test)]
mod tests;
