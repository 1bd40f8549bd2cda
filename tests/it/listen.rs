//! Where clients reach the sidecar: Unix sockets, both loopback families, and the names that it answers to.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use ojs_sidecar::net::{DrainEnd, LocalAddress};
use tokio::net::{TcpStream, UnixStream};

use crate::support::{Federation, Setup, Wire, eventually};

const JOB: &str = r#"{"type":"t","args":["a"]}"#;

fn post(host: &str) -> String {
    format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{JOB}", JOB.len())
}

async fn unix(path: &std::path::Path) -> Wire<UnixStream> {
    Wire::new(UnixStream::connect(path).await.unwrap())
}

#[tokio::test]
async fn clients_on_a_unix_socket_are_served_like_others_and_under_any_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ojs.sock");
    let address = format!("unix:{}", path.display());
    let mut federation = Setup::default().client_address(&address).steered().start().await;
    assert_eq!(federation.addresses[1].to_string(), address);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let mut wire = unix(&path).await;
    for host in ["localhost", "ojs", "evil.example"] {
        wire.send(post(host)).await;
        let answer = wire.answer().await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("ojs-federation-region")),
            (201, Some("us-east-1")),
            "{host}"
        );
    }
    // It is as strict as the others.
    wire.send(post("localhost").replace("Content-Length", "Content-Length: 1\r\nContent-Length")).await;
    assert_eq!(wire.answer().await.status, 400);
    assert!(wire.is_closed().await);
    let mut wire = unix(&path).await;
    wire.send("GET /ojs/v1/debug/stream?bytes=5000000 HTTP/1.1\r\nHost: ojs\r\n\r\n").await;
    assert_eq!(wire.answer().await.body.len(), 5_000_000);
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    let mut late = unix(&path).await;
    late.send(post("ojs")).await;
    assert_eq!(late.answer().await.header("connection"), Some("close"));
    federation.advance(Duration::from_secs(5));
    assert_eq!(federation.ended().await, DrainEnd::Idle);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_stale_socket_is_replaced_with_the_configured_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ojs.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let setup = Setup::default().client_address(&format!("unix:{}", path.display())).listen("unix_mode: \"0600\"");
    let _federation = setup.start().await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut wire = unix(&path).await;
    wire.send(post("localhost")).await;
    assert_eq!(wire.answer().await.status, 201);
}

#[tokio::test]
async fn both_loopback_families_are_served() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let federation = Setup::default().client_address("[::1]:0").start().await;
    let LocalAddress::Tcp(address) = federation.addresses[1] else { panic!("a TCP address") };
    assert!(address.is_ipv6());
    let mut wire = Wire::new(TcpStream::connect(address).await.unwrap());
    wire.send(post(&address.to_string())).await;
    assert_eq!(wire.answer().await.status, 201);
    assert_eq!(federation.client.enqueue(JOB).await.status, 201);
}

#[tokio::test]
async fn only_loopback_names_and_allowed_hosts_are_answered() {
    let federation = Setup::default().listen("allowed_hosts: [ojs.internal, host.docker.internal]").start().await;
    let mut wire = federation.client.wire().await;
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "ojs.internal:80", "Host.Docker.Internal"]
    {
        wire.send(post(host)).await;
        assert_eq!(wire.answer().await.status, 201, "{host}");
    }
    let jobs = federation.regions[0].jobs().len();
    for host in ["evil.example", "internal", "x.ojs.internal", "ojs.internal.evil.example", "10.1.2.3", "0.0.0.0"] {
        wire.send(post(host)).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status.as_u16(), answer.reason()), (421, "host_not_allowed".to_owned()), "{host}");
    }
    assert_eq!(federation.regions[0].jobs().len(), jobs);
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    wire.send(post("ojs.internal")).await;
    assert_eq!(wire.answer().await.status, 421, "by default there are none");
}
