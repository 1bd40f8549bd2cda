//! The TLS side of a region: our credentials for it, the trusted roots, and the identity that its server must prove.
//!
//! Every region has a configuration of its own, so that credentials and trust never mix: a region that shows another
//! region's valid certificate fails the handshake, before any byte of a request is written.
//!
//! Spec: federation-spec §7.1, RFC-0001 §8.

mod explain;
mod identity;
mod sessions;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::base::shown_path;
use crate::config::{RegionTls, ServerIdentity};
pub use explain::{Words, explain, explain_for};
pub use sessions::Sessions;

/// A region's TLS configuration, ready to dial with.
#[derive(Debug, Clone)]
pub struct ClientTls {
    /// The configuration for rustls; one per load, with session storage of its own.
    pub config: Arc<ClientConfig>,
    /// The same without HTTP/2, for tunnels: an HTTP/1.1 upgrade has no counterpart that regions offer over HTTP/2.
    pub config_http1: Arc<ClientConfig>,
    /// The name that is asked for (SNI) and, unless a URI is expected, verified.
    pub name: ServerName<'static>,
    /// The sessions of both.
    pub sessions: Arc<Sessions>,
    /// When our client certificate ends, in seconds since the Unix epoch; none without a client certificate.
    pub client_expiry: Option<i64>,
    /// When the first of our trust roots ends; none with the system's roots.
    pub ca_expiry: Option<i64>,
}

/// Why a region's TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, unreadable or holds no PEM of the kind.
    ///
    /// Says neither path nor content: a secret pasted in place of its file's path must not be shown.
    #[error("{key}: expected the path of a file with {expected}: {cause}")]
    File {
        /// The key that names the file.
        key: &'static str,
        /// The expected content.
        expected: &'static str,
        /// The cause.
        cause: String,
    },
    /// The system offers no trust roots.
    #[error("no trust roots: set tls.ca, or install the system's CA certificates")]
    NoRoots,
    /// The expected identity is no name that TLS can verify.
    #[error("tls.server_name or the host of the url is neither a DNS name nor an address")]
    Name,
    /// The private key belongs to another certificate. The files, where they may be shown.
    #[error("certificate{0} and private key{1} do not belong together: name the key of this certificate in tls.key")]
    KeyMismatch(String, String),
    /// The client certificate is of an X.509 version without extensions, which TLS libraries refuse.
    #[error("tls.cert: certificate{0} is an X.509 version 1 certificate; reissue it with extensions (version 3)")]
    CertificateVersion(String),
    /// Rustls refuses certificate or key.
    #[error("the client certificate and key cannot be used: {0}")]
    Credentials(rustls::Error),
    /// The roots cannot be used.
    #[error("the trust roots cannot be used: {0}")]
    Roots(String),
}

/// The content of a region's TLS files, read once, so that the compared bytes are the used ones.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    ca: Option<Vec<u8>>,
    cert: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl std::fmt::Debug for TlsFiles {
    // The key must never be printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsFiles")
    }
}

impl TlsFiles {
    /// Reads the files that the configuration names.
    ///
    /// Errors: [`TlsError::File`], naming the file.
    pub fn read(tls: &RegionTls) -> Result<Self, TlsError> {
        let read = |key, path: &Option<PathBuf>, expected| match path {
            None => Ok(None),
            Some(path) => std::fs::read(path).map(Some).map_err(|error| file_error(key, expected, error.to_string())),
        };
        Ok(Self {
            ca: read(CA, &tls.ca, CERTIFICATES)?,
            cert: read(CERT, &tls.cert, CERTIFICATES)?,
            key: read(KEY, &tls.key, PRIVATE_KEY)?,
        })
    }
}

const CA: &str = "tls.ca";
const CERT: &str = "tls.cert";
const KEY: &str = "tls.key";
const CERTIFICATES: &str = "one or more PEM certificates";
const PRIVATE_KEY: &str = "a PEM private key";

