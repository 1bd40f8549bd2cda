//! The pieces of a body while they come.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::offload::offload;
use super::received::Reading;
use crate::ojs::{GAP_MARK, Gap, is_torn, stretch};
use crate::proxy::state::{Collected, Share};

/// The most bytes that are reserved on the word of a `Content-Length`. A longer body is read in parts of up to this
/// size: a buffer that grows in one piece is copied again and again.
const PART_BYTES: usize = 64 * 1024;
/// Once an eighth of the announced bytes has arrived, room is reserved for all of them, and the received bytes are
/// moved there. So a `Content-Length` reserves at most eight times the bytes that were sent, and an eighth of a body is
/// copied twice.
const KEPT_PROMISE: usize = 8;
/// A longer one is joined aside: an eighth of this takes a third of a millisecond to be moved, for which others wait.
const WHOLE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A shorter part of a string is not kept as a segment of its own: a segment holds the whole buffer that it was read
/// into, of 128 kB or as `limits.head_bytes` has it. So a body holds at most about twice its bytes; three times for one
/// piece of each connection, while its buffer still grows. Units: bytes.
pub(crate) const APART_BYTES_MIN: usize = 64 * 1024;

/// The received part of a body. Most bodies come in one piece.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    first: Option<Bytes>,
    /// Boxed, because most calls need no room for it.
    later: Option<Box<Later>>,
}

/// A body of more than one piece.
#[derive(Debug)]
pub(crate) struct Later {
    parts: Vec<BytesMut>,
    gaps: Vec<Gap>,
    /// The bytes of `parts`.
    text: usize,
    announced: usize,
    apart_min: usize,
    /// Whether the last piece ended within an escape, which the next one would be torn from.
    is_torn: bool,
}

impl Gather {
    /// Adds a piece of a body of which so many bytes are announced. Parts of strings stay in the pieces that they come in where they are
    /// of `apart_min` bytes.
    pub(crate) fn add(&mut self, data: Bytes, announced: usize, apart_min: usize) {
        match &mut self.later {
            Some(later) => later.add(&data),
            // An empty piece is none: the next one is the first, and need not be copied.
            later @ None => match self.first.take().filter(|first| !first.is_empty()) {
                None => self.first = Some(data),
                Some(first) => {
                    let later = later.insert(Box::new(Later::new(announced, apart_min)));
                    later.add(&first);
                    later.add(&data);
                }
            },
        }
    }

    /// All of it, where it came in one piece; else the pieces, which are yet to be put together. No async function: a body of one piece,
    /// as most are, would be copied into its future, which only the others need.
    pub(crate) fn in_one_piece(self, share: Share) -> Result<Collected, (Box<Later>, Share)> {
        match self.later {
            None => Ok(Collected::of_connection(self.first.unwrap_or_default(), share)),
            Some(later) => Err((later, share)),
        }
    }
}

impl Later {
    /// All of it. A long one is joined aside.
    ///
    /// Panics: in a test build, where something was kept apart.
    pub(crate) async fn whole(self: Box<Self>, share: Share) -> Collected {
        debug_assert!(self.gaps.is_empty(), "nothing was to be kept apart");
        self.join(share).await
    }

    /// All of it, for a job.
    pub(crate) async fn job(mut self: Box<Self>, mut share: Share) -> Reading {
        let gaps = std::mem::take(&mut self.gaps);
        if gaps.is_empty() {
            return Reading::begin(self.whole(share).await);
        }
        // Each piece is counted until it is dropped.
        let hold = |Gap { at, bytes }| Gap { at, bytes: share.split(bytes.len()).hold(bytes) };
        let gaps = gaps.into_iter().map(hold).collect();
        Reading::Held { text: self.whole(share).await.hold(), gaps }
    }

    const fn new(announced: usize, apart_min: usize) -> Self {
        Self { parts: Vec::new(), gaps: Vec::new(), text: 0, announced, apart_min, is_torn: false }
    }

    fn add(&mut self, data: &Bytes) {
        let apart = self.apart_of(data);
        let behind = &data[apart.end..];
        self.is_torn = is_torn(data);
        if apart.is_empty() {
            return self.append(data);
        }
        self.append(&data[..apart.start]);
        // The announced length is longer than the text will be.
        self.announced = self.announced.saturating_sub(apart.len());
        self.gaps.push(Gap { at: self.text, bytes: data.slice(apart) });
        self.append(&[GAP_MARK]);
        self.append(behind);
    }

