//! Lines and numbers of the report.

use std::io::Write as _;

/// A line on standard output; a reader that has closed its end is no reason to fail.
pub(super) fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// A count as a double.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
pub(super) const fn real(number: u64) -> f64 {
    number as f64
}
