//! The registry: its regions, their identity and their credentials.

use std::path::PathBuf;

use rustls_pki_types::ServerName;

use super::super::files::{FILE_KEYS, RegionFiles};
use super::super::raw::{RawRegion, RawTls};
use super::super::types::{DuplicateIds, RegionConfig, RegionSource, RegionTls, RegionUrl, ServerIdentity};
use super::super::url;
use super::collect::{Check, Registered};
use crate::base::RegionId;

/// More regions than any federation has; every one costs probes, pools and metric series.
pub const REGIONS_MAX: usize = 256;
/// The weight of a region without one.
const WEIGHT: u32 = 1;
/// The highest weight in a file of the public federation schema.
const WEIGHT_MAX_IN_SCHEMA: u32 = 100;
/// The weight of a region without one in a file of the public federation schema.
const WEIGHT_IN_SCHEMA: u32 = 100;

/// A region whose `forward_authorization` waits for the local region to be known.
#[derive(Clone)]
pub(super) struct Draft {
    /// Its place in the list as it was written, in which an item that is no section counts.
    place: usize,
    id: Option<RegionId>,
    url: Option<RegionUrl>,
    weight: u32,
    tags: Vec<String>,
    max_queue_depth: Option<u64>,
    tls: RegionTls,
    bearer_token_file: Option<PathBuf>,
    forward_authorization: Option<bool>,
    duplicate_ids: DuplicateIds,
    is_hub: bool,
}

impl Draft {
    /// The region; `None` where its id or URL is wrong, which has been reported.
    pub(super) fn resolve(self, local_region: Option<&RegionId>, credentials: &[String]) -> Option<RegionConfig> {
        let id = self.id?;
        let by_default = local_region == Some(&id) && self.bearer_token_file.is_none();
        let takes_credentials = local_region == Some(&id) || self.forward_authorization == Some(true);
        Some(RegionConfig {
            withheld_headers: if takes_credentials { Vec::new() } else { credentials.to_vec() },
            id,
            url: self.url?,
            weight: self.weight,
            tags: self.tags,
            max_queue_depth: self.max_queue_depth,
            tls: self.tls,
            bearer_token_file: self.bearer_token_file,
            forward_authorization: self.forward_authorization.unwrap_or(by_default),
            duplicate_ids: self.duplicate_ids,
            is_hub: self.is_hub,
            source: RegionSource::Static,
        })
    }
}

impl Check {
    /// Every region that is a section, in the operator's order.
    pub(super) fn regions(&mut self, raw: Vec<Option<RawRegion>>, insecure_dev: bool, in_schema: bool) -> Vec<Draft> {
        if raw.is_empty() {
            self.refuse("regions", "expected at least one region with id and url");
        }
        if raw.len() > REGIONS_MAX {
            self.refuse("regions", "expected at most 256 regions");
        }
        let weight = if in_schema { WEIGHT_IN_SCHEMA } else { WEIGHT };
        for (place, region) in raw.iter().enumerate() {
            let heavy = region.as_ref().and_then(|region| region.weight).is_some_and(|it| it > WEIGHT_MAX_IN_SCHEMA);
            if in_schema && heavy {
                let rule = "expected at most 100 in a file of schema version \"1.0\"; leave `version` out for more";
                self.refuse(&format!("regions[{place}].weight"), rule);
            }
        }
        let count = raw.len();
        let alone = count == 1 && !self.is_wrong_within("regions");
        self.warn_if(alone, "regions", "one region only: no job can fail over; a federation has two or more");
        let regions = raw.into_iter().enumerate();
        let drafts: Vec<Draft> =
            regions.filter_map(|(place, region)| Some(self.region(place, region?, insecure_dev, weight))).collect();
        self.unlike(&drafts);
        let drained = !drafts.is_empty() && drafts.len() == count && drafts.iter().all(|draft| draft.weight == 0);
        self.warn_if(drained, "regions", "every region has weight 0 and is drained: no job can be routed");
        drafts
    }

    fn region(&mut self, place: usize, raw: RawRegion, insecure_dev: bool, weight: u32) -> Draft {
        let path = &format!("regions[{place}]");
        let is_read_whole = !self.is_wrong_within(path);
        let url_path = format!("{path}.url");
        let url = match raw.url.as_deref().map(|text| url::parse(text, insecure_dev)) {
            None => Err("expected the base URL of the region's OJS server"),
            Some(url) => url,
        };
        let url = url.map_err(|rule| self.refuse(&url_path, rule)).ok();
        if raw.forward_authorization == Some(true) && raw.bearer_token_file.is_some() {
            let rule =
                "the region has a token of its own, and a request carries one Authorization: remove one of the two";
            self.refuse(&format!("{path}.forward_authorization"), rule);
        }
        let encrypted = url.as_ref().is_none_or(|url| url.tls);
        let without = raw.tls.cert.is_none() && raw.tls.key.is_none() && raw.bearer_token_file.is_none();
        let anonymous = encrypted && without && is_read_whole;
        let rule = "neither a client certificate nor a bearer token: the region cannot authenticate this sidecar";
        self.warn_if(anonymous, path, rule);
        Draft {
            place,
            id: self.region_id(&format!("{path}.id"), raw.id.as_deref()),
            tls: self.tls(&format!("{path}.tls"), raw.tls, encrypted),
            url,
            weight: raw.weight.unwrap_or(weight),
            tags: raw.tags,
            max_queue_depth: raw.max_queue_depth,
            bearer_token_file: raw.bearer_token_file,
            forward_authorization: raw.forward_authorization,
            duplicate_ids: raw.duplicate_ids.as_deref().and_then(DuplicateIds::parse).unwrap_or(DuplicateIds::Auto),
            is_hub: raw.is_hub == Some(true),
        }
    }

