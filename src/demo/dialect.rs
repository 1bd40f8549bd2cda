//! Where the documents of the protocol and the servers in the field differ, a region follows the one or the other.

/// Whom a region follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// The documents: a repeated id is a conflict, a heartbeat is answered by `state`, every error is a document.
    #[default]
    Spec,
    /// The servers in Go: a repeated id overwrites, a heartbeat is answered by `directive`, unknown members win over the
    /// server's own in an answer, and an unknown path is answered in plain text.
    Reference,
}

impl Dialect {
    /// Both, the default first.
    pub const ALL: [Self; 2] = [Self::Spec, Self::Reference];

    /// Its name, as the command line takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Reference => "reference",
        }
    }
}
