//! The runtime of commands that ask something and end.

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// A runtime for the calling thread.
pub(super) fn runtime() -> std::io::Result<LocalRuntime> {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
}
