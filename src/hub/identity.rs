//! The hub's side of TLS: its certificate, the authorities of its clients, and the names in a client's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;

use super::settings::HubTls;

/// Why the TLS files of a hub cannot be used. Says neither path nor content: a secret pasted in place of a path must not be shown.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {cause}")]
pub struct IdentityError {
    key: &'static str,
    cause: String,
}

fn wrong(key: &'static str) -> impl Fn(String) -> IdentityError {
    move |cause| IdentityError { key, cause }
}

/// The content of the TLS files, so that a change is seen by its bytes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Vec<u8>,
}

impl std::fmt::Debug for Files {
    // The key must never be printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files")
    }
}

impl Files {
    pub(super) fn read(tls: &HubTls) -> Result<Self, IdentityError> {
        let read = |key, path: &Path| {
            std::fs::read(path).map_err(|error| wrong(key)(format!("expected the path of a PEM file: {error}")))
        };
        Ok(Self {
            cert: read("tls.cert", &tls.cert)?,
            key: read("tls.key", &tls.key)?,
            client_ca: read("tls.client_ca", &tls.client_ca)?,
        })
    }

    /// The configuration for rustls: TLS 1.3, a client certificate of one of the authorities, no resumption, because a resumed session would
    /// keep an identity that was withdrawn. `with_tokens`: clients may have no certificate, but none of another authority.
    pub(super) fn config(&self, with_tokens: bool) -> Result<Arc<ServerConfig>, IdentityError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in certificates("tls.client_ca", &self.client_ca)? {
            roots.add(authority).map_err(|error| wrong("tls.client_ca")(error.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = if with_tokens { verifier.allow_unauthenticated() } else { verifier };
        let verifier = verifier.build().map_err(|error| wrong("tls.client_ca")(error.to_string()))?;
        let chain = certificates("tls.cert", &self.cert)?;
        // The parser's own words may quote the file, which may be a private key.
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| wrong("tls.key")("expected a PEM private key; the file holds something else".to_owned()))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| wrong("tls")(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| wrong("tls.cert")(format!("certificate and key cannot be used together: {error}")))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(key: &'static str, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|_| wrong(key)("expected PEM certificates; the file holds something else".to_owned()))?;
    if found.is_empty() {
        Err(wrong(key)("expected PEM certificates; the file holds none".to_owned()))
    } else {
        Ok(found)
    }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The URIs and DNS names in a certificate. A text with spaces or control characters is neither.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::URI(text) | GeneralName::DNSName(text) if is_visible(text) => Some((*text).to_owned()),
        _ => None,
    };
    names.value.general_names.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    #[test]
    fn no_name_in_a_certificate_can_be_that_of_a_token() {
        let mut params = CertificateParams::new(["ann.test".to_owned()]).unwrap();
        let uris = ["spiffe://test/ann", "token https://sso.test#ann", "a\nb"];
        params.subject_alt_names.extend(uris.map(|it| SanType::URI(it.try_into().unwrap())));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(names(certificate.der()), ["ann.test", "spiffe://test/ann"]);
    }
}
