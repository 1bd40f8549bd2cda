//! One transfer of a ready socket, without the C library.

use std::io::{self, ErrorKind};

use tokio::io::Interest;
use tokio::net::TcpStream;

/// The bytes that the kernel moves at once, `max` at most; `None` where the socket is no longer ready, so that the
/// runtime must be asked again.
pub(super) fn at_once(
    tcp: &TcpStream,
    interest: Interest,
    max: usize,
    transfer: impl FnOnce() -> rustix::io::Result<usize>,
) -> Option<io::Result<usize>> {
    let mut moved = 0;
    let result = tcp.try_io(interest, || {
        moved = transfer()?;
        // As tokio does it: where fewer bytes were moved than possible, the kernel reports the next readiness, and the
        // socket need not be tried before.
        if (1..max).contains(&moved) { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => (moved > 0).then_some(Ok(moved)),
        result => Some(result.map(|()| moved)),
    }
}
