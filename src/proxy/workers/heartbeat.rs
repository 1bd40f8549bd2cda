//! A worker is alive: every region that it holds jobs of, or fetched from, hears it, and hears of its own jobs only.
//!
//! Jobs without a known region are named to every region, which costs no further question: the answers show their
//! regions. A job whose id hints at a region is named to no other region that does not have it.
//!
//! A heartbeat is sent as the worker wrote it. A region that refuses it gets it once more with the ids in an array, which is
//! remembered of the region when it helps.
//!
//! The local region's directive goes to the worker; that of another region only ends fetching there.
//!
//! Spec: ojs-protocol 2.4, 11 row 3.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::net::IncomingBody;
use bytes::Bytes;
use futures_util::future::{join, join_all};
use http::{Method, Request, Response, StatusCode};
use smallvec::SmallVec;

use crate::ojs::worker::{Directive, HeartbeatReply, HeartbeatRequest};
use crate::ojs::{Class, ErrorDocument, Segments, heartbeat_state, hint};
use crate::policy::{GuardClass, RegionIndex, Repeat};
use crate::proxy::{
    call::{
        ask::Question,
        exchange::Exchange,
        head::{Head, read},
        retrying::{Insisted, ask_retrying, note, rewritten},
    },
    locate::find::{Located, search},
    state::{Proxy, RegionAnswer, Reply},
};
use crate::region::Workers;
use crate::replica::ChangeKind;

/// The longest time that the local region's answer waits for the others: a worker whose heartbeats are late loses its
/// leases.
const OTHERS_MAX: Duration = Duration::from_secs(5);

/// The longest lease that is remembered, for any longer one in the call.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Jobs of one heartbeat that are searched for: more than a worker runs at once. Of further ones the region of the hint has heard.
const SEARCHES_MAX: usize = 64;

/// Passes on that a worker is alive.
///
/// Errors: 400 for a body in which two servers could read two lists of jobs, and `pool_lease` for a longer lease than a pool of the fleet permits; when no region answered, 503
/// `owner_unavailable` where nothing reached the local one, else 504.
pub(crate) async fn heartbeat(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let (head, body) = read(proxy, exchange, request).await?;
    let depth_max = proxy.shared.config.limits.json_depth;
    let beat = HeartbeatRequest::read(&body, depth_max).map_err(|fault| ErrorDocument::from_fault(&fault))?;
    check_lease(proxy, &beat)?;
    let started = Instant::now();
    let split = Split::of(proxy, &beat);
    let worker_id = beat.worker_id();
    let worker = worker_id.as_deref().and_then(Workers::name);
    let visibility = beat.visibility_ms().map(Duration::from_millis);
    let class = exchange.matched.class;
    let call = Heartbeat { class, head: &head, beat: &beat, body: &body };
    let (local, mut others) = everywhere(proxy, &call, &split).await;
    learn(proxy, &split, (worker, visibility), &local, &others);
    let unextended = split.unextended(&local, &others);
    if let Some(moved) = split.moved(proxy, exchange, &head, unextended).await {
        let further =
            join_all(moved.others.iter().map(|index| send_beat(proxy, &call, &moved, *index, OTHERS_MAX))).await;
        further.iter().for_each(|(index, said)| extended(proxy, *index, said, visibility));
        others.extend(further);
    }
    exchange.upstream = started.elapsed();
    answer(proxy, exchange, local, others)
}

