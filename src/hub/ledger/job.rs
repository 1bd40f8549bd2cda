//! A copy of a job, as the rows of its history give it. Rows may come in any order.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::attempts::Attempts;
use super::row::HistoryRow;
use crate::base::text::rfc3339;
use crate::base::words;
use crate::replica::{Change, ChangeKind, OwnedDetails};
use crate::telemetry::event::LedgerStep;

words! {
    /// The status of a job.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Status {
        /// It waits for a worker.
        Enqueued = "enqueued",
        /// It waits for its time.
        Scheduled = "scheduled",
        /// A worker has it.
        Leased = "leased",
        /// A worker has failed, and it is tried again.
        Retrying = "retrying",
        /// It is completed.
        Succeeded = "succeeded",
        /// It has failed for good.
        DeadLettered = "dead_lettered",
        /// It was cancelled.
        Canceled = "canceled",
    }
}

impl Status {
    /// Whether no worker has it and one may get it.
    pub(super) const fn is_waiting(self) -> bool {
        matches!(self, Self::Enqueued | Self::Scheduled | Self::Retrying)
    }

    /// The status after a fact: by the word of the region, else by the kind.
    fn of(change: &Change) -> Self {
        match change.state.as_deref().unwrap_or(change.kind.state()) {
            "scheduled" => Self::Scheduled,
            "active" => Self::Leased,
            "retryable" => Self::Retrying,
            "completed" => Self::Succeeded,
            "cancelled" => Self::Canceled,
            "discarded" => Self::DeadLettered,
            _ => Self::Enqueued,
        }
    }
}

/// A copy of a job without its id and its region.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Job {
    /// Whether its sidecar, or a rule there, keeps it out of the ledger: then no row is added.
    pub(super) is_off: bool,
    pub(super) job_type: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) bound: Option<bool>,
    pub(super) priority: Option<i64>,
    pub(super) payload_digest: Option<String>,
    pub(super) stored_digest: Option<String>,
    pub(super) federation_id: Option<String>,
    pub(super) replicated_from: Option<String>,
    pub(super) replay_of: Option<String>,
    pub(super) is_rerouted: bool,
    /// Units here and below: milliseconds since the Unix epoch.
    pub(super) stored_ms: Option<u64>,
    pub(super) first_ms: u64,
    /// The fact that decides the status: whether nothing comes behind it, its lease, the order within that, its time.
    present: (bool, u64, u8, u64),
    status: Option<Status>,
    pub(super) started_ms: Option<u64>,
    pub(super) ended_ms: Option<u64>,
    pub(super) worker: Option<String>,
    pub(super) lease_until_ms: Option<u64>,
    /// Leases, and failures, that an earlier version has counted: by reports of sidecars, and by events.
    leases: (u32, u32),
    failures: (u32, u32),
    tried: Attempts,
    pub(super) extensions: u32,
    pub(super) rows: u32,
    /// The last row: its day, its number, its digest in hex.
    pub(super) last: (u64, u64, String),
}

impl Job {
    /// A job that its sidecar keeps out of the ledger. Units: milliseconds since the Unix epoch.
    pub(super) fn kept_out(first_ms: u64) -> Self {
        Self { is_off: true, first_ms, ..Self::default() }
    }

