use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;
use crate::net::bound::UNSENT_BYTES_MAX;
use crate::net::socket::Socket;

const MODE: u32 = 0o600;

fn loopback(port: u16) -> SocketAddr {
    (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()
}

fn listen(clients: Vec<ClientListen>) -> Listen {
    Listen {
        clients,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        credential_headers: Vec::new(),
        admin: loopback(0),
        unix_mode: MODE,
    }
}

fn unix(path: &Path) -> Listen {
    listen(vec![ClientListen::Unix { path: path.to_owned() }])
}

fn tcp(clients: &[(SocketAddr, bool)]) -> Listen {
    listen(clients.iter().map(|&(address, optional)| ClientListen::Tcp { address, optional }).collect())
}

fn bind_alone(listen: &Listen) -> Result<Vec<BoundListener>, BindError> {
    bind(listen, &mut HandedOver::default())
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let first = bind_tcp(loopback(0)).unwrap();
    let LocalAddress::Tcp(address) = *first.local() else { panic!("a TCP listener") };
    assert_ne!(address.port(), 0);
    let error = bind_alone(&tcp(&[(address, true)])).unwrap_err();
    assert!(matches!(error, BindError::Taken(_)));
    assert!(error.to_string().starts_with(&format!("{address} is taken; ")), "{error}");
    let clone = first.try_clone().unwrap();
    drop(first);
    assert!(bind_tcp(address).is_err(), "the clone still holds it");
    drop(clone);
    assert!(bind_tcp(address).is_ok());
}

#[test]
fn only_a_default_address_is_skipped_where_the_machine_lacks_it() {
    // An address for documentation, which no machine has.
    let missing: SocketAddr = "192.0.2.1:0".parse().unwrap();
    let bound = bind_alone(&tcp(&[(loopback(0), true), (missing, true)])).unwrap();
    assert_eq!(bound.len(), 1);
    assert!(matches!(bind_alone(&tcp(&[(missing, false)])), Err(BindError::System { .. })));
    assert!(matches!(bind_alone(&tcp(&[(missing, true)])), Err(BindError::NoAddress)));
}

#[test]
fn a_unix_socket_has_its_mode_and_goes_with_its_last_listener() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ojs.sock");
    let mut bound = bind_alone(&unix(&path)).unwrap();
    let listener = bound.pop().unwrap();
    assert_eq!(listener.local().to_string(), format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    UnixStream::connect(&path).unwrap();
    let clone = listener.try_clone().unwrap();
    drop(listener);
    UnixStream::connect(&path).unwrap();
    drop(clone);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ojs.sock");
    drop(UnixListener::bind(&path).unwrap());
    let listener = bind_alone(&unix(&path)).unwrap();
    assert!(matches!(bind_alone(&unix(&path)), Err(BindError::Taken(_))));
    UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_successors_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ojs.sock");
    let listener = bind_alone(&unix(&path)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _successor = UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
}

#[test]
fn a_path_that_cannot_be_a_socket_is_an_error_that_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    assert!(matches!(bind_alone(&unix(&file)), Err(BindError::NoSocket(_))));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    assert!(matches!(bind_alone(&unix(&directory.path().join("none/ojs.sock"))), Err(BindError::NoDirectory(_))));
}

#[test]
fn many_clients_that_connect_at_once_wait_to_be_let_in() {
    let listener = bind_tcp(loopback(0)).unwrap();
    let LocalAddress::Tcp(address) = *listener.local() else { panic!("a TCP listener") };
    let connect = |_| std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(30)).unwrap();
    let waiting: Vec<_> = (0..200).map(connect).collect();
    assert_eq!(waiting.len(), 200);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn what_a_client_does_not_read_waits_here_and_not_in_the_kernel() {
    let listener = bind_tcp(loopback(0)).unwrap();
    let LocalAddress::Tcp(address) = *listener.local() else { panic!("a TCP listener") };
    let acceptor = listener.register().unwrap();
    let client = tokio::net::TcpStream::connect(address).await.unwrap();
    let (Socket::Tcp(socket), _) = acceptor.accept().await.unwrap() else { panic!("a TCP socket") };
    let piece = [b'x'; 64 * 1024];
    let mut taken = 0;
    // The kernel moves on what it has taken, for as long as the client's socket has room.
    for _ in 0..100 {
        while let Ok(bytes) = socket.tcp().try_write(&piece) {
            taken += bytes;
        }
        tokio::task::yield_now().await;
    }
    let in_client = SockRef::from(&client).recv_buffer_size().unwrap();
    let bound = in_client + UNSENT_BYTES_MAX as usize + piece.len();
    assert!(taken > 0 && taken <= bound, "{taken} of {bound}");
}

#[test]
fn the_longest_path_that_the_configuration_takes_can_be_bound() {
    let directory = tempfile::tempdir().unwrap();
    let name = "s".repeat(106 - directory.path().as_os_str().len() - 1);
    let path = directory.path().join(name);
    bind_control(&path).unwrap();
}
