//! A statement in its envelope, with the signature over both its type and its bytes.
//!
//! Spec: DSSE v1, protocol and envelope.

use data_encoding::{BASE64, BASE64URL};
use serde::{Deserialize, Serialize};

use super::keys::{KeyError, Signer, Verifier};

/// The type of a statement of in-toto.
const STATEMENT: &str = "application/vnd.in-toto+json";

/// A signed statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The statement, in base64.
    payload: String,
    /// The type of the statement.
    #[serde(rename = "payloadType")]
    payload_type: String,
    /// The signatures; we make one.
    signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Signature {
    /// A hint, which is not signed.
    #[serde(default)]
    keyid: String,
    /// In base64.
    sig: String,
}

/// Why an envelope proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It is not written as one.
    #[error("expected an envelope with a statement of in-toto: {0}")]
    Shape(String),
    /// None of the given keys has signed it.
    #[error(
        "none of the keys {given} has signed this statement: it or its signature was changed, or another key signed it (it names {named})"
    )]
    Key {
        /// The ids of the keys that it names.
        named: String,
        /// The ids of the keys that were given.
        given: String,
    },
}

impl Envelope {
    /// Signs a statement.
    ///
    /// Errors: [`KeyError::Unsigned`].
    pub fn sign(statement: &[u8], signer: &Signer) -> Result<Self, KeyError> {
        let sig = BASE64.encode(&signer.sign(&signed_bytes(STATEMENT, statement))?);
        let signatures = vec![Signature { keyid: signer.id().to_owned(), sig }];
        Ok(Self { payload: BASE64.encode(statement), payload_type: STATEMENT.to_owned(), signatures })
    }

    /// Reads an envelope.
    ///
    /// Errors: [`EnvelopeError::Shape`].
    pub fn read(text: &[u8]) -> Result<Self, EnvelopeError> {
        let envelope: Self = serde_json::from_slice(text).map_err(|error| EnvelopeError::Shape(error.to_string()))?;
        if envelope.payload_type != STATEMENT {
            return Err(EnvelopeError::Shape(format!("its `payloadType` is not {STATEMENT}")));
        }
        Ok(envelope)
    }

    /// The statement, which nothing proves.
    ///
    /// Errors: [`EnvelopeError::Shape`].
    pub fn unverified(&self) -> Result<Vec<u8>, EnvelopeError> {
        decoded("payload", &self.payload)
    }

    /// The statement, where one of these keys has signed it.
    ///
    /// Errors: [`EnvelopeError`].
    pub fn open(&self, keys: &[Verifier]) -> Result<Vec<u8>, EnvelopeError> {
        let statement = self.unverified()?;
        let message = signed_bytes(&self.payload_type, &statement);
        // Signatures of others, of whatever kind, may stand beside ours.
        let signatures = self.signatures.iter().filter_map(|it| decoded("sig", &it.sig).ok());
        if signatures
            .flat_map(|it| keys.iter().map(move |key| (key, it.clone())))
            .any(|(key, it)| key.verifies(&message, &it))
        {
            return Ok(statement);
        }
        let named: Vec<&str> = self.signatures.iter().map(|it| it.keyid.as_str()).collect();
        let given: Vec<&str> = keys.iter().map(Verifier::id).collect();
        Err(EnvelopeError::Key { named: format!("{named:?}"), given: given.join(", ") })
    }
}

/// The bytes of a member in base64, of either alphabet.
fn decoded(member: &str, text: &str) -> Result<Vec<u8>, EnvelopeError> {
    let bytes = BASE64.decode(text.as_bytes()).or_else(|_| BASE64URL.decode(text.as_bytes()));
    bytes.map_err(|_| EnvelopeError::Shape(format!("its `{member}` is not base64")))
}

/// The bytes that are signed, in which no byte of the type can be taken for one of the statement.
fn signed_bytes(payload_type: &str, statement: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), statement.len());
    [head.as_bytes(), statement].concat()
}

#[cfg(test)]
mod tests {
    use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519};

    use super::super::keys::tests::pair;
    use super::*;

    #[test]
    fn the_signed_bytes_are_those_of_the_published_example() {
        assert_eq!(
            signed_bytes("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn a_statement_comes_out_for_its_key_alone_and_unchanged() {
        for of in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
            let (signer, key) = pair(of);
            let envelope = Envelope::sign(b"{}", &signer).unwrap();
            let text = serde_json::to_string(&envelope).unwrap();
            let read = Envelope::read(text.as_bytes()).unwrap();
            let keys = [pair(of).1, key];
            assert_eq!(read.open(&keys), Ok(b"{}".to_vec()), "an old key beside it does no harm");
            assert!(matches!(read.open(&keys[..1]), Err(EnvelopeError::Key { .. })));
            let other = Envelope { payload: BASE64.encode(b"[]"), ..read.clone() };
            assert!(matches!(other.open(&keys), Err(EnvelopeError::Key { .. })));
            let mut witnessed: serde_json::Value = serde_json::json!(read);
            witnessed["signatures"].as_array_mut().unwrap().insert(0, serde_json::json!({ "sig": "?", "cert": "x" }));
            witnessed["note"] = "of a later version".into();
            assert_eq!(Envelope::read(witnessed.to_string().as_bytes()).unwrap().open(&keys), Ok(b"{}".to_vec()));
        }
    }

    #[test]
    fn what_is_no_envelope_of_a_statement_is_named() {
        let of_type = |name: &str| format!("{{\"payload\":\"!\",\"payloadType\":\"{name}\",\"signatures\":[]}}");
        for (text, expected) in
            [("{}", "missing field `payload`"), (of_type("text/plain").as_str(), "`payloadType` is not")]
        {
            let error = Envelope::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = Envelope::read(of_type(STATEMENT).as_bytes()).unwrap().open(&[]).unwrap_err();
        assert!(error.to_string().contains("`payload` is not base64"), "{error}");
    }
}
