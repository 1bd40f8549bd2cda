//! Repetitions of an enqueue: recognised by the client's own job id or by `Idempotency-Key`, never by what a body looks like,
//! because two equal jobs are two jobs. What is known is the answer; nothing is sent to be stored again.
//!
//! SDKs repeat a POST on 429, 502, 503 and 504, one of them on a reset with the same id. Spec: ojs-protocol 5.1.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::Proxy;
use super::attempt::RegionAnswer;
use super::enqueue::Ran;
use super::exchange::Exchange;
use super::head::Head;
use super::hops;
use super::known::{Caller, Known};
use super::locate::IDENTIFYING;
use super::noted::Noted;
use super::resolve::{is_private, kept_of};
use super::running::{End, Joined, Name, Turn};
use super::trail::{Watched, rename};
use crate::base::{RegionId, apart};
use crate::journal::{Digest, ID_BYTES_MAX, Keyed, Unknown};
use crate::ojs::answer::job_id_of;
use crate::ojs::header::{FEDERATION_REPLAYED, IDEMPOTENCY_KEY};
use crate::ojs::{Abridged, ErrorDocument};
use crate::telemetry::ReplayBy;

/// A longer key is refused; a UUID has 36 bytes.
const KEY_BYTES_MAX: usize = 255;

/// Whether an enqueue was there before.
pub(super) enum Recognised {
    /// It was; this is its answer, and the region that gave it.
    Answer(RegionAnswer, Option<RegionId>),
    /// It was not, as far as anybody knows; the others like it wait until the turn is ended.
    New(Option<Box<Turns>>),
}

/// The right to send an enqueue that others may repeat meanwhile.
#[derive(Debug)]
pub(super) struct Turns {
    turns: Vec<Turn>,
    keyed: Option<Keyed>,
    /// What earlier calls of the same name have left, and nobody has found: watched for late copies, now together with this one.
    watched: Vec<Watched>,
}

/// What names an enqueue.
struct Names<'r> {
    job_id: Option<&'r str>,
    /// The fingerprint of that id.
    job: Option<Digest>,
    /// The fingerprint of the key.
    key: Option<Digest>,
    /// What was received.
    body: Abridged<'r>,
    /// How many sidecars the call has passed, this one included.
    hops: u16,
}

/// Whether an enqueue may have a name by which it could be repeated.
pub(super) fn is_named(exchange: &Exchange, ids: Ids<'_>) -> bool {
    ids.own.is_some() || exchange.noted.has(Noted::IDEMPOTENCY_KEY)
}

/// Looks whether this enqueue was there before. `own_id` is the id that the client gave its job, `sent_id` the one that it will be
/// sent with.
///
/// Errors: 400 for a key that is none, 409 for a key that came with another body, 508 for an enqueue that has come back, 500
/// `outcome_unknown` for one whose first time nobody knows the outcome of, 503 for one that there is no time left to send.
pub(super) async fn recognise(
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    body: Abridged<'_>,
    ids: Ids<'_>,
) -> Result<Recognised, ErrorDocument> {
    let key = if exchange.noted.has(Noted::IDEMPOTENCY_KEY) { key_of(proxy, &head.headers)? } else { None };
    if ids.own.is_none() && key.is_none() {
        return Ok(Recognised::New(None));
    }
    // Boxed, because most enqueues have no name by which they could be repeated, and need no room for looking.
    apart(|| recognise_by(key, proxy, exchange, head, body, ids)).await
}

