//! The discovery of regions beside those of the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{DuplicateIds, RegionConfig, RegionSource, RegionTls, RegionUrl, ServerIdentity};
use crate::base::RegionId;

/// The place of the region's id in [`DiscoveryConfig::identity`].
pub const REGION_IN_IDENTITY: &str = "{region}";

/// Where regions are discovered, and the proof that each of them owes.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveryConfig {
    /// The name server's records; at least one of this, the directory and the hub is there.
    pub dns: Option<DnsDiscovery>,
    /// A directory with a file a region.
    pub directory: Option<PathBuf>,
    /// Whether the regions that operators have put at the hub are taken from its feed.
    pub hub: bool,
    /// Globs over ids; an id that fits none is turned away. At least one.
    pub allow: Vec<String>,
    /// The URI that the certificate of a region shows, with [`REGION_IN_IDENTITY`] once.
    pub identity: String,
    /// Between two looks at a source; for DNS longer where a record lives longer.
    pub interval: Duration,
    /// The most regions that are discovered.
    pub regions_max: usize,
    /// The most changes in a minute.
    pub changes_per_minute: usize,
    /// Whether the tags of a source count where jobs ask for `regions_with`.
    pub trust_tags: bool,
    /// The file of discovered regions; without one they are known for the life of the process.
    pub cache: Option<PathBuf>,
    /// The settings that a source cannot say.
    pub defaults: DiscoveryDefaults,
}

/// The records of a name server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsDiscovery {
    /// The name of the SRV records, without a dot at its end.
    pub name: String,
    /// The name servers; those of the operating system when empty.
    pub servers: Vec<SocketAddr>,
}

/// The settings of every discovered region that a source cannot say.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveryDefaults {
    /// Its weight where the source names none.
    pub weight: u32,
    /// Its tags; those of a trusted source come on top.
    pub tags: Vec<String>,
    /// As `max_queue_depth` of a region.
    pub max_queue_depth: Option<u64>,
    /// Trust roots and our certificate; the identity is that of the template.
    pub tls: RegionTls,
}

/// The word of a source on a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Its id.
    pub id: RegionId,
    /// The source.
    pub source: RegionSource,
    /// Its base URL; always `https`.
    pub url: RegionUrl,
    /// Its weight, where the source names one.
    pub weight: Option<u32>,
    /// The tags that the source claims.
    pub tags: Vec<String>,
}

impl DiscoveryConfig {
    /// Whether regions of this source are looked for.
    #[must_use]
    pub const fn has(&self, source: RegionSource) -> bool {
        match source {
            RegionSource::Directory => self.directory.is_some(),
            RegionSource::Hub => self.hub,
            RegionSource::Dns => self.dns.is_some(),
            RegionSource::Static => false,
        }
    }

    /// The URI that the certificate of a region shows.
    #[must_use]
    pub fn identity_of(&self, id: &RegionId) -> String {
        self.identity.replacen(REGION_IN_IDENTITY, id.as_str(), 1)
    }

    /// The region of a sighting. `withheld`: the headers with credentials, none of which goes to a discovered region.
    #[must_use]
    pub fn region(&self, seen: &Sighting, withheld: &[String]) -> RegionConfig {
        let mut tags = self.defaults.tags.clone();
        if self.trust_tags {
            tags.extend(seen.tags.iter().filter(|tag| !self.defaults.tags.contains(tag)).cloned());
        }
        RegionConfig {
            id: seen.id.clone(),
            url: seen.url.clone(),
            weight: seen.weight.unwrap_or(self.defaults.weight),
            tags,
            max_queue_depth: self.defaults.max_queue_depth,
            tls: RegionTls { identity: ServerIdentity::Uri(self.identity_of(&seen.id)), ..self.defaults.tls.clone() },
            bearer_token_file: None,
            forward_authorization: false,
            duplicate_ids: DuplicateIds::Auto,
            is_hub: false,
            withheld_headers: withheld.to_vec(),
            source: seen.source,
        }
    }
}
