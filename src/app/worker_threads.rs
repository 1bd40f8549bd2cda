//! The worker threads as the control thread sees them: each one reports that it has started, and none may end before the others.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

use super::error::RunError;

/// Threads that work until they are ordered to stop; dropped, it orders so and waits for their end.
pub(super) struct WorkerThreads {
    threads: Vec<JoinHandle<()>>,
    stop: watch::Sender<()>,
    tell_end: Sender<usize>,
    ended: Receiver<usize>,
}

/// Where a thread says, once, whether it has started.
pub(super) struct Report(SyncSender<Result<(), RunError>>);

impl Report {
    pub(super) fn started(&self, result: Result<(), RunError>) {
        // The channel has room for one report, and a second one is not read.
        let _ = self.0.try_send(result);
    }
}

/// Reports the end of its thread, for any cause.
struct Alive(usize, Sender<usize>);

impl Drop for Alive {
    fn drop(&mut self) {
        // A full channel already holds another thread's end, which ends the program as well.
        let _ = self.1.try_send(self.0);
    }
}

impl WorkerThreads {
    pub(super) fn new() -> Self {
        let (tell_end, ended) = channel(1);
        Self { threads: Vec::new(), stop: watch::Sender::new(()), tell_end, ended }
    }

    /// Changes, or closes, when the threads are to stop.
    pub(super) fn stopped(&self) -> watch::Receiver<()> {
        self.stop.subscribe()
    }

    /// Starts a thread, and waits for its report.
    ///
    /// Errors: its report, the kernel's error when there is no thread for us, or that it ended without a report.
    pub(super) fn start(&mut self, work: impl FnOnce(&Report) + Send + 'static) -> Result<(), RunError> {
        let number = self.threads.len();
        let (report, reported) = sync_channel(1);
        let alive = Alive(number, self.tell_end.clone());
        let body = move || {
            let _alive = alive;
            work(&Report(report));
        };
        let thread = std::thread::Builder::new().name(name(number)).spawn(body).map_err(RunError::Thread)?;
        self.threads.push(thread);
        reported.recv().unwrap_or_else(|_| Err(ended(number)))
    }

    /// Resolves when a thread has ended without an order.
    pub(super) async fn ended(&mut self) -> RunError {
        match self.ended.recv().await {
            Some(number) => ended(number),
            // Not reached: we hold a sender ourselves.
            None => std::future::pending().await,
        }
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        // All receivers may be closed, when every thread has failed; then there is no thread to stop.
        let _ = self.stop.send(());
        for thread in self.threads.drain(..) {
            // A panic was logged by its own thread.
            let _ = thread.join();
        }
    }
}

fn name(number: usize) -> String {
    format!("ojs-worker-{number}")
}

fn ended(number: usize) -> RunError {
    RunError::Ended(format!("the worker thread {}", name(number)))
}