async fn recognise_by(
    key: Option<Digest>,
    proxy: &Proxy,
    exchange: &Exchange,
    head: &Head,
    body: Abridged<'_>,
    ids: Ids<'_>,
) -> Result<Recognised, ErrorDocument> {
    let job = ids.own.map(|id| of_tenant(&head.headers, id.as_bytes()));
    let names = Names { job_id: ids.own, job, key, body, hops: hops::counted(&head.headers) };
    let turns = match wait(proxy, &names, head.deadline).await? {
        Waited::Answer(by, answer, region) => return Ok(replayed(proxy, by, answer, region)),
        Waited::Turns(turns) => turns,
    };
    let caller = Caller { proxy, exchange, head, received: body };
    // Held from before the question on, so that nobody else judges it in between.
    let watched = watched(caller, &names);
    if let Some((by, known)) = look_up(caller, &names).await? {
        return Ok(replayed(proxy, by, known.answer, known.region));
    }
    // What would be sent now could only end as unknown.
    if head.deadline.saturating_duration_since(Instant::now()) < kept_of(proxy.shared.config.limits.call_timeout) {
        return Err(ErrorDocument::no_time_left());
    }
    let mut new = Turns { turns, keyed: None, watched };
    if let Some(key) = names.key {
        let job_id = ids.sent.filter(|id| id.len() <= ID_BYTES_MAX).map(str::to_owned);
        let at_ms = proxy.shared.registry.clock().unix_ms();
        let private = proxy.shared.registry.view().indexes().any(|index| is_private(proxy, index, &head.headers));
        let keyed =
            Keyed { key, body: digest(&body.pieces()), run: 0, at_ms, job_id, private, region: None, status: 0 };
        for it in &new.watched {
            rename(&it.hold, keyed.job_id.as_deref()).await;
        }
        proxy.shared.journal.begin_key(keyed.clone()).await;
        new.keyed = Some(keyed);
    }
    // Boxed, because most have none.
    Ok(Recognised::New(Some(Box::new(new))))
}

/// The ids of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids<'r> {
    /// The client's.
    pub(super) own: Option<&'r str>,
    /// The one that it is sent with.
    pub(super) sent: Option<&'r str>,
}

enum Waited {
    Answer(ReplayBy, RegionAnswer, Option<RegionId>),
    Turns(Vec<Turn>),
}

/// Waits for others with one of these names, until one has an answer or all turns are ours.
async fn wait(proxy: &Proxy, names: &Names<'_>, deadline: Instant) -> Result<Waited, ErrorDocument> {
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
                // Another job, of which the region, or the journal, judges what its id is worth once the first is over.
                Joined::OtherBody(end) => (end, false),
                Joined::Wait(end) => (end, true),
            };
            match timeout_at(deadline, end.wait()).await {
                Ok(End::Answered(answer, region)) if is_same => {
                    return Ok(Waited::Answer(by, RegionAnswer::clone(&answer), region));
                }
                Ok(End::Unknown(document)) if is_same => return Err(ErrorDocument::clone(&document)),
                Ok(_) => {}
                Err(_) if is_same => return Err(ErrorDocument::outcome_unknown("", names.job_id)),
                Err(_) => return Err(ErrorDocument::no_time_left()),
            }
        }
    }
    Ok(Waited::Turns(turns))
}

/// What the journal knows.
async fn look_up(caller: Caller<'_>, names: &Names<'_>) -> Result<Option<(ReplayBy, Known)>, ErrorDocument> {
    let (proxy, store) = (caller.proxy, &caller.proxy.shared.journal);
    if let Some(key) = names.key
        && let Some(keyed) = store.keyed(&key).filter(|it| is_remembered(proxy, it))
    {
        if keyed.body != digest(&names.body.pieces()) {
            return Err(ErrorDocument::idempotency_key_reused());
        }
        if let Some(known) = caller.keyed(&keyed).await? {
            return Ok(Some((ReplayBy::Key, known)));
        }
    }
    if let Some(id) = names.job_id
        && let Some(known) = caller.unknown(&store.unknowns_of(id, || caller.tenant())).await?
    {
        return Ok(Some((ReplayBy::JobId, known)));
    }
    Ok(None)
}

/// What earlier calls of these names have left, and is only watched.
fn watched(caller: Caller<'_>, names: &Names<'_>) -> Vec<Watched> {
    let store = &caller.proxy.shared.journal;
    let keyed = names.key.and_then(|key| store.keyed(&key)).and_then(|keyed| keyed.job_id);
    let keyed = keyed.as_deref().filter(|id| Some(*id) != names.job_id);
    let rows = keyed.into_iter().chain(names.job_id).flat_map(|id| store.unknowns_of(id, || caller.tenant()));
    let rows: Vec<Unknown> = rows.filter(Unknown::is_only_watched).collect();
    // Nearly always there is none, and then nobody pays for the fingerprint.
    if rows.is_empty() {
        return Vec::new();
    }
    let body = digest(&names.body.pieces());
    let watched = |it: Unknown| {
        let (place, same_body) = (it.sent_to()?, it.body == body);
        store.hold(it.number).map(|hold| Watched { hold, place, same_body })
    };
    rows.into_iter().filter_map(watched).collect()
}

