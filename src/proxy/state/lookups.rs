//! The searches for jobs that are under way, and their results.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::region_answer::RegionAnswer;
use crate::base::RegionId;
use crate::ojs::ErrorDocument;
use crate::policy::RegionIndex;

/// Where a job is.
#[derive(Debug, Clone)]
pub(crate) enum Located {
    /// In this region, which has shown it.
    At(RegionIndex),
    /// In no region: each has said so.
    Nowhere(Arc<NotFound>),
    /// No region has shown it, and not every region has said that it does not have it.
    Unsure(Indeterminate),
}

/// The answer for a job that no region has.
#[derive(Debug)]
pub(crate) struct NotFound {
    /// The answer of the region that stands for all.
    pub(crate) answer: RegionAnswer,
    /// That region: the local one, or another where the local one has a tombstone under the id; none where all of them have one.
    pub(crate) region: Option<RegionId>,
}

/// A job whose region is uncertain: the error document for the client, and the calls that are possible all the same.
#[derive(Debug, Clone)]
pub(crate) struct Indeterminate {
    pub(crate) document: Arc<ErrorDocument>,
    pub(crate) left: Left,
}

/// The possibilities that a search without success has left.
#[derive(Debug, Clone)]
pub(crate) enum Left {
    /// Nothing: it may be in a region that has not said.
    Unknown,
    /// All other regions answered no, and this one, the local region or the one that the id hints at, refuses to answer
    /// this client: it has the job, or no region has.
    Only(RegionId),
    /// This region shows it as one that was cancelled before it began, and not all others have said that they have no copy.
    CalledOff(RegionId),
    /// Every region has refused the question with the same status, such as 400 for an id that cannot be one. Holds the local
    /// region's word.
    Refused(Arc<RegionAnswer>),
}

impl Deref for Indeterminate {
    type Target = ErrorDocument;

    fn deref(&self) -> &ErrorDocument {
        &self.document
    }
}

impl Indeterminate {
    pub(crate) fn new(document: ErrorDocument) -> Self {
        Self { document: Arc::new(document), left: Left::Unknown }
    }
}

/// The searches that are under way; shared by all threads.
#[derive(Debug)]
pub struct Lookups {
    permits: Semaphore,
    running: Mutex<HashMap<Key, Weak<OnceCell<Found>>, RandomState>>,
}

pub(crate) type Key = (String, Vec<u8>);

/// [`Located`], in terms that hold over a reload.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    At(RegionId),
    Nowhere(Arc<NotFound>),
    Unsure(Indeterminate),
}

/// One search that several requests may wait for.
pub(crate) struct Joined<'l> {
    lookups: &'l Lookups,
    key: Key,
    /// Taken only when this is dropped.
    pub(crate) cell: Option<Arc<OnceCell<Found>>>,
}

impl Lookups {
    /// At most so many searches at once.
    #[must_use]
    pub fn new(searches_max: usize) -> Self {
        Self { permits: Semaphore::new(searches_max), running: Mutex::default() }
    }

    /// Leave to search, for as long as it is held; none where it did not come in time.
    pub(crate) async fn permit(&self, deadline: Instant) -> Option<SemaphorePermit<'_>> {
        timeout_at(deadline, self.permits.acquire()).await.ok()?.ok()
    }

    pub(crate) fn join(&self, key: Key) -> Joined<'_> {
        let mut running = self.running.lock();
        let cell = running.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let cell = Arc::default();
            running.insert(key.clone(), Arc::downgrade(&cell));
            cell
        });
        drop(running);
        Joined { lookups: self, key, cell: Some(cell) }
    }
}

impl Drop for Joined<'_> {
    /// The last one to leave, or the first one that has its result, ends the search for newcomers.
    fn drop(&mut self) {
        let mut running = self.lookups.running.lock();
        let Some(cell) = self.cell.take() else { return };
        let is_over = cell.initialized() || Arc::strong_count(&cell) == 1;
        let is_ours = running.get(&self.key).is_some_and(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(&cell)));
        if is_over && is_ours {
            running.remove(&self.key);
        }
        // Under the lock, so that of two waiters which leave together one sees that it is the last.
        drop(cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, asker: &str) -> Key {
        (id.to_owned(), asker.into())
    }

    #[test]
    fn searches_for_one_job_on_one_behalf_are_one_search_and_leave_nothing_behind() {
        let lookups = Lookups::new(1);
        let first = lookups.join(asked("a", "x"));
        let second = lookups.join(asked("a", "x"));
        let others = [lookups.join(asked("b", "x")), lookups.join(asked("a", "y"))];
        let same = |one: &Joined<'_>, other: &Joined<'_>| {
            one.cell.as_ref().zip(other.cell.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
        };
        assert!(same(&first, &second));
        assert!(others.iter().all(|other| !same(&first, other)));
        drop(first);
        assert!(same(&second, &lookups.join(asked("a", "x"))), "whoever waits may be joined");
        drop((second, others));
        assert!(lookups.running.lock().is_empty());
    }

    #[test]
    fn a_search_that_is_over_is_not_joined() {
        let lookups = Lookups::new(1);
        let [first, second] = [lookups.join(asked("a", "x")), lookups.join(asked("a", "x"))];
        let found = Found::Unsure(Indeterminate::new(ErrorDocument::owner_unavailable(None, 1)));
        first.cell.as_ref().unwrap().set(found).unwrap();
        drop(first);
        let later = lookups.join(asked("a", "x"));
        assert!(!later.cell.as_ref().unwrap().initialized());
        drop(second);
        assert_eq!(lookups.running.lock().len(), 1, "the later search stays");
    }
}
