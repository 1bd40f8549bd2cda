//! A Merkle tree that grows at its end. It keeps the roots of its whole subtrees only, one for each bit of its size.
//!
//! Spec: RFC 9162 §2.1.

use aws_lc_rs::digest::{Context, SHA256, digest};

/// A SHA-256.
pub type Hash = [u8; 32];

/// In front of a record that is hashed, so that no record is taken for a node.
const LEAF: u8 = 0;
/// In front of two hashes that are hashed.
const NODE: u8 = 1;

/// The hash of a record as a leaf of a tree.
#[must_use]
pub fn leaf_hash(record: &[u8]) -> Hash {
    hash(&[&[LEAF], record])
}

/// A tree over the records so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    /// The roots of its whole subtrees, the largest first.
    peaks: Vec<Hash>,
}

impl Tree {
    /// A tree without records.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// How many records it has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds a record by its [`leaf_hash`].
    pub fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        // Each whole subtree at the end that is as large as the new one becomes one with it.
        for _ in 0..self.size.trailing_ones() {
            let Some(before) = self.peaks.pop() else { break };
            node = node_hash(&before, &node);
        }
        self.peaks.push(node);
        self.size += 1;
    }

    /// The hash over all records; that of nothing without any.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return hash(&[]) };
        peaks.fold(*last, |behind, peak| node_hash(peak, &behind))
    }
}

fn node_hash(left: &Hash, right: &Hash) -> Hash {
    hash(&[&[NODE], left, right])
}

fn hash(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = Hash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// The SHA-256 of some bytes, in lower-case hex.
pub(super) fn hex_digest(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use proptest::prelude::*;

    use super::*;

    /// The definition in RFC 9162 §2.1.1, word for word.
    fn by_definition(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => hash(&[]),
            [leaf] => *leaf,
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                node_hash(&by_definition(&leaves[..half]), &by_definition(&leaves[half..]))
            }
        }
    }

    #[test]
    fn the_roots_are_those_of_the_published_examples() {
        let records =
            ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut tree = Tree::new();
        assert_eq!(HEXLOWER.encode(&tree.root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        for (record, root) in records.into_iter().zip(roots) {
            tree.push(leaf_hash(&HEXLOWER.decode(record.as_bytes()).unwrap()));
            assert_eq!(HEXLOWER.encode(&tree.root()), root, "{} records", tree.size());
        }
    }

    proptest! {
        #[test]
        fn the_root_is_that_of_the_definition(records in prop::collection::vec(any::<[u8; 2]>(), 0..200)) {
            let leaves: Vec<Hash> = records.iter().map(|record| leaf_hash(record)).collect();
            let mut tree = Tree::new();
            leaves.iter().for_each(|leaf| tree.push(*leaf));
            prop_assert_eq!(tree.root(), by_definition(&leaves));
            prop_assert_eq!(tree.peaks.len(), tree.size().count_ones() as usize);
        }
    }
}
