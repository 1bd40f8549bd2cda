//! Jobs whose long texts were cut out, where that does not change their reading.

use crate::ojs::abridged::Gap;
use crate::ojs::fault::Fault;
use crate::ojs::key::Text;
use crate::ojs::scan::Scanner;

/// The shortest routing key, `ojs.federation.region`. However it is spelled, it takes as many bytes: an escape, or a letter that
/// only folds to another, takes more.
pub(super) const ROUTING_KEY_BYTES_MIN: usize = 21;

/// Whether all of these stand in values that routing does not read: those of `args`, and of those members of `meta` and
/// of `options.metadata` that `reads_meta` does not name, and whose names are too short for a key of the federation.
/// The job was read from `text`, where it begins at `open`.
pub(super) fn are_unread(text: &str, open: usize, gaps: &[Gap], reads_meta: &dyn Fn(&str) -> bool) -> bool {
    if gaps.is_empty() {
        return true;
    }
    // As they are written: an escape makes another name of it here, which is not counted.
    let unread = members(&mut Scanner::again(text, open, &[]), |scanner, key| match key.raw() {
        "args" => passed(scanner, gaps),
        "meta" => values(scanner, gaps, reads_meta),
        "options" => members(scanner, |scanner, key| match key.raw() {
            "metadata" => values(scanner, gaps, reads_meta),
            _ => scanner.skip().map(|_| 0).map_err(Fault::from),
        }),
        _ => scanner.skip().map(|_| 0).map_err(Fault::from),
    });
    unread.is_ok_and(|unread| unread == gaps.len())
}

/// How many of them stand in values of an object that routing does not read.
fn values(scanner: &mut Scanner<'_, '_>, gaps: &[Gap], reads_meta: &dyn Fn(&str) -> bool) -> Result<usize, Fault> {
    members(scanner, |scanner, key| {
        let within = passed(scanner, gaps)?;
        let is_read = within > 0 && (key.raw_len() >= ROUTING_KEY_BYTES_MIN || reads_meta(&key.decode()));
        Ok(if is_read { 0 } else { within })
    })
}

/// Goes through an object, or steps over another value; the sum of the results of `each` for its members.
fn members<'b>(
    scanner: &mut Scanner<'b, '_>,
    mut each: impl FnMut(&mut Scanner<'b, '_>, Text<'b>) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    let mut unread = 0;
    if scanner.next() != Some(b'{') {
        scanner.skip()?;
        return Ok(unread);
    }
    scanner.object(|scanner, key| {
        unread += each(scanner, key)?;
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