    fn region_id(&mut self, path: &str, text: Option<&str>) -> Option<RegionId> {
        let Some(text) = text else {
            self.refuse(path, "expected the region's id, such as eu-west-1");
            return None;
        };
        if text == "none" {
            self.refuse(path, "this id is reserved: answers that no region had a part in carry it; choose another one");
            return None;
        }
        let rule = "expected 1 to 64 lower-case letters, digits and dashes, such as eu-west-1";
        RegionId::parse(text).map_err(|_| self.refuse(path, rule)).ok()
    }

    pub(super) fn tls(&mut self, path: &str, raw: RawTls, encrypted: bool) -> RegionTls {
        match (&raw.cert, &raw.key) {
            (Some(_), None) => {
                self.refuse(&format!("{path}.key"), "expected the private key of the certificate in cert")
            }
            (None, Some(_)) => {
                self.refuse(&format!("{path}.cert"), "expected the certificate of the private key in key")
            }
            _ => {}
        }
        let used = raw.ca.is_some() || raw.cert.is_some() || raw.server_name.is_some() || raw.uri_san.is_some();
        self.warn_if(used && !encrypted, path, "not used: the URL is http and the connection is not encrypted");
        let identity = match (raw.server_name, raw.uri_san) {
            (None, None) => ServerIdentity::UrlHost,
            (Some(_), Some(_)) => {
                self.refuse(&format!("{path}.uri_san"), "a server proves one identity: keep server_name or uri_san");
                ServerIdentity::UrlHost
            }
            (Some(name), None) => {
                if ServerName::try_from(name.as_str()).is_err() {
                    self.refuse(&format!("{path}.server_name"), "expected a host name or address without port");
                }
                ServerIdentity::Name(name)
            }
            (None, Some(uri)) => {
                if !is_uri(&uri) {
                    self.refuse(&format!("{path}.uri_san"), "expected a URI, such as spiffe://example.org/ojs");
                }
                ServerIdentity::Uri(uri)
            }
        };
        RegionTls { ca: raw.ca, cert: raw.cert, key: raw.key, identity }
    }

    /// Ids must differ; the same URL twice is allowed and most likely a slip of the hand that voids a pin.
    fn unlike(&mut self, drafts: &[Draft]) {
        for (at, draft) in drafts.iter().enumerate() {
            let before = &drafts[..at];
            let place = draft.place;
            if draft.id.is_some() && before.iter().any(|other| other.id == draft.id) {
                self.refuse(&format!("regions[{place}].id"), "another region has this id: every id is unique");
            }
            let same_place = |other: &&Draft| match (&other.url, &draft.url) {
                (Some(a), Some(b)) => (&a.host, a.port, &a.base_path) == (&b.host, b.port, &b.base_path),
                _ => false,
            };
            let twice = before.iter().find(same_place).is_some();
            self.warn_if(
                twice,
                &format!("regions[{place}].url"),
                "another region has this URL: a pin cannot distinguish the two",
            );
        }
    }

    /// The files of a region, with the data to check them by.
    pub(super) fn region_files(&self, draft: &Draft, local_region: Option<&RegionId>) -> RegionFiles {
        let section = format!("regions[{}]", draft.place);
        // Only these keys decide whether the files fit; a repeated id or a wrong weight does not change them.
        let is_right = draft.id.is_some()
            && !self.problems.contains_key(&section)
            && !["url", "tls", "bearer_token_file", "forward_authorization"]
                .iter()
                .any(|key| self.is_wrong_within(&format!("{section}.{key}")));
        let at = |key: &str| self.origins.problem(&format!("regions[{}]{key}", draft.place), "");
        RegionFiles {
            place: draft.place,
            named: FILE_KEYS.map(|key| at(&format!(".{key}"))),
            whole: at(""),
            tls: draft.tls.clone(),
            bearer_token_file: draft.bearer_token_file.clone(),
            region: is_right.then(|| draft.clone().resolve(local_region, &[])).flatten(),
        }
    }

    pub(super) fn registered(&self, drafts: &[Draft]) -> Registered {
        let ids = drafts.iter().filter_map(|draft| draft.id.clone()).collect();
        let no_section = |path: &String| path == "regions" || path.starts_with("regions[") && !path.contains("].");
        let complete = drafts.iter().all(|draft| draft.id.is_some()) && !self.problems.keys().any(no_section);
        let tagged = drafts.iter().filter_map(|draft| Some((draft.id.clone()?, draft.tags.clone())));
        Registered { ids, tags: tagged.collect(), complete }
    }

    pub(super) fn local_region(
        &mut self,
        registered: &Registered,
        drafts: &[Draft],
        name: Option<&str>,
    ) -> Option<RegionId> {
        if let Some(name) = name {
            return self.named(registered, "local_region", name);
        }
        let first = drafts.first().filter(|draft| draft.place == 0).and_then(|draft| draft.id.clone());
        if first.is_some() && !self.problems.contains_key("local_region") {
            self.warn("local_region", "not set: the first region under regions is taken as the local one");
        }
        first
    }
}

pub(super) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let starts = scheme.starts_with(|char: char| char.is_ascii_alphabetic());
    starts
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_graphic())
}
