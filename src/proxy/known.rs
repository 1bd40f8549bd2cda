//! Answers from what is known of an enqueue that was there before.
//!
//! A 2xx is given only where a region has answered with one, for this job or for its id. Where it is not known what became of a job, the regions
//! that it was sent to are asked, and nothing is sent before each of them has proved that it does not have it.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use tokio::time::Duration;

use super::Proxy;
use super::ask::ask;
use super::attempt::RegionAnswer;
use super::exchange::Exchange;
use super::head::Head;
use super::locate::question;
use super::plan::permitted;
use super::replay::{answered, bare, digest, tenant_of};
use super::resolve::{Inquiry, has_come, inquire, is_private, word};
use crate::base::RegionId;
use crate::journal::{Digest, Keyed, Place, State, Unknown};
use crate::ojs::{Abridged, Class, ErrorDocument};
use crate::policy::RegionIndex;
use crate::policy::resolve::{Lost, Verdict, Word};
use crate::telemetry::{Resolution, event};

/// A job that turned out to be stored is shown to repetitions for so long; later, a repeated id is the region's to judge. Units:
/// milliseconds.
const SHOWN_MS: u64 = 24 * 60 * 60 * 1_000;
/// When a repeated key is worth another try: regions need no longer to answer, or to be back. Units: seconds.
const RETRY_AFTER: u64 = 1;

/// An answer from what is known.
pub(super) struct Known {
    pub(super) answer: RegionAnswer,
    pub(super) region: Option<RegionId>,
}

/// A call that may have been there before.
#[derive(Clone, Copy)]
pub(super) struct Caller<'c> {
    pub(super) proxy: &'c Proxy,
    pub(super) exchange: &'c Exchange,
    pub(super) head: &'c Head,
    pub(super) received: Abridged<'c>,
}

/// A place that a job may be in, and what is known of how it got lost there.
struct Ask {
    place: Place,
    lost: Lost,
    lost_for: Duration,
    private: bool,
    /// It was proved before that the job is not there; whether it has come since is all there is to ask.
    proved: bool,
    about: About,
}

/// What an answer is for.
#[derive(Clone, Copy)]
enum About {
    /// The place that an unknown outcome was sent to; whether it is all there is to know of it.
    Sent { number: u64, alone: bool },
    /// The place that it was sent to afterwards.
    Going(u64),
    /// A key whose call broke off.
    Key,
}

