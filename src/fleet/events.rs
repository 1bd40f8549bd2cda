//! Server-sent events, cut out of the bytes of a feed.

/// The state of a hub with the most switches is well below this. Units: bytes.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The bytes of an event that has not ended.
#[derive(Debug, Default)]
pub(super) struct Events(Vec<u8>);

/// An event is longer than any that a hub sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Events {
    /// Whether no event has begun that has not ended.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes bytes of the feed, and calls `on_event` with the name and the data of each event that they complete. Comments are left out.
    pub(super) fn take(&mut self, bytes: &[u8], mut on_event: impl FnMut(&str, &str)) -> Result<(), TooLong> {
        self.0.extend_from_slice(bytes);
        while let Some(end) = self.0.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.0.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&event);
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                on_event(name, data);
            }
        }
        if self.0.len() > EVENT_BYTES_MAX { Err(TooLong) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_however_their_bytes_arrive() {
        let feed = b": live\n\nevent: switches\nid: a-1\ndata: {\"a\":1}\n\nevent: later\ndata: {}\n\nevent: switches\nid: a-2\ndata: {}\n\n";
        for size in 1..feed.len() {
            let (mut events, mut seen) = (Events::default(), Vec::new());
            for part in feed.chunks(size) {
                events.take(part, |name, data| seen.push(format!("{name} {data}"))).unwrap();
            }
            assert_eq!(seen, ["switches {\"a\":1}", "later {}", "switches {}"], "{size}");
        }
    }

    #[test]
    fn an_event_has_ended_when_all_of_its_bytes_are_there() {
        let mut events = Events::default();
        for (part, is_at_end) in [("event: a\ndata:", false), (" {}\n\n: li", false), ("ve\n\n", true)] {
            events.take(part.as_bytes(), |_, _| ()).unwrap();
            assert_eq!(events.is_at_end(), is_at_end, "{part}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut events = Events::default();
        let part = [b'x'; 64 * 1024];
        let fits = (0..16).all(|_| events.take(&part, |_, _| ()).is_ok());
        assert!(fits && events.take(&part, |_, _| ()) == Err(TooLong));
    }
}
