//! The region of a job: from memory, from the hint in its id, or by asking the regions.
//!
//! A search asks every region at once and takes the first that has the job. Only the error document of an OJS server
//! proves an absence: a balancer's page proves nothing. Searches for the same job are merged into one, and
//! `limits.lookups` bounds them, so that unknown ids cannot cause a storm. Where the index of the hub names regions, those
//! are asked before all others.

use http::HeaderMap;
use tokio::time::Instant;

use super::called_off::RETRY_AFTER_MIN;
pub(crate) use super::called_off::is_called_off;
use super::indexed::indexed;
use super::search::Search;
use crate::base::RegionId;
use crate::ojs::{ErrorDocument, hint};
use crate::policy::{GuardClass, RegionIndex};
pub(crate) use crate::proxy::state::lookups::Located;
use crate::proxy::{
    call::{
        ask::{Question, question},
        exchange::Exchange,
    },
    state::{Found, IDENTIFYING, Indeterminate, Key, Left, NotFound, Proxy, RegionAnswer},
};
use crate::telemetry::LookupResult;

impl NotFound {
    /// Where that region is.
    pub(crate) fn index(&self, proxy: &Proxy) -> Option<RegionIndex> {
        proxy.shared.registry.view().index_of(self.region.as_ref()?.as_str())
    }
}

impl Indeterminate {
    /// The only region that can have the job, where that is so.
    pub(crate) fn left(&self, proxy: &Proxy) -> Option<RegionIndex> {
        let Left::Only(region) = &self.left else { return None };
        proxy.shared.registry.view().index_of(region.as_str())
    }

    /// The same for calls without a lease to lose; a region that shows the job as cancelled may answer them, too.
    pub(crate) fn left_or_shown(&self, proxy: &Proxy) -> Option<RegionIndex> {
        let Left::CalledOff(region) = &self.left else { return self.left(proxy) };
        proxy.shared.registry.view().index_of(region.as_str())
    }
}
impl Located {
    /// The same for a call that a region can answer by its own error: where only one region is left, it goes there.
    pub(crate) fn or_left(self, proxy: &Proxy) -> Self {
        match &self {
            Self::Unsure(doubt) => doubt.left(proxy).map_or(self, Self::At),
            Self::At(_) | Self::Nowhere(_) => self,
        }
    }
}

/// The region that is known to hold a job, from an answer that showed it.
pub(crate) fn known(proxy: &Proxy, id: &str) -> Option<RegionIndex> {
    let region = proxy.shared.owners.region_of(id)?;
    let known = proxy.shared.registry.view().index_of(region.as_str());
    if known.is_some() {
        proxy.shared.metrics.lookups[LookupResult::Known].inc();
    }
    known
}

/// Finds the region of a job: from memory, else by a search.
pub(crate) async fn locate(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Located {
    match known(proxy, id) {
        Some(index) => Located::At(index),
        None => search(proxy, exchange, headers, id).await,
    }
}

/// Asks the regions for a job, without regard to memory.
pub(crate) async fn search(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Located {
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
            None => Located::Unsure(Indeterminate::new(away(region.as_str()))),
        },
        Found::Nowhere(nobody) => match departed(proxy, id) {
            Some(region) => Located::Unsure(Indeterminate::new(away(region.as_str()))),
            None => Located::Nowhere(nobody),
        },
        Found::Unsure(doubt) => Located::Unsure(doubt),
    }
}

/// The region that held or leased a job when it was last seen, where that region is not registered any more: the others' word that the job is
/// nowhere is then none.
pub(crate) fn departed(proxy: &Proxy, id: &str) -> Option<RegionId> {
    // A lease may be older than the last answer that showed the job.
    let seen = proxy.shared.owners.region_of(id).or_else(|| proxy.shared.journal.leased_in(id))?;
    proxy.shared.registry.view().index_of(seen.as_str()).is_none().then_some(seen)
}

/// The answer about a job in a region that is not registered.
pub(crate) fn away(region: &str) -> ErrorDocument {
    ErrorDocument::owner_unavailable(Some(region), RETRY_AFTER_MIN)
}

/// The answer where the region of a job is uncertain: where every region refuses alike, the local region's refusal.
///
/// Errors: 503 `owner_unavailable` otherwise.
pub(crate) fn in_doubt(
    proxy: &Proxy,
    exchange: &mut Exchange,
    doubt: &Indeterminate,
) -> Result<RegionAnswer, ErrorDocument> {
    let Left::Refused(answer) = &doubt.left else { return Err(unsure(proxy, exchange, doubt)) };
    let view = proxy.shared.registry.view();
    exchange.region = Some(view.region(view.local).id.clone());
    Ok(RegionAnswer::clone(answer))
}

/// Sets the region whose answer is missing as the region of the answer.
pub(crate) fn unsure(proxy: &Proxy, exchange: &mut Exchange, document: &ErrorDocument) -> ErrorDocument {
    let view = proxy.shared.registry.view();
    let named = document.region().and_then(|region| view.index_of(region.as_str()));
    exchange.region = named.map(|index| view.region(index).id.clone());
    document.clone()
}

fn key(guard: GuardClass, headers: &HeaderMap, id: &str) -> Key {
    let mut asker = asker(headers);
    // A call that limits may refuse and one that they may not do not share a search.
    asker.push(u8::from(guard.is_refusable()));
    (id.to_owned(), asker)
}

/// The caller, as a fingerprint of the headers that name it.
pub(crate) fn asker(headers: &HeaderMap) -> Vec<u8> {
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

/// Asks the region that the id hints at and the one where the job was last seen, or without them those that the index of the hub
/// names; then all others at once. Bounded by one deadline, the wait for its turn included.
async fn ask_around(proxy: &Proxy, exchange: &Exchange, headers: &HeaderMap, id: &str) -> Found {
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let Some(_permit) = proxy.shared.lookups.permit(deadline).await else {
        return Found::Unsure(Indeterminate::new(ErrorDocument::overloaded(RETRY_AFTER_MIN)));
    };
    let Some(question) = question(exchange.request_id(), headers, id, deadline) else {
        return Found::Unsure(Indeterminate::new(ErrorDocument::owner_unavailable(None, RETRY_AFTER_MIN)));
    };
    let question = Question { guard: guard(exchange), ..question };
    let (mut likely, mut others) = by_likelihood(proxy, id);
    if likely.is_empty() {
        let named = indexed(proxy, id, deadline).await;
        (likely, others) = others.into_iter().partition(|index| named.contains(&proxy.region(*index).id));
    }
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
