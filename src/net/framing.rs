//! Where a client's messages begin and end, judged before anything else reads them.
//!
//! A pure push machine: bytes go in as the network cuts them, and come out as settled or as refused. It accepts less
//! than any HTTP library does, on purpose: a message that two readers could delimit differently is not passed on to the
//! second one. Every head that it accepts is one that hyper accepts and ends at the same byte, which a property test
//! holds.

mod answer;
mod head;
mod partial;
#[cfg(test)]
pub(super) mod tests;
mod violation;

pub(super) use answer::{judge_answer, whole_answer};
pub use violation::Violation;

use head::{Delimiter, Head, is_token};
use partial::Partial;

/// Bounds on one request head.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes, from the first of the request line to the end of the empty line.
    pub bytes: usize,
    /// Header lines.
    pub headers: usize,
}

/// Bytes that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breach {
    /// So many bytes of the slice are settled; with a head, the refused one starts there (or in an earlier slice, if 0).
    pub settled: usize,
    /// Why the rest is refused.
    pub violation: Violation,
}

/// A slice that is one message with a body, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alone {
    /// The length of its head. Units: bytes.
    pub(super) head: usize,
    /// The offset behind the line with the body's length, its line end included.
    pub(super) length_ends: usize,
    /// Its number among the messages of the connection, from 1 on; 0 for an answer.
    pub(super) number: u64,
}

/// Where the stream stands after the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Between two messages.
    Between,
    /// In a head.
    Head,
    /// In a body.
    Body,
    /// Behind an upgrade, where nothing is judged.
    Tunnel,
}

/// The machine for one connection. After a [`Breach`] nothing more may be fed.
#[derive(Debug)]
pub struct Framing {
    limits: HeadLimits,
    state: State,
    head: Head,
    /// The start of a line of a head, or of a trailer, that an earlier slice ended in.
    line: Vec<u8>,
    /// How far it has come, in a head.
    partial: Partial,
    /// Heads that have ended.
    heads: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between(Blank),
    Head,
    Length(u64),
    ChunkSize { size: u64, digits: u8 },
    ChunkSizeLf(u64),
    ChunkData(u64),
    ChunkCr,
    ChunkLf,
    LastCr,
    LastLf,
    Trailer,
    Tunnel,
}

/// The one empty line that a client may send before a request. Spec: RFC 9112 §2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blank {
    None,
    Cr,
    Done,
}

/// The largest number of hexadecimal digits in a chunk size: they fit 64 bits.
const CHUNK_DIGITS_MAX: u8 = 16;
/// The trailers of a request: enough for checksums and signatures, and less than the HTTP library reads.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

impl Framing {
    /// Starts at the first byte of a connection.
    #[must_use]
    pub fn new(limits: HeadLimits) -> Self {
        Self {
            limits,
            state: State::Between(Blank::None),
            head: Head::default(),
            line: Vec::new(),
            partial: Partial::start(false),
            heads: 0,
        }
    }

