//! Names under `ojs.federation.` that are not defined: misspelt ones, which would bind nothing, and truly unknown ones.
//!
//! A name is reduced to the letters that a reader sees: invisible and combining characters are left out, full-width,
//! mathematical and Cyrillic letters become the ASCII letters that they look like, case is folded. The rest is compared
//! by edit distance.

use std::borrow::Cow;

use super::name::{Name, PREFIX};
use crate::ojs::fault::Fault;
use crate::ojs::key::Text;
use crate::ojs::scan::Scanner;

/// The shortest name that can be taken for a defined one, the shortest of which less two letters. Reduction adds no byte.
pub(super) const BYTES_MIN: usize = 19;

/// The longest reduced name; a longer name cannot be mistaken for a defined one. Units: bytes.
const REDUCED_MAX: usize = 48;

/// The verdict on a name that is not defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Odd {
    /// It was probably meant to be this one.
    Meant(Name),
    /// It is under the prefix and looks like none.
    Unknown,
    /// An object under it would nest a defined name: `ojs` or `ojs.federation`.
    Holder,
}

/// Judges the name of a member of meta that is not defined; none for one that has nothing to do with the federation.
pub(super) fn odd(key: &str) -> Option<Odd> {
    let mut room = [0; REDUCED_MAX];
    let Some(reduced) = reduce(key, &mut room) else {
        return key.starts_with(PREFIX).then_some(Odd::Unknown);
    };
    if reduced == b"ojs" || reduced == b"ojs.federation" {
        return Some(Odd::Holder);
    }
    if let Some(name) = meant(reduced) {
        return Some(Odd::Meant(name));
    }
    reduced.starts_with(PREFIX.as_bytes()).then_some(Odd::Unknown)
}

