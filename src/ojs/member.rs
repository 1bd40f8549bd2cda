//! The members of one object of a text that is JSON, read without a tree.

use std::borrow::Cow;
#[cfg(test)]
use std::cell::Cell;

use super::fault::Fault;
use super::key::Text;
use super::scan::{ScanError, Scanner};

/// Regions may nest deeper than clients are allowed to, but not without bound.
pub(super) const DEPTH_MAX: usize = 1024;

#[cfg(test)]
thread_local! {
    /// How many objects were walked over.
    pub(super) static WALKS: Cell<usize> = const { Cell::new(0) };
}

/// A whole number that is not negative.
pub(super) fn as_number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The text of a string value, decoded.
pub(super) fn as_text(value: &[u8]) -> Option<Cow<'_, str>> {
    let value = std::str::from_utf8(value).ok()?;
    value.starts_with('"').then(|| Text::quoted(value, 0).decode())
}

pub(super) fn text<'b>(object: &'b [u8], name: &str) -> Option<Cow<'b, str>> {
    member(object, name).and_then(as_text)
}

/// The value of a member of an object, as it stands; the last one where there are several.
pub(super) fn member<'b>(object: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let [value] = members_of(object, [name]);
    value
}

/// The values of several members, as [`member`] has them, by one walk over the object. None where it is no object.
pub(super) fn members_of<'b, const N: usize>(object: &'b [u8], names: [&str; N]) -> [Option<&'b [u8]>; N] {
    places_of(object, names).map(|place| place.map(|place| place.value))
}

/// A member of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'b> {
    /// The last value by this name.
    pub(super) value: &'b [u8],
    /// How many members have this name.
    pub(super) count: usize,
}

pub(super) fn places_of<'b, const N: usize>(object: &'b [u8], names: [&str; N]) -> [Option<Place<'b>>; N] {
    #[cfg(test)]
    WALKS.with(|walks| walks.set(walks.get() + 1));
    let mut found = [None; N];
    let mut read = || -> Result<(), Fault> {
        let mut scanner = Scanner::new(object, DEPTH_MAX)?;
        scanner.object(|scanner, key| {
            let (start, end) = scanner.skip()?;
            let key = key.decode();
            if let Some(place) = names.iter().position(|name| *name == key)
                && let (Some(slot), Some(value)) = (found.get_mut(place), object.get(start..end))
            {
                let count = slot.map_or(0, |place: Place<'_>| place.count);
                *slot = Some(Place { value, count: count + 1 });
            }
            Ok::<(), ScanError>(())
        })?;
        Ok(scanner.end()?)
    };
    if read().is_ok() { found } else { [None; N] }
}
