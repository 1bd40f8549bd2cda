//! `record.postgres`: where the database of several hubs is.

use std::path::PathBuf;

use serde::Deserialize;

use crate::config::is_loopback;

/// More hosts of one database are a mistake: a primary and its standbys.
const HOSTS_MAX: usize = 16;

/// Where a PostgreSQL database is, and the identity of the hub there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresSettings {
    /// The primary and the servers that may take its place, as `host:port`, or folders of Unix sockets: the first one that takes writes is
    /// used.
    pub hosts: Vec<String>,
    /// The database.
    pub database: String,
    /// The role of the hub in the database.
    pub user: String,
    /// A file with the password of the role; read at each connection.
    pub password_file: Option<PathBuf>,
    /// TLS to the database. Only for a database on this machine it may be left out.
    pub tls: Option<PostgresTls>,
}

/// TLS to a database. Files are read at each connection.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresTls {
    /// PEM authorities that sign the certificates of the servers.
    pub ca: PathBuf,
    /// PEM client certificate chain, where the database wants one.
    pub cert: Option<PathBuf>,
    /// PEM private key of the client certificate.
    pub key: Option<PathBuf>,
}

/// A server of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PostgresHost {
    /// A name or an address, and a port.
    Tcp(String, u16),
    /// The folder of a Unix socket.
    Folder(PathBuf),
}

impl PostgresHost {
    /// The servers among these, in order; none for a text that is not one.
    fn read(text: &str) -> Option<Self> {
        if text.starts_with('/') {
            return Some(Self::Folder(text.into()));
        }
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let is_name =
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
        is_name.then(|| Self::Tcp(host.to_owned(), port))
    }

    fn is_on_this_machine(&self) -> bool {
        match self {
            Self::Tcp(host, _) => is_loopback(host),
            Self::Folder(_) => true,
        }
    }
}

impl PostgresSettings {
    /// The servers, in the order of the configuration.
    pub(super) fn servers(&self) -> Vec<PostgresHost> {
        self.hosts.iter().filter_map(|text| PostgresHost::read(text)).collect()
    }

    /// The files in it.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let of_tls = self.tls.iter_mut().flat_map(|tls| {
            let PostgresTls { ca, cert, key } = tls;
            std::iter::once(ca).chain(cert).chain(key)
        });
        self.password_file.iter_mut().chain(of_tls)
    }

    /// The mistakes in it, each beginning with its key.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.hosts.is_empty() || self.hosts.len() > HOSTS_MAX {
            wrong.push(format!("hosts: expected 1 to {HOSTS_MAX} servers, such as db.example.org:5432"));
        }
        for (place, host) in self.hosts.iter().enumerate() {
            if PostgresHost::read(host).is_none() {
                wrong.push(format!(
                    "hosts[{place}]: expected host:port, such as db.example.org:5432, or the folder of a Unix socket"
                ));
            }
        }
        for (key, text) in [("database", &self.database), ("user", &self.user)] {
            if text.is_empty() || text.chars().any(char::is_control) {
                wrong.push(format!("{key}: expected a name"));
            }
        }
        if self.tls.is_none() && !self.servers().iter().all(PostgresHost::is_on_this_machine) {
            wrong.push("tls: expected `ca`: a database of another machine is reached over TLS only".to_owned());
        }
        if self.tls.as_ref().is_some_and(|tls| tls.cert.is_some() != tls.key.is_some()) {
            wrong.push("tls: expected `cert` and `key` together, or neither".to_owned());
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(more: &str) -> PostgresSettings {
        serde_saphyr::from_str(&format!("database: ojs\nuser: hub\n{more}")).unwrap()
    }

    #[test]
    fn servers_are_read_in_order() {
        let read = settings("hosts: [\"db-1:5432\", \"[::1]:5433\", /run/postgresql]").servers();
        let tcp = |host: &str, port| PostgresHost::Tcp(host.to_owned(), port);
        assert_eq!(read, [tcp("db-1", 5432), tcp("::1", 5433), PostgresHost::Folder("/run/postgresql".into())]);
    }

    #[test]
    fn mistakes_name_their_keys() {
        for (more, key) in [
            ("hosts: []", "hosts"),
            ("hosts: [\"127.0.0.1\"]", "hosts[0]"),
            ("hosts: [\"127.0.0.1:0\"]", "hosts[0]"),
            ("hosts: [\"user:secret@db:5432\"]", "hosts[0]"),
            ("hosts: [\"127.0.0.1:5432\", \"db:5432\"]", "tls"),
            ("hosts: [\"db:5432\"]\ntls: { ca: a, cert: b }", "tls"),
        ] {
            let wrong = settings(more).mistakes();
            assert!(wrong.len() == 1 && wrong[0].starts_with(key), "{more}: {wrong:?}");
        }
        assert!(settings("hosts: [\"127.0.0.1:5432\", /run/pg]").mistakes().is_empty());
        assert!(settings("hosts: [\"db:5432\"]\ntls: { ca: a }").mistakes().is_empty());
    }
}
