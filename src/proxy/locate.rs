//! Which region holds a job: what is remembered, what its id hints at, and what the regions say.
//!
//! A search asks every region at once and takes the first that has the job. Searches for the same job are one search, and
//! only so many run at a time, so that ids which nobody knows cannot be turned into a storm.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use foldhash::fast::RandomState;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::Proxy;
use super::ask::{Question, Silence, ask};
use super::attempt::RegionAnswer;
use super::exchange::Exchange;
use crate::base::RegionId;
use crate::ojs::header::{FEDERATION_HOPS, REQUEST_ID};
use crate::ojs::{Class, ErrorDocument, hint, path_segment};
use crate::policy::{GuardClass, RegionIndex};
use crate::telemetry::LookupResult;

/// What a client is told to wait when nothing better is known.
const RETRY_AFTER_MIN: u64 = 1;

/// Whose jobs a client may see is decided by these; a search asks on behalf of whoever sent them, and shares its result with
/// nobody else.
pub(super) const IDENTIFYING: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-ojs-tenant"), HeaderName::from_static("x-ojs-tenant-id")];

/// Where a job is.
#[derive(Debug, Clone)]
pub(super) enum Located {
    /// In this region.
    At(RegionIndex),
    /// In no region: each has said so. Holds the local region's word.
    Nowhere(Arc<RegionAnswer>),
    /// No region has it, and not every region could be asked.
    Unsure(Arc<ErrorDocument>),
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
    Nowhere(Arc<RegionAnswer>),
    Unsure(Arc<ErrorDocument>),
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
            None => Located::Unsure(Arc::new(ErrorDocument::owner_unavailable(Some(region.as_str()), RETRY_AFTER_MIN))),
        },
        Found::Nowhere(answer) => Located::Nowhere(answer),
        Found::Unsure(document) => Located::Unsure(document),
    }
}

/// The region of the answer is the one whose word is missing.
pub(super) fn unsure(proxy: &Proxy, exchange: &mut Exchange, document: &ErrorDocument) -> ErrorDocument {
    let view = proxy.shared.registry.view();
    let named = document.details.get("region").and_then(|region| view.index_of(region.as_str()?));
    exchange.region = named.map(|index| view.region(index).id.clone());
    document.clone()
}

fn key(guard: GuardClass, headers: &HeaderMap, id: &str) -> Key {
    // What may be refused is not waited for by what may not.
    let mut asker = vec![u8::from(guard.is_refusable())];
    for name in &IDENTIFYING {
        for value in headers.get_all(name) {
            asker.extend_from_slice(name.as_str().as_bytes());
            asker.push(b' ');
            asker.extend_from_slice(value.as_bytes());
            asker.push(b'\n');
        }
    }
    (id.to_owned(), asker)
}

/// A search for the owner of a leased job is part of the word about it, which no guard and no limit refuses.
fn guard(exchange: &Exchange) -> GuardClass {
    let class = GuardClass::of(exchange.matched.operation);
    class.filter(|class| !class.is_refusable()).unwrap_or(GuardClass::Read)
}

/// Asks the region that the id hints at, then all others at once. Bounded by one deadline, the wait for its turn included.
async fn ask_around(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Found {
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let Some(_permit) = proxy.shared.lookups.permit(deadline).await else {
        return Found::Unsure(Arc::new(ErrorDocument::overloaded(RETRY_AFTER_MIN)));
    };
    let Some(question) = question(exchange.request_id(), headers, id, deadline) else {
        return Found::Unsure(Arc::new(ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN)));
    };
    let question = Question { guard: guard(exchange), ..question };
    let (hinted, others) = by_hint(proxy, id);
    let mut search = Search::default();
    let found = match search.ask(proxy, hinted, &question).await {
        None => search.ask(proxy, others, &question).await,
        found => found,
    };
    let (result, found) = match found {
        Some(index) => {
            let region = proxy.region(index).id.clone();
            proxy.shared.owners.learn(id, &region);
            (LookupResult::Found, Found::At(region))
        }
        None => search.without(proxy),
    };
    proxy.shared.metrics.lookups[result].inc();
    found
}

fn by_hint(proxy: &Proxy, id: &str) -> (Vec<RegionIndex>, Vec<RegionIndex>) {
    let view = proxy.shared.registry.view();
    view.indexes().partition(|index| hint::names(id, view.region(*index).id.as_str()))
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

/// What the regions that do not have the job have said.
#[derive(Debug, Default)]
struct Search {
    nowhere: Vec<(RegionIndex, RegionAnswer)>,
    /// The first region that did not say, with the document for it.
    unsure: Option<ErrorDocument>,
    /// Regions that answered neither yes nor no.
    evasive: Vec<RegionIndex>,
}

impl Search {
    /// The first of these regions that has the job; the others are not waited for then.
    async fn ask(&mut self, proxy: &Proxy, regions: Vec<RegionIndex>, question: &Question) -> Option<RegionIndex> {
        let one = |index| async move { (index, ask(proxy, Class::Job, index, question).await) };
        let mut asked: FuturesUnordered<_> = regions.into_iter().map(one).collect();
        while let Some((index, answered)) = asked.next().await {
            match answered {
                Ok(answer) if answer.status.is_success() => return Some(index),
                Ok(answer) if answer.status == StatusCode::NOT_FOUND => self.nowhere.push((index, answer)),
                Ok(_) => {
                    self.evasive.push(index);
                    self.unsure_of(proxy, index, Silence::Unknown);
                }
                Err(silence) => self.unsure_of(proxy, index, silence),
            }
        }
        None
    }

    fn unsure_of(&mut self, proxy: &Proxy, index: RegionIndex, silence: Silence) {
        self.unsure.get_or_insert_with(|| silence.document(proxy, index));
    }

    /// The result where no region has the job.
    fn without(self, proxy: &Proxy) -> (LookupResult, Found) {
        let local = proxy.shared.registry.view().local;
        // What the local region says otherwise, such as a 401, is its word to the client, as with every other call.
        if self.evasive.contains(&local) {
            return (LookupResult::Unsure, Found::At(proxy.region(local).id.clone()));
        }
        let Self { nowhere, unsure, .. } = self;
        let mut words = nowhere.into_iter();
        let first = words.next();
        let word = words.find(|(index, _)| *index == local).or(first);
        match (unsure, word) {
            (None, Some((_, answer))) => (LookupResult::Nowhere, Found::Nowhere(Arc::new(answer))),
            (Some(document), _) => (LookupResult::Unsure, Found::Unsure(Arc::new(document))),
            (None, None) => {
                let document = ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN);
                (LookupResult::Unsure, Found::Unsure(Arc::new(document)))
            }
        }
    }
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
        let found = Found::Unsure(Arc::new(ErrorDocument::owner_unavailable(None, 1)));
        first.cell.as_ref().unwrap().set(found).unwrap();
        drop(first);
        let later = lookups.join(asked("a", "x"));
        assert!(!later.cell.as_ref().unwrap().initialized());
        drop(second);
        assert_eq!(lookups.running.lock().len(), 1, "the later search stays");
    }
}
