//! `GET /ojs/v1/health`, answered by us: clients ask before they enqueue, so that the answer is about the federation
//! and not about the local region.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use crate::ojs::header::{MEDIA_TYPE, VERSION};
use crate::policy::{BreakerState, Health, RegionView, View};
use crate::proxy::state::{Proxy, Reply};

/// Whether a flexible job may be sent to the region. A region that was never probed counts: it is tried, last.
#[must_use]
pub fn is_usable(region: &RegionView) -> bool {
    let is_open = !region.is_drained() && !region.is_cut_off;
    region.breaker == BreakerState::Closed && region.health != Health::Unhealthy && is_open
}

/// `ok` while a region is usable, else 503. Spec: federation-spec §4.2.
pub(crate) fn health(proxy: &Proxy) -> Response<Reply> {
    let view = proxy.shared.registry.view();
    let usable = usable_regions(&view);
    let (status, word, backend) = if usable > 0 {
        (StatusCode::OK, "ok", "connected")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "degraded", "disconnected")
    };
    let body = json!({
        "status": word,
        "version": ojs_version(proxy, &view),
        "uptime_seconds": proxy.shared.started.elapsed().as_secs(),
        "backend": { "type": "federation", "status": backend },
        "federation": {
            "usable_regions": usable,
            "total_regions": view.regions.len(),
            "sidecar_version": env!("CARGO_PKG_VERSION"),
        },
    });
    let mut response = Response::new(Reply::full(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// The version of OJS that the local region reports, else the first region that reports one, else the one that we speak.
fn ojs_version(proxy: &Proxy, view: &View) -> String {
    let regions = std::iter::once(view.local).chain(view.indexes());
    let reported = regions.filter_map(|index| proxy.region(index).ojs_version()).next();
    reported.map_or_else(|| VERSION.to_owned(), |version| version.as_str().to_owned())
}

fn usable_regions(view: &View) -> usize {
    view.regions.iter().filter(|region| is_usable(region)).count()
}
