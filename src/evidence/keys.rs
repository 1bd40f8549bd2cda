//! Keys that sign statements, and public keys that verify them.

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    ParsedPublicKey,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

use super::tree::hex_digest;

/// The part of the hash of a public key that is its id. Units: characters.
const ID_LENGTH: usize = 16;

/// Why a key cannot be used. Says nothing of the content, which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is no private key of the two kinds.
    #[error(
        "expected a private key of Ed25519 or P-256 in PKCS#8 PEM, as `openssl genpkey -algorithm ed25519` writes it"
    )]
    Private,
    /// It is no public key of the two kinds.
    #[error("expected a public key of Ed25519 or P-256 in PEM, as `openssl pkey -pubout` writes it")]
    Public,
    /// The system gave no randomness, or the key refuses to sign.
    #[error("the signature was not made")]
    Unsigned,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

/// A private key that signs.
pub struct Signer {
    pair: Pair,
    id: String,
}

impl std::fmt::Debug for Signer {
    // The key must never be printed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads a private key in PKCS#8 PEM.
    ///
    /// Errors: [`KeyError::Private`].
    pub fn read(pem: &[u8]) -> Result<Self, KeyError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| KeyError::Private)?;
        let der = key.secret_pkcs8_der();
        let ed25519 = Ed25519KeyPair::from_pkcs8(der).map(Pair::Ed25519);
        let p256 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der).map(Pair::P256);
        let pair = ed25519.or_else(|_| p256()).map_err(|_| KeyError::Private)?;
        let public: Result<PublicKeyX509Der<'_>, _> = match &pair {
            Pair::Ed25519(pair) => pair.public_key().as_der(),
            Pair::P256(pair) => pair.public_key().as_der(),
        };
        let id = id_of(public.map_err(|_| KeyError::Private)?.as_ref());
        Ok(Self { pair, id })
    }

    /// The id of its public key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The signature of a message: of Ed25519, or of ECDSA with SHA-256 in ASN.1.
    ///
    /// Errors: [`KeyError::Unsigned`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.pair {
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::P256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message).map_err(|_| KeyError::Unsigned)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

/// A public key.
#[derive(Debug)]
pub struct Verifier {
    key: ParsedPublicKey,
    id: String,
}

impl Verifier {
    /// Reads a public key in PEM.
    ///
    /// Errors: [`KeyError::Public`].
    pub fn read(pem: &[u8]) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| KeyError::Public)?;
        let ed25519 = ParsedPublicKey::new(&ED25519, der.as_ref());
        let key = ed25519.or_else(|_| ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, der.as_ref()));
        Ok(Self { key: key.map_err(|_| KeyError::Public)?, id: id_of(der.as_ref()) })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the signature of a message is this key's.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }
}

/// The id of a public key: the beginning of the SHA-256 of its DER, in hex.
fn id_of(der: &[u8]) -> String {
    let mut id = hex_digest(der);
    id.truncate(ID_LENGTH);
    id
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;

    pub(crate) fn pair(of: &'static rcgen::SignatureAlgorithm) -> (Signer, Verifier) {
        let pair = KeyPair::generate_for(of).unwrap();
        let signer = Signer::read(pair.serialize_pem().as_bytes()).unwrap();
        (signer, Verifier::read(pair.public_key_pem().as_bytes()).unwrap())
    }

    #[test]
    fn keys_of_both_kinds_sign_and_their_public_keys_have_their_id() {
        for of in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
            let (signer, verifier) = pair(of);
            let signature = signer.sign(b"message").unwrap();
            assert_eq!((signer.id(), signer.id().len()), (verifier.id(), ID_LENGTH));
            assert!(verifier.verifies(b"message", &signature));
            assert!(!verifier.verifies(b"massage", &signature) && !pair(of).1.verifies(b"message", &signature));
        }
    }

    #[test]
    fn what_is_no_such_key_is_refused_and_never_shown() {
        let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        let (private, public) = (other.serialize_pem(), other.public_key_pem());
        for pem in ["", "secret", &public, &private] {
            assert_eq!(Signer::read(pem.as_bytes()).unwrap_err(), KeyError::Private, "{pem}");
            assert_eq!(Verifier::read(pem.as_bytes()).unwrap_err(), KeyError::Public, "{pem}");
        }
        let (signer, _) = pair(&PKCS_ED25519);
        assert_eq!(format!("{signer:?}"), format!("Signer {{ id: \"{}\", .. }}", signer.id()));
    }
}