fn is_remembered(proxy: &Proxy, keyed: &Keyed) -> bool {
    let ttl = u64::try_from(proxy.shared.config.idempotency.ttl.as_millis()).unwrap_or(u64::MAX);
    keyed.at_ms.saturating_add(ttl) > proxy.shared.registry.clock().unix_ms()
}

fn replayed(proxy: &Proxy, by: ReplayBy, mut answer: RegionAnswer, region: Option<RegionId>) -> Recognised {
    proxy.shared.metrics.replays[by].inc();
    answer.headers.insert(FEDERATION_REPLAYED, HeaderValue::from_static("true"));
    Recognised::Answer(answer, region)
}

/// The fingerprint of an `Idempotency-Key`.
fn key_of(proxy: &Proxy, headers: &HeaderMap) -> Result<Option<Digest>, ErrorDocument> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next().filter(|_| proxy.shared.config.idempotency.enabled) else { return Ok(None) };
    if keys.next().is_some() || !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(ErrorDocument::idempotency_key_invalid());
    }
    Ok(Some(of_tenant(headers, key.as_bytes())))
}

/// The fingerprint of a caller's tenant.
pub(super) fn tenant_of(headers: &HeaderMap) -> Digest {
    of_tenant(headers, b"")
}

/// The fingerprint of a name, which belongs to its tenant. Credentials change while a call is repeated; whether they suffice, the
/// region judges.
fn of_tenant(headers: &HeaderMap, name: &[u8]) -> Digest {
    let [_, tenants @ ..] = &IDENTIFYING;
    let values = |name: &HeaderName| headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect();
    let tenants: Vec<Vec<Vec<u8>>> = tenants.iter().map(values).collect();
    digest(&[name, b"\n", format!("{tenants:?}").as_bytes()])
}

/// A fingerprint of bytes.
pub(super) fn digest(parts: &[&[u8]]) -> Digest {
    let mut context = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

impl Turns {
    /// The fingerprint of the key that the job is remembered by, together with the id that it is sent with.
    pub(super) fn key(&self) -> Option<Digest> {
        self.keyed.as_ref().map(|keyed| keyed.key)
    }

    /// What is watched, for the call that is about to be made.
    pub(super) fn watched(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watched)
    }

    /// The call is over: tells those who wait, and remembers or forgets the key.
    pub(super) fn end(self, proxy: &Proxy, ran: &Ran) {
        let end = match &ran.result {
            Ok(answer) if answer.status.is_success() => End::Answered(Arc::new(answer.clone()), ran.region.clone()),
            Err(document) if document.reason() == "outcome_unknown" => End::Unknown(Arc::new(document.clone())),
            _ => End::Nothing,
        };
        if let Some(keyed) = self.keyed {
            let store = &proxy.shared.journal;
            // The job may have got another id on the way.
            let keyed = store.keyed(&keyed.key).filter(|now| now.at_ms == keyed.at_ms).unwrap_or(keyed);
            match &end {
                End::Answered(answer, region) => store.end_key(answered(keyed, answer, region.clone())),
                End::Nothing if !ran.left => store.forget_key(&keyed.key),
                // Also where it was refused, and yet what was left behind on the way may still be stored.
                End::Unknown(_) | End::Nothing => {
                    store.end_key(Keyed { status: Keyed::ENDED_UNKNOWN, ..keyed });
                }
            }
        }
        self.turns.into_iter().for_each(|turn| turn.end(end.clone()));
    }
}

/// What is remembered of a key whose job a region has.
pub(super) fn answered(keyed: Keyed, answer: &RegionAnswer, region: Option<RegionId>) -> Keyed {
    let job_id = job_id_of(&answer.body).filter(|id| id.len() <= ID_BYTES_MAX).or(keyed.job_id);
    Keyed { region, status: answer.status.as_u16(), job_id, ..keyed }
}

/// An answer about a job of which nobody can show more than its id.
pub(super) fn bare(status: StatusCode, id: &str) -> RegionAnswer {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(crate::ojs::header::MEDIA_TYPE));
    let body = serde_json::json!({ "job": { "id": id } }).to_string();
    RegionAnswer { status, headers, body: body.into() }
}
