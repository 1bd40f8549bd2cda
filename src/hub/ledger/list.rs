//! `GET /api/jobs`: the jobs of the ledger, the newest first.

use serde_json::{Value, json};

use super::super::record::{LedgerJob, LedgerPlace, LedgerQuery};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::filter::{LedgerFilter, READ_AT_ONCE};
use super::job::Job;
use super::present::present;
use super::row::day_text;
use crate::ojs::query_text;
use crate::replica::is_text;

/// Jobs in one answer.
const JOBS_MAX: usize = 500;
/// Jobs in an answer to a query that does not say how many.
const JOBS_USUAL: usize = 50;
/// Statements of one answer. One that ends before its page is full says where to go on.
const STATEMENTS_MAX: usize = 20;

/// The parameters of a list.
#[derive(Debug)]
struct Asked {
    filter: LedgerFilter,
    behind: Option<LedgerPlace>,
    limit: usize,
}

impl Asked {
    /// Errors: 400 for another query.
    fn read(text: &str) -> Result<Self, Refusal> {
        let wrong = |name: &str, expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        let mut asked = Self { filter: LedgerFilter::default(), behind: None, limit: JOBS_USUAL };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = query_text(value);
            match name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=JOBS_MAX).contains(limit));
                    asked.limit = limit.ok_or_else(|| wrong(name, &format!("1 to {JOBS_MAX}")))?;
                }
                "cursor" => {
                    let place = read_cursor(&value);
                    asked.behind = Some(place.ok_or_else(|| wrong(name, "the `next` of an earlier answer"))?);
                }
                _ if asked.filter.set(name, &value).map_err(|expected| wrong(name, &expected))? => {}
                _ => {
                    let expected = "`status`, `tenant`, `jobType`, `region`, `from`, `to`, `limit` and `cursor`";
                    return Err(wrong(name, expected));
                }
            }
        }
        Ok(asked)
    }
}

/// A page of jobs: `jobs`, and `next`, the cursor to go on with; none where nothing is behind.
///
/// Errors: 400 for another query, 404 without a ledger.
pub(in crate::hub) async fn list(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    present(hub)?;
    let asked = Asked::read(query)?;
    let (mut jobs, first) = (Vec::new(), asked.filter.query(READ_AT_ONCE));
    let mut query = LedgerQuery { behind: asked.behind, ..first };
    let mut next = None;
    'parts: for _ in 0..STATEMENTS_MAX {
        let part = hub.record.ledger_jobs(query.clone()).await?;
        let is_last = part.len() < READ_AT_ONCE;
        for saved in part {
            let place = (saved.enqueued_ms, saved.job_id.clone(), saved.region.clone());
            if let Some(job) = asked.filter.taken(&saved)? {
                if jobs.len() == asked.limit {
                    break 'parts;
                }
                jobs.push(shown(&saved, &job));
            }
            next = Some(cursor(&place));
            query.behind = Some(place);
        }
        if is_last {
            next = None;
            break;
        }
    }
    Ok(json!({ "jobs": jobs, "next": next }))
}

/// A job with its last record, and where the signed head is that covers it.
pub(super) fn shown(saved: &LedgerJob, job: &Job) -> Value {
    let mut shown = job.shown(&saved.job_id, &saved.region);
    shown["evidence"] = evidence(job);
    shown
}

fn evidence(job: &Job) -> Value {
    let (day, number, digest) = &job.last;
    let day = day_text(*day);
    json!({
        "records": job.rows,
        "last": { "day": day, "number": number, "digest": format!("sha256:{digest}") },
        "head": format!("/api/ledger/heads?day={day}"),
    })
}

/// The place of a job as a client hands it back.
fn cursor((enqueued_ms, job_id, region): &LedgerPlace) -> String {
    data_encoding::BASE64URL_NOPAD.encode(format!("{enqueued_ms} {region} {job_id}").as_bytes())
}

fn read_cursor(text: &str) -> Option<LedgerPlace> {
    let text = String::from_utf8(data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).ok()?).ok()?;
    let (enqueued_ms, behind) = text.split_once(' ')?;
    let (region, job_id) = behind.split_once(' ')?;
    let enqueued_ms: u64 = enqueued_ms.parse().ok().filter(|ms| i64::try_from(*ms).is_ok())?;
    (is_text(job_id) && is_text(region)).then(|| (enqueued_ms, job_id.to_owned(), region.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_another_text_is_none() {
        let place = (7, "a job".to_owned(), "eu".to_owned());
        assert_eq!(read_cursor(&cursor(&place)), Some(place));
        for wrong in [
            "",
            "x",
            "?",
            &data_encoding::BASE64URL_NOPAD.encode(b"7 eu"),
            &data_encoding::BASE64URL_NOPAD.encode(b"-1 eu j"),
        ] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_named_with_the_expected_form() {
        for (query, named) in [
            ("status=done", "`status`: expected one of enqueued, scheduled, leased"),
            ("from=yesterday", "`from`: expected a time"),
            ("limit=0", "`limit`: expected 1 to 500"),
            ("cursor=x", "`cursor`: expected the `next`"),
            ("tenant=", "`tenant`: expected 1 to 255"),
            ("region=EU", "`region`"),
            ("state=x", "`state`: expected `status`, `tenant`"),
        ] {
            let refusal = format!("{:?}", Asked::read(query).unwrap_err());
            assert!(refusal.contains(named), "{query}: {refusal}");
        }
    }
}
