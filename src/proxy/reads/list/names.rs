//! Lists of few items with names, such as queues: read whole from every region and united.
//!
//! The same name in two regions is one item with summed figures, so that all pages are read before the first is
//! answered. Names are few, and bounded.

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, StatusCode};

use super::listing::{Gathered, Listing, read_page};
use crate::base::RegionId;
use crate::ojs::list::{Cursor, Figures, Leg, Page, Part, Place, Start, Told, Wanted, merged, united};
use crate::ojs::{Class, ErrorDocument, Paging, is_of_fence, normal_path};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::{
        ask::{NoAnswer, ask},
        exchange::Exchange,
        fan_out::{Said, name_missing, name_regions, nobody, note_outcome, while_wanted},
    },
    state::{Proxy, Reply},
};
use crate::telemetry::AttemptOutcome;

/// The most names of one region; one with more is missing from the answer, and named. Ten thousand queues are a few megabytes.
const NAMES_MAX: usize = 10_000;
/// The most bytes of one region's pages, all of which are in memory at once: several times the size of ten thousand
/// queues.
const NAMES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many are asked for at once: no server gives less when asked for as many.
const PER_ASK: u64 = 100;
/// The name in the cursor of a united list; no region can have it.
const UNION: &str = "union";

/// Answers a list of names out of all regions.
pub(super) async fn names(
    proxy: &Proxy,
    exchange: &mut Exchange,
    listing: &Listing,
    wanted: &Wanted,
    regions: Vec<RegionIndex>,
) -> Result<Response<Reply>, ErrorDocument> {
    let name = normal_path(&listing.path);
    // A cursor that is none is refused before any region is asked.
    begin(wanted, 1, &name)?;
    let class = exchange.matched.class;
    let started = std::time::Instant::now();
    let reads = regions.into_iter().map(|index| all_of(proxy, class, listing, wanted, index));
    let read = while_wanted(exchange, join_all(reads)).await?;
    exchange.upstream = started.elapsed();
    let mut gathered = Gathered::default();
    let mut own = Vec::new();
    for (index, names) in read {
        match names {
            Ok(Names { pages, limit }) => {
                own.push(limit);
                gathered.from.extend(pages.iter().map(|_| index));
                gathered.pages.extend(pages);
            }
            Err(said) => {
                gathered.missing.insert(index);
                gathered.unusable.push(said);
            }
        }
    }
    note_outcome(exchange, gathered.unusable.iter().map(|(_, answer)| answer));
    let Some(model) = Page::model(&gathered.pages) else { return nobody(proxy, exchange, gathered.unusable) };
    exchange.outcome = Some(AttemptOutcome::Answered);
    let all = union(proxy, &gathered);
    let total = all.len() as u64;
    let limit = wanted.limit.or_else(|| usual(&own));
    let begin = begin(wanted, limit.unwrap_or(u64::MAX), &name)?;
    let end = begin.saturating_add(limit.unwrap_or(u64::MAX)).min(total);
    let place = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let items = all.get(place(begin.min(end))..place(end)).unwrap_or_default();
    let figures = Figures {
        total: Some(total),
        limit,
        has_more: end < total,
        cursor: (wanted.paging != Paging::Page).then(|| cursor(end, &name)).flatten(),
        ..Figures::of(wanted)
    };
    let body = merged(model, items, &figures);
    name_regions(proxy, exchange, gathered.from.iter().copied());
    let mut response = exchange.json(StatusCode::OK.as_u16(), body);
    name_missing(proxy, &mut response, &gathered.missing);
    Ok(response)
}

fn union(proxy: &Proxy, gathered: &Gathered) -> Vec<Bytes> {
    let items: Vec<(RegionIndex, Bytes)> = gathered
        .pages
        .iter()
        .zip(&gathered.from)
        .flat_map(|(page, index)| page.items().map(move |item| (*index, item)))
        .filter(|(_, item)| !is_of_fence(item))
        .collect();
    let part = |(index, item): &(RegionIndex, Bytes)| (proxy.region(*index).id.clone(), item.clone());
    let named: Vec<(RegionId, Bytes)> = items.iter().map(part).collect();
    let parts: Vec<Part<'_>> = named.iter().map(|(region, body)| Part { region: region.as_str(), body }).collect();
    united(&parts, proxy.shared.config.lists.annotate)
}

