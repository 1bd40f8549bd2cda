//! Calls that an open breaker or guard rejects.

use super::ask::shut_for;
use super::exchange::Exchange;
use crate::ojs::{ErrorDocument, Operation};
use crate::policy::{GuardClass, RegionIndex};
use crate::proxy::state::Proxy;

/// An open breaker rejects all routed traffic, and an open guard that of its class. The one exception are words about jobs that the region leased: refused, they would make
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
    if let Some(wait) = shut_for(proxy, region, class).filter(|_| !about_a_lease) {
        return Err(ErrorDocument::owner_unavailable(Some(region.id.as_str()), wait));
    }
    exchange.region = Some(region.id.clone());
    Ok(())
}
