//! A WebSocket where queues have shards: its messages are read on their way, because they name queues.
//!
//! Spec: ojs-protocol 2.11 (`ojs.v1`), RFC 6455.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes, error::ProtocolError};

use crate::net::ClientSide;
use crate::ojs::shards::{EVENT_BYTES_MAX, Shards};

/// Reads of a socket at most. Units: bytes.
const READ_BYTES: usize = 8 * 1024;
/// How long a side may take to answer a ping of the other one.
const PONG_WAIT: Duration = Duration::from_secs(60);
/// How long a peer that does not read is waited for at the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The end of a connection.
enum End {
    /// The peers have closed it.
    Closed,
    /// It is closed with a code.
    With(CloseCode),
    /// A side has ended without a word, which the other one sees likewise.
    Broken,
}

/// Messages on their way between a client and a region: a subscription to a queue with shards becomes one to each of its names, and what the region says has
/// the queues' own names.
pub(super) struct Relay {
    shards: Arc<Shards>,
    /// How long a message may wait for a peer that does not read.
    patience: Duration,
    /// When a ping went to the client, and to the region, that was not answered yet. The relay answers pings itself, too, which shows nothing of the other side.
    pinged: [Cell<Option<Instant>>; 2],
}

impl Relay {
    /// `patience`: how long a message may wait for a peer that does not read.
    pub(super) const fn new(shards: Arc<Shards>, patience: Duration) -> Self {
        Self { shards, patience, pinged: [const { Cell::new(None) }; 2] }
    }

    /// Passes messages on both ways until a side ends, does not answer a ping or does not read, a message is longer than [`EVENT_BYTES_MAX`], or the process ends.
    pub(super) async fn run(self, client: Upgraded, region: Upgraded, connection: &ClientSide) {
        let client = WebSocketStream::from_raw_socket(TokioIo::new(client), Role::Server, Some(bounds())).await;
        let region = WebSocketStream::from_raw_socket(TokioIo::new(region), Role::Client, Some(bounds())).await;
        let ((mut to_client, mut of_client), (mut to_region, mut of_region)) = (client.split(), region.split());
        let [of_client_ping, of_region_ping] = &self.pinged;
        let end = tokio::select! {
            end = self.carry((&mut of_client, of_client_ping), (&mut to_region, of_region_ping), as_sent) => end,
            end = self.carry((&mut of_region, of_region_ping), (&mut to_client, of_client_ping), as_named) => end,
            () = self.unanswered() => End::Broken,
            () = connection.closing() => End::With(CloseCode::Away),
        };
        let frame = match end {
            End::Broken => return,
            End::Closed => None,
            End::With(code) => Some(CloseFrame { code, reason: Utf8Bytes::default() }),
        };
        let (Ok(mut client), Ok(mut region)) = (of_client.reunite(to_client), of_region.reunite(to_region)) else {
            return;
        };
        let closing = async { tokio::join!(client.close(frame.clone()), region.close(frame)) };
        let _ = timeout(CLOSE_WAIT, closing).await;
    }

    /// Passes messages of one side on, each as these messages for the other side.
    async fn carry(
        &self,
        (of_side, heard): (&mut SplitStream<Socket>, &Cell<Option<Instant>>),
        (to_other, pinged): (&mut SplitSink<Socket, Message>, &Cell<Option<Instant>>),
        changed: impl Fn(&Shards, Message) -> Vec<Message>,
    ) -> End {
        while let Some(message) = of_side.next().await {
            heard.set(None);
            let message = match message {
                Ok(message) => message,
                Err(error) => return end_of(&error),
            };
            note_ping(pinged, &message);
            let sending = async {
                for message in changed(&self.shards, message) {
                    to_other.feed(message).await?;
                }
                to_other.flush().await
            };
            match timeout(self.patience, sending).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return end_of(&error),
                Err(_) => return End::Broken,
            }
        }
        End::Closed
    }

    /// Resolves when a side has not answered a ping in time.
    async fn unanswered(&self) {
        loop {
            sleep(PONG_WAIT / 4).await;
            let is_late = |pinged: &Cell<Option<Instant>>| pinged.get().is_some_and(|at| at.elapsed() > PONG_WAIT);
            if self.pinged.iter().any(is_late) {
                return;
            }
        }
    }
}

/// Nothing is kept back for a slow peer: each message is written before the next one is read.
fn bounds() -> WebSocketConfig {
    let mut bounds = WebSocketConfig::default();
    bounds.max_message_size = Some(EVENT_BYTES_MAX);
    bounds.max_frame_size = Some(EVENT_BYTES_MAX);
    bounds.write_buffer_size = 0;
    // A subscription to a queue is a hundred messages of a few hundred bytes.
    bounds.max_write_buffer_size = 16 * EVENT_BYTES_MAX;
    bounds.read_buffer_size = READ_BYTES;
    bounds
}

fn note_ping(pinged: &Cell<Option<Instant>>, message: &Message) {
    if message.is_ping() && pinged.get().is_none() {
        pinged.set(Some(Instant::now()));
    }
}

const fn end_of(error: &Error) -> End {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => End::Closed,
        Error::Capacity(_) => End::With(CloseCode::Size),
        Error::Utf8(_) => End::With(CloseCode::Invalid),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Broken,
        Error::Protocol(_) => End::With(CloseCode::Protocol),
        _ => End::Broken,
    }
}

/// A client's message as the region gets it: one for each name of a queue with shards.
fn as_sent(shards: &Shards, message: Message) -> Vec<Message> {
    let Message::Text(text) = &message else { return vec![message] };
    match shards.subscriptions(text) {
        Some(several) => several.into_iter().map(Message::text).collect(),
        None => vec![message],
    }
}

/// A region's message as the client gets it; none for one that is about shards alone.
fn as_named(shards: &Shards, message: Message) -> Vec<Message> {
    let Message::Text(text) = message else { return vec![message] };
    if shards.acknowledges_shard(&text) {
        return Vec::new();
    }
    let bytes: Bytes = text.clone().into();
    let named = shards.renamed(&bytes).and_then(|bytes| Utf8Bytes::try_from(bytes).ok());
    vec![Message::Text(named.unwrap_or(text))]
}