impl Caller<'_> {
    /// The answer to a key that was there before; none where it turns out that nothing came of it.
    ///
    /// Errors: 500 `outcome_unknown` or 503 `owner_unavailable` while nobody knows.
    pub(super) async fn keyed(self, keyed: &Keyed) -> Result<Option<Known>, ErrorDocument> {
        let Some(id) = &keyed.job_id else { return Err(ErrorDocument::outcome_unknown("", None)) };
        let unknowns = self.proxy.shared.journal.unknowns_of(id, || self.tenant());
        if let Some(region) = &keyed.region {
            let place = Place { region: region.clone(), job_id: id.clone() };
            // A second copy may have been the one to stay.
            let gone = unknowns.iter().find(|it| it.gone().as_ref() == Some(&place));
            let place = gone.and_then(Unknown::stored_in).unwrap_or(place);
            let status = StatusCode::from_u16(keyed.status).unwrap_or(StatusCode::CREATED);
            return Ok(Some(self.shown(&place, status).await));
        }
        // Of a call that broke off, what earlier ones have left says nothing but that it may come late.
        let is_of_call = |it: &Unknown| keyed.status != 0 || it.at_ms >= keyed.at_ms;
        let (unknowns, earlier): (Vec<Unknown>, Vec<Unknown>) = unknowns.into_iter().partition(is_of_call);
        let settled = earlier.iter().filter(|it| it.is_settled());
        let late = self.ask_all(settled.flat_map(|it| self.places(&earlier, it)).collect()).await?;
        let known = match (late, unknowns.is_empty()) {
            (Some(late), _) => Some(late),
            (None, true) => self.broken_off(keyed, id).await?,
            (None, false) => self.unknown(&unknowns).await?,
        };
        if let Some(known) = &known {
            self.proxy.shared.journal.end_key(answered(keyed.clone(), &known.answer, known.region.clone()));
        }
        Ok(known)
    }

    /// A key whose call broke off, or whose unknown outcome was forgotten: any region that its job may go to may have it. That none
    /// has it is proved only where the call broke off with its process, whose connections have ended.
    ///
    /// Errors: 503 `owner_unavailable` while that is not certain of such a call, else 500 `outcome_unknown`.
    async fn broken_off(self, keyed: &Keyed, id: &str) -> Result<Option<Known>, ErrorDocument> {
        let ended_for = self.proxy.shared.journal.ended_for(keyed.run).filter(|_| keyed.status == 0);
        let headers = &self.head.headers;
        let ask = |index: RegionIndex| Ask {
            place: Place { region: self.proxy.region(index).id.clone(), job_id: id.to_owned() },
            lost: if ended_for.is_some() { Lost::Ended } else { Lost::TimedOut },
            lost_for: ended_for.unwrap_or_default(),
            private: keyed.private || is_private(self.proxy, index, headers),
            proved: false,
            about: About::Key,
        };
        let asked = self.ask_all(permitted(self.proxy, self.received)?.into_iter().map(ask).collect()).await;
        // This call has sent nothing. With its key the client may repeat it until it is known what became of the one that did.
        asked.map_err(|unknown| {
            let region = unknown.details.get("region").and_then(|region| region.as_str());
            if ended_for.is_some() { ErrorDocument::owner_unavailable(region, RETRY_AFTER) } else { unknown }
        })
    }

    /// The answer to an enqueue whose earlier times ended unknown; none where it turns out that nothing came of them, or that they
    /// were another job.
    ///
    /// Errors: 500 `outcome_unknown` while nobody knows.
    pub(super) async fn unknown(self, unknowns: &[Unknown]) -> Result<Option<Known>, ErrorDocument> {
        if unknowns.is_empty() {
            return Ok(None);
        }
        let body = digest(&self.received.pieces());
        let now_ms = self.proxy.shared.registry.clock().unix_ms();
        let is_recent = |it: &&Unknown| it.resolved_ms.is_none_or(|at_ms| at_ms.saturating_add(SHOWN_MS) > now_ms);
        let same = unknowns.iter().filter(|it| it.body == body);
        // Of two rows about the same copies, one may know by now which of them is gone.
        let is_gone = |place: &Place, row: &Unknown| {
            unknowns.iter().any(|it| it.gone().as_ref() == Some(place) && it.is_of_job_of(row))
        };
        let stored = |row: &Unknown| row.stored_in().filter(|place| !is_gone(place, row));
        if let Some(place) = same.filter(is_recent).find_map(stored) {
            return Ok(Some(self.shown(&place, StatusCode::CREATED).await));
        }
        // Under an id of which nobody knows where it is, another job must not be sent: the two could not be told apart.
        let is_open = |it: &&Unknown| it.state == State::Pending && !it.is_only_watched();
        let other = unknowns.iter().filter(is_open).find(|it| it.body != body);
        if let Some(other) = other {
            return Err(ErrorDocument::outcome_unknown(other.region.as_str(), other.job_id.as_deref()));
        }
        // Where that is known to be nowhere, it is the region's to judge what the id is worth; the first job is no answer to the other.
        let asked = unknowns.iter().filter(|it| it.body == body || !it.is_only_watched());
        self.ask_all(asked.flat_map(|it| self.places(unknowns, it)).collect()).await
    }

    /// Where to ask for what a row speaks of.
    fn places(self, all: &[Unknown], it: &Unknown) -> Vec<Ask> {
        let store = &self.proxy.shared.journal;
        let sent = it.sent_to().filter(|_| it.state == State::Pending).map(|place| Ask {
            place,
            lost: if it.ended { Lost::Ended } else { Lost::TimedOut },
            lost_for: self.age(it.at_ms),
            private: it.private,
            proved: it.proved,
            about: About::Sent { number: it.number, alone: it.going.is_none() && it.elsewhere.is_none() },
        });
        // Of a place that has a row of its own, that row speaks, unless it is of a time before.
        let speaks = |other: &&Unknown| !other.is_settled();
        let has_row = |place: &&Place| all.iter().filter(speaks).any(|it| it.sent_to().as_ref() == Some(place));
        let is_open = matches!(it.state, State::Pending | State::Absent);
        let going = it.going.as_ref().filter(|place| is_open && !has_row(place)).map(|place| {
            // The call broke off: with its process, or by itself, which proves nothing.
            let ended_for = store.ended_for(it.run);
            Ask {
                place: place.clone(),
                lost: if ended_for.is_some() { Lost::Ended } else { Lost::TimedOut },
                lost_for: ended_for.unwrap_or_default(),
                private: it.private,
                proved: false,
                about: About::Going(it.number),
            }
        });
        sent.into_iter().chain(going).collect()
    }

    /// Asks all at once: one has the job, or none where all prove that they do not.
    async fn ask_all(self, asks: Vec<Ask>) -> Result<Option<Known>, ErrorDocument> {
        let one = |ask: Ask| async move {
            let (verdict, answer) = self.ask_about(&ask).await;
            (ask, verdict, answer)
        };
        let mut under_way: FuturesUnordered<_> = asks.into_iter().map(one).collect();
        let mut silent: Option<Place> = None;
        while let Some((ask, verdict, answer)) = under_way.next().await {
            match (verdict, answer) {
                (Verdict::Found, Some(answer)) => {
                    self.found(&ask);
                    let answer = RegionAnswer { status: StatusCode::CREATED, ..answer };
                    return Ok(Some(Known { answer, region: Some(ask.place.region) }));
                }
                _ if ask.proved => {}
                // Whether this caller is the one whose job it was cannot be told; to another one the region may say no.
                (Verdict::Absent, _) if !ask.private => self.absent(&ask),
                _ => drop(silent.get_or_insert(ask.place)),
            }
        }
        match silent {
            Some(place) => Err(ErrorDocument::outcome_unknown(place.region.as_str(), Some(&place.job_id))),
            None => Ok(None),
        }
    }

    async fn ask_about(self, ask: &Ask) -> (Verdict, Option<RegionAnswer>) {
        let Some(index) = self.index(&ask.place.region) else { return (Verdict::Unknown, None) };
        let inquiry = Inquiry {
            index,
            id: &ask.place.job_id,
            headers: &self.head.headers,
            request_id: self.exchange.request_id(),
            lost: ask.lost,
            lost_for: ask.lost_for,
            until: self.head.deadline,
        };
        if ask.proved {
            let answer = has_come(self.proxy, inquiry).await;
            return (if answer.is_some() { Verdict::Found } else { Verdict::Absent }, answer);
        }
        inquire(self.proxy, inquiry).await
    }

    fn found(self, ask: &Ask) {
        let store = &self.proxy.shared.journal;
        match ask.about {
            About::Sent { number, alone: true } => {
                self.resolve(number, State::Landed, Resolution::Landed, &ask.place);
            }
            // There may be a second copy, which the background looks for.
            About::Sent { .. } => {}
            About::Going(number) => store.change(number, |it| it.elsewhere = it.going.take().or(it.elsewhere.take())),
            About::Key => {}
        }
    }

    fn absent(self, ask: &Ask) {
        // One that has gone on is watched by the background until no late copy can come.
        if let About::Sent { number, alone: true } = ask.about {
            self.resolve(number, State::Absent, Resolution::Absent, &ask.place);
        }
    }

    fn resolve(self, number: u64, state: State, result: Resolution, place: &Place) {
        let (store, now_ms) = (&self.proxy.shared.journal, self.proxy.shared.registry.clock().unix_ms());
        let mut was_open = false;
        store.change(number, |it| {
            was_open = it.state == State::Pending;
            if was_open {
                it.resolve(state, now_ms);
            }
        });
        if was_open {
            let metrics = &self.proxy.shared.metrics;
            event::outcome_resolved(metrics, result, place.region.as_str(), Some(&place.job_id));
        }
    }

    /// A job that is known to be stored: as its region shows it to this caller, else no more than its id.
    async fn shown(self, place: &Place, status: StatusCode) -> Known {
        let answer = match self.index(&place.region) {
            Some(index) => self.job(index, &place.job_id).await,
            None => None,
        };
        let answer = answer.map_or_else(|| bare(status, &place.job_id), |answer| RegionAnswer { status, ..answer });
        Known { answer, region: Some(place.region.clone()) }
    }

    async fn job(self, index: RegionIndex, id: &str) -> Option<RegionAnswer> {
        let Head { headers, deadline, .. } = self.head;
        let question = question(self.exchange.request_id(), headers, id, *deadline)?;
        let answer = ask(self.proxy, Class::Job, index, &question).await.ok()?;
        (word(&answer, id).await == Word::Has).then_some(answer)
    }

    /// The fingerprint of the caller's tenant.
    pub(super) fn tenant(self) -> Digest {
        tenant_of(&self.head.headers)
    }

    fn index(self, region: &RegionId) -> Option<RegionIndex> {
        self.proxy.shared.registry.view().index_of(region.as_str())
    }

    fn age(self, at_ms: u64) -> Duration {
        Duration::from_millis(self.proxy.shared.registry.clock().unix_ms().saturating_sub(at_ms))
    }
}
