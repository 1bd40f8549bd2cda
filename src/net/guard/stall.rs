//! The clock of a client that does not read its answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Times how long nothing could be written.
#[derive(Debug)]
pub(in crate::net) struct Stall {
    timeout: Duration,
    /// Made when a write first has to wait, which few connections come to.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Stall {
    pub(in crate::net) const fn new(timeout: Duration) -> Self {
        Self { timeout, timer: None, waiting: false }
    }

    /// The client has taken something.
    pub(super) const fn took(&mut self) {
        self.waiting = false;
    }

    /// Takes the result of a write, and resolves when the client has taken no byte for too long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, has_to_wait: bool) -> Poll<()> {
        if !has_to_wait {
            self.took();
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        if !std::mem::replace(&mut self.waiting, true) {
            timer.as_mut().reset(Instant::now() + self.timeout);
        }
        timer.as_mut().poll(cx)
    }
}
