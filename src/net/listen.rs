//! Binding the addresses that clients reach us at, before anything runs.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use socket2::SockRef;

use crate::config::{ClientListen, Listen};

use super::bound::{BindError, BoundListener, LocalAddress, QUEUE};
use super::handover::HandedOver;
use unix::bind_unix;

/// Every process that can open the control socket gives orders.
const CONTROL_MODE: u32 = 0o600;

/// Binds every client address, in the operator's order, but for those that were handed over.
///
/// Errors: [`BindError`] for the first address that cannot be bound; sockets bound before are released.
pub fn bind(listen: &Listen, handed_over: &mut HandedOver) -> Result<Vec<BoundListener>, BindError> {
    let mut bound = Vec::with_capacity(listen.clients.len());
    for client in &listen.clients {
        if let Some(socket) = handed_over.take(&address_of(client)) {
            bound.push(socket);
            continue;
        }
        match client {
            ClientListen::Unix { path } => bound.push(bind_unix(path, listen.unix_mode)?),
            ClientListen::Tcp { address, optional } => match bind_tcp(*address) {
                Err(BindError::System { source, .. }) if *optional && is_family_missing(&source) => {
                    tracing::warn!(%address, "this machine lacks the address family; the default address is skipped");
                }
                listener => bound.push(listener?),
            },
        }
    }
    if bound.is_empty() { Err(BindError::NoAddress) } else { Ok(bound) }
}

fn address_of(client: &ClientListen) -> LocalAddress {
    match client {
        ClientListen::Unix { path } => LocalAddress::Unix(path.clone()),
        ClientListen::Tcp { address, .. } => LocalAddress::Tcp(*address),
    }
}

/// The TCP socket that was handed over for an address, or one that is bound exclusively: no other process may share the
/// port.
///
/// Errors: [`BindError::Taken`], or the kernel's error.
pub fn taken_or_bound(address: SocketAddr, handed_over: &mut HandedOver) -> Result<BoundListener, BindError> {
    handed_over.take(&LocalAddress::Tcp(address)).map_or_else(|| bind_tcp(address), Ok)
}

/// Binds one TCP address, alone: without the option that would let a second process share the port.
///
/// Errors: [`BindError::Taken`], or the kernel's error.
pub(super) fn bind_tcp(address: SocketAddr) -> Result<BoundListener, BindError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::Taken(LocalAddress::Tcp(address)),
        _ => BindError::System { address: LocalAddress::Tcp(address), source },
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    // Said again, because the library asks for 128 over TCP.
    SockRef::from(&listener).listen(QUEUE).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let local = LocalAddress::Tcp(listener.local_addr().map_err(failed)?);
    Ok(BoundListener::tcp(listener, local))
}

/// Binds the control socket, which only the user of this process can open.
///
/// Errors: [`BindError::Control`]. A file of a process that has ended is replaced, one of a process that listens is not.
pub fn bind_control(path: &Path) -> Result<BoundListener, BindError> {
    bind_unix(path, CONTROL_MODE).map_err(|error| {
        BindError::Control(match error {
            BindError::Taken(address) => {
                format!("another process listens at {address}; stop it, or choose another path")
            }
            BindError::NoDirectory(address) => {
                format!("the directory of {address} does not exist; create it, or choose another path")
            }
            BindError::NoSocket(address) => {
                format!("{address} is a file that is no socket; remove it, or choose another path")
            }
            error => error.to_string(),
        })
    })
}

/// Whether the machine lacks the address, or its whole family.
fn is_family_missing(error: &io::Error) -> bool {
    // The standard library has no kind for this one.
    const FAMILY_NOT_SUPPORTED: i32 = if cfg!(target_os = "linux") { 97 } else { 47 };
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(FAMILY_NOT_SUPPORTED)
}

mod unix;

#[cfg(test)]
mod tests;
