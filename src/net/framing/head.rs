//! The fields of one request head, gathered line by line.

use super::Violation;
use crate::base::block::{Block, equal, first_marked, up_to};

/// Longer header names are refused: no field has one, and `http` has a bound of its own.
pub(super) const NAME_BYTES_MAX: usize = 1024;
/// Longer targets are refused: `http` holds no longer ones.
const TARGET_BYTES_MAX: usize = 65_000;
/// More digits of a length are refused: 18 always fit 64 bits, and no body is that long.
const LENGTH_DIGITS_MAX: usize = 18;

/// How the body of a request is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delimiter {
    /// So many bytes; 0 for none.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// The facts of a head that decide where its message ends.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// Bytes so far, line ends included.
    pub(super) bytes: usize,
    /// Whether the request line was read.
    pub(super) begun: bool,
    headers: usize,
    http_11: bool,
    host: bool,
    length: Option<u64>,
    /// The offset of the end of the line with the length.
    pub(super) length_ends: usize,
    chunked: bool,
    /// Bytes of the trailers so far, line ends included.
    pub(super) trailer_bytes: usize,
}

impl Head {
    /// The head of an answer, of which the library has read the status line; it needs no `Host`.
    pub(super) fn of_answer(http_11: bool) -> Self {
        Self { begun: true, http_11, host: true, ..Self::default() }
    }

    /// Takes one line, without its line end; the empty line is not given to it.
    pub(super) fn line(&mut self, line: &[u8], headers_max: usize) -> Result<(), Violation> {
        if !self.begun {
            self.begun = true;
            return self.request_line(line);
        }
        self.count(headers_max)?;
        self.header(line)
    }

    /// Takes the header line that these bytes begin with in one pass, where it is as nearly all are and the head stays within its
    /// `bytes_max`; answers its length with its line end, or `None` for a line that has to be looked at closely.
    pub(super) fn plain_line(
        &mut self,
        bytes: &[u8],
        bytes_max: usize,
        headers_max: usize,
    ) -> Result<Option<usize>, Violation> {
        if !self.begun {
            return Ok(None);
        }
        let Some((name, value)) = plain_header(bytes) else { return Ok(None) };
        let taken = name.len() + value.len() + ":\r\n".len();
        if self.bytes + taken > bytes_max {
            return Ok(None);
        }
        self.bytes += taken;
        self.count(headers_max)?;
        self.field(name, value)?;
        Ok(Some(taken))
    }

    /// Judges the head as a whole, at its empty line.
    pub(super) fn end(&self) -> Result<Delimiter, Violation> {
        if self.http_11 && !self.host {
            return Err(Violation::HostMissing);
        }
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(Violation::LengthAndCoding),
            (true, None) if !self.http_11 => Err(Violation::CodingInHttp10),
            (true, None) => Ok(Delimiter::Chunked),
            (false, length) => Ok(Delimiter::Length(length.unwrap_or(0))),
        }
    }

    /// The body's length by its header.
    pub(super) const fn length(&self) -> Option<u64> {
        self.length
    }

    fn request_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        let (method, rest) = until_space(line)?;
        let (target, version) = until_space(rest)?;
        if !is_name_of_tokens(method) {
            return Err(Violation::RequestLine);
        }
        self.http_11 = match version {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            [b'H', b'T', b'T', b'P', b'/', major, rest @ ..] if major.is_ascii_digit() && is_minor(rest) => {
                return Err(Violation::Version);
            }
            _ => return Err(Violation::RequestLine),
        };
        if method == b"CONNECT" {
            return Err(Violation::Connect);
        }
        check_target(method, target)
    }

    fn count(&mut self, headers_max: usize) -> Result<(), Violation> {
        self.headers += 1;
        if self.headers > headers_max { Err(Violation::TooManyHeaders) } else { Ok(()) }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Violation> {
        let (name, value) = name_and_value(line)?;
        self.field(name, value)
    }

    /// Takes a line behind the last chunk, without its line end. Trailers are not passed on, so that only their form is
    /// checked, and that no reader could take one for the end of the message.
    pub(super) fn trailer(&mut self, line: &[u8], headers_max: usize) -> Result<(), Violation> {
        self.count(headers_max)?;
        let (name, _) = name_and_value(line)?;
        let delimits =
            is_name(name, b"host")? || is_name(name, b"content-length")? || is_name(name, b"transfer-encoding")?;
        if delimits { Err(Violation::Trailer) } else { Ok(()) }
    }

    /// Takes a header whose bytes are allowed.
    fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Violation> {
        match name.len() {
            4 if is_name(name, b"host")? => self.host(value.trim_ascii()),
            _ => self.delimiting_field(name, value),
        }
    }

    /// Takes a header that may delimit the body.
    #[inline]
    pub(super) fn delimiting_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Violation> {
        match name.len() {
            14 if is_name(name, b"content-length")? => self.take_length(value.trim_ascii()),
            17 if is_name(name, b"transfer-encoding")? => self.coding(value.trim_ascii()),
            _ => Ok(()),
        }
    }

    fn host(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.host {
            return Err(Violation::HostTwice);
        }
        self.host = true;
        if value.is_empty() || !is_all(value, |byte| HOST[byte as usize]) {
            return Err(Violation::HostInvalid);
        }
        Ok(())
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.length.is_some() {
            return Err(Violation::LengthTwice);
        }
        self.length = Some(plain_length(value).ok_or(Violation::LengthInvalid)?);
        self.length_ends = self.bytes;
        Ok(())
    }

    fn coding(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Violation::Coding);
        }
        self.chunked = true;
        Ok(())
    }
}

