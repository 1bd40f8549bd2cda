//! Answers to a repeated enqueue from its record.
//!
//! A 2xx is given only where a region has said that it has this very job. Where the outcome is unknown, the regions of
//! its copies are asked, and nothing is sent elsewhere before each of them has proved that it does not have the job.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::inquiry::{Found, Heard, Inquiry, Resend, has_come, inquire};
use super::{is_guarded_place, trust};
use crate::base::RegionId;
use crate::journal::Hold;
use crate::ojs::{Class, ErrorDocument, Segments, UUID7_LETTERS, replace_minted};
use crate::outcome::{Absence, Copy, Digest, Event, Fate, Identity, Place, Placement, Settlement, Told};
use crate::policy::{Decision, RegionIndex};
use crate::proxy::{
    body::shown_job::has,
    call::{
        ask::{ask, question},
        head::Head,
    },
    state::{Proxy, RegionAnswer},
};
use crate::telemetry::{Resolution, event};

/// When a repeated key is worth another try: regions need no longer to answer, or to be back. Units: seconds.
pub(crate) const RETRY_AFTER: u64 = 1;

/// An answer from the record.
pub(crate) struct Known {
    pub(crate) answer: RegionAnswer,
    pub(crate) region: Option<RegionId>,
}

/// The result of a look-up of an earlier enqueue.
pub(crate) enum Looked {
    /// Its answer.
    Known(Known),
    /// No region has it: it may be sent, and goes on under the same placement.
    Nowhere(Box<Hold>),
}

/// A call that was there before.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'c> {
    pub(crate) proxy: &'c Proxy,
    pub(crate) request_id: &'c HeaderValue,
    pub(crate) head: &'c Head,
    /// The caller's fingerprint.
    pub(crate) digest: &'c Digest,
    /// The job as it would be sent now, its id, and its tracking id.
    pub(crate) planned: Planned<'c>,
    pub(crate) purpose: Purpose,
    /// Of a spooled job.
    pub(crate) heard: Option<&'c Heard>,
}

/// The purpose of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client repeats its call.
    Repetition,
    /// A spooled job goes on.
    Drain,
    /// A spooled job is too old: nothing of it is sent any more, not even where that would store it once at most.
    Expiry,
}

/// A job as it would be sent.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'c> {
    pub(crate) body: &'c Segments,
    pub(crate) job_id: Option<&'c str>,
    pub(crate) federation_id: Option<&'c HeaderValue>,
}

