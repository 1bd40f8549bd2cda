//! The server's side of TLS: its identity, the clients that it lets in, and their certificates.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::certs::Identity;

/// How a region is secured.
#[derive(Debug, Clone)]
pub struct RegionTls {
    /// The region's identity.
    pub server: Identity,
    /// Where given, clients have to show a certificate of one of these authorities.
    pub client_ca_pem: Option<String>,
}

/// The configuration for one identity. Each has session storage of its own, so that nothing is resumed across a change.
///
/// Errors: `InvalidInput` with the reason.
pub(super) fn server_config(tls: &RegionTls, http2: bool) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = certificates(&tls.server.cert_pem)?;
    let key = PrivateKeyDer::from_pem_slice(tls.server.key_pem.as_bytes()).map_err(invalid)?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_client_cert_verifier(client_verifier(tls, provider)?)
        .with_single_cert(chain, key)
        .map_err(invalid)?;
    config.alpn_protocols = if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(Arc::new(config))
}

fn client_verifier(
    tls: &RegionTls,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let Some(pem) = &tls.client_ca_pem else { return Ok(Arc::new(NoClientAuth)) };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(invalid)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(invalid)
}

fn certificates(pem: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(invalid)
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

/// The subject of a certificate, as in `CN=sidecar`.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    X509Certificate::from_der(certificate).ok().map(|(_, parsed)| parsed.subject().to_string())
}
