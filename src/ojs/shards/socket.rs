//! The messages of a WebSocket: a subscription to a queue with shards is one to all its names.
//!
//! Spec: ojs-protocol 2.11 (`ojs.v1`).

use super::all::Shards;
use crate::ojs::member::DEPTH_MAX;
use crate::ojs::scan::{ScanError, Scanner};

/// How a channel names a queue.
const QUEUE_CHANNEL: &str = "queue:";
/// Messages of clients and acknowledgements are no longer. Units: bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A message that names a channel.
#[derive(Default)]
struct Message {
    kind: String,
    action: bool,
    channel: String,
    channels: usize,
    /// Where the channel's text ends, before its quote.
    end: usize,
}

impl Message {
    /// Reads a message; none for one that is no object, or that names a channel twice.
    fn read(text: &str) -> Option<Self> {
        let mut message = Self::default();
        let mut scanner = Scanner::new(text.as_bytes(), DEPTH_MAX).ok().filter(|_| text.len() <= MESSAGE_BYTES_MAX)?;
        let read = scanner.object(|scanner, key| {
            let name = key.decode();
            if scanner.next() != Some(b'"') {
                return scanner.skip().map(drop);
            }
            let value = scanner.string()?.decode();
            match &*name {
                "type" => message.kind = value.into_owned(),
                "action" => message.action = true,
                "channel" => {
                    message.channels += 1;
                    (message.channel, message.end) = (value.into_owned(), scanner.at() - 1);
                }
                _ => {}
            }
            Ok::<(), ScanError>(())
        });
        read.is_ok().then_some(message).filter(|message| message.channels == 1)
    }

    fn queue(&self) -> Option<&str> {
        self.channel.strip_prefix(QUEUE_CHANNEL)
    }
}

impl Shards {
    /// The messages that a region gets in place of a client's: one for each name of the queue that it subscribes to, or ends its subscription to; the own name
    /// comes last, and with its acknowledgement the client knows that all are done. None for any other message, which goes on as it is.
    #[must_use]
    pub fn subscriptions(&self, text: &str) -> Option<Vec<String>> {
        let message = Message::read(text).filter(|message| message.action)?;
        let (queue, (head, tail)) = (self.queue(message.queue()?)?, text.split_at(message.end));
        let own = std::iter::once("");
        Some(queue.suffixes().skip(1).chain(own).map(|suffix| format!("{head}{suffix}{tail}")).collect())
    }

    /// Whether a region's message only says that a subscription to a shard began or ended: the client has asked for one queue, and hears so once.
    #[must_use]
    pub fn acknowledges_shard(&self, text: &str) -> bool {
        let message = Message::read(text).filter(|message| matches!(&*message.kind, "subscribed" | "unsubscribed"));
        message.is_some_and(|message| message.queue().is_some_and(|queue| self.shard(queue).is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ShardedQueue;
    use super::*;

    fn shards() -> Shards {
        Shards::of(vec![ShardedQueue::new("email", 2, &[], &[].into(), 1, true)]).unwrap()
    }

    #[test]
    fn a_subscription_to_a_queue_with_shards_is_one_to_each_name() {
        let text = r#"{"action": "subscribe","channel":"queue:email" ,"x":1E400}"#;
        let sent: Vec<String> = [".ojs-t00", ".ojs-t01", ""]
            .map(|suffix| format!(r#"{{"action": "subscribe","channel":"queue:email{suffix}" ,"x":1E400}}"#))
            .into();
        assert_eq!(shards().subscriptions(text), Some(sent));
        for other in [
            r#"{"action":"subscribe","channel":"queue:sms"}"#,
            r#"{"action":"subscribe","channel":"job:email"}"#,
            r#"{"action":"subscribe","channel":"all"}"#,
            r#"{"action":"subscribe","channel":"queue:email","channel":"all"}"#,
            r#"{"type":"event","channel":"queue:email"}"#,
            "queue:email",
            "",
        ] {
            assert_eq!(shards().subscriptions(other), None, "{other}");
        }
    }

    #[test]
    fn only_acknowledgements_of_shards_are_left_out() {
        let message = |kind: &str, channel: &str| format!(r#"{{"type":"{kind}","channel":"{channel}"}}"#);
        assert!(shards().acknowledges_shard(&message("subscribed", "queue:email.ojs-t01")));
        assert!(shards().acknowledges_shard(&message("unsubscribed", "queue:email.ojs-t00")));
        for (kind, channel) in [
            ("subscribed", "queue:email"),
            ("event", "queue:email.ojs-t01"),
            ("error", "queue:email.ojs-t01"),
            ("subscribed", "queue:sms.ojs-t01"),
        ] {
            assert!(!shards().acknowledges_shard(&message(kind, channel)), "{kind} {channel}");
        }
    }
}