    /// Judges the next bytes and answers how many of the slice are settled: they, and all before them, are read one way only.
    ///
    /// Shape: less than the whole slice only when it ends in an incomplete head, which starts at the returned offset (or in
    /// an earlier slice, when that is 0). The answer does not depend on how the bytes are cut into slices.
    ///
    /// Errors: [`Breach`] at the first byte that makes the stream refusable.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Breach> {
        let mut settled = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = match self.state {
                State::Head => self.head(rest),
                State::Between(blank) => self.between(blank, rest),
                State::Length(left) => Ok(self.pass(left, rest.len(), State::Length)),
                State::ChunkData(left) => Ok(self.pass(left, rest.len(), State::ChunkData)),
                State::Tunnel => Ok(rest.len()),
                State::Trailer => self.trailer(rest),
                _ => self.chunk_line(rest),
            };
            let taken = step.map_err(|violation| Breach { settled, violation })?;
            rest = &rest[taken..];
            if self.state != State::Head {
                settled = bytes.len() - rest.len();
            }
        }
        Ok(settled)
    }

    /// Where the stream stands.
    #[must_use]
    pub const fn place(&self) -> Place {
        match self.state {
            State::Between(_) => Place::Between,
            State::Head => Place::Head,
            State::Tunnel => Place::Tunnel,
            _ => Place::Body,
        }
    }

    /// Whether it stands as at the first byte of a connection.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.state == State::Between(Blank::None)
    }

    /// The complete message, where the last slice of so many bytes was exactly one: bytes before or behind it would
    /// count.
    pub(super) fn alone(&self, bytes: usize) -> Option<Alone> {
        let Head { bytes: head, length_ends, .. } = self.head;
        let body = bytes.checked_sub(head).filter(|body| *body > 0)?;
        (self.is_untouched() && self.head.length() == Some(body as u64)).then_some(Alone {
            head,
            length_ends,
            number: self.heads,
        })
    }

    /// The message was answered with an upgrade: the bytes behind it are not HTTP.
    pub fn tunnel(&mut self) {
        self.state = State::Tunnel;
        self.line = Vec::new();
    }

    fn between(&mut self, blank: Blank, rest: &[u8]) -> Result<usize, Violation> {
        self.state = match (blank, rest.first()) {
            (Blank::Cr, Some(b'\n')) => State::Between(Blank::Done),
            (Blank::None, Some(b'\r')) => State::Between(Blank::Cr),
            (Blank::Cr, _) | (_, Some(b'\r' | b'\n')) => {
                // The message before is not to be taken for this one.
                self.head = Head::default();
                return Err(Violation::LineEnd);
            }
            // Seen at the first byte, so that TLS on this port is refused at once and not at the head's timeout.
            (_, Some(&byte)) if !is_token(byte) => {
                self.head = Head::default();
                return Err(Violation::RequestLine);
            }
            _ => {
                self.head = Head::default();
                self.partial = Partial::start(false);
                self.state = State::Head;
                return Ok(0);
            }
        };
        Ok(1)
    }

    /// Takes one line of a head, or a part of one.
    fn head(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        if self.line.is_empty()
            && let Some(taken) = self.head.plain_line(rest, self.limits.bytes, self.limits.headers)?
        {
            return Ok(taken);
        }
        let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
        let taken = end.unwrap_or(rest.len());
        let part = rest.get(..taken).unwrap_or(rest);
        let room = self.limits.bytes.saturating_sub(self.head.bytes);
        self.head.bytes += taken;
        let judged = if taken > room {
            Err(if self.head.begun { Violation::HeadTooLong } else { Violation::TargetTooLong })
        } else if end.is_none() {
            self.partial.take(part)?;
            self.line.extend_from_slice(part);
            return Ok(taken);
        } else if self.line.is_empty() {
            self.head_line(part)
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(part);
            let judged = self.head_line(&line);
            line.clear();
            self.line = line;
            judged
        };
        if let Err(violation) = judged {
            // The first impossible byte decides, however the line was cut.
            self.partial.take(part.get(..room).unwrap_or(part))?;
            return Err(violation);
        }
        self.partial = Partial::start(true);
        Ok(taken)
    }

    /// Takes one byte of the trailers, which go no further.
    fn trailer(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        let Some(byte) = rest.first() else { return Ok(0) };
        self.head.trailer_bytes += 1;
        if self.head.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Violation::Trailer);
        }
        self.partial.take(std::slice::from_ref(byte))?;
        self.line.push(*byte);
        if *byte == b'\n' {
            let line = std::mem::take(&mut self.line);
            self.head.trailer(line.strip_suffix(b"\r\n").ok_or(Violation::LineEnd)?, self.limits.headers)?;
            self.partial = Partial::start(true);
            self.state = State::LastCr;
        }
        Ok(1)
    }

    fn head_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        let line = line.strip_suffix(b"\r\n").ok_or(Violation::LineEnd)?;
        if !line.is_empty() {
            return self.head.line(line, self.limits.headers);
        }
        self.heads += 1;
        self.state = match self.head.end()? {
            Delimiter::Chunked => State::ChunkSize { size: 0, digits: 0 },
            Delimiter::Length(0) => State::Between(Blank::None),
            Delimiter::Length(length) => State::Length(length),
        };
        Ok(())
    }

    /// Passes as much of a body as there is.
    fn pass(&mut self, left: u64, available: usize, still: fn(u64) -> State) -> usize {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(available);
        // A usize is never longer than 64 bits.
        let left = left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
        self.state = match (left, still(left)) {
            (0, State::ChunkData(_)) => State::ChunkCr,
            (0, _) => State::Between(Blank::None),
            (_, still) => still,
        };
        taken
    }

    /// Takes one byte between the data of chunks.
    fn chunk_line(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        let Some(&byte) = rest.first() else { return Ok(0) };
        self.state = match (self.state, byte) {
            (State::ChunkSize { size, digits }, b'\r') if digits > 0 => State::ChunkSizeLf(size),
            (State::ChunkSize { digits, .. }, b';') if digits > 0 => return Err(Violation::ChunkExtension),
            (State::ChunkSize { size, digits }, byte) if digits < CHUNK_DIGITS_MAX => {
                match char::from(byte).to_digit(16) {
                    Some(digit) => State::ChunkSize { size: size << 4 | u64::from(digit), digits: digits + 1 },
                    None => return Err(Violation::ChunkSize),
                }
            }
            (State::ChunkSizeLf(0), b'\n') => State::LastCr,
            (State::ChunkSizeLf(size), b'\n') => State::ChunkData(size),
            (State::ChunkSize { .. } | State::ChunkSizeLf(_), _) => return Err(Violation::ChunkSize),
            (State::ChunkCr, b'\r') => State::ChunkLf,
            (State::ChunkLf, b'\n') => State::ChunkSize { size: 0, digits: 0 },
            (State::ChunkCr | State::ChunkLf, _) => return Err(Violation::ChunkEnd),
            (State::LastCr, b'\r') => State::LastLf,
            (State::LastLf, b'\n') => State::Between(Blank::None),
            (State::LastCr, _) => {
                self.partial = Partial::start(true);
                self.state = State::Trailer;
                return Ok(0);
            }
            _ => return Err(Violation::LineEnd),
        };
        Ok(1)
    }
}
