//! An issuer of tokens: a key, its set of public keys, and tokens of operators.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use data_encoding::BASE64URL_NOPAD;
use ojs_sidecar::base::Clock;
use serde_json::{Value, json};

use super::stage::HubStage;

pub struct Sso {
    id: &'static str,
    key: EcdsaKeyPair,
}

impl Sso {
    pub fn new(id: &'static str) -> Self {
        Self { id, key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap() }
    }

    /// Writes the set with only this key to the file that [`SECTION`] names.
    pub fn publish(&self, stage: &HubStage) {
        let point = self.key.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|it| BASE64URL_NOPAD.encode(it));
        let key = json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id, "x": x, "y": y });
        std::fs::write(stage.path("keys.json"), json!({ "keys": [key] }).to_string()).unwrap();
    }

    /// A token of an operator that lasts an hour.
    pub fn token(&self, subject: &str, scope: &str) -> String {
        self.token_for(3_600, subject, scope)
    }

    /// One that ends in so many seconds, or has ended.
    pub fn token_for(&self, seconds: i64, subject: &str, scope: &str) -> String {
        let now = i64::try_from(Clock::system().unix_ms() / 1_000).unwrap();
        let end = now + seconds;
        self.signed(&json!({ "iss": "https://sso.test", "aud": "hub", "sub": subject, "exp": end, "scope": scope }))
    }

    fn signed(&self, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "kid": self.id, "typ": "JWT" });
        let [header, claims] = [&header, claims].map(|it| BASE64URL_NOPAD.encode(it.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
    }
}

/// The section of a hub that takes the tokens.
pub const SECTION: &str = "
tokens:
  jwks_file: keys.json
  issuer: https://sso.test
  audience: hub
  scopes: { 'ojs:read': [read], 'ojs:operate': [operate], 'ojs:audit': [audit] }
";
