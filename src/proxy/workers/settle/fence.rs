//! An acknowledgement that comes when its lease is over: it may be about a job that another worker has by now.
//!
//! Servers keep `worker_id` and `started_at` of the FETCH and show both in a look-up. So one question shows whether the
//! attempt is still the one that this sidecar has handed out. Leases that came through another sidecar are not known,
//! and pass.
//!
//! Spec: ojs-protocol 2.2, 2.3.

use http::StatusCode;

use super::look_up::look_up;
use crate::journal;
use crate::ojs::ErrorDocument;
use crate::ojs::answer::is_error_document;
use crate::ojs::worker::Leased;
use crate::policy::{RegionIndex, Repeat};
use crate::proxy::{
    call::{ask::ask, exchange::Exchange, head::Head},
    state::{Proxy, RegionAnswer},
};

/// The lease that an acknowledgement is about.
pub(super) struct Lease {
    /// The region that has leased the job.
    pub(super) region: RegionIndex,
    lease: journal::Lease,
    repeat: Repeat,
}

/// The verdict on an acknowledgement.
pub(super) enum Fenced {
    /// It goes to the region.
    Passes,
    /// The region has answered already: it does not have the job.
    Answered(RegionAnswer),
}

impl Lease {
    /// The remembered lease of a job; `None` for calls that do not end one, and where its region is no longer
    /// registered: the job is then looked for, as the region may have another name by now.
    pub(super) fn of(proxy: &Proxy, id: &str, repeat: Repeat) -> Option<Self> {
        if !matches!(repeat, Repeat::Ack | Repeat::Nack) {
            return None;
        }
        let lease = proxy.shared.journal.lease_of(id)?;
        let region = proxy.shared.registry.view().index_of(lease.region.as_str())?;
        Some(Self { region, lease, repeat })
    }

    /// Whether the acknowledgement of a worker may be sent: within the lease, or when the region still shows the
    /// attempt of the lease. A region that refuses look-ups decides alone.
    ///
    /// Errors: 409 `lease_lost` for another attempt; 503 `owner_unavailable` when the region does not answer, and nothing was sent.
    pub(super) async fn fence(
        &self,
        proxy: &Proxy,
        exchange: &mut Exchange,
        head: &Head,
        worker_id: Option<&str>,
    ) -> Result<Fenced, ErrorDocument> {
        let lease = &self.lease;
        // Of a worker that says its name and is not the one of the lease, the lease is an earlier one.
        let is_other = worker_id.is_some_and(|worker| lease.worker_id.as_deref().is_some_and(|known| known != worker));
        if !is_other && lease.holds(proxy.shared.registry.clock().now()) {
            return Ok(Fenced::Passes);
        }
        let region = proxy.region(self.region).id.clone();
        let Some(look) = look_up(&lease.job_id, &head.headers, head.deadline) else { return Ok(Fenced::Passes) };
        let asked = ask(proxy, exchange.matched.class, self.region, look).await;
        exchange.region = Some(region.clone());
        let answer = asked.map_err(|silence| silence.document(proxy, self.region))?;
        let [known_worker, known_start] = [&lease.worker_id, &lease.started_at].map(Option::as_deref);
        match answer.status {
            StatusCode::OK => {
                let shown = Leased::read(&answer.body).ok_or_else(|| unclear(region.as_str()))?;
                let start = known_start.filter(|_| !is_other);
                let is_ours = shown.is_of(worker_id.filter(|_| is_other).or(known_worker), start);
                if is_ours { Ok(Fenced::Passes) } else { Err(ErrorDocument::lease_lost(region.as_str())) }
            }
            StatusCode::NOT_FOUND if is_error_document(&answer.body) => Ok(Fenced::Answered(answer)),
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                Err(unclear(region.as_str()))
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Err(unclear(region.as_str())),
            _ => Ok(Fenced::Passes),
        }
    }

    /// The region has taken the acknowledgement.
    pub(super) fn end(self, proxy: &Proxy) {
        proxy.shared.journal.end_lease(self.lease.number, self.repeat == Repeat::Ack);
    }
}

/// The region cannot answer now, and the worker may ask again.
fn unclear(region: &str) -> ErrorDocument {
    ErrorDocument::owner_unavailable(Some(region), 1)
}
