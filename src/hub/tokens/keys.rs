//! The public keys of a JSON Web Key Set that can verify tokens.
//!
//! Spec: RFC 7517, RFC 7518 §6.2, RFC 8037.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey};
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::Value;

/// More keys are no set that an issuer publishes.
const KEYS_MAX: usize = 100;
/// The length of a coordinate of P-256, and of a key of Ed25519. Units: bytes.
const COORDINATE_BYTES: usize = 32;
/// The first byte of a point that is not compressed.
const UNCOMPRESSED: u8 = 4;

/// An algorithm of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Its name in the header of a token.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// A key and the only algorithm that it verifies.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    public: ParsedPublicKey,
}

impl Key {
    /// Whether the signature of a message is this key's.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.public.verify_sig(message, signature).is_ok()
    }
}

/// The keys of a set that can verify tokens.
#[derive(Debug)]
pub(in crate::hub) struct Keys(Vec<Key>);

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// The members of a key that matter here. Other members are the issuer's business.
#[derive(Deserialize)]
struct Member {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<Value>,
    k: Option<Value>,
}

impl Keys {
    /// Reads a set. Keys of other kinds, such as RSA, are left out: issuers publish them beside the others.
    ///
    /// Errors: a sentence that names the member; it never shows a value, which may be a secret.
    pub(super) fn read(content: &[u8]) -> Result<Self, String> {
        let set: Set = serde_json::from_slice(content).map_err(|error| {
            format!("expected a JSON Web Key Set, {{\"keys\": [...]}}: no JSON of this shape at line {}", error.line())
        })?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("keys: expected at most {KEYS_MAX} keys"));
        }
        let mut keys: Vec<Key> = Vec::new();
        for (place, key) in set.keys.into_iter().enumerate() {
            let Some(key) = read_key(key).map_err(|error| format!("keys[{place}]{error}"))? else { continue };
            if keys.iter().any(|other| other.id == key.id) {
                return Err(format!(
                    "keys[{place}].kid: expected an id that no other key has, so that tokens can name it"
                ));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(
                "keys: expected at least one public key that signs, of P-256 (ES256) or Ed25519 (EdDSA)".to_owned()
            );
        }
        Ok(Self(keys))
    }

    /// The key that a token names. A token that names none can only be of the only key.
    pub(super) fn key(&self, id: Option<&str>) -> Option<&Key> {
        match (id, self.0.as_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(id), keys) => keys.iter().find(|key| key.id.as_deref() == Some(id)),
        }
    }
}

fn read_key(key: Value) -> Result<Option<Key>, String> {
    let key: Member = serde_json::from_value(key).map_err(|_| ": expected a key with a text `kty`".to_owned())?;
    if key.d.is_some() || key.k.is_some() {
        return Err(": expected a public key; this one is secret, and must not be here".to_owned());
    }
    let signs = key.r#use.as_deref().is_none_or(|of| of == "sig")
        && key.key_ops.as_ref().is_none_or(|all| all.iter().any(|it| it == "verify"));
    let algorithm = match (key.kty.as_str(), key.crv.as_deref(), key.alg.as_deref()) {
        ("EC", Some("P-256"), None | Some("ES256")) if signs => Algorithm::Es256,
        ("OKP", Some("Ed25519"), None | Some("EdDSA" | "Ed25519")) if signs => Algorithm::EdDsa,
        _ => return Ok(None),
    };
    let x = coordinate("x", key.x.as_deref())?;
    let public = match algorithm {
        Algorithm::Es256 => {
            let y = coordinate("y", key.y.as_deref())?;
            let point = [&[UNCOMPRESSED], x.as_slice(), &y].concat();
            ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        }
        Algorithm::EdDsa => ParsedPublicKey::new(&ED25519, x),
    };
    let public = public.map_err(|_| ".x: expected a point of the curve".to_owned())?;
    Ok(Some(Key { id: key.kid, algorithm, public }))
}

fn coordinate(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let bytes = text.and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
    let bytes = bytes.filter(|bytes| bytes.len() == COORDINATE_BYTES);
    bytes.ok_or_else(|| format!(".{name}: expected {COORDINATE_BYTES} bytes in base64url without padding"))
}
