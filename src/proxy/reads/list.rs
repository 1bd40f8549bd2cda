//! Lists: the regions' lists one behind the other, page by page.
//!
//! A [`Walk`] says which region to ask for which part; no region is asked for more than a page. A region that is down or answers
//! badly is named in `OJS-Federation-Partial`, and the rest is returned. Nothing is kept between pages: the composite cursor
//! carries all.

mod listing;
mod names;
mod replica;
mod show;

use std::collections::BTreeSet;

use crate::net::IncomingBody;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use tokio::time::Instant;

use self::listing::{Gathered, Listing};
use self::replica::Replicas;
use crate::base::RegionId;
use crate::ojs::list::{Ask, Figures, Page, Pick, Walk, Wanted, added_up, merged};
use crate::ojs::shards::{Naming, query_of_all};
use crate::ojs::{ErrorDocument, Paging, is_of_fence, normal_path};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        address::admit_unjudged,
        each_name::names_sharded,
        exchange::Exchange,
        fan_out::{ask_each, name_missing, name_regions, nobody, read_headers},
    },
    state::{Proxy, Reply},
    stream::local::local,
};

/// Answers a list out of all regions, or passes it to the one that the client named.
///
/// Errors: 400 `invalid_cursor`; 503 `owner_unavailable` when no region answered.
pub(crate) async fn list(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
    paging: Paging,
) -> Result<Response<Reply>, ErrorDocument> {
    // A read with a body means something that only its own server knows.
    if !request.body().is_end_stream() {
        admit_unjudged(proxy, exchange)?;
        return local(proxy, exchange, request).await;
    }
    let view = proxy.shared.registry.view();
    let regions: Vec<RegionIndex> = view.indexes().collect();
    let only = exchange.addressed.or_else(|| regions.first().copied().filter(|_| regions.len() == 1));
    let is_sharded = names_sharded(proxy, &exchange.matched, request.uri());
    let of_all = request.uri().query().is_some_and(|query| of_all_names(proxy, query) != *query);
    let is_merged = is_sharded || of_all || (proxy.shared.shards.is_some() && paging == Paging::Names);
    if let Some(index) = only.filter(|_| !is_merged) {
        return show::of_one(proxy, exchange, index, request).await;
    }
    let regions = only.map_or(regions, |index| vec![index]);
    let listing = Listing {
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(|query| of_all_names(proxy, query)),
        headers: read_headers(exchange, request.headers()),
        deadline: Instant::now() + proxy.shared.config.limits.call_timeout,
    };
    let wanted = listing.wanted(paging);
    if wanted.odd
        && let Some(refusal) = refused(proxy, exchange, &listing, view.local).await?
    {
        return Ok(refusal);
    }
    if paging == Paging::Names {
        return names::names(proxy, exchange, &listing, &wanted, regions).await;
    }
    let naming = naming(proxy, exchange, &listing).filter(|_| is_sharded);
    pages(proxy, exchange, (&listing, naming.as_ref()), &wanted, &regions).await
}

/// The local region's refusal of a query that asks for no page, where it refuses it: another server would have passed it over.
///
/// Errors: those of [`ask_each`].
async fn refused(
    proxy: &Proxy,
    exchange: &mut Exchange,
    listing: &Listing,
    local: RegionIndex,
) -> Result<Option<Response<Reply>>, ErrorDocument> {
    let question = listing.question(listing.query.as_deref().unwrap_or_default());
    let question = question.ok_or_else(ErrorDocument::uri_too_long)?;
    let said = ask_each(proxy, exchange, vec![(local, question)]).await?.into_iter().next();
    let is_refusal = |status| matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
    let Some((_, Ok(answer))) = said.filter(|(_, said)| said.as_ref().is_ok_and(|answer| is_refusal(answer.status)))
    else {
        return Ok(None);
    };
    name_regions(proxy, exchange, [local]);
    Ok(Some(answer.into()))
}

/// A query that lists `queues`, with all names of those that have shards.
fn of_all_names(proxy: &Proxy, query: &str) -> String {
    let shards = proxy.shared.shards.as_deref();
    shards.and_then(|shards| query_of_all(shards, query)).unwrap_or_else(|| query.to_owned())
}

