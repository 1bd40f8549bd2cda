//! The bytes of a stream of server-sent events, read line by line within a bound. Spec: ojs-realtime §2.3, HTML "Server-sent events".

/// The longest line, and the longest data of an event: events of jobs have some 300 bytes. Units: bytes.
const BYTES_MAX: usize = 64 * 1024;
/// The longest id of an event that is sent back at the next connection. Units: bytes.
const ID_BYTES_MAX: usize = 255;

/// One item of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamItem<'a> {
    /// An event with its name, which is empty where it has none, and its data.
    Event(&'a str, &'a [u8]),
    /// An event with a line, or with data, of more than 64 KiB, which was stepped over.
    TooLong,
}

/// The state of one stream. It holds at most two lines of the longest kind.
#[derive(Debug, Default)]
pub struct EventLines {
    line: Vec<u8>,
    data: Vec<u8>,
    name: String,
    id: Option<String>,
    has_data: bool,
    /// Whether the line, or the event, is longer than its bound: the rest of it is stepped over.
    is_long_line: bool,
    is_long_event: bool,
    /// Whether the last byte was a CR: its LF ends no further line.
    was_cr: bool,
}

impl EventLines {
    /// The id of the last event, for `Last-Event-ID`.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Begins a new connection, which goes on behind the last id: an event that the last one has cut off is none.
    pub fn reconnect(&mut self) {
        *self = Self { id: self.id.take(), ..Self::default() };
    }

    /// Takes the next bytes, and hands out each item that they complete.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(StreamItem<'_>)) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.was_cr) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else { return self.add(bytes) };
            let (line, rest) = bytes.split_at(end);
            self.add(line);
            self.was_cr = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            self.end_line(&mut take);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > BYTES_MAX {
            self.is_long_line = true;
            self.line = Vec::new();
        } else if !self.is_long_line {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, take: &mut impl FnMut(StreamItem<'_>)) {
        if std::mem::take(&mut self.is_long_line) {
            self.is_long_event = true;
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            self.end_event(take);
        } else if !self.is_long_event {
            self.field(&line);
        }
        // The room of the line is kept for the next one.
        line.clear();
        self.line = line;
    }

    fn end_event(&mut self, take: &mut impl FnMut(StreamItem<'_>)) {
        if self.is_long_event {
            take(StreamItem::TooLong);
        } else if self.has_data {
            take(StreamItem::Event(&self.name, &self.data));
        }
        self.name.clear();
        self.data.clear();
        (self.has_data, self.is_long_event) = (false, false);
    }

    fn field(&mut self, line: &[u8]) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (name, value) = (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
                self.is_long_event |= self.data.len() > BYTES_MAX;
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"id" => self.id = id(value).or(self.id.take()),
            // Comments, `retry`, and fields that are not known.
            _ => {}
        }
    }
}

/// An id that can be sent back in a header.
fn id(value: &[u8]) -> Option<String> {
    let is_plain = (1..=ID_BYTES_MAX).contains(&value.len()) && value.iter().all(|byte| matches!(byte, b'!'..=b'~'));
    is_plain.then(|| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(lines: &mut EventLines, pieces: &[&[u8]]) -> Vec<String> {
        let mut all = Vec::new();
        for piece in pieces {
            lines.push(piece, |item| {
                all.push(match item {
                    StreamItem::Event(name, data) => format!("{name}={}", String::from_utf8_lossy(data)),
                    StreamItem::TooLong => "too long".to_owned(),
                });
            });
        }
        all
    }

    #[test]
    fn events_are_read_wherever_the_bytes_are_cut_and_with_every_line_end() {
        let text = "retry: 3000\n\n:heartbeat\n\nid: evt_1\nevent: a\ndata: {1\ndata:2}\n\ndata: x\r\n\r\nevent: none\r\rid\ndata\n\n";
        let expected = ["a={1\n2}", "=x", "="];
        for cut in 0..text.len() {
            let mut lines = EventLines::default();
            let (one, other) = text.as_bytes().split_at(cut);
            assert_eq!(items(&mut lines, &[one, other]), expected, "{cut}");
            assert_eq!(lines.last_id(), Some("evt_1"));
        }
    }

    #[test]
    fn what_is_too_long_is_stepped_over_and_the_next_event_is_read_within_a_bounded_memory() {
        let mut lines = EventLines::default();
        let long = vec![b'x'; 40_000];
        let pieces: [&[u8]; 6] = [b"data: ", &long, &long, &long, b"\ndata: y\n\n", b"data: z\n\n"];
        assert_eq!(items(&mut lines, &pieces), ["too long", "=z"]);
        assert!(lines.line.capacity() <= 2 * BYTES_MAX && lines.data.capacity() <= 2 * BYTES_MAX + 1);
        let line = [b"data: ", &long[..], b"\n"].concat();
        assert_eq!(items(&mut lines, &[&line, &line, b"\n", b"data: z\n\n"]), ["too long", "=z"]);
        assert!(items(&mut lines, &[&vec![b'y'; 1 << 20]]).is_empty());
        assert_eq!(items(&mut lines, &[b"\n\ndata: z\n\n"]), ["too long", "=z"]);
    }

    #[test]
    fn a_new_connection_forgets_the_cut_event_and_keeps_the_id_that_a_header_can_have() {
        let mut lines = EventLines::default();
        assert_eq!(items(&mut lines, &[b"id: e1\nid: a b\ndata: cut"]), [""; 0]);
        lines.reconnect();
        assert_eq!(items(&mut lines, &[b"data: whole\n\n"]), ["=whole"]);
        assert_eq!(lines.last_id(), Some("e1"));
    }
}
