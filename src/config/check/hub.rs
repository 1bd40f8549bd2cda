//! The hub: its URL, its identity, and ours.

use super::super::raw::RawHub;
use super::super::sections::Idempotency;
use super::super::types::{
    Decide, FetchWith, HealthSource, HubConfig, KeyScope, Ledger, ListReplicas, RegionUrl, RepeatedIds, Topology,
};
use super::super::url;
use super::collect::Check;
use super::topology::{decide, decide_cache, decide_wait, lease};

/// More replicas of one hub are a mistake.
const URLS_MAX: usize = 16;

/// When workers get jobs.
pub(super) fn fetch(raw: &RawHub) -> FetchWith {
    raw.fetch.as_deref().and_then(FetchWith::parse).unwrap_or(FetchWith::Always)
}

impl Check {
    /// A hub's views need a hub.
    pub(super) fn health_source(&mut self, source: HealthSource, has_hub: bool) {
        if source == HealthSource::Hub && !has_hub {
            self.refuse(
                "health_check.source",
                "`hub` needs hub.urls: set that, too, or `own`, so that this sidecar probes by itself",
            );
        }
    }

    /// Replicas of lists need a hub.
    pub(super) fn list_replicas(&mut self, replicas: ListReplicas, has_hub: bool) {
        if replicas == ListReplicas::Mark && !has_hub {
            let rule = "`mark` needs hub.urls, because the index of the hub answers: set that, too, or `off`, or leave lists.replicas out";
            self.refuse("lists.replicas", rule);
        }
    }

    /// Keys that all sidecars know need a hub, and a word about its loss.
    pub(super) fn key_scope(&mut self, keys: &Idempotency, has_hub: bool) {
        if keys.scope == KeyScope::Sidecar {
            return;
        }
        if !has_hub {
            let rule = "`hub` needs hub.urls: set that, too, or `sidecar`, so that keys are known to one sidecar only";
            self.refuse("idempotency.scope", rule);
        }
        if !keys.enabled {
            self.refuse(
                "idempotency.scope",
                "`hub` has no effect with `idempotency.enabled: false`: leave one of them out",
            );
        }
        if keys.on_hub_loss.is_none() {
            let rule = "expected local or refuse: with `idempotency.scope: hub` a job with a key whose hub is away is either sent under a key of \
                        this sidecar alone, or refused";
            self.refuse("idempotency.on_hub_loss", rule);
        }
    }

    /// The hub, where `hub.urls` is set.
    pub(super) fn hub(&mut self, raw: RawHub, topology: Topology) -> Option<HubConfig> {
        let fetch = fetch(&raw);
        if raw.urls.is_empty() {
            let is_begun = raw.name.is_some()
                || raw.report_jobs == Some(true)
                || raw.ledger.as_deref() == Some(Ledger::Metadata.as_str())
                || !raw.report_bodies.is_empty()
                || raw.repeated_ids.is_some()
                || decide(&raw) == Decide::Ask
                || fetch == FetchWith::Heard
                || raw.tls != super::super::raw::RawTls::default();
            if is_begun {
                self.refuse("hub.urls", "expected the URL of the hub, such as https://hub.example.com:8443");
            }
            return None;
        }
        if raw.urls.len() > URLS_MAX {
            self.refuse("hub.urls", &format!("expected at most {URLS_MAX} URLs"));
        }
        let urls: Vec<_> = raw.urls.iter().filter_map(|text| self.hub_url(text)).collect();
        if raw.tls.cert.is_none() && raw.tls.key.is_none() {
            self.refuse("hub.tls.cert", "expected a client certificate: a hub knows its sidecars by it");
        }
        if raw.name.as_ref().is_some_and(|name| !name.bytes().all(|byte| byte.is_ascii_graphic())) {
            self.refuse("hub.name", "expected visible ASCII without spaces");
        }
        let lease = lease(&raw);
        let (decide, decide_cache, decide_wait) = (decide(&raw), decide_cache(&raw), decide_wait(&raw));
        let tls = self.tls("hub.tls", raw.tls, true);
        let report_jobs = raw.report_jobs.unwrap_or(false);
        let report_bodies = raw.report_bodies;
        if !report_jobs && !report_bodies.is_empty() {
            self.refuse(
                "hub.report_bodies",
                "needs `hub.report_jobs: true`, because the end of a job takes its bytes away: set that, too, or leave this out",
            );
        }
        let ledger = raw.ledger.as_deref().and_then(Ledger::parse).unwrap_or(Ledger::Off);
        if ledger == Ledger::Metadata && !report_jobs {
            self.refuse(
                "hub.ledger",
                "`metadata` needs `hub.report_jobs: true`, because the ledger is made of these reports: set that, too, or leave this out",
            );
        }
        let repeated_ids = self.repeated_ids(raw.repeated_ids.as_deref(), topology, report_jobs);
        let name = raw.name;
        let hub = HubConfig {
            urls,
            tls,
            name,
            report_jobs,
            ledger,
            report_bodies,
            repeated_ids,
            lease,
            fetch,
            decide,
            decide_cache,
            decide_wait,
        };
        Some(hub).filter(|hub| !hub.urls.is_empty())
    }

    /// The fate of an enqueue with a repeated `federation_id`.
    fn repeated_ids(&mut self, raw: Option<&str>, topology: Topology, report_jobs: bool) -> RepeatedIds {
        let default = if topology == Topology::ActiveActive { RepeatedIds::Refuse } else { RepeatedIds::Pass };
        let Some(said) = raw.and_then(RepeatedIds::parse) else { return default };
        if said == RepeatedIds::Refuse && !report_jobs {
            let rule = "`refuse` needs `hub.report_jobs: true`, because only a hub that gets the ids of jobs is asked about one: set that, too, or \
                        `pass`, or leave hub.repeated_ids out";
            self.refuse("hub.repeated_ids", rule);
        }
        said
    }

    fn hub_url(&mut self, text: &str) -> Option<RegionUrl> {
        match url::parse(text, true) {
            Ok(url) if url.tls => return Some(url),
            Ok(_) => self.refuse("hub.urls", "expected https: a hub is reached over mutual TLS only"),
            Err(rule) => self.refuse("hub.urls", rule),
        }
        None
    }
}
