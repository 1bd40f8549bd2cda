//! An `Idempotency-Key` that all sidecars of a hub know: its claim before the job is sent.
//!
//! A call that has come by another sidecar was claimed there.

use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep};

use super::key_end::question;
use super::known::{Caller, Known};
use super::lost::kept_of;
use crate::config::OnHubLoss;
use crate::journal::{Asked, Claimed, Hold, KeyAnswer, KeyQuestion};
use crate::ojs::ErrorDocument;
use crate::outcome::Place;
use crate::proxy::call::hops;
use crate::telemetry::HubKey;

/// How long a call waits for the hub, well below any `limits.call_timeout` in use; shorter where the call has little time.
const CLAIM_WAIT: Duration = Duration::from_secs(2);
/// The part of the call's time that a claim may take: most of it is the region's.
const CLAIM_PART: u32 = 4;
/// Between two looks at a key that another call has: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));
/// A claim does not end before its call, whatever `idempotency.ttl` is; for a clock of the hub's record that is set, and for a region that
/// answers late.
const MARGIN: Duration = Duration::from_secs(60);
/// When a refused call is worth another try. Units: seconds.
const RETRY_AFTER: u64 = 2;

/// The owner of a key.
pub(crate) enum Owned {
    /// This call's.
    Ours(Box<Hold>),
    /// An earlier call's, with this answer.
    Known(Known),
}

/// A key that all sidecars know, as a call has it.
enum Fate {
    Ours,
    Stored(Place, StatusCode),
    /// Another call has it.
    OfAnother(ErrorDocument),
    /// It may be this call's, which is refused all the same.
    GivenUp(ErrorDocument),
    /// The hub does not know of this call, which is refused.
    NotAsked(ErrorDocument),
}

impl Caller<'_> {
    /// Claims the key of a call that the journal does not answer.
    ///
    /// Errors: 409 for a key that came with another body, 500 `outcome_unknown` where another call has it and is not known to have ended, 503
    /// `hub_unavailable`. Nothing was sent.
    /// Cancel: the claim is released in the background.
    pub(crate) async fn claim(self, mut hold: Box<Hold>) -> Result<Owned, ErrorDocument> {
        if hops::counted(&self.head.headers) > 1 {
            return Ok(Owned::Ours(hold));
        }
        hold.placement_mut().claim_key(self.proxy.random.token());
        let left = self.head.deadline.saturating_duration_since(Instant::now());
        let fate = match question(self.proxy, hold.placement(), None) {
            Some(question) => {
                let ttl = question.ttl.max(left + MARGIN);
                self.fate(&KeyQuestion { ttl, ..question }).await
            }
            None => Fate::Ours,
        };
        match fate {
            Fate::Ours => Ok(Owned::Ours(hold)),
            Fate::Stored(place, status) => {
                disown(hold);
                Ok(Owned::Known(self.shown(&place, status).await))
            }
            Fate::OfAnother(document) => {
                disown(hold);
                Err(document)
            }
            // The hub may have the claim of an earlier call for this job.
            Fate::NotAsked(document) if hold.placement().number == 0 => {
                disown(hold);
                Err(document)
            }
            Fate::GivenUp(document) | Fate::NotAsked(document) => {
                hold.leave();
                Err(document)
            }
        }
    }

    /// The fate of a claim. A key that another call has is looked at again for as long as that call may take.
    async fn fate(self, question: &KeyQuestion) -> Fate {
        let keys = self.proxy.shared.journal.keys();
        let (call_timeout, deadline) = (self.proxy.shared.config.limits.call_timeout, self.head.deadline);
        // Later than this, a job could not be sent any more.
        let last = deadline.checked_sub(kept_of(call_timeout)).unwrap_or(deadline);
        let unknown = || ErrorDocument::outcome_unknown("", None);
        let (mut pause, mut is_held) = (LOOKS.0, false);
        loop {
            let now = Instant::now();
            let wait = CLAIM_WAIT.min(deadline.saturating_duration_since(now) / CLAIM_PART);
            match keys.ask(question, now + wait).await {
                Asked::Answered(KeyAnswer::Claimed(Claimed::Taken)) => {
                    keys.count(HubKey::Claimed);
                    return if Instant::now() < last {
                        Fate::Ours
                    } else {
                        Fate::GivenUp(ErrorDocument::no_time_left())
                    };
                }
                Asked::Answered(KeyAnswer::Claimed(Claimed::OtherBody)) => {
                    return Fate::OfAnother(ErrorDocument::idempotency_key_reused());
                }
                Asked::Answered(KeyAnswer::Claimed(Claimed::Stored { place, status })) => {
                    keys.count(HubKey::Stored);
                    // The key is another call's, also where the status of its answer is none.
                    let stored = StatusCode::from_u16(status).map(|status| Fate::Stored(place, status));
                    return stored.unwrap_or_else(|_| Fate::OfAnother(unknown()));
                }
                Asked::Answered(KeyAnswer::Claimed(Claimed::Held { age_ms })) => {
                    is_held = true;
                    let is_over = Duration::from_millis(age_ms) > call_timeout;
                    if is_over || Instant::now() + pause >= last {
                        keys.count(HubKey::Held);
                        return Fate::OfAnother(unknown());
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LOOKS.1);
                }
                // It was another call's a moment ago: this one must not be sent without the hub's word.
                asked if is_held => {
                    keys.count(HubKey::Held);
                    return if asked == Asked::NotSent { Fate::OfAnother(unknown()) } else { Fate::GivenUp(unknown()) };
                }
                asked => return self.without_hub(&asked),
            }
        }
    }

    fn without_hub(self, asked: &Asked) -> Fate {
        let keys = self.proxy.shared.journal.keys();
        match self.proxy.shared.config.idempotency.on_hub_loss {
            Some(OnHubLoss::Local) => {
                keys.count(HubKey::Local);
                Fate::Ours
            }
            // A checked configuration has one or the other.
            Some(OnHubLoss::Refuse) | None => {
                keys.count(HubKey::Refused);
                let document = ErrorDocument::hub_unavailable(RETRY_AFTER);
                if *asked == Asked::NotSent { Fate::NotAsked(document) } else { Fate::GivenUp(document) }
            }
        }
    }
}

/// Another call has the key: there is nothing to release.
fn disown(mut hold: Box<Hold>) {
    hold.placement_mut().key_claim = None;
    hold.leave();
}
