//! The bytes that a client sent for a job, for as long as its call takes. A short body without an id or a key is not
//! copied: it is found again within the body that is sent on.

use bytes::Bytes;

use super::offload::{LONG_BYTES, offload};
use crate::ojs::{Abridged, COPIED_BYTES_MAX, Cuts, Gap, Segments};
use crate::proxy::state::{Buffered, Collected, Share};

/// The client's bytes.
#[derive(Debug)]
pub(crate) enum Received {
    /// As received: the text, and the segments cut out of it.
    Held(Bytes, Vec<Gap>),
    /// The parts around the stamp in the one segment that is sent, and its share of the memory.
    Around(Cuts, #[expect(dead_code, reason = "held for its drop, with which the body is counted no more")] Share),
}

/// The client's bytes while the job is planned.
#[derive(Debug)]
pub(crate) enum Reading {
    /// A short body, which may be in its connection's buffer still.
    Short(Collected),
    /// A body that is kept unchanged: the text, and the segments cut out of it.
    Held { text: Bytes, gaps: Vec<Gap> },
}

impl Reading {
    /// A body that is about to be planned. One that a stamp will share instead of copying it is held from now on.
    pub(crate) fn begin(collected: Collected) -> Self {
        if collected.bytes().len() > COPIED_BYTES_MAX {
            Self::held_whole(collected.hold())
        } else {
            Self::Short(collected)
        }
    }

    const fn held_whole(text: Bytes) -> Self {
        Self::Held { text, gaps: Vec::new() }
    }

    /// The client's body.
    pub(crate) fn body(&self) -> Abridged<'_> {
        match self {
            Self::Short(collected) => Abridged::whole(collected.bytes()),
            Self::Held { text, gaps } => Abridged::new(text, gaps),
        }
    }

    /// Whether it is read at once: nothing is kept apart of it, and others need not wait for it.
    pub(crate) fn is_short(&self) -> bool {
        match self {
            Self::Short(_) => true,
            Self::Held { text, gaps } => gaps.is_empty() && text.len() <= LONG_BYTES,
        }
    }

    /// Puts it together, aside where it is long; nothing is done to a short one. `all` counts it.
    pub(crate) async fn join(&mut self, all: &Buffered) {
        let Self::Held { text, gaps } = self else { return };
        let (text, gaps) = (std::mem::take(text), std::mem::take(gaps));
        let bytes = Abridged::new(&text, &gaps).len();
        let mut share = all.answer();
        let join = move || {
            // The body is counted only now, because many calls may wait for their turn. It is never refused: its bytes
            // were admitted before, and it is sent at once.
            let is_counted = share.grow(bytes);
            debug_assert!(is_counted, "what is unbounded has room");
            share.hold(Abridged::new(&text, &gaps).pieces().concat().into())
        };
        *self = Self::held_whole(offload(bytes, join).await);
    }

    /// Keeps the body as received, because repetitions are compared with it during the call, or because nothing was
    /// added to it: a short body is copied out of its connection's buffer. `body` is the body to send.
    pub(crate) fn held(self, body: &mut Segments, cuts: Option<&Cuts>) -> Self {
        let Self::Short(collected) = self else { return self };
        let bytes = collected.hold_apart();
        if cuts.is_none() {
            debug_assert!(body.len() == 1 && body.iter().all(|piece| *piece == bytes), "nothing was added to it");
            *body = Segments::from_iter([bytes.clone()]);
        }
        Self::held_whole(bytes)
    }

    /// The job is planned: of a short one, nothing is in its connection's buffer any more.
    pub(crate) fn end(self, body: &mut Segments, cuts: Option<Cuts>) -> Received {
        match (self, cuts) {
            (Self::Short(collected), Some(cuts)) => Received::Around(cuts, collected.into_share()),
            (short @ Self::Short(_), None) => short.held(body, None).end(body, None),
            (Self::Held { text, gaps }, _) => Received::Held(text, gaps),
        }
    }
}

impl Received {
    /// The client's body in pieces; `body` is the body that is sent on.
    pub(crate) fn pieces<'r>(&'r self, body: &'r [Bytes]) -> Vec<&'r [u8]> {
        match (self, body) {
            (Self::Held(text, gaps), _) => Abridged::new(text, gaps).pieces(),
            (Self::Around(cuts, _), [stamped, ..]) => cuts.around(stamped),
            // Unreachable: a body with cuts is one piece.
            (Self::Around(..), []) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ojs::{Additions, Envelope, StampedBody, replace_minted, stamp};
    use crate::proxy::state::buffered::Buffered;

    const ADDED: Additions<'_> = Additions {
        id: Some("minted"),
        federation_id: Some("F"),
        source_region: None,
        routed_at: None,
        shard: None,
        due: None,
    };

    fn check(length: usize, additions: &Additions<'_>, is_named: bool) {
        let head = r#"{"id":null,"meta":{},"args":[""#;
        let sent = format!(r#"{head}{}"]}}"#, "x".repeat(length - head.len() - 3)).into_bytes();
        let all = Buffered::default();
        let mut share = all.request(usize::MAX);
        assert!(share.grow(length));
        let buffer = Bytes::from([&sent, &b"what came behind it"[..]].concat());
        let mut reading = Reading::begin(Collected::of_connection(buffer.slice(..length), share));
        let envelope = Envelope::read(reading.body().text(), 16).unwrap();
        let StampedBody { mut body, cuts } = stamp(&envelope, reading.body(), additions);
        let stamped = body.concat();
        assert_eq!(stamped == sent, additions.id.is_none());
        if is_named {
            reading = reading.held(&mut body, cuts.as_ref());
            assert_eq!(*reading.body().text(), sent);
        }
        let received = reading.end(&mut body, cuts);
        assert_eq!(body.concat(), stamped, "what is sent is what was planned");
        // A longer one is sent from where it is.
        assert_eq!(buffer.is_unique(), length <= COPIED_BYTES_MAX, "{length} bytes");
        replace_minted(&mut body, "minted", "others");
        assert_eq!(received.pieces(&body).concat(), sent);
        assert_eq!(all.bytes(), length);
        drop((received, body));
        assert_eq!((all.bytes(), buffer.is_unique()), (0, true));
    }

    #[test]
    fn what_was_sent_is_known_and_counted_until_the_call_ends_and_a_short_one_keeps_no_buffer() {
        for additions in [&ADDED, &Additions::default()] {
            for length in [40, 600, 2048, 2049, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1, 2 * COPIED_BYTES_MAX] {
                for is_named in [false, true] {
                    check(length, additions, is_named);
                }
            }
        }
    }
}