    /// Takes a fact that has no row yet.
    pub(super) fn take(&mut self, change: &Change, details: &OwnedDetails) {
        let is_first = self.rows == 0;
        self.rows += 1;
        self.first_ms = if is_first { change.at_ms } else { self.first_ms.min(change.at_ms) };
        if let Some(job) = &change.job {
            let known = |of: &mut Option<String>, from: &Option<String>| *of = from.clone().or(of.take());
            known(&mut self.job_type, &job.job_type);
            known(&mut self.queue, &job.queue);
            known(&mut self.tenant, &job.tenant);
            self.bound = Some(self.bound.unwrap_or(false) | job.bound);
            self.stored_ms = job.enqueued_ms.or(self.stored_ms);
        }
        self.federation_id = change.federation_id.clone().or(self.federation_id.take());
        self.replicated_from = change.replicated_from.clone().or(self.replicated_from.take());
        self.priority = details.priority.or(self.priority);
        self.payload_digest = details.payload_digest.clone().or(self.payload_digest.take());
        self.stored_digest = details.stored_digest.clone().or(self.stored_digest.take());
        self.replay_of = details.replay_of.clone().or(self.replay_of.take());
        self.is_rerouted |= details.is_rerouted;
        match change.kind {
            ChangeKind::Created => self.stored_ms = self.stored_ms.or(Some(change.at_ms)),
            ChangeKind::Leased => {
                self.started_ms =
                    self.started_ms.max(Some(if change.lease_ms > 0 { change.lease_ms } else { change.at_ms }));
                let began_ms = if change.lease_ms > 0 { change.lease_ms } else { change.at_ms };
                self.tried.lease(began_ms, change.observed_by.is_some());
            }
            ChangeKind::Extended => self.extensions += 1,
            ChangeKind::Failed => {
                let lease_ms = if change.lease_ms > 0 { change.lease_ms } else { change.at_ms };
                self.tried.fail(lease_ms, change.observed_by.is_some());
            }
            ChangeKind::Completed | ChangeKind::Cancelled => {}
        }
        self.take_place(change, details);
    }

    /// Takes the status, where the fact is the last one of the job's life so far. A lease orders before times: clocks differ.
    fn take_place(&mut self, change: &Change, details: &OwnedDetails) {
        let is_end = change.ends();
        let lease_ms = if change.kind == ChangeKind::Created { 0 } else { change.lease_ms };
        // An end without a lease comes behind all.
        let place = (change.kind.is_final(), lease_ms, change.kind as u8, change.at_ms);
        if self.status.is_some() && place < self.present {
            return;
        }
        self.present = place;
        self.status = Some(Status::of(change));
        self.ended_ms = is_end.then_some(change.at_ms);
        match change.kind {
            ChangeKind::Leased => {
                (self.worker, self.lease_until_ms) = (details.worker.clone(), details.lease_until_ms);
            }
            ChangeKind::Extended => {
                self.worker = details.worker.clone().or(self.worker.take());
                self.lease_until_ms = details.lease_until_ms.or(self.lease_until_ms);
            }
            _ => self.lease_until_ms = None,
        }
    }

    /// The status.
    pub(super) fn status(&self) -> Status {
        self.status.unwrap_or(Status::Enqueued)
    }

    /// How often a worker has got it.
    pub(super) fn attempts(&self) -> u32 {
        self.leases.0.max(self.leases.1).saturating_add(self.tried.leases())
    }

    /// How often a worker has failed.
    pub(super) fn failures(&self) -> u32 {
        self.failures.0.max(self.failures.1).saturating_add(self.tried.failures())
    }

    /// Takes a further extension of its present lease within a minute that has a row. Returns whether that changes it.
    pub(super) fn extend(&mut self, change: &Change, details: &OwnedDetails) -> bool {
        let is_present = change.kind == ChangeKind::Extended && change.lease_ms == self.present.1 && !self.present.0;
        let is_later = is_present && self.status() == Status::Leased && details.lease_until_ms > self.lease_until_ms;
        if is_later {
            self.lease_until_ms = details.lease_until_ms;
        }
        is_later
    }

    /// When it was enqueued, or first seen. Units: milliseconds since the Unix epoch.
    pub(super) fn enqueued_ms(&self) -> u64 {
        self.stored_ms.unwrap_or(self.first_ms)
    }

    /// When it came into its status. Units: milliseconds since the Unix epoch.
    pub(super) fn changed_ms(&self) -> u64 {
        self.present.3
    }

    /// A step of it, as the log shows it.
    pub(super) fn logged<'l>(&'l self, row: &'l HistoryRow) -> LedgerStep<'l> {
        let text = |of: &'l Option<String>| of.as_deref().unwrap_or_default();
        LedgerStep {
            step: row.event.as_str(),
            job_id: &row.job_id,
            job_type: text(&self.job_type),
            tenant: text(&self.tenant),
            worker_id: row.worker.as_deref().unwrap_or_else(|| text(&self.worker)),
            lease_id: text(&row.lease_id),
            status: self.status().as_str(),
        }
    }