/// That no job of a pool of the fleet is leased for longer than the hub counts it.
///
/// Errors: 400 `pool_lease`.
fn check_lease(proxy: &Proxy, beat: &HeartbeatRequest<'_>) -> Result<(), ErrorDocument> {
    let shared = &proxy.shared;
    let asked = beat.visibility_ms();
    if shared.pools.all().all(|pool| pool.grant().is_none()) || (asked.is_none() && !beat.has_odd_visibility()) {
        return Ok(());
    }
    let longest = beat.ids().filter_map(|id| {
        let (name, leased) = shared.journal.pool_of(id)?;
        let longest = shared.pools.all().find(|pool| *pool.name() == name)?.longest_lease()?;
        // A job with a longer lease of its own is counted for that.
        Some(longest.max(leased))
    });
    let longest = longest.min().map(|longest| u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
    match longest.filter(|longest| asked.is_none_or(|asked| asked > *longest)) {
        Some(longest) => Err(ErrorDocument::pool_lease(longest)),
        None => Ok(()),
    }
}

/// Which region hears of which job.
struct Split {
    local: RegionIndex,
    /// The regions beside the local one.
    others: Vec<RegionIndex>,
    owners: HashMap<String, RegionIndex>,
    /// Of the jobs with an owner, those of which only the id hints at it.
    hinted: HashSet<String>,
    /// Jobs of which nothing is known: every region hears of them.
    unknown: HashSet<String>,
}

impl Split {
    fn of(proxy: &Proxy, beat: &HeartbeatRequest<'_>) -> Self {
        let view = proxy.shared.registry.view();
        let mut split = Self {
            local: view.local,
            others: Vec::new(),
            owners: HashMap::new(),
            hinted: HashSet::new(),
            unknown: HashSet::new(),
        };
        for id in beat.ids() {
            let shared = &proxy.shared;
            let region = shared.owners.region_of(id).or_else(|| shared.journal.leased_in(id));
            let region = region.or_else(|| shared.workers.strangers.region_of(id));
            let known = region.and_then(|region| view.index_of(region.as_str()));
            let hinted = || view.indexes().find(|index| hint::names(id, view.region(*index).id.as_str()));
            match known.or_else(hinted) {
                Some(index) => drop(split.owners.insert(id.to_owned(), index)),
                None => drop(split.unknown.insert(id.to_owned())),
            }
            if known.is_none() && split.owners.contains_key(id) {
                split.hinted.insert(id.to_owned());
            }
        }
        let now = proxy.shared.registry.clock().now();
        let worker_id = beat.worker_id();
        let fetched_from = worker_id.as_deref().map(|worker| proxy.shared.workers.regions_of(worker, now));
        let fetched_from: SmallVec<[RegionIndex; 2]> =
            fetched_from.iter().flatten().filter_map(|region| view.index_of(region.as_str())).collect();
        let heard = |index: &RegionIndex| {
            *index != view.local
                && (!split.unknown.is_empty()
                    || fetched_from.contains(index)
                    || split.owners.values().any(|owner| owner == index))
        };
        split.others = view.indexes().filter(heard).collect();
        split
    }

    fn concerns(&self, id: &str, index: RegionIndex) -> bool {
        self.owners.get(id) == Some(&index) || self.unknown.contains(id)
    }

    /// The jobs whose ids hint at regions that have not extended their leases.
    fn unextended(&self, local: &Heard, others: &[Heard]) -> Vec<String> {
        let is_left = |id: &&String| {
            let mut heard =
                std::iter::once(local).chain(others).filter(|(index, _)| self.owners.get(*id) == Some(index));
            let beaten =
                heard.next().and_then(|(_, said)| said.yes()).and_then(|answer| HeartbeatReply::read(&answer.body));
            beaten.is_some_and(|beaten| beaten.says_extended() && !beaten.extended().any(|extended| extended == **id))
        };
        self.hinted.iter().filter(is_left).take(SEARCHES_MAX).cloned().collect()
    }

    /// Those of these jobs that are in other regions than their ids hint at, and these regions. A search asks the region of the hint
    /// first, and no other one where that has the job.
    async fn moved(&self, proxy: &Proxy, exchange: &Exchange, head: &Head, ids: Vec<String>) -> Option<Self> {
        if ids.is_empty() {
            return None;
        }
        let found = join_all(ids.iter().map(|id| search(proxy, exchange, &head.headers, id))).await;
        let mut owners = HashMap::new();
        for (id, found) in ids.into_iter().zip(found) {
            match found {
                Located::At(index) if self.owners.get(&id) != Some(&index) => drop(owners.insert(id, index)),
                // They are asked for no more.
                Located::Nowhere(_) => proxy.shared.workers.strangers.learn(&id, &proxy.region(self.local).id),
                Located::At(_) | Located::Unsure(_) => {}
            }
        }
        let mut others: Vec<RegionIndex> = owners.values().copied().collect();
        others.sort_unstable();
        others.dedup();
        (!others.is_empty()).then(|| Self {
            local: self.local,
            others,
            owners,
            hinted: HashSet::new(),
            unknown: HashSet::new(),
        })
    }
}

/// A region and its reply.
type Heard = (RegionIndex, Insisted);

/// The worker's heartbeat.
struct Heartbeat<'h> {
    class: Class,
    head: &'h Head,
    beat: &'h HeartbeatRequest<'h>,
    body: &'h Bytes,
}

