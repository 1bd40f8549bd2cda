//! The head of a tree as a statement: how many records there are, and their root.
//!
//! Spec: RFC 9162 §4.10; in-toto Statement v1.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, EnvelopeError};
use super::keys::{KeyError, Signer, Verifier};
use super::tree::Tree;

/// The kind of the statement, by its specification.
const KIND: &str = "https://in-toto.io/Statement/v1";
/// The kind of what it says.
const PREDICATE: &str = "urn:ojs-sidecar:tree-head:1";

/// The head of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The name of the log that the tree is of.
    pub log: String,
    /// How many records it has.
    pub size: u64,
    /// The root over them, in lower-case hex.
    pub root: String,
    /// When it was signed. Units: milliseconds since the Unix epoch.
    pub signed_ms: u64,
}

/// Why a head proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Its envelope.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// Its statement.
    #[error("the signed statement is no head of a tree: {0}")]
    Statement(String),
}

#[derive(Serialize, Deserialize)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: [Subject; 1],
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Serialize, Deserialize)]
struct Subject {
    name: String,
    digest: Digest,
}

/// The member has a name of our own: the root is no digest of the bytes of a file.
#[derive(Serialize, Deserialize)]
struct Digest {
    #[serde(rename = "rfc9162-sha256")]
    root: String,
}

#[derive(Serialize, Deserialize)]
struct Predicate {
    tree_size: u64,
    timestamp_ms: u64,
}

impl Head {
    /// The head of a tree at this time.
    #[must_use]
    pub fn of(log: &str, tree: &Tree, signed_ms: u64) -> Self {
        Self { log: log.to_owned(), size: tree.size(), root: HEXLOWER.encode(&tree.root()), signed_ms }
    }

    /// Whether it is the head of this tree.
    #[must_use]
    pub fn is_of(&self, tree: &Tree) -> bool {
        (self.size, &self.root) == (tree.size(), &HEXLOWER.encode(&tree.root()))
    }

    /// Signs it.
    ///
    /// Errors: [`KeyError::Unsigned`].
    pub fn sign(&self, signer: &Signer) -> Result<Envelope, KeyError> {
        let statement = Statement {
            kind: KIND.to_owned(),
            subject: [Subject { name: self.log.clone(), digest: Digest { root: self.root.clone() } }],
            predicate_type: PREDICATE.to_owned(),
            predicate: Predicate { tree_size: self.size, timestamp_ms: self.signed_ms },
        };
        Envelope::sign(&serde_json::to_vec(&statement).map_err(|_| KeyError::Unsigned)?, signer)
    }

    /// The head in an envelope that one of these keys has signed.
    ///
    /// Errors: [`HeadError`].
    pub fn open(envelope: &Envelope, keys: &[Verifier]) -> Result<Self, HeadError> {
        Self::read(&envelope.open(keys)?)
    }

    /// The head in an envelope, by whichever key it is signed, or by none.
    ///
    /// Errors: [`HeadError`].
    pub fn unverified(envelope: &Envelope) -> Result<Self, HeadError> {
        Self::read(&envelope.unverified()?)
    }

    fn read(statement: &[u8]) -> Result<Self, HeadError> {
        let wrong = |cause: &dyn std::fmt::Display| HeadError::Statement(cause.to_string());
        let Statement { kind, subject: [subject], predicate_type, predicate } =
            serde_json::from_slice(statement).map_err(|error| wrong(&error))?;
        if (kind.as_str(), predicate_type.as_str()) != (KIND, PREDICATE) {
            return Err(wrong(&format_args!("`predicateType` is not {PREDICATE}")));
        }
        let Predicate { tree_size, timestamp_ms } = predicate;
        Ok(Self { log: subject.name, size: tree_size, root: subject.digest.root, signed_ms: timestamp_ms })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::PKCS_ED25519;

    use super::super::keys::tests::pair;
    use super::super::tree::leaf_hash;
    use super::*;

    #[test]
    fn a_head_is_that_of_its_tree_until_a_record_differs() {
        let (signer, key) = pair(&PKCS_ED25519);
        let tree = |records: &[&str]| {
            let mut tree = Tree::new();
            records.iter().for_each(|record| tree.push(leaf_hash(record.as_bytes())));
            tree
        };
        let head = Head::of("audit", &tree(&["a", "b", "c"]), 7);
        let opened = Head::open(&head.sign(&signer).unwrap(), &[key]).unwrap();
        assert_eq!(opened, head);
        assert!(opened.is_of(&tree(&["a", "b", "c"])));
        for other in [&["a", "b"][..], &["a", "b", "c", "d"], &["a", "b", "d"], &["b", "a", "c"], &["a", "b", "c", "c"]]
        {
            assert!(!opened.is_of(&tree(other)), "{other:?}");
        }
    }

    #[test]
    fn a_statement_about_something_else_is_no_head() {
        let (signer, key) = pair(&PKCS_ED25519);
        let statement = "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"x\",\"digest\":\
                         {\"rfc9162-sha256\":\"00\"}}],\"predicateType\":\"urn:other\",\"predicate\":{\"tree_size\":1,\"timestamp_ms\":1}}";
        let keys = [key];
        for (text, expected) in [(statement, "`predicateType` is not"), ("{}", "missing field")] {
            let envelope = Envelope::sign(text.as_bytes(), &signer).unwrap();
            let error = Head::open(&envelope, &keys).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
