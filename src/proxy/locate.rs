//! Which region holds a job: what is remembered, what its id hints at, and what the regions say.
//!
//! A search asks every region at once and takes the first that has the job. Only an OJS server's own error document says that
//! there is no such job: a balancer's page says nothing. Searches for the same job are one search, and only so many run at a
//! time, so that ids which nobody knows cannot be turned into a storm.

mod search;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::Proxy;
use super::ask::Question;
use super::attempt::RegionAnswer;
use super::exchange::Exchange;
use super::placement::far;
use crate::base::RegionId;
use crate::ojs::header::{FEDERATION_HOPS, REQUEST_ID};
use crate::ojs::{ErrorDocument, Progress, hint, path_segment, progress};
use crate::outcome;
use crate::policy::{GuardClass, RegionIndex};
use crate::telemetry::LookupResult;
use search::Search;

/// What a client is told to wait when nothing better is known.
const RETRY_AFTER_MIN: u64 = 1;

/// Whose jobs a client may see is decided by these; a search asks on behalf of whoever sent them, and shares its result with
/// nobody else.
pub(super) const IDENTIFYING: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-ojs-tenant"), HeaderName::from_static("x-ojs-tenant-id")];

/// Where a job is.
#[derive(Debug, Clone)]
pub(super) enum Located {
    /// In this region, which has shown it.
    At(RegionIndex),
    /// In no region: each has said so.
    Nowhere(Arc<Nobody>),
    /// No region has shown it, and not every region has said that it does not have it.
    Unsure(Doubt),
}

/// What is said of a job that no region has.
#[derive(Debug)]
pub(super) struct Nobody {
    /// The word of the region whose word stands for all.
    pub(super) answer: RegionAnswer,
    /// That region: the local one, or another where the local one has a tombstone under the id; none where all of them have one.
    pub(super) region: Option<RegionId>,
}

impl Nobody {
    /// Where that region is.
    pub(super) fn index(&self, proxy: &Proxy) -> Option<RegionIndex> {
        proxy.shared.registry.view().index_of(self.region.as_ref()?.as_str())
    }
}

/// Why nobody can say where a job is: the document for the client, and what may be done all the same.
#[derive(Debug, Clone)]
pub(super) struct Doubt {
    document: Arc<ErrorDocument>,
    left: Left,
}

/// What is left of a search that has not found the job.
#[derive(Debug, Clone)]
enum Left {
    /// Nothing: it may be in a region that has not said.
    Unknown,
    /// All others have said no, and this one, the local region or the one that the id hints at, does not tell who asks: it has the
    /// job, or nobody has.
    Only(RegionId),
    /// This region shows it as one that was cancelled before it began, and not all others have said that they have no copy.
    CalledOff(RegionId),
    /// Every region has refused the question with the same status, such as 400 for an id that cannot be one. Holds the local
    /// region's word.
    Refused(Arc<RegionAnswer>),
}

impl Deref for Doubt {
    type Target = ErrorDocument;

    fn deref(&self) -> &ErrorDocument {
        &self.document
    }
}

impl Doubt {
    fn new(document: ErrorDocument) -> Self {
        Self { document: Arc::new(document), left: Left::Unknown }
    }

    /// The only region that can have the job, where that is so.
    pub(super) fn left(&self, proxy: &Proxy) -> Option<RegionIndex> {
        let Left::Only(region) = &self.left else { return None };
        proxy.shared.registry.view().index_of(region.as_str())
    }

    /// The same for calls that nobody waits for with a lease, which are answered by a region that shows the job as cancelled, too.
    pub(super) fn left_or_shown(&self, proxy: &Proxy) -> Option<RegionIndex> {
        let Left::CalledOff(region) = &self.left else { return self.left(proxy) };
        proxy.shared.registry.view().index_of(region.as_str())
    }
}

impl Located {
    /// The same for a call whose answer is a region's own word: where only one region is left, it is that one's.
    pub(super) fn or_left(self, proxy: &Proxy) -> Self {
        match &self {
            Self::Unsure(doubt) => doubt.left(proxy).map_or(self, Self::At),
            Self::At(_) | Self::Nowhere(_) => self,
        }
    }
}

