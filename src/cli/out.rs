//! Words for people: answers on standard output, complaints on standard error.

use std::io::Write;

/// A line on standard output; a reader that went away is no reason to fail.
pub(super) fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Bytes on standard output, as they are.
pub(super) fn say_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes);
    let _ = out.flush();
}

/// A line on standard error.
pub(super) fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
