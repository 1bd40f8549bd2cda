//! The words of a source on its regions: the reading of TXT records and of files.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::base::RegionId;
use crate::config::{RegionSource, RegionUrl, Sighting, parse_url};

/// The highest weight, as in the file. The lowest is 1: at 0 a region gets no job, so that one look would do the work of two.
const WEIGHT_MAX: u32 = 1_000_000;
/// A region has a few tags; each is one more text to show.
const TAGS_MAX: usize = 32;
/// The longest tag, as in the file.
const TAG_BYTES_MAX: usize = 256;

/// The answer of one source at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Which source.
    pub source: RegionSource,
    /// Its regions, those that it prefers first.
    pub sightings: Vec<Sighting>,
    /// The places that could not be read, such as a file or the target of a record.
    pub malformed: Vec<(String, MalformedError)>,
    /// Whether a region that is not named is not there: every part of the answer was read.
    pub is_complete: bool,
}

/// Why a region is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rejection {
    /// Its id fits no pattern of `discovery.allow`.
    NotAllowed,
    /// The certificate at its address shows no identity of its id.
    Identity,
    /// The source's text is none of a region.
    Malformed,
    /// The source names its id twice, with different addresses.
    Ambiguous,
    /// There are `discovery.regions_max` regions already.
    Full,
    /// The file has a region with its id, which wins.
    Static,
}

impl Rejection {
    /// The label of its metric.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::Identity => "identity",
            Self::Malformed => "malformed",
            Self::Ambiguous => "ambiguous",
            Self::Full => "full",
            Self::Static => "static",
        }
    }
}

/// Something that is turned away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejected {
    /// Why.
    pub why: Rejection,
    /// The id of the region, or the place of a text that cannot be read.
    pub about: String,
}

/// The rule that a source's text breaks; holds nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedError(pub &'static str);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: String,
    url: String,
    weight: Option<u32>,
    #[serde(default)]
    tags: Vec<String>,
}

/// The region of a file: YAML or JSON with `id` and `url`, and perhaps `weight` and `tags`.
///
/// Errors: the rule that it breaks.
pub fn of_file(text: &str) -> Result<Sighting, MalformedError> {
    let expected = MalformedError("expected id and url, and perhaps weight and tags, and no other key");
    let file: File = serde_saphyr::from_str(text).map_err(|_| expected)?;
    Ok(of_parts(RegionSource::Directory, &file.id, &file.url, file.weight, file.tags)?)
}

/// The region of a SRV record by the TXT records at its target: `region=ID`, and perhaps `weight=N` and `tags=a,b`. Other texts
/// are for others.
///
/// Errors: the rule that they break.
pub fn of_texts<'t>(
    target: &str,
    port: u16,
    texts: impl IntoIterator<Item = &'t str>,
) -> Result<Sighting, MalformedError> {
    let (mut id, mut weight, mut tags) = (None, None, None);
    for text in texts {
        let Some((key, value)) = text.split_once('=') else { continue };
        let slot = match key {
            "region" => &mut id,
            "weight" => &mut weight,
            "tags" => &mut tags,
            _ => continue,
        };
        if slot.replace(value).is_some_and(|before| before != value) {
            return Err(MalformedError("the TXT records of the target say two values of one key"));
        }
    }
    let id = id.ok_or(MalformedError("expected a TXT record at the target with region=ID"))?;
    let weight = weight.map(|weight| weight.parse().map_err(|_| MalformedError("expected a whole number in weight=")));
    let tags =
        tags.map(|tags| tags.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect());
    let url = format!("https://{target}:{port}");
    Ok(of_parts(RegionSource::Dns, id, &url, weight.transpose()?, tags.unwrap_or_default())?)
}

/// A part of a region that breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartError {
    /// Its key, as in a file.
    pub key: &'static str,
    /// The rule; holds nothing of the value.
    pub rule: &'static str,
}

impl From<PartError> for MalformedError {
    fn from(error: PartError) -> Self {
        Self(error.rule)
    }
}

/// The region of these parts.
///
/// Errors: the rule that one of them breaks.
pub fn of_parts(
    source: RegionSource,
    id: &str,
    url: &str,
    weight: Option<u32>,
    tags: Vec<String>,
) -> Result<Sighting, PartError> {
    let wrong = |key, rule| PartError { key, rule };
    let id = RegionId::parse(id).ok().filter(|id| id.as_str() != "none");
    let id = id.ok_or(wrong("id", "the id is 1 to 64 lower-case letters, digits and dashes, and not `none`"))?;
    let url: RegionUrl = parse_url(url).map_err(|rule| wrong("url", rule))?;
    if !url.tls {
        return Err(wrong("url", "expected https: a discovered region proves its identity by its certificate"));
    }
    if weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
        return Err(wrong("weight", "the weight is a whole number from 1 to 1000000"));
    }
    let is_tag = |tag: &String| {
        (1..=TAG_BYTES_MAX).contains(&tag.len()) && !tag.contains(|it: char| it == ',' || it.is_control())
    };
    if tags.len() > TAGS_MAX || !tags.iter().all(is_tag) {
        return Err(wrong("tags", "there are at most 32 tags of 1 to 256 bytes, without commas"));
    }
    let tags = tags.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    Ok(Sighting { id, source, url, weight, tags })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn txt_records_name_a_region_its_weight_and_its_tags() {
        let seen = of_texts("eu.example.com", 8443, ["v=spf1", "region=eu-west-1", "tags=b, a", "weight=7"]).unwrap();
        assert_eq!((seen.id.as_str(), seen.url.text.as_str()), ("eu-west-1", "https://eu.example.com:8443"));
        assert_eq!((seen.weight, seen.tags), (Some(7), vec!["a".to_owned(), "b".to_owned()]));
        for bad in [
            &["weight=1"][..],
            &["region=EU"],
            &["region=none"],
            &["region=a", "region=b"],
            &["region=a", "weight=-1"],
            &["region=a", "weight=0"],
            &["region=a", "weight=1000001"],
        ] {
            assert!(of_texts("eu.example.com", 1, bad.iter().copied()).is_err(), "{bad:?}");
        }
        assert!(of_texts("no host/../x", 1, ["region=a"]).is_err());
    }

    #[test]
    fn a_file_names_one_region_over_https_and_nothing_else() {
        let seen = of_file("id: eu-west-1\nurl: https://eu.example.com/ojs\nweight: 3\n").unwrap();
        assert_eq!((seen.url.base_path.as_str(), seen.weight, seen.tags.len()), ("/ojs", Some(3), 0));
        assert!(of_file(r#"{"id": "a", "url": "https://a.example.com"}"#).is_ok());
        for bad in [
            "id: a",
            "id: a\nurl: http://127.0.0.1:1",
            "id: a\nurl: https://u:p@a.b",
            "id: a\nurl: https://a.b\ntls: {}",
            "[",
        ] {
            assert!(of_file(bad).is_err(), "{bad}");
        }
    }
}
