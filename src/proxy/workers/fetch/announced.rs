//! A server that schedules fairly itself, as its manifest says, gets the words of workers about turns as they are.
//!
//! Spec: fair-scheduling 12.

use std::time::Duration;

use http::StatusCode;

use crate::ojs::{SCHEDULING_EXTENSION, announces};
use crate::proxy::state::Proxy;
use crate::region::ask;

/// How long a FETCH waits for a manifest at most. It goes on as for a server without the extension then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the server of the local region schedules fairly itself, by its last manifest, which one call a minute reads first. The question counts for no breaker:
/// the worker has not asked it.
pub(super) async fn server_schedules(proxy: &Proxy) -> bool {
    let (announced, registry) = (&proxy.shared.announced, &proxy.shared.registry);
    let (known, is_due) = announced.schedules(registry.clock().now());
    if !is_due {
        return known;
    }
    let index = registry.view().local;
    match ask(proxy.region(index), proxy.pool(index), "/ojs/manifest", PATIENCE).await {
        Ok((StatusCode::OK, body)) => {
            let schedules = announces(&body, SCHEDULING_EXTENSION);
            announced.set(registry.clock().now(), schedules);
            schedules
        }
        Ok((StatusCode::NOT_FOUND, _)) => {
            announced.set(registry.clock().now(), false);
            false
        }
        _ => known,
    }
}
