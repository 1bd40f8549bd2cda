//! Outcomes of the whole fleet: the reports of sidecars, and their list.

use std::time::Duration;

use serde_json::{Value, json};

use super::access::Caller;
use super::record::{OutcomeQuery, RecordError, SavedReport};
use super::response::Refusal;
use super::sidecar_request::read as read_request;
use super::state::Hub;
use crate::base::text::rfc3339;
use crate::fleet::{Reports, is_name};
use crate::ojs::query_text;
use crate::outcome::State;

/// Shown when the call does not say how many.
const LIMIT: usize = 100;
/// For a place among the requests that the record has: a fleet whose connections are new sends its reports at once.
const PLACE_WAIT: Duration = Duration::from_secs(1);
/// For reports to be durable; shorter than the sidecar's wait for the answer.
const SAVE_WAIT: Duration = Duration::from_secs(3);
/// The most that one answer shows.
const LIMIT_MAX: usize = 1_000;

/// Keeps the reports of a sidecar; they are durable when this returns.
///
/// Errors: nothing was kept; the sidecar sends them again.
pub(super) async fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<(), Refusal> {
    let Reports { sidecar, started_unix_ms, reports } = read_request(hub, caller, body)?;
    let received_unix_ms = hub.clock.unix_ms();
    let saved = |it: crate::fleet::Report| SavedReport {
        sidecar: sidecar.clone(),
        number: it.number,
        started_unix_ms,
        revision: it.revision,
        is_open: it.is_open(),
        state: it.state,
        document: it.row.to_string(),
        received_unix_ms,
    };
    let place = tokio::time::timeout(PLACE_WAIT, hub.report_places.acquire()).await;
    let _place = place.ok().and_then(Result::ok).ok_or(RecordError::Busy)?;
    let save = hub.record.save_reports(reports.into_iter().map(saved).collect());
    Ok(tokio::time::timeout(SAVE_WAIT, save).await.map_err(|_| RecordError::Slow)??)
}

/// The outcomes that a query selects. Shape: the last reported first; `?state=` and `?sidecar=` select, `?limit=` is the number, `?cursor=`
/// continues at `next_cursor` of an answer. The numbers by state are those of all.
///
/// Errors: 400 for a parameter that there is not.
pub(super) async fn list(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let wanted = read(query)?;
    // One more says whether there are more.
    let mut found = hub.record.outcomes(OutcomeQuery { max: wanted.max + 1, ..wanted.clone() }).await?;
    let next = (found.rows.len() > wanted.max).then(|| found.rows.truncate(wanted.max));
    let next = next.and_then(|()| found.rows.last()).map(|(mark, _)| mark.to_string());
    let rows: Vec<Value> = found.rows.iter().map(|(_, report)| shown(report)).collect();
    let counts: serde_json::Map<_, _> = found.counts.into_iter().map(|(state, count)| (state, json!(count))).collect();
    Ok(json!({ "counts": counts, "outcomes": rows, "next_cursor": next }))
}

fn shown(report: &SavedReport) -> Value {
    // This program has written it.
    let mut row: Value = serde_json::from_str(&report.document).unwrap_or_else(|_| json!({}));
    row["sidecar"] = json!(report.sidecar);
    row["reported_at"] = json!(rfc3339(report.received_unix_ms));
    row
}

fn read(query: &str) -> Result<OutcomeQuery, Refusal> {
    let mut wanted = OutcomeQuery { state: None, sidecar: None, before: None, max: LIMIT };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let refused = |expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        match name {
            "state" => {
                let state = State::parse(value).ok_or_else(|| refused(&State::ALL.map(State::as_str).join(", ")))?;
                wanted.state = Some(state.as_str());
            }
            "sidecar" => {
                let sidecar = Some(query_text(value)).filter(|name| is_name(name));
                wanted.sidecar = Some(sidecar.ok_or_else(|| refused("the name of a sidecar"))?);
            }
            "cursor" => {
                let before: Option<u64> = value.parse().ok().filter(|before| i64::try_from(*before).is_ok());
                wanted.before = Some(before.ok_or_else(|| refused("`next_cursor` of an answer"))?);
            }
            "limit" => {
                let max = value.parse().ok().filter(|max| (1..=LIMIT_MAX).contains(max));
                wanted.max = max.ok_or_else(|| refused("1 to 1000"))?;
            }
            _ => return Err(refused("`state`, `sidecar`, `limit` and `cursor` only")),
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_selects_by_state_and_sidecar_and_every_mistake_names_its_parameter() {
        let wanted = read("state=unknown&sidecar=pod%3A8080&limit=7&cursor=9").unwrap();
        let expected =
            OutcomeQuery { state: Some("unknown"), sidecar: Some("pod:8080".to_owned()), before: Some(9), max: 7 };
        assert_eq!(wanted, expected);
        for (query, name) in [
            ("state=lost", "`state`"),
            ("limit=0", "`limit`"),
            ("cursor=x", "`cursor`"),
            ("job=1", "`job`"),
            ("sidecar=%00", "`sidecar`"),
        ] {
            let refused = read(query).unwrap_err();
            assert!(format!("{refused:?}").contains(name), "{query}: {refused:?}");
        }
    }
}