/// The defined name that is nearest, where it is near enough.
fn meant(reduced: &[u8]) -> Option<Name> {
    let near = Name::ALL.into_iter().filter_map(|name| {
        let most = if name.is_routing() { 2 } else { 1 };
        distance(reduced, name.as_str().as_bytes(), most).map(|distance| (distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Letters to be added, left out, exchanged or swapped with their neighbour; none for more than `most`.
fn distance(one: &[u8], other: &[u8], most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most || other.len() > REDUCED_MAX {
        return None;
    }
    // Three rows of the table: the one before the last, the last, the one that is being written.
    let mut rows = [[0_usize; REDUCED_MAX + 1]; 3];
    let at = |row: &[usize; REDUCED_MAX + 1], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
    let [_, last, _] = &mut rows;
    for (column, cell) in last.iter_mut().enumerate() {
        *cell = column;
    }
    for (row, letter) in one.iter().enumerate() {
        let [before, last, now] = &mut rows;
        let (mut left, mut least) = (row + 1, row + 1);
        if let Some(cell) = now.first_mut() {
            *cell = left;
        }
        for (column, wanted) in other.iter().enumerate() {
            let exchanged = at(last, column) + usize::from(letter != wanted);
            let mut cost = exchanged.min(at(last, column + 1) + 1).min(left + 1);
            let swapped =
                row > 0 && column > 0 && other.get(column - 1) == Some(letter) && one.get(row - 1) == Some(wanted);
            if swapped {
                cost = cost.min(at(before, column - 1) + 1);
            }
            if let Some(cell) = now.get_mut(column + 1) {
                *cell = cost;
            }
            least = least.min(cost);
            left = cost;
        }
        if least > most {
            return None;
        }
        rows.rotate_left(1);
    }
    let [_, last, _] = &rows;
    Some(at(last, other.len())).filter(|distance| *distance <= most)
}

/// The letters of a name that a reader sees, in ASCII; a letter that looks like none of ASCII is `?`. `None` where it
/// does not fit.
fn reduce<'r>(key: &str, room: &'r mut [u8; REDUCED_MAX]) -> Option<&'r [u8]> {
    let mut length = 0;
    for letter in key.chars().filter(|letter| !is_invisible(*letter)) {
        *room.get_mut(length)? = ascii(letter);
        length += 1;
    }
    room.get(..length)
}

/// White space, control, zero-width and combining characters, variation selectors and tags.
const fn is_invisible(letter: char) -> bool {
    letter.is_ascii_control()
        || letter.is_whitespace()
        || matches!(letter,
            '\u{80}'..='\u{9F}' | '\u{AD}' | '\u{300}'..='\u{36F}' | '\u{483}'..='\u{489}' | '\u{61C}'
            | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{1AB0}'..='\u{1AFF}'
            | '\u{1DC0}'..='\u{1DFF}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{20D0}'..='\u{20FF}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FE20}'..='\u{FE2F}'
            | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFD}' | '\u{E0000}'..='\u{E0FFF}')
}

/// The ASCII letter, in lower case, that a letter is or looks like.
const fn ascii(letter: char) -> u8 {
    let code = letter as u32;
    let ascii = match letter {
        '\0'..='\u{7F}' => code as u8,
        // Full width.
        '\u{FF01}'..='\u{FF5E}' => (code - 0xFEE0) as u8,
        // Bold, italic, script and other letters of mathematics: 13 alphabets one behind the other.
        '\u{1D400}'..='\u{1D6A3}' => {
            let place = ((code - 0x1_D400) % 52) as u8;
            b'a' + place % 26
        }
        '\u{B7}' | '\u{589}' | '\u{2024}' | '\u{2027}' | '\u{3002}' | '\u{FE52}' | '\u{FF61}' => b'.',
        '\u{430}' | '\u{410}' | '\u{3B1}' | '\u{251}' => b'a',
        '\u{435}' | '\u{415}' | '\u{3B5}' => b'e',
        '\u{43E}' | '\u{41E}' | '\u{3BF}' | '\u{39F}' | '\u{585}' => b'o',
        '\u{456}' | '\u{406}' | '\u{3B9}' | '\u{131}' => b'i',
        '\u{458}' | '\u{408}' | '\u{3F3}' => b'j',
        '\u{455}' | '\u{405}' | '\u{17F}' => b's',
        '\u{261}' => b'g',
        '\u{501}' => b'd',
        '\u{578}' => b'n',
        '\u{442}' | '\u{3C4}' => b't',
        '\u{440}' | '\u{3C1}' => b'p',
        '\u{212A}' => b'k',
        _ => b'?',
    };
    ascii.to_ascii_lowercase()
}

/// Reads the object under a name that is [`Odd::Holder`]; returns how many names in it are unknown. `path` is that name.
///
/// Errors: a [`Fault`] for a defined name that is nested, or for one that looks like it.
pub(super) fn nested(scanner: &mut Scanner<'_, '_>, field: &'static str, path: &str) -> Result<u16, Fault> {
    let mut unknown = 0_u16;
    scanner.object(|scanner, key: Text<'_>| {
        let path = format!("{path}.{}", key.decode());
        let first = scanner.next();
        let odd = match Name::of(&path) {
            Some((name, _)) => Some(Odd::Meant(name)),
            None => odd(&path),
        };
        match odd {
            // Twice at most: the path then has two dots.
            Some(Odd::Holder) if first == Some(b'{') => {
                unknown = unknown.saturating_add(nested(scanner, field, &path)?);
                return Ok(());
            }
            Some(Odd::Meant(name)) if first != Some(b'n') => return Err(Fault::misspelt(field, name.as_str())),
            Some(Odd::Unknown) if first != Some(b'n') => unknown = unknown.saturating_add(1),
            _ => {}
        }
        scanner.skip()?;
        Ok::<(), Fault>(())
    })?;
    Ok(unknown)
}

/// The names of the unknown keys of an object of attributes that was read before, at most `most`.
pub(in crate::ojs) fn unknown_keys<'b>(text: &'b str, open: usize, most: usize) -> Vec<Cow<'b, str>> {
    let mut names = Vec::new();
    let mut scanner = Scanner::again(text, open, &[]);
    let read = scanner.object(|scanner, key| {
        let key = key.decode();
        let first = scanner.next();
        let odd = if Name::of(&key).is_some() { None } else { odd(&key) };
        let holds_unknown = match odd {
            Some(Odd::Holder) if first == Some(b'{') => nested(scanner, "meta", &key)? > 0,
            odd => {
                scanner.skip()?;
                odd == Some(Odd::Unknown) && first != Some(b'n')
            }
        };
        if holds_unknown && names.len() < most {
            names.push(key);
        }
        Ok::<(), Fault>(())
    });
    // It was read before, so nothing is wrong with it.
    if read.is_ok() { names } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_defined_one_names_that_one() {
        let check = |key: &str, expected: Option<Odd>| assert_eq!(odd(key), expected, "{key:?}");
        for key in [
            "ojs.federation.regoin",
            "ojs.federation.regions",
            "ojs.federation.regin",
            "ojs.federation.reigno",
            " ojs.federation.region",
            "ojs.federation.region ",
            "ojs.federation.\u{200B}region",
            "\u{FEFF}ojs.federation.region",
            "ojs\u{FF0E}federation\u{FF0E}region",
            "\u{FF4F}js.federation.region",
            "ojs.federation.region\0",
            "ojs.federation.regio\u{301}n",
            "ojs.federation.regi\u{F3}n",
            "ojs.federation.r\u{435}gi\u{43E}n",
            "ojs_federation_region",
            "ojs.federatoin.region",
            "jos.federation.region",
            "ojs-federation.region",
            "\u{1D428}js.federation.region",
            "Ojs.Federation.Regions",
        ] {
            check(key, Some(Odd::Meant(Name::Region)));
        }
        for key in ["ojs.federation.regionAffinity", "ojs.federation.region-affinity", "ojs.federation.region_afinity"]
        {
            check(key, Some(Odd::Meant(Name::RegionAffinity)));
        }
        check("ojs.federation.weight", Some(Odd::Meant(Name::Weights)));
        check("ojs.federation.federationid", Some(Odd::Meant(Name::FederationId)));
        for key in [
            "ojs.federation.residency",
            "ojs.federation.target_region",
            "ojs.federation.",
            "ojs.federation.origin",
            "ojs.federation.note",
            "ojs.federation.routed_by",
            "ojs.federation.\u{4E2D}\u{6587}",
        ] {
            check(key, Some(Odd::Unknown));
        }
        check(&format!("ojs.federation.{}", "x".repeat(100)), Some(Odd::Unknown));
        check("ojs", Some(Odd::Holder));
        check("\u{FF4F}js.federation", Some(Odd::Holder));
        for key in [
            "",
            "o",
            "order",
            "ojs.tenant",
            "ojs_federation",
            "region",
            "federation.region",
            "my.ojs.federation.region",
        ] {
            check(key, None);
        }
    }

    #[test]
    fn no_name_shorter_than_the_bound_is_taken_for_a_defined_one() {
        let shortest = Name::ALL.iter().map(|name| name.as_str().len() - if name.is_routing() { 2 } else { 1 }).min();
        assert_eq!(shortest, Some(BYTES_MIN));
        assert!(Name::ALL.iter().all(|name| name.as_str().len() <= REDUCED_MAX));
    }
}
