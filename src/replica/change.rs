//! One fact about one copy of a job.

use serde::{Deserialize, Serialize};

use crate::base::{RegionId, words};

words! {
    /// The kind of a change. The order is that within one lease.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    ChangeKind {
        /// A region has stored the job.
        Created = "created",
        /// A worker has got it.
        Leased = "leased",
        /// The worker's lease goes on.
        Extended = "extended",
        /// The worker has failed; the region decides whether it is tried again.
        Failed = "failed",
        /// The worker has completed it.
        Completed = "completed",
        /// A client has cancelled it.
        Cancelled = "cancelled",
    }
}

impl ChangeKind {
    /// The state of a job after this change, where its region has said nothing else.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::Created => "available",
            Self::Leased | Self::Extended => "active",
            Self::Failed => "retryable",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing comes behind it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

words! {
    /// The source of a fact beside the sidecars.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Observer {
        /// The event stream of the region, or its lists.
        Events = "events",
    }
}

/// The description of a job, without its arguments, meta values and results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFacts {
    /// Its type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// Its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Whether its pin, a rule or its tenant binds it to some regions. Always written, so that of two descriptions that differ in it the one
    /// of a bound job is the greater text.
    pub bound: bool,
    /// When it was enqueued, by its region. Units: milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enqueued_ms: Option<u64>,
}

impl JobFacts {
    /// As JSON.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// One fact about one copy of a job. Two facts with the same job, region, kind and lease are one; see [`Change::joined`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The job.
    pub job_id: String,
    /// The region that has the copy.
    pub region: RegionId,
    /// The kind.
    pub kind: ChangeKind,
    /// When the lease began that it is about, by the region's clock; 0 where that is not known. Units: milliseconds since the Unix epoch.
    #[serde(default)]
    pub lease_ms: u64,
    /// When it was seen. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The tracking id, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federation_id: Option<String>,
    /// The state of the job after it, by the word of its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The region that it was replicated from, which keeps it from being replicated again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicated_from: Option<String>,
    /// The job, where the change shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobFacts>,
    /// The source, where no sidecar has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_by: Option<Observer>,
}

/// The longest text of a change. Units: bytes.
pub const TEXT_BYTES_MAX: usize = 255;
/// The longest change as JSON: seven texts, each letter of which may be written as six. Units: bytes.
pub const CHANGE_BYTES_MAX: usize = 7 * 6 * TEXT_BYTES_MAX + 512;

/// The state of a job that no worker gets again after a failure.
const DISCARDED: &str = "discarded";

impl Change {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        let may_fit = |text: &Option<String>| text.as_deref().is_none_or(is_text);
        let job = self.job.as_ref();
        let texts = job.map(|job| [&job.job_type, &job.queue, &job.tenant]);
        let is_time = |ms: u64| i64::try_from(ms).is_ok();
        if !is_text(&self.job_id) {
            return Some("`job_id`: expected 1 to 255 bytes without control characters");
        }
        if !may_fit(&self.federation_id) || !may_fit(&self.state) || !may_fit(&self.replicated_from) {
            return Some(
                "`federation_id`, `state`, `replicated_from`: expected 1 to 255 bytes without control characters",
            );
        }
        if !texts.into_iter().flatten().all(may_fit) {
            return Some("`job`: expected a type, a queue and a tenant of 1 to 255 bytes without control characters");
        }
        let times = [self.at_ms, self.lease_ms, job.and_then(|job| job.enqueued_ms).unwrap_or(0)];
        (!times.into_iter().all(is_time)).then_some("`at_ms`, `lease_ms`, `enqueued_ms`: expected times below 2^63")
    }

    /// Whether its job comes to an end by it, so that its bytes are needed no longer.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.kind.is_final() || matches!(self.state.as_deref(), Some("completed" | "cancelled" | "discarded"))
    }

    /// Two reports of one fact as one: the earlier time of a job that was stored, the later one of all else, and of each text that both
    /// have the greater one. A time that a sidecar has reported stands beside that of an event, and a failure that has discarded its job
    /// beside one that is tried again. The order does not matter, nor how often a report comes.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        let at_ms = match (self.observed_by, other.observed_by) {
            (None, Some(_)) => self.at_ms,
            (Some(_), None) => other.at_ms,
            _ if self.kind == ChangeKind::Created => self.at_ms.min(other.at_ms),
            _ => self.at_ms.max(other.at_ms),
        };
        let is_discarded = |state: &Option<String>| state.as_deref() == Some(DISCARDED);
        let ends = self.kind == ChangeKind::Failed && (is_discarded(&self.state) || is_discarded(&other.state));
        Self {
            at_ms,
            federation_id: self.federation_id.max(other.federation_id),
            state: if ends { Some(DISCARDED.to_owned()) } else { self.state.max(other.state) },
            replicated_from: self.replicated_from.max(other.replicated_from),
            job: greater(self.job, other.job),
            // A sidecar's report is one, also where an event has said the same.
            observed_by: self.observed_by.and(other.observed_by),
            ..self
        }
    }
}

