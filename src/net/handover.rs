//! Listening sockets that the service manager has bound for this process, and keeps: no client is refused while one
//! process ends and the next one begins.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use listenfd::ListenFd;
use socket2::SockRef;

use super::bound::{BindError, BoundListener, LocalAddress};

/// More than this is a mistake in the environment and not a configuration.
const SOCKETS_MAX: usize = 64;
/// The variable with their number; `LISTEN_PID`, where it is set, names the process.
const COUNT: &str = "LISTEN_FDS";

/// The sockets that wait to be taken.
#[derive(Debug, Default)]
pub struct HandedOver(Vec<BoundListener>);

impl HandedOver {
    /// The sockets that the environment of this process hands over, as systemd does it (`sd_listen_fds`): descriptors
    /// from 3 on.
    ///
    /// Taken once: the variables are removed, so that it must be called before there are threads.
    /// Errors: [`BindError::HandedOver`] for a descriptor that is no listening TCP or Unix socket.
    pub fn of_this_process() -> Result<Self, BindError> {
        let count = std::env::var_os(COUNT).and_then(|count| count.to_str()?.parse::<i64>().ok());
        if count.is_some_and(|count| !(0..=SOCKETS_MAX as i64).contains(&count)) {
            let error = io::Error::other(format!("there may be 0 to {SOCKETS_MAX}"));
            return Err(BindError::HandedOver { which: COUNT.to_owned(), source: error });
        }
        let mut environment = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..environment.len() {
            let failed = |source| BindError::HandedOver { which: format!("socket {} of {COUNT}", index + 1), source };
            sockets.push(socket(&mut environment, index).map_err(failed)?);
        }
        Ok(Self(sockets))
    }

    /// Takes the socket of a configured address.
    pub(super) fn take(&mut self, address: &LocalAddress) -> Option<BoundListener> {
        let index = self.0.iter().position(|it| it.local() == address)?;
        Some(self.0.swap_remove(index))
    }

    /// Makes sure that every socket was taken: its clients would wait in it for ever.
    ///
    /// Errors: [`BindError::NotConfigured`] for the first that was not.
    pub fn all_taken(self) -> Result<(), BindError> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some(left) => Err(BindError::NotConfigured(left.local().clone())),
        }
    }
}

fn socket(environment: &mut ListenFd, index: usize) -> io::Result<BoundListener> {
    let taken = || io::Error::from(io::ErrorKind::NotFound);
    match environment.take_unix_listener(index) {
        Ok(unix) => of_unix(unix.ok_or_else(taken)?),
        Err(_) => of_tcp(environment.take_tcp_listener(index)?.ok_or_else(taken)?),
    }
}

fn of_tcp(listener: TcpListener) -> io::Result<BoundListener> {
    must_listen(SockRef::from(&listener))?;
    listener.set_nonblocking(true)?;
    BoundListener::handed_over_tcp(listener)
}

fn of_unix(listener: UnixListener) -> io::Result<BoundListener> {
    must_listen(SockRef::from(&listener))?;
    listener.set_nonblocking(true)?;
    BoundListener::handed_over_unix(listener)
}

/// A connection, as inetd passes it, would be accepted from for ever.
fn must_listen(socket: SockRef<'_>) -> io::Result<()> {
    if socket.is_listener()? { Ok(()) } else { Err(io::Error::other("it does not listen")) }
}

#[cfg(test)]
mod tests;
