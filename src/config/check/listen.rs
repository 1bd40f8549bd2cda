//! Listening addresses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::super::kind::mode as mode_of;
use super::super::raw::RawListen;
use super::super::types::{ClientListen, Listen};
use super::collect::Check;
use http::HeaderName;
use rustls_pki_types::ServerName;

/// The kernel's bound on the path of a Unix socket, without its closing zero, and without the `~` of the path that it is bound at first.
const UNIX_PATH_BYTES_MAX: usize = 106;

/// Without these a region would read another call; `Authorization` has a rule of its own.
const KEPT: [&str; 4] = ["authorization", "content-length", "content-type", "host"];

impl Check {
    pub(super) fn listen(&mut self, raw: RawListen) -> Listen {
        let optional = !self.origins.is_set("listen.clients");
        let mut clients: Vec<ClientListen> = Vec::new();
        for (at, text) in raw.clients.iter().enumerate() {
            let path = format!("listen.clients[{at}]");
            match client_listen(text, optional) {
                Ok(listen) if clients.contains(&listen) && !is_any_port(&listen) => {
                    self.refuse(&path, "the address stands in the list twice: keep one");
                }
                Ok(listen) => clients.push(listen),
                Err(rule) => self.refuse(&path, rule),
            }
        }
        if raw.clients.is_empty() {
            self.refuse("listen.clients", "expected at least one address, such as 127.0.0.1:8080");
        }
        if clients.iter().any(|client| overlap(client, raw.admin)) {
            self.refuse("listen.admin", "the address is one of listen.clients as well: choose another port");
        }
        for (at, host) in raw.allowed_hosts.iter().enumerate() {
            if ServerName::try_from(host.as_str()).is_err() {
                self.refuse(&format!("listen.allowed_hosts[{at}]"), "expected a host name or address without port");
            }
        }
        for (at, origin) in raw.allowed_origins.iter().enumerate() {
            if !is_origin(origin) {
                let path = format!("listen.allowed_origins[{at}]");
                self.refuse(
                    &path,
                    "expected http:// or https://, a host name or address, and a port unless it is the scheme's own",
                );
            }
        }
        for (at, name) in raw.credential_headers.iter().enumerate() {
            if HeaderName::from_bytes(name.as_bytes()).is_err()
                || KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept))
            {
                let path = format!("listen.credential_headers[{at}]");
                self.refuse(&path, "expected the name of a header, such as X-Api-Key, and none that every call needs");
            }
        }
        Listen {
            clients,
            allowed_hosts: raw.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            allowed_origins: raw.allowed_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect(),
            credential_headers: raw.credential_headers.iter().map(|name| name.to_ascii_lowercase()).collect(),
            admin: raw.admin,
            // The kind has been settled, so the default below is never taken; it is the strict one.
            unix_mode: mode_of(&raw.unix_mode).unwrap_or(0o600),
        }
    }
}

impl Check {
    /// The control socket, where one is set.
    pub(super) fn control_socket(&mut self, path: Option<PathBuf>, listen: &Listen) -> Option<PathBuf> {
        let path = path?;
        if !is_socket_path(&path) {
            self.refuse("control.socket", "expected an absolute path of at most 106 bytes");
        }
        let is_taken = |client: &ClientListen| matches!(client, ClientListen::Unix { path: other } if *other == path);
        if listen.clients.iter().any(is_taken) {
            self.refuse("control.socket", "the path is one of listen.clients as well: choose another one");
        }
        Some(path)
    }
}

fn is_socket_path(path: &Path) -> bool {
    path.is_absolute() && path.file_name().is_some() && path.as_os_str().len() <= UNIX_PATH_BYTES_MAX
}

/// Whether a browser could send this as `Origin`: it leaves out the scheme's own port, and says no path.
fn is_origin(text: &str) -> bool {
    let (own_port, authority) = match text.split_once("://") {
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("http") => (80, authority),
        Some((scheme, authority)) if scheme.eq_ignore_ascii_case("https") => (443, authority),
        _ => return false,
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number != own_port && number != 0));
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    is_port && ServerName::try_from(host).is_ok()
}

fn client_listen(text: &str, optional: bool) -> Result<ClientListen, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        if !is_socket_path(&path) {
            return Err("expected unix: and an absolute path of at most 106 bytes");
        }
        return Ok(ClientListen::Unix { path });
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "expected an address with a port, such as 127.0.0.1:8080 or [::1]:8080, or unix:/path")?;
    if !address.ip().is_loopback() {
        return Err(
            "expected a loopback address: clients are not authenticated here, so any host that reaches the port can enqueue",
        );
    }
    Ok(ClientListen::Tcp { address, optional })
}

fn is_any_port(listen: &ClientListen) -> bool {
    matches!(listen, ClientListen::Tcp { address, .. } if address.port() == 0)
}

/// Whether both cannot be bound at once.
fn overlap(client: &ClientListen, admin: SocketAddr) -> bool {
    let ClientListen::Tcp { address, .. } = client else { return false };
    let same_host = address.ip() == admin.ip() || admin.ip().is_unspecified() && address.is_ipv4() == admin.is_ipv4();
    same_host && address.port() == admin.port() && admin.port() != 0
}
