//! A job while it is being read, member by member.

use std::borrow::Cow;

use super::Id;
use crate::ojs::attributes::{Name, PREFIX, Place};
use crate::ojs::fault::Fault;
use crate::ojs::key::{Likeness, Text, likeness};
use crate::ojs::scan::Scanner;

/// What has been read of a job so far.
#[derive(Default)]
pub(super) struct Draft<'b> {
    pub(super) id: Id<'b>,
    pub(super) job_type: Option<Cow<'b, str>>,
    pub(super) queue: Option<Cow<'b, str>>,
    pub(super) options_queue: Option<Cow<'b, str>>,
    pub(super) tags: Option<Vec<Cow<'b, str>>>,
    pub(super) options_tags: Option<Vec<Cow<'b, str>>>,
    pub(super) meta: Place,
    pub(super) metadata: Place,
    pub(super) weights: Option<Vec<(String, f64)>>,
    pub(super) fingerprints_meta: bool,
    pub(super) unique: bool,
    /// One bit for each member that was seen, at both levels.
    seen: u16,
}

/// The members that are read, with their full names; `unique` may be spelled as it likes, since reading it too often is safe.
const ROOT: [&str; 7] = ["type", "queue", "tags", "id", "meta", "options", "unique"];
const OPTIONS: [(&str, &str); 4] = [
    ("queue", "options.queue"),
    ("tags", "options.tags"),
    ("metadata", "options.metadata"),
    ("unique", "options.unique"),
];

impl<'b> Draft<'b> {
    /// Reads the value of one member of the job.
    pub(super) fn member(&mut self, scanner: &mut Scanner<'b, '_>, key: Text<'b>) -> Result<(), Fault> {
        let key = key.decode();
        let Some((place, exact)) = find(&key, ROOT) else { return Ok(scanner.skip().map(drop)?) };
        let name = ROOT.get(place).copied().unwrap_or_default();
        if name != "unique" {
            self.once(place, exact, name)?;
        }
        match name {
            "type" => self.job_type = string_or_skip(scanner)?,
            "queue" => self.queue = string_or_skip(scanner)?.filter(|queue| !queue.is_empty()),
            "tags" => self.tags = strings_or_skip(scanner)?,
            "id" => self.id = read_id(scanner)?,
            "meta" => self.meta = Place::read(scanner, "meta", &mut self.weights)?,
            "options" => self.options(scanner)?,
            _ => self.unique(scanner)?,
        }
        Ok(())
    }

    fn options(&mut self, scanner: &mut Scanner<'b, '_>) -> Result<(), Fault> {
        let first = scanner.next();
        if first != Some(b'{') {
            scanner.skip()?;
            return if first == Some(b'n') { Ok(()) } else { Err(Fault::not_an_object("options")) };
        }
        scanner.object(|scanner, key| self.option(scanner, key))?;
        Ok(())
    }

    fn option(&mut self, scanner: &mut Scanner<'b, '_>, key: Text<'b>) -> Result<(), Fault> {
        let key = key.decode();
        let Some((place, exact)) = find(&key, OPTIONS.map(|(name, _)| name)) else {
            return Ok(scanner.skip().map(drop)?);
        };
        let (name, path) = OPTIONS.get(place).copied().unwrap_or_default();
        if name != "unique" {
            self.once(ROOT.len() + place, exact, path)?;
        }
        match name {
            "queue" => self.options_queue = string_or_skip(scanner)?.filter(|queue| !queue.is_empty()),
            "tags" => self.options_tags = strings_or_skip(scanner)?,
            "metadata" => self.metadata = Place::read(scanner, path, &mut self.weights)?,
            _ => self.unique(scanner)?,
        }
        Ok(())
    }

    fn unique(&mut self, scanner: &mut Scanner<'b, '_>) -> Result<(), Fault> {
        self.unique |= scanner.next() != Some(b'n');
        self.fingerprints_meta |= fingerprints_meta(scanner)?;
        Ok(())
    }

    fn once(&mut self, place: usize, exact: bool, path: &'static str) -> Result<(), Fault> {
        let bit = 1 << place;
        if !exact || self.seen & bit != 0 {
            return Err(Fault::ambiguous(path));
        }
        self.seen |= bit;
        Ok(())
    }
}

/// The place of a name in `names`, and whether it is spelled exactly.
fn find<const N: usize>(key: &str, names: [&str; N]) -> Option<(usize, bool)> {
    names.iter().enumerate().find_map(|(place, name)| match likeness(key, name) {
        Likeness::Exact => Some((place, true)),
        Likeness::Variant => Some((place, false)),
        Likeness::Different => None,
    })
}

fn string_or_skip<'b>(scanner: &mut Scanner<'b, '_>) -> Result<Option<Cow<'b, str>>, Fault> {
    if scanner.next() == Some(b'"') {
        return Ok(Some(scanner.string()?.decode()));
    }
    scanner.skip()?;
    Ok(None)
}

fn strings_or_skip<'b>(scanner: &mut Scanner<'b, '_>) -> Result<Option<Vec<Cow<'b, str>>>, Fault> {
    if scanner.next() != Some(b'[') {
        scanner.skip()?;
        return Ok(None);
    }
    let mut strings = Vec::new();
    scanner.array(|scanner| {
        strings.extend(string_or_skip(scanner)?);
        Ok::<(), Fault>(())
    })?;
    Ok(Some(strings))
}

fn read_id<'b>(scanner: &mut Scanner<'b, '_>) -> Result<Id<'b>, Fault> {
    Ok(match scanner.next() {
        Some(b'"') => Id::Text(scanner.string()?.decode()),
        Some(b'n') => Id::Null(scanner.skip()?.0),
        _ => {
            scanner.skip()?;
            Id::Other
        }
    })
}

/// Whether a `unique` policy looks at the whole meta, or at a key that we stamp. Spec: ojs-protocol 5.1.
fn fingerprints_meta(scanner: &mut Scanner<'_, '_>) -> Result<bool, Fault> {
    if scanner.next() != Some(b'{') {
        scanner.skip()?;
        return Ok(false);
    }
    let (mut whole, mut limited, mut ours) = (false, false, false);
    scanner.object(|scanner, key| {
        match find(&key.decode(), ["keys", "key", "meta_keys"]) {
            Some((0 | 1, _)) => whole |= texts(scanner)?.iter().any(|text| text.eq_ignore_ascii_case("meta")),
            Some((_, exact)) => {
                let keys = texts(scanner)?;
                limited |= exact && !keys.is_empty();
                ours |= keys.iter().any(|key| key.starts_with(PREFIX) && Name::of(key).is_some());
            }
            None => drop(scanner.skip()?),
        }
        Ok::<(), Fault>(())
    })?;
    Ok((whole && !limited) || ours)
}

/// A text, or an array of texts.
fn texts<'b>(scanner: &mut Scanner<'b, '_>) -> Result<Vec<Cow<'b, str>>, Fault> {
    if scanner.next() == Some(b'"') {
        return Ok(string_or_skip(scanner)?.into_iter().collect());
    }
    Ok(strings_or_skip(scanner)?.unwrap_or_default())
}
