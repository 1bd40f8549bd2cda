//! Answers from what is known of an enqueue that was there before.

use http::StatusCode;
use tokio::time::Duration;

use super::Proxy;
use super::ask::ask;
use super::attempt::RegionAnswer;
use super::enqueue::Head;
use super::exchange::Exchange;
use super::locate::{Located, question, search};
use super::replay::bare;
use super::resolve::{Inquiry, inquire, word};
use crate::base::RegionId;
use crate::ojs::{Class, ErrorDocument};
use crate::policy::RegionIndex;
use crate::policy::resolve::{Lost, Verdict, Word};
use crate::store::{Keyed, Place, State, Unknown};
use crate::telemetry::{Resolution, event};

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
}

impl Caller<'_> {
    /// The answer to a key that was there before; none where it turns out that nothing came of it.
    ///
    /// Errors: the document for the client where nobody knows.
    pub(super) async fn keyed(self, keyed: &Keyed) -> Result<Option<Known>, ErrorDocument> {
        let Some(id) = &keyed.job_id else { return Err(ErrorDocument::outcome_unknown("", None)) };
        if let Some(region) = &keyed.region {
            let status = StatusCode::from_u16(keyed.status).unwrap_or(StatusCode::CREATED);
            return Ok(Some(self.shown(region, id, status).await));
        }
        match self.proxy.shared.store.unknown_of(id) {
            Some(unknown) => self.unknown(unknown).await,
            None => self.broken_off(keyed, id).await,
        }
    }

    /// A key whose call broke off with the process that it was in.
    async fn broken_off(self, keyed: &Keyed, id: &str) -> Result<Option<Known>, ErrorDocument> {
        let known = self.looked_for(keyed.at_ms, id).await?;
        if let Some(Known { region: Some(region), .. }) = &known {
            let region = Some(region.clone());
            self.proxy.shared.store.end_key(Keyed { region, status: 201, ..keyed.clone() });
        }
        Ok(known)
    }

    /// A job whose call has ended, and of which nobody has heard that it was stored: as the region shows it that has it; none where
    /// every region has said twice that it has no such job.
    ///
    /// Errors: 503 `owner_unavailable` while that is not certain.
    async fn looked_for(self, at_ms: u64, id: &str) -> Result<Option<Known>, ErrorDocument> {
        let grace = self.proxy.shared.config.failover.late_write_grace;
        for _ in 0..2 {
            match search(self.proxy, self.exchange, &self.head.headers, id).await {
                Located::At(index) => {
                    let region = self.proxy.region(index).id.clone();
                    // The search ends at the local region, too, where that says neither yes nor no: only the job itself proves it.
                    let Some(answer) = self.job(index, id).await else {
                        return Err(ErrorDocument::owner_unavailable(Some(region.as_str()), 1));
                    };
                    let answer = RegionAnswer { status: StatusCode::CREATED, ..answer };
                    return Ok(Some(Known { answer, region: Some(region) }));
                }
                // It may still be written.
                Located::Nowhere(_) if self.age(at_ms) < grace => {
                    return Err(ErrorDocument::owner_unavailable(None, grace.as_secs().max(1)));
                }
                Located::Nowhere(_) => {}
                Located::Unsure(document) => return Err(ErrorDocument::clone(&document)),
            }
        }
        Ok(None)
    }

    /// The answer to an enqueue whose first time ended unknown; none where it turns out that nothing came of it.
    ///
    /// Errors: 500 `outcome_unknown` while nobody knows.
    pub(super) async fn unknown(self, unknown: Unknown) -> Result<Option<Known>, ErrorDocument> {
        if let Some(Place { region, job_id }) = &unknown.elsewhere
            && unknown.cancelled_in.as_ref() != Some(region)
        {
            if unknown.state == State::Pending {
                // Written before it was sent there: the process may have ended in between.
                return self.looked_for(unknown.at_ms, job_id).await;
            }
            return Ok(Some(self.shown(region, job_id, StatusCode::CREATED).await));
        }
        let Some(id) = &unknown.job_id else { return Ok(None) };
        match unknown.state {
            State::Landed | State::Doubled => Ok(Some(self.shown(&unknown.region, id, StatusCode::CREATED).await)),
            State::Absent => Ok(None),
            State::Pending | State::Expired => self.ask_again(&unknown, id).await,
        }
    }

    async fn ask_again(self, unknown: &Unknown, id: &str) -> Result<Option<Known>, ErrorDocument> {
        let still_unknown = || ErrorDocument::outcome_unknown(unknown.region.as_str(), Some(id));
        let index = self.index(&unknown.region).ok_or_else(still_unknown)?;
        let inquiry = Inquiry {
            index,
            id,
            headers: &self.head.headers,
            request_id: self.exchange.request_id(),
            lost: if unknown.ended { Lost::Ended } else { Lost::TimedOut },
            lost_for: self.age(unknown.at_ms),
            until: self.head.deadline,
        };
        let (verdict, answer) = inquire(self.proxy, inquiry).await;
        let (state, result) = match verdict {
            Verdict::Found => (State::Landed, Resolution::Landed),
            // Whether this caller is the one whose job it was cannot be told; to another one the region may say no.
            Verdict::Absent if !unknown.private => (State::Absent, Resolution::Absent),
            Verdict::Absent | Verdict::AskAt(_) | Verdict::Unknown => return Err(still_unknown()),
        };
        let (store, now_ms) = (&self.proxy.shared.store, self.proxy.shared.registry.clock().unix_ms());
        store.change(unknown.number, |it| it.resolve(state, now_ms));
        event::outcome_resolved(&self.proxy.shared.metrics, result, unknown.region.as_str(), Some(id));
        Ok(answer.map(|answer| {
            let answer = RegionAnswer { status: StatusCode::CREATED, ..answer };
            Known { answer, region: Some(unknown.region.clone()) }
        }))
    }

    /// A job that is known to be stored: as its region shows it to this caller, else no more than its id.
    async fn shown(self, region: &RegionId, id: &str, status: StatusCode) -> Known {
        let answer = match self.index(region) {
            Some(index) => self.job(index, id).await,
            None => None,
        };
        let answer = answer.map_or_else(|| bare(status, id), |answer| RegionAnswer { status, ..answer });
        Known { answer, region: Some(region.clone()) }
    }

    async fn job(self, index: RegionIndex, id: &str) -> Option<RegionAnswer> {
        let Head { headers, deadline, .. } = self.head;
        let question = question(self.exchange.request_id(), headers, id, *deadline)?;
        let answer = ask(self.proxy, Class::Job, index, &question).await.ok()?;
        (word(&answer, id) == Word::Has).then_some(answer)
    }

    fn index(self, region: &RegionId) -> Option<RegionIndex> {
        self.proxy.shared.registry.view().index_of(region.as_str())
    }

    fn age(self, at_ms: u64) -> Duration {
        Duration::from_millis(self.proxy.shared.registry.clock().unix_ms().saturating_sub(at_ms))
    }
}
