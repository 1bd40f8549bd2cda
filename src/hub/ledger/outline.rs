//! The jobs that exported rows give, for a bundle and for its check: both do the same.

use std::collections::BTreeMap;

use super::super::ledger_step::Step;
use super::job::Job;
use super::row::HistoryRow;
use crate::base::text::read_rfc3339;
use crate::evidence::leaf_hash;
use crate::replica::{Change, ChangeKind, JobFacts, OwnedDetails};

/// Jobs of some rows, by id and region. A bundle has too many for the memory: each walk over its rows takes one part of the jobs.
#[derive(Debug)]
pub struct Outline {
    jobs: BTreeMap<(String, String), Job>,
    part: u64,
    parts: u64,
}

impl Outline {
    /// Takes the jobs of one part, counted from 0; all jobs are in `parts` parts.
    #[must_use]
    pub const fn new(part: u64, parts: u64) -> Self {
        Self { jobs: BTreeMap::new(), part, parts }
    }

    /// Takes a row, where its job is in this part.
    ///
    /// Errors: a member of the row that no ledger writes in such a form.
    pub fn take(&mut self, row: &HistoryRow) -> Result<(), String> {
        let hash = leaf_hash(row.job_id.as_bytes());
        let (first, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        if u64::from_be_bytes(*first) % self.parts.max(1) == self.part {
            let (change, details) = fact(row)?;
            let job = self.jobs.entry((row.job_id.clone(), row.region.as_str().to_owned())).or_default();
            job.take(&change, &details);
        }
        Ok(())
    }

    /// A line for each job, as `GET /api/jobs` shows it.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.jobs.iter().map(|((job_id, region), job)| job.shown(job_id, region).to_string())
    }
}

/// The fact that a row was made of.
fn fact(row: &HistoryRow) -> Result<(Change, OwnedDetails), String> {
    let wrong = |member: &str, expected: &str| format!("job {}: `{member}`: expected {expected}", row.job_id);
    let time = |member: &str, text: &String| read_rfc3339(text).ok_or_else(|| wrong(member, "a time of RFC 3339"));
    let time_if = |member: &str, text: &Option<String>| text.as_ref().map(|text| time(member, text)).transpose();
    let enqueued_ms = time_if("enqueuedAt", &row.enqueued_at)?;
    let lease_ms = match &row.lease_id {
        Some(id) => id.parse().map_err(|_| wrong("leaseId", "a whole number"))?,
        None => 0,
    };
    let kind = match row.event {
        Step::Enqueued | Step::Scheduled | Step::Rerouted | Step::Replayed => ChangeKind::Created,
        Step::Leased => ChangeKind::Leased,
        Step::Extended => ChangeKind::Extended,
        Step::Succeeded => ChangeKind::Completed,
        Step::Failed | Step::Retried | Step::DeadLettered => ChangeKind::Failed,
        Step::Canceled => ChangeKind::Cancelled,
    };
    let job = row.bound.map(|bound| JobFacts {
        job_type: row.job_type.clone(),
        queue: row.queue.clone(),
        tenant: row.tenant.clone(),
        bound,
        enqueued_ms,
    });
    let change = Change {
        job_id: row.job_id.clone(),
        region: row.region.clone(),
        kind,
        lease_ms,
        at_ms: time("at", &row.at)?,
        federation_id: row.federation_id.clone(),
        state: row.state.clone(),
        replicated_from: row.replicated_from.clone(),
        job,
        observed_by: row.observed_by,
    };
    let digest = |of: &Option<String>| of.as_ref().and_then(|digest| Some(digest.strip_prefix("sha256:")?.to_owned()));
    let details = OwnedDetails {
        priority: row.priority,
        payload_digest: digest(&row.payload_digest),
        stored_digest: digest(&row.stored_digest),
        replay_of: row.replay_of.clone(),
        worker: row.worker.clone(),
        lease_until_ms: time_if("leaseUntil", &row.lease_until)?,
        is_rerouted: row.rerouted,
    };
    Ok((change, details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::RegionId;

    #[test]
    fn a_row_gives_back_its_fact_and_each_job_is_in_one_part() {
        let job =
            JobFacts { tenant: Some("acme".to_owned()), bound: true, enqueued_ms: Some(5), ..JobFacts::default() };
        let change = Change {
            job_id: "j".to_owned(),
            region: RegionId::parse("eu").unwrap(),
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: 7,
            federation_id: Some("f".to_owned()),
            state: Some("scheduled".to_owned()),
            replicated_from: Some("us".to_owned()),
            job: Some(job),
            observed_by: None,
        };
        let details = OwnedDetails {
            priority: Some(1),
            payload_digest: Some("00".to_owned()),
            stored_digest: Some("01".to_owned()),
            replay_of: Some("i".to_owned()),
            worker: None,
            lease_until_ms: None,
            is_rerouted: true,
        };
        let row = HistoryRow::of(&change, &details, None, 7, String::new());
        assert_eq!(fact(&row), Ok((change, details)));
        for (wrong, member) in [
            (HistoryRow { at: "yesterday".to_owned(), ..row.clone() }, "`at`"),
            (HistoryRow { lease_id: Some("x".to_owned()), ..row.clone() }, "`leaseId`"),
            (HistoryRow { enqueued_at: Some(String::new()), ..row.clone() }, "`enqueuedAt`"),
        ] {
            let mistake = Outline::new(0, 1).take(&wrong).unwrap_err();
            assert!(mistake.starts_with("job j: ") && mistake.contains(member), "{mistake}");
        }
        let mut parts: Vec<Outline> = (0..3).map(|part| Outline::new(part, 3)).collect();
        for number in 0..20 {
            let row = HistoryRow { job_id: format!("j{number}"), ..row.clone() };
            parts.iter_mut().for_each(|part| part.take(&row).unwrap());
        }
        let counts: Vec<usize> = parts.iter().map(|part| part.lines().count()).collect();
        assert!(counts.iter().sum::<usize>() == 20 && counts.iter().all(|count| *count > 0), "{counts:?}");
        assert!(parts[0].lines().all(|line| line.contains("\"tenant\":\"acme\"")));
    }
}
