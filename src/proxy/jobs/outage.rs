//! An enqueue that no region takes: into the outage spool, where its queue is spooled.
//!
//! Only refusals are spooled that say that no permitted region can take the job now, and that none has it. An unknown outcome never is.

use std::time::{Duration, Instant};

use crate::base::Reason;
use crate::journal::ID_BYTES_MAX;
use crate::ojs::ErrorDocument;
use crate::ojs::header::QUEUE_STATUS;
use crate::proxy::{
    body::received::Reading,
    call::{exchange::Exchange, head::Head, header_flags::HeaderFlags},
    placement::{self, Names, identity, job::Job},
    spooled::{self, RETRY_AFTER},
    state::{Proxy, Ran, RegionAnswer, Spooling},
};
use crate::spool::{Content, Refused, Stored, Way};

/// Decides whether a job goes behind others of its queue. Returns the answer of a job that is a repetition of one that is spooled.
///
/// Errors: 503 for a job that can be sent nowhere and cannot be spooled, 409 for the repetition of one that is set aside.
pub(super) async fn admit(
    proxy: &Proxy,
    exchange: &mut Exchange,
    spooling: &mut Spooling,
    head: &Head,
    reading: &Reading,
    (job_id, is_own_id): (Option<&str>, bool),
) -> Result<Option<RegionAnswer>, ErrorDocument> {
    let Some(spool) = proxy.shared.spool.as_deref() else { return Ok(None) };
    let is_named = is_own_id || spooling.own_federation_id.is_some();
    let way = spool.way(&spooling.lane, is_named);
    if way == Way::NotRead {
        return Err(ErrorDocument::spool_behind("not_read", RETRY_AFTER));
    }
    spooling.behind = way == Way::Behind;
    // An own id is looked for once the call has its turn among its repetitions.
    if let Some(federation_id) = spooling.own_federation_id.as_deref().filter(|_| !is_own_id) {
        let body = reading.body();
        let known = spooled::repeated_by_federation_id(proxy, &head.headers, federation_id, &body.pieces()).await?;
        if known.is_some() {
            return Ok(known);
        }
    }
    let is_keyed = exchange.header_flags.has(HeaderFlags::IDEMPOTENCY_KEY) && proxy.shared.config.idempotency.enabled;
    let why = match job_id {
        _ if is_keyed => "idempotency_key",
        Some(id) if id.len() <= ID_BYTES_MAX => return Ok(None),
        _ => "no_id",
    };
    if spooling.behind {
        return Err(ErrorDocument::spool_behind(why, RETRY_AFTER));
    }
    spooling.is_unfit = true;
    match spooling.refusal.take() {
        Some(refusal) => Err(refusal),
        None => Ok(None),
    }
}

/// The end of a job that is sent nowhere: it goes behind others, or routing found no region.
pub(super) async fn not_tried(proxy: &Proxy, job: &mut Job, spooling: &Spooling) -> Ran {
    let behind = || ErrorDocument::spool_behind("not_spooled", RETRY_AFTER);
    let document = spooling.refusal.clone().filter(|_| !spooling.behind).unwrap_or_else(behind);
    refused(proxy, job, document).await
}

/// The end of a job that is sent nowhere, with this answer to its client.
pub(super) async fn refused(proxy: &Proxy, job: &mut Job, document: ErrorDocument) -> Ran {
    let began = Instant::now();
    let result = placement::ended(proxy, job, None, Err(document)).await;
    let upstream = if began.elapsed() > Duration::ZERO { began.elapsed() } else { Duration::ZERO };
    Ran { result, stored: None, region: None, moved_from: None, attempts: 0, outcome: None, upstream }
}

/// Whether a job is spooled because of this end.
pub(super) fn is_outage(spooling: &Spooling, ran: &Ran) -> bool {
    match &ran.result {
        _ if spooling.is_unfit => false,
        Err(document) if spooling.behind => document.reason == Reason::SpoolBehind,
        Err(document) => is_no_region(document),
        // A region's own word that it takes no job now; of one queue it may be an order.
        Ok(answer) => answer.status.as_u16() == 503 && !answer.headers.contains_key(QUEUE_STATUS),
    }
}

/// Whether a refusal says that no permitted region can take the job now.
pub(super) const fn is_no_region(document: &ErrorDocument) -> bool {
    matches!(document.reason, Reason::NoHealthyRegion | Reason::RegionUnavailable | Reason::HubUnavailable)
}

/// Spools a job, and puts the answer to its client into `ran`.
pub(super) async fn spool(proxy: &Proxy, job: &mut Job, spooling: Spooling, ran: &mut Ran) {
    let Some(spool) = proxy.shared.spool.as_deref() else { return };
    let Some(id) = job.job_id.clone().filter(|id| id.len() <= ID_BYTES_MAX) else { return };
    let length: usize = job.call.body.iter().map(bytes::Bytes::len).sum();
    if length > crate::spool::BODY_BYTES_MAX {
        refuse(ran, &spooling, Refused::TooLong);
        return;
    }
    let headers = job.call.headers.all().into_owned();
    let names = Names { own_id: Some(&id), key: None };
    let head = crate::spool::Head {
        identity: identity(proxy, &headers, names, &job.trail.received.pieces(&job.call.body)),
        federation_id: job.trail.stamp(),
        is_own_federation_id: spooling.own_federation_id.is_some(),
        lane: spooling.lane.clone(),
        unix_ms: proxy.shared.registry.clock().unix_ms(),
    };
    let body = job.call.body.concat().into();
    let content = Content { path: job.call.path.clone(), headers, body };
    let copies = std::mem::take(&mut job.trail.left);
    let shown = content.body.clone();
    ran.result = match spool.store(head, content, copies, proxy.random.nonce()).await {
        Stored::Held => Ok(spooled::accepted(&id, &shown)),
        Stored::Known(known) => spooled::held(spool, &known).await,
        Stored::Refused(why) => return refuse(ran, &spooling, why),
        Stored::Unknown => Err(ErrorDocument::spool_unknown(&id)),
    };
    ran.region = None;
}

/// The answer to a job that is not spooled: as without a spool, unless it must not overtake others.
fn refuse(ran: &mut Ran, spooling: &Spooling, why: Refused) {
    if spooling.behind {
        let why = match why {
            Refused::TooLong => "too_long",
            Refused::Full => "full",
            Refused::Unusable => "unusable",
        };
        ran.result = Err(ErrorDocument::spool_behind(why, RETRY_AFTER));
    }
}