    /// The part of a piece that need not be copied.
    fn apart_of(&self, data: &[u8]) -> Range<usize> {
        if data.len() < self.apart_min || self.is_torn {
            return 0..0;
        }
        let goes_on = stretch(data);
        if goes_on.len() >= self.apart_min {
            return goes_on;
        }
        // A string that begins in this piece.
        let begins = memchr::memrchr(b'"', data).map_or(data.len(), |quote| quote + 1);
        let text = stretch(&data[begins..]);
        if text.len() >= self.apart_min { begins + text.start..begins + text.end } else { 0..0 }
    }

    fn append(&mut self, data: &[u8]) {
        self.text += data.len();
        append(&mut self.parts, data, self.announced);
    }

    async fn join(mut self: Box<Self>, share: Share) -> Collected {
        // Room that was reserved for bytes that became a segment is given back.
        if self
            .parts
            .first()
            .is_some_and(|part| self.parts.len() == 1 && part.capacity() <= 2 * part.len() + PART_BYTES)
        {
            return Collected::joined(self.parts.swap_remove(0), share);
        }
        // The bytes stay counted until they are dropped, also when the client no longer waits.
        let (parts, bytes) = (self.parts, self.text);
        offload(bytes, move || Collected::joined(join(parts, bytes), share)).await
    }
}

/// Adds to the last of these parts, or to a new one where that is full: the one that holds the whole as soon as its length is
/// known and believed.
fn append(parts: &mut Vec<BytesMut>, data: &[u8], announced: usize) {
    if let Some(part) = parts.last_mut().filter(|part| part.capacity() - part.len() >= data.len()) {
        return part.extend_from_slice(data);
    }
    let bytes = parts.iter().map(BytesMut::len).sum::<usize>() + data.len();
    let is_believed = announced <= PART_BYTES.max(bytes.saturating_mul(KEPT_PROMISE));
    let mut part = if (bytes..=WHOLE_BYTES_MAX).contains(&announced) && is_believed {
        join(std::mem::take(parts), announced)
    } else {
        BytesMut::with_capacity(bytes.saturating_mul(2).min(PART_BYTES).max(data.len()))
    };
    part.extend_from_slice(data);
    parts.push(part);
}

