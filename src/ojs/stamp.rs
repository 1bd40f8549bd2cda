//! Additions to a job, by splicing: every byte that the client sent stays as it is and where it is.
//!
//! Keys go where the region will look for them: into `options.metadata` where that key exists, because real servers let it
//! replace `meta` wholesale, else into `meta`. A pin that stands only in `meta` would be lost there, so it is copied along.

mod cuts;
mod due;
mod shard;
mod text;

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::abridged::Abridged;
use super::attributes::{Mark, Name, Place, Slot};
use super::due::Due;
use super::envelope::{Envelope, Id};
use super::scan::plain_run;
use super::segments::Segments;
use super::shards::Spots;
pub use cuts::Cuts;
use text::Text;

/// A body up to this size is copied once, into the one that is sent, which costs less than sending it in pieces. Beyond
/// that the client's bytes are sent from their buffer, so that no call holds more than this besides its body. Units:
/// bytes.
pub const COPIED_BYTES_MAX: usize = 4096;

/// The additions, where the job lacks them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Additions<'a> {
    /// The job's `id`.
    pub id: Option<&'a str>,
    /// `ojs.federation.federation_id`.
    pub federation_id: Option<&'a str>,
    /// `ojs.federation.source_region`.
    pub source_region: Option<&'a str>,
    /// `ojs.federation.routed_at`, RFC 3339.
    pub routed_at: Option<&'a str>,
    /// The suffix of the shard that the job goes into, and where the job names its queue.
    pub shard: Option<(&'a str, &'a Spots)>,
    /// The time at which the job is to run, RFC 3339, in place of its own.
    pub due: Option<(&'a str, &'a Due)>,
}

/// A stamped job.
#[derive(Debug, Clone)]
pub struct StampedBody {
    /// The body to send.
    pub body: Segments,
    /// The places of the stamp in a body that was copied for it; `None` for a body that is, or shares, the client's
    /// bytes.
    pub cuts: Option<Cuts>,
}

/// Puts another id in place of one that was minted for this body and stands in one of the pieces of ours.
pub fn replace_minted(segments: &mut [Bytes], minted: &str, other: &str) {
    // A client cannot have written an id that was drawn at random after its body was read.
    for segment in segments.iter_mut() {
        if let Some(at) = memchr::memmem::find(segment, minted.as_bytes()) {
            let mut text = segment.to_vec();
            if let Some(place) = text.get_mut(at..at + minted.len()).filter(|_| minted.len() == other.len()) {
                place.copy_from_slice(other.as_bytes());
            }
            *segment = Bytes::from(text);
            return;
        }
    }
}

/// Adds the members that the job lacks. `body` is the body that the envelope was read from.
///
/// Members that the job has are left alone, `null` counts as absent. A job whose `unique` policy fingerprints meta gets
/// no meta keys, only an `id`.
#[must_use]
pub fn stamp(envelope: &Envelope<'_>, body: Abridged<'_>, additions: &Additions<'_>) -> StampedBody {
    debug_assert_eq!(envelope.text.len(), body.text().len(), "an envelope is stamped into its own body");
    splices(envelope, additions).apply(body)
}

