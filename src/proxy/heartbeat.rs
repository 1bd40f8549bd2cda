//! A worker is alive: every region that it holds jobs of, or fetched from, hears it, and hears of its own jobs only.
//!
//! Jobs of which nothing is known are named to every region, which costs no question more: the answers tell whose they are.
//! What the local region wants of the worker is the worker's to know; what another one wants only ends fetching there.
//!
//! Spec: ojs-protocol 2.4, 11 row 3.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::net::Arriving;
use bytes::Bytes;
use futures_util::future::{join, join_all};
use http::{Method, Request, Response};
use smallvec::SmallVec;

use super::ask::Question;
use super::attempt::RegionAnswer;
use super::exchange::Exchange;
use super::head::{Head, read};
use super::insist::{Insisted, insist, note, rewritten};
use super::{Proxy, Reply};
use crate::ojs::worker::{Beat, Beaten, Directive};
use crate::ojs::{Class, ErrorDocument, Segments, heartbeat_state};
use crate::policy::{GuardClass, RegionIndex, Repeat};
use crate::region::Workers;

/// The local region's answer does not wait longer for the others: a worker whose heartbeats are late loses its leases.
const OTHERS_MAX: Duration = Duration::from_secs(5);

/// Passes on that a worker is alive.
///
/// Errors: 400 for a body in which two servers could read two lists of jobs; when no region answered, 503
/// `owner_unavailable` where nothing reached the local one, else 504.
pub(super) async fn heartbeat(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<Arriving>,
) -> Result<Response<Reply>, ErrorDocument> {
    let (head, body) = read(proxy, exchange, request).await?;
    let depth_max = proxy.shared.config.limits.json_depth;
    let beat = Beat::read(&body, depth_max).map_err(|fault| ErrorDocument::from_fault(&fault))?;
    let started = Instant::now();
    let split = Split::of(proxy, &beat);
    let worker_id = beat.worker_id();
    let worker = worker_id.as_deref().and_then(Workers::name);
    let heard = everywhere(proxy, exchange.matched.class, &head, &split, |index| {
        let array = proxy.shared.config.compat.heartbeat_ids;
        beat.part(&body, array, |id| split.concerns(id, index)).into_vec()
    });
    let (local, others) = heard.await;
    exchange.upstream = started.elapsed();
    learn(proxy, &split, worker, &local, &others);
    answer(proxy, exchange, local, others)
}

/// Which region hears of which job.
struct Split {
    local: RegionIndex,
    /// The regions beside the local one.
    others: Vec<RegionIndex>,
    owners: HashMap<String, RegionIndex>,
    /// Jobs of which nothing is known: every region hears of them.
    unknown: HashSet<String>,
}

impl Split {
    fn of(proxy: &Proxy, beat: &Beat<'_>) -> Self {
        let view = proxy.shared.registry.view();
        let mut split = Self { local: view.local, others: Vec::new(), owners: HashMap::new(), unknown: HashSet::new() };
        for id in beat.ids() {
            let shared = &proxy.shared;
            let region = shared.owners.region_of(id).or_else(|| shared.workers.strangers.region_of(id));
            match region.and_then(|region| view.index_of(region.as_str())) {
                Some(index) => drop(split.owners.insert(id.to_owned(), index)),
                None => drop(split.unknown.insert(id.to_owned())),
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
        self.owners.get(id).is_none_or(|owner| *owner == index)
    }
}

/// One region's word, and whose it is.
type Heard = (RegionIndex, Insisted);

/// Tells all regions at once.
async fn everywhere(
    proxy: &Proxy,
    class: Class,
    head: &Head,
    split: &Split,
    part: impl Fn(RegionIndex) -> Vec<Bytes>,
) -> (Heard, Vec<Heard>) {
    let begun = tokio::time::Instant::now();
    let left = head.deadline.saturating_duration_since(begun);
    let part = &part;
    let tell = |index: RegionIndex, within: Duration| async move {
        let question = Question {
            method: Method::POST,
            path: head.path.clone(),
            headers: head.headers.clone(),
            body: part(index),
            deadline: begun + within,
            guard: GuardClass::Heartbeat,
            leased: true,
        };
        (index, insist(proxy, class, index, &question, Repeat::Freely).await)
    };
    let others = split.others.iter().map(|index| tell(*index, OTHERS_MAX.min(left / 2)));
    join(tell(split.local, left), join_all(others)).await
}

impl Insisted {
    /// A whole answer that says yes.
    fn yes(&self) -> Option<&RegionAnswer> {
        self.result.as_ref().ok().filter(|answer| answer.status.is_success())
    }
}

/// Remembers what the answers have shown.
fn learn(proxy: &Proxy, split: &Split, worker: Option<&str>, local: &Heard, others: &[Heard]) {
    let shared = &proxy.shared;
    let now = shared.registry.clock().now();
    let (mut nowhere, mut found) = (true, HashSet::new());
    for (index, insisted) in std::iter::once(local).chain(others) {
        let Some(beaten) = insisted.yes().and_then(|answer| Beaten::read(&answer.body)) else {
            nowhere = false;
            continue;
        };
        let region = &proxy.region(*index).id;
        if let Some(worker) = worker.filter(|_| *index != split.local) {
            shared.workers.told(worker, region, beaten.directive() > Directive::Continue, now);
        }
        nowhere &= beaten.tells_extended();
        for id in beaten.extended() {
            if split.unknown.contains(id) {
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
    if is_down && let Some((other, answer)) = agreed.into_iter().find(|(_, it)| Beaten::read(&it.body).is_some()) {
        // Its own leases are among the others' then, which changes nothing.
        exchange.region = Some(proxy.region(other).id.clone());
        base = Some(answer);
    } else if !base.as_ref().is_some_and(|answer| answer.status.is_success()) {
        bodies.clear();
    }
    match base {
        Some(answer) => {
            let body = answer.body.clone();
            let others: Vec<Beaten<'_>> = bodies.iter().filter_map(|body| Beaten::read(body)).collect();
            Ok(match Beaten::read(&body).filter(|_| answer.status.is_success()) {
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
