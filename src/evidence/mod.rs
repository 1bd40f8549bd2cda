//! Records that cannot be changed unseen: a Merkle tree over them, and its heads as signed statements. Pure.
//!
//! Spec: RFC 9162 §2.1; DSSE v1; in-toto Statement v1.

mod envelope;
mod head;
mod keys;
mod tree;

pub use envelope::{Envelope, EnvelopeError};
pub use head::{Head, HeadError};
pub use keys::{KeyError, Signer, Verifier};
pub use tree::{Hash, Tree, leaf_hash};
