//! Repetitions of an enqueue. They are recognised by the client's own job id or by `Idempotency-Key`, never by equal
//! bodies, because two equal jobs are two jobs. A repetition is answered from its record, and nothing is sent to be
//! stored again.
//!
//! SDKs repeat a POST on 429, 502, 503 and 504, one of them on a reset with the same id. Spec: ojs-protocol 5.1.

use std::sync::Arc;

use http::HeaderValue;
use tokio::time::{Instant, timeout_at};

use crate::base::{RegionId, apart};
use crate::config::KeyScope;
use crate::journal::Hold;
use crate::ojs::header::FEDERATION_REPLAYED;
use crate::ojs::{Abridged, ErrorDocument};
use crate::outcome::{Identity, Placement, State};
use crate::proxy::{
    call::{exchange::Exchange, head::Head, header_flags::HeaderFlags, hops},
    placement::{
        Caller, Known, Looked, Names, Owned, Planned, Purpose, RETRY_AFTER, identity, kept_of, key_of, of_tenant, rules,
    },
    spooled,
    state::{End, Joined, Name, Proxy, Ran, RegionAnswer, Turn},
};
use crate::telemetry::ReplayBy;

/// A job that turned out to be stored is shown to repetitions of its own id for so long; later, a repeated id is the region's to judge.
const SHOWN: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Whether an enqueue was there before.
pub(crate) enum Recognised {
    /// It was; this is its answer, and the region that gave it.
    Answer(RegionAnswer, Option<RegionId>),
    /// The enqueue is new, as far as the records say; its repetitions wait until the turn ends.
    New(Option<Box<Turns>>),
}

/// The right to send an enqueue that clients may repeat meanwhile, and the record of it.
#[derive(Debug)]
pub(crate) struct Turns {
    turns: Vec<Turn>,
    hold: Option<Box<Hold>>,
}

/// The keys by which repetitions wait for a call.
struct Waits<'r> {
    /// The fingerprint of the client's own id.
    job: Option<crate::outcome::Digest>,
    own_id: Option<&'r str>,
    key: Option<crate::outcome::Digest>,
    /// The client's body.
    body: Abridged<'r>,
    /// How many sidecars the call has passed, this one included.
    hops: u16,
}

/// Whether an enqueue may have a name by which it could be repeated.
pub(crate) fn is_named(exchange: &Exchange, own_id: Option<&str>) -> bool {
    own_id.is_some() || exchange.header_flags.has(HeaderFlags::IDEMPOTENCY_KEY)
}

/// Whether the record of a repeatable call is in memory only, though a file is configured, or the client relies on one.
pub(crate) fn is_volatile(proxy: &Proxy, exchange: &Exchange) -> bool {
    let journal = &proxy.shared.journal;
    !journal.is_durable() && (!journal.is_in_memory() || exchange.header_flags.has(HeaderFlags::IDEMPOTENCY_KEY))
}

/// Looks for an earlier call of this enqueue. `own_id` is the id that the client gave its job, `planned` the body to
/// send.
///
/// Errors: 400 for an invalid key, 409 for a key that came with another body, 508 for an enqueue that came back to us,
/// 500 `outcome_unknown` where the outcome of the first call is unknown, 503 where no time is left to send it.
pub(crate) async fn recognise(
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    body: Abridged<'_>,
    own_id: Option<&str>,
    planned: Planned<'_>,
) -> Result<Recognised, ErrorDocument> {
    let key =
        if exchange.header_flags.has(HeaderFlags::IDEMPOTENCY_KEY) { key_of(proxy, &head.headers)? } else { None };
    if own_id.is_none() && key.is_none() {
        return Ok(Recognised::New(None));
    }
    // Boxed, because most enqueues have no name by which they could be repeated, and need no room for looking.
    apart(|| recognise_by(Names { own_id, key }, proxy, exchange, head, body, planned)).await
}

async fn recognise_by(
    names: Names<'_>,
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    body: Abridged<'_>,
    planned: Planned<'_>,
) -> Result<Recognised, ErrorDocument> {
    let job = names.own_id.map(|id| of_tenant(&head.headers, id.as_bytes()));
    let waits = Waits { job, own_id: names.own_id, key: names.key, body, hops: hops::counted(&head.headers) };
    let turns = match wait(proxy, &waits, head.deadline).await? {
        Waited::Answer(by, answer, region) => return Ok(replayed(proxy, by, answer, region)),
        Waited::Turns(turns) => turns,
    };
    let identity = identity(proxy, &head.headers, names, &body.pieces());
    // Before the journal is asked, which may know an earlier send of the drain.
    if let Some(answer) = spooled::repeated(proxy, &identity, names.own_id).await? {
        return Ok(replayed(proxy, ReplayBy::JobId, answer, None));
    }
    let digest = identity.caller;
    let request_id = exchange.request_id();
    let caller =
        Caller { proxy, request_id, head, digest: &digest, planned, purpose: Purpose::Repetition, heard: None };
    let hold = match earlier(proxy, &identity, names)? {
        Some((by, hold)) => match caller.look(hold).await? {
            Looked::Known(Known { answer, region }) => return Ok(replayed(proxy, by, answer, region)),
            Looked::Nowhere(mut hold) => {
                // Copies sent from now on belong to this caller.
                let known = &mut hold.placement_mut().identity;
                (known.caller, known.shown_to) = (identity.caller, known.shown_to.max(identity.shown_to));
                names.key.into_iter().for_each(|key| hold.take_key(key));
                Some(hold)
            }
        },
        None => None,
    };
    // With so little time left, a lost answer could not be cleared up within the call.
    if head.deadline.saturating_duration_since(Instant::now()) < kept_of(proxy.shared.config.limits.call_timeout) {
        return Err(ErrorDocument::no_time_left());
    }
    let begin = || Box::new(proxy.shared.journal.begin(identity, rules(&proxy.shared.config)));
    let mut hold = hold.unwrap_or_else(begin);
    if names.key.is_some() && proxy.shared.config.idempotency.scope == KeyScope::Hub {
        hold = match caller.claim(hold).await? {
            Owned::Ours(hold) => hold,
            Owned::Known(Known { answer, region }) => return Ok(replayed(proxy, ReplayBy::Key, answer, region)),
        };
    }
    // Boxed, because most have none.
    Ok(Recognised::New(Some(Box::new(Turns { turns, hold: Some(hold) }))))
}

