//! The evidence of a connection about a request that got no answer.
//!
//! Two facts prove that a request was not sent, whatever error the connection ended with. Either no byte left since the
//! request was given to it. Or the region rejected our certificate: in TLS 1.3 our side of the handshake is complete,
//! and may write, before the region has checked the certificate; it rejects by an alert, and a region that rejects
//! never opened the records behind the handshake. Spec: RFC 8446 §4.4.2.4, §6.2.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustls::AlertDescription;

use super::incoming_body::Awaited;

/// Facts of one connection. Only one thread touches it; an upgraded connection must nevertheless be one that could move.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    written: AtomicU64,
    heard: AtomicBool,
    rejected: AtomicBool,
    /// The answer that is awaited.
    pub(super) answer: Awaited,
}

impl Evidence {
    /// How many bytes the connection has given to the system so far, or will give to it at the end of this turn.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Whether the region rejected our certificate, and with it everything that was sent.
    pub(super) fn is_rejected(&self) -> bool {
        self.rejected.load(Relaxed)
    }

    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Relaxed);
    }

    /// The system did not take so many of them after all.
    pub(super) fn took_back(&self, bytes: usize) {
        self.written.fetch_sub(u64::try_from(bytes).unwrap_or(u64::MAX), Relaxed);
    }

    /// Application data came: the region has accepted the handshake, so that no later alert is about it.
    pub(super) fn heard(&self) {
        self.heard.store(true, Relaxed);
    }

    /// Takes the error that reading ended with.
    pub(super) fn failed(&self, error: &io::Error) {
        if !self.heard.load(Relaxed) && is_about_our_certificate(error) {
            self.rejected.store(true, Relaxed);
        }
    }
}

fn is_about_our_certificate(error: &io::Error) -> bool {
    use AlertDescription as Alert;
    let Some(rustls::Error::AlertReceived(alert)) = error.get_ref().and_then(|cause| cause.downcast_ref()) else {
        return false;
    };
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(heard: bool, error: rustls::Error, rejected: bool) {
        let evidence = Evidence::default();
        if heard {
            evidence.heard();
        }
        let text = error.to_string();
        evidence.failed(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(evidence.is_rejected(), rejected, "{text}, heard: {heard}");
    }

    #[test]
    fn only_a_verdict_on_our_certificate_before_any_data_proves_that_nothing_was_read() {
        let alert = rustls::Error::AlertReceived;
        check(false, alert(AlertDescription::CertificateRequired), true);
        check(false, alert(AlertDescription::UnknownCA), true);
        check(true, alert(AlertDescription::CertificateRequired), false);
        check(false, alert(AlertDescription::InternalError), false);
        check(false, alert(AlertDescription::CloseNotify), false);
        check(false, rustls::Error::DecryptError, false);
        let evidence = Evidence::default();
        evidence.failed(&io::ErrorKind::ConnectionReset.into());
        assert!(!evidence.is_rejected());
    }
}
