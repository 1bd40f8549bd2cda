//! What one request head says, gathered line by line.

use super::Violation;

/// Longer header names are refused: no field has one, and `http` has a bound of its own.
const NAME_BYTES_MAX: usize = 1024;
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
    chunked: bool,
}

impl Head {
    /// Takes one line, without its line end; the empty line is not given to it.
    pub(super) fn line(&mut self, line: &[u8], headers_max: usize) -> Result<(), Violation> {
        if !self.begun {
            self.begun = true;
            return self.request_line(line);
        }
        self.headers += 1;
        if self.headers > headers_max {
            return Err(Violation::TooManyHeaders);
        }
        self.header(line)
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

    fn request_line(&mut self, line: &[u8]) -> Result<(), Violation> {
        let (method, rest) = until_space(line)?;
        let (target, version) = until_space(rest)?;
        if method.is_empty() || !is_all(method, is_token) {
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

    fn header(&mut self, line: &[u8]) -> Result<(), Violation> {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return Err(Violation::Folded);
        }
        let Some((name, value)) = memchr::memchr(b':', line).and_then(|colon| line.split_at_checked(colon)) else {
            return Err(Violation::HeaderName);
        };
        if matches!(name.last(), Some(b' ' | b'\t')) {
            return Err(Violation::SpaceBeforeColon);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_all(name, is_token) {
            return Err(Violation::HeaderName);
        }
        if !is_all(value, is_value) {
            return Err(Violation::HeaderValue);
        }
        let value = || value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        match name.len() {
            4 if is_name(name, b"host")? => self.host(value()),
            14 if is_name(name, b"content-length")? => self.length(value()),
            17 if is_name(name, b"transfer-encoding")? => self.coding(value()),
            _ => Ok(()),
        }
    }

    fn host(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.host {
            return Err(Violation::HostTwice);
        }
        self.host = true;
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(byte);
        if value.is_empty() || !value.iter().all(allowed) {
            return Err(Violation::HostInvalid);
        }
        Ok(())
    }

    fn length(&mut self, value: &[u8]) -> Result<(), Violation> {
        if self.length.is_some() {
            return Err(Violation::LengthTwice);
        }
        // A leading zero makes a number octal for some readers.
        let plain = value == b"0" || !matches!(value.first(), None | Some(b'0'));
        if !plain || value.len() > LENGTH_DIGITS_MAX || !value.iter().all(u8::is_ascii_digit) {
            return Err(Violation::LengthInvalid);
        }
        self.length = Some(value.iter().fold(0, |length, &digit| length * 10 + u64::from(digit - b'0')));
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

/// What stands after the major digit of a version.
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
        let absolute = memchr::memmem::find(target, b"://").is_some();
        return Err(if absolute { Violation::AbsoluteTarget } else { Violation::Target });
    }
    if is_all(target, is_target) { Ok(()) } else { Err(Violation::Target) }
}

/// What stands before the first space, and what behind it.
fn until_space(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    let (before, rest) =
        memchr::memchr(b' ', line).and_then(|at| line.split_at_checked(at)).ok_or(Violation::RequestLine)?;
    Ok((before, rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// Whether every byte is allowed: without a branch for each byte, since they nearly always are.
fn is_all(bytes: &[u8], allowed: impl Fn(u8) -> bool) -> bool {
    bytes.iter().fold(true, |all, &byte| all & allowed(byte))
}

/// Whether a name is `wanted`, which is in lower case.
///
/// Errors: [`Violation::HeaderName`] when it is so only with underscores for dashes, as gateways fold names.
fn is_name(name: &[u8], wanted: &[u8]) -> Result<bool, Violation> {
    if name.eq_ignore_ascii_case(wanted) {
        return Ok(true);
    }
    let folded = |&byte: &u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    if name.iter().map(folded).eq(wanted.iter().copied()) {
        return Err(Violation::HeaderName);
    }
    Ok(false)
}

/// Whether a byte may stand in a header's value. Spec: RFC 9110 §5.5.
const fn is_value(byte: u8) -> bool {
    (byte >= b' ') & (byte != 0x7f) | (byte == b'\t')
}

/// Whether a byte may stand in a target: a backslash is a slash for some readers, a hash ends the target for others, and the
/// others that are left out are no URI bytes for anyone.
fn is_target(byte: u8) -> bool {
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

static TARGET: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte < 0x7f {
        table[byte as usize] = !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\\' | b'`');
        byte += 1;
    }
    table
};
