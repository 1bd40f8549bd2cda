use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::client::{Client, config, over, plain, secured};
use crate::{Authority, DemoRegion, RegionOptions};

const JOB: &str = r#"{"type":"a.b","args":[]}"#;

#[tokio::test]
async fn a_client_with_a_certificate_is_served_over_both_protocols_and_named_in_the_record() {
    for protocol in ["http/1.1", "h2"] {
        let (region, mut client) = over(protocol).await;
        assert_eq!(client.post("/ojs/v1/jobs", JOB).await.status, 201);
        let connections = region.record().connections();
        assert_eq!(connections[0].protocol, protocol);
        let requests = region.record().requests_to("/ojs/v1/jobs");
        assert_eq!(requests[0].client_subject.as_deref(), Some("CN=sidecar"));
        assert_eq!(requests[0].body, JOB);
        assert!(requests[0].complete);
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_or_with_a_foreign_one_sends_nothing() {
    let (region, authority) = secured().await;
    let foreign = Authority::new("other").client("sidecar");
    for identity in [None, Some(&foreign)] {
        // With TLS 1.3 the refusal may come after the client's side of the handshake is done.
        if let Ok(mut client) = Client::tls(&region, config(&authority, identity, &["http/1.1"])).await {
            assert!(client.send(http::Method::POST, "/ojs/v1/jobs", JOB).await.is_err());
        }
    }
    assert!(region.jobs().is_empty());
    assert!(region.record().requests().is_empty());
    assert!(!region.record().contains(b"a.b"));
}

#[tokio::test]
async fn another_identity_is_shown_from_the_next_handshake_on() {
    let (region, authority) = secured().await;
    let client = authority.client("sidecar");
    let trusting = config(&authority, Some(&client), &["http/1.1"]);
    let mut old = Client::tls(&region, trusting.clone()).await.unwrap();
    old.get("/ojs/v1/health").await;
    region.set_server(Authority::new("other").server(&["localhost"])).unwrap();
    assert!(Client::tls(&region, trusting.clone()).await.is_err());
    assert_eq!(old.get("/ojs/v1/health").await.status, 200);
    region.set_server(authority.expired_server(&["localhost"])).unwrap();
    assert!(Client::tls(&region, trusting.clone()).await.is_err());
    region.set_server(authority.server(&["localhost"])).unwrap();
    assert!(Client::tls(&region, trusting).await.is_ok());
}

#[tokio::test]
async fn a_stopped_region_refuses_and_cuts_and_comes_back_on_its_port_with_its_jobs() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    assert_eq!(client.post("/ojs/v1/jobs", JOB).await.status, 201);
    for _ in 0..3 {
        region.stop().await;
        region.stop().await;
        assert!(client.send(http::Method::GET, "/ojs/v1/health", "").await.is_err());
        let refused = TcpStream::connect(region.address()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(region.record().connections().iter().all(|connection| !connection.open));
        region.resume().await.unwrap();
        client = Client::plain(&region).await;
        assert_eq!(client.get("/ojs/v1/health").await.status, 200);
    }
    assert_eq!(region.jobs().len(), 1);
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_and_it_is_free_after_a_drop() {
    let mut region = plain().await;
    let options = RegionOptions { listen: region.address(), ..RegionOptions::new("us-east-1") };
    for _ in 0..32 {
        let taken = DemoRegion::start(options.clone()).await.unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
        drop(region);
        region = DemoRegion::start(options.clone()).await.unwrap();
    }
}

#[tokio::test]
async fn nobody_else_is_given_the_port_of_a_stopped_region() {
    // No connection was ever made: one that lingers would keep the port by itself.
    let region = plain().await;
    region.stop().await;
    let taken = TcpSocket::new_v4().unwrap().bind(region.address()).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    region.resume().await.unwrap();
}

#[tokio::test]
async fn dropping_a_region_ends_its_connections() {
    let region = plain().await;
    let mut stream = TcpStream::connect(region.address()).await.unwrap();
    stream.write_all(b"GET /ojs/v1/he").await.unwrap();
    region.record().wait_for(|record| record.contains(b"/he")).await;
    drop(region);
    let mut rest = Vec::new();
    // An end or a reset: both say that the region has gone.
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn cutting_connections_leaves_the_listener_open() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    client.get("/ojs/v1/health").await;
    region.cut_connections().await;
    assert!(client.send(http::Method::GET, "/ojs/v1/health", "").await.is_err());
    assert_eq!(Client::plain(&region).await.get("/ojs/v1/health").await.status, 200);
}

#[tokio::test]
async fn every_byte_that_arrives_is_recorded_as_it_is_also_of_a_request_that_breaks_off() {
    let region = plain().await;
    let mut stream = TcpStream::connect(region.address()).await.unwrap();
    let sent = b"POST /ojs/v1/jobs?x=%2F HTTP/1.1\r\nHoSt:  a\r\nContent-Length: 100\r\n\r\n{\"type\" : \"half";
    stream.write_all(sent).await.unwrap();
    region.record().wait_for(|record| record.requests().iter().any(|request| !request.body.is_empty())).await;
    drop(stream);
    region.record().wait_for(|record| record.connections().iter().all(|connection| !connection.open)).await;
    assert_eq!(region.record().raw_bytes(), [&sent[..]]);
    let requests = region.record().requests();
    assert_eq!((requests[0].path.as_str(), &requests[0].body[..]), ("/ojs/v1/jobs?x=%2F", &b"{\"type\" : \"half"[..]));
    assert!(!requests[0].complete);
    assert!(region.jobs().is_empty());
    assert!(region.record().contains(b"HoSt:  a"));
    region.record().clear();
    assert!(!region.record().contains(b"half"));
}

const KEY: &str = "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn upgrade(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n{lines}\r\n")
}

#[tokio::test]
async fn a_handshake_without_a_key_or_of_another_version_opens_no_websocket() {
    let region = plain().await;
    let version = "sec-websocket-version: 13\r\n";
    for (lines, status) in [
        (String::new(), "426"),
        (KEY.replace("13", "8"), "426"),
        (version.to_owned(), "400"),
        (format!("{version}sec-websocket-key: c2hvcnQ=\r\n"), "400"),
        (format!("{version}sec-websocket-key: not base64\r\n"), "400"),
    ] {
        let mut stream = TcpStream::connect(region.address()).await.unwrap();
        stream.write_all(upgrade("/ojs/v1/ws", &lines).as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(first, format!("HTTP/1.1 {status}").as_bytes(), "{lines}");
    }
}

#[tokio::test]
async fn an_upgraded_connection_echoes_bytes_and_is_cut_by_a_stop() {
    let region = plain().await;
    let mut stream = TcpStream::connect(region.address()).await.unwrap();
    stream.write_all(upgrade("/ojs/v1/debug/tunnel", KEY).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    stream.write_all(b"\x81\x02hi").await.unwrap();
    let mut echoed = [0; 4];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"\x81\x02hi");
    assert!(region.record().contains(b"\x81\x02hi"));
    region.stop().await;
    assert!(!matches!(stream.read(&mut echoed).await, Ok(1..)));
}

#[tokio::test]
async fn a_record_that_had_to_drop_something_says_so() {
    let options = RegionOptions { record_bytes_max: 4096, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    client.post("/ojs/v1/debug/echo", "small").await;
    assert!(!region.record().is_truncated());
    client.post("/ojs/v1/debug/echo", &"x".repeat(8192)).await;
    assert!(region.record().is_truncated());
    let record = region.record().clone();
    assert!(std::thread::spawn(move || record.contains(b"never sent")).join().is_err());
    region.record().clear();
    assert!(!region.record().is_truncated());
}

#[tokio::test]
async fn a_drained_record_gives_everything_once_and_keeps_what_is_still_arriving() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    assert_eq!(client.post("/ojs/v1/jobs", JOB).await.status, 201);
    let mut slow = TcpStream::connect(region.address()).await.unwrap();
    let (head, half) =
        ("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 24\r\n\r\n", JOB.split_at(10));
    slow.write_all(format!("{head}{}", half.0).as_bytes()).await.unwrap();
    region.record().wait_for(|record| record.contains(half.0.as_bytes()) && record.requests().len() == 2).await;
    let drained = region.record().drain();
    assert_eq!(drained.requests.iter().map(|it| it.body.as_ref()).collect::<Vec<_>>(), [JOB.as_bytes()]);
    assert!(drained.raw.iter().any(|(_, raw)| memchr::memmem::find(raw, JOB.as_bytes()).is_some()));
    let again = region.record().drain();
    assert!(again.requests.is_empty(), "{again:?}");
    slow.write_all(half.1.as_bytes()).await.unwrap();
    region.record().wait_for(|record| record.requests().iter().all(|it| it.complete)).await;
    let whole = region.record().drain().requests;
    assert_eq!(
        whole.iter().map(|it| it.body.as_ref()).collect::<Vec<_>>(),
        [JOB.as_bytes()],
        "the beginning is not lost"
    );
    assert!(region.record().drain().requests.is_empty());
}
