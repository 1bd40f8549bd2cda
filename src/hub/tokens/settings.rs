//! `tokens`: the bearer tokens of operators that a hub takes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::hub::access::Scope;

/// Longer names of issuers and audiences are a mistake; that of the issuer stands in every row of the audit trail. Units: bytes.
const NAME_BYTES_MAX: usize = 256;

/// The tokens that a hub takes from operators.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSettings {
    /// A JSON Web Key Set with the public keys that sign tokens: P-256 for ES256, Ed25519 for EdDSA. Other keys in it are not used.
    pub jwks_file: PathBuf,
    /// The claim `iss` that a token must have.
    pub issuer: String,
    /// The claim `aud` that a token must have, or have among others.
    pub audience: String,
    /// The claim with the values that give scopes: a text with spaces between values, or an array of texts.
    #[serde(default = "scope_claim")]
    pub scope_claim: String,
    /// The operator's scopes by the values of that claim. Other values give nothing.
    pub scopes: BTreeMap<String, Vec<Scope>>,
}

fn scope_claim() -> String {
    "scope".to_owned()
}

impl TokenSettings {
    /// The mistakes in it, each beginning with its key.
    pub(in crate::hub) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        // Without `#`, the names of callers have one issuer and one subject.
        if !is_name(&self.issuer) || self.issuer.contains('#') {
            wrong.push(
                "issuer: expected the claim `iss` of the tokens, without `#`, such as https://sso.example.com"
                    .to_owned(),
            );
        }
        if !is_name(&self.audience) {
            wrong.push("audience: expected the claim `aud` of the tokens for this hub, such as ojs-hub".to_owned());
        }
        if self.scope_claim.is_empty() {
            wrong.push("scope_claim: expected the name of a claim, such as scope or groups".to_owned());
        }
        if self.scopes.is_empty() || self.scopes.contains_key("") || self.scopes.values().any(Vec::is_empty) {
            let all = Scope::ALL.map(Scope::as_str).join(", ");
            wrong.push(format!("scopes: expected values of `scope_claim`, each with some of {all}"));
        }
        wrong
    }
}

/// Whether it has at least one byte, and only visible ASCII.
fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
