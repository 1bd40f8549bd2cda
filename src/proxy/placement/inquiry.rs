//! Clearing up one copy within a call: the steps of [`call::next`], carried out on fresh connections, because an answer
//! on an old one may be from before.

use std::cell::Cell;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::{Duration, Instant};

use super::fence::{Fenced, fence};
use super::fresh::ask_fresh;
use super::{is_guarded, rules};
use crate::ojs::answer::is_error_document;
use crate::ojs::{Class, Segments};
use crate::outcome::call::{self, Answered, Asking, Side, Step};
use crate::outcome::{Absence, Copy, Fate, Identity, Lost, Moment, Progress, Trust, Word};
use crate::policy::{BreakerState, GuardClass, RegionIndex};
use crate::proxy::{
    body::shown_job::{Expected, is_shown, word},
    call::{ask::question, attempt::Call},
    state::{Proxy, RegionAnswer},
};
use crate::telemetry::span::in_span;

/// One question takes at most this long, so that a region that hangs is asked again on another connection.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// The request to send once more where a region refuses or returns a taken id.
#[derive(Debug, Clone)]
pub(crate) struct Resend {
    pub(crate) path: http::uri::PathAndQuery,
    pub(crate) headers: HeaderMap,
    /// The job, with the id and the tracking id of the copy.
    pub(crate) body: Segments,
}

/// The caller of a look-up, and its deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inquiry<'h> {
    pub(crate) identity: &'h Identity,
    /// The headers of the job's caller.
    pub(crate) headers: &'h HeaderMap,
    pub(crate) request_id: &'h HeaderValue,
    pub(crate) until: Instant,
    /// Whether it repeats an earlier call.
    pub(crate) repeats: bool,
    /// Whether its "no such job" is believed.
    pub(crate) trust: Trust,
    /// Of a spooled job: what the regions say beside the fate. Its lane has pauses of its own, so that nothing is waited for.
    pub(crate) heard: Option<&'h Heard>,
    /// Whether the job may go on under another id, or in another region, so that its id may be taken where it was.
    pub(crate) may_leave: bool,
}

/// What the look-up of a spooled job shows beside the fates of its copies.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// A region refuses the question, or the job that is sent again.
    pub(crate) refused: Cell<Option<StatusCode>>,
    /// A copy that was absent could not be asked about.
    pub(crate) is_unasked: Cell<bool>,
}

/// The new fate of a copy, and the answer that shows it.
pub(crate) struct Found {
    pub(crate) copy: Copy,
    /// The job as its region shows it, or the region's word for an id that another job has.
    pub(crate) answer: Option<RegionAnswer>,
}

/// Asks for a copy until its fate is known, or the time is over.
pub(crate) async fn inquire(proxy: &Proxy, inquiry: Inquiry<'_>, mut copy: Copy, resend: Option<Resend>) -> Found {
    let index = proxy.shared.registry.view().index_of(copy.place.region.as_str());
    let Some(index) = index.filter(|_| !copy.place.job_id.is_empty()) else {
        return Found { copy, answer: None };
    };
    let (began, started) = (proxy.shared.journal.now(), Instant::now());
    let now = || began.after(started.elapsed());
    let side = Side {
        until: began.after(inquiry.until.saturating_duration_since(started)),
        rules: rules(&proxy.shared.config),
        repeats: inquiry.repeats,
        guarded: resend.is_some() && is_guarded(proxy.shared.duplicate_ids(index)),
    };
    let (mut asking, mut conflict) = (Asking::default(), None);
    loop {
        let at = now();
        let step = call::next(&copy, asking, side, at);
        if let Step::Wait(until) = step {
            tokio::time::sleep(until.since(at)).await;
            continue;
        }
        if step == Step::Done {
            return Found { copy, answer: None };
        }
        // A region with an open breaker is not asked; the breaker may close before the call is over.
        if proxy.shared.registry.view().region(index).breaker != BreakerState::Closed {
            if inquiry.heard.is_some() {
                return Found { copy, answer: None };
            }
            asking.note(at, Answered::Silent);
            continue;
        }
        let asked = Asked { proxy, inquiry, index, rules: side.rules };
        let (answered, answer) = match (step, &resend) {
            (Step::SendAgain, Some(resend)) => asked.again(&mut copy, resend, at, &mut conflict).await,
            (Step::Fence, _) if inquiry.may_leave => asked.fence(&mut copy, at).await,
            (Step::Fence, _) => (Answered::Silent, None),
            _ => asked.about(&mut copy, at).await,
        };
        asking.note(at, answered);
        if matches!(copy.fate, Fate::Absent { by: Absence::Fenced | Absence::Buried }) {
            proxy.shared.owners.forget_in(&copy.place.job_id, &copy.place.region);
        }
        // The region that refuses a taken id has another job under it: this one was never stored, and never will be.
        if answered == Answered::Other
            && let Some(conflict) = conflict.take()
        {
            copy.set(Fate::Absent { by: Absence::Final });
            return Found { copy, answer: Some(conflict) };
        }
        if let Some(answer) = answer {
            proxy.shared.owners.learn(&copy.place.job_id, &copy.place.region);
            return Found { copy, answer: Some(answer) };
        }
    }
}

