//! The result of each part of a split call, and one answer out of several.

use http::{HeaderMap, Response, StatusCode};

use super::region_part::RegionPart;
use crate::ojs::ErrorDocument;
use crate::ojs::batch::answer::{self, Item, Line, Listed};
use crate::ojs::header::REQUEST_ID;
use crate::outcome::{Event, Lost, Place, Told};
use crate::proxy::{
    body::collect,
    call::exchange::Exchange,
    placement::{Names, identity, rules},
    state::{Proxy, Ran, Reply},
};
use crate::telemetry::{AttemptOutcome, event};

/// The result of a part.
pub(super) enum Came<'a> {
    /// Every job of it is stored.
    Stored(Listing<'a>),
    /// The region did not take it as a whole. `stored` are those that it has stored all the same: place in the part, and id.
    Refused { status: StatusCode, code: Option<String>, stored: Vec<(usize, Option<String>)> },
    /// Nothing of it was sent.
    NotSent(&'a ErrorDocument),
    /// It was sent, and its outcome is unknown.
    Unknown,
}

/// The stored jobs as the region lists them.
pub(super) enum Listing<'a> {
    Jobs(Vec<Listed<'a>>),
    Items(Vec<Item<'a>>),
}

impl Listing<'_> {
    /// The id of the job at a place of the part.
    pub(super) fn id(&self, place: usize) -> Option<&str> {
        match self {
            Self::Jobs(jobs) => jobs.get(place)?.id.as_deref(),
            Self::Items(items) => items.get(place)?.id.as_deref(),
        }
    }
}

/// Reads the result of a part.
pub(super) fn came<'a>(parcel: &RegionPart, ran: &'a Ran) -> Came<'a> {
    let answer = match &ran.result {
        Ok(answer) => answer,
        Err(_) if ran.outcome == Some(AttemptOutcome::Unknown) => return Came::Unknown,
        Err(document) => return Came::NotSent(document),
    };
    let (count, body) = (parcel.jobs.len(), &answer.body);
    let stored_of = |items: &[Item<'_>]| {
        let stored = items.iter().filter(|item| item.stored);
        stored.map(|item| (item.index, item.id.clone())).collect::<Vec<_>>()
    };
    let code = || crate::ojs::answer::error_code(body);
    if let Some(items) = answer::items(body, count) {
        let stored = stored_of(&items);
        if stored.len() == count {
            return Came::Stored(Listing::Items(items));
        }
        let status = if answer.status.is_success() { StatusCode::UNPROCESSABLE_ENTITY } else { answer.status };
        return Came::Refused { status, code: code(), stored };
    }
    if !answer.status.is_success() {
        return Came::Refused { status: answer.status, code: code(), stored: Vec::new() };
    }
    match answer::jobs(body).filter(|jobs| jobs.len() == count) {
        Some(jobs) => Came::Stored(Listing::Jobs(jobs)),
        // The region says that it has stored the jobs, and its answer does not show which job became which. Counted by
        // [`illegible`].
        None => Came::Unknown,
    }
}

/// Counts and records answers that say "stored" without the jobs: for the client, their outcome is unknown.
pub(super) fn illegible(proxy: &Proxy, exchange: &Exchange, ran: &Ran) {
    if let (Some(index), Ok(_)) = (ran.stored, &ran.result) {
        let request_id = exchange.request_id();
        event::unknown_outcome(proxy.metrics(index), None, request_id.to_str().unwrap_or_default());
        let headers = HeaderMap::from_iter([(REQUEST_ID, request_id.clone())]);
        let place = Place { region: proxy.region(index).id.clone(), job_id: String::new() };
        let identity = identity(proxy, &headers, Names::default(), &[]);
        let mut hold = proxy.shared.journal.begin(identity, rules(&proxy.shared.config));
        hold.apply(Event::Sending(place, None));
        hold.apply(Event::Lost(0, Lost::TimedOut));
        hold.end(Told::Unknown);
    }
}

/// One answer out of those of all parts, each of which is stored whole.
pub(super) fn merged(
    proxy: &Proxy,
    exchange: &Exchange,
    parcels: &[RegionPart],
    listings: Vec<Listing<'_>>,
) -> Response<Reply> {
    let (mut jobs, mut lines) = (Vec::new(), Vec::new());
    for (parcel, listing) in parcels.iter().zip(listings) {
        let members = parcel.members.iter().copied();
        match listing {
            Listing::Jobs(listed) => jobs.extend(members.zip(listed)),
            Listing::Items(items) => lines.extend(members.zip(items.into_iter().map(Line::Region))),
        }
    }
    jobs.sort_by_key(|(member, _)| *member);
    lines.sort_by_key(|(member, _)| *member);
    let body = if lines.is_empty() {
        answer::batch(&jobs.into_iter().map(|(_, job)| job).collect::<Vec<_>>())
    } else {
        answer::bulk(&lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>())
    };
    respond(proxy, exchange, StatusCode::CREATED, body)
}

/// An answer of ours that is made of regions' words.
pub(super) fn respond(proxy: &Proxy, exchange: &Exchange, status: StatusCode, body: Vec<u8>) -> Response<Reply> {
    let body = collect::hold(proxy, body);
    exchange.json(status.as_u16(), Vec::new()).map(|_| Reply::full(body))
}
