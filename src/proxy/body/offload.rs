//! Work on long documents, on a thread beside those that serve calls.
//!
//! A document of a megabyte takes about a millisecond to read, and all calls of the same thread would wait for it. So
//! it is read on one separate thread, in FIFO order. Each document belongs to a call or to one of our few own
//! questions, so that `limits.calls` bounds the queue.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, LazyLock};

use tokio::sync::oneshot;

use crate::proxy::state::Proxy;

/// A document up to this size is read on the worker thread: most are smaller, and the hand-over costs as much as
/// reading half of this. Units: bytes.
pub const LONG_BYTES: usize = 128 * 1024;
/// The nice value of the thread, on the kernel's scale up to 19: worker threads preempt it, and where all are busy it
/// gets a fifth of the time of one of them.
#[cfg(target_os = "linux")]
const NICE: i32 = 7;

type Work = Box<dyn FnOnce() + Send>;

/// The way to the thread, which begins with the first long document; none where the system gives no thread.
static ASIDE: LazyLock<Option<Sender<Work>>> = LazyLock::new(|| {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("ojs-long".to_owned());
    thread.spawn(move || work_off(&receiver)).ok().map(|_| sender)
});

fn work_off(receiver: &Receiver<Work>) {
    #[cfg(target_os = "linux")]
    // Of this thread alone, here. Where it is not allowed, the thread is one like the others.
    let _ = rustix::process::setpriority_process(None, NICE);
    receiver.iter().for_each(|work| work());
}

/// Does some work on documents of so many bytes: at once, or aside where they are long.
///
/// Cancel safety: work that has begun is completed, and its result dropped.
pub async fn offload<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    let Some(thread) = (bytes > LONG_BYTES).then(|| ASIDE.as_ref()).flatten() else { return work() };
    let (done, is_done) = oneshot::channel();
    let sent = thread.send(Box::new(move || {
        // The caller gets the panic, and the next document is read.
        drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    }));
    debug_assert!(sent.is_ok(), "the thread lives as long as the process");
    match is_done.await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        // Only where the thread has ended, and so the process, and this call with it.
        Err(_) => std::future::pending().await,
    }
}

impl Proxy {
    /// As [`offload`], for work that needs a proxy: the one that it is given there has the same configuration and shares the same
    /// state, and no connections.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        if bytes <= LONG_BYTES {
            return work(self);
        }
        let shared = Arc::clone(&self.shared);
        offload(bytes, move || work(&Self::new(shared))).await
    }
}

#[cfg(test)]
mod tests {
    use std::thread::current;

    use super::*;

    #[tokio::test]
    async fn what_is_long_is_done_by_another_thread_and_what_is_short_at_once() {
        let here = current().id();
        assert_eq!(offload(LONG_BYTES, || current().id()).await, here);
        let there = offload(LONG_BYTES + 1, || current().id()).await;
        assert_ne!(there, here);
        let both = futures_util::future::join(
            offload(LONG_BYTES + 1, || current().id()),
            offload(LONG_BYTES + 1, || current().name().map(str::to_owned)),
        );
        assert_eq!(both.await, (there, Some("ojs-long".to_owned())));
    }

    #[tokio::test]
    async fn a_panic_aside_is_one_of_the_call_and_the_next_is_served() {
        let failed = tokio::spawn(offload(LONG_BYTES + 1, || panic!("as planned"))).await;
        assert!(failed.is_err_and(|error| error.is_panic()));
        assert_eq!(offload(LONG_BYTES + 1, || 1).await, 1);
    }
}
