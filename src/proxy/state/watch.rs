//! Whether the regions answer at all: a watch over the calls of this thread, which runs while there are any.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::net::pool::Pool;
use crate::policy::RegionIndex;
use crate::policy::silence::{Calls, Sign, WATCH_EVERY, Watch};
use crate::region::Registry;

/// The calls to one region that are answered soon as a rule.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    calls: Cell<Calls>,
    is_watched: Cell<bool>,
    watch: RefCell<Watch>,
}

/// A call, from its sending to its answer.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Watched);

impl Watched {
    /// A call begins.
    pub(crate) fn begin<'a>(
        self: &'a Rc<Self>,
        registry: &Arc<Registry>,
        pool: &Pool,
        index: RegionIndex,
    ) -> Waiting<'a> {
        let calls = self.calls.get();
        self.calls.set(Calls { waiting: calls.waiting.wrapping_add(1), begun: calls.begun.wrapping_add(1), ..calls });
        if !self.is_watched.replace(true) {
            self.watch(registry, pool, index);
        }
        Waiting(self)
    }

    #[cold]
    fn watch(self: &Rc<Self>, registry: &Arc<Registry>, pool: &Pool, index: RegionIndex) {
        let (watched, registry, pool) = (Rc::clone(self), Arc::clone(registry), pool.clone());
        self.watch.borrow_mut().resume(self.calls.get());
        tokio::task::spawn_local(async move {
            watched.run(&registry, &pool, index).await;
            watched.is_watched.set(false);
        });
    }

    async fn run(&self, registry: &Registry, pool: &Pool, index: RegionIndex) {
        let clock = registry.clock();
        loop {
            clock.sleep_for_socket(WATCH_EVERY).await;
            match self.watch.borrow_mut().look(self.calls.get()) {
                Sign::None => {}
                Sign::Doubt => {
                    // Waiting requests stay on their connections. The next call needs a new connection, which a silent
                    // region does not accept.
                    pool.retire();
                    registry.doubt(index);
                }
                Sign::Idle => return,
            }
        }
    }
}

impl Waiting<'_> {
    /// The answer has come, at least its head.
    pub(crate) fn answered(&self) {
        let calls = self.0.calls.get();
        self.0.calls.set(Calls { answered: calls.answered.wrapping_add(1), ..calls });
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let calls = self.0.calls.get();
        self.0.calls.set(Calls { waiting: calls.waiting.wrapping_sub(1), ..calls });
    }
}
