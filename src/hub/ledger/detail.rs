//! `GET /api/jobs/{id}`: one job with its leases and its history.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::ledger_step::Step;
use super::super::record::{LedgerRow, RecordError};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::filter::read_job;
use super::job::Job;
use super::list::shown;
use super::present::present;
use super::row::HistoryRow;
use crate::base::text::{read_rfc3339, rfc3339};
use crate::ojs::query_text;
use crate::replica::{NEAR_MS, is_text};

/// Rows of one copy in an answer: some hundred attempts.
const ROWS_MAX: usize = 1_000;

/// Every copy of a job that the ledger has: in each region, or in the one of a query `region=REGION`.
///
/// Errors: 400 for another query, 404 where the ledger has no such job.
pub(in crate::hub) async fn detail(hub: &Hub, id: &str, query: &str) -> Result<Value, Refusal> {
    present(hub)?;
    let id = query_text(id);
    if !is_text(&id) {
        return Err(Refusal::bad_request("expected an id of 1 to 255 bytes without control characters".to_owned()));
    }
    let region = match query.strip_prefix("region=") {
        Some(region) if !region.contains('&') => Some(query_text(region)),
        None if query.is_empty() => None,
        _ => return Err(Refusal::bad_request("expected no query, or `region=REGION`".to_owned())),
    };
    let (mut copies, now_ms) = (Vec::new(), hub.clock.unix_ms());
    for saved in hub.record.ledger_job(id).await? {
        let job = read_job(&saved)?;
        if job.is_off || region.as_ref().is_some_and(|region| *region != saved.region) {
            continue;
        }
        let copy = (saved.job_id.clone(), saved.region.clone());
        let rows = hub.record.ledger_history(copy, ROWS_MAX).await?;
        let mut document = shown(&saved, &job);
        document["metrics"] = metrics(&job);
        document["leases"] = json!(leases(&rows, job.lease_until_ms, now_ms)?);
        document["history"] = json!(rows.iter().map(shown_row).collect::<Result<Vec<_>, _>>()?);
        document["historyCut"] = json!(rows.len() == ROWS_MAX);
        copies.push(document);
    }
    if copies.is_empty() {
        let message = "the ledger has no such job: no sidecar has reported it with `hub.ledger: metadata`, it was erased, or its time is over";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "job_not_found", message.to_owned()));
    }
    Ok(json!({ "copies": copies }))
}

/// Units: milliseconds; none before it has happened.
fn metrics(job: &Job) -> Value {
    let between = |from: Option<u64>, to: Option<u64>| from.zip(to).map(|(from, to)| to.saturating_sub(from));
    json!({
        "attempts": job.attempts(),
        "failures": job.failures(),
        "extensions": job.extensions,
        "waitMs": between(Some(job.enqueued_ms()), job.started_ms),
        "runMs": between(job.started_ms, job.ended_ms),
        "totalMs": between(Some(job.enqueued_ms()), job.ended_ms),
    })
}

/// The record of a row; none of one that was erased.
///
/// Errors: [`RecordError::Content`].
fn record_of<T: DeserializeOwned>(row: &LedgerRow) -> Result<Option<T>, RecordError> {
    let record = row.line.as_ref().map(|line| serde_json::from_str(line)).transpose();
    record.map_err(|_| RecordError::Content("a record of the ledger of a later version"))
}

/// A row with its digest and its place.
fn shown_row(row: &LedgerRow) -> Result<Value, RecordError> {
    let record: Option<Value> = record_of(row)?;
    Ok(json!({ "record": record, "digest": format!("sha256:{}", data_encoding::HEXLOWER.encode(&row.leaf)) }))
}

/// One lease of a job.
#[derive(Debug, Default)]
struct Lease {
    worker: Option<String>,
    until: Option<String>,
    extensions: u32,
    end: Option<(Step, String)>,
    /// Whether an event showed it first.
    is_observed: bool,
}

