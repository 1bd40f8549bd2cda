//! The `ojs.federation.*` attributes of one job, as `meta` and `options.metadata` carry them.
//!
//! Servers differ in which of the two they believe, so both are read: a pin in either one counts, and two different values are
//! an error. The reserved names are compared with case folded, and an odd spelling is refused rather than overlooked.

use std::borrow::Cow;

mod alike;
mod name;

use super::fault::Fault;
use super::key::Text;
use super::scan::Scanner;
pub(super) use alike::unknown_keys;
use alike::{Odd, nested, odd};
pub(super) use name::{Name, PREFIX};

/// A job's federation attributes. Spec: federation-spec §6.1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attributes<'b> {
    /// The region that the job is pinned to; never empty.
    pub region: Option<Cow<'b, str>>,
    /// The strategy that the job asks for, unchecked.
    pub region_affinity: Option<Cow<'b, str>>,
    /// Tags, with commas between, that the job's region must all have, unchecked.
    pub regions_with: Option<Cow<'b, str>>,
    /// The client's own tracking id, in any form.
    pub federation_id: Option<Cow<'b, str>>,
    /// Set by a replicator, never by us.
    pub replicated_from: Option<Cow<'b, str>>,
    /// The job's own weights, region id to a finite number that is not negative; names are unique.
    pub weights: Option<Vec<(String, f64)>>,
    /// Whether `source_region` is there.
    pub source_region: bool,
    /// Whether `routed_at` is there.
    pub routed_at: bool,
}

/// A weights object with more entries is refused: no federation has as many regions.
const WEIGHTS_MAX: usize = 256;

/// Where the value of an attribute stands.
#[derive(Clone, Copy, Default)]
pub(super) enum Mark {
    #[default]
    Absent,
    /// `null`, which counts as absent; its offset, because a stamp replaces it.
    Null(usize),
    /// Start and end of a value.
    Given(usize, usize),
}

/// Whether an object is there that keys can be added to.
#[derive(Clone, Copy, Default)]
pub(super) enum Slot {
    #[default]
    Absent,
    /// `null`, and its offset.
    Null(usize),
    /// The offset of the opening brace.
    Object { open: usize, empty: bool },
}

/// One of the two objects that carry attributes.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub(super) slot: Slot,
    /// Whether any `ojs.federation.*` key is there that is not `null`.
    pub(super) federated: bool,
    /// How many keys under the prefix that are not `null` are undefined and look like no defined one.
    pub(super) unknown: u16,
    /// Whether any of the marks is set.
    marked: bool,
    /// Start and end of each value, which cannot begin at 0; of a `null` only the start.
    marks: [(usize, usize); 8],
}

impl Place {
    pub(super) fn mark(&self, name: Name) -> Mark {
        match self.marks.get(name as usize).copied() {
            None | Some((0, _)) => Mark::Absent,
            Some((at, 0)) => Mark::Null(at),
            Some((start, end)) => Mark::Given(start, end),
        }
    }

    fn set_mark(&mut self, name: Name, mark: Mark) {
        let Some(place) = self.marks.get_mut(name as usize) else { return };
        *place = match mark {
            Mark::Absent => (0, 0),
            Mark::Null(at) => (at, 0),
            Mark::Given(start, end) => (start, end),
        };
        self.marked = true;
    }

    /// Reads the object that begins at the scanner.
    ///
    /// Errors: a fault when it is neither an object nor `null`, or when an attribute in it is odd.
    pub(super) fn read(
        &mut self,
        scanner: &mut Scanner<'_, '_>,
        field: &'static str,
        weights: &mut Option<Vec<(String, f64)>>,
    ) -> Result<(), Fault> {
        match scanner.next() {
            Some(b'{') => {
                let open = scanner.at();
                let any = scanner.object(|scanner, key| self.member(scanner, field, key, weights))?;
                self.slot = Slot::Object { open, empty: !any };
            }
            first => {
                let (start, _) = scanner.skip()?;
                if first != Some(b'n') {
                    return Err(Fault::not_an_object(field));
                }
                self.slot = Slot::Null(start);
            }
        }
        Ok(())
    }

    fn member(
        &mut self,
        scanner: &mut Scanner<'_, '_>,
        field: &'static str,
        key: Text<'_>,
        weights: &mut Option<Vec<(String, f64)>>,
    ) -> Result<(), Fault> {
        // The first letter of the prefix, unless a similar name is written otherwise: most names are none of ours.
        if !key.may_begin(b"o") && key.raw_len() < alike::BYTES_MIN && !key.begins_oddly() {
            return Ok(scanner.skip().map(drop)?);
        }
        let key = key.decode();
        let first = scanner.next();
        match Name::of(&key) {
            Some(named) => self.attribute(scanner, field, (named, first), weights),
            None => self.undefined(scanner, field, &key, first),
        }
    }

    /// Steps over the value of a name that is not defined.
    ///
    /// Errors: a fault where the name, or one nested under it, looks like a defined one; `null` counts as absent.
    fn undefined(
        &mut self,
        scanner: &mut Scanner<'_, '_>,
        field: &'static str,
        key: &str,
        first: Option<u8>,
    ) -> Result<(), Fault> {
        let unknown = match odd(key) {
            Some(Odd::Holder) if first == Some(b'{') => nested(scanner, field, key)?,
            odd => {
                scanner.skip()?;
                match odd.filter(|_| first != Some(b'n')) {
                    Some(Odd::Meant(name)) => return Err(Fault::misspelt(field, name.as_str())),
                    Some(Odd::Unknown) => 1,
                    Some(Odd::Holder) | None => 0,
                }
            }
        };
        self.federated |= unknown > 0;
        self.unknown = self.unknown.saturating_add(unknown);
        Ok(())
    }

