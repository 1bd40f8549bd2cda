//! A row of the history: one step of one copy of a job. Its JSON text is a leaf of the tree of its day, and is never written anew.

use serde::{Deserialize, Serialize};

use super::super::ledger_step::Step;
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::replica::{Change, ChangeKind, Observer, OwnedDetails};

/// Units: milliseconds.
pub(in crate::hub) const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Extensions of a lease within one minute are one row.
const EXTENDED_MS: u64 = 60_000;

/// A row of the history. Shape: JSON, the members in this order; one that is not known is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HistoryRow {
    /// The day on which the ledger got it, in UTC, as `2026-03-15`.
    pub day: String,
    /// Its place in the day, from 0, without gaps.
    pub number: u64,
    /// The job.
    pub job_id: String,
    /// The region that has the copy.
    pub region: RegionId,
    /// The step.
    pub event: Step,
    /// When a sidecar saw it, or its region says that it was.
    pub at: String,
    /// When the ledger got it.
    pub learned_at: String,
    /// The lease that it is about: when it began, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    /// When the lease ends unless it is extended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
    /// The worker that has the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The state of the job after it, in the words of OJS and by the word of its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The type of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// Its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its priority, where it was sent with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// `sha256:` and the digest of the bytes of its arguments, as they were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_digest: Option<String>,
    /// The same over the bytes that its region has shown, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_digest: Option<String>,
    /// Whether it is bound to some regions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<bool>,
    /// When it was enqueued, by its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_at: Option<String>,
    /// Its tracking id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federation_id: Option<String>,
    /// The region that it was replicated from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicated_from: Option<String>,
    /// The job that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<String>,
    /// Whether another region was meant for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rerouted: bool,
    /// The sidecar that has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_by: Option<String>,
    /// The source, where no sidecar has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_by: Option<Observer>,
    /// Random bits, in hex, so that the hash of a row that was erased says nothing about it.
    pub salt: String,
}

impl HistoryRow {
    /// The row of a fact, without its place. `by`: the sidecar that has reported it.
    pub(super) fn of(change: &Change, details: &OwnedDetails, by: Option<&str>, learned_ms: u64, salt: String) -> Self {
        let job = change.job.clone();
        let bound = job.as_ref().map(|job| job.bound);
        let enqueued_at = job.as_ref().and_then(|job| job.enqueued_ms).map(rfc3339);
        let (job_type, queue, tenant) = job.map(|job| (job.job_type, job.queue, job.tenant)).unwrap_or_default();
        Self {
            day: day_text(learned_ms / DAY_MS),
            number: 0,
            job_id: change.job_id.clone(),
            region: change.region.clone(),
            event: Step::of(change, details),
            at: rfc3339(change.at_ms),
            learned_at: rfc3339(learned_ms),
            lease_id: lease_of(change).map(|lease_ms| lease_ms.to_string()),
            lease_until: details.lease_until_ms.map(rfc3339),
            worker: details.worker.clone(),
            state: change.state.clone(),
            job_type,
            queue,
            tenant,
            priority: details.priority,
            payload_digest: details.payload_digest.as_ref().map(shown_digest),
            stored_digest: details.stored_digest.as_ref().map(shown_digest),
            bound,
            enqueued_at,
            federation_id: change.federation_id.clone(),
            replicated_from: change.replicated_from.clone(),
            replay_of: details.replay_of.clone(),
            rerouted: details.is_rerouted,
            reported_by: by.map(str::to_owned),
            observed_by: change.observed_by,
            salt,
        }
    }

