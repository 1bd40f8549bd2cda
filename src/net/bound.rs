//! Bound addresses, before and while they are served.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::SockRef;

use super::raw_tcp::RawTcp;
use super::socket::Socket;

/// The most unsent bytes of an answer that the kernel holds while its client does not read, besides the room in the
/// client's own socket. Its default is 4 MiB for each connection, counted against our control group. Units: bytes.
pub(super) const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Clients that wait to be let in, on one TCP address. One more would try again after a second and later, so that many that connect
/// at once, as after a restart, must fit; the system has its own bound, which is usually the same, and holds some hundred bytes for
/// each.
pub(super) const QUEUE: i32 = 4096;

/// Why an address cannot be listened on; the message has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{0} is taken; stop the process that listens there, or choose another address under `listen`")]
    Taken(LocalAddress),
    /// The directory of a Unix socket does not exist.
    #[error("the directory of {0} does not exist; create it, or choose another path under `listen.clients`")]
    NoDirectory(LocalAddress),
    /// Something that is no socket is at the path.
    #[error("{0} is a file that is no socket; remove it, or choose another path under `listen.clients`")]
    NoSocket(LocalAddress),
    /// Every address was a default one that this machine lacks.
    #[error("this machine has none of the default addresses; name one under `listen.clients`")]
    NoAddress,
    /// A descriptor that was handed over is of no use.
    #[error("{which} cannot be listened on: {source}; hand over listening TCP or Unix sockets only")]
    HandedOver {
        /// The descriptor.
        which: String,
        /// Why.
        source: io::Error,
    },
    /// A socket was handed over that the configuration does not know.
    #[error(
        "a socket for {0} was handed over, but `listen` does not name that address; name it there, or do not hand it over"
    )]
    NotConfigured(LocalAddress),
    /// The control socket cannot be listened on.
    #[error("control.socket: {0}")]
    Control(String),
    /// Any other answer of the system.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// The address.
        address: LocalAddress,
        /// The kernel's error.
        source: io::Error,
    },
}

/// An address that is listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalAddress {
    /// A TCP address; the port is the real one once it is bound.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound address, not yet served. The file of a Unix socket is removed with the last clone, if it is still ours.
#[derive(Debug)]
pub struct BoundListener {
    listener: Descriptor,
    local: LocalAddress,
    file: Option<Arc<SocketFile>>,
    handed_over: bool,
}

#[derive(Debug)]
enum Descriptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl BoundListener {
    /// The address, with the port that the system chose.
    #[must_use]
    pub const fn local(&self) -> &LocalAddress {
        &self.local
    }

    /// A second descriptor of the same socket, for a further worker thread.
    ///
    /// Errors: the system's, when there are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let listener = match &self.listener {
            Descriptor::Tcp(tcp) => Descriptor::Tcp(tcp.try_clone()?),
            Descriptor::Unix(unix) => Descriptor::Unix(unix.try_clone()?),
        };
        Ok(Self { listener, local: self.local.clone(), file: self.file.clone(), handed_over: self.handed_over })
    }

    pub(super) const fn tcp(listener: TcpListener, local: LocalAddress) -> Self {
        Self { listener: Descriptor::Tcp(listener), local, file: None, handed_over: false }
    }

    /// `file` is removed with the last clone.
    pub(super) fn unix(listener: UnixListener, local: LocalAddress, file: SocketFile) -> Self {
        Self { listener: Descriptor::Unix(listener), local, file: Some(Arc::new(file)), handed_over: false }
    }

    /// A socket that another process bound and keeps.
    ///
    /// Errors: the system's, when it does not say where the socket listens.
    pub(super) fn handed_over_tcp(listener: TcpListener) -> io::Result<Self> {
        let local = LocalAddress::Tcp(listener.local_addr()?);
        Ok(Self { listener: Descriptor::Tcp(listener), local, file: None, handed_over: true })
    }

    /// As [`Self::handed_over_tcp`]; the socket's file belongs to the process that bound it.
    ///
    /// Errors: also for a socket without a path.
    pub(super) fn handed_over_unix(listener: UnixListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let path = address.as_pathname().ok_or_else(|| io::Error::other("it has no path"))?;
        let local = LocalAddress::Unix(path.to_owned());
        Ok(Self { listener: Descriptor::Unix(listener), local, file: None, handed_over: true })
    }

    /// A listener that was not bound here, which may be none at all.
    #[cfg(test)]
    pub(crate) fn of(listener: TcpListener, local: LocalAddress) -> Self {
        listener.set_nonblocking(true).unwrap();
        Self { listener: Descriptor::Tcp(listener), local, file: None, handed_over: false }
    }

    /// Refuses all further connections, those included that wait to be accepted, unless another process accepts from the socket, too.
    pub fn refuse(&self) {
        if self.handed_over {
            return;
        }
        // A socket that cannot be shut down goes with the process.
        let _ = match &self.listener {
            Descriptor::Tcp(tcp) => SockRef::from(tcp).shutdown(Shutdown::Both),
            Descriptor::Unix(unix) => SockRef::from(unix).shutdown(Shutdown::Both),
        };
    }

    /// The bare TCP listener.
    ///
    /// Errors: `Unsupported` for a Unix socket.
    pub fn try_into_tcp(self) -> io::Result<TcpListener> {
        match self.listener {
            Descriptor::Tcp(tcp) => Ok(tcp),
            Descriptor::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The bare Unix listener; the file of the socket stays with the other clones of this listener.
    ///
    /// Errors: `Unsupported` for a TCP socket.
    pub fn try_into_unix(self) -> io::Result<UnixListener> {
        match self.listener {
            Descriptor::Unix(unix) => Ok(unix),
            Descriptor::Tcp(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Hands the descriptor to the current thread's runtime.
    ///
    /// Errors: the system's, when the runtime cannot take it.
    pub fn register(self) -> io::Result<Acceptor> {
        let listener = match self.listener {
            Descriptor::Tcp(tcp) => {
                bound_unsent(&tcp);
                Registered::Tcp(tokio::net::TcpListener::from_std(tcp)?)
            }
            Descriptor::Unix(unix) => Registered::Unix(tokio::net::UnixListener::from_std(unix)?),
        };
        Ok(Acceptor { listener, _file: self.file, handed_over: self.handed_over })
    }
}

/// Bounds the unsent bytes of each connection of a listener; a kernel without this option keeps its own bound.
fn bound_unsent(listener: &TcpListener) {
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(listener).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
}

/// A listener on a runtime.
#[derive(Debug)]
pub struct Acceptor {
    listener: Registered,
    _file: Option<Arc<SocketFile>>,
    handed_over: bool,
}

#[derive(Debug)]
enum Registered {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Acceptor {
    /// Whether another process holds the socket, too: clients that are not accepted here wait there for the next
    /// process.
    pub(super) const fn is_handed_over(&self) -> bool {
        self.handed_over
    }

    /// The next connection, and where it comes from.
    ///
    /// Cancel: no connection is lost.
    pub(super) async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match &self.listener {
            Registered::Tcp(tcp) => {
                let (socket, peer) = tcp.accept().await?;
                // Answers are small and whole; waiting to fill a segment only delays them. Refused only on a dead socket.
                let _ = socket.set_nodelay(true);
                Ok((Socket::Tcp(RawTcp::new(socket, None)), Some(peer)))
            }
            Registered::Unix(unix) => Ok((Socket::Unix(unix.accept().await?.0), None)),
        }
    }
}

/// The file of a Unix socket, known by its inode.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), inode: inode(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A successor may have put its own socket there already.
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
