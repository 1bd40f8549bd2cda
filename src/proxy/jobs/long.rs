//! Jobs whose reading or planning takes long: it is done aside, so that other calls of the thread go on.

use crate::net::IncomingBody;
use crate::ojs::{Abridged, ErrorDocument};
use crate::proxy::{
    body::{collect::collect_body, encoding::Encoding, received::Reading},
    call::exchange::Exchange,
    routing::plan::{Planned, plan, plan_abridged},
    state::Proxy,
};

/// Reads a job that is compressed.
pub(super) async fn compressed_job(
    proxy: &Proxy,
    body: IncomingBody,
    until: tokio::time::Instant,
) -> Result<Reading, ErrorDocument> {
    let body = collect_body(proxy, body, until).await?;
    Ok(Reading::begin(Encoding::Gzip.decoded(proxy, body).await?))
}

/// Plans a job that is long, or of which something is kept apart: without that, or with it where it takes that.
pub(super) async fn plan_long(
    proxy: &Proxy,
    exchange: &mut Exchange,
    reading: &mut Reading,
    tenant: Option<String>,
) -> Result<Planned, ErrorDocument> {
    let body = reading.body();
    if !body.gaps().is_empty() {
        let (text, gaps) = (body.text().clone(), body.gaps().to_vec());
        let tenant = tenant.clone();
        let work = move |proxy: &Proxy| {
            let (mut strategy, mut note) = (None, None);
            (
                plan_abridged(proxy, Abridged::new(&text, &gaps), tenant.as_deref(), &mut strategy, &mut note),
                strategy,
                note,
            )
        };
        if let (Some(planned), strategy, note) = proxy.offload(body.text().len(), work).await {
            (exchange.strategy, exchange.note) = (strategy, note);
            return planned;
        }
        reading.join(&proxy.shared.buffered).await;
    }
    let text = reading.body().text().clone();
    let work = move |proxy: &Proxy| {
        let (mut strategy, mut note) = (None, None);
        (plan(proxy, &text, tenant.as_deref(), &mut strategy, &mut note), strategy, note)
    };
    let (planned, strategy, note) = proxy.offload(reading.body().text().len(), work).await;
    (exchange.strategy, exchange.note) = (strategy, note);
    planned
}