/// The page of a client that does not say how long it is to be: the regions' own, and all names where a region cuts none off.
fn usual(own: &[Limit]) -> Option<u64> {
    own.iter().try_fold(None, |found: Option<u64>, limit| match limit {
        Limit::None => None,
        Limit::Of(limit) => Some(found.or(Some(*limit))),
    })?
}

fn begin(wanted: &Wanted, limit: u64, list: &str) -> Result<u64, ErrorDocument> {
    Ok(match &wanted.start {
        Start::Offset(offset) => *offset,
        Start::Page(page) => (page - 1).saturating_mul(limit),
        Start::Cursor(text) => {
            let cursor = Cursor::decode(text, list).map_err(|_| ErrorDocument::bad_cursor())?;
            let leg = RegionId::parse(UNION).map(|union| cursor.leg(&union)).unwrap_or_default();
            if let Place::Offset(offset) = leg.place { offset } else { 0 }
        }
    })
}

fn cursor(end: u64, list: &str) -> Option<String> {
    let mut cursor = Cursor::default();
    cursor.set(RegionId::parse(UNION).ok()?, Leg { place: Place::Offset(end), ..Leg::default() });
    Some(cursor.encode(list))
}

/// Everything of one region.
struct Names {
    pages: Vec<Page>,
    limit: Limit,
}

/// How many items a region gives to a client that does not say how many it wants.
enum Limit {
    Of(u64),
    /// The whole list, under any name of the page.
    None,
}

impl Limit {
    fn of(told: &Told) -> Self {
        let items = told.items as u64;
        match told.limit {
            Some(limit) if limit > items => Self::Of(limit),
            // A page as long as the whole list shows nothing of the region's usual page length.
            Some(limit)
                if limit == items && (told.has_more == Some(true) || told.total.is_some_and(|all| all > items)) =>
            {
                Self::Of(limit)
            }
            _ => Self::None,
        }
    }
}

/// Reads all pages of one region: first with the client's own page length, then in long pages.
async fn all_of(
    proxy: &Proxy,
    class: Class,
    listing: &Listing,
    wanted: &Wanted,
    index: RegionIndex,
) -> (RegionIndex, Result<Names, Said>) {
    let unusable = |answer| (index, Err((index, answer)));
    let mut pages: Vec<Page> = Vec::new();
    let (mut place, mut limit, mut read, mut bytes) = (Place::Start, PER_ASK, 0_usize, 0_usize);
    let mut own = wanted.limit.map(Limit::Of);
    // Each round brings at least one name, or is the last.
    while read <= NAMES_MAX && bytes <= NAMES_BYTES_MAX {
        let query = if own.is_some() { wanted.query(&place, limit) } else { wanted.query_unpaged().to_owned() };
        let Some(question) = listing.question(&query) else { break };
        let said = match ask(proxy, class, index, question).await {
            Ok(answer) if answer.status == StatusCode::OK => answer,
            other => return unusable(other),
        };
        let Some(page) = read_page(&said.body).await else { return unusable(Ok(said)) };
        let told = page.counts().clone();
        let all_read = told.total.is_some_and(|total| (read + told.items) as u64 >= total);
        let more = told.paged && told.items > 0 && told.has_more.unwrap_or(!all_read);
        if own.is_none() {
            own = Some(Limit::of(&told));
            if more {
                continue;
            }
        }
        read += told.items;
        bytes = bytes.saturating_add(page.body().len());
        pages.push(page);
        if !more {
            let limit = own.unwrap_or(Limit::None);
            return (index, Ok(Names { pages, limit }));
        }
        // Pages are counted by the region's own size.
        limit = told.limit.filter(|own| (1..limit).contains(own)).unwrap_or(limit);
        place = told.next.map_or(Place::Offset(read as u64), Place::Cursor);
    }
    unusable(Err(NoAnswer::Unknown))
}
