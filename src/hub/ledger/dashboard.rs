//! `GET /api/dashboard/metrics`, and its feed: the figures of the ledger for a console. Spec: source-job-orchestrator §1, §4.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::super::ledger_desk::Ledger;
use super::super::ledger_figures::{LATENCY_BOUNDS, StepCounts, Subject};
use super::super::ledger_step::Step;
use super::super::response::{Body, Refusal};
use super::super::state::Hub;
use super::present::present;
use crate::base::text::rfc3339;

/// Between two events of a feed.
const EVERY: Duration = Duration::from_secs(5);
/// Between two counts of the jobs that wait.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// The figures now.
///
/// Errors: 404 without a ledger.
pub(in crate::hub) fn metrics(hub: &Hub) -> Result<Value, Refusal> {
    Ok(document(hub, present(hub)?))
}

/// Server-sent events `metrics` with the figures, at once and every five seconds, until the hub ends.
///
/// Errors: 404 without a ledger, 503 where as many feeds are open as may be.
pub(in crate::hub) fn feed(hub: Rc<Hub>) -> Result<Body, Refusal> {
    let places = std::sync::Arc::clone(&present(&hub)?.feeds);
    let place = places.try_acquire_owned().map_err(|_| {
        let message = "as many dashboard feeds are open as may be: close one, or ask /api/dashboard/metrics".to_owned();
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_feeds", message)
    })?;
    let events = futures_util::stream::unfold((hub, place, true), |(hub, place, is_first)| async move {
        let event = next(&hub, &place, is_first).await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), (hub, place, false)))
    });
    Ok(Box::pin(StreamBody::new(events)))
}

async fn next(hub: &Hub, _place: &OwnedSemaphorePermit, is_first: bool) -> Option<Bytes> {
    let mut ending = hub.follow_ending();
    if !is_first {
        tokio::select! {
            () = hub.clock.sleep(EVERY) => {}
            _ = ending.changed() => return None,
        }
    }
    let figures = document(hub, hub.ledger.as_ref()?);
    Some(Bytes::from(format!("event: metrics\ndata: {figures}\n\n")))
}

fn document(hub: &Hub, ledger: &Ledger) -> Value {
    let figures = &ledger.figures;
    let subjects = figures.subjects().into_iter().map(|(subject, counts)| {
        let completed: u64 = counts.within.iter().sum();
        let mut within = 0;
        let buckets = LATENCY_BOUNDS.iter().zip(&counts.within).map(|(bound, count)| {
            within += count;
            json!({ "withinSeconds": bound, "jobs": within })
        });
        let buckets: Vec<_> = buckets.collect();
        let mut shown = named(&subject);
        shown["steps"] = steps(&counts.steps);
        shown["latency"] = json!({ "jobs": completed, "sumSeconds": counts.latency_sum, "buckets": buckets });
        shown
    });
    let minutes = figures.minutes().into_iter().map(|(begun_ms, counts)| {
        let mut shown = json!({ "minute": rfc3339(begun_ms) });
        shown["steps"] = steps(&counts);
        shown
    });
    let (counted_ms, depth) = figures.depth();
    let depth = depth.iter().map(|(subject, jobs)| {
        let mut shown = named(subject);
        shown["jobs"] = json!(jobs);
        shown
    });
    let current = hub.current().in_force();
    let switches = current.iter().map(|it| {
        json!({ "switch": it.kind.as_str(), "subject": it.subject.to_string(), "endsAt": rfc3339(it.ends_unix_ms), "reason": it.reason, "ticket": it.ticket })
    });
    json!({
        "at": rfc3339(hub.clock.unix_ms()),
        "queueDepth": depth.collect::<Vec<_>>(),
        "queueDepthAt": (counted_ms > 0).then(|| rfc3339(counted_ms)),
        "subjects": subjects.collect::<Vec<_>>(),
        "minutes": minutes.collect::<Vec<_>>(),
        "switches": switches.collect::<Vec<_>>(),
    })
}

fn named(subject: &Subject) -> Value {
    json!({ "jobType": subject.job_type, "tenant": subject.tenant })
}

fn steps(counts: &StepCounts) -> Value {
    let taken = Step::ALL.iter().zip(counts).filter(|(_, count)| **count > 0);
    taken.map(|(step, count)| (step.as_str().to_owned(), json!(count))).collect::<Map<_, _>>().into()
}

/// Counts the jobs that wait each minute, for ever.
pub(in crate::hub) async fn count_depth(hub: &Hub) {
    let Some(ledger) = &hub.ledger else { return std::future::pending().await };
    let mut failures = super::super::follow::Failures::default();
    loop {
        let counted = hub.record.ledger_depth().await;
        failures.note(&counted);
        if let Ok(counted) = counted {
            let depth = counted
                .into_iter()
                .map(|(job_type, tenant, jobs)| (Subject::new(job_type.as_deref(), tenant.as_deref()), jobs));
            ledger.figures.note_depth(depth.collect(), hub.clock.unix_ms());
        }
        hub.clock.sleep(COUNT_EVERY).await;
    }
}