impl Caller<'_> {
    /// Looks up the enqueue with this placement.
    ///
    /// Errors: 500 `outcome_unknown` while the outcome is unknown, 503 `owner_unavailable` where the first call broke
    /// off with its process.
    pub(crate) async fn look(self, mut hold: Hold) -> Result<Looked, ErrorDocument> {
        // Also where its client has cancelled it since: it is the answer to its repetition.
        let told = match &hold.placement().told {
            Told::Stored { place, .. } => Some(place),
            _ => None,
        };
        if let Some(place) = hold.placement().stored().or(told).cloned() {
            let status = match &hold.placement().told {
                Told::Stored { status, .. } => StatusCode::from_u16(*status).unwrap_or(StatusCode::CREATED),
                _ => StatusCode::CREATED,
            };
            if !matches!(hold.placement().told, Told::Stored { .. }) {
                hold.apply(Event::Told(Told::Stored { place: place.clone(), status: status.as_u16() }));
            }
            self.let_go(hold);
            return Ok(Looked::Known(self.shown(&place, status).await));
        }
        let identity = hold.placement().identity.clone();
        let copies = hold.placement().copies.iter().enumerate();
        let asks: Vec<(usize, Copy)> =
            copies.filter(|(_, copy)| !is_closed(copy)).map(|(at, copy)| (at, copy.clone())).collect();
        let known = self.ask_all(&mut hold, &identity, asks).await;
        if let Some((place, is_stored, answer)) = known {
            let region = Some(place.region.clone());
            if is_stored {
                self.log_resolution(&hold, Resolution::Landed, &place);
                hold.apply(Event::Told(Told::Stored { place, status: answer.status.as_u16() }));
                if hold.placement().is_at_rest() {
                    hold.apply(Event::Settled(Settlement::Stored));
                }
            }
            if is_stored {
                self.let_go(hold);
            } else {
                hold.leave();
            }
            return Ok(Looked::Known(Known { answer, region }));
        }
        let broken_off = hold.placement().told == Told::BrokenOff;
        let open = hold.placement().doubt().or_else(|| self.unfenced(&hold)).cloned();
        let Some(Place { region, job_id }) = open else {
            return Ok(Looked::Nowhere(Box::new(hold)));
        };
        hold.leave();
        // This call has sent nothing. With its key the client may repeat it until the first call's outcome is known.
        Err(if broken_off {
            ErrorDocument::owner_unavailable(Some(region.as_str()), RETRY_AFTER)
        } else {
            ErrorDocument::outcome_unknown(region.as_str(), Some(&job_id))
        })
    }

    /// Asks about these copies, until one is there: all at once where a question changes nothing, and one after the other where the job is
    /// sent again.
    async fn ask_all(
        self,
        hold: &mut Hold,
        identity: &Identity,
        asks: Vec<(usize, Copy)>,
    ) -> Option<(Place, bool, RegionAnswer)> {
        let shared = &self.proxy.shared;
        let (by_id, by_time): (Vec<_>, Vec<_>) =
            asks.into_iter().partition(|(_, copy)| is_guarded_place(shared, &copy.place));
        let one = |(at, copy): (usize, Copy)| async move { (at, self.ask(identity, copy).await) };
        let mut under_way: FuturesUnordered<_> = by_time.into_iter().map(one).collect();
        while let Some((at, found)) = under_way.next().await {
            if let Some(known) = take(hold, at, found) {
                return Some(known);
            }
        }
        for (at, copy) in by_id {
            let found = self.ask(identity, copy).await;
            if let Some(known) = take(hold, at, found) {
                return Some(known);
            }
        }
        None
    }

    /// The end of a call whose job is stored. That of a spooled job is kept: its row goes.
    fn let_go(self, hold: Hold) {
        if self.purpose == Purpose::Repetition {
            hold.leave();
        } else {
            hold.leave_kept();
        }
    }

    /// A place that refuses or returns taken ids, and of which only time has proved an absence.
    fn unfenced(self, hold: &Hold) -> Option<&Place> {
        let is_watched = |copy: &&Copy| matches!(copy.fate, Fate::Absent { by: Absence::Watched(_) });
        let mut watched = hold.placement().copies.iter().filter(is_watched).map(|copy| &copy.place);
        watched.find(|place| is_guarded_place(&self.proxy.shared, place))
    }

    async fn ask(self, identity: &Identity, copy: Copy) -> Found {
        let inquiry = Inquiry {
            identity,
            headers: &self.head.headers,
            request_id: self.request_id,
            until: self.head.deadline,
            repeats: true,
            trust: trust(self.proxy, identity, &copy, self.digest),
            heard: self.heard,
            may_leave: identity.own_id.is_none(),
        };
        // Where the id itself can prove it, time has proved nothing.
        let by_id = is_guarded_place(&self.proxy.shared, &copy.place);
        if by_id || matches!(copy.fate, Fate::Unknown { .. }) {
            let resend = if self.purpose == Purpose::Expiry { None } else { self.resend(&copy) };
            inquire(self.proxy, inquiry, copy, resend).await
        } else {
            has_come(self.proxy, inquiry, copy).await
        }
    }

    /// The job under the id, and with the tracking id, of a copy; none where it cannot be given these.
    fn resend(self, copy: &Copy) -> Option<Resend> {
        let Planned { body, job_id, federation_id } = self.planned;
        let mut body: Segments = body.clone();
        let federation_id = federation_id.and_then(|id| id.to_str().ok());
        let pairs = [(job_id, Some(copy.place.job_id.as_str())), (federation_id, copy.stamp.as_deref())];
        for (now, then) in pairs {
            if now == then {
                continue;
            }
            let (now, then) =
                now.zip(then).filter(|(now, then)| now.len() == UUID7_LETTERS && then.len() == now.len())?;
            replace_minted(&mut body, now, then);
        }
        let path = self.head.path.clone();
        Some(Resend { path, headers: self.head.headers.clone(), body })
    }

    fn log_resolution(self, hold: &Hold, result: Resolution, place: &Place) {
        if hold.placement().settled.is_none() {
            let metrics = &self.proxy.shared.metrics;
            event::outcome_resolved(metrics, result, place.region.as_str(), Some(&place.job_id));
        }
    }

    /// A job that is known to be stored: as its region shows it to this caller, else no more than its id.
    pub(super) async fn shown(self, place: &Place, status: StatusCode) -> Known {
        let answer = match self.proxy.shared.registry.view().index_of(place.region.as_str()) {
            Some(index) => self.job(index, &place.job_id).await,
            None => None,
        };
        let answer = answer.map_or_else(|| bare(status, &place.job_id), |answer| RegionAnswer { status, ..answer });
        Known { answer, region: Some(place.region.clone()) }
    }

    async fn job(self, index: RegionIndex, id: &str) -> Option<RegionAnswer> {
        let Head { headers, deadline, .. } = self.head;
        let question = question(self.request_id, headers, id, *deadline)?;
        let answer = ask(self.proxy, Class::Job, index, question).await.ok()?;
        (has(&answer, id).await == Some(true)).then_some(answer)
    }
}

/// Records the new fate of a copy; returns the answer where that decides, and whether it shows that the job is stored.
fn take(hold: &mut Hold, at: usize, found: Found) -> Option<(Place, bool, RegionAnswer)> {
    let Found { copy, answer } = found;
    let (place, is_stored) = (copy.place.clone(), matches!(copy.fate, Fate::Stored { .. }));
    if let Some(slot) = hold.placement_mut().copies.get_mut(at) {
        *slot = copy;
    }
    let answer = answer?;
    let status = if is_stored { StatusCode::CREATED } else { answer.status };
    Some((place, is_stored, RegionAnswer { status, ..answer }))
}

/// Whether nothing can have changed about a copy that matters to its caller.
const fn is_closed(copy: &Copy) -> bool {
    copy.is_final() || matches!(copy.fate, Fate::Absent { by: Absence::Fenced })
}

/// Leaves out regions in which a tombstone has the id that the client gave its job.
///
/// Errors: 503 where none is left.
pub(crate) fn keep_from_fences(
    proxy: &Proxy,
    decision: &mut Decision,
    placement: &Placement,
    job_id: Option<&str>,
) -> Result<(), ErrorDocument> {
    let Some(id) = job_id else { return Ok(()) };
    let place = |index: &RegionIndex| Place { region: proxy.region(*index).id.clone(), job_id: id.to_owned() };
    decision.candidates.retain(|index| !placement.is_fenced(&place(index)));
    if decision.candidates.is_empty() { Err(ErrorDocument::no_healthy_region(RETRY_AFTER)) } else { Ok(()) }
}

/// An answer about a job of which only the id is known.
fn bare(status: StatusCode, id: &str) -> RegionAnswer {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(crate::ojs::header::MEDIA_TYPE));
    let body = Bytes::from(serde_json::json!({ "job": { "id": id } }).to_string());
    RegionAnswer { status, headers, body }
}
