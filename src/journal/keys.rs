//! Keys that this sidecar shares with others: the way from the calls to the connection to the hub, and the hub's absence.
//!
//! Calls ask on their own threads; [`crate::fleet`] answers on the control thread, where the connection is. A hub that leaves several claims in a
//! row without an answer, or to which there is no connection, is left alone but for one claim a second, so that its loss costs the others nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::base::Clock;
use crate::outcome::{Digest, KeyClaim, Place, Placement, Verdict};
use crate::telemetry::{HubKey, Metrics, event};

/// Questions that wait for the connection. More calls with a key at once mean that the hub does not keep up.
const ASKS_MAX: usize = 1_024;
/// Claims of calls that have sent no job, to be released at the hub: those of three hours in which it takes no question. Beyond, the oldest
/// stays claimed until its end.
const ABANDONED_MAX: usize = 10_000;
/// How often a hub that does not answer is tried. Units: milliseconds.
const TRY_EVERY_MS: u64 = 1_000;
/// Claims in a row without an answer, until a hub to which there is a connection is left alone. One or two slow commits are no loss; a hub that
/// hangs holds up the claims of one wait at once, or so many one after the other.
const MISSED_MAX: u32 = 3;

/// A question about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQuestion {
    /// The fingerprint of the key and its tenant.
    pub key: Digest,
    /// The fingerprint of the client's body.
    pub body: Digest,
    /// The claim.
    pub claim: KeyClaim,
    /// How long the hub is to remember the key.
    pub ttl: Duration,
    /// The end of the key; none where it is to be claimed.
    pub verdict: Option<Verdict>,
}

/// The fate of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "claim")]
pub enum Claimed {
    /// The key is this call's.
    Taken,
    /// Another call has it and has not ended, as far as the hub knows.
    Held {
        /// How long ago. Units: milliseconds.
        age_ms: u64,
    },
    /// The key came with another body; nothing is said of its job.
    OtherBody,
    /// An earlier call with the same body has stored its job.
    Stored {
        /// Where.
        place: Place,
        /// The status of the answer.
        status: u16,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyAnswer {
    /// To a claim.
    Claimed(Claimed),
    /// To an end: whether the hub has it; else another claim has the key.
    Settled(bool),
    /// The hub takes no such question, or its record does not answer.
    Refused(String),
}

/// The end of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The hub has answered.
    Answered(KeyAnswer),
    /// The hub may have got it.
    Lost,
    /// The hub did not get it.
    NotSent,
}

/// A question on its way to the connection.
#[derive(Debug)]
pub struct KeyAsk {
    /// The question.
    pub question: KeyQuestion,
    /// Set by the connection that sends it, or by the call that goes on without, whichever is first.
    fate: Arc<AtomicBool>,
    /// Gets the answer; dropped where the connection was lost, and the question is then asked again.
    pub answer: oneshot::Sender<KeyAnswer>,
}

impl KeyAsk {
    /// Whether it is to be sent: its call has not gone on without. From now on, its call knows that the hub may have got it.
    #[must_use]
    pub fn take(&self) -> bool {
        !self.fate.swap(true, AcqRel)
    }

    /// Whether its call still waits for the answer. One that does not may have released its claim.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// The way of questions to the connection.
#[derive(Debug)]
pub struct Keys {
    asks: mpsc::Sender<KeyAsk>,
    /// Locked by the connection for as long as it lives.
    asked: tokio::sync::Mutex<mpsc::Receiver<KeyAsk>>,
    abandoned: Mutex<VecDeque<Placement>>,
    changed: Notify,
    /// Claims without an answer since the last answer.
    missed: AtomicU32,
    /// When a hub that is left alone is tried again, by its own count; 0 while it answers. Units: milliseconds.
    next_try_ms: AtomicU64,
    started: std::time::Instant,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Keys {
    pub(super) fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        Self {
            asks,
            asked: tokio::sync::Mutex::new(asked),
            abandoned: Mutex::default(),
            changed: Notify::new(),
            missed: AtomicU32::new(0),
            next_try_ms: AtomicU64::new(0),
            started: clock.now(),
            clock,
            metrics,
        }
    }

