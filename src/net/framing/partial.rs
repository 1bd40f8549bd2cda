//! The part of a line of a head that has come: whether it can still become a line that is accepted.
//!
//! An invalid line is refused at its first impossible byte, instead of at the end of the head's time.

use super::Violation;
use super::head::{NAME_BYTES_MAX, is_target, is_token, is_value};

/// The state of an incomplete line. The whole line is judged at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partial {
    /// In a request line: its method.
    Method,
    Target,
    /// So many bytes of the version.
    Version(u8),
    /// In a header line, or at its start: so many bytes of the name.
    Name(usize),
    Value,
    /// Behind a CR: any byte but LF is this violation.
    Cr(Violation),
    End,
}

/// The bytes of a version, where 0 stands for a digit.
const VERSION: &[u8; 8] = b"HTTP/0.0";
/// How many of them a version without a minor number has.
const MAJOR_BYTES: u8 = 6;

impl Partial {
    /// The start of a line; `begun` says whether the request line was read.
    pub(super) const fn start(begun: bool) -> Self {
        if begun { Self::Name(0) } else { Self::Method }
    }

    /// Takes the next bytes of the line.
    ///
    /// Errors: the [`Violation`] of the first byte with which no line that is accepted begins.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        for &byte in bytes {
            *self = self.step(byte)?;
        }
        Ok(())
    }

    fn step(self, byte: u8) -> Result<Self, Violation> {
        match (self, byte) {
            (Self::Cr(_), b'\n') => Ok(Self::End),
            (Self::Cr(violation), _) => Err(violation),
            (_, b'\n') => Err(Violation::LineEnd),
            (Self::Method, b' ') => Ok(Self::Target),
            (Self::Method, byte) if is_token(byte) => Ok(self),
            (Self::Target, b' ') => Ok(Self::Version(0)),
            (Self::Target, byte) if is_target(byte) => Ok(self),
            (Self::Target, byte) if byte != b'\r' => Err(Violation::Target),
            (Self::Version(MAJOR_BYTES | 8), b'\r') => Ok(Self::Cr(Violation::RequestLine)),
            (Self::Version(at), byte) if is_of_version(at, byte) => Ok(Self::Version(at + 1)),
            (Self::Method | Self::Target | Self::Version(_), _) => Err(Violation::RequestLine),
            (Self::Name(0), b'\r') => Ok(Self::Cr(Violation::LineEnd)),
            (Self::Name(0), b' ' | b'\t') => Err(Violation::Folded),
            (Self::Name(_), b' ' | b'\t') => Err(Violation::SpaceBeforeColon),
            (Self::Name(1..), b':') => Ok(Self::Value),
            (Self::Name(bytes), byte) if is_token(byte) && bytes < NAME_BYTES_MAX => Ok(Self::Name(bytes + 1)),
            (Self::Name(_), _) => Err(Violation::HeaderName),
            (Self::Value, b'\r') => Ok(Self::Cr(Violation::HeaderValue)),
            (Self::Value, byte) if is_value(byte) => Ok(self),
            (Self::Value, _) => Err(Violation::HeaderValue),
            // A line has one end.
            (Self::End, _) => Err(Violation::LineEnd),
        }
    }
}

fn is_of_version(at: u8, byte: u8) -> bool {
    match VERSION.get(usize::from(at)) {
        Some(b'0') => byte.is_ascii_digit(),
        Some(&expected) => byte == expected,
        None => false,
    }
}