    /// Reads the value of an attribute; of its name and whether that is spelled exactly, and its first byte.
    fn attribute(
        &mut self,
        scanner: &mut Scanner<'_, '_>,
        field: &'static str,
        ((name, exact), first): ((Name, bool), Option<u8>),
        weights: &mut Option<Vec<(String, f64)>>,
    ) -> Result<(), Fault> {
        let path = || format!("{field}.{}", name.as_str());
        if !name.is_opaque() && (!exact || !matches!(self.mark(name), Mark::Absent)) {
            return Err(Fault::ambiguous(path()));
        }
        let mark = match (name, first) {
            (_, Some(b'n')) => Mark::Null(scanner.skip()?.0),
            (Name::Weights, Some(b'{')) => {
                let start = scanner.at();
                let read = read_weights(scanner, path)?;
                // Both places may carry weights; they must then agree.
                if weights.as_ref().is_some_and(|other| !same_weights(other, &read)) {
                    return Err(Fault::contradiction(name.as_str()));
                }
                *weights = Some(read);
                Mark::Given(start, scanner.at())
            }
            (Name::Weights, _) => {
                scanner.skip()?;
                return Err(Fault::attribute(path(), "an object of region ids and numbers"));
            }
            (Name::SourceRegion | Name::RoutedAt, _) | (_, Some(b'"')) => {
                let (start, end) = scanner.skip()?;
                Mark::Given(start, end)
            }
            _ => {
                scanner.skip()?;
                return Err(Fault::attribute(path(), "a string"));
            }
        };
        self.federated |= matches!(mark, Mark::Given(..));
        if exact {
            self.set_mark(name, mark);
        }
        Ok(())
    }
}

/// Joins the attributes of the two places.
///
/// Errors: a fault when they contradict each other, or when a pin is empty.
pub(super) fn join<'b>(
    text: &'b str,
    meta: &Place,
    metadata: &Place,
    weights: Option<Vec<(String, f64)>>,
) -> Result<Attributes<'b>, Fault> {
    if !meta.marked && !metadata.marked {
        return Ok(Attributes { weights, ..Attributes::default() });
    }
    let value = |name: Name| -> Result<Option<Cow<'b, str>>, Fault> {
        let (in_meta, in_metadata) = (decoded(text, meta.mark(name)), decoded(text, metadata.mark(name)));
        if in_meta.is_some() && in_metadata.is_some() && in_meta != in_metadata {
            return Err(Fault::contradiction(name.as_str()));
        }
        Ok(in_metadata.or(in_meta))
    };
    let region = value(Name::Region)?;
    if region.as_ref().is_some_and(|region| region.is_empty()) {
        return Err(Fault::attribute(Name::Region.as_str(), "the id of a region, not an empty text"));
    }
    let given = |name| [meta, metadata].iter().any(|place| matches!(place.mark(name), Mark::Given(..)));
    Ok(Attributes {
        region,
        region_affinity: value(Name::RegionAffinity)?,
        regions_with: value(Name::RegionsWith)?,
        federation_id: value(Name::FederationId)?,
        replicated_from: value(Name::ReplicatedFrom)?,
        weights,
        source_region: given(Name::SourceRegion),
        routed_at: given(Name::RoutedAt),
    })
}

fn decoded(text: &str, mark: Mark) -> Option<Cow<'_, str>> {
    let Mark::Given(start, end) = mark else { return None };
    Some(Text::quoted(text.get(start..end)?, start).decode())
}

fn read_weights(scanner: &mut Scanner<'_, '_>, path: impl Fn() -> String) -> Result<Vec<(String, f64)>, Fault> {
    let mut weights: Vec<(String, f64)> = Vec::new();
    scanner.object(|scanner, key| {
        let text = scanner.text();
        let first = scanner.next();
        let (start, end) = scanner.skip()?;
        let number = text.get(start..end).filter(|_| matches!(first, Some(b'-' | b'0'..=b'9')));
        let weight =
            number.and_then(|digits| digits.parse::<f64>().ok()).filter(|weight| weight.is_finite() && *weight >= 0.0);
        let Some(weight) = weight else {
            return Err(Fault::attribute(path(), "an object of region ids and finite numbers from 0 up"));
        };
        let key = key.decode().into_owned();
        if weights.iter().any(|(known, _)| *known == key) {
            return Err(Fault::ambiguous(path()));
        }
        if weights.len() == WEIGHTS_MAX {
            return Err(Fault::too_many("weights", WEIGHTS_MAX));
        }
        weights.push((key, weight));
        Ok(())
    })?;
    Ok(weights)
}

fn same_weights(one: &[(String, f64)], other: &[(String, f64)]) -> bool {
    let same = |(name, weight): &(String, f64)| {
        other.iter().any(|(known, value)| known == name && value.total_cmp(weight).is_eq())
    };
    one.len() == other.len() && one.iter().all(same)
}