    /// As the list shows it.
    pub(super) fn shown(&self, job_id: &str, region: &str) -> Value {
        json!({
            "jobId": job_id,
            "region": region,
            "status": self.status().as_str(),
            "jobType": self.job_type,
            "queue": self.queue,
            "tenant": self.tenant,
            "priority": self.priority,
            "payloadDigest": self.payload_digest.as_ref().map(|digest| format!("sha256:{digest}")),
            "storedDigest": self.stored_digest.as_ref().map(|digest| format!("sha256:{digest}")),
            "bound": self.bound,
            "enqueuedAt": rfc3339(self.enqueued_ms()),
            "changedAt": rfc3339(self.changed_ms()),
            "attempts": self.attempts(),
            "worker": self.worker,
            "leaseUntil": self.lease_until_ms.map(rfc3339),
            "federationId": self.federation_id,
            "replicatedFrom": self.replicated_from,
            "replayOf": self.replay_of,
            "rerouted": self.is_rerouted,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::RegionId;

    fn fact(kind: ChangeKind, lease_ms: u64, at_ms: u64) -> Change {
        Change {
            job_id: "j".to_owned(),
            region: RegionId::parse("eu").unwrap(),
            kind,
            lease_ms,
            at_ms,
            federation_id: None,
            state: None,
            replicated_from: None,
            job: None,
            observed_by: None,
        }
    }

    /// The life of a job that is tried twice.
    fn life() -> Vec<(Change, OwnedDetails)> {
        let of = |worker: &str, until| OwnedDetails {
            worker: Some(worker.to_owned()),
            lease_until_ms: Some(until),
            ..OwnedDetails::default()
        };
        vec![
            (fact(ChangeKind::Created, 0, 10), OwnedDetails { priority: Some(3), ..OwnedDetails::default() }),
            (fact(ChangeKind::Leased, 100, 100), of("a", 130)),
            (fact(ChangeKind::Extended, 100, 120), of("a", 150)),
            (Change { state: Some("retryable".to_owned()), ..fact(ChangeKind::Failed, 100, 140) }, of("a", 0)),
            (fact(ChangeKind::Leased, 200, 190), of("b", 230)),
        ]
    }

    fn job(facts: &[(Change, OwnedDetails)]) -> Job {
        let mut job = Job::default();
        facts.iter().for_each(|(change, details)| job.take(change, details));
        job
    }

    #[test]
    fn the_status_is_that_behind_the_last_step() {
        let life = life();
        let status = |steps: usize| job(&life[..steps]).status().as_str();
        assert_eq!([1, 2, 3, 4, 5].map(status), ["enqueued", "leased", "leased", "retrying", "leased"]);
        let mut done = life;
        done.push((fact(ChangeKind::Completed, 0, 195), OwnedDetails::default()));
        let job = job(&done);
        assert_eq!((job.status(), job.attempts(), job.failures(), job.extensions), (Status::Succeeded, 2, 1, 1));
        assert_eq!((job.ended_ms, job.lease_until_ms, job.worker.as_deref()), (Some(195), None, Some("b")));
    }

    proptest! {
        #[test]
        fn rows_in_any_order_give_the_same_status_and_counts(order in Just((0..5).collect::<Vec<usize>>()).prop_shuffle()) {
            let life = life();
            let shuffled: Vec<_> = order.iter().map(|at| life[*at].clone()).collect();
            let (one, other) = (job(&life), job(&shuffled));
            let seen = |it: &Job| (it.status(), it.attempts(), it.failures(), it.enqueued_ms(), it.changed_ms(), it.priority);
            prop_assert_eq!(seen(&one), seen(&other));
            prop_assert_eq!((one.worker, one.lease_until_ms), (other.worker, other.lease_until_ms));
        }
    }
}
