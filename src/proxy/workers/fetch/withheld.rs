//! Which jobs of regions may be given to workers here.

use crate::ojs::worker::ClaimedJob;
use crate::policy::{RegionIndex, permits};
use crate::proxy::{routing::plan::with_job, state::Proxy};
use crate::telemetry::{RemoteFetch, event};

/// Whether workers get nothing from a region by now, also while it held the call back: it is isolated, or the hub is not heard.
pub(super) fn is_withheld(proxy: &Proxy, index: RegionIndex) -> bool {
    let view = proxy.shared.registry.view();
    view.fetch_waits || view.region(index).is_isolated()
}

/// Whether a job of another region may run here. One that may not is left to its lease, and its queue to the local region: the
/// operator has declared it free of such jobs, and it is not.
pub(super) fn may_be_given(proxy: &Proxy, index: RegionIndex, job: &ClaimedJob<'_>) -> bool {
    let (shared, metrics) = (&proxy.shared, proxy.metrics(index));
    if is_withheld(proxy, index) {
        metrics.remote_fetches[RemoteFetch::Left].inc();
        return false;
    }
    let view = shared.registry.view();
    let permitted = job.envelope().is_ok_and(|envelope| {
        with_job(&envelope, |job| permits(&view, job, view.local)).is_ok_and(|permitted| permitted)
    });
    // A job that cannot be named cannot be acknowledged either.
    if permitted && !job.id.is_empty() {
        metrics.remote_fetches[RemoteFetch::Given].inc();
        return true;
    }
    metrics.remote_fetches[RemoteFetch::Left].inc();
    let declared = shared.config.workers.remote_fetch.iter().any(|queue| *queue == job.queue);
    if declared && shared.unfit.add(&job.queue) {
        event::remote_fetch_off(metrics, &job.queue);
    }
    false
}