/// Sends the heartbeat to all regions at once.
async fn everywhere(proxy: &Proxy, call: &Heartbeat<'_>, split: &Split) -> (Heard, Vec<Heard>) {
    let left = call.head.deadline.saturating_duration_since(tokio::time::Instant::now());
    let within = OTHERS_MAX.min(left / 2);
    let others = split.others.iter().map(|index| send_beat(proxy, call, split, *index, within));
    join(send_beat(proxy, call, split, split.local, left), join_all(others)).await
}

/// Sends one region the heartbeat with its jobs.
async fn send_beat(proxy: &Proxy, call: &Heartbeat<'_>, split: &Split, index: RegionIndex, within: Duration) -> Heard {
    let Heartbeat { class, head, beat, body } = *call;
    let question = Question {
        method: Method::POST,
        path: head.path.clone(),
        headers: head.headers.clone(),
        body: Segments::new(),
        deadline: tokio::time::Instant::now() + within,
        guard: GuardClass::Heartbeat,
        leased: true,
    };
    let part = |array| beat.part(body, array, |id| split.concerns(id, index));
    (index, in_its_form(proxy, class, index, question, part).await)
}

/// Sends one region the heartbeat in the form that it is known to accept: as the worker wrote it, or with the ids in an
/// array. Where the region refuses that form, in the other one.
async fn in_its_form(
    proxy: &Proxy,
    class: Class,
    index: RegionIndex,
    mut question: Question,
    part: impl Fn(bool) -> Segments,
) -> Insisted {
    let (forms, region) = (&proxy.shared.workers.beat_forms, &proxy.region(index).id);
    let may_rewrite = proxy.shared.config.compat.heartbeat_ids;
    let array = may_rewrite && forms.is_array(region);
    question.body = part(array);
    let first = ask_retrying(proxy, class, index, &question, Repeat::Freely).await;
    let other = part(!array);
    if !may_rewrite || !first.is_refused() || other.concat() == question.body.concat() {
        return first;
    }
    question.body = other;
    let second = ask_retrying(proxy, class, index, &question, Repeat::Freely).await;
    if second.yes().is_some() {
        forms.learn(region, !array);
    }
    // A call that is wrong in both forms gets the answer to the worker's own form.
    if second.yes().is_some() || array { second } else { first }
}

impl Insisted {
    /// A whole answer that says yes.
    fn yes(&self) -> Option<&RegionAnswer> {
        self.result.as_ref().ok().filter(|answer| answer.status.is_success())
    }

    /// Whether the region cannot read the call.
    fn is_refused(&self) -> bool {
        let refused = |status: StatusCode| matches!(status.as_u16(), 400 | 422);
        self.result.as_ref().is_ok_and(|answer| refused(answer.status))
    }
}

/// Remembers the evidence of the answers to a worker: its leases are extended for that long.
fn learn(
    proxy: &Proxy,
    split: &Split,
    (worker, visibility): (Option<&str>, Option<Duration>),
    local: &Heard,
    others: &[Heard],
) {
    let shared = &proxy.shared;
    let now = shared.registry.clock().now();
    let (mut nowhere, mut found) = (true, HashSet::new());
    for (index, insisted) in std::iter::once(local).chain(others) {
        let Some(beaten) = insisted.yes().and_then(|answer| HeartbeatReply::read(&answer.body)) else {
            nowhere = false;
            continue;
        };
        let region = &proxy.region(*index).id;
        extended(proxy, *index, insisted, visibility);
        if let Some(worker) = worker.filter(|_| *index != split.local) {
            shared.workers.set_quiet(worker, region, beaten.directive() > Directive::Continue, now);
        }
        nowhere &= beaten.says_extended();
        for id in beaten.extended() {
            if split.unknown.contains(id) || split.hinted.contains(id) {
                shared.owners.learn(id, region);
                found.insert(id.to_owned());
            }
        }
    }
    // Each region has said which jobs it has extended, and these are none of theirs: they are asked for no more.
    let all = others.len() + 1 == shared.registry.view().regions.len();
    for id in split.unknown.iter().filter(|id| nowhere && all && !found.contains(*id)) {
        shared.workers.strangers.learn(id, &proxy.region(split.local).id);
    }
}

