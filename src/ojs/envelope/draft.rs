//! A job while it is being read, member by member.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::parts::{Id, Unclear};
use crate::ojs::attributes::{Name, PREFIX, Place};
use crate::ojs::fault::Fault;
use crate::ojs::key::{Likeness, Text, likeness, may_fold};
use crate::ojs::scan::Scanner;

/// The part of a job that was read so far.
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
    /// Members that servers could read in two ways; the queues and tags of both levels are compared at the end.
    pub(super) unclear: Unclear,
    /// One bit for each member that was seen, at both levels.
    seen: u16,
}

/// The members that are read; `unique` may be spelled as it likes, since reading it too often is safe.
#[derive(Clone, Copy)]
enum Member {
    Type,
    Queue,
    Tags,
    Id,
    Meta,
    Options,
    Unique,
    OptionsQueue,
    OptionsTags,
    OptionsMetadata,
    OptionsUnique,
}

impl Member {
    const ROOT: [Self; 7] = [Self::Type, Self::Queue, Self::Tags, Self::Id, Self::Meta, Self::Options, Self::Unique];
    const OPTIONS: [Self; 4] = [Self::OptionsQueue, Self::OptionsTags, Self::OptionsMetadata, Self::OptionsUnique];

    /// Its full name.
    const fn path(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Queue => "queue",
            Self::Tags => "tags",
            Self::Id => "id",
            Self::Meta => "meta",
            Self::Options => "options",
            Self::Unique => "unique",
            Self::OptionsQueue => "options.queue",
            Self::OptionsTags => "options.tags",
            Self::OptionsMetadata => "options.metadata",
            Self::OptionsUnique => "options.unique",
        }
    }

    fn name(self) -> &'static str {
        let path = self.path();
        path.strip_prefix("options.").unwrap_or(path)
    }

    /// The member of the job that a name means, and whether it is spelled exactly.
    #[inline]
    fn of_root(key: Text<'_>) -> Option<(Self, bool)> {
        // With which their names begin.
        if !key.may_begin(b"imoqtu") {
            return None;
        }
        let key = &*key.decode();
        let member = match key {
            "type" => Self::Type,
            "queue" => Self::Queue,
            "tags" => Self::Tags,
            "id" => Self::Id,
            "meta" => Self::Meta,
            "options" => Self::Options,
            "unique" => Self::Unique,
            _ => return if may_fold(key) { Self::variant(key, &Self::ROOT) } else { None },
        };
        Some((member, true))
    }

    /// As [`Member::of_root`], within `options`.
    #[inline]
    fn of_options(key: Text<'_>) -> Option<(Self, bool)> {
        if !key.may_begin(b"mqtu") {
            return None;
        }
        let key = &*key.decode();
        let member = match key {
            "queue" => Self::OptionsQueue,
            "tags" => Self::OptionsTags,
            "metadata" => Self::OptionsMetadata,
            "unique" => Self::OptionsUnique,
            _ => return if may_fold(key) { Self::variant(key, &Self::OPTIONS) } else { None },
        };
        Some((member, true))
    }

    #[cold]
    fn variant(key: &str, among: &[Self]) -> Option<(Self, bool)> {
        let found = among.iter().find(|member| likeness(key, member.name()) == Likeness::Variant);
        found.map(|member| (*member, false))
    }
}

