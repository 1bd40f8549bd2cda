//! A call that may be repeated, made to one region until it has said its own word or the retry table says stop.

use std::time::Duration;

use http::Response;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use tokio::time::Instant;

use super::ask::{NoAnswer, Question, ask, unavailable};
use super::exchange::Exchange;
use crate::ojs::{Class, ErrorDocument, Segments};
use crate::policy::{BreakerState, End, RegionIndex, Repeat, Then, Tries};
use crate::proxy::state::{Proxy, RegionAnswer, Reply};
use crate::telemetry::AttemptOutcome;

/// How a repeated call ended.
#[derive(Debug)]
pub(crate) struct Insisted {
    /// The last answer, or why there is none.
    pub(crate) result: Result<RegionAnswer, NoAnswer>,
    /// Whether the answer speaks of an earlier try of ours.
    pub(crate) to_confirm: bool,
    maybe: bool,
}

/// Asks one region, and again where the retry table permits it; each try has its share of the time that is left.
pub(crate) async fn ask_retrying(
    proxy: &Proxy,
    class: Class,
    index: RegionIndex,
    question: &Question,
    repeat: Repeat,
) -> Insisted {
    let mut tries = Tries::default();
    let mut draw = proxy.random.draw();
    loop {
        let now = Instant::now();
        let share = question.deadline.saturating_duration_since(now) / tries.left(repeat);
        let once = Question { deadline: now + share, ..question.clone() };
        let result = ask(proxy, class, index, once).await;
        let then = tries.after(repeat, end(&result));
        let pause = tries.pause(result.as_ref().ok().and_then(asked_for), &mut draw);
        let breaker = proxy.shared.registry.view().region(index).breaker;
        // An acknowledgement is tried once at a region that is known to be down.
        let is_down = breaker != BreakerState::Closed;
        if then != Then::Again || is_down || Instant::now() + pause >= question.deadline {
            return Insisted { result, to_confirm: then == Then::Confirm, maybe: tries.maybe() };
        }
        tokio::time::sleep(pause).await;
    }
}

const fn end(result: &Result<RegionAnswer, NoAnswer>) -> End {
    match result {
        Ok(answer) => End::Status(answer.status.as_u16()),
        Err(NoAnswer::Closed(_) | NoAnswer::NotSent) => End::NotSent,
        Err(NoAnswer::Unknown) => End::NoAnswer,
    }
}

/// The wait that a region asks for, where it says so in seconds.
fn asked_for(answer: &RegionAnswer) -> Option<Duration> {
    answer.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

impl Insisted {
    /// The error document for a client whose call got no answer.
    pub(crate) fn document(&self, proxy: &Proxy, index: RegionIndex) -> Option<ErrorDocument> {
        self.result.as_ref().err().map(|silence| unanswered(proxy, index, silence, self.maybe))
    }
}

/// The error document for a repeatable call that got no answer. `maybe`: the region may have received it.
pub(crate) fn unanswered(proxy: &Proxy, index: RegionIndex, silence: &NoAnswer, maybe: bool) -> ErrorDocument {
    let region = proxy.region(index).id.as_str();
    match silence {
        NoAnswer::Closed(document) => document.clone(),
        NoAnswer::NotSent if !maybe => unavailable(proxy, index),
        NoAnswer::NotSent | NoAnswer::Unknown => ErrorDocument::upstream_timeout(region),
    }
}

/// Notes for the access line how the call to a region ended.
pub(crate) fn note(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    result: &Result<RegionAnswer, NoAnswer>,
) {
    exchange.region = Some(proxy.region(index).id.clone());
    exchange.outcome = match result {
        Ok(_) => Some(AttemptOutcome::Answered),
        Err(NoAnswer::NotSent) => Some(AttemptOutcome::NotSent),
        Err(NoAnswer::Unknown) => Some(AttemptOutcome::Unknown),
        Err(NoAnswer::Closed(_)) => None,
    };
}

/// A region's answer with another body, which may share bytes with its own.
pub(crate) fn rewritten(mut answer: RegionAnswer, body: Segments) -> Response<Reply> {
    match <[_; 1]>::try_from(body.into_vec()) {
        Ok([whole]) => answer.body = whole,
        Err(pieces) => answer.body = pieces.concat().into(),
    }
    answer.headers.remove(CONTENT_LENGTH);
    answer.into()
}