    /// The line, without its end: the leaf of the day's tree.
    ///
    /// Errors: none for texts and numbers.
    pub fn line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

fn shown_digest(digest: &String) -> String {
    format!("sha256:{digest}")
}

/// The lease of a fact, where it is known. A failure without one has its own time in the place of the lease, so that failures differ.
fn lease_of(change: &Change) -> Option<u64> {
    let is_own_time = change.kind == ChangeKind::Failed && change.lease_ms == change.at_ms;
    Some(change.lease_ms).filter(|lease_ms| *lease_ms > 0 && !is_own_time)
}

/// The name of the row of a fact: two reports of one step have the same one.
pub(super) fn name_of(change: &Change) -> String {
    let kind = change.kind.as_str();
    let observed = if change.observed_by.is_some() { " observed" } else { "" };
    match change.kind {
        ChangeKind::Extended => format!("{kind} {} {}{observed}", change.lease_ms, change.at_ms / EXTENDED_MS),
        _ => format!("{kind} {}{observed}", change.lease_ms),
    }
}

/// A day in UTC, as `2026-03-15`. `day`: since the Unix epoch.
#[must_use]
pub fn day_text(day: u64) -> String {
    let mut text = rfc3339(day.saturating_mul(DAY_MS));
    text.truncate("2026-03-15".len());
    text
}

/// The day that a text such as `2026-03-15` names; none for another text. Days since the Unix epoch.
#[must_use]
pub fn read_day(text: &str) -> Option<u64> {
    let day = crate::base::text::read_rfc3339(&format!("{text}T00:00:00Z"))? / DAY_MS;
    (day_text(day) == text).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind, state: Option<&str>) -> Change {
        Change {
            job_id: "j".to_owned(),
            region: RegionId::parse("eu").unwrap(),
            kind,
            lease_ms: 5,
            at_ms: 1_000,
            federation_id: None,
            state: state.map(str::to_owned),
            replicated_from: None,
            job: None,
            observed_by: None,
        }
    }

    #[test]
    fn the_steps_have_the_words_of_an_orchestrator() {
        let step = |kind, state, details: OwnedDetails| Step::of(&change(kind, state), &details).as_str();
        let none = OwnedDetails::default;
        let created = ChangeKind::Created;
        assert_eq!(step(created, Some("available"), none()), "enqueued");
        assert_eq!(step(created, Some("scheduled"), none()), "scheduled");
        assert_eq!(step(created, None, OwnedDetails { is_rerouted: true, ..none() }), "rerouted");
        let replay = OwnedDetails { replay_of: Some("i".to_owned()), is_rerouted: true, ..none() };
        assert_eq!(step(created, Some("scheduled"), replay), "replayed");
        for (state, word) in [(None, "failed"), (Some("retryable"), "retried"), (Some("discarded"), "dead_lettered")] {
            assert_eq!(step(ChangeKind::Failed, state, none()), word);
        }
    }

    #[test]
    fn a_line_is_short_and_is_read_as_it_was_written() {
        let details = OwnedDetails { worker: Some("w".to_owned()), lease_until_ms: Some(31_000), ..Default::default() };
        let fact = change(ChangeKind::Leased, None);
        let row = HistoryRow::of(&fact, &details, Some("pod:1"), 3 * DAY_MS + 1, "00".to_owned());
        let line = row.line().unwrap();
        assert_eq!(
            line,
            r#"{"day":"1970-01-04","number":0,"jobId":"j","region":"eu","event":"leased","at":"1970-01-01T00:00:01.000Z","learnedAt":"1970-01-04T00:00:00.001Z","leaseId":"5","leaseUntil":"1970-01-01T00:00:31.000Z","worker":"w","reportedBy":"pod:1","salt":"00"}"#
        );
        assert_eq!(serde_json::from_str::<HistoryRow>(&line).unwrap(), row);
    }

    #[test]
    fn extensions_within_a_minute_are_one_row_and_what_a_region_says_is_another() {
        let at = |kind, at_ms| name_of(&Change { at_ms, ..change(kind, None) });
        assert_eq!(at(ChangeKind::Extended, 60_001), at(ChangeKind::Extended, 119_999));
        assert_ne!(at(ChangeKind::Extended, 60_001), at(ChangeKind::Extended, 120_000));
        assert_eq!(at(ChangeKind::Leased, 1), at(ChangeKind::Leased, 2));
        let seen = Change { observed_by: Some(Observer::Events), ..change(ChangeKind::Leased, None) };
        assert_ne!(name_of(&seen), at(ChangeKind::Leased, 1));
    }

    #[test]
    fn days_are_read_as_they_are_written() {
        for day in [0, 1, 59, 20_786] {
            assert_eq!(read_day(&day_text(day)), Some(day));
        }
        for wrong in ["", "2026", "2026-3-5", "2026-02-30", "2026-03-15T00", "x"] {
            assert_eq!(read_day(wrong), None, "{wrong}");
        }
    }
}
