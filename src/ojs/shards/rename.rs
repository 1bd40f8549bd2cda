//! Shards' names in the documents of regions, put back to the queue's own.
//!
//! A name of a shard is its queue's with a suffix, so that the way back is to leave out a few bytes. It is one where it stands alone in a text: no
//! letter of a queue's name before or behind it. Values of clients, such as arguments, are passed over.

use bytes::Bytes;

use super::all::Shards;
use super::bounds::{BAND_BYTES, MARK, QUEUE_BYTES_MAX, SUFFIX_BYTES_MAX};
use super::place::Place;

/// Texts up to this length are looked through; a longer one names no queue. Units: bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// Members whose values are the client's or a worker's.
const OPAQUE: [&[u8]; 6] = [b"args", b"meta", b"metadata", b"result", b"checkpoint", b"schema"];
/// Deeper members are judged like those at this depth.
const DEPTH_MAX: usize = 64;
/// Where a job stands in the answer to a FETCH: in an array of the document.
const JOB_DEPTH: usize = 3;

impl Shards {
    /// A document of a region with the queues' own names; none where it names no shard.
    #[must_use]
    pub fn renamed(&self, document: &Bytes) -> Option<Bytes> {
        self.renamed_with(document, |_, _| {})
    }

    /// As [`Self::renamed`]; `note` hears the shard of each job of an answer to a FETCH.
    pub fn renamed_with(&self, document: &Bytes, mut note: impl FnMut(usize, Place)) -> Option<Bytes> {
        memchr::memmem::find(document, MARK.as_bytes())?;
        let mut renamer = Renamer::default();
        let mut own = Vec::with_capacity(document.len());
        renamer.push(self, document, &mut own, &mut note);
        renamer.end(self, &mut own, &mut note);
        (own.len() != document.len()).then(|| own.into())
    }
}

/// The state of a document, or of an event stream, on its way through. It holds back at most one text of `TEXT_BYTES_MAX`.
#[derive(Debug, Default)]
pub struct Renamer {
    /// How many objects and arrays are open.
    depth: usize,
    /// One bit for each open one that is an object.
    objects: u64,
    /// The text that is being read, with its first quote; empty outside of one.
    text: Vec<u8>,
    within: bool,
    /// Whether the text is too long to be held back, and passes as it comes.
    passes: bool,
    escaped: bool,
    /// Whether the next text is the name of a member.
    names: bool,
    /// Whether the last name of a member is one whose value is passed over.
    is_opaque: bool,
    is_queue: bool,
    /// From which depth on everything is the client's.
    opaque_from: Option<usize>,
}