/// The edits of a stamp in the body that the envelope was read from: for a job that is one of several in it.
#[must_use]
pub fn splices(envelope: &Envelope<'_>, additions: &Additions<'_>) -> Splices {
    let mut plan = Splices::default();
    let keys = meta_keys(envelope, additions);
    let target = target(envelope);
    if additions.shard.is_some() || additions.due.is_some() {
        scheduled(&mut plan, envelope, additions);
    }
    let id = additions.id.filter(|_| matches!(envelope.id, Id::Absent));
    // The text in place of a `null` first, because the members of one object are written in one go.
    if let (Some(id), Id::Null(at)) = (additions.id, &envelope.id) {
        plan.replace_null(*at, |plan| plan.value(Value::Text(id)));
    }
    for (name, value) in &keys {
        if let Mark::Null(at) = target.mark(*name) {
            plan.replace_null(at, |plan| plan.value(*value));
        }
    }
    let members = |plan: &mut Splices| {
        let mut is_first = true;
        for (name, value) in keys.iter().filter(|(name, _)| !matches!(target.mark(*name), Mark::Null(_))) {
            plan.member(&mut is_first, name.as_str(), *value);
        }
    };
    let lacks_members = keys.iter().any(|(name, _)| !matches!(target.mark(*name), Mark::Null(_)));
    let is_new = lacks_members && matches!(target.slot, Slot::Absent);
    if id.is_some() || is_new {
        plan.fill(envelope.root, |plan| {
            let mut is_first = true;
            if let Some(id) = id {
                plan.member(&mut is_first, "id", Value::Text(id));
            }
            if is_new {
                plan.text(if is_first { r#""meta":{"# } else { r#","meta":{"# });
                members(plan);
                plan.text("}");
            }
        });
    }
    if lacks_members && !is_new {
        plan.fill(target.slot, members);
    }
    plan
}

/// The shard of a job's queue, and its time.
#[cold]
fn scheduled(plan: &mut Splices, envelope: &Envelope<'_>, additions: &Additions<'_>) {
    let (mut options, mut name) = ((None, None), String::new());
    if let Some((suffix, spots)) = additions.shard {
        options = (spots.options, spots.null_options);
        if plan.shard(envelope, suffix, spots) {
            name = format!("{}{suffix}", envelope.queue());
        }
    }
    let mut members: SmallVec<[(&str, &str); 2]> = SmallVec::new();
    if !name.is_empty() {
        members.push(("queue", &name));
    }
    if let Some((at, due)) = additions.due {
        options = (due.options, due.null_options.or(options.1));
        if plan.due(envelope, at, due) {
            members.push(("scheduled_at", at));
        }
    }
    if !members.is_empty() {
        plan.options(envelope, options, &members);
    }
}

/// The value of an addition.
#[derive(Clone, Copy)]
enum Value<'a> {
    /// Plain text of ours.
    Text(&'a str),
    /// JSON as the client wrote it.
    Json(&'a str),
}

type Keys<'a> = SmallVec<[(Name, Value<'a>); 5]>;

/// The meta keys to write.
fn meta_keys<'a>(envelope: &Envelope<'a>, additions: &Additions<'a>) -> Keys<'a> {
    let mut keys = Keys::new();
    if envelope.fingerprints_meta() {
        return keys;
    }
    let moved = !matches!(envelope.metadata.slot, Slot::Absent);
    let target = target(envelope);
    let lacks = |name| !matches!(target.mark(name), Mark::Given(..));
    // A value that only the replaced `meta` holds.
    let left_behind = |name| match envelope.meta.mark(name) {
        Mark::Given(start, end) if moved => envelope.text.get(start..end).map(Value::Json),
        _ => None,
    };
    for (name, value) in [
        (Name::FederationId, additions.federation_id),
        (Name::SourceRegion, additions.source_region),
        (Name::RoutedAt, additions.routed_at),
    ] {
        if let Some(value) = value
            && lacks(name)
        {
            keys.push((name, left_behind(name).unwrap_or(Value::Text(value))));
        }
    }
    // With stamping on, the pin stays with the job, even where there is nothing else to add.
    if additions.federation_id.is_some() || !keys.is_empty() {
        for name in [Name::Region, Name::RegionAffinity, Name::RegionsWith] {
            if lacks(name)
                && let Some(value) = left_behind(name)
            {
                keys.push((name, value));
            }
        }
    }
    keys
}

fn target<'e>(envelope: &'e Envelope<'_>) -> &'e Place {
    if matches!(envelope.metadata.slot, Slot::Absent) { &envelope.meta } else { &envelope.metadata }
}

/// Texts and the bytes that they replace; few entries, in any order until they are applied.
#[derive(Clone, Default)]
pub struct Splices {
    places: SmallVec<[Splice; 2]>,
    /// The texts, one behind the other.
    text: Text,
}

/// Start and end of the replaced bytes, and of the text that replaces them.
#[derive(Clone)]
struct Splice {
    at: Range<usize>,
    text: Range<usize>,
}

impl std::fmt::Debug for Splices {
    // A job's pin may be among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Splices").field(&self.places.len()).finish()
    }
}

impl Splices {
    /// Replaces a stretch by the output of `write`.
    fn splice(&mut self, at: Range<usize>, write: impl FnOnce(&mut Self)) {
        let from = self.text.len();
        write(self);
        self.places.push(Splice { at, text: from..self.text.len() });
    }

    fn replace_null(&mut self, at: usize, value: impl FnOnce(&mut Self)) {
        self.splice(at..at + "null".len(), value);
    }

    /// Puts members in front of the others of an object, or in place of a `null`.
    fn fill(&mut self, slot: Slot, members: impl FnOnce(&mut Self)) {
        match slot {
            Slot::Absent => {}
            Slot::Null(at) => self.replace_null(at, |plan| {
                plan.text("{");
                members(plan);
                plan.text("}");
            }),
            Slot::Object { open, empty } => self.splice(open + 1..open + 1, |plan| {
                members(plan);
                plan.text(if empty { "" } else { "," });
            }),
        }
    }

