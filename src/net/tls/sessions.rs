//! A region's TLS sessions, which end with the certificates that they were made with: a resumed handshake looks at none.

use std::sync::Arc;

use parking_lot::Mutex;
use rustls::NamedGroup;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

use crate::base::{SystemTime, Time as _};

/// The default of rustls: eight tickets are kept of one region.
const KEPT: usize = 256;

/// The sessions of one identity with one region.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    cache: Arc<ClientSessionMemoryCache>,
    /// When the first certificate ends that a session was made with. Units: milliseconds since the Unix epoch.
    ends_ms: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self { cache: Arc::new(ClientSessionMemoryCache::new(KEPT)), ends_ms: u64::MAX }
    }
}

impl Sessions {
    /// Forgets at this time all sessions that are there then.
    pub(in crate::net) fn end_by(&self, unix_ms: u64) {
        let mut kept = self.0.lock();
        kept.ends_ms = kept.ends_ms.min(unix_ms);
    }

    fn at(&self, now_ms: u64) -> Arc<ClientSessionMemoryCache> {
        let mut kept = self.0.lock();
        if kept.ends_ms <= now_ms {
            *kept = Kept::default();
        }
        Arc::clone(&kept.cache)
    }

    fn now(&self) -> Arc<ClientSessionMemoryCache> {
        self.at(SystemTime.unix_ms())
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.now().set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.now().kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.now().set_tls12_session(server_name, value);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.now().tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.now().remove_tls12_session(server_name);
    }

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.now().insert_tls13_ticket(server_name, value);
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.now().take_tls13_ticket(server_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_there_at_the_first_end_is_there_behind_it() {
        let sessions = Sessions::default();
        sessions.end_by(2_000);
        sessions.end_by(5_000);
        let before = sessions.at(1_999);
        assert!(Arc::ptr_eq(&before, &sessions.at(1_000)));
        let behind = sessions.at(2_000);
        assert!(!Arc::ptr_eq(&before, &behind));
        assert!(Arc::ptr_eq(&behind, &sessions.at(5_001)), "the next ones end with their own certificates");
    }
}
