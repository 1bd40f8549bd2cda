//! The bytes of a stream of server-sent events, cut behind whole events, so that several streams can become one.

/// The longest event, and the longest message of a WebSocket: the memory of a stream is charged for so much. Units: bytes.
pub const EVENT_BYTES_MAX: usize = 64 * 1024;

/// An event is longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The state of one stream: the event that has begun and not ended. It holds at most [`EVENT_BYTES_MAX`] bytes between two pieces.
#[derive(Debug, Default)]
pub struct WholeEvents {
    held: Vec<u8>,
    /// Where the line that has not ended begins.
    line: usize,
    /// How far it was looked through.
    looked: usize,
}

impl WholeEvents {
    /// Takes in the next bytes, and appends the events that are whole to `out`, each with its blank line. What is no event, such as a comment or `retry`,
    /// is left out unless `keeps_all`.
    ///
    /// Errors: [`TooLong`]; the stream is of no use then.
    pub fn push(&mut self, bytes: &[u8], keeps_all: bool, out: &mut Vec<u8>) -> Result<(), TooLong> {
        self.held.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some((ends, next)) = line_end(&self.held, self.looked) {
            let (is_empty, end) = (ends == self.line, next);
            (self.line, self.looked) = (end, end);
            if is_empty {
                let block = &self.held[begin..end];
                if keeps_all || is_event(block) {
                    out.extend_from_slice(block);
                }
                begin = end;
            }
        }
        self.held.drain(..begin);
        self.line -= begin;
        // A CR at the end is looked at again.
        self.looked = self.held.len() - usize::from(self.held.last() == Some(&b'\r'));
        if self.held.is_empty() {
            self.held = Vec::new();
        }
        if self.held.len() > EVENT_BYTES_MAX { Err(TooLong) } else { Ok(()) }
    }
}

/// Where the line that is looked through from there ends, and where the next one begins; none until both are certain. A line ends with LF, CR LF or CR.
fn line_end(held: &[u8], from: usize) -> Option<(usize, usize)> {
    let end = from + memchr::memchr2(b'\n', b'\r', &held[from..])?;
    match (held[end], held.get(end + 1)) {
        (b'\n', _) => Some((end, end + 1)),
        (_, Some(b'\n')) => Some((end, end + 2)),
        (_, Some(_)) => Some((end, end + 1)),
        // The LF of this CR may be in the next piece.
        (_, None) => None,
    }
}

fn is_event(block: &[u8]) -> bool {
    let mut lines = block.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| [&b"data"[..], b"event", b"id"].iter().any(|field| line.starts_with(field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        "retry: 3000\n\n:heartbeat\n\nid: evt_1\nevent: a\ndata: {}\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n";

    fn whole(pieces: &[&[u8]], keeps_all: bool) -> String {
        let (mut events, mut out) = (WholeEvents::default(), Vec::new());
        for piece in pieces {
            events.push(piece, keeps_all, &mut out).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn events_come_whole_wherever_the_stream_is_cut() {
        let (_, events) = STREAM.split_at("retry: 3000\n\n:heartbeat\n\n".len());
        for at in 0..=STREAM.len() {
            let (head, tail) = STREAM.as_bytes().split_at(at);
            assert_eq!(whole(&[head, tail], true), STREAM, "{at}");
            assert_eq!(whole(&[head, tail], false), events, "{at}");
        }
        assert_eq!(whole(&[b"data: 1\n\ndata: 2\n"], true), "data: 1\n\n", "half an event stays behind");
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let (mut events, mut out) = (WholeEvents::default(), Vec::new());
        let piece = [b'x'; 1024];
        for _ in 0..EVENT_BYTES_MAX / piece.len() {
            assert_eq!(events.push(&piece, true, &mut out), Ok(()));
        }
        assert_eq!(events.push(b"x", true, &mut out), Err(TooLong));
        assert!(out.is_empty());
    }
}