/// The placement of an earlier call with one of these names.
///
/// Errors: 409 for a key that came with another body, 500 `outcome_unknown` where a call has it still, 503 `id_in_use` where another job
/// may have the id.
fn earlier(proxy: &Proxy, identity: &Identity, names: Names<'_>) -> Result<Option<(ReplayBy, Hold)>, ErrorDocument> {
    let journal = &proxy.shared.journal;
    let now = journal.now();
    let ttl = proxy.shared.config.idempotency.ttl;
    let is_remembered = |it: &Placement| !it.is_at_rest() || now.since(it.at) < ttl;
    let held = |it: &Placement| {
        let unknown = || {
            let place = it.copies.last().map(|copy| &copy.place);
            let region = place.map_or("", |place| place.region.as_str());
            ErrorDocument::outcome_unknown(region, place.map(|place| place.job_id.as_str()))
        };
        journal.hold(it.number, rules(&proxy.shared.config)).ok_or_else(unknown)
    };
    if let Some(known) = names.key.and_then(|key| journal.of_key(&key)).filter(is_remembered) {
        if known.identity.body != identity.body {
            return Err(ErrorDocument::idempotency_key_reused());
        }
        return held(&known).map(|hold| Some((ReplayBy::Key, hold)));
    }
    let Some(id) = names.own_id else { return Ok(None) };
    let all = journal.of_id(id, || identity.tenant);
    let is_recent = |it: &&Placement| !it.is_at_rest() || now.since(it.last_moment()) < SHOWN;
    // Under an id whose job may be anywhere, another job must not be sent; nor where a late copy would be cancelled,
    // and with it the job that overwrote it.
    let other = all.iter().filter(|it| it.identity.body != identity.body).find_map(Placement::claim);
    if let Some(place) = other {
        return Err(ErrorDocument::id_in_use(place.region.as_str(), &place.job_id, RETRY_AFTER));
    }
    let mut same = all.iter().filter(|it| it.identity.body == identity.body && it.state() != State::Expired);
    same.find(is_recent).map(|known| held(known).map(|hold| (ReplayBy::JobId, hold))).transpose()
}

enum Waited {
    Answer(ReplayBy, RegionAnswer, Option<RegionId>),
    Turns(Vec<Turn>),
}

/// Waits for others with one of these names, until one has an answer or all turns are ours.
async fn wait(proxy: &Proxy, names: &Waits<'_>, deadline: Instant) -> Result<Waited, ErrorDocument> {
    let mut turns = Vec::new();
    let key = names.key.map(|key| (Name::Key(key), ReplayBy::Key));
    let id = names.job.map(|job| (Name::Job(job), ReplayBy::JobId));
    // Always in this order, so that two calls cannot wait for each other.
    for (name, by) in key.into_iter().chain(id) {
        loop {
            let (end, is_same) = match proxy.shared.running.join(name.clone(), names.body, names.hops) {
                Joined::Turn(turn) => {
                    turns.push(turn);
                    break;
                }
                Joined::Circle => return Err(ErrorDocument::too_many_hops(names.hops.saturating_sub(1))),
                Joined::OtherBody(_) if by == ReplayBy::Key => return Err(ErrorDocument::idempotency_key_reused()),
                // Another job under the same id: the region, or the journal, judges it once the first call is over.
                Joined::OtherBody(end) => (end, false),
                Joined::Wait(end) => (end, true),
            };
            match timeout_at(deadline, end.wait()).await {
                Ok(End::Answered(answer, region)) if is_same => {
                    return Ok(Waited::Answer(by, RegionAnswer::clone(&answer), region));
                }
                Ok(End::Unknown(document)) if is_same => return Err(ErrorDocument::clone(&document)),
                Ok(_) => {}
                Err(_) if is_same => return Err(ErrorDocument::outcome_unknown("", names.own_id)),
                Err(_) => return Err(ErrorDocument::no_time_left()),
            }
        }
    }
    Ok(Waited::Turns(turns))
}

fn replayed(proxy: &Proxy, by: ReplayBy, mut answer: RegionAnswer, region: Option<RegionId>) -> Recognised {
    proxy.shared.metrics.replays[by].inc();
    answer.headers.insert(FEDERATION_REPLAYED, HeaderValue::from_static("true"));
    Recognised::Answer(answer, region)
}

impl Turns {
    /// The record of the enqueue, for the call that is about to be made.
    pub(crate) fn hold(&mut self) -> Option<Box<Hold>> {
        self.hold.take()
    }

    /// Ends the turn and wakes the calls that wait for it.
    pub(crate) fn end(self, ran: &Ran) {
        let end = match &ran.result {
            Ok(answer) if answer.status.is_success() => End::Answered(Arc::new(answer.clone()), ran.region.clone()),
            Err(document) if document.is_outcome_unknown() => End::Unknown(Arc::new(document.clone())),
            _ => End::Nothing,
        };
        self.turns.into_iter().for_each(|turn| turn.end(end.clone()));
    }
}
