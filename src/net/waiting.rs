//! Sockets that are not asked again before they have something.
//!
//! hyper asks its connection for more after every step of a call, usually five times before an answer comes. Each time
//! tokio stores the waker, under a lock. A socket that a task has asked without result wakes that task, so that until
//! then there is no need to ask.
//!
//! Only on the thread that drives the socket: there no task comes between the socket's getting ready and the wake.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::task::coop::has_budget_remaining;

use super::raw_tcp::RawTcp;
use super::socket::Socket;

/// A socket that knows without a lock whether there may be something to read.
pub(super) trait Readable: AsyncRead + Unpin {
    /// Whether there may be something, or the end: the system has said so since the socket was last found empty, or it is new.
    fn is_readable(&self) -> bool;
}

impl Readable for RawTcp {
    fn is_readable(&self) -> bool {
        self.tcp().try_io(Interest::READABLE, || Ok(())).is_ok()
    }
}

impl Readable for Socket {
    fn is_readable(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_readable(),
            Self::Unix(unix) => unix.try_io(Interest::READABLE, || Ok(())).is_ok(),
        }
    }
}

/// The task that one socket will wake when it is ready.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The last task that it was asked by in vain.
    task: Option<Waker>,
    /// Whether it has noted that task. It still counts as noted once it was woken: then the socket is ready.
    is_promised: bool,
}

impl Waiting {
    /// Whether the socket, always the same one, still has nothing for the task of `cx` and will wake it.
    pub(super) fn is_still(&self, socket: &impl Readable, cx: &Context<'_>) -> bool {
        self.is_promised && self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) && !socket.is_readable()
    }

    /// Reads as the socket does.
    pub(super) fn poll_read(
        &mut self,
        socket: &mut impl Readable,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_still(socket, cx) {
            return Poll::Pending;
        }
        let poll = Pin::new(socket).poll_read(cx, buf);
        // A task whose time slice is used up, if only by finding the socket empty, gets `Pending` before its waker is
        // stored, and is woken only for its next slice. A task with a stored waker has the last step of its slice back.
        self.is_promised = poll.is_pending() && has_budget_remaining();
        if self.is_promised && !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
        poll
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::coop::poll_proceed;

    use super::*;
    use crate::net::wake_filter::tests::Count;

    async fn pair() -> (RawTcp, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (RawTcp::new(socket, None), listener.accept().await.unwrap().0)
    }

    /// What one read by this task gives at once; `None` where it must wait.
    fn read_once(waiting: &mut Waiting, socket: &mut RawTcp, task: &Waker) -> Option<Vec<u8>> {
        let mut bytes = [0; 64];
        let mut buf = ReadBuf::new(&mut bytes);
        match waiting.poll_read(socket, &mut Context::from_waker(task), &mut buf) {
            Poll::Ready(read) => read.map(|()| buf.filled().to_vec()).ok(),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn whoever_asks_in_vain_is_woken_however_often_and_whoever_asks() {
        let (mut socket, mut peer) = pair().await;
        let mut waiting = Waiting::default();
        let [first, second] = [Arc::new(Count::default()), Arc::new(Count::default())];
        for (word, task) in [("one", &first), ("two", &second), ("three", &first), ("four", &first)] {
            let other = if Arc::ptr_eq(task, &first) { &second } else { &first };
            let [task_waker, other] = [task, other].map(|task| Waker::from(Arc::clone(task)));
            // The last one to ask is the one that is woken.
            for task in [&other, &task_waker, &task_waker] {
                assert_eq!(read_once(&mut waiting, &mut socket, task), None);
            }
            let before = task.0.load(Relaxed);
            peer.write_all(word.as_bytes()).await.unwrap();
            socket.tcp().readable().await.unwrap();
            assert_eq!(task.0.load(Relaxed), before + 1, "{word}");
            assert_eq!(read_once(&mut waiting, &mut socket, &task_waker).unwrap(), word.as_bytes());
        }
        let task = Waker::from(Arc::clone(&first));
        assert_eq!(read_once(&mut waiting, &mut socket, &task), None);
        drop(peer);
        socket.tcp().readable().await.unwrap();
        assert_eq!(read_once(&mut waiting, &mut socket, &task), Some(Vec::new()), "the end is heard, too");
    }

    /// A task that asks with so many steps of its turn left is woken by what comes later.
    async fn is_woken_with(steps: usize) {
        let (mut socket, mut peer) = pair().await;
        let mut waiting = Waiting::default();
        // Read to the last byte, but so that the socket does not know that this was the last.
        peer.write_all(&[b'x'; 64]).await.unwrap();
        socket.tcp().readable().await.unwrap();
        let reading = tokio::spawn(async move {
            let mut is_first = true;
            poll_fn(|cx| {
                if std::mem::take(&mut is_first) {
                    assert_eq!(read_once(&mut waiting, &mut socket, cx.waker()).map(|read| read.len()), Some(64));
                    let mut left = Vec::new();
                    while let Poll::Ready(step) = poll_proceed(cx) {
                        left.push(step);
                    }
                    // Given back from the last to the first, as if these had not been taken.
                    left.split_off(left.len() - steps).into_iter().rev().for_each(drop);
                    left.into_iter().for_each(|step| step.made_progress());
                }
                read_once(&mut waiting, &mut socket, cx.waker()).map_or(Poll::Pending, Poll::Ready)
            })
            .await
        });
        // Behind its next turn.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        peer.write_all(b"late").await.unwrap();
        let read = tokio::time::timeout(std::time::Duration::from_secs(20), reading).await;
        assert_eq!(read.unwrap().unwrap(), b"late", "{steps} steps left");
    }

    #[tokio::test]
    async fn a_task_whose_turn_ends_while_it_asks_is_woken_by_what_comes_later() {
        for steps in 0..4 {
            is_woken_with(steps).await;
        }
    }
}