/// Asks once whether a copy that was absent has come since.
pub(crate) async fn has_come(proxy: &Proxy, inquiry: Inquiry<'_>, mut copy: Copy) -> Found {
    let view = proxy.shared.registry.view();
    let index = view.index_of(copy.place.region.as_str());
    let is_open = |index: &RegionIndex| view.region(*index).breaker == BreakerState::Closed;
    let Some(index) = index.filter(|index| is_open(index) && !copy.place.job_id.is_empty()) else {
        inquiry.heard.inspect(|heard| heard.is_unasked.set(true));
        return Found { copy, answer: None };
    };
    drop(view);
    let asked = Asked { proxy, inquiry, index, rules: rules(&proxy.shared.config) };
    let (answered, answer) = asked.about(&mut copy, proxy.shared.journal.now()).await;
    inquiry.heard.filter(|_| answered == Answered::Silent).inspect(|heard| heard.is_unasked.set(true));
    Found { copy, answer }
}

/// One question to one region.
struct Asked<'h> {
    proxy: &'h Proxy,
    inquiry: Inquiry<'h>,
    index: RegionIndex,
    rules: crate::outcome::Rules,
}

impl Asked<'_> {
    /// Asks for the job.
    async fn about(&self, copy: &mut Copy, at: Moment) -> (Answered, Option<RegionAnswer>) {
        let Inquiry { headers, request_id, identity, trust, .. } = self.inquiry;
        let Some(question) = question(request_id, headers, &copy.place.job_id, self.deadline()) else {
            return (Answered::Silent, None);
        };
        let call = Call::asking(question.method, question.path, question.headers, question.body, self.deadline());
        let asked = in_span!("ask", region = copy.place.region.as_str(); ask_fresh(self.proxy, self.index, call));
        let Some(answer) = asked else { return (Answered::Silent, None) };
        if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.inquiry.heard.inspect(|heard| heard.refused.set(Some(answer.status)));
        }
        let word = word(&answer, copy, identity).await;
        // Of a region that may still be at the job, the call itself believes no absence: a repetition does.
        let may_be_at_it = matches!(copy.fate, Fate::Unknown { lost: Lost::TimedOut, .. }) && !self.inquiry.repeats;
        let trust = if may_be_at_it { Trust::Doubted } else { trust };
        copy.hear(word, trust, at, self.rules);
        match word {
            Word::Has(_) => (Answered::Taken, Some(answer)),
            Word::Tombstone(_) | Word::Taken => (Answered::Taken, None),
            Word::Other => (Answered::Other, None),
            Word::No => (Answered::No, None),
            Word::Silent => (Answered::Silent, None),
        }
    }

    /// Sends the job once more, where that stores it once at most.
    async fn again(
        &self,
        copy: &mut Copy,
        resend: &Resend,
        at: Moment,
        conflict: &mut Option<RegionAnswer>,
    ) -> (Answered, Option<RegionAnswer>) {
        let Resend { path, headers, body } = resend.clone();
        let call = Call::asking(Method::POST, path, headers, body, self.deadline());
        let asked = in_span!("ask", region = copy.place.region.as_str(); ask_fresh(self.proxy, self.index, call));
        let Some(answer) = asked else {
            // The resent copy may be stored from now on, independent of the first one's age.
            copy.set(Fate::Unknown { lost: Lost::TimedOut, since: at });
            return (Answered::Silent, None);
        };
        let minted = self.inquiry.identity.own_id.is_none();
        let expected = Expected::Job { minted, unique: false };
        match answer.status {
            status if status.is_success() => {
                let is_ours = is_shown(expected, &answer, Some(&copy.place.job_id));
                // A region that returns the existing job may have returned another job.
                let word = if is_ours { word(&answer, copy, self.inquiry.identity).await } else { Word::Silent };
                match word {
                    Word::Has(_) => {
                        copy.hear(word, self.inquiry.trust, at, self.rules);
                        (Answered::Taken, Some(answer))
                    }
                    Word::Silent if is_ours => {
                        copy.set(Fate::Stored { progress: Progress::Waiting });
                        (Answered::Taken, Some(answer))
                    }
                    Word::Silent => (Answered::Silent, None),
                    word => {
                        copy.hear(word, self.inquiry.trust, at, self.rules);
                        let is_other = word == Word::Other;
                        *conflict = Some(answer).filter(|_| is_other);
                        (if is_other { Answered::Other } else { Answered::Taken }, None)
                    }
                }
            }
            StatusCode::CONFLICT if is_error_document(&answer.body) => {
                *conflict = Some(answer);
                copy.hear(Word::Taken, self.inquiry.trust, at, self.rules);
                (Answered::Taken, None)
            }
            status if is_error_document(&answer.body) => {
                let is_final = status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429);
                self.inquiry.heard.filter(|_| is_final).inspect(|heard| heard.refused.set(Some(status)));
                (Answered::Refused, None)
            }
            _ => (Answered::Silent, None),
        }
    }

    async fn fence(&self, copy: &mut Copy, at: Moment) -> (Answered, Option<RegionAnswer>) {
        let word = fence(self.proxy, self.index, &copy.place.job_id, self.inquiry.headers, self.deadline()).await;
        match word {
            Fenced::Taken => copy.set(Fate::Absent { by: Absence::Fenced }),
            // Another job has the id: a look-up shows which.
            Fenced::Met => copy.hear(Word::Taken, self.inquiry.trust, at, self.rules),
            Fenced::Silent => {}
        }
        (if word == Fenced::Met { Answered::Taken } else { Answered::Silent }, None)
    }

    fn deadline(&self) -> Instant {
        self.inquiry.until.min(Instant::now() + ASK_TIMEOUT)
    }
}

impl Call {
    /// A call of ours about one job.
    pub(super) fn asking(
        method: Method,
        path: http::uri::PathAndQuery,
        headers: HeaderMap,
        body: Segments,
        deadline: Instant,
    ) -> Self {
        Self {
            method,
            path,
            headers: headers.into(),
            body,
            deadline,
            class: Class::Job,
            pinned: true,
            guard: GuardClass::Read,
            source: None,
            pressing: true,
        }
    }
}