/// The searches that are under way; shared by all threads.
#[derive(Debug)]
pub struct Lookups {
    permits: Semaphore,
    running: Mutex<HashMap<Key, Weak<OnceCell<Found>>, RandomState>>,
}

type Key = (String, Vec<u8>);

/// [`Located`], in terms that hold over a reload.
#[derive(Debug, Clone)]
enum Found {
    At(RegionId),
    Nowhere(Arc<Nobody>),
    Unsure(Doubt),
}

/// One search that several requests may wait for.
struct Joined<'l> {
    lookups: &'l Lookups,
    key: Key,
    /// Taken only when this is dropped.
    cell: Option<Arc<OnceCell<Found>>>,
}

impl Lookups {
    /// At most so many searches at once.
    #[must_use]
    pub fn new(searches_max: usize) -> Self {
        Self { permits: Semaphore::new(searches_max), running: Mutex::default() }
    }

    /// Leave to search, for as long as it is held; none where it did not come in time.
    pub(super) async fn permit(&self, deadline: Instant) -> Option<SemaphorePermit<'_>> {
        timeout_at(deadline, self.permits.acquire()).await.ok()?.ok()
    }

    fn join(&self, key: Key) -> Joined<'_> {
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
        // Under the lock, so that of two who leave together one sees that it is the last.
        drop(cell);
    }
}

/// The region that is known to hold a job, from an answer that showed it.
pub(super) fn known(proxy: &Proxy, id: &str) -> Option<RegionIndex> {
    let region = proxy.shared.owners.region_of(id)?;
    let known = proxy.shared.registry.view().index_of(region.as_str());
    if known.is_some() {
        proxy.shared.metrics.lookups[LookupResult::Known].inc();
    }
    known
}