/// The leases, in order, each with its end. `until_ms`: when the last one ends, where it is not over. One that a later lease has followed without an end has timed out, as has one whose time is over.
///
/// Errors: [`RecordError::Content`].
fn leases(rows: &[LedgerRow], until_ms: Option<u64>, now_ms: u64) -> Result<Vec<Value>, RecordError> {
    let mut leases: BTreeMap<u64, Lease> = BTreeMap::new();
    let mut without_lease: Vec<(Step, String)> = Vec::new();
    for row in rows {
        let Some(row) = record_of::<HistoryRow>(row)? else { continue };
        let of_lease = row.lease_id.as_ref().and_then(|id| id.parse::<u64>().ok());
        let is_begin = matches!(row.event, Step::Leased | Step::Extended);
        let is_end =
            matches!(row.event, Step::Succeeded | Step::Failed | Step::Retried | Step::DeadLettered | Step::Canceled);
        match of_lease {
            Some(lease_ms) if is_begin || is_end => {
                // The events of a region and its answers to a sidecar may differ by some milliseconds.
                let is_observed = row.observed_by.is_some();
                let mut near = leases.range(lease_ms.saturating_sub(NEAR_MS)..=lease_ms.saturating_add(NEAR_MS));
                let other = near.find(|(_, lease)| lease.is_observed != is_observed).map(|(began_ms, _)| *began_ms);
                let lease =
                    leases.entry(other.unwrap_or(lease_ms)).or_insert(Lease { is_observed, ..Lease::default() });
                lease.worker = row.worker.or(lease.worker.take());
                lease.until = row.lease_until.max(lease.until.take());
                lease.extensions += u32::from(row.event == Step::Extended);
                if is_end {
                    lease.end = Some((row.event, row.at));
                }
            }
            _ if is_end => without_lease.push((row.event, row.at)),
            _ => {}
        }
    }
    // A failure that the events show, or of a sidecar that was restarted, is that of the lease before it; a last end is that of the last lease.
    for (step, at) in without_lease {
        let is_last = matches!(step, Step::Succeeded | Step::DeadLettered | Step::Canceled);
        let before_ms = read_rfc3339(&at).filter(|_| !is_last).unwrap_or(u64::MAX);
        let lease = leases.range_mut(..=before_ms).next_back();
        if let Some((_, lease)) = lease {
            lease.end.get_or_insert((step, at));
        }
    }
    // Extensions within a minute have one row.
    if let Some((last, until_ms)) = leases.values_mut().next_back().zip(until_ms) {
        last.until = Some(rfc3339(until_ms)).max(last.until.take());
    }
    let last = leases.keys().next_back().copied();
    let shown = |(began_ms, lease): (u64, Lease)| {
        let is_over = Some(began_ms) != last
            || lease.until.as_deref().and_then(read_rfc3339).is_some_and(|until_ms| until_ms < now_ms);
        let end = match &lease.end {
            Some((step, _)) => Some(step.as_str()),
            None => is_over.then_some("timed_out"),
        };
        json!({
            "leaseId": began_ms.to_string(),
            "worker": lease.worker,
            "leasedAt": rfc3339(began_ms),
            "leaseUntil": lease.until,
            "extensions": lease.extensions,
            "end": end,
            "endedAt": lease.end.map(|(_, at)| at),
        })
    };
    Ok(leases.into_iter().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::super::super::record::LedgerName;
    use super::*;
    use crate::base::RegionId;
    use crate::replica::{Change, ChangeKind, OwnedDetails};

    fn row(kind: ChangeKind, lease_ms: u64, at_ms: u64, worker: &str, until_ms: Option<u64>) -> LedgerRow {
        let change = Change {
            job_id: "j".to_owned(),
            region: RegionId::parse("eu").unwrap(),
            kind,
            lease_ms,
            at_ms,
            federation_id: None,
            state: (kind == ChangeKind::Failed).then(|| "retryable".to_owned()),
            replicated_from: None,
            job: None,
            observed_by: None,
        };
        let worker = Some(worker.to_owned()).filter(|worker| !worker.is_empty());
        let details = OwnedDetails { worker, lease_until_ms: until_ms, ..OwnedDetails::default() };
        let line = HistoryRow::of(&change, &details, None, at_ms, String::new()).line().unwrap();
        let name = LedgerName { job_id: String::new(), region: String::new(), name: String::new() };
        LedgerRow { day: 0, number: 0, name, leaf: Vec::new(), line: Some(line), of_job: None }
    }

    #[test]
    fn a_lease_without_an_end_has_timed_out_once_another_follows_or_its_time_is_over() {
        let mut rows = vec![
            row(ChangeKind::Leased, 10, 10, "a", Some(40)),
            row(ChangeKind::Failed, 10, 20, "a", None),
            row(ChangeKind::Leased, 50, 50, "b", Some(80)),
            row(ChangeKind::Extended, 50, 70, "b", Some(100)),
            row(ChangeKind::Leased, 120, 120, "c", Some(150)),
        ];
        let seen = |rows: &[LedgerRow], now_ms| -> Vec<String> {
            let shown = |it: Value| {
                let text = |member: &str| it[member].as_str().unwrap_or("-").to_owned();
                format!("{} {} {} {}", text("leaseId"), text("worker"), it["extensions"], text("end"))
            };
            leases(rows, None, now_ms).unwrap().into_iter().map(shown).collect()
        };
        assert_eq!(seen(&rows, 130), ["10 a 0 retried", "50 b 1 timed_out", "120 c 0 -"]);
        assert_eq!(seen(&rows, 151).pop().unwrap(), "120 c 0 timed_out");
        rows.push(row(ChangeKind::Completed, 0, 140, "", None));
        assert_eq!(seen(&rows, 151).pop().unwrap(), "120 c 0 succeeded");
    }
}
