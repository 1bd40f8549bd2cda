//! Connections that leave HTTP: the handshake of RFC 6455, and the echo behind it.
//!
//! Nothing is kept of a message: a frame goes back part by part while it arrives, so that no length of a frame costs memory.

use std::io;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use bytes::Bytes;
use data_encoding::BASE64;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::answer::{Body, full, typed};
use super::wire::Wire;

/// Size of the parts in which bytes go back.
const PART_BYTES: usize = 16 * 1024;

/// The most bytes that the payload of a control frame may have. Spec: RFC 6455 5.5.
const CONTROL_MAX: u64 = 125;

/// Appended to the client's key before it is hashed. Spec: RFC 6455 1.3.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The subprotocol of OJS servers, chosen where the client offers it.
const SUBPROTOCOL: &str = "ojs.v1";

/// The echo once the connection is a client's and no longer HTTP's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echo {
    /// The messages of a WebSocket client: data frames unmasked, a pong for a ping, a close for a close.
    Frames,
    /// Every byte as it came.
    Bytes,
}

/// Accepts the upgrade and starts the echo, or answers with the fault of the handshake.
pub(super) fn accept(mut request: Request<()>, wire: &Arc<Wire>, echo: Echo) -> Response<Body> {
    let accepted = match handshake(request.headers()) {
        Ok(accepted) => accepted,
        Err(status) => return refused(status),
    };
    let offers = list(request.headers(), "sec-websocket-protocol");
    let upgrade = hyper::upgrade::on(&mut request);
    wire.took_over(tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut stream = TokioIo::new(upgraded);
        // The client reports how its connection ended.
        let _ = match echo {
            Echo::Frames => frames(&mut stream).await,
            Echo::Bytes => bytes(&mut stream).await,
        };
        let _ = stream.shutdown().await;
    }));
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    if offers.iter().any(|offer| offer == SUBPROTOCOL) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    response
}

/// The answer to a handshake that is none.
fn refused(status: StatusCode) -> Response<Body> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut refused = typed(status, "text/plain; charset=utf-8", full(format!("{reason}\n")));
    refused.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    refused
}

/// The value of `Sec-WebSocket-Accept`.
///
/// Errors: 426 without the upgrade or with another version, 400 for a key that is not 16 bytes in base64.
/// Spec: RFC 6455 4.2.
fn handshake(headers: &HeaderMap) -> Result<HeaderValue, StatusCode> {
    let asked = list(headers, "upgrade").iter().any(|protocol| protocol.eq_ignore_ascii_case("websocket"));
    let version = headers.get(header::SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes);
    if !asked || version != Some(b"13") {
        return Err(StatusCode::UPGRADE_REQUIRED);
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if BASE64.decode(key).map_or(0, |nonce| nonce.len()) != 16 {
        return Err(StatusCode::BAD_REQUEST);
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, KEY_SUFFIX.as_bytes()].concat());
    HeaderValue::from_str(&BASE64.encode(hash.as_ref())).map_err(|_| StatusCode::BAD_REQUEST)
}

/// The entries of a header that is a list, of all its lines.
fn list(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|entry| entry.trim().to_owned()).collect()
}

async fn bytes<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    let mut buffer = vec![0; PART_BYTES];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(buffer.get(..length).unwrap_or_default()).await?;
        stream.flush().await?;
    }
}

/// The head of a frame. Spec: RFC 6455 5.2.
#[derive(Debug)]
struct Head {
    /// The first byte: whether it is the last frame of its message, and its kind.
    first: u8,
    length: u64,
    mask: [u8; 4],
}

impl Head {
    const CLOSE: u8 = 8;
    const PING: u8 = 9;
    const PONG: u8 = 10;

    const fn kind(&self) -> u8 {
        self.first & 0x0f
    }

    const fn is_control(&self) -> bool {
        self.kind() & 0x08 != 0
    }

    /// Reads a head.
    ///
    /// Errors: the stream's, and `InvalidData` for frames that RFC 6455 forbids clients: no mask, reserved bits, a long
    /// control frame.
    async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Self> {
        let [first, second] = stream.read_u16().await?.to_be_bytes();
        let length = match second & 0x7f {
            126 => u64::from(stream.read_u16().await?),
            127 => stream.read_u64().await?,
            short => u64::from(short),
        };
        let mut mask = [0; 4];
        let head = Self { first, length, mask };
        let is_long = head.is_control() && (length > CONTROL_MAX || first & 0x80 == 0);
        if second & 0x80 == 0 || first & 0x70 != 0 || is_long {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.read_exact(&mut mask).await?;
        Ok(Self { mask, ..head })
    }

    /// The head of the same frame as servers write it: without a mask.
    fn unmasked(&self, first: u8) -> Vec<u8> {
        let mut bytes = vec![first];
        match (u8::try_from(self.length), u16::try_from(self.length)) {
            (Ok(short @ 0..=125), _) => bytes.push(short),
            (_, Ok(length)) => {
                bytes.push(126);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
            _ => {
                bytes.push(127);
                bytes.extend_from_slice(&self.length.to_be_bytes());
            }
        }
        bytes
    }
}

/// Sends frames back until the client closes. An invalid frame of a client is answered with a close of status 1002.
async fn frames<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    loop {
        let head = match Head::read(stream).await {
            Ok(head) => head,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                stream.write_all(&[0x88, 2, 0x03, 0xea]).await?;
                return stream.flush().await;
            }
            Err(error) => return Err(error),
        };
        let answered = match head.kind() {
            Head::PING => Some(head.first & 0xf0 | Head::PONG),
            Head::PONG => None,
            _ => Some(head.first),
        };
        if let Some(first) = answered {
            stream.write_all(&head.unmasked(first)).await?;
        }
        payload(stream, &head, answered.is_some()).await?;
        stream.flush().await?;
        if head.kind() == Head::CLOSE {
            return Ok(());
        }
    }
}

/// Takes the mask off a frame's payload and sends it back, or only reads it.
async fn payload<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, head: &Head, answers: bool) -> io::Result<()> {
    let mut buffer = vec![0; PART_BYTES];
    let (mut left, mut mask) = (head.length, head.mask.iter().cycle());
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PART_BYTES).min(PART_BYTES);
        let read = stream.read(buffer.get_mut(..most).unwrap_or_default()).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        let part = buffer.get_mut(..read).unwrap_or_default();
        for (byte, mask) in part.iter_mut().zip(&mut mask) {
            *byte ^= mask;
        }
        if answers {
            stream.write_all(part).await?;
        }
    }
    Ok(())
}
