//! What is refused, by which document, and that no region hears of it.

mod available;
mod body;
mod meta;

use crate::support::{Answer, Federation};

/// Stands in everything that is refused; no region may ever see it.
const NEEDLE: &str = "needle-5f1c";

/// A job with the needle, whose other members are these.
fn with(members: &str) -> String {
    format!(r#"{{"type":"t","args":["{NEEDLE}"]{members}}}"#)
}

async fn enqueue(federation: &Federation, body: impl Into<bytes::Bytes>) -> Answer {
    federation.client.enqueue(body).await
}

/// That nothing of what was refused has reached a region, in whatever form.
#[track_caller]
fn nothing_was_sent(federation: &Federation) {
    assert!(federation.seen(NEEDLE).is_empty(), "{:?}", federation.seen(NEEDLE));
    assert_eq!(federation.job_requests(), vec![0; federation.regions.len()]);
}
