//! One new connection to a region: addresses in a staggered race, then TLS, then the HTTP version that ALPN chose.
//!
//! Nothing of a request is written here, so every error of this file is proof that the request was not sent.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::counting_stream::CountingStream;
use super::stream::{Stream, Tls};
use super::tls::ClientTls;
use super::usual::UsualConnect;
use crate::base::Boxed;

/// A further address joins the race this much later, unless the one before failed sooner (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried; a name with more is answered by its first ones.
const ADDRESSES_MAX: usize = 8;

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name of the region never resolved.
    #[error("the region's name has not resolved to an address yet")]
    NoAddress,
    /// No address accepted a connection.
    #[error("connecting failed: {0}")]
    Connect(io::Error),
    /// The handshake failed: certificate, identity or protocol. One that just broke off is a [`DialError::Connect`].
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    /// This process, or its machine, has no descriptor, port or memory left for a socket: nothing of it says anything of the region.
    #[error("no socket could be made here: {0}; raise the limit on open files, or lower `limits.client_connections`")]
    Own(io::Error),
    /// This thread makes as many connections to the region as it may at once, and none of them was over in time.
    #[error("too many connections to the region are being made at once; send the request again later")]
    Crowded,
    /// `limits.connect_timeout` passed.
    #[error("connecting took longer than limits.connect_timeout")]
    Timeout,
}

impl DialError {
    /// Whether it is for want of something on this machine, and so says nothing of the region.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Crowded)
    }

    /// The closed label of this error, for metrics and events.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoAddress => "dns",
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Own(_) | Self::Crowded => "own_resources",
            Self::Timeout => "connect_timeout",
        }
    }
}

/// Whether an error of the kernel means that this machine lacks a resource.
fn is_own(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let own = [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| own.contains(&errno))
}

/// The destination of a connection, and the expected identity.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint<'a> {
    /// The last addresses of the region's name.
    pub addresses: &'a [SocketAddr],
    /// Its `host[:port]`, as HTTP/2 requests name it.
    pub authority: &'a Authority,
    /// Its TLS configuration; none for plain HTTP on loopback.
    pub tls: Option<&'a ClientTls>,
    /// The number of the identity that `tls` and the request's credentials are of: no connection of another one is used.
    pub identity: u64,
    /// For the whole of connecting, TLS included.
    pub connect_timeout: Duration,
    /// How long connecting usually takes, which each connection adds to.
    pub usual: &'a UsualConnect,
    /// Where a request can go while no connection to here comes about; none where it can go nowhere else.
    pub elsewhere: Option<&'a dyn Elsewhere>,
}

/// Another place for a request that waits for a connection.
pub trait Elsewhere: std::fmt::Debug {
    /// Resolves when the other place can take the request at once, and this one has had its time.
    ///
    /// Cancel: when the connection came about first.
    fn is_ready(&self) -> Boxed<'_, ()>;
}

/// Connects to the first address that accepts, and completes TLS on it; `http2` offers HTTP/2 beside HTTP/1.1.
///
/// Errors: [`DialError`].
/// Cancel: dropping the future closes every socket of the race.
pub async fn dial(endpoint: &Endpoint<'_>, http2: bool) -> Result<Stream, DialError> {
    let connect = async {
        let socket = CountingStream::new(race(endpoint.addresses).await?);
        let Some(tls) = endpoint.tls else { return Ok(Stream::Plain(socket)) };
        let config = if http2 { &tls.config } else { &tls.config_http1 };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(tls.name.clone(), socket).await.map_err(handshake_failed)?;
        Ok(Stream::Tls(Tls::new(stream)))
    };
    tokio::time::timeout(endpoint.connect_timeout, connect).await.map_err(|_| DialError::Timeout)?
}

/// A peer that hangs up during the handshake has said nothing about identities.
fn handshake_failed(error: io::Error) -> DialError {
    let by_tls = error.get_ref().is_some_and(|cause| cause.is::<rustls::Error>());
    match error {
        _ if by_tls => DialError::Tls(error),
        _ if is_own(&error) => DialError::Own(error),
        _ => DialError::Connect(error),
    }
}