/// The queue with shards that a list is of.
fn naming<'p>(proxy: &'p Proxy, exchange: &Exchange, listing: &Listing) -> Option<Naming<'p>> {
    let shards = proxy.shared.shards.as_deref()?;
    Naming::of(shards, &exchange.matched, &listing.path, listing.query.as_deref(), &[])
}

/// The lists that make up one: that of each region, and with shards that of each name in each region. Their ids are those of cursors.
fn legs<'n>(
    proxy: &Proxy,
    regions: &[RegionIndex],
    naming: Option<&'n Naming<'_>>,
) -> Vec<(RegionIndex, &'n str, RegionId)> {
    let id = |index: RegionIndex| proxy.region(index).id.clone();
    let Some(naming) = naming else { return regions.iter().map(|index| (*index, "", id(*index))).collect() };
    let named = |index: RegionIndex| {
        naming.queue().suffixes().map(move |suffix| {
            // Two regions whose ids begin with the same 52 bytes would share a place in the cursor.
            let own = RegionId::parse(&format!("{:.52}{}", id(index).as_str(), suffix.replace('.', "-")));
            debug_assert!(own.is_ok(), "52 bytes of an id and a suffix of 11 are an id");
            (index, suffix, own.unwrap_or_else(|_| id(index)))
        })
    };
    regions.iter().flat_map(|index| named(*index)).collect()
}