/// One piece, with room for so many bytes; the parts go while it grows.
fn join(parts: Vec<BytesMut>, bytes: usize) -> BytesMut {
    let mut whole = BytesMut::with_capacity(bytes);
    parts.into_iter().for_each(|part| whole.extend_from_slice(&part));
    whole
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use proptest::prelude::*;

    use super::*;
    use crate::ojs::Envelope;
    use crate::proxy::body::offload::LONG_BYTES;
    use crate::proxy::state::buffered::Buffered;

    const APART_MIN: usize = 16;

    async fn gathered(sent: &Bytes, cuts: &[usize], all: &Buffered) -> Reading {
        let mut share = all.request(usize::MAX);
        let mut gather = Gather::default();
        let mut from = 0;
        for to in cuts.iter().copied().chain([sent.len()]) {
            assert!(share.grow(to - from));
            gather.add(sent.slice(from..to), sent.len(), APART_MIN);
            from = to;
        }
        match gather.in_one_piece(share) {
            Ok(collected) => Reading::begin(collected),
            Err((later, share)) => later.job(share).await,
        }
    }

    #[tokio::test]
    async fn the_text_of_a_long_job_stays_in_the_pieces_that_it_came_in() {
        let sent = Bytes::from(format!(r#"{{"args":["{}\u00e9é{}"],"type":"t"}}"#, "x".repeat(100), "y".repeat(70)));
        let all = Buffered::default();
        // Begins with the job; is torn from a letter and from an escape; ends with the job.
        let accents = sent.iter().position(|byte| *byte == 0xC3).unwrap();
        for cuts in [vec![80, 150], vec![40, accents + 1, 180], vec![40, accents - 3, accents + 20]] {
            let reading = gathered(&sent, &cuts, &all).await;
            let body = reading.body();
            assert_eq!(body.pieces().concat(), *sent, "{cuts:?}");
            assert!(body.gaps().len() >= 2 && body.text().len() < 60, "{cuts:?}: {}", body.text().escape_ascii());
            let envelope = Envelope::read_abridged(body, 16, |_| false).unwrap();
            assert_eq!(envelope.job_type(), Some("t"), "{cuts:?}");
            let within = |piece: &[u8]| sent.as_ptr_range().contains(&piece.as_ptr());
            assert!(body.gaps().iter().all(|gap| within(&gap.bytes)), "nothing of it is copied");
            // It is counted until the last piece goes.
            assert_eq!(all.bytes(), sent.len());
            let last = body.gaps().last().unwrap().bytes.clone();
            drop(reading);
            assert_eq!(all.bytes(), last.len());
            drop(last);
            assert_eq!(all.bytes(), 0);
        }
    }

    #[tokio::test]
    async fn what_is_in_no_string_or_in_short_pieces_is_joined() {
        let all = Buffered::default();
        for (sent, cuts) in [
            ("{\"args\":[1]}".replace("]", &",\n\"a\"".repeat(40)) + "]}", vec![60, 120]),
            (format!("{{\"args\":[\"{}\"]}}", "x".repeat(100)), (1..110).step_by(APART_MIN - 1).collect()),
        ] {
            let sent = Bytes::from(sent);
            let reading = gathered(&sent, &cuts, &all).await;
            assert_eq!((reading.body().gaps().len(), reading.body().text()), (0, &sent));
        }
    }

    #[tokio::test]
    async fn a_job_that_waits_to_be_put_together_is_counted_once() {
        let all = Buffered::default();
        let sent = Bytes::from(format!(r#"{{"other":"{}"}}"#, "x".repeat(2 * LONG_BYTES)));
        let mut reading = gathered(&sent, &[100], &all).await;
        assert!(!reading.body().gaps().is_empty());
        // What is ahead of it ends when `go` is dropped.
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let mut ahead = pin!(offload(LONG_BYTES + 1, move || gone.recv().is_err()));
        let mut join = Box::pin(reading.join(&all));
        assert!(
            poll_fn(|cx| Poll::Ready(ahead.as_mut().poll(cx).is_pending() && join.as_mut().poll(cx).is_pending()))
                .await
        );
        assert_eq!(all.bytes(), sent.len());
        drop(go);
        assert!(ahead.await);
        join.await;
        assert_eq!((reading.body().gaps().len(), reading.body().text()), (0, &sent));
        assert_eq!(all.bytes(), sent.len());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_wherever_a_body_is_cut(
            parts in proptest::collection::vec("[\"x]{0,2}([a-z]{0,30}|(\\\\[nu\"]){0,9}|[é😀]{0,12})", 0..8),
            mut cuts in proptest::collection::vec(0_usize..300, 0..8),
        ) {
            let sent = Bytes::from(parts.concat());
            cuts.iter_mut().for_each(|cut| *cut %= sent.len() + 1);
            cuts.sort_unstable();
            let all = Buffered::default();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let reading = runtime.block_on(gathered(&sent, &cuts, &all));
            prop_assert_eq!(reading.body().pieces().concat(), &*sent);
            prop_assert_eq!(all.bytes(), sent.len());
            drop(reading);
            prop_assert_eq!(all.bytes(), 0);
        }
    }

    #[test]
    fn what_is_announced_has_its_room_once_an_eighth_of_it_has_come_and_not_before() {
        let announced = 8 * PART_BYTES + 800;
        let body: Vec<u8> = (0..announced).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut parts = Vec::new();
        let mut bytes = 0;
        for data in body.chunks(100) {
            append(&mut parts, data, announced);
            bytes += data.len();
            let reserved: usize = parts.iter().map(BytesMut::capacity).sum();
            assert!(reserved <= bytes * KEPT_PROMISE + PART_BYTES, "{reserved} for {bytes}");
            assert!(parts.len() == 1 || bytes <= announced / KEPT_PROMISE + PART_BYTES, "{} for {bytes}", parts.len());
        }
        assert_eq!((parts.len(), parts[0].capacity()), (1, announced));
        assert!(parts[0] == body);
    }
}
