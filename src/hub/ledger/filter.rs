//! Which jobs of the ledger a question or an order is about.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::record::{LedgerJob, LedgerQuery, RecordError};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::job::{Job, Status};
use super::present::present;
use crate::base::RegionId;
use crate::base::text::{read_rfc3339, rfc3339};
use crate::replica::is_text;

/// Jobs that one statement reads: some milliseconds of a file, in which it does nothing else.
pub(super) const READ_AT_ONCE: usize = 1_000;
/// Statements that one collection reads: a million jobs, in some seconds.
const STATEMENTS_MAX: usize = 1_000;
/// The latest time of a record. Units: milliseconds since the Unix epoch.
const TO_MS_MAX: u64 = i64::MAX as u64;

/// Why a filter cannot be collected.
const NARROW: &str = "name a shorter time with `from` and `to`, a tenant, or a type";

/// Jobs by their members. A filter without members is of all jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct LedgerFilter {
    pub(in crate::hub) status: Option<Status>,
    pub(in crate::hub) tenant: Option<String>,
    pub(in crate::hub) job_type: Option<String>,
    pub(in crate::hub) region: Option<RegionId>,
    /// When they were enqueued: from, and before. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) from_ms: u64,
    pub(in crate::hub) to_ms: u64,
}

impl Default for LedgerFilter {
    fn default() -> Self {
        Self { status: None, tenant: None, job_type: None, region: None, from_ms: 0, to_ms: TO_MS_MAX }
    }
}

impl LedgerFilter {
    /// Sets the member of this name. Returns whether there is one.
    ///
    /// Errors: the expected form of its value.
    pub(in crate::hub) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let is_member = matches!(name, "status" | "tenant" | "jobType" | "region" | "from" | "to");
        if is_member && !is_text(value) {
            return Err("1 to 255 bytes without control characters".to_owned());
        }
        let time = || read_rfc3339(value).ok_or_else(|| "a time, such as 2026-03-15T10:30:00Z".to_owned());
        match name {
            "status" => {
                let status = Status::ALL.into_iter().find(|it| it.as_str() == value);
                let all = || format!("one of {}", Status::ALL.map(Status::as_str).join(", "));
                self.status = Some(status.ok_or_else(all)?);
            }
            "tenant" => self.tenant = Some(value.to_owned()),
            "jobType" => self.job_type = Some(value.to_owned()),
            "region" => self.region = Some(RegionId::parse(value).map_err(|error| error.to_string())?),
            "from" => self.from_ms = time()?,
            "to" => self.to_ms = time()?,
            _ => {}
        }
        Ok(is_member)
    }

    /// The question that the record answers; [`LedgerFilter::taken`] has the members that it leaves aside.
    pub(in crate::hub) fn query(&self, max: usize) -> LedgerQuery {
        LedgerQuery { tenant: self.tenant.clone(), from_ms: self.from_ms, to_ms: self.to_ms, behind: None, max }
    }

    /// The job, where the filter is of it and the ledger may show it.
    ///
    /// Errors: [`RecordError::Content`].
    pub(super) fn taken(&self, saved: &LedgerJob) -> Result<Option<Job>, RecordError> {
        let job = read_job(saved)?;
        let is_here = self.region.as_ref().is_none_or(|region| region.as_str() == saved.region);
        let is_in = self.status.is_none_or(|status| status == job.status());
        let is_of = self.job_type.is_none() || self.job_type == saved.job_type;
        Ok(Some(job).filter(|job| !job.is_off && is_here && is_in && is_of))
    }

    /// The members that are set, as JSON: the same text for the same filter.
    pub(in crate::hub) fn shown(&self) -> String {
        let time = |ms: u64, none: u64| (ms != none).then(|| rfc3339(ms));
        let members = [
            ("status", self.status.map(|it| it.as_str().to_owned())),
            ("tenant", self.tenant.clone()),
            ("jobType", self.job_type.clone()),
            ("region", self.region.as_ref().map(|it| it.as_str().to_owned())),
            ("from", time(self.from_ms, 0)),
            ("to", time(self.to_ms, TO_MS_MAX)),
        ];
        let set = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
        Value::Object(set.collect()).to_string()
    }
}

/// The job of its saved form.
///
/// Errors: [`RecordError::Content`].
pub(super) fn read_job(saved: &LedgerJob) -> Result<Job, RecordError> {
    serde_json::from_str(&saved.document).map_err(|_| RecordError::Content("a job of a later version"))
}

/// The ids of all jobs of a filter with their regions, the oldest first.
///
/// Errors: 404 without a ledger; 400 where the filter is of more jobs than `max`, or the ledger has too many to look through.
pub(in crate::hub) async fn collect(
    hub: &Hub,
    filter: &LedgerFilter,
    max: usize,
) -> Result<Vec<(String, String)>, Refusal> {
    present(hub)?;
    // A job that is described meanwhile may move to a place that is read later.
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    let mut query = filter.query(READ_AT_ONCE);
    for _ in 0..STATEMENTS_MAX {
        let part = hub.record.ledger_jobs(query.clone()).await?;
        let is_last = part.len() < READ_AT_ONCE;
        for saved in part {
            let copy = || (saved.job_id.clone(), saved.region.clone());
            if filter.taken(&saved)?.is_some() && known.insert(copy()) {
                all.push(copy());
            }
            query.behind = Some((saved.enqueued_ms, saved.job_id, saved.region));
        }
        if all.len() > max {
            let message = format!("`filter`: the ledger has more than {max} such jobs; {NARROW}");
            return Err(Refusal::bad_request(message));
        }
        if is_last {
            all.reverse();
            return Ok(all);
        }
    }
    let read = STATEMENTS_MAX * READ_AT_ONCE;
    Err(Refusal::bad_request(format!(
        "`filter`: {read} jobs of the ledger were looked through, and there are more; {NARROW}"
    )))
}