async fn pages(
    proxy: &Proxy,
    exchange: &mut Exchange,
    (listing, naming): (&Listing, Option<&Naming<'_>>),
    wanted: &Wanted,
    regions: &[RegionIndex],
) -> Result<Response<Reply>, ErrorDocument> {
    let name = normal_path(&listing.path);
    let matched = exchange.matched;
    let legs = legs(proxy, regions, naming);
    let ids: Vec<RegionId> = legs.iter().map(|(.., id)| id.clone()).collect();
    let mut walk = Walk::begin(wanted, &name, &ids).map_err(|_| ErrorDocument::bad_cursor())?;
    let mut gathered = Gathered::default();
    let mut replicas = Replicas::of(proxy, listing, wanted, &ids, naming.is_some());
    let ended = replicas.ended().filter_map(|leg| legs.get(leg));
    gathered.missing.extend(ended.map(|(index, ..)| *index));
    loop {
        let asks = walk.asks();
        if asks.is_empty() {
            break;
        }
        let (of_replicas, asks): (Vec<Ask>, Vec<Ask>) = asks.into_iter().partition(|ask| replicas.has_begun(ask));
        let question = |ask: &Ask| {
            let (index, suffix, _) = legs.get(ask.leg)?;
            let query = wanted.query(&ask.place, ask.limit);
            if naming.is_none() {
                return Some((*index, listing.question(&query)?));
            }
            // The place of the name is that in the query of this page.
            let shards = proxy.shared.shards.as_deref()?;
            let naming = Naming::of(shards, &matched, &listing.path, Some(&query), &[])?;
            Some((*index, listing.question_at(naming.target(suffix))?))
        };
        let questions = asks.iter().filter_map(question).collect::<Vec<_>>();
        if questions.len() != asks.len() {
            // A target that is too long to be one: the client's own query is.
            return Err(ErrorDocument::uri_too_long());
        }
        let mut away = of_replicas;
        for (ask, said) in asks.into_iter().zip(ask_each(proxy, exchange, questions).await?) {
            let is_down = replica::is_down(&said);
            let told = gathered.take(ask.leg, said, wanted.paging).await;
            if told.is_none() && is_down && !gathered.is_answered(ask.leg) && replicas.may_begin(&ask) {
                away.push(ask);
                continue;
            }
            walk.heard(&ask, told.as_ref().map(|told| (told, gathered.pages.len() - 1)));
        }
        for (ask, page) in replicas.pages(proxy, exchange, &legs, away).await? {
            let told = page.as_ref().map(|page| page.counts().clone());
            if let Some((index, ..)) = legs.get(ask.leg) {
                gathered.missing.insert(*index);
                page.into_iter().for_each(|page| gathered.keep(ask.leg, *index, page, true));
            }
            walk.heard(&ask, told.as_ref().map(|told| (told, gathered.pages.len() - 1)));
        }
    }
    let outcome = walk.finish();
    let mut figures = Figures::of(wanted);
    figures.total = outcome.total;
    figures.limit = outcome.limit;
    figures.has_more = outcome.has_more;
    // Pages by number go on by number.
    figures.cursor =
        replicas.cursor(outcome.cursor, &ids).filter(|_| wanted.paging != Paging::Page).map(|it| it.encode(&name));
    let bare = show::is_without_meta(&listing.path);
    let mut response = answer(proxy, exchange, gathered, (outcome.picks, bare), figures).await?;
    replicas.name(&mut response);
    Ok(response)
}

async fn answer(
    proxy: &Proxy,
    exchange: &mut Exchange,
    gathered: Gathered,
    (picks, bare): (Vec<Pick>, bool),
    figures: Figures,
) -> Result<Response<Reply>, ErrorDocument> {
    let Gathered { pages, from, legs, unusable, missing, replicas } = gathered;
    if pages.is_empty() {
        return nobody(proxy, exchange, unusable);
    }
    let live = from.iter().zip(&replicas).filter(|(_, is_replica)| !**is_replica);
    name_regions(proxy, exchange, live.map(|(index, _)| *index));
    let bytes = pages.iter().map(|page| page.body().len()).sum();
    let body = proxy
        .offload(bytes, move |proxy| one_page(proxy, &pages, (&from, &legs, &replicas), (&picks, bare), figures))
        .await;
    let mut response = exchange.json(StatusCode::OK.as_u16(), body);
    name_missing(proxy, &mut response, &missing);
    Ok(response)
}

/// The picked items of the regions' pages, as one page.
fn one_page(
    proxy: &Proxy,
    pages: &[Page],
    (from, legs, replicas): (&[RegionIndex], &[usize], &[bool]),
    (picks, bare): (&[Pick], bool),
    mut figures: Figures,
) -> Vec<u8> {
    let (mut items, mut fences) = (Vec::new(), 0);
    for pick in picks {
        let (Some(page), Some(index)) = (pages.get(pick.answer), from.get(pick.answer)) else { continue };
        let is_replica = replicas.get(pick.answer) == Some(&true);
        for item in (pick.from..pick.to).map(|place| page.item(place)) {
            if is_replica {
                // The index is no proof of where a job is, and says nothing that a redacted job does not.
                match &*item {
                    replica::HIDDEN => figures.withheld += 1,
                    _ => items.push(item),
                }
                continue;
            }
            if is_of_fence(&item) {
                fences += 1;
                continue;
            }
            show::learn(proxy, *index, &item);
            match show::shown(proxy, *index, item, bare) {
                Some(item) => items.push(item),
                None => figures.withheld += 1,
            }
        }
    }
    figures.total = figures.total.map(|total| without_fences(total, picks, fences));
    figures.summary = summary(pages, legs);
    let live = pages.iter().zip(replicas).filter(|(_, is_replica)| !**is_replica).map(|(page, _)| page);
    Page::model(live).or_else(|| Page::model(pages)).map(|model| merged(model, &items, &figures)).unwrap_or_default()
}

/// The number of items without tombstones, where the page holds all of them. Of a part, the tombstones in the rest are
/// unknown, and a client that counts up to the total must not end before it.
fn without_fences(total: u64, picks: &[Pick], fences: u64) -> u64 {
    let picked: usize = picks.iter().map(|pick| pick.to.saturating_sub(pick.from)).sum();
    if picked as u64 == total { total.saturating_sub(fences) } else { total }
}

/// The figures beside the items of each list, added up: those of its first page, because they are of the whole list.
fn summary(pages: &[Page], legs: &[usize]) -> Option<Vec<u8>> {
    let mut seen = BTreeSet::new();
    let first_of_each = pages.iter().zip(legs).filter(|(_, leg)| seen.insert(**leg));
    let summaries: Vec<&[u8]> = first_of_each.map(|(page, _)| page.summary()).collect();
    added_up(&summaries)
}
