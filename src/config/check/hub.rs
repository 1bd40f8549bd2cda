//! The hub: its URL, its identity, and ours.

use super::super::raw::RawHub;
use super::super::types::HubConfig;
use super::super::url;
use super::collect::Check;

impl Check {
    /// The hub, where `hub.url` is set.
    pub(super) fn hub(&mut self, raw: RawHub) -> Option<HubConfig> {
        let Some(text) = raw.url else {
            let is_begun = raw.name.is_some() || raw.tls != super::super::raw::RawTls::default();
            if is_begun {
                self.refuse("hub.url", "expected the URL of the hub, such as https://hub.example.com:8443");
            }
            return None;
        };
        let url = match url::parse(&text, true) {
            Ok(url) if url.tls => Some(url),
            Ok(_) => {
                self.refuse("hub.url", "expected https: a hub is reached over mutual TLS only");
                None
            }
            Err(rule) => {
                self.refuse("hub.url", rule);
                None
            }
        };
        if raw.tls.cert.is_none() && raw.tls.key.is_none() {
            self.refuse("hub.tls.cert", "expected a client certificate: a hub knows its sidecars by it");
        }
        if raw.name.as_ref().is_some_and(|name| !name.bytes().all(|byte| byte.is_ascii_graphic())) {
            self.refuse("hub.name", "expected visible ASCII without spaces");
        }
        let tls = self.tls("hub.tls", raw.tls, true);
        Some(HubConfig { url: url?, tls, name: raw.name })
    }
}
