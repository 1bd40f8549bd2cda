//! Our identity at a region, and the identity expected there: everything that is read from files, taken as one.
//!
//! Certificate, key, CA and token change together or not at all. A change gives the region a new identity with a new number;
//! connections carry the number that they were made with, and none with an old one is used again.

use std::path::Path;

use http::HeaderValue;

use crate::config::RegionConfig;
use crate::net::tls::{self, ClientTls, TlsError, TlsFiles};

/// A bearer token is at most this long: a header line must hold it.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// One loaded identity.
#[derive(Debug)]
pub struct Identity {
    /// Grows with each change.
    pub number: u64,
    /// The TLS configuration, unless the region is spoken to in plain HTTP.
    pub tls: Option<ClientTls>,
    pub(super) bearer: Option<HeaderValue>,
    files: Files,
}

/// The content of all files of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files {
    tls: TlsFiles,
    token: Option<String>,
}

/// Why the files of a region cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A TLS file.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token file; its content is never shown.
    #[error("bearer_token_file: expected a readable file with a token of at most 16 KiB of visible ASCII: {0}")]
    Token(String),
}

impl Files {
    /// Reads all files of a region.
    pub(super) fn read(config: &RegionConfig) -> Result<Self, IdentityError> {
        let tls = if config.url.tls { TlsFiles::read(&config.tls)? } else { TlsFiles::default() };
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| IdentityError::Token(error.to_string()));
        Ok(Self { tls, token: config.bearer_token_file.as_deref().map(read).transpose()? })
    }
}

impl Identity {
    /// Builds an identity of the files' content.
    pub(super) fn build(config: &RegionConfig, files: Files, number: u64) -> Result<Self, IdentityError> {
        let tls = config.url.tls.then(|| tls::build(&config.tls, &files.tls, &config.url.host)).transpose()?;
        let bearer = files.token.as_deref().map(bearer).transpose()?;
        Ok(Self { number, tls, bearer, files })
    }

    /// Whether it was built of this content.
    pub(super) fn is_of(&self, files: &Files) -> bool {
        self.files == *files
    }
}

fn bearer(text: &str) -> Result<HeaderValue, IdentityError> {
    let token = text.trim();
    let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || token.len() > TOKEN_BYTES_MAX {
        return Err(IdentityError::Token("the content is empty, too long or not visible ASCII".to_owned()));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| IdentityError::Token("the content cannot stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