/// Builds a region's configuration, with session storage of its own: a session of an earlier identity cannot be resumed.
///
/// Errors: [`TlsError`], naming the key of the file.
/// Spec: federation-spec §7.1.
pub fn build(tls: &RegionTls, files: &TlsFiles, url_host: &str) -> Result<ClientTls, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let (roots, ca_expiry) = roots(files.ca.as_deref())?;
    let verifier = verifier(&tls.identity, roots, &provider)?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(TlsError::Credentials)?
        .dangerous() // The name of rustls for "a verifier of ours": both of ours verify chain and identity.
        .with_custom_certificate_verifier(verifier);
    let (mut config, client_expiry) = match (&files.cert, &files.key) {
        (Some(chain), Some(key)) => {
            let chain = certificates(CERT, chain)?;
            let expiry = chain.first().and_then(|leaf| not_after(leaf));
            if chain.first().is_some_and(lacks_extensions) {
                return Err(TlsError::CertificateVersion(shown(&tls.cert)));
            }
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|error| file_error(KEY, PRIVATE_KEY, pem_cause(&error)))?;
            let refused = |error| match error {
                rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch(shown(&tls.cert), shown(&tls.key)),
                error => TlsError::Credentials(error),
            };
            (builder.with_client_auth_cert(chain, key).map_err(refused)?, expiry)
        }
        _ => (builder.with_no_client_auth(), None),
    };
    let sessions = Arc::new(Sessions::default());
    config.resumption = Resumption::store(Arc::<Sessions>::clone(&sessions));
    let mut config_http1 = config.clone();
    config_http1.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = match &tls.identity {
        ServerIdentity::Name(name) => name.as_str(),
        ServerIdentity::UrlHost | ServerIdentity::Uri(_) => url_host,
    };
    let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name)?;
    let (config, config_http1) = (Arc::new(config), Arc::new(config_http1));
    Ok(ClientTls { config, config_http1, name, sessions, client_expiry, ca_expiry })
}

fn verifier(
    identity: &ServerIdentity,
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::client::danger::ServerCertVerifier>, TlsError> {
    let roots = Arc::new(roots);
    if let ServerIdentity::Uri(uri) = identity {
        return Ok(Arc::new(identity::UriVerifier::new(uri.clone(), roots, provider)));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider))
        .build()
        .map_err(|error| TlsError::Roots(error.to_string()))?;
    Ok(verifier)
}

fn roots(ca: Option<&[u8]>) -> Result<(RootCertStore, Option<i64>), TlsError> {
    let mut store = RootCertStore::empty();
    let Some(content) = ca else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if store.is_empty() { Err(TlsError::NoRoots) } else { Ok((store, None)) };
    };
    let certificates = certificates(CA, content)?;
    let expiry = certificates.iter().filter_map(not_after).min();
    for certificate in certificates {
        store.add(certificate).map_err(|error| file_error(CA, "a PEM CA certificate", error.to_string()))?;
    }
    Ok((store, expiry))
}

fn certificates(key: &'static str, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(content)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| file_error(key, CERTIFICATES, pem_cause(&error)))?;
    if found.is_empty() {
        return Err(file_error(key, CERTIFICATES, "the file holds none".to_owned()));
    }
    Ok(found)
}

const fn file_error(key: &'static str, expected: &'static str, cause: String) -> TlsError {
    TlsError::File { key, expected, cause }
}

/// The parser's own words may quote the file, which may be a private key.
fn pem_cause(error: &rustls_pki_types::pem::Error) -> String {
    match error {
        rustls_pki_types::pem::Error::Io(error) => error.to_string(),
        _ => "the file holds something else".to_owned(),
    }
}

/// A file's path behind a space, or nothing where the path may be a secret that was pasted in its place.
fn shown(path: &Option<PathBuf>) -> String {
    path.as_deref().and_then(shown_path).map(|path| format!(" {path}")).unwrap_or_default()
}

/// Whether a certificate is of an X.509 version before 3.
fn lacks_extensions(certificate: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, parsed)| parsed.version() != x509_parser::x509::X509Version::V3)
}

/// When a certificate ends, in seconds since the Unix epoch.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}
