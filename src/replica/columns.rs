//! The columns of lines.

use super::change::is_text;

/// Adds a text and the tab behind it; a text that no index takes is left out.
pub(super) fn push_text(line: &mut Vec<u8>, text: Option<&str>) {
    line.extend_from_slice(text.filter(|text| is_text(text)).unwrap_or_default().as_bytes());
    line.push(b'\t');
}

/// Adds a number and the tab behind it.
pub(super) fn push_number<N: itoa::Integer>(line: &mut Vec<u8>, number: Option<N>) {
    if let Some(number) = number {
        line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
    line.push(b'\t');
}
