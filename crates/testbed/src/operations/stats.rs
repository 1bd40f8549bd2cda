//! Figures of the whole region: as they stand, and as they were.

use http::request::Parts;
use http::{Response, StatusCode};

use crate::answer::{Body, Object, document};
use crate::context::Context;
use crate::dialect::Dialect;
use crate::flow::Tally;
use crate::members::Invalid;
use crate::moment::Moment;
use crate::problem::Problem;
use crate::query::parameter;
use crate::state::JobState;
use crate::text::rfc3339;

/// The most rows of one history: a day of minutes.
const ROWS_MAX: u64 = 1_440;

/// The periods of a history, in minutes; the second one is the usual one.
const PERIODS: [(&str, u64); 4] = [("1m", 1), ("5m", 5), ("1h", 60), ("1d", 1_440)];

fn throughput(tally: Tally) -> String {
    let object = Object::new().number("processed_per_minute", tally.processed);
    object.number("failed_per_minute", tally.failed).finish()
}

/// The documents have the figures of all jobs below `jobs`; here they stand at the top as well, in the dialect of the documents.
pub(super) fn admin_stats(context: &Context) -> Response<Body> {
    let (queues, workers, tally) = {
        let mut store = context.store.lock();
        (store.queues(), store.select_workers().len(), store.flow().per_minute(context.clock.unix_ms()))
    };
    let sum = |state: JobState| queues.iter().map(|queue| queue.counts.of(state)).sum::<u64>();
    let sums = |object| {
        JobState::ALL.into_iter().fold(object, |object: Object, state| object.number(state.as_str(), sum(state)))
    };
    let uptime = context.clock.now().saturating_duration_since(context.started).as_secs();
    let object = Object::new()
        .number("queues", queues.len())
        .number("workers", workers)
        .raw("jobs", &sums(Object::new()).finish())
        .raw("throughput", &throughput(tally))
        .number("uptime_seconds", uptime);
    let object = match context.reading.dialect {
        Dialect::Spec => sums(object.number("depth", sum(JobState::Available) + sum(JobState::Active))),
        Dialect::Reference | Dialect::Redis => object,
    };
    document(StatusCode::OK, object.finish())
}

/// A time in the query.
///
/// Errors: [`Invalid::Member`] for a text that is none.
fn moment(head: &Parts, name: &'static str, now_ms: u64) -> Result<Option<u64>, Problem> {
    let Some(text) = parameter(&head.uri, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let at: Moment = serde_json::from_value(text.into()).map_err(|_| Invalid::Member(name, Moment::RULE))?;
    Ok(Some(at.unix_ms(now_ms)))
}

/// `GET admin/stats/history`: one row a period, whether or not anything happened in it; of the last hour unless asked otherwise.
pub(super) fn history(context: &Context, head: &Parts) -> Result<Response<Body>, Problem> {
    let now_ms = context.clock.unix_ms();
    let asked = parameter(&head.uri, "period").filter(|text| !text.is_empty());
    let asked = asked.as_deref().unwrap_or(PERIODS[1].0);
    let period = PERIODS.into_iter().find(|(name, _)| *name == asked);
    let (name, minutes) = period.ok_or(Invalid::Member("period", "is 1m, 5m, 1h or 1d"))?;
    let until = moment(head, "until", now_ms)?.unwrap_or(now_ms).min(now_ms) / 60_000;
    let since = moment(head, "since", now_ms)?.map_or(until.saturating_sub(60), |since_ms| since_ms / 60_000);
    let (first, last) = (since / minutes, until / minutes);
    let first = first.max(last.saturating_sub(ROWS_MAX - 1));
    let queue = parameter(&head.uri, "queue").filter(|name| !name.is_empty());
    let mut store = context.store.lock();
    let rows = (first..=last).map(|row| {
        let start = row * minutes;
        let tally = store.flow().between(start..start + minutes, queue.as_deref());
        Object::new()
            .text("timestamp", &rfc3339(start * 60_000))
            .number("processed", tally.processed)
            .number("failed", tally.failed)
            .number("enqueued", tally.enqueued)
            .finish()
    });
    let rows: Vec<String> = rows.collect();
    Ok(document(StatusCode::OK, Object::new().text("period", name).array("data", rows).finish()))
}
