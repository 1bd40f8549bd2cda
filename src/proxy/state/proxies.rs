//! Which proxy serves a request: that of the configuration in force when it began.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use super::shared::{Proxy, Shared};

/// One worker thread's view of the program, in the configuration that is in force.
#[derive(Debug)]
pub struct Proxies {
    /// Knows by a look at a pointer that nothing has changed.
    current: RefCell<Cache<Arc<ArcSwap<Shared>>, Arc<Shared>>>,
    proxy: RefCell<Rc<Proxy>>,
}

impl Proxies {
    /// A worker's proxies, beginning with the configuration in force.
    #[must_use]
    pub fn new(current: Arc<ArcSwap<Shared>>) -> Self {
        let mut current = Cache::new(current);
        let proxy = RefCell::new(Proxy::new(Arc::clone(current.load())));
        Self { current: RefCell::new(current), proxy }
    }

    /// The proxy of the configuration in force. A request keeps the one that it began with.
    #[must_use]
    pub fn current(&self) -> Rc<Proxy> {
        let mut current = self.current.borrow_mut();
        let shared = current.load();
        let proxy = self.proxy.borrow();
        if Arc::ptr_eq(&proxy.shared, shared) {
            return Rc::clone(&proxy);
        }
        let next = proxy.successor(Arc::clone(shared));
        drop(proxy);
        self.proxy.replace(Rc::clone(&next));
        next
    }
}
