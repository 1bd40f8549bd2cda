//! Ports for programs that are run again on the port that they had.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of loopback that the kernel gives to no other socket, while a program may listen there.
///
/// A socket that is bound and never listens keeps it: with `SO_REUSEADDR` another one may be bound to the same address and listen.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ReservedPort {
    pub fn new() -> Self {
        let bound = TcpSocket::new_v4().unwrap();
        bound.set_reuseaddr(true).unwrap();
        bound.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self { address: bound.local_addr().unwrap(), _bound: bound }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