    /// Writes a member behind the others.
    fn member(&mut self, is_first: &mut bool, name: &str, value: Value<'_>) {
        self.text(if std::mem::take(is_first) { "\"" } else { ",\"" });
        self.text(name);
        self.text("\":");
        self.value(value);
    }

    fn value(&mut self, value: Value<'_>) {
        let text = match value {
            Value::Json(written) => return self.text(written),
            Value::Text(text) => text,
        };
        self.text("\"");
        if plain_run(text.as_bytes()) == text.len() {
            self.text(text)
        } else {
            self.escaped(text)
        }
        self.text("\"");
    }

    fn escaped(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '"' | '\\' => {
                    self.text("\\");
                    self.text(letter.encode_utf8(&mut [0; 4]));
                }
                '\0'..='\u{1f}' => self.text(&format!("\\u{:04x}", u32::from(letter))),
                _ => self.text(letter.encode_utf8(&mut [0; 4])),
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.text.push(text);
    }

    fn apply(mut self, body: Abridged<'_>) -> StampedBody {
        let text = body.text();
        if text.len() > COPIED_BYTES_MAX || !body.gaps().is_empty() {
            return StampedBody { body: self.pieces(body), cuts: None };
        }
        if self.is_empty() {
            return StampedBody { body: Segments::from_iter([text.clone()]), cuts: None };
        }
        let replaced: usize = self.places.iter().map(|splice| splice.at.len()).sum();
        // Exactly as long as it will be, so that it need not be moved.
        let mut whole = Vec::with_capacity(text.len() + self.text.len() - replaced);
        self.write(text, 0..text.len(), &mut whole);
        StampedBody { body: Segments::from_iter([Bytes::from(whole)]), cuts: Some(self.cuts()) }
    }

    /// The places of the additions in the output of [`Splices::write`] for a whole body.
    fn cuts(&self) -> Cuts {
        let mut cuts = Cuts::default();
        // A byte of the client's has moved by the bytes added before it, less those replaced.
        let (mut added, mut replaced) = (0, 0);
        for Splice { at, text } in &self.places {
            let from = at.start + added - replaced;
            cuts.push(from, from + text.len(), !at.is_empty());
            added += text.len();
            replaced += at.len();
        }
        cuts
    }

    fn pieces(mut self, body: Abridged<'_>) -> Segments {
        self.sort();
        let text = Bytes::copy_from_slice(self.text.as_bytes());
        let mut segments = Segments::new();
        let mut from = 0;
        for splice in self.places {
            body.add_to(&mut segments, from..splice.at.start);
            segments.push(text.slice(splice.text));
            from = splice.at.end;
        }
        body.add_to(&mut segments, from..body.text().len());
        segments
    }

    /// Appends a stretch of the body to `to`, with the additions spliced in. `span` is the place of the job that these
    /// belong to.
    pub(super) fn write(&mut self, body: &[u8], span: Range<usize>, to: &mut Vec<u8>) {
        self.sort();
        let mut from = span.start;
        for Splice { at, text } in &self.places {
            to.extend_from_slice(&body[from..at.start]);
            to.extend_from_slice(self.text.as_bytes().get(text.clone()).unwrap_or_default());
            from = at.end;
        }
        to.extend_from_slice(&body[from..span.end]);
    }

    /// The body with the stamps of several jobs in it, which may stand inside each other. None where nothing is spliced in.
    #[must_use]
    pub fn apply_all(stamps: &[Self], body: &[u8]) -> Option<Vec<u8>> {
        let each = |stamp: &'_ Self| stamp.places.len();
        let mut places: Vec<(&Range<usize>, &[u8])> = Vec::with_capacity(stamps.iter().map(each).sum());
        for stamp in stamps {
            let text = |splice: &Splice| stamp.text.as_bytes().get(splice.text.clone()).unwrap_or_default();
            places.extend(stamp.places.iter().map(|splice| (&splice.at, text(splice))));
        }
        if places.is_empty() {
            return None;
        }
        places.sort_unstable_by_key(|(at, _)| at.start);
        let mut whole = Vec::with_capacity(body.len() + stamps.iter().map(Self::growth).sum::<usize>());
        let mut from = 0;
        for (at, text) in places {
            whole.extend_from_slice(&body[from..at.start]);
            whole.extend_from_slice(text);
            from = at.end;
        }
        whole.extend_from_slice(&body[from..]);
        Some(whole)
    }

    fn sort(&mut self) {
        self.places.sort_unstable_by_key(|splice| splice.at.start);
    }

    /// Whether nothing is spliced in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// By how many bytes they lengthen the body at most.
    pub(super) fn growth(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests;
