//! Work that outlives its client: an enqueue that is on the wire is finished even when the client has gone, because only
//! its answer tells what became of the job.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs a future; dropped before its end, it goes on as a task of its own on the same thread.
///
/// Bounded: the future must have a deadline of its own.
#[derive(Debug)]
pub(super) struct Finish<F: Future<Output: 'static> + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: 'static> + 'static> Finish<F> {
    pub(super) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future<Output: 'static> + 'static> Future for Finish<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let output = std::task::ready!(future.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<F: Future<Output: 'static> + 'static> Drop for Finish<F> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and nothing is left to run the rest.
        if let Some(future) = self.0.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            tokio::task::spawn_local(future);
        }
    }
}