/// The name and the value of a header line.
fn name_and_value(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Violation::Folded);
    }
    let Some((name, value)) = memchr::memchr(b':', line).and_then(|colon| line.split_at_checked(colon)) else {
        return Err(Violation::HeaderName);
    };
    if matches!(name.last(), Some(b' ' | b'\t')) {
        return Err(Violation::SpaceBeforeColon);
    }
    if name.len() > NAME_BYTES_MAX || !is_name_of_tokens(name) {
        return Err(Violation::HeaderName);
    }
    if !is_all(value, is_value) {
        return Err(Violation::HeaderValue);
    }
    Ok((name, value.strip_prefix(b":").unwrap_or(value)))
}

/// A length that every reader takes for the same number.
pub(super) fn plain_length(value: &[u8]) -> Option<u64> {
    // A leading zero makes a number octal for some readers.
    let plain = value == b"0" || !matches!(value.first(), None | Some(b'0'));
    (plain && value.len() <= LENGTH_DIGITS_MAX && value.iter().all(u8::is_ascii_digit))
        .then(|| value.iter().fold(0, |length, &digit| length * 10 + u64::from(digit - b'0')))
}

/// The bytes behind the major digit of a version.
fn is_minor(rest: &[u8]) -> bool {
    matches!(rest, [] | [b'.', b'0'..=b'9'])
}

fn check_target(method: &[u8], target: &[u8]) -> Result<(), Violation> {
    if target.len() > TARGET_BYTES_MAX {
        return Err(Violation::TargetTooLong);
    }
    if target == b"*" && method == b"OPTIONS" {
        return Ok(());
    }
    if !target.starts_with(b"/") {
        let is_absolute = memchr::memmem::find(target, b"://").is_some();
        return match (is_absolute, names_host(target)) {
            (true, true) => Ok(()),
            (true, false) => Err(Violation::AbsoluteTarget),
            (false, _) => Err(Violation::Target),
        };
    }
    if is_all(target, is_target) { Ok(()) } else { Err(Violation::Target) }
}

/// Whether a target is one for a proxy, of which the host can be held against ours. Spec: RFC 9112 §3.2.2.
fn names_host(target: &[u8]) -> bool {
    // By the library's own reader, which takes it apart later.
    let uri = http::Uri::try_from(target).ok().filter(|_| is_all(target, is_target));
    uri.is_some_and(|uri| {
        let is_plain = |authority: &http::uri::Authority| {
            !authority.host().is_empty() && is_all(authority.as_str().as_bytes(), |byte| HOST[byte as usize])
        };
        uri.scheme() == Some(&http::uri::Scheme::HTTP) && uri.authority().is_some_and(is_plain)
    })
}

