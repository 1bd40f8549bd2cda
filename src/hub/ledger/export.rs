//! The rows of a day, for a bundle: each with its leaf, so that the tree can be built also where a row is withheld.

use data_encoding::HEXLOWER;
use serde_json::{Value, json};

use super::super::record::{LedgerRow, RecordError};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::filter::read_job;
use super::present::present;
use super::row::{day_text, read_day};
use crate::base::RegionId;
use crate::ojs::query_text;
use crate::replica::is_text;

/// Rows in one answer, each of a few hundred bytes.
const ROWS_MAX: usize = 1_000;
/// Days in one answer, as many as one statement of the record reads.
const DAYS_MAX: usize = 1_000;

/// `GET /api/ledger/days?from=DAY&to=DAY`: how many rows each day has, and its signed head where it is closed.
///
/// Errors: 400 for another query, 404 without a ledger.
pub(in crate::hub) async fn days(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    present(hub)?;
    let (mut from, mut to) = (0, i64::MAX as u64);
    for (name, value) in pairs(query) {
        let day = || {
            let wrong = || Refusal::bad_request(format!("`{name}`: expected a day, such as 2026-03-15"));
            read_day(&value).ok_or_else(wrong)
        };
        match name {
            "from" => from = day()?,
            "to" => to = day()?,
            _ => return Err(Refusal::bad_request(format!("`{name}`: expected `from` and `to`"))),
        }
    }
    let found = hub.record.ledger_days(from, to).await?;
    let more = found.len() == DAYS_MAX;
    let shown = found.into_iter().map(|it| {
        let head = it.head.as_ref().map(|head| serde_json::from_str::<Value>(head)).transpose();
        let head = head.map_err(|_| RecordError::Content("a signed head of a later version"))?;
        Ok(json!({ "day": day_text(it.day), "records": it.rows, "closed": it.is_closed, "dropped": it.is_dropped, "head": head }))
    });
    Ok(json!({ "days": shown.collect::<Result<Vec<_>, RecordError>>()?, "more": more }))
}

/// `GET /api/ledger/history?day=DAY&from=NUMBER`, and `tenant`: rows of a day in order. Of a row that is withheld there is the leaf, and why:
/// `erased`, `residency` for a job that is bound to some regions and lies in another one than that of this hub, `tenant` for another tenant's.
///
/// Errors: 400 for another query, 404 without a ledger.
pub(in crate::hub) async fn history(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    present(hub)?;
    let (mut day, mut from, mut tenant) = (None, 0, None);
    for (name, value) in pairs(query) {
        let wrong = |expected: &str| Refusal::bad_request(format!("`{name}`: expected {expected}"));
        match name {
            "day" => day = Some(read_day(&value).ok_or_else(|| wrong("a day, such as 2026-03-15"))?),
            "from" => {
                let number = value.parse().ok().filter(|it: &u64| i64::try_from(*it).is_ok());
                from = number.ok_or_else(|| wrong("the number of a row"))?;
            }
            "tenant" if is_text(&value) => tenant = Some(value),
            _ => return Err(wrong("`day`, `from` and `tenant`")),
        }
    }
    let day = day.ok_or_else(|| Refusal::bad_request("`day`: expected a day, such as 2026-03-15".to_owned()))?;
    let here = hub.index.as_ref().map(|index| &index.settings.region);
    let mut rows = hub.record.ledger_rows(day, from, ROWS_MAX + 1).await?;
    let more = rows.len() > ROWS_MAX;
    rows.truncate(ROWS_MAX);
    let shown = rows.iter().map(|it| {
        let withheld = withheld(it, here, tenant.as_deref());
        let line = it.line.as_ref().filter(|_| withheld.is_none());
        json!({ "number": it.number, "leaf": HEXLOWER.encode(&it.leaf), "line": line, "withheld": withheld })
    });
    Ok(json!({ "day": day_text(day), "rows": shown.collect::<Vec<_>>(), "more": more }))
}

/// Why a row stays here.
fn withheld(row: &LedgerRow, here: Option<&RegionId>, tenant: Option<&str>) -> Option<&'static str> {
    if row.line.is_none() {
        return Some("erased");
    }
    let (of_tenant, is_bound) = row.of_job.as_ref().map_or((None, true), |(tenant, bound)| (tenant.as_deref(), *bound));
    let is_elsewhere = here.is_none_or(|here| here.as_str() != row.name.region);
    if is_bound && is_elsewhere {
        return Some("residency");
    }
    tenant.is_some_and(|tenant| of_tenant != Some(tenant)).then_some("tenant")
}

/// Why a bundle has no line about a job: as for the rows of its copies, or `unknown` where the ledger has none. `job`: its id, and its region, where
/// that is known.
///
/// Errors: 404 without a ledger; the record's.
pub(in crate::hub) async fn withheld_job(
    hub: &Hub,
    (job_id, region): (&str, Option<&str>),
    tenant: Option<&str>,
) -> Result<Option<&'static str>, Refusal> {
    present(hub)?;
    let here = hub.index.as_ref().map(|index| index.settings.region.as_str());
    let copies = hub.record.ledger_job(job_id.to_owned()).await?;
    let mut is_known = false;
    for copy in copies.iter().filter(|copy| region.is_none_or(|region| region == copy.region)) {
        is_known = true;
        let job = read_job(copy)?;
        if job.is_off {
            return Ok(Some("erased"));
        }
        if job.bound.unwrap_or(true) && here != Some(&copy.region) {
            return Ok(Some("residency"));
        }
        if tenant.is_some() && tenant != job.tenant.as_deref() {
            return Ok(Some("tenant"));
        }
    }
    Ok((!is_known).then_some("unknown"))
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or((pair, String::new()), |(name, value)| (name, query_text(value))))
}
