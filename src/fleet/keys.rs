//! `Idempotency-Key`s that all sidecars of a hub know: questions of calls, and ends that the hub does not have.
//!
//! A hub gets fingerprints only: neither keys nor bodies can be read in its record.

use std::cell::Cell;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::request::Requests;
use super::status::{Status, is_name};
use crate::base::Clock;
use crate::journal::{Claimed, ID_BYTES_MAX, Journal, KeyAnswer, KeyAsk, KeyQuestion};
use crate::outcome::{Placement, Verdict};
use crate::telemetry::{Metrics, event};

/// The longest request about a key, as JSON: fingerprints, two names and an id. Units: bytes.
pub const KEY_BYTES_MAX: usize = 4 * 1024;
/// The longest time that a hub remembers a key.
pub const KEY_TTL_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Questions under way at once; further ones wait here. Fewer than the streams that a hub permits a connection.
const UNDER_WAY_MAX: usize = 32;
/// Ends that are sent in one round.
const ROUND_MAX: usize = 64;
/// How often a claim is sent: the answer to the first one of a connection has the time of the record, and so has that to one after the clock of the record was set.
const CLAIM_TRIES: usize = 2;
/// Between two looks for ends that the hub does not have, and before one is sent again.
const SETTLE_EVERY: Duration = Duration::from_secs(2);
/// The path of claims.
const CLAIM: &str = "/v1/hub/keys/claim";
/// The path of ends.
const SETTLE: &str = "/v1/hub/keys/settle";

/// A claim of a key, or its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// When its process started. Units: milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// SHA-256 over the federation and the fingerprint of the key with its tenant, in hex.
    pub key: String,
    /// SHA-256 over the fingerprints of the key and of the body, in hex.
    pub body: String,
    /// The random token of the claim, in hex.
    pub token: String,
    /// The number of the call with this token, from 1.
    pub attempt: u32,
    /// How long the hub is to remember the key. Units: milliseconds.
    pub ttl_ms: u64,
    /// When the claim was sent, or before, by the clock of the hub's record; 0 where the sidecar does not know it, and in an end. Units:
    /// milliseconds since the Unix epoch.
    pub sent_unix_ms: u64,
    /// The end of the key; none in a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyClaimed {
    /// The fate of the key.
    Decided(Claimed),
    /// The claim was sent too long ago, or at an unknown time, and has taken nothing.
    Late {
        /// The time at the record. Units: milliseconds since the Unix epoch.
        now_unix_ms: u64,
    },
}

/// The answer to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettled {
    /// Whether the hub has it; else another claim has the key.
    pub settled: bool,
}

impl KeyRequest {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if !is_name(&self.sidecar) {
            return Some("`sidecar`: expected 1 to 128 bytes of visible ASCII");
        }
        let is_digest = |text: &String| HEXLOWER.decode(text.as_bytes()).is_ok_and(|bytes| bytes.len() == 32);
        if ![&self.key, &self.body, &self.token].into_iter().all(is_digest) {
            return Some("`key`, `body` and `token`: expected 64 hexadecimal digits");
        }
        if !(1..=KEY_TTL_MAX.as_millis()).contains(&u128::from(self.ttl_ms)) {
            return Some("`ttl_ms`: expected 1 to 604800000");
        }
        if [self.started_unix_ms, self.sent_unix_ms].into_iter().any(|it| i64::try_from(it).is_err()) {
            return Some("`started_unix_ms` and `sent_unix_ms`: expected numbers below 2^63");
        }
        match &self.verdict {
            Some(Verdict::Stored { status, .. }) if !(200..300).contains(status) => {
                Some("`verdict.status`: expected 200 to 299")
            }
            Some(Verdict::Stored { place, .. }) if place.job_id.len() > ID_BYTES_MAX => {
                Some("`verdict.place.job_id`: expected at most 256 bytes")
            }
            _ => None,
        }
    }
}

/// The shortest time for which the hub keeps the end of a key.
const END_TTL_MIN: Duration = Duration::from_secs(60);

/// The keys of one sidecar over one connection.
pub(super) struct Desk<'d> {
    pub(super) journal: &'d Journal,
    pub(super) metrics: &'d Metrics,
    pub(super) clock: &'d Clock,
    /// The sidecar.
    pub(super) status: Status,
    /// How long keys are remembered.
    pub(super) ttl: Duration,
    pub(super) requests: &'d Requests,
    /// The time at the record of the hub, and when it was received; none before the first claim.
    pub(super) record_time: Cell<Option<(u64, Instant)>>,
}

