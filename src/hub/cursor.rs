//! Cursors of lists: the time and the name of the last row of a page.

use data_encoding::BASE64URL_NOPAD;

use crate::replica::is_text;

/// The cursor behind a row.
pub(super) fn cursor(at_ms: u64, id: &str) -> String {
    BASE64URL_NOPAD.encode(format!("{at_ms} {id}").as_bytes())
}

/// The row of a cursor; `None` for a text that is none.
pub(super) fn read_cursor(text: &str) -> Option<(u64, String)> {
    let text = String::from_utf8(BASE64URL_NOPAD.decode(text.as_bytes()).ok()?).ok()?;
    let (at_ms, id) = text.split_once(' ')?;
    let at_ms: u64 = at_ms.parse().ok().filter(|ms| i64::try_from(*ms).is_ok())?;
    is_text(id).then(|| (at_ms, id.to_owned()))
}
