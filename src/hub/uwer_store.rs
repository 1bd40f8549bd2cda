//! The settings and the key of the central store of UWER.

use aws_lc_rs::rand;

use super::uwer_settings::UwerSettings;
use crate::replica::{RowNonce, Seal};

/// The store of one hub.
#[derive(Debug)]
pub(super) struct Uwer {
    pub(super) settings: UwerSettings,
    /// The key of dead letters.
    pub(super) seal: Seal,
}

/// The file of the key cannot be used. Says neither path nor content.
#[derive(Debug, thiserror::Error)]
#[error("uwer.key_file: expected a file with 64 hexadecimal digits ({0}): make one with `openssl rand -hex 32`")]
pub struct UwerKeyError(&'static str);

impl Uwer {
    /// Reads the file of the key.
    ///
    /// Errors: [`UwerKeyError`].
    pub(super) fn load(settings: UwerSettings) -> Result<Self, UwerKeyError> {
        let seal = Seal::of_file(&settings.key_file).map_err(UwerKeyError)?;
        Ok(Self { settings, seal })
    }

    /// Bytes as the record keeps them. `None` only where the machine has no random bytes.
    pub(super) fn sealed(&self, id: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut nonce = RowNonce::default();
        rand::fill(&mut nonce).ok()?;
        self.seal.seal(nonce, id.as_bytes(), bytes)
    }
}