impl Desk<'_> {
    /// Answers the questions of calls until the connection is lost. Questions under way are then asked again by their calls.
    pub(super) async fn answer(&self) -> Failure {
        let mut questions = self.journal.keys().questions().await;
        self.journal.keys().reconnected();
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(ask) = questions.recv(), if under_way.len() < UNDER_WAY_MAX => {
                    under_way.push(self.answer_one(ask));
                }
                Some(failure) = under_way.next() => {
                    if let Some(failure) = failure {
                        return failure;
                    }
                }
                else => std::future::pending::<()>().await,
            }
        }
    }

    /// Answers one; returns the failure that ends the connection.
    async fn answer_one(&self, ask: KeyAsk) -> Option<Failure> {
        if !ask.take() {
            return None;
        }
        let answer = match self.ask(&ask).await {
            Ok(answer) => answer,
            Err(Failure::Refused(error) | Failure::Slow(error)) => KeyAnswer::Refused(error),
            Err(failure) => return Some(failure),
        };
        // Its call may have gone on without.
        let _ = ask.answer.send(answer);
        None
    }

    async fn ask(&self, ask: &KeyAsk) -> Result<KeyAnswer, Failure> {
        let request = self.request(&ask.question);
        Ok(match &request.verdict {
            None => KeyAnswer::Claimed(self.claim(request, ask).await?),
            Some(_) => KeyAnswer::Settled(self.settled(&request).await?),
        })
    }

    /// Sends a claim, and once more where the hub takes it for a late one, unless its call has gone on: a claim may not be sent after its release.
    async fn claim(&self, mut request: KeyRequest, ask: &KeyAsk) -> Result<Claimed, Failure> {
        for _ in 0..CLAIM_TRIES {
            if !ask.is_waited_for() {
                break;
            }
            request.sent_unix_ms = self.record_time.get().map_or(0, |(then_unix_ms, received)| {
                let since = self.clock.now().saturating_duration_since(received);
                then_unix_ms.saturating_add(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            });
            match self.requests.ask(CLAIM, &request).await? {
                KeyClaimed::Decided(claimed) => return Ok(claimed),
                KeyClaimed::Late { now_unix_ms } => self.record_time.set(Some((now_unix_ms, self.clock.now()))),
            }
        }
        Err(Failure::Refused("the hub takes the claim for a late one: its record or the network is slow".to_owned()))
    }

    /// Sends the ends that the hub does not have until the connection is lost.
    pub(super) async fn settle(&self) -> Failure {
        loop {
            match self.settle_round().await {
                // More may wait behind a full round.
                Ok(settled) if settled >= ROUND_MAX => continue,
                Err(Failure::Lost(error)) => return Failure::Lost(error),
                _ => {}
            }
            tokio::select! {
                () = self.clock.sleep(SETTLE_EVERY) => {}
                () = self.journal.keys().changed() => {}
            }
        }
    }

    /// Returns how many the hub has taken. One that it refuses is sent again in the next round.
    ///
    /// Errors: the hub does not answer, or the connection is lost.
    async fn settle_round(&self) -> Result<usize, Failure> {
        let mut taken = 0;
        for placement in self.journal.keys().abandoned(ROUND_MAX) {
            let is_taken = self.settle_one(&placement).await?.is_some();
            if let Some(claim) = placement.key_claim.as_deref().filter(|_| is_taken) {
                self.journal.keys().released(claim);
            }
        }
        for found in self.journal.unsettled(ROUND_MAX) {
            let Some(is_ours) = self.settle_one(&found.placement).await? else { continue };
            if !is_ours {
                let job = found.placement.stored().map(|place| place.job_id.as_str());
                event::hub_key_doubled(self.metrics, job);
            }
            self.journal.note_settled(found);
            taken += 1;
        }
        Ok(taken)
    }

    /// Sends the end of one. Returns whether the hub has it, or has forgotten the key by now; else another claim has the key. `None`: the hub
    /// refuses it.
    async fn settle_one(&self, placement: &Placement) -> Result<Option<bool>, Failure> {
        let (Some(key), Some(claim), Some(verdict)) =
            (placement.identity.key, placement.key_claim.as_deref().copied(), placement.unsettled())
        else {
            return Ok(Some(true));
        };
        // A later call may have claimed the key for longer: the hub has its end at least for a while.
        let ttl = self.ttl.saturating_sub(self.journal.now().since(placement.at)).max(END_TTL_MIN);
        let question = KeyQuestion { key, body: placement.identity.body, claim, ttl, verdict: Some(verdict) };
        match self.settled(&self.request(&question)).await {
            Ok(is_ours) => {
                self.journal.keys().reached();
                Ok(Some(is_ours))
            }
            Err(Failure::Refused(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn settled(&self, request: &KeyRequest) -> Result<bool, Failure> {
        Ok(self.requests.ask::<KeySettled>(SETTLE, request).await?.settled)
    }

    fn request(&self, question: &KeyQuestion) -> KeyRequest {
        let ttl = question.ttl.min(KEY_TTL_MAX);
        KeyRequest {
            sidecar: self.status.name.clone(),
            started_unix_ms: self.status.started_unix_ms,
            key: fingerprint(&[self.status.federation_id.as_bytes(), b"\n", &question.key]),
            body: fingerprint(&[&question.key, &question.body]),
            token: HEXLOWER.encode(&question.claim.token),
            attempt: question.claim.attempt,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            sent_unix_ms: 0,
            verdict: question.verdict.clone(),
        }
    }
}

fn fingerprint(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    HEXLOWER.encode(context.finish().as_ref())
}
