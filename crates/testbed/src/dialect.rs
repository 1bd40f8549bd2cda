//! Where the documents of the protocol and the servers in the field differ, a region follows the one or the other.

/// The documents or servers that a region follows.
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

    /// The behaviour of its servers for a taken id.
    #[must_use]
    pub const fn duplicate_ids(self) -> DuplicateIds {
        match self {
            Self::Spec => DuplicateIds::Refuse,
            Self::Reference | Self::Redis => DuplicateIds::Overwrite,
        }
    }

    /// Whether it is that of a server in Go.
    #[must_use]
    pub const fn in_go(self) -> bool {
        matches!(self, Self::Reference | Self::Redis)
    }
}

/// A region's behaviour for a job whose id it has already, in any state of the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DuplicateIds {
    /// 409 `duplicate` with the id of the job that is there, which stays as it is.
    Refuse,
    /// 200 with the job that is there, which stays as it is.
    Same,
    /// 201: the new one takes its place, even of one that a worker has or has done.
    Overwrite,
}

impl DuplicateIds {
    /// All of them, the safest for clients first.
    pub const ALL: [Self; 3] = [Self::Refuse, Self::Same, Self::Overwrite];

    /// Its name, as the command line and the manifest have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Same => "same",
            Self::Overwrite => "overwrite",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}
