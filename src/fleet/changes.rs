//! The changes of jobs that a sidecar has seen, as it sends them to a hub.

use super::status::is_name;
use crate::replica::{REPORT_BYTES_MAX, REPORT_LINES_MAX, ReportedChange, read_lines};

/// The longest request. Units: bytes.
pub const CHANGES_BYTES_MAX: usize = REPORT_BYTES_MAX + 256;

/// The changes of jobs that a sidecar has seen. Shape: lines of text; the first one is the name of the sidecar in the inventory, each
/// other one a change as [`read_lines`] has it. A repetition changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesRequest {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// The changes.
    pub changes: Vec<ReportedChange>,
}

impl ChangesRequest {
    /// The body of a request.
    #[must_use]
    pub fn body(sidecar: &str, lines: &[u8]) -> Vec<u8> {
        [sidecar.as_bytes(), b"\n", lines].concat()
    }

    /// Reads the body of a request.
    ///
    /// Errors: the part that is not right, and the expected form.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|_| "expected UTF-8 text".to_owned())?;
        let (sidecar, lines) = text.split_once('\n').ok_or("expected the name of the sidecar on a line of its own")?;
        if !is_name(sidecar) {
            return Err("the name of the sidecar: expected 1 to 128 bytes of visible ASCII".to_owned());
        }
        if lines.lines().count() > REPORT_LINES_MAX {
            return Err(format!("expected at most {REPORT_LINES_MAX} changes"));
        }
        Ok(Self { sidecar: sidecar.to_owned(), changes: read_lines(lines)? })
    }
}