async fn race(addresses: &[SocketAddr]) -> Result<TcpStream, DialError> {
    let mut waiting = interleave(addresses).into_iter();
    let mut running: JoinSet<io::Result<TcpStream>> = JoinSet::new();
    let Some(first) = waiting.next() else { return Err(DialError::NoAddress) };
    running.spawn(connect(first));
    // The error of one address counts, even if there was no socket for another.
    let mut of_region = None;
    loop {
        tokio::select! {
            Some(joined) = running.join_next() => {
                let error = match joined {
                    Ok(Ok(socket)) => return Ok(socket),
                    Ok(Err(error)) => error,
                    Err(error) => io::Error::other(error),
                };
                let is_own = is_own(&error);
                if let Some(next) = waiting.next() {
                    running.spawn(connect(next));
                } else if running.is_empty() {
                    return Err(match of_region {
                        Some(of_region) if is_own => DialError::Connect(of_region),
                        _ if is_own => DialError::Own(error),
                        _ => DialError::Connect(error),
                    });
                }
                if !is_own {
                    of_region = Some(error);
                }
            }
            () = tokio::time::sleep(STAGGER), if waiting.len() > 0 => {
                if let Some(next) = waiting.next() {
                    running.spawn(connect(next));
                }
            }
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    // Requests are written whole; waiting for more to send would only add latency.
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Alternates the address families, beginning with the resolver's first, so that one broken family costs one stagger.
fn interleave(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return Vec::new() };
    let (mut same, mut other): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv4() == first.is_ipv4());
    let mut ordered = Vec::with_capacity(addresses.len().min(ADDRESSES_MAX));
    same.reverse();
    other.reverse();
    while ordered.len() < ADDRESSES_MAX {
        let before = ordered.len();
        ordered.extend(same.pop());
        ordered.extend(other.pop());
        if ordered.len() == before {
            break;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_alternate_beginning_with_the_resolvers_first() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let given = parse(&["[::1]:1", "[::2]:1", "127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"]);
        let wanted = parse(&["[::1]:1", "127.0.0.1:1", "[::2]:1", "127.0.0.2:1", "127.0.0.3:1"]);
        assert_eq!(interleave(&given), wanted);
        assert_eq!(interleave(&[]), []);
    }

    fn plain(addresses: &[SocketAddr]) -> Endpoint<'_> {
        static AUTHORITY: std::sync::LazyLock<Authority> =
            std::sync::LazyLock::new(|| Authority::from_static("localhost"));
        static USUAL: std::sync::LazyLock<UsualConnect> = std::sync::LazyLock::new(UsualConnect::default);
        Endpoint {
            addresses,
            authority: &AUTHORITY,
            tls: None,
            identity: 0,
            connect_timeout: Duration::from_secs(5),
            usual: &USUAL,
            elsewhere: None,
        }
    }

    #[tokio::test]
    async fn a_refused_address_does_not_hold_up_the_next_one() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let open = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [closed, open.local_addr().unwrap()];
        let stream = dial(&plain(&addresses), false).await.unwrap();
        assert!(matches!(stream, Stream::Plain(_)));
    }

    #[test]
    fn only_what_this_machine_lacks_is_our_own_failure() {
        use rustix::io::Errno;
        let own = |errno: Errno| is_own(&io::Error::from_raw_os_error(errno.raw_os_error()));
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM] {
            assert!(own(errno), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::TIMEDOUT, Errno::NETUNREACH, Errno::HOSTUNREACH] {
            assert!(!own(errno), "{errno}");
        }
        assert!(!is_own(&io::Error::other("no errno")));
    }

    #[tokio::test]
    async fn no_address_and_refused_addresses_say_so() {
        assert!(matches!(dial(&plain(&[]), false).await, Err(DialError::NoAddress)));
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(matches!(dial(&plain(&[closed]), false).await, Err(DialError::Connect(_))));
    }
}
