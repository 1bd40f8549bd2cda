//! Whether this host permits the configuration: ports, sockets and the folder of the journal.

use std::io;
use std::path::Path;

use rustix::fs::{Access, access};
use socket2::{Domain, Socket, Type};

use crate::config::{ClientListen, Config};

/// The errors with which `run` would fail, a sentence each.
pub(super) fn refusals(config: &Config) -> Vec<String> {
    let clients = config.listen.clients.iter().filter_map(|listen| match listen {
        ClientListen::Tcp { address, .. } => {
            let error = bind_refusal(*address)?;
            Some(format!(
                "listen.clients: {address} cannot be bound: {error}; choose a port above 1023, or grant the right"
            ))
        }
        ClientListen::Unix { path } => {
            let error = folder_refusal(path)?;
            Some(format!("listen.clients: unix:{} cannot be made: {error}", path.display()))
        }
    });
    let admin = bind_refusal(config.listen.admin).map(|error| {
        format!("listen.admin: {} cannot be bound: {error}; choose an address of this host", config.listen.admin)
    });
    let control = config.control_socket.as_deref().and_then(|path| {
        let error = folder_refusal(path)?;
        Some(format!("control.socket: {} cannot be made: {error}", path.display()))
    });
    clients.chain(admin).chain(control).collect()
}

/// Why the journal would be kept in memory only; routing goes on without its file.
pub(super) fn journal_warning(config: &Config) -> Option<String> {
    let path = config.journal.path.as_deref()?;
    let file =
        if path.exists() { access(path, Access::READ_OK | Access::WRITE_OK).err().map(io::Error::from) } else { None };
    let error = file.or_else(|| folder_refusal(path))?;
    Some(format!("journal.path: {} cannot be written: {error}; outcomes would be kept in memory only", path.display()))
}

/// Why no file can be made in the folder of `path`.
fn folder_refusal(path: &Path) -> Option<io::Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.metadata().is_ok_and(|folder| !folder.is_dir()) {
        return Some(io::ErrorKind::NotADirectory.into());
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).err().map(io::Error::from)
}

/// Why the address cannot be bound, without listening on it. A port that is taken may be this sidecar's own and is no refusal.
fn bind_refusal(address: std::net::SocketAddr) -> Option<io::Error> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).ok()?;
    let error = socket.bind(&address.into()).err()?;
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::AddrNotAvailable).then_some(error)
}
