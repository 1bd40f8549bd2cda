//! `audit`: the key that signs the audit trail.

use std::path::PathBuf;

use serde::Deserialize;

/// The longest name of a log. Units: bytes.
const NAME_BYTES_MAX: usize = 128;

/// The section `audit`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSettings {
    /// A private key of Ed25519 or P-256 in PKCS#8 PEM, which signs heads.
    pub key: PathBuf,
    /// The name of the log, which heads have.
    pub log: String,
}

impl AuditSettings {
    /// The mistakes in it, each beginning with its key.
    pub(super) fn mistakes(&self) -> Option<String> {
        let is_name =
            (1..=NAME_BYTES_MAX).contains(&self.log.len()) && self.log.bytes().all(|byte| byte.is_ascii_graphic());
        (!is_name).then(|| format!("log: expected a name of 1 to {NAME_BYTES_MAX} visible characters, such as hub.eu"))
    }
}
