//! Regions that abuse HTTP/2, frame by frame: what they hold or burn is bounded, and it is theirs.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::support::{Federation, Setup, eventually, job, pinned};

/// What clients say first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames. Spec: RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// The flags of frames that mean something here.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Heads in HPACK: the first byte of a POST, the whole of a 200, a 201 and a 103.
const POST: u8 = 0x83;
const OK: &[u8] = &[0x88];
const CREATED: &[u8] = b"\x08\x03201";
const HINTS: &[u8] = b"\x08\x03103";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What a region does with the stream of an enqueue: these bytes once, and then the others for as long as anybody listens.
type Abuse = fn(stream: u32) -> (Vec<u8>, Vec<u8>);

/// Settings that a region begins with, and its abuse.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    settings: &'static [u8],
    abuse: Abuse,
}

const fn way(name: &'static str, abuse: Abuse) -> Way {
    Way { name, settings: &[], abuse }
}

const WAYS: [Way; 13] = [
    way("resets", |stream| (frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()), Vec::new())),
    way("continuations", |stream| {
        let line = b"\x00\x01x\x7f\x80\x7e".iter().copied().chain([b'y'; 16_255]).collect::<Vec<u8>>();
        (frame(HEADERS, 0, stream, CREATED), frame(CONTINUATION, 0, stream, &line))
    }),
    way("empty continuations", |stream| {
        (frame(HEADERS, 0, stream, CREATED), frame(CONTINUATION, 0, stream, &[]).repeat(100))
    }),
    way("settings", |_| (Vec::new(), frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(100))),
    way("pings", |_| (Vec::new(), frame(PING, 0, 0, &[7; 8]).repeat(100))),
    way("windows", |_| (Vec::new(), frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()).repeat(100))),
    way("empty data", |stream| (frame(HEADERS, END_HEADERS, stream, CREATED), frame(DATA, 0, stream, &[]).repeat(100))),
    way("data beyond the window", |stream| {
        (frame(HEADERS, END_HEADERS, stream, CREATED), frame(DATA, 0, stream, &[b' '; 16_384]))
    }),
    way("interim answers", |stream| (Vec::new(), frame(HEADERS, END_HEADERS, stream, HINTS).repeat(100))),
    way("pushes", |stream| {
        let promised = [&2_u32.to_be_bytes(), OK].concat();
        (frame(PUSH_PROMISE, END_HEADERS, stream, &promised), Vec::new())
    }),
    way("a frame too long", |stream| {
        ([&[0xff, 0xff, 0xff, DATA, 0][..], &stream.to_be_bytes()].concat(), vec![0; 4096])
    }),
    way("a farewell and silence", |_| (frame(GOAWAY, 0, 0, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]), Vec::new())),
    Way { name: "no window", settings: &[0, 4, 0, 0, 0, 0], abuse: |_| (Vec::new(), Vec::new()) },
];

/// A region that says over HTTP/2 that it is well and does to enqueues what it likes; its TLS is that of a demo region.
async fn abusive(way: Way) -> Federation {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("url: https://{}", listener.local_addr().unwrap());
    let limits = "limits: { worker_threads: 1, call_timeout: 1s, stream_idle_timeout: 1s }";
    let stage = Setup::default().regions(2).region(0, &url).steered().yaml(limits).stage().await;
    let identity = stage.authorities[0].server(&["localhost", "127.0.0.1"]);
    let chain = vec![CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // One that goes away during the handshake has said nothing.
                if let Ok(socket) = acceptor.accept(socket).await {
                    let _ = serve(socket, way).await;
                }
            });
        }
    });
    let federation = stage.launch();
    eventually("the first round of probes", async || federation.admin.get("/readyz").await.status == 200).await;
    assert_eq!(federation.health(0), "healthy", "{}", way.name);
    federation
}

async fn serve(mut socket: TlsStream<tokio::net::TcpStream>, way: Way) -> std::io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    socket.read_exact(&mut preface).await?;
    assert_eq!(preface, PREFACE);
    socket.write_all(&frame(SETTINGS, 0, 0, way.settings)).await?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        let mut payload = vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
        socket.read_exact(&mut payload).await?;
        let answer = match (head[3], head[4] & ACK) {
            (SETTINGS, 0) => frame(SETTINGS, ACK, 0, &[]),
            (PING, 0) => frame(PING, ACK, 0, &payload),
            (HEADERS, _) if payload[0] == POST => {
                let (once, forever) = (way.abuse)(stream);
                socket.write_all(&once).await?;
                while !forever.is_empty() {
                    socket.write_all(&forever).await?;
                    tokio::task::yield_now().await;
                }
                continue;
            }
            (HEADERS, _) => {
                let body = frame(DATA, END_STREAM, stream, br#"{"status":"ok"}"#);
                [frame(HEADERS, END_HEADERS, stream, OK), body].concat()
            }
            _ => continue,
        };
        socket.write_all(&answer).await?;
    }
}

#[tokio::test]
async fn what_a_region_abuses_http_2_for_costs_its_own_call_and_no_other() {
    for way in WAYS {
        let federation = abusive(way).await;
        for _ in 0..3 {
            let hung = federation.client.enqueue(job("hung"));
            let beside = async {
                for _ in 0..10 {
                    assert_eq!(
                        federation.client.enqueue(pinned("eu-west-1", "beside")).await.status,
                        201,
                        "{}",
                        way.name
                    );
                }
            };
            let (answer, ()) = tokio::join!(hung, beside);
            let (status, reason) = (answer.status.as_u16(), answer.reason());
            assert_eq!((status, reason.as_str()), (500, "outcome_unknown"), "{} {answer:?}", way.name);
            assert_eq!(federation.shared.buffered.bytes(), 0, "{}", way.name);
        }
        assert_eq!(federation.regions[1].jobs().len(), 30, "{}: nothing of it went elsewhere", way.name);
    }
}