    /// Asks the hub, until a time. A hub that is left alone gets no end; the background sends it.
    ///
    /// Cancel: the hub may have got the question.
    pub async fn ask(&self, question: &KeyQuestion, until: Instant) -> Asked {
        let is_claim = question.verdict.is_none();
        if !self.may_ask(is_claim) {
            return Asked::NotSent;
        }
        let mut was_sent = false;
        // Bounded by the time: each turn ends with the loss of a connection.
        let error = loop {
            let ((answer, answered), fate) = (oneshot::channel(), Arc::new(AtomicBool::new(false)));
            let ask = KeyAsk { question: question.clone(), fate: Arc::clone(&fate), answer };
            if self.asks.try_send(ask).is_err() {
                break "too many questions wait for it".to_owned();
            }
            let answered = timeout_at(until, answered).await;
            was_sent |= fate.swap(true, AcqRel);
            match answered {
                Ok(Ok(KeyAnswer::Refused(error))) => break error,
                Ok(Ok(answer)) => {
                    self.reached();
                    return Asked::Answered(answer);
                }
                Ok(Err(_)) if Instant::now() < until => {}
                Ok(Err(_)) | Err(_) => break "it did not answer in time".to_owned(),
            }
        };
        if is_claim {
            self.missed(&error);
        }
        if was_sent { Asked::Lost } else { Asked::NotSent }
    }

    /// The questions, for the connection that answers them.
    pub async fn questions(&self) -> tokio::sync::MutexGuard<'_, mpsc::Receiver<KeyAsk>> {
        self.asked.lock().await
    }

    /// Resolves when the end of a key may have become known since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Keeps a claim that is to be released.
    pub(super) fn abandon(&self, placement: Placement) {
        let mut abandoned = self.abandoned.lock();
        if abandoned.len() >= ABANDONED_MAX {
            abandoned.pop_front();
        }
        abandoned.push_back(placement);
        drop(abandoned);
        self.wake();
    }

    /// The claims that are to be released, the oldest first, at most so many.
    #[must_use]
    pub fn abandoned(&self, max: usize) -> Vec<Placement> {
        self.abandoned.lock().iter().take(max).cloned().collect()
    }

    /// Forgets a claim that is released.
    pub fn released(&self, claim: &KeyClaim) {
        self.abandoned.lock().retain(|it| it.key_claim.as_deref() != Some(claim));
    }

    /// Notes that there is a new connection: the next call tries it.
    pub fn reconnected(&self) {
        let at_once = |next: u64| (next != 0).then_some(1);
        // Nothing is to be done where the hub was not lost.
        let _ = self.next_try_ms.fetch_update(Relaxed, Relaxed, at_once);
    }

    /// Notes that the hub answers questions about keys.
    pub fn reached(&self) {
        if self.missed.load(Relaxed) != 0 {
            self.missed.store(0, Relaxed);
        }
        if self.next_try_ms.load(Relaxed) != 0 && self.next_try_ms.swap(0, Relaxed) != 0 {
            event::hub_keys_reached();
        }
    }

    /// Whether a question is sent: while the hub is left alone, one claim a second.
    fn may_ask(&self, is_claim: bool) -> bool {
        let (next, now) = (self.next_try_ms.load(Relaxed), self.now_ms());
        let is_due = || self.next_try_ms.compare_exchange(next, now + TRY_EVERY_MS, Relaxed, Relaxed).is_ok();
        next == 0 || (is_claim && now >= next && is_due())
    }

    /// Notes a claim without an answer.
    fn missed(&self, error: &str) {
        let in_a_row = self.missed.fetch_add(1, Relaxed).saturating_add(1);
        // A connection would hold the questions.
        let is_away = in_a_row >= MISSED_MAX || self.asked.try_lock().is_ok();
        if is_away && self.next_try_ms.swap(self.now_ms() + TRY_EVERY_MS, Relaxed) == 0 {
            event::hub_keys_lost(error);
        }
    }

    fn now_ms(&self) -> u64 {
        let age = self.clock.now().saturating_duration_since(self.started);
        // Not 0, which stands for no time.
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Counts the fate of a claim.
    pub fn count(&self, result: HubKey) {
        self.metrics.hub_keys.results[result].inc();
    }
}
