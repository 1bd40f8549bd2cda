//! Tasks of hyper's HTTP/2 on the thread that they belong to.

/// Spawns on the current thread's `LocalSet` or local runtime.
#[derive(Debug, Clone, Copy)]
pub struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
