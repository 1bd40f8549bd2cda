//! Connections that are not woken for nothing.
//!
//! A task that takes a piece of a body wakes the connection that it came by, because there is room for the next one.
//! hyper does so for the last piece, too, and each connection of a call is polled once more to find nothing to do: a
//! third of its polls. So a connection's wakers pass through here, and the wake-up of the last piece is dropped.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

thread_local! {
    /// Whether a piece is being taken on this thread.
    static TAKING: Cell<bool> = const { Cell::new(false) };
    /// Which connection was woken by that.
    static WOKEN: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// A connection whose wakers pass through here.
pub(super) struct WakeFilter<F> {
    connection: F,
    /// The task's own, and ours for it.
    wakers: Option<(Waker, Waker)>,
}

impl<F> WakeFilter<F> {
    pub(super) const fn new(connection: F) -> Self {
        Self { connection, wakers: None }
    }
}

impl<F: Future + Unpin> Future for WakeFilter<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { connection, wakers } = self.get_mut();
        let known = wakers.take().filter(|(task, _)| task.will_wake(cx.waker()));
        let (_, ours) =
            wakers.insert(known.unwrap_or_else(|| (cx.waker().clone(), Arc::new(Filter(cx.waker().clone())).into())));
        Pin::new(connection).poll(&mut Context::from_waker(ours))
    }
}

struct Filter(Waker);

impl Wake for Filter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A thread that ends has no call under way.
        if !TAKING.try_with(Cell::get).unwrap_or(false) {
            return self.0.wake_by_ref();
        }
        // At most one connection waits for the room that one body has; should there be another, it is woken.
        if let Some(other) = WOKEN.with(|woken| woken.replace(Some(self.0.clone()))) {
            other.wake();
        }
    }
}

/// A body that came by a connection whose wakers pass through here.
#[derive(Debug)]
pub struct QuietBody(pub(super) Incoming);

impl Body for QuietBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        take_frame(&mut self.get_mut().0, cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Takes the next piece. Only of a body of hyper's: other bodies may wake the connection for a reason.
fn take_frame<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
    let taking = Taking::begin();
    let frame = Pin::new(&mut *body).poll_frame(cx);
    drop(taking);
    if let Some(woken) = WOKEN.with(RefCell::take)
        && !(frame.is_ready() && body.is_end_stream())
    {
        woken.wake();
    }
    frame
}

/// While it lives, a piece is being taken.
struct Taking;

impl Taking {
    fn begin() -> Self {
        TAKING.set(true);
        Self
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        TAKING.set(false);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// A task that counts how often it is woken.
    #[derive(Default)]
    pub(in crate::net) struct Count(pub(in crate::net) AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Pieces, each of which wakes the connection when it is taken.
    struct Pieces(VecDeque<Bytes>, Waker);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            self.1.wake_by_ref();
            self.0.pop_front().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(Frame::data(piece)))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    /// The waker that a connection sees whose task has this one.
    fn seen_by_connection(task: &Waker) -> Waker {
        let mut seen = None;
        let connection = std::future::poll_fn(|cx| {
            seen = Some(cx.waker().clone());
            Poll::Ready(())
        });
        assert!(Pin::new(&mut WakeFilter::new(connection)).poll(&mut Context::from_waker(task)).is_ready());
        seen.unwrap()
    }

    #[test]
    fn a_connection_is_woken_for_the_next_piece_and_not_after_the_last() {
        let count = Arc::new(Count::default());
        let waker = seen_by_connection(&Waker::from(Arc::clone(&count)));
        let mut cx = Context::from_waker(Waker::noop());
        let mut body = Pieces([Bytes::from_static(b"a"), Bytes::from_static(b"b")].into(), waker.clone());
        assert!(take_frame(&mut body, &mut cx).is_ready());
        assert_eq!(count.0.load(Relaxed), 1, "there is more to come");
        assert!(take_frame(&mut body, &mut cx).is_ready());
        assert_eq!(count.0.load(Relaxed), 1, "that was the last");
        assert!(take_frame(&mut body, &mut cx).is_pending());
        assert_eq!(count.0.load(Relaxed), 2, "nothing was taken");
        waker.wake();
        assert_eq!(count.0.load(Relaxed), 3, "and for everything else it is woken at once");
    }

    #[test]
    fn a_connection_that_moves_to_another_task_wakes_that_one() {
        let [first, second] = [Arc::new(Count::default()), Arc::new(Count::default())];
        let mut polls = 0;
        let connection = std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            polls += 1;
            if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
        });
        let mut quiet = WakeFilter::new(connection);
        for task in [&first, &second, &second] {
            let waker = Waker::from(Arc::clone(task));
            let _ = Pin::new(&mut quiet).poll(&mut Context::from_waker(&waker));
        }
        assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (1, 2));
    }
}