/// The bytes before the first space, and those behind it.
fn until_space(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    let (before, rest) =
        memchr::memchr(b' ', line).and_then(|at| line.split_at_checked(at)).ok_or(Violation::RequestLine)?;
    Ok((before, rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// The name and the value of the header line that these bytes begin with, where the name has nothing but letters, digits and dashes,
/// and the value no control character. `None` says that the line, or the end of it, has to be looked at closely.
pub(super) fn plain_header(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, behind) = bytes.split_at_checked(first_marked(bytes, unplain))?;
    let behind = behind.strip_prefix(b":")?;
    let (value, end) = behind.split_at_checked(first_marked(behind, controls))?;
    ((1..=NAME_BYTES_MAX).contains(&name.len()) && end.starts_with(b"\r\n")).then_some((name, value))
}

/// Whether every byte is allowed: without a branch for each byte, since they nearly always are.
fn is_all(bytes: &[u8], allowed: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(true, |all, &byte| all & allowed(byte))
}

/// Whether these bytes are a method or the name of a header.
fn is_name_of_tokens(bytes: &[u8]) -> bool {
    !bytes.is_empty() && is_all(bytes, is_token)
}

/// Whether a name is `wanted`, which is in lower case.
///
/// Errors: [`Violation::HeaderName`] when it is so only with underscores for dashes, as gateways fold names.
fn is_name<const BYTES: usize>(name: &[u8], wanted: &[u8; BYTES]) -> Result<bool, Violation> {
    let Some(name) = name.as_array::<BYTES>() else { return Ok(false) };
    // Without a branch for each byte; dashes and digits are the same in both cases.
    let differs =
        std::iter::zip(name, wanted).fold(0, |differs, (byte, wanted)| differs | (byte.to_ascii_lowercase() ^ wanted));
    if differs == 0 {
        return Ok(true);
    }
    let folded = |&byte: &u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    if name.iter().map(folded).eq(wanted.iter().copied()) {
        return Err(Violation::HeaderName);
    }
    Ok(false)
}

/// Whether a byte may stand in a header's value. Spec: RFC 9110 §5.5.
pub(super) const fn is_value(byte: u8) -> bool {
    (byte >= b' ') & (byte != 0x7f) | (byte == b'\t')
}

/// Marks the control characters, of which a tab is one.
fn controls(block: Block) -> Block {
    up_to(block, 0x1f) | equal(block, 0x7f)
}

/// Marks bytes other than letters, digits and dashes, of which nearly all names consist.
fn unplain(block: Block) -> Block {
    // Bytes below the first of them wrap round to more than the last.
    let from = |block: Block, first: u8| block - Block::splat(first);
    let letters = up_to(from(block | Block::splat(0x20), b'a'), b'z' - b'a');
    !(letters | up_to(from(block, b'0'), 9) | equal(block, b'-'))
}

/// Whether a byte may stand in a target: a backslash is a slash for some readers, a hash ends the target for others, and the
/// others that are left out are no URI bytes for anyone.
pub(super) fn is_target(byte: u8) -> bool {
    TARGET[byte as usize]
}

/// Whether a byte may stand in a method or a header name. Spec: RFC 9110 §5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};

/// The bytes allowed in a `Host`.
static HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        table[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':' | b'[' | b']' | b'%');
        byte += 1;
    }
    table
};

static TARGET: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte < 0x7f {
        table[byte as usize] = !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\\' | b'`');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_plain_that_is_allowed_and_has_nothing_but_letters_digits_and_dashes_in_its_name() {
        for length in [1, 20, 31, 32, 33, 70] {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut bytes = b"X-Some-Header-Name09".repeat(4);
                    bytes.truncate(length);
                    bytes[at] = byte;
                    let line = [&bytes[..], b":\r\n"].concat();
                    let plain = byte.is_ascii_alphanumeric() || byte == b'-';
                    let name = || plain_header(&line).map(|(name, _)| name).filter(|name| name.len() == length);
                    assert_eq!(name(), plain.then_some(&bytes[..]), "{byte:#x} at {at}");
                    assert_eq!(
                        is_name_of_tokens(&bytes),
                        bytes.iter().all(|&byte| is_token(byte)),
                        "{byte:#x} at {at}"
                    );
                    let line = [b"x: ", &bytes[..], b"\xff\r\n"].concat();
                    let plain = is_value(byte) && byte != b'\t';
                    assert_eq!(
                        plain_header(&line).map(|(name, _)| name),
                        plain.then_some(&b"x"[..]),
                        "{byte:#x} at {at}"
                    );
                    let head = || Head { begun: true, ..Head::default() };
                    let taken = head().line(line.strip_suffix(b"\r\n").unwrap(), 1);
                    assert_eq!(taken.is_ok(), is_value(byte), "{byte:#x} at {at}");
                }
            }
        }
        assert!(!is_name_of_tokens(b"") && is_name_of_tokens(b"a") && !is_name_of_tokens(b"a b"));
    }
}
