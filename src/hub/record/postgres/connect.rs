//! One connection to the server of a database that takes writes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

use super::super::super::postgres_settings::{PostgresHost, PostgresSettings, PostgresTls};
use super::super::postgres_error::{PostgresError, in_full_with_key, is_refused_for_good};
use super::tls::Tls;
use crate::config::RegionTls;
use crate::net::tls::{TlsFiles, build};

/// For connecting to one server, TLS and the password included.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// For one address of a name: a name may have some of which one does not answer.
const ADDRESS_WAIT: Duration = Duration::from_secs(1);
/// A peer that has not answered for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// PostgreSQL's own.
const DEFAULT_PORT: u16 = 5432;
/// Shorter than the wait for an answer, so that a statement that was given up does not wait for a lock at the server.
const LOCK_WAIT: &str = "SET lock_timeout = '4s'";

/// The settings that all servers of a database share.
pub(super) struct Access {
    config: Config,
    tls: Option<Tls>,
}

/// Reads the files of the settings.
///
/// Errors: a file cannot be used.
pub(super) fn access(settings: &PostgresSettings) -> Result<Access, PostgresError> {
    let mut config = Config::new();
    config.dbname(&settings.database).user(&settings.user).application_name("ojs-sidecar hub");
    if let Some(path) = &settings.password_file {
        let password = std::fs::read_to_string(path).map_err(PostgresError::Password)?;
        config.password(password.trim_end_matches(['\r', '\n']));
    }
    config.connect_timeout(ADDRESS_WAIT);
    config.tcp_user_timeout(SILENCE_MAX).keepalives_idle(SILENCE_MAX);
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    let tls = settings.tls.as_ref().map(tls).transpose()?;
    config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
    Ok(Access { config, tls })
}

fn tls(settings: &PostgresTls) -> Result<Tls, PostgresError> {
    let PostgresTls { ca, cert, key } = settings.clone();
    let tls = RegionTls { ca: Some(ca), cert, key, ..RegionTls::default() };
    // The driver names the server of each connection.
    let built = build(&tls, &TlsFiles::read(&tls)?, "localhost")?;
    let mut config = rustls::ClientConfig::clone(&built.config);
    // Neither of the names of HTTP: a server that knows its own refuses others.
    config.alpn_protocols.clear();
    Ok(Tls(Arc::new(config)))
}

/// A connection; dropped, it is closed, whatever waits on it.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) client: Arc<Client>,
    task: JoinHandle<()>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects to the first server that takes writes.
///
/// Must run within a local runtime.
/// Errors: [`PostgresError`]; of servers, all causes.
pub(super) async fn connect(settings: &PostgresSettings) -> Result<Connected, PostgresError> {
    let access = access(settings)?;
    let (mut causes, mut is_of_configuration) = (Vec::new(), true);
    for (server, text) in settings.servers().into_iter().zip(&settings.hosts) {
        match tokio::time::timeout(CONNECT_WAIT, connect_to(&access, server)).await {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => {
                is_of_configuration &= is_refused_for_good(&error);
                causes.push(format!("{text}: {}", in_full_with_key(&error)));
            }
            Err(_) => {
                is_of_configuration = false;
                causes.push(format!("{text}: no answer within {} s", CONNECT_WAIT.as_secs()));
            }
        }
    }
    Err(PostgresError::Connect { causes: causes.join("; "), is_of_configuration })
}

async fn connect_to(access: &Access, server: PostgresHost) -> Result<Connected, tokio_postgres::Error> {
    let mut config = access.config.clone();
    match server {
        PostgresHost::Tcp(host, port) => config.host(host).port(port),
        // The folder has the port in the name of its socket.
        PostgresHost::Folder(folder) => config.host_path(folder).port(DEFAULT_PORT),
    };
    let (client, task) = match &access.tls {
        Some(tls) => {
            let (client, connection) = config.connect(tls.clone()).await?;
            (client, tokio::task::spawn_local(async move { drop(connection.await) }))
        }
        None => {
            let (client, connection) = config.connect(NoTls).await?;
            (client, tokio::task::spawn_local(async move { drop(connection.await) }))
        }
    };
    let connected = Connected { client: Arc::new(client), task };
    connected.client.batch_execute(LOCK_WAIT).await?;
    Ok(connected)
}