impl<'b> Draft<'b> {
    /// Reads the value of one member of the job.
    pub(super) fn member(&mut self, scanner: &mut Scanner<'b, '_>, key: Text<'b>) -> Result<(), Fault> {
        let Some((member, exact)) = Member::of_root(key) else { return Ok(scanner.skip().map(drop)?) };
        self.once(member, exact)?;
        match member {
            Member::Type => self.job_type = text(scanner, &mut self.unclear.job_type)?,
            Member::Queue => self.queue = text(scanner, &mut self.unclear.queue)?,
            Member::Tags => self.tags = tags(scanner, &mut self.unclear.tags)?,
            Member::Id => self.id = read_id(scanner)?,
            Member::Meta => self.meta.read(scanner, member.path(), &mut self.weights)?,
            Member::Options => self.options(scanner)?,
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
        let Some((member, exact)) = Member::of_options(key) else { return Ok(scanner.skip().map(drop)?) };
        self.once(member, exact)?;
        match member {
            Member::OptionsQueue => self.options_queue = text(scanner, &mut self.unclear.queue)?,
            Member::OptionsTags => self.options_tags = tags(scanner, &mut self.unclear.tags)?,
            Member::OptionsMetadata => self.metadata.read(scanner, member.path(), &mut self.weights)?,
            _ => self.unique(scanner)?,
        }
        Ok(())
    }

    fn unique(&mut self, scanner: &mut Scanner<'b, '_>) -> Result<(), Fault> {
        self.unique |= scanner.next() != Some(b'n');
        self.fingerprints_meta |= fingerprints_meta(scanner)?;
        Ok(())
    }

    /// Members that servers could read in two ways, both levels compared.
    pub(super) fn unclear(&self) -> Unclear {
        let mut unclear = self.unclear;
        if let (Some(top), Some(inner)) = (&self.queue, &self.options_queue) {
            unclear.queue |= top != inner;
        }
        if let (Some(top), Some(inner)) = (&self.tags, &self.options_tags) {
            unclear.tags |= top != inner && top.iter().collect::<BTreeSet<_>>() != inner.iter().collect();
        }
        unclear
    }

    fn once(&mut self, member: Member, exact: bool) -> Result<(), Fault> {
        if matches!(member, Member::Unique | Member::OptionsUnique) {
            return Ok(());
        }
        let bit = 1 << member as u32;
        if !exact || self.seen & bit != 0 {
            return Err(Fault::ambiguous(member.path()));
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

/// A text; of another value than `null`, `unclear` is set.
fn text<'b>(scanner: &mut Scanner<'b, '_>, unclear: &mut bool) -> Result<Option<Cow<'b, str>>, Fault> {
    *unclear |= !matches!(scanner.next(), Some(b'"' | b'n'));
    string_or_skip(scanner)
}

/// The texts of an array; of another value than `null`, and of another element, `unclear` is set.
fn tags<'b>(scanner: &mut Scanner<'b, '_>, unclear: &mut bool) -> Result<Option<Vec<Cow<'b, str>>>, Fault> {
    match scanner.next() {
        Some(b'[') => {}
        first => {
            *unclear |= first != Some(b'n');
            scanner.skip()?;
            return Ok(None);
        }
    }
    let mut tags = Vec::new();
    scanner.array(|scanner| {
        *unclear |= scanner.next() != Some(b'"');
        tags.extend(string_or_skip(scanner)?);
        Ok::<(), Fault>(())
    })?;
    Ok(Some(tags))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_found_by_its_name_in_either_case() {
        let found = |quoted: &str, at_root: bool| {
            let key = Text::quoted(quoted, 0);
            let found = if at_root { Member::of_root(key) } else { Member::of_options(key) };
            found.map(|(member, exact)| (member.path(), exact))
        };
        for (members, at_root) in [(&Member::ROOT[..], true), (&Member::OPTIONS[..], false)] {
            for member in members {
                let name = member.name();
                assert_eq!(found(&format!("\"{name}\""), at_root), Some((member.path(), true)));
                assert_eq!(found(&format!("\"{}\"", name.to_uppercase()), at_root), Some((member.path(), false)));
                let escaped = format!("\"\\u{:04x}{}\"", u32::from(name.as_bytes()[0]), &name[1..]);
                assert_eq!(found(&escaped, at_root), Some((member.path(), true)), "{escaped}");
                assert_eq!(found(&format!("\"{name}s\""), at_root), None);
            }
        }
    }
}