/// The leases go on that a region has extended, for so long where the worker says.
fn extended(proxy: &Proxy, index: RegionIndex, said: &Insisted, visibility: Option<Duration>) {
    if let Some(beaten) = said.yes().and_then(|answer| HeartbeatReply::read(&answer.body)) {
        let region = &proxy.region(index).id;
        proxy.shared.journal.extend_leases(region, beaten.extended(), visibility);
        if proxy.shared.quotas.active.is_on() {
            note_leases(proxy, beaten.extended(), visibility);
        }
        beaten.extended().for_each(|id| proxy.shared.saw(ChangeKind::Extended, id, region, None));
    }
}

/// The hub is to count leases that long for the quotas of these jobs: `visibility`, or that of their FETCH.
#[cold]
fn note_leases<'i>(proxy: &Proxy, ids: impl Iterator<Item = &'i str>, visibility: Option<Duration>) {
    let (table, now) = (proxy.shared.quotas.active.table(), proxy.shared.registry.clock().now());
    for lease in ids.filter_map(|id| proxy.shared.journal.lease_of(id)) {
        let slot = lease.place.and_then(|place| place.slot);
        if let Some(active) = slot.and_then(|key| table.get(&key)) {
            active.slots.note_lease(visibility.unwrap_or(lease.visibility).min(LEASE_MAX), now);
        }
    }
}

/// One answer out of those of all regions.
fn answer(
    proxy: &Proxy,
    exchange: &mut Exchange,
    (index, local): Heard,
    others: Vec<Heard>,
) -> Result<Response<Reply>, ErrorDocument> {
    note(proxy, exchange, index, &local.result);
    let is_down = local.result.as_ref().map_or(true, |answer| answer.status.is_server_error());
    let agreed: Vec<(RegionIndex, RegionAnswer)> =
        others.into_iter().filter_map(|(index, heard)| Some((index, heard.yes()?.clone()))).collect();
    let document = local.document(proxy, index);
    let mut bodies: Vec<Bytes> = agreed.iter().map(|(_, answer)| answer.body.clone()).collect();
    let mut base = local.result.ok();
    if is_down
        && let Some((other, answer)) = agreed.into_iter().find(|(_, it)| HeartbeatReply::read(&it.body).is_some())
    {
        // Its own leases are among the others' then, which changes nothing.
        exchange.region = Some(proxy.region(other).id.clone());
        base = Some(answer);
    } else if !base.as_ref().is_some_and(|answer| answer.status.is_success()) {
        bodies.clear();
    }
    match base {
        Some(answer) => {
            let body = answer.body.clone();
            let others: Vec<HeartbeatReply<'_>> = bodies.iter().filter_map(|body| HeartbeatReply::read(body)).collect();
            Ok(match HeartbeatReply::read(&body).filter(|_| answer.status.is_success()) {
                Some(own) => for_worker(proxy, answer, own.with(&body, &others, is_down)),
                None => answer.into(),
            })
        }
        None => Err(document.unwrap_or_else(|| ErrorDocument::owner_unavailable(None, 1))),
    }
}

/// The answer as SDKs read it: an order of a server in Go is copied to where they look.
fn for_worker(proxy: &Proxy, answer: RegionAnswer, mut said: Segments) -> Response<Reply> {
    if proxy.shared.config.compat.directive
        && let Some(copied) = heartbeat_state(&said.concat())
    {
        said = Segments::from_iter([Bytes::from(copied)]);
    }
    rewritten(answer, said)
}
