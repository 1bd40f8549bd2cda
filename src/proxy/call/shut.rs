//! Calls that an open breaker or guard rejects.

use super::ask::refusal;
use super::exchange::Exchange;
use crate::base::SwitchKind;
use crate::ojs::{ErrorDocument, Operation};
use crate::policy::{GuardClass, RegionIndex};
use crate::proxy::state::Proxy;

/// When a call that creates jobs in an evacuated or isolated region is worth another try. Units: seconds.
const EVACUATED_RETRY_AFTER: u64 = 30;

/// Errors: 503 `region_unavailable` where a switch evacuates or isolates the region, for calls that create jobs and go to one region whatever routing says.
pub(crate) fn check_evacuated(proxy: &Proxy, index: RegionIndex) -> Result<(), ErrorDocument> {
    let view = proxy.shared.registry.view();
    let region = view.region(index);
    if !region.switch.is_some_and(SwitchKind::refuses_pinned) {
        return Ok(());
    }
    Err(ErrorDocument::region_unavailable(region.id.as_str(), region.breaker.as_str(), EVACUATED_RETRY_AFTER))
}

/// An open breaker and the loss of a spoke's hub reject all routed traffic, and an open guard that of its class. The one exception are words about jobs that the region leased: refused, they would make
/// it run those jobs again.
pub(crate) fn check_breaker(proxy: &Proxy, exchange: &mut Exchange, index: RegionIndex) -> Result<(), ErrorDocument> {
    let view = proxy.shared.registry.view();
    let region = view.region(index);
    exchange.attempts = None;
    let about_a_lease = matches!(
        exchange.matched.operation,
        Operation::Ack | Operation::Nack | Operation::Heartbeat | Operation::JobSettle
    );
    let class = GuardClass::of(exchange.matched.operation);
    if let Some(document) = refusal(proxy, region, class).filter(|_| !about_a_lease) {
        proxy.shared.registry.lacked(index);
        return Err(document);
    }
    exchange.region = Some(region.id.clone());
    Ok(())
}