impl Renamer {
    /// Takes in the next bytes, and gives out all that is certain. `note` hears the queue, by its place in the list, and the shard of each job.
    pub fn push(&mut self, shards: &Shards, bytes: &[u8], out: &mut Vec<u8>, note: &mut impl FnMut(usize, Place)) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = if self.within { self.in_text(shards, rest, out, note) } else { self.outside(rest, out) };
        }
    }

    /// The document is at its end.
    pub fn end(&mut self, shards: &Shards, out: &mut Vec<u8>, note: &mut impl FnMut(usize, Place)) {
        self.close(shards, out, note);
    }

    fn in_text<'b>(
        &mut self,
        shards: &Shards,
        bytes: &'b [u8],
        out: &mut Vec<u8>,
        note: &mut impl FnMut(usize, Place),
    ) -> &'b [u8] {
        if std::mem::take(&mut self.escaped) {
            self.keep(&bytes[..1], out);
            return &bytes[1..];
        }
        let Some(at) = memchr::memchr3(b'"', b'\\', b'\n', bytes) else {
            self.keep(bytes, out);
            return &[];
        };
        let (text, rest) = bytes.split_at(at + 1);
        self.keep(text, out);
        match bytes[at] {
            b'\\' => self.escaped = true,
            b'"' => {
                self.close(shards, out, note);
                if self.opaque_from == Some(self.depth) && !self.names {
                    self.opaque_from = None;
                }
            }
            // No JSON has one in a text: a line of an event stream that was no document.
            _ => {
                self.close(shards, out, note);
                *self = Self::default();
            }
        }
        rest
    }

    /// Holds a piece of the text back, as long as it may name a queue.
    fn keep(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if !self.passes && (self.is_passed_over() || self.text.len() + piece.len() > TEXT_BYTES_MAX) {
            self.passes = true;
            out.append(&mut self.text);
        }
        if self.passes { out.extend_from_slice(piece) } else { self.text.extend_from_slice(piece) }
    }

    const fn is_passed_over(&self) -> bool {
        self.opaque_from.is_some()
    }

    /// The text is at its end.
    fn close(&mut self, shards: &Shards, out: &mut Vec<u8>, note: &mut impl FnMut(usize, Place)) {
        self.within = false;
        self.passes = false;
        let text = std::mem::take(&mut self.text);
        if self.names && !self.is_passed_over() {
            let name = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
            (self.is_opaque, self.is_queue) = (OPAQUE.contains(&name), name == b"queue");
        }
        let is_of_job = self.is_queue && !self.names && self.depth == JOB_DEPTH;
        renamed(shards, &text, out, |queue, place| {
            if is_of_job {
                note(queue, place);
            }
        });
        self.text = text;
        self.text.clear();
    }

    fn outside<'b>(&mut self, bytes: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    out.extend_from_slice(&bytes[..at]);
                    self.within = true;
                    self.text.push(b'"');
                    return &bytes[at + 1..];
                }
                b'{' | b'[' => self.open(byte == b'{'),
                b'}' | b']' => self.shut(),
                b':' if self.is_object() => self.value(),
                b',' => self.next_member(),
                _ => {}
            }
            at += 1;
        }
        out.extend_from_slice(bytes);
        &[]
    }

    const fn is_object(&self) -> bool {
        self.depth > 0 && self.objects & 1 != 0
    }

    /// The value of a member begins.
    fn value(&mut self) {
        if std::mem::take(&mut self.names) && std::mem::take(&mut self.is_opaque) && self.opaque_from.is_none() {
            self.opaque_from = Some(self.depth);
        }
    }

    fn next_member(&mut self) {
        if self.opaque_from == Some(self.depth) {
            self.opaque_from = None;
        }
        self.names = self.is_object();
        self.is_queue &= !self.names;
    }

    fn open(&mut self, is_object: bool) {
        self.depth += 1;
        self.objects = (self.objects << 1) | u64::from(is_object);
        self.names = is_object;
        self.is_queue = false;
    }

    fn shut(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        self.names = false;
        if self.opaque_from.is_some_and(|from| from >= self.depth) {
            self.opaque_from = None;
        }
        if self.depth >= DEPTH_MAX {
            self.objects |= 1 << (DEPTH_MAX - 1);
        }
    }
}

/// Appends a text without the suffixes of the shards that it names.
fn renamed(shards: &Shards, text: &[u8], out: &mut Vec<u8>, mut note: impl FnMut(usize, Place)) {
    let mut from = 0;
    if text.len() > SUFFIX_BYTES_MAX - BAND_BYTES {
        let marks = memchr::memchr_iter(MARK.as_bytes()[0], text).filter(|at| text[*at..].starts_with(MARK.as_bytes()));
        for at in marks {
            let Some((queue, place, length)) = shard_at(shards, text, at) else { continue };
            note(queue, place);
            out.extend_from_slice(&text[from..at]);
            from = at + length;
        }
    }
    out.extend_from_slice(&text[from..]);
}

/// The shard whose suffix stands there, and the length of the suffix.
fn shard_at(shards: &Shards, text: &[u8], at: usize) -> Option<(usize, Place, usize)> {
    let before = &text[at.saturating_sub(QUEUE_BYTES_MAX + 1)..at];
    let own = before.iter().rposition(|byte| !is_of_name(*byte)).map_or(before, |end| &before[end + 1..]);
    let suffix = text.get(at..text.len().min(at + SUFFIX_BYTES_MAX)).and_then(|bytes| std::str::from_utf8(bytes).ok());
    // A letter of several bytes may be cut at the end.
    let suffix = suffix.or_else(|| std::str::from_utf8(text.get(at..at + MARK.len() + 3)?).ok())?;
    let (place, rest) = Place::read(suffix)?;
    let length = suffix.len() - rest.len();
    let is_whole = text.get(at + length).is_none_or(|byte| !is_of_name(*byte));
    let queue = shards.position(own).filter(|_| is_whole)?;
    Some((queue, place, length))
}

const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
}