/// Finds the region that holds a job: what is known, else what a search finds.
pub(super) async fn locate(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Located {
    match known(proxy, id) {
        Some(index) => Located::At(index),
        None => search(proxy, exchange, headers, id).await,
    }
}

/// Asks the regions for a job, whatever is remembered of it.
pub(super) async fn search(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Located {
    let found = {
        let joined = proxy.shared.lookups.join(key(guard(exchange), headers, id));
        match &joined.cell {
            Some(cell) => cell.get_or_init(|| ask_around(proxy, exchange, headers, id)).await.clone(),
            None => ask_around(proxy, exchange, headers, id).await,
        }
    };
    match found {
        Found::At(region) => match proxy.shared.registry.view().index_of(region.as_str()) {
            Some(index) => Located::At(index),
            None => {
                let document = ErrorDocument::owner_unavailable(Some(region.as_str()), RETRY_AFTER_MIN);
                Located::Unsure(Doubt::new(document))
            }
        },
        Found::Nowhere(nobody) => Located::Nowhere(nobody),
        Found::Unsure(doubt) => Located::Unsure(doubt),
    }
}

/// The answer where nobody can say where a job is: what every region refuses alike, the local one says.
///
/// Errors: 503 `owner_unavailable` otherwise.
pub(super) fn in_doubt(proxy: &Proxy, exchange: &mut Exchange, doubt: &Doubt) -> Result<RegionAnswer, ErrorDocument> {
    let Left::Refused(answer) = &doubt.left else { return Err(unsure(proxy, exchange, doubt)) };
    let view = proxy.shared.registry.view();
    exchange.region = Some(view.region(view.local).id.clone());
    Ok(RegionAnswer::clone(answer))
}

/// Whether an answer or an item shows a job that was cancelled before any worker had it. Such a job may be the cancelled twin of
/// one that lives in another region under the same id, so that it tells nothing of where the job is.
pub(super) fn was_called_off(shown: &[u8]) -> bool {
    progress(shown).is_some_and(|it| is_called_off(&it))
}

/// The same of what was read of one.
pub(super) fn is_called_off(shown: &Progress) -> bool {
    far(shown) == outcome::Progress::Cancelled
}

/// The region of the answer is the one whose word is missing.
pub(super) fn unsure(proxy: &Proxy, exchange: &mut Exchange, document: &ErrorDocument) -> ErrorDocument {
    let view = proxy.shared.registry.view();
    let named = document.region().and_then(|region| view.index_of(region.as_str()));
    exchange.region = named.map(|index| view.region(index).id.clone());
    document.clone()
}

fn key(guard: GuardClass, headers: &HeaderMap, id: &str) -> Key {
    let mut asker = asker(headers);
    // What may be refused is not waited for by what may not.
    asker.push(u8::from(guard.is_refusable()));
    (id.to_owned(), asker)
}

/// On whose behalf a call is made, as its headers say it.
pub(super) fn asker(headers: &HeaderMap) -> Vec<u8> {
    let mut asker = Vec::new();
    for name in &IDENTIFYING {
        for value in headers.get_all(name) {
            asker.extend_from_slice(name.as_str().as_bytes());
            asker.push(b' ');
            asker.extend_from_slice(value.as_bytes());
            asker.push(b'\n');
        }
    }
    asker
}

/// A search for the owner of a leased job is part of the word about it, which no guard and no limit refuses.
fn guard(exchange: &Exchange) -> GuardClass {
    let class = GuardClass::of(exchange.matched.operation);
    class.filter(|class| !class.is_refusable()).unwrap_or(GuardClass::Read)
}

/// Asks the region that the id hints at and the one where the job was last seen, then all others at once. Bounded by one
/// deadline, the wait for its turn included.
async fn ask_around(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Found {
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let Some(_permit) = proxy.shared.lookups.permit(deadline).await else {
        return Found::Unsure(Doubt::new(ErrorDocument::overloaded(RETRY_AFTER_MIN)));
    };
    let Some(question) = question(exchange.request_id(), headers, id, deadline) else {
        return Found::Unsure(Doubt::new(ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN)));
    };
    let question = Question { guard: guard(exchange), ..question };
    let (likely, others) = by_likelihood(proxy, id);
    let mut search = Search::default();
    let found = match search.ask(proxy, likely, id, &question).await {
        None => search.ask(proxy, others, id, &question).await,
        found => found,
    };
    let (result, found) = match found.or(search.called_off.filter(|_| search.has_heard_all())) {
        Some(index) => {
            let region = proxy.region(index).id.clone();
            proxy.shared.owners.learn(id, &region);
            (LookupResult::Found, Found::At(region))
        }
        None => search.without(proxy, id),
    };
    proxy.shared.metrics.lookups[result].inc();
    found
}

fn by_likelihood(proxy: &Proxy, id: &str) -> (Vec<RegionIndex>, Vec<RegionIndex>) {
    let view = proxy.shared.registry.view();
    let seen = proxy.shared.owners.region_of(id);
    view.indexes().partition(|index| {
        let region = &view.region(*index).id;
        seen.as_ref() == Some(region) || hint::names(id, region.as_str())
    })
}

/// The question for a job, on behalf of whoever sent these headers.
pub(super) fn question(request_id: &HeaderValue, headers: &HeaderMap, id: &str, deadline: Instant) -> Option<Question> {
    let path = PathAndQuery::try_from(format!("/ojs/v1/jobs/{}", path_segment(id))).ok()?;
    let mut own = HeaderMap::with_capacity(4);
    // The question passes as many sidecars as the call.
    for name in IDENTIFYING.iter().chain([&FEDERATION_HOPS]) {
        for value in headers.get_all(name) {
            own.append(name.clone(), value.clone());
        }
    }
    own.insert(REQUEST_ID, request_id.clone());
    Some(Question::get(path, own, deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, authorization: &'static str) -> Key {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, http::HeaderValue::from_static(authorization));
        key(GuardClass::Read, &headers, id)
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
        let found = Found::Unsure(Doubt::new(ErrorDocument::owner_unavailable(None, 1)));
        first.cell.as_ref().unwrap().set(found).unwrap();
        drop(first);
        let later = lookups.join(asked("a", "x"));
        assert!(!later.cell.as_ref().unwrap().initialized());
        drop(second);
        assert_eq!(lookups.running.lock().len(), 1, "the later search stays");
    }
}
