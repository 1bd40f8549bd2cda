//! Why the program cannot start, or not go on.

use crate::net::{BindError, LocalAddress};
use crate::region::SetupError;

/// Why the program cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A region's files cannot be used: the configuration is wrong.
    #[error(transparent)]
    Region(#[from] SetupError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system has no more descriptors or threads.
    #[error("the system refuses: {0}")]
    System(#[from] std::io::Error),
}

/// Why the program cannot start, or cannot go on; the message has the remedy.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A thread has no runtime.
    #[error("a thread cannot make its runtime: {0}; raise the limit on open files, or lower `limits.worker_threads`")]
    Runtime(std::io::Error),
    /// There is no thread for a worker.
    #[error("a worker thread cannot be started: {0}; raise the limit on tasks, or lower `limits.worker_threads`")]
    Thread(std::io::Error),
    /// An address that is bound cannot be served.
    #[error("{address} cannot be served: {source}; raise the limit on open files, or lower `limits.worker_threads`")]
    Listener {
        /// The address.
        address: LocalAddress,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// Something ended that runs as long as the program does.
    #[error("{0} has ended, which is a defect; start again, and report the place that the log names")]
    Ended(String),
}
