//! The discovery of regions: its sources, and the proof that each region owes.

use std::net::SocketAddr;

use rustls_pki_types::ServerName;

use super::super::files::{FILE_KEYS, RegionFiles};
use super::super::raw::{RawDiscovery, RawDns, RawTls};
use super::super::types::{
    DiscoveryConfig, DiscoveryDefaults, DnsDiscovery, REGION_IN_IDENTITY, RegionSource, Sighting, Topology,
};
use super::super::url;
use super::collect::Check;
use super::region::{REGIONS_MAX, is_uri};
use crate::base::RegionId;
use crate::base::text::parse_duration;

/// More patterns are a list of ids, which has its place under `regions`.
const PATTERNS_MAX: usize = 64;
/// As many as a resolver's file holds, and some.
const SERVERS_MAX: usize = 8;
/// An id of the greatest length, for judging the template.
const ANY_ID: &str = "region";

impl Check {
    /// Discovery, where one of its sources is set.
    pub(super) fn discovery(
        &mut self,
        raw: RawDiscovery,
        topology: Topology,
        regions: usize,
        has_hub: bool,
    ) -> Option<DiscoveryConfig> {
        let begun =
            !raw.allow.is_empty() || raw.identity.is_some() || raw.cache.is_some() || !raw.dns.servers.is_empty();
        if raw.dns.name.is_none() && raw.directory.is_none() && !raw.hub {
            if (begun || raw.defaults.tls != RawTls::default()) && !self.is_wrong_within("discovery") {
                let rule = "expected a source of regions: set discovery.dns.name, discovery.directory or discovery.hub, or leave discovery out";
                self.refuse("discovery", rule);
            }
            return None;
        }
        if raw.hub && !has_hub && !self.is_wrong_within("hub") {
            let rule =
                "the regions of a hub come by its feed, and there is no hub: set hub.urls, or leave discovery.hub out";
            self.refuse("discovery.hub", rule);
        }
        if topology == Topology::HubSpoke {
            let rule = "there is no discovery with `topology: hub-spoke`: a spoke knows the regions that its hub and its file name; leave discovery \
                        out, or set `topology: mesh`";
            self.refuse("discovery", rule);
        }
        if regions + raw.regions_max > REGIONS_MAX {
            let rule = format!(
                "expected at most {}, so that there are {REGIONS_MAX} regions at most",
                REGIONS_MAX.saturating_sub(regions)
            );
            self.refuse("discovery.regions_max", &rule);
        }
        if let (Some(cache), Some(directory)) = (&raw.cache, &raw.directory)
            && cache.starts_with(directory)
        {
            let rule = "expected a path outside of discovery.directory, whose files are each a region";
            self.refuse("discovery.cache", rule);
        }
        self.patterns(&raw.allow);
        let identity = self.identity_template(raw.identity);
        if raw.defaults.tls.cert.is_none() && !self.is_wrong_within("discovery.defaults.tls") {
            let rule = "no client certificate: a discovered region cannot authenticate this sidecar";
            self.warn("discovery.defaults.tls.cert", rule);
        }
        let dns = self.dns(raw.dns);
        let tls = self.tls("discovery.defaults.tls", raw.defaults.tls, true);
        let interval = parse_duration(&raw.interval).ok()?;
        Some(DiscoveryConfig {
            dns,
            directory: raw.directory,
            hub: raw.hub,
            allow: raw.allow,
            identity: identity?,
            interval,
            regions_max: raw.regions_max,
            changes_per_minute: raw.changes_per_minute,
            trust_tags: raw.trust_tags,
            cache: raw.cache,
            defaults: DiscoveryDefaults {
                weight: raw.defaults.weight,
                tags: raw.defaults.tags,
                max_queue_depth: raw.defaults.max_queue_depth,
                tls,
            },
        })
    }

    fn patterns(&mut self, allow: &[String]) {
        if allow.is_empty() && !self.is_wrong_within("discovery.allow") {
            let rule = "expected the globs that ids of discovered regions must fit, such as [\"eu-*\"]; [\"*\"] lets every id in";
            self.refuse("discovery.allow", rule);
        }
        if allow.len() > PATTERNS_MAX {
            self.refuse("discovery.allow", &format!("expected at most {PATTERNS_MAX} patterns"));
        }
    }

    fn identity_template(&mut self, template: Option<String>) -> Option<String> {
        let expected = "expected a URI with {region} once, such as spiffe://prod/{region}: the certificate of a discovered region must show it with \
                        its id";
        let fits = |text: &String| {
            text.matches(REGION_IN_IDENTITY).count() == 1 && is_uri(&text.replacen(REGION_IN_IDENTITY, ANY_ID, 1))
        };
        let template = template.filter(fits);
        if template.is_none() && !self.is_wrong_within("discovery.identity") {
            self.refuse("discovery.identity", expected);
        }
        template
    }

    fn dns(&mut self, raw: RawDns) -> Option<DnsDiscovery> {
        if raw.servers.len() > SERVERS_MAX {
            self.refuse("discovery.dns.servers", &format!("expected at most {SERVERS_MAX} name servers"));
        }
        let mut servers = Vec::with_capacity(raw.servers.len());
        for (place, text) in raw.servers.iter().enumerate() {
            match text.parse::<SocketAddr>() {
                Ok(server) => servers.push(server),
                Err(_) => {
                    let rule = "expected an address with a port, such as 10.0.0.2:53 or [fd00::2]:53";
                    self.refuse(&format!("discovery.dns.servers[{place}]"), rule);
                }
            }
        }
        let Some(name) = raw.name else {
            if !raw.servers.is_empty() {
                self.refuse(
                    "discovery.dns.name",
                    "expected the name of the SRV records, such as _ojs._tcp.example.com",
                );
            }
            return None;
        };
        let name = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
        if !is_service_name(&name) {
            self.refuse("discovery.dns.name", "expected the name of SRV records, such as _ojs._tcp.example.com");
        }
        Some(DnsDiscovery { name, servers })
    }

    /// The files that every discovered region has, held against a region with a made-up id.
    pub(super) fn discovery_files(&self, discovery: &DiscoveryConfig) -> RegionFiles {
        let section = "discovery.defaults";
        let sample = || {
            let url = url::parse("https://region.invalid", false).ok()?;
            let id = RegionId::parse(ANY_ID).ok()?;
            let seen = Sighting { id, source: RegionSource::Dns, url, weight: None, tags: Vec::new() };
            Some(discovery.region(&seen, &[]))
        };
        RegionFiles {
            place: 0,
            named: FILE_KEYS.map(|key| self.origins.problem(&format!("{section}.{key}"), "")),
            whole: self.origins.problem(section, ""),
            tls: discovery.defaults.tls.clone(),
            bearer_token_file: None,
            region: if self.is_wrong_within("discovery") { None } else { sample() },
        }
    }
}

/// `_service._proto.domain`; the labels of services begin with an underscore, which is no part of a host name.
fn is_service_name(name: &str) -> bool {
    let mut labels = name.splitn(3, '.');
    let mut is_service = || {
        let label = labels.next().and_then(|label| label.strip_prefix('_'));
        label.is_some_and(|it| {
            !it.is_empty() && it.len() < 63 && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    };
    is_service()
        && is_service()
        && labels
            .next()
            .is_some_and(|domain| ServerName::try_from(domain).is_ok_and(|it| matches!(it, ServerName::DnsName(_))))
}
