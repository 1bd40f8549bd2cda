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
    /// The servers in Go over Redis and PostgreSQL: as [`Self::Reference`], but an attempt is counted when it has failed, and not when
    /// the job is handed out.
    Redis,
}

impl Dialect {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Spec, Self::Reference, Self::Redis];

    /// Its name, as the command line takes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Reference => "reference",
            Self::Redis => "redis",
        }
    }

    /// Whether it is that of a server in Go.
    #[must_use]
    pub const fn in_go(self) -> bool {
        matches!(self, Self::Reference | Self::Redis)
    }
}
