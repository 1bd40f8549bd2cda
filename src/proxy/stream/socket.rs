//! A WebSocket where queues have shards: its messages are read on their way, because they name queues.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use crate::net::ClientSide;
use crate::ojs::shards::{EVENT_BYTES_MAX, Shards};

/// Reads of a socket at most. Units: bytes.
const READ_BYTES: usize = 8 * 1024;
/// How long a peer that does not read is waited for at the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Passes messages on both ways until one side has ended: a subscription to a queue with shards becomes one to each of its names, and what the region says
/// has the queues' own names. A message longer than [`EVENT_BYTES_MAX`] ends the connection, as does the end of the process.
pub(crate) async fn relay(client: Upgraded, region: Upgraded, shards: Arc<Shards>, connection: &ClientSide) {
    let mut bounds = WebSocketConfig::default();
    // Nothing is kept back for a slow peer: each message is written before the next one is read.
    bounds.max_message_size = Some(EVENT_BYTES_MAX);
    bounds.max_frame_size = Some(EVENT_BYTES_MAX);
    bounds.write_buffer_size = 0;
    bounds.max_write_buffer_size = 2 * EVENT_BYTES_MAX;
    bounds.read_buffer_size = READ_BYTES;
    let client = WebSocketStream::from_raw_socket(TokioIo::new(client), Role::Server, Some(bounds)).await;
    let region = WebSocketStream::from_raw_socket(TokioIo::new(region), Role::Client, Some(bounds)).await;
    let ((mut to_client, mut of_client), (mut to_region, mut of_region)) = (client.split(), region.split());
    let up = async {
        while let Some(Ok(message)) = of_client.next().await {
            send_up(&mut to_region, &shards, message).await?;
        }
        to_region.close().await
    };
    let down = async {
        while let Some(Ok(message)) = of_region.next().await {
            let Some(message) = as_named(&shards, message) else { continue };
            to_client.send(message).await?;
        }
        to_client.close().await
    };
    // An error of either side ends both, and the peers report it.
    let ended = tokio::select! {
        _ = up => None,
        _ = down => None,
        () = connection.closing() => Some(CloseFrame { code: CloseCode::Away, reason: Utf8Bytes::default() }),
    };
    let (Ok(mut client), Ok(mut region)) = (of_client.reunite(to_client), of_region.reunite(to_region)) else { return };
    let closing = async { tokio::join!(client.close(ended.clone()), region.close(ended)) };
    let _ = tokio::time::timeout(CLOSE_WAIT, closing).await;
}

/// Sends a client's message to the region: one for each name of a queue with shards.
async fn send_up(to_region: &mut SplitSink<Socket, Message>, shards: &Shards, message: Message) -> Result<(), Error> {
    let several = message.is_text().then(|| shards.subscriptions(message.to_text().unwrap_or_default())).flatten();
    let Some(several) = several else { return to_region.send(message).await };
    for text in several {
        to_region.feed(Message::text(text)).await?;
    }
    to_region.flush().await
}

/// A region's message as the client gets it; none for one that is about shards alone.
fn as_named(shards: &Shards, message: Message) -> Option<Message> {
    let Message::Text(text) = message else { return Some(message) };
    if shards.acknowledges_shard(&text) {
        return None;
    }
    let bytes: Bytes = text.clone().into();
    let named = shards.renamed(&bytes).and_then(|bytes| Utf8Bytes::try_from(bytes).ok());
    Some(Message::Text(named.unwrap_or(text)))
}