/// Whether an index takes a text, such as an id: 1 to 255 bytes without control characters.
#[must_use]
pub fn is_text(text: &str) -> bool {
    // Most texts are plain ASCII, of which the least and the greatest byte say all.
    let (least, greatest) = text.bytes().fold((u8::MAX, 0), |(least, most), byte| (least.min(byte), most.max(byte)));
    let is_plain = least >= b' ' && greatest <= b'~';
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && (is_plain || !text.chars().any(char::is_control))
}

/// Returns the description whose JSON is the greater text; the records of hubs compare the same texts.
fn greater(one: Option<JobFacts>, other: Option<JobFacts>) -> Option<JobFacts> {
    one.into_iter().chain(other).max_by_key(JobFacts::text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::replica) fn change(kind: ChangeKind, lease_ms: u64, at_ms: u64) -> Change {
        Change {
            job_id: "job".to_owned(),
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

    #[test]
    fn a_fact_of_an_event_says_so_until_a_sidecar_reports_it() {
        let of = |observed_by| Change { observed_by, ..change(ChangeKind::Leased, 5, 7) };
        let (event, report) = (of(Some(Observer::Events)), of(None));
        assert!(serde_json::to_string(&event).unwrap().ends_with(r#","observed_by":"events"}"#));
        assert_eq!(
            (event.clone().joined(report.clone()), report.clone().joined(event.clone())),
            (report.clone(), report)
        );
        assert_eq!(event.clone().joined(event.clone()), event);
    }

    #[test]
    fn an_event_moves_no_reported_time_and_a_discarded_job_stays_discarded() {
        let of = |at_ms, state: Option<&str>, observed_by| Change {
            state: state.map(str::to_owned),
            observed_by,
            ..change(ChangeKind::Failed, 5, at_ms)
        };
        let (event, report) = (of(9, Some("discarded"), Some(Observer::Events)), of(7, Some("retryable"), None));
        let both = of(7, Some("discarded"), None);
        assert_eq!((event.clone().joined(report.clone()), report.joined(event)), (both.clone(), both));
    }

    #[test]
    fn a_fact_is_written_and_read_without_the_members_that_it_lacks() {
        let text = r#"{"job_id":"job","region":"eu","kind":"leased","lease_ms":5,"at_ms":7}"#;
        let read: Change = serde_json::from_str(text).unwrap();
        assert_eq!(read, change(ChangeKind::Leased, 5, 7));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(
            serde_json::from_str::<Change>(r#"{"job_id":"j","region":"eu","kind":"created","at_ms":1,"args":[]}"#)
                .is_err()
        );
    }

    #[test]
    fn a_bound_description_is_the_greater_one() {
        let job = JobFacts { queue: Some("q".to_owned()), ..JobFacts::default() };
        let of = |bound| Change { job: Some(JobFacts { bound, ..job.clone() }), ..change(ChangeKind::Created, 0, 1) };
        assert_eq!((of(true).joined(of(false)), of(false).joined(of(true))), (of(true), of(true)));
    }

    #[test]
    fn every_mistake_names_its_member_and_the_longest_change_is_within_its_bound() {
        let right = change(ChangeKind::Created, 0, 1);
        let long = Some("\u{1f}".repeat(256));
        let of = |job: JobFacts| Change { job: Some(job), ..right.clone() };
        for (wrong, member) in [
            (Change { job_id: String::new(), ..right.clone() }, "`job_id`"),
            (Change { federation_id: long.clone(), ..right.clone() }, "`federation_id`"),
            (Change { state: Some("a\nb".to_owned()), ..right.clone() }, "`state`"),
            (of(JobFacts { queue: long.clone(), ..JobFacts::default() }), "`job`"),
            (of(JobFacts { enqueued_ms: Some(u64::MAX), ..JobFacts::default() }), "`enqueued_ms`"),
            (Change { at_ms: u64::MAX, ..right.clone() }, "`at_ms`"),
        ] {
            assert!(wrong.mistake().is_some_and(|it| it.contains(member)), "{member}");
        }
        assert_eq!(right.mistake(), None);
        let text = || Some("\"".repeat(255));
        let job = JobFacts { job_type: text(), queue: text(), tenant: text(), bound: true, enqueued_ms: Some(1 << 62) };
        let region = RegionId::parse(&"r".repeat(64)).unwrap();
        let ids = (text(), text(), text());
        let (at_ms, lease_ms, job_id) = (1 << 62, 1 << 62, text().unwrap());
        let (federation_id, state, replicated_from) = ids;
        let (kind, job, observed_by) = (ChangeKind::Cancelled, Some(job), Some(Observer::Events));
        let longest =
            Change { job_id, region, kind, lease_ms, at_ms, federation_id, state, replicated_from, job, observed_by };
        assert_eq!(longest.mistake(), None);
        assert!(serde_json::to_string(&longest).unwrap().len() <= CHANGE_BYTES_MAX);
    }
}
