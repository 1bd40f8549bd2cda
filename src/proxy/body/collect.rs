//! Reading a whole body into memory, within bounds.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body;
use tokio::time::{Instant, Sleep, sleep_until};

use super::gather::{APART_BYTES_MIN, Gather};
use super::received::Reading;
use crate::net::body_scheduler::Turns;
use crate::net::pool::RegionBody;
use crate::net::{IncomingBody, Violation};
use crate::ojs::ErrorDocument;
use crate::proxy::state::{Collected, Proxy, Share};

/// How soon calls that are under way, and bodies in memory, make room for others: most calls take less. Units: seconds.
pub(crate) const OVERLOADED_RETRY_AFTER: u64 = 1;

/// Why a body could not be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CollectError {
    /// It is longer than the bound.
    TooLarge,
    /// Too much of other bodies is in memory.
    Overloaded,
    /// It did not end in time.
    Timeout,
    /// The connection broke, or the framing was wrong.
    Broken(Option<Violation>),
}

/// The error document for a client whose body broke off or was not framed well.
pub(crate) fn broken_body(violation: Option<Violation>) -> ErrorDocument {
    match violation {
        Some(Violation::NoRoom) => ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER),
        Some(violation) => ErrorDocument::bad_request(violation.to_string()),
        None => ErrorDocument::bad_request("the connection ended before the body did; send the request again"),
    }
}

/// Reads a client's body.
///
/// Errors: 413, 408, 503 while the bodies of others take the memory, or 400 for a body that broke off.
pub(crate) async fn collect_body(
    proxy: &Proxy,
    mut body: IncomingBody,
    deadline: Instant,
) -> Result<Collected, ErrorDocument> {
    let limits = &proxy.shared.config.limits;
    let share = proxy.shared.buffered.request(limits.buffered_bytes);
    let collected = match body.take_whole() {
        Some(whole) => at_once(whole, limits.body_bytes, share),
        None => collect(body, limits.body_bytes, deadline, share).await,
    };
    collected.map_err(|error| refused(error, limits.body_bytes))
}

/// Reads a client's job, of which a long text stays in the pieces that it came in. Errors: as [`collect_body`].
pub(crate) async fn collect_job(
    proxy: &Proxy,
    mut body: IncomingBody,
    deadline: Instant,
) -> Result<Reading, ErrorDocument> {
    let limits = &proxy.shared.config.limits;
    let share = proxy.shared.buffered.request(limits.buffered_bytes);
    if let Some(whole) = body.take_whole() {
        let collected = at_once(whole, limits.body_bytes, share);
        return collected.map(Reading::begin).map_err(|error| refused(error, limits.body_bytes));
    }
    // At most half of the buffer that a connection is read into.
    let apart_min = APART_BYTES_MIN.max(limits.head_bytes);
    let gathered = gather(body, limits.body_bytes, deadline, share, apart_min).await;
    let (gather, share) = gathered.map_err(|error| refused(error, limits.body_bytes))?;
    match gather.in_one_piece(share) {
        Ok(collected) => Ok(Reading::begin(collected)),
        Err((later, share)) => Ok(later.job(share).await),
    }
}

/// The error document for a client whose body was not read.
fn refused(error: CollectError, bytes_max: usize) -> ErrorDocument {
    match error {
        CollectError::TooLarge => ErrorDocument::body_too_large(bytes_max),
        CollectError::Overloaded => ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER),
        CollectError::Timeout => ErrorDocument::request_timeout(),
        CollectError::Broken(violation) => broken_body(violation),
    }
}

/// Counts a body of ours among those in memory. It is never refused: the client's, which it was made from, was let in.
pub(crate) fn hold(proxy: &Proxy, body: Vec<u8>) -> Bytes {
    let mut share = proxy.shared.buffered.answer();
    let counted = share.grow(body.len());
    debug_assert!(counted, "what is unbounded has room");
    share.hold(Bytes::from(body))
}

/// Reads a region's answer. Errors: as of [`collect`].
pub(crate) async fn collect_answer(
    body: &mut RegionBody,
    bytes_max: usize,
    deadline: Instant,
    share: Share,
) -> Result<Collected, CollectError> {
    match body.take_whole() {
        Some(whole) => at_once(whole, bytes_max, share),
        None => collect(body, bytes_max, deadline, share).await,
    }
}

/// A body that came whole with its head, in a buffer of its own.
fn at_once(bytes: Bytes, bytes_max: usize, mut share: Share) -> Result<Collected, CollectError> {
    if bytes.len() > bytes_max {
        return Err(CollectError::TooLarge);
    }
    if !share.grow(bytes.len()) {
        return Err(CollectError::Overloaded);
    }
    Ok(Collected::own(bytes, share))
}

