//! Additions to a job, by splicing: every byte that the client sent stays as it is and where it is.
//!
//! Keys go where the region will look for them: into `options.metadata` where that key exists, because real servers let it
//! replace `meta` wholesale, else into `meta`. A pin that stands only in `meta` would be lost there, so it is copied along.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::attributes::{Mark, Name, Place, Slot};
use super::envelope::{Envelope, Id};

/// What is to be added where the job lacks it.
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
}

/// A body in pieces: slices of the client's bytes without a copy, with the additions between them.
pub type Segments = SmallVec<[Bytes; 7]>;

/// The length of a body in pieces, in bytes.
#[must_use]
pub fn segments_len(segments: &Segments) -> usize {
    segments.iter().map(Bytes::len).sum()
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

/// Adds what the job lacks. `body` is what the envelope was read from.
///
/// What the job has already is left alone, `null` counts as absent. A job whose `unique` policy fingerprints meta gets no
/// meta keys, only an `id`.
#[must_use]
pub fn stamp(envelope: &Envelope<'_>, body: &Bytes, additions: &Additions<'_>) -> Segments {
    debug_assert_eq!(envelope.text.len(), body.len(), "an envelope is stamped into its own body");
    splices(envelope, additions).apply(body)
}

/// What a stamp changes in the body that the envelope was read from: for a job that is one of several in it.
#[must_use]
pub fn splices(envelope: &Envelope<'_>, additions: &Additions<'_>) -> Splices {
    let mut plan = Splices::default();
    let mut root = String::new();
    match (additions.id, &envelope.id) {
        (Some(id), Id::Absent) => push_member(&mut root, "id", Value::Text(id)),
        (Some(id), Id::Null(at)) => plan.replace_null(*at, Value::Text(id).to_json()),
        _ => {}
    }
    add_keys(envelope, &meta_keys(envelope, additions), &mut plan, &mut root);
    plan.fill(envelope.root, root);
    plan
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
    // Whoever stamps at all keeps the pin with the job, even where there is nothing else to add.
    if additions.federation_id.is_some() || !keys.is_empty() {
        for name in [Name::Region, Name::RegionAffinity] {
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

fn add_keys(envelope: &Envelope<'_>, keys: &Keys<'_>, plan: &mut Splices, root: &mut String) {
    let target = target(envelope);
    let mut members = String::new();
    for (name, value) in keys {
        match target.mark(*name) {
            Mark::Null(at) => plan.replace_null(at, value.to_json()),
            Mark::Absent | Mark::Given(..) => push_member(&mut members, name.as_str(), *value),
        }
    }
    if matches!(target.slot, Slot::Absent) && !members.is_empty() {
        push_member(root, "meta", Value::Json(&format!("{{{members}}}")));
    } else {
        plan.fill(target.slot, members);
    }
}

/// Appends a member to members of one object.
fn push_member(members: &mut String, name: &str, value: Value<'_>) {
    // Enough for the usual additions, so that one allocation does.
    members.reserve(128);
    if !members.is_empty() {
        members.push(',');
    }
    members.push('"');
    members.push_str(name);
    members.push_str("\":");
    value.push_to(members);
}

/// What is put in place of which bytes; few entries, in any order until they are applied.
#[derive(Clone, Default)]
pub struct Splices(SmallVec<[(usize, usize, String); 3]>);

impl std::fmt::Debug for Splices {
    // A job's pin may be among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Splices").field(&self.0.len()).finish()
    }
}

impl Splices {
    fn replace_null(&mut self, at: usize, value: String) {
        self.0.push((at, at + "null".len(), value));
    }

    /// Puts members in front of the others of an object, or in place of a `null`.
    fn fill(&mut self, slot: Slot, mut members: String) {
        if members.is_empty() {
            return;
        }
        match slot {
            Slot::Absent => {}
            Slot::Null(at) => self.replace_null(at, format!("{{{members}}}")),
            Slot::Object { open, empty } => {
                if !empty {
                    members.push(',');
                }
                self.0.push((open + 1, open + 1, members));
            }
        }
    }

    fn apply(mut self, body: &Bytes) -> Segments {
        let mut segments = Segments::new();
        self.0.sort_unstable_by_key(|splice| splice.0);
        let mut from = 0;
        for (start, end, text) in self.0 {
            if start > from {
                segments.push(body.slice(from..start));
            }
            segments.push(Bytes::from(text));
            from = end;
        }
        if from < body.len() {
            segments.push(body.slice(from..));
        }
        segments
    }

    /// Appends a stretch of the body to `to`, with what is spliced into it. `span` is where the job stands that these belong to.
    pub(super) fn write(&mut self, body: &[u8], span: Range<usize>, to: &mut Vec<u8>) {
        self.0.sort_unstable_by_key(|splice| splice.0);
        let mut from = span.start;
        for (start, end, text) in &self.0 {
            to.extend_from_slice(body.get(from..*start).unwrap_or_default());
            to.extend_from_slice(text.as_bytes());
            from = *end;
        }
        to.extend_from_slice(body.get(from..span.end).unwrap_or_default());
    }

    /// Whether nothing is spliced in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By how many bytes they lengthen the body at most.
    pub(super) fn growth(&self) -> usize {
        self.0.iter().map(|(_, _, text)| text.len()).sum()
    }
}

impl Value<'_> {
    fn to_json(self) -> String {
        let mut json = String::new();
        self.push_to(&mut json);
        json
    }

    fn push_to(self, json: &mut String) {
        let text = match self {
            Self::Json(written) => return json.push_str(written),
            Self::Text(text) => text,
        };
        json.push('"');
        if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
            escape_to(json, text);
        } else {
            json.push_str(text);
        }
        json.push('"');
    }
}

fn escape_to(json: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            '\0'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => json.push(letter),
        }
    }
}

#[cfg(test)]
mod tests;
