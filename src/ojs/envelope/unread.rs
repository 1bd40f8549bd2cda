//! Jobs of which long texts are kept apart: where that makes no difference to what is read of them.

use std::borrow::Cow;

use super::ROUTING_KEY_BYTES_MIN;
use crate::ojs::abridged::Gap;
use crate::ojs::fault::Fault;
use crate::ojs::key::Text;
use crate::ojs::scan::Scanner;

/// Whether all of these stand where nothing is read for routing: in the values of `args`, and of those members of `meta` and of
/// `options.metadata` whose names are too short for a key of the federation. The job was read from `text`, where it begins at `open`.
pub(super) fn are_unread(text: &str, open: usize, gaps: &[Gap]) -> bool {
    let unread = members(&mut Scanner::again(text, open, &[]), |scanner, key| match key {
        "args" => passed(scanner, gaps),
        "meta" => values(scanner, gaps),
        "options" => members(scanner, |scanner, key| match key {
            "metadata" => values(scanner, gaps),
            _ => scanner.skip().map(|_| 0).map_err(Fault::from),
        }),
        _ => scanner.skip().map(|_| 0).map_err(Fault::from),
    });
    unread.is_ok_and(|unread| unread == gaps.len())
}

/// How many of them stand in the values of an object that cannot be a key of the federation's.
fn values(scanner: &mut Scanner<'_, '_>, gaps: &[Gap]) -> Result<usize, Fault> {
    members(scanner, |scanner, key| {
        let unread = passed(scanner, gaps)?;
        Ok(if key.len() < ROUTING_KEY_BYTES_MIN { unread } else { 0 })
    })
}

/// Goes through an object, or steps over what is none; the sum of what `each` says of its members.
fn members<'b>(
    scanner: &mut Scanner<'b, '_>,
    mut each: impl FnMut(&mut Scanner<'b, '_>, &str) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    let mut unread = 0;
    if scanner.next() != Some(b'{') {
        scanner.skip()?;
        return Ok(unread);
    }
    scanner.object(|scanner, key| {
        // As it is written: an escape makes it longer, and another name.
        unread += each(scanner, key.raw)?;
        Ok::<(), Fault>(())
    })?;
    Ok(unread)
}

/// Steps over a value, and counts those within.
fn passed(scanner: &mut Scanner<'_, '_>, gaps: &[Gap]) -> Result<usize, Fault> {
    let before = |at: usize| gaps.partition_point(|gap| gap.at < at);
    let (start, end) = scanner.skip()?;
    Ok(before(end) - before(start))
}

/// A text with what is kept apart of it.
pub(super) fn whole<'b>(text: Text<'b>, gaps: &[Gap]) -> Cow<'b, str> {
    let (start, end) = (text.at + 1, text.at + 1 + text.raw.len());
    let mut within = gaps.iter().filter(|gap| (start..end).contains(&gap.at)).peekable();
    if within.peek().is_none() {
        return text.decode();
    }
    let mut joined = String::new();
    let mut from = start;
    for gap in within {
        joined.push_str(text.raw.get(from - start..gap.at - start).unwrap_or_default());
        joined.push_str(std::str::from_utf8(&gap.bytes).unwrap_or_default());
        from = gap.at + 1;
    }
    joined.push_str(text.raw.get(from - start..).unwrap_or_default());
    Cow::Owned(Text { raw: &joined, escaped: true, at: 0 }.decode().into_owned())
}