/// Reads a body of at most `bytes_max` bytes; one that announces more is refused before it is read.
///
/// A body that came in one piece, as most do, is not copied. It is counted while it comes.
pub(crate) async fn collect<B>(
    body: B,
    bytes_max: usize,
    deadline: Instant,
    share: Share,
) -> Result<Collected, CollectError>
where
    B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin,
{
    let (gather, share) = gather(body, bytes_max, deadline, share, usize::MAX).await?;
    match gather.in_one_piece(share) {
        Ok(collected) => Ok(collected),
        Err((later, share)) => Ok(later.whole(share).await),
    }
}

async fn gather<B>(
    mut body: B,
    bytes_max: usize,
    deadline: Instant,
    mut share: Share,
    apart_min: usize,
) -> Result<(Gather, Share), CollectError>
where
    B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(CollectError::TooLarge);
    }
    let mut gather = Gather::default();
    let mut bytes = 0;
    let mut turns = Turns::default();
    let mut timer = None;
    loop {
        let next = poll_fn(|cx| match turns.poll(cx).is_ready().then(|| Pin::new(&mut body).poll_frame(cx)) {
            Some(Poll::Ready(frame)) => Poll::Ready(Ok(frame)),
            _ => poll_timer(&mut timer, deadline, cx).map(|()| Err(CollectError::Timeout)),
        });
        let Some(frame) = next.await? else { break };
        let Ok(data) = frame.map_err(|error| CollectError::Broken(Violation::in_causes_of(&error)))?.into_data() else {
            continue;
        };
        turns.moved(data.len());
        bytes += data.len();
        if bytes > bytes_max {
            return Err(CollectError::TooLarge);
        }
        if !share.grow(data.len()) {
            return Err(CollectError::Overloaded);
        }
        gather.add(data, announced, apart_min);
        // The announced length has come, and need not be waited for once more.
        if body.is_end_stream() {
            break;
        }
    }
    Ok((gather, share))
}

/// Resolves at the deadline. The timer is made only for a body that has not arrived yet: most bodies have, and need
/// none.
fn poll_timer(timer: &mut Option<Pin<Box<Sleep>>>, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
    timer.get_or_insert_with(|| Box::pin(sleep_until(deadline))).as_mut().poll(cx)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use http_body::Frame;

    use super::*;
    use crate::proxy::state::buffered::Buffered;
    use crate::proxy::state::collected::SHORT_BYTES_MAX;

    const SUM_MAX: usize = 8;

    struct Parts(VecDeque<Bytes>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
        }
    }

    async fn check(parts: &[&'static str], bytes_max: usize) -> Result<Bytes, CollectError> {
        let body = Parts(parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect());
        let share = Buffered::default().request(SUM_MAX);
        collect(body, bytes_max, Instant::now() + Duration::from_secs(10), share).await.map(Collected::hold)
    }

    #[tokio::test]
    async fn a_short_body_does_not_keep_the_buffer_that_it_came_in() {
        for (length, is_free) in [(SHORT_BYTES_MAX, true), (SHORT_BYTES_MAX + 1, false)] {
            let buffer = Bytes::from(vec![b'x'; 8 * 1024]);
            let share = Buffered::default().request(usize::MAX);
            let body = Parts([buffer.slice(100..100 + length)].into());
            let collected =
                collect(body, length, Instant::now() + Duration::from_secs(10), share).await.unwrap().hold();
            assert!(collected == buffer[..length]);
            assert_eq!(buffer.is_unique(), is_free, "{length}");
        }
    }

    #[tokio::test]
    async fn an_empty_piece_costs_no_copy_of_the_next() {
        let long = Bytes::from(vec![b'x'; SHORT_BYTES_MAX + 1]);
        let body = Parts([Bytes::new(), long.clone()].into());
        let share = Buffered::default().request(usize::MAX);
        let deadline = Instant::now() + Duration::from_secs(10);
        let collected = collect(body, usize::MAX, deadline, share).await.unwrap().hold();
        assert_eq!(collected.as_ptr(), long.as_ptr());
    }

    #[tokio::test]
    async fn pieces_are_joined_in_order_up_to_the_bound() {
        assert_eq!(check(&[], 3).await.as_deref(), Ok(&b""[..]));
        assert_eq!(check(&["abc"], 3).await.as_deref(), Ok(&b"abc"[..]));
        assert_eq!(check(&["a", "b", "c"], 3).await.as_deref(), Ok(&b"abc"[..]));
        assert_eq!(check(&["ab", "cd"], 3).await, Err(CollectError::TooLarge));
        assert_eq!(check(&["abcd", "efgh"], 9).await.as_deref(), Ok(&b"abcdefgh"[..]));
        assert_eq!(check(&["abcd", "efgh", "i"], 9).await, Err(CollectError::Overloaded));
    }
}
