//! An incident: one trip of a breaker, from its opening to its close, with its evidence. It is a row of the record.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::SavedIncident;
use crate::base::text::rfc3339;
use crate::base::words;
use crate::policy::{BreakerTerms, Course, EndCounts, Phase};

/// Failed jobs that are named as evidence.
pub(super) const EVIDENCE_JOBS_MAX: usize = 20;

words! {
    /// The cause of a close.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    ClosedBy {
        /// The job that a half-open breaker let through has succeeded.
        Probe = "probe",
        /// An operator.
        Operator = "operator",
        /// No breaker of the configuration fits the type and the tenant any more.
        Configuration = "configuration",
        /// No job of the type and the tenant was there to try for long.
        Idle = "idle",
    }

    /// A message about an incident that is to be sent once.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Moment {
        /// It was opened.
        Opened = "opened",
        /// It was closed.
        Closed = "closed",
    }
}

/// The evidence of a trip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Evidence {
    pub(super) ends: EndCounts,
    /// Some of the jobs that have failed, the last ones; none of those that are bound to regions.
    pub(super) jobs: Vec<String>,
}

/// The close of an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Closed {
    pub(super) by: ClosedBy,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
    /// The name of the client that asked for it.
    pub(super) caller: String,
}

/// Something that is still to be done for an incident.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Errand {
    pub(super) moment: Moment,
    /// A row of the audit trail, else a message to the webhook.
    pub(super) is_row: bool,
    pub(super) tries: u32,
    /// Units: milliseconds since the Unix epoch.
    pub(super) due_ms: u64,
}

/// An incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incident {
    pub(super) id: String,
    /// That of the record.
    pub(super) version: u64,
    pub(super) job_type: String,
    pub(super) tenant: Option<String>,
    pub(super) opened_ms: u64,
    pub(super) closed_ms: Option<u64>,
    pub(super) content: Content,
}

/// The part of an incident that its row has as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) terms: BreakerTerms,
    pub(super) queues: Vec<String>,
    pub(super) evidence: Evidence,
    pub(super) course: Course,
    pub(super) closed: Option<Closed>,
    pub(super) errands: Vec<Errand>,
    /// Messages that were given up after as many tries as there may be.
    pub(super) given_up: u32,
}

impl Incident {
    /// One of the record; none where a later version of this program has written it.
    pub(super) fn read(saved: &SavedIncident) -> Option<Self> {
        Some(Self {
            content: serde_json::from_str(&saved.document).ok()?,
            id: saved.id.clone(),
            version: saved.version,
            job_type: saved.job_type.clone(),
            tenant: (!saved.tenant.is_empty()).then(|| saved.tenant.clone()),
            opened_ms: saved.opened_ms,
            closed_ms: saved.closed_ms,
        })
    }

    /// As a row of the record.
    pub(super) fn saved(&self) -> SavedIncident {
        SavedIncident {
            id: self.id.clone(),
            version: self.version,
            job_type: self.job_type.clone(),
            tenant: self.tenant.clone().unwrap_or_default(),
            is_open: self.is_open(),
            opened_ms: self.opened_ms,
            closed_ms: self.closed_ms,
            due_ms: self.content.errands.iter().map(|it| it.due_ms).min(),
            document: json!(self.content).to_string(),
        }
    }

    /// Whether it is open.
    pub(super) const fn is_open(&self) -> bool {
        self.closed_ms.is_none()
    }

    /// The name of a permission of its breaker. No name of an incident has a slash.
    pub(super) fn trial_name(&self, number: u64) -> String {
        format!("{}/{number}", self.id)
    }

    /// Adds the errands of a moment. `hook`: whether messages go to a webhook.
    pub(super) fn owes(&mut self, moment: Moment, hook: bool, now_ms: u64) {
        let errand = |is_row| Errand { moment, is_row, tries: 0, due_ms: now_ms };
        self.content.errands.push(errand(true));
        if hook {
            self.content.errands.push(errand(false));
        }
    }

    /// Closes it, where it is open.
    pub(super) fn close(&mut self, closed: Closed, hook: bool, now_ms: u64) {
        self.content.course.close();
        self.content.closed = Some(closed);
        self.closed_ms = Some(now_ms);
        self.owes(Moment::Closed, hook, now_ms);
    }

    /// Its type and tenant in a sentence.
    pub(super) fn subject(&self) -> String {
        let tenant = self.tenant.as_ref().map(|tenant| format!(" of tenant {tenant}")).unwrap_or_default();
        format!("incident {} type {}{tenant}", self.id, self.job_type)
    }

    /// The evidence in a sentence.
    pub(super) fn why(&self) -> String {
        let Evidence { ends, .. } = &self.content.evidence;
        format!("{} of {} ends within {} s are failures", ends.failed, ends.all(), self.content.terms.window_ms / 1_000)
    }

    /// As answers and messages show it. `is_whole`: with the failed jobs.
    pub(super) fn shown(&self, is_whole: bool) -> Value {
        let Content { terms, queues, evidence, course, closed, .. } = &self.content;
        let hundredths = |share: u16| f64::from(share) / 10_000.0;
        let ends = evidence.ends;
        let ratio = (ends.failed as f64 / ends.all().max(1) as f64 * 10_000.0).round() / 10_000.0;
        let phase = match course.phase {
            Phase::Open { .. } => "open",
            Phase::HalfOpen { .. } => "half_open",
            Phase::Closed => "closed",
        };
        let probe = course.trial().map(|it| {
            let job = it.job.as_ref();
            json!({
                "id": self.trial_name(it.number), "sidecar": it.sidecar,
                "jobId": job.filter(|it| !it.is_bound).map(|it| &it.job_id),
                "region": job.map(|it| &it.region),
            })
        });
        let mut shown = json!({
            "id": self.id,
            "status": if self.is_open() { "open" } else { "closed" },
            "jobType": self.job_type,
            "tenant": self.tenant,
            "openedAt": rfc3339(self.opened_ms),
            "closedAt": self.closed_ms.map(rfc3339),
            "breaker": {
                "state": phase, "until": course.until_ms().map(rfc3339), "pauseSeconds": course.pause_ms / 1_000,
                "reopened": course.reopened, "probes": course.trials, "probe": probe, "queues": queues,
            },
            "evidence": {
                "failed": ends.failed, "succeeded": ends.succeeded, "ratio": ratio, "threshold": hundredths(terms.ratio.into()),
                "minimum": terms.minimum, "windowSeconds": terms.window_ms / 1_000,
            },
            "closedBy": closed.as_ref().map(|it| json!({
                "by": it.by.as_str(), "reason": it.reason, "ticket": it.ticket, "author": it.author,
            })),
            "messagesGivenUp": self.content.given_up,
        });
        if is_whole {
            shown["evidence"]["jobs"] = json!(evidence.jobs);
        }
        shown
    }
}
