//! Bearer tokens of operators: the keys that sign them, and the operator that a token proves.
//!
//! Spec: RFC 6750 §2.1 (the only way in which a token is taken).

mod jwt;
mod keys;
mod settings;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fs::File;
use std::io::Read as _;

use serde_json::Value;

use super::access::{Caller, Role, Scope};
pub(super) use jwt::Refused;
use keys::Keys;
pub use settings::TokenSettings;

/// A longer set of keys is a mistake. Units: bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// The begin of the name of a caller by token. No name in a certificate has a space, so that no certificate can be taken for a token.
const NAME_PREFIX: &str = "token ";

/// Why the keys of tokens cannot be used. Says neither path nor content: a secret pasted in place of a path must not be shown.
#[derive(Debug, thiserror::Error)]
#[error("tokens.jwks_file: {0}")]
pub struct KeysError(String);

/// The tokens that a hub takes, by its keys of the moment.
#[derive(Debug)]
pub(super) struct Tokens {
    settings: TokenSettings,
    /// The keys, and the content of their file, so that a change is seen by its bytes.
    current: RefCell<(Vec<u8>, Keys)>,
}

impl Tokens {
    /// Reads the file of keys.
    ///
    /// Errors: [`KeysError`].
    pub(super) fn load(settings: TokenSettings) -> Result<Self, KeysError> {
        let content = read(&settings)?;
        let keys = Keys::read(&content).map_err(KeysError)?;
        Ok(Self { settings, current: RefCell::new((content, keys)) })
    }

    /// Takes the file of keys anew where it has changed, and says whether it has.
    ///
    /// Errors: [`KeysError`]; the keys are those before.
    pub(super) fn reload(&self) -> Result<bool, KeysError> {
        let content = read(&self.settings)?;
        if content == self.current.borrow().0 {
            return Ok(false);
        }
        let keys = Keys::read(&content).map_err(KeysError)?;
        self.current.replace((content, keys));
        Ok(true)
    }

    /// The operator of a token that is valid at this time, which may have no scope. Units: milliseconds since the Unix epoch.
    ///
    /// Errors: [`Refused`].
    pub(super) fn caller(&self, token: &str, unix_ms: u64) -> Result<Caller, Refused> {
        let unix_s = std::time::Duration::from_millis(unix_ms).as_secs_f64();
        let valid = jwt::verified(&self.current.borrow().1, &self.settings, token, unix_s)?;
        Ok(Caller {
            name: format!("{NAME_PREFIX}{}#{}", self.settings.issuer, valid.subject),
            role: Role::Operator,
            scopes: self.scopes(valid.claims.get(&self.settings.scope_claim)),
            region: None,
            author: Some(valid.subject),
        })
    }

    /// The scopes that a claim gives; none where it has another shape.
    fn scopes(&self, claim: Option<&Value>) -> Vec<Scope> {
        let values: Vec<&str> = match claim {
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let given = |scope: &Scope| {
            values.iter().filter_map(|value| self.settings.scopes.get(*value)).any(|scopes| scopes.contains(scope))
        };
        Scope::ALL.into_iter().filter(given).collect()
    }
}

fn read(settings: &TokenSettings) -> Result<Vec<u8>, KeysError> {
    let cannot = |error| KeysError(format!("expected the path of a JSON Web Key Set: {error}"));
    let mut content = Vec::new();
    let file = File::open(&settings.jwks_file).map_err(cannot)?;
    let length = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(cannot)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(KeysError("expected a JSON Web Key Set of at most 1 MiB".to_owned()));
    }
    Ok(content)
}
