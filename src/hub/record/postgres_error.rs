//! Why a database cannot be used.

use tokio_postgres::error::SqlState;

use crate::net::tls::TlsError;

/// Why a database cannot be used or reached.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The password cannot be read. Says neither path nor content.
    #[error("password_file: expected the path of a file with the password of the role: {0}")]
    Password(std::io::Error),
    /// The TLS files.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No server takes connections and writes.
    #[error("no server of `hosts` takes connections and writes: {causes}")]
    Connect {
        /// By server.
        causes: String,
        /// Whether each of them refuses the role, its password or the database.
        is_of_configuration: bool,
    },
    /// The server refuses a statement, or the connection is lost.
    #[error("{}", in_full(.0))]
    Server(tokio_postgres::Error),
    /// The tables cannot be made or changed.
    #[error("the tables of the hub cannot be made; `ojs-sidecar hub --migrate` makes them with another role: {}", in_full(.0))]
    Migration(tokio_postgres::Error),
    /// Another session has locked a table that is to be changed, or changes the tables itself.
    #[error("the tables of the hub are locked by another session, such as a backup; the change is tried again until that ends: {}", in_full(.0))]
    Locked(tokio_postgres::Error),
    /// A value in the tables was not written by this program.
    #[error("the tables hold a value that this program does not write: {0}")]
    Content(String),
}

impl PostgresError {
    pub(super) fn content(cause: impl std::fmt::Display) -> Self {
        Self::Content(cause.to_string())
    }

    /// The tables cannot be made or changed, by the word of the server.
    pub(super) fn migration(error: tokio_postgres::Error) -> Self {
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) { Self::Locked(error) } else { Self::Migration(error) }
    }

    /// Whether the connection was lost in the middle of a statement, or ended by the server.
    pub(super) fn is_lost(&self) -> bool {
        let Self::Server(error) = self else { return false };
        error.code().is_none_or(|code| {
            // A pooler reports the loss of its own connection by class 08.
            if code.code().starts_with("08") {
                return true;
            }
            // The server ends connections also while a commit waits for a standby.
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW, SqlState::QUERY_CANCELED]
                .contains(code)
        })
    }

    /// Whether the server takes no writes any more: another one has taken its place.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION))
    }

    /// Whether the configuration is at fault, so that trying again cannot help.
    pub(super) fn is_of_configuration(&self) -> bool {
        match self {
            Self::Password(_) | Self::Tls(_) | Self::Content(_) => true,
            // Class 42 is also a right that the role lacks; others end with a lock, a connection or space on the disk.
            Self::Migration(error) => {
                let is_wrong = |code: &SqlState| ["3F", "42"].iter().any(|class| code.code().starts_with(class));
                is_refused_for_good(error) || error.code().is_some_and(is_wrong)
            }
            Self::Connect { is_of_configuration, .. } => *is_of_configuration,
            Self::Server(error) => is_refused_for_good(error),
            Self::Locked(_) => false,
        }
    }
}

/// Whether the server refuses the role, its password, the database or the right to a table.
pub(super) fn is_refused_for_good(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        [
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            SqlState::INVALID_CATALOG_NAME,
            SqlState::INSUFFICIENT_PRIVILEGE,
        ]
        .contains(code)
    })
}

/// The error with its causes, and the key of `record.postgres` that is at fault where the server refuses the role or the database.
pub(super) fn in_full_with_key(error: &tokio_postgres::Error) -> String {
    let key = match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => "look at `user` and `password_file`",
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            "look at `user`, `database` and `tls`, and at pg_hba.conf of the server"
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => "look at `database`",
        // The driver finds out that the server asks for a password, and the file is not named.
        None if in_full(error).contains("password missing") => "set `password_file`",
        _ => return in_full(error),
    };
    format!("{}; {key}", in_full(error))
}

/// The error with its causes: the driver's own text names the kind only.
pub(super) fn in_full(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
