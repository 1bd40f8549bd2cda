//! The discovery of regions, for `/state`.

use serde_json::{Value, json};

use crate::base::text::rfc3339;
use crate::proxy::Shared;
use crate::region::discovery::{Rejected, ReportedRegion, SourceReport};

/// The state of the discovery; `null` where nothing is discovered.
///
/// Shape: `regions` with every region that a source names or that is in force, `sources` with the last good look of each, and
/// `rejected` with those that are turned away.
pub(super) fn document(shared: &Shared) -> Value {
    let report = shared.discovered.report();
    let Some(report) = report.as_ref() else { return Value::Null };
    json!({
        "regions": report.regions.iter().map(region).collect::<Vec<_>>(),
        "sources": report.sources.iter().map(source).collect::<Vec<_>>(),
        "rejected": report.rejected.iter().map(rejected).collect::<Vec<_>>(),
        "waiting": report.waiting,
    })
}

fn region(it: &ReportedRegion) -> Value {
    json!({
        "id": it.id.as_str(),
        "source": it.source.as_str(),
        "state": it.state,
        "proof": it.proof,
        "url": it.url,
        "wanted_url": it.wanted_url,
        "claimed_tags": it.claimed_tags,
        "waits": it.waits,
    })
}

fn source(it: &SourceReport) -> Value {
    json!({
        "source": it.source.as_str(),
        "last_good_look": it.good_unix_ms.map(rfc3339),
        "trouble": it.trouble,
    })
}

fn rejected(it: &Rejected) -> Value {
    json!({ "region": it.about, "reason": it.why.as_str() })
}
