//! Jobs whose reading or planning takes long: it is done aside, so that other calls of the thread go on.

use super::replay::is_named;
use crate::net::IncomingBody;
use crate::ojs::{Abridged, ErrorDocument};
use crate::proxy::{
    body::{collect::collect_body, encoding::Encoding, received::Reading},
    call::exchange::Exchange,
    routing::{
        asked::AskedHub,
        plan::{Planned, plan, plan_abridged},
    },
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
    let mut asked = AskedHub::of_call(is_named(exchange, None));
    let mut body = reading.body();
    while !body.gaps().is_empty() {
        let (text, gaps) = (body.text().clone(), body.gaps().to_vec());
        let tenant = tenant.clone();
        let work = move |proxy: &Proxy| {
            let (mut strategy, mut note) = (None, None);
            let body = Abridged::new(&text, &gaps);
            let planned = plan_abridged(proxy, body, tenant.as_deref(), &mut asked, &mut strategy, &mut note);
            (planned, strategy, note, asked)
        };
        let (planned, strategy, note, left) = proxy.offload(body.text().len(), work).await;
        asked = left;
        if asked.wait(proxy).await {
            continue;
        }
        if let Some(planned) = planned {
            (exchange.strategy, exchange.note) = (strategy, note);
            return planned;
        }
        reading.join(&proxy.shared.buffered).await;
        body = reading.body();
    }
    plan_asked(proxy, exchange, reading, tenant, asked).await
}

/// Plans a job that is all there, and again with each answer of the hub that it needs.
pub(super) async fn plan_asked(
    proxy: &Proxy,
    exchange: &mut Exchange,
    reading: &Reading,
    tenant: Option<String>,
    mut asked: AskedHub,
) -> Result<Planned, ErrorDocument> {
    loop {
        asked.wait(proxy).await;
        let (text, tenant) = (reading.body().text().clone(), tenant.clone());
        let work = move |proxy: &Proxy| {
            let (mut strategy, mut note) = (None, None);
            (plan(proxy, &text, tenant.as_deref(), &mut asked, &mut strategy, &mut note), strategy, note, asked)
        };
        let (planned, strategy, note, left) = proxy.offload(reading.body().text().len(), work).await;
        if !left.is_wanting() {
            (exchange.strategy, exchange.note) = (strategy, note);
            return planned;
        }
        asked = left;
    }
}
