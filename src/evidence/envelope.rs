//! A statement in its envelope, with the signature over both its type and its bytes.
//!
//! Spec: DSSE v1, protocol and envelope.

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use super::keys::{KeyError, Signer, Verifier};

/// The type of a statement of in-toto.
const STATEMENT: &str = "application/vnd.in-toto+json";

/// A signed statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
struct Signature {
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
    #[error("signed by the key {signed}, and none of the keys {given} is that")]
    Key {
        /// The ids of the keys that it names.
        signed: String,
        /// The ids of the keys that were given.
        given: String,
    },
    /// The key that it names has not signed this.
    #[error("the signature is not that of the key {0}: the statement or the signature was changed")]
    Signature(String),
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
        let mut wrong = None;
        for signature in &self.signatures {
            let bytes = decoded("sig", &signature.sig)?;
            for key in keys.iter().filter(|key| key.id() == signature.keyid) {
                if key.verifies(&message, &bytes) {
                    return Ok(statement);
                }
                wrong = Some(EnvelopeError::Signature(signature.keyid.clone()));
            }
        }
        let ids = |ids: Vec<&str>| if ids.is_empty() { "(none)".to_owned() } else { ids.join(", ") };
        Err(wrong.unwrap_or_else(|| EnvelopeError::Key {
            signed: ids(self.signatures.iter().map(|it| it.keyid.as_str()).collect()),
            given: ids(keys.iter().map(Verifier::id).collect()),
        }))
    }
}

fn decoded(member: &str, text: &str) -> Result<Vec<u8>, EnvelopeError> {
    let shape = |_| EnvelopeError::Shape(format!("its `{member}` is not base64"));
    BASE64.decode(text.as_bytes()).map_err(shape)
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
            let other = Envelope { payload: BASE64.encode(b"[]"), ..read };
            assert_eq!(other.open(&keys), Err(EnvelopeError::Signature(signer.id().to_owned())));
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
