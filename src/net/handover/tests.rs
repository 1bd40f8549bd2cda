use std::net::{Ipv4Addr, SocketAddr};

use super::*;
use crate::config::{ClientListen, Listen};
use crate::net::{bind, taken_or_bound};

fn tcp() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn listen(clients: Vec<ClientListen>, admin: SocketAddr) -> Listen {
    Listen {
        clients,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        credential_headers: Vec::new(),
        admin,
        unix_mode: 0o600,
    }
}

#[test]
fn sockets_are_taken_for_the_addresses_that_the_configuration_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ojs.sock");
    let (clients, at) = tcp();
    let (admin, admin_at) = tcp();
    let unix = UnixListener::bind(&path).unwrap();
    let sockets = [of_tcp(admin.try_clone().unwrap()), of_unix(unix), of_tcp(clients.try_clone().unwrap())];
    let mut handed_over = HandedOver(sockets.into_iter().map(Result::unwrap).collect());
    let named = vec![ClientListen::Tcp { address: at, optional: false }, ClientListen::Unix { path: path.clone() }];
    let bound = bind(&listen(named, admin_at), &mut handed_over).unwrap();
    let admin_bound = taken_or_bound(admin_at, &mut handed_over).unwrap();
    handed_over.all_taken().unwrap();
    let at_all: Vec<_> = bound.iter().chain([&admin_bound]).map(|it| it.local().to_string()).collect();
    assert_eq!(at_all, [at.to_string(), format!("unix:{}", path.display()), admin_at.to_string()]);
    // Its file belongs to who bound it.
    drop(bound);
    assert!(path.exists());
}

#[test]
fn a_socket_that_nobody_would_serve_is_an_error_that_names_it() {
    let (listener, at) = tcp();
    let error = HandedOver(vec![of_tcp(listener).unwrap()]).all_taken().unwrap_err();
    assert!(error.to_string().contains(&at.to_string()), "{error}");
}

#[test]
fn a_socket_that_does_not_listen_is_refused() {
    let (listener, at) = tcp();
    let connection = std::net::TcpStream::connect(at).unwrap();
    let mistaken = TcpListener::from(std::os::fd::OwnedFd::from(connection));
    assert!(of_tcp(mistaken).is_err());
    assert!(of_tcp(listener).is_ok());
}
