//! Changes as lines of tab-separated values: what a sidecar reports to its hub. A sidecar writes some 160 bytes for each, without
//! an allocation; no text of a change has control characters, so that none has to be escaped.

use bytes::Bytes;

use super::change::{Change, ChangeKind, JobFacts, is_text};
use super::columns::{push_number, push_text};
use super::details::{DETAIL_FIELDS, Details, OwnedDetails};
use crate::base::RegionId;

/// The fields of a line: `job_id`, `region`, `kind`, `lease_ms`, `at_ms`, `federation_id`, `state`, `enqueued_ms`, `replicated_from`,
/// `type`, `queue`, `tenant`, `bound`. One that is not known is empty.
const FIELDS: usize = 13;
/// The longest line: ten texts, a region, a kind, two digests and five numbers. Units: bytes.
pub const LINE_BYTES_MAX: usize = 3_008;

/// One fact about one copy of a job, as it was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The region that has the copy.
    pub region: &'a RegionId,
    /// The kind.
    pub kind: ChangeKind,
    /// As in [`Change::lease_ms`].
    pub lease_ms: u64,
    /// When it was seen. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The tracking id, where it is known.
    pub federation_id: Option<&'a str>,
    /// The state of the job after it, by the word of its region.
    pub state: Option<&'a str>,
    /// When the job was enqueued, by its region. Units: milliseconds since the Unix epoch.
    pub enqueued_ms: Option<u64>,
    /// The job, where the change shows it.
    pub described: Option<&'a Description>,
    /// The rest for the ledger of the hub; none where the change is not for it.
    pub details: Option<Details<'a>>,
}

/// The last columns of a line: where a job was replicated from, the job without its arguments, and the permission that it has gone by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    line: Vec<u8>,
    trial: Option<String>,
}

impl Description {
    /// Where a job was replicated from, and the job, where it is known. A text that no index takes is left out.
    #[must_use]
    pub fn new(replicated_from: Option<&str>, job: Option<JobTexts<'_>>) -> Self {
        let JobTexts { job_type, queue, tenant, bound } = job.unwrap_or_default();
        let mut line = Vec::with_capacity(64);
        for text in [replicated_from, job_type, queue, tenant] {
            push_text(&mut line, text);
        }
        line.extend_from_slice(match (job.is_some(), bound) {
            (false, _) => b"",
            (true, false) => b"0",
            (true, true) => b"1",
        });
        Self { line, trial: None }
    }

    /// The same of a job that goes by the permission of a half-open breaker.
    #[must_use]
    pub fn of_trial(self, name: String) -> Self {
        Self { trial: Some(name), ..self }
    }

    /// The bytes that it holds beside itself. Units: bytes.
    pub(super) fn bytes(&self) -> usize {
        self.line.capacity() + self.trial.as_ref().map_or(0, String::capacity)
    }
}

/// A change as a hub reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedChange {
    /// The change.
    pub change: Change,
    /// The rest for the ledger; none where the change is not for it.
    pub details: Option<OwnedDetails>,
    /// The permission of a half-open breaker that the job has gone by.
    pub trial: Option<String>,
}

/// The description of a job, as [`JobFacts`] has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobTexts<'a> {
    /// Its type.
    pub job_type: Option<&'a str>,
    /// Its queue.
    pub queue: Option<&'a str>,
    /// Its tenant.
    pub tenant: Option<&'a str>,
    /// As in [`JobFacts::bound`].
    pub bound: bool,
}

/// Adds a line. Returns whether it did: a job whose id no index takes has none.
pub(super) fn write(lines: &mut Vec<u8>, seen: &Seen<'_>) -> bool {
    if !is_text(seen.job_id) {
        return false;
    }
    for text in [seen.job_id, seen.region.as_str(), seen.kind.as_str()] {
        lines.extend_from_slice(text.as_bytes());
        lines.push(b'\t');
    }
    push_number(lines, Some(seen.lease_ms));
    push_number(lines, Some(seen.at_ms));
    push_text(lines, seen.federation_id);
    push_text(lines, seen.state);
    push_number(lines, seen.enqueued_ms);
    lines.extend_from_slice(seen.described.map_or(b"\t\t\t\t", |it| &it.line));
    if let Some(details) = &seen.details {
        lines.push(b'\t');
        details.write(lines);
        if let Some(trial) = seen.described.and_then(|it| it.trial.as_deref()).filter(|trial| is_text(trial)) {
            lines.push(b'\t');
            lines.extend_from_slice(trial.as_bytes());
        }
    }
    lines.push(b'\n');
    true
}

/// These lines without the names of permissions, which hubs before breakers refuse; none where they have none.
#[must_use]
pub fn without_trials(lines: &Bytes) -> Option<Bytes> {
    let trial = |line: &[u8]| {
        let mut tabs = line.iter().enumerate().filter(|(_, byte)| **byte == b'\t');
        tabs.nth(FIELDS + DETAIL_FIELDS - 1).map(|(at, _)| at)
    };
    let mut all = lines.split_inclusive(|byte| *byte == b'\n');
    all.clone().any(|line| trial(line).is_some()).then(|| {
        let bare = all.by_ref().flat_map(|line| match trial(line) {
            Some(at) => [&line[..at], b"\n"],
            None => [line, b""],
        });
        bare.flatten().copied().collect()
    })
}

/// Reads lines.
///
/// Errors: the number of the line, counted from 1, its column, and the expected form.
pub fn read_lines(lines: &str) -> Result<Vec<ReportedChange>, String> {
    let read = |(at, line): (usize, &str)| read_line(line).map_err(|mistake| format!("line {}: {mistake}", at + 1));
    lines.lines().enumerate().map(read).collect()
}

fn read_line(line: &str) -> Result<ReportedChange, String> {
    let fields: Vec<&str> = line.split('\t').take(FIELDS + DETAIL_FIELDS + 2).collect();
    let expected =
        || format!("expected {FIELDS} fields with a tab between two, or {} for the ledger", FIELDS + DETAIL_FIELDS);
    let (first, behind) = fields.split_at_checked(FIELDS).ok_or_else(expected)?;
    let (behind, trial) = behind.split_at_checked(DETAIL_FIELDS).unwrap_or((behind, &[]));
    let trial = match trial {
        [] => None,
        [name] if is_text(name) => Some((*name).to_owned()),
        _ => return Err(expected()),
    };
    let details =
        if behind.is_empty() { None } else { Some(OwnedDetails::read(behind.try_into().map_err(|_| expected())?)?) };
    let fields: [&str; FIELDS] = first.try_into().map_err(|_| expected())?;
    let [
        job_id,
        region,
        kind,
        lease_ms,
        at_ms,
        federation_id,
        state,
        enqueued_ms,
        from,
        job_type,
        queue,
        tenant,
        bound,
    ] = fields;
    let text = |field: &str| (!field.is_empty()).then(|| field.to_owned());
    let time = |column: &str, field: &str| {
        field.parse::<u64>().map_err(|_| format!("`{column}`: expected milliseconds since the Unix epoch"))
    };
    let bound = match bound {
        "" => None,
        "0" => Some(false),
        "1" => Some(true),
        _ => return Err("`bound`: expected 0, 1 or nothing".to_owned()),
    };
    let enqueued_ms = if enqueued_ms.is_empty() { None } else { Some(time("enqueued_ms", enqueued_ms)?) };
    let facts =
        |bound| JobFacts { job_type: text(job_type), queue: text(queue), tenant: text(tenant), bound, enqueued_ms };
    let kind = ChangeKind::ALL.into_iter().find(|it| it.as_str() == kind);
    let change = Change {
        job_id: job_id.to_owned(),
        region: RegionId::parse(region).map_err(|error| format!("`region`: {error}"))?,
        kind: kind.ok_or("`kind`: expected created, leased, extended, failed, completed or cancelled")?,
        lease_ms: time("lease_ms", lease_ms)?,
        at_ms: time("at_ms", at_ms)?,
        federation_id: text(federation_id),
        state: text(state),
        replicated_from: text(from),
        job: bound.map(facts),
        observed_by: None,
    };
    let mistake = change.mistake().or_else(|| details.as_ref().and_then(OwnedDetails::mistake));
    mistake.map_or(Ok(ReportedChange { change, details, trial }), |mistake| Err(mistake.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(seen: &Seen<'_>) -> Option<String> {
        let mut lines = Vec::new();
        write(&mut lines, seen).then(|| String::from_utf8(lines).unwrap())
    }

    fn seen<'a>(region: &'a RegionId, described: Option<&'a Description>) -> Seen<'a> {
        let (kind, federation_id, state, enqueued_ms) = (ChangeKind::Created, Some("f"), Some("available"), Some(9));
        let details = None;
        Seen {
            job_id: "job",
            region,
            kind,
            lease_ms: 0,
            at_ms: 7,
            federation_id,
            state,
            enqueued_ms,
            described,
            details,
        }
    }

    #[test]
    fn a_line_is_read_as_the_change_that_was_written() {
        let region = RegionId::parse("eu").unwrap();
        let job = JobTexts { job_type: Some("a.b"), queue: Some("q\u{e9}"), tenant: None, bound: true };
        let described = Description::new(Some("us"), Some(job));
        let text = lines(&seen(&region, Some(&described))).unwrap();
        assert_eq!(text, "job\teu\tcreated\t0\t7\tf\tavailable\t9\tus\ta.b\tq\u{e9}\t\t1\n");
        let (job_type, queue, tenant) = (Some("a.b".to_owned()), Some("q\u{e9}".to_owned()), None);
        let expected = Change {
            job_id: "job".to_owned(),
            region: region.clone(),
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: 7,
            federation_id: Some("f".to_owned()),
            state: Some("available".to_owned()),
            replicated_from: Some("us".to_owned()),
            job: Some(JobFacts { job_type, queue, tenant, bound: true, enqueued_ms: Some(9) }),
            observed_by: None,
        };
        let of_index = |change| ReportedChange { change, details: None, trial: None };
        assert_eq!(read_lines(&text), Ok(vec![of_index(expected.clone())]));
        let bare = lines(&seen(&region, None)).unwrap();
        assert_eq!(
            read_lines(&bare),
            Ok(vec![of_index(Change { replicated_from: None, job: None, ..expected.clone() })])
        );
        let details = Some(Details { worker: Some("w"), ..Details::default() });
        let ledgered = lines(&Seen { details, ..seen(&region, Some(&described)) }).unwrap();
        assert_eq!(ledgered, format!("{}\t\t\t\t\tw\t\t0\n", text.trim_end()));
        let details = Some(OwnedDetails { worker: Some("w".to_owned()), ..OwnedDetails::default() });
        let reported = ReportedChange { change: expected, details, trial: None };
        assert_eq!(read_lines(&ledgered), Ok(vec![reported.clone()]));
        let described = described.of_trial("i/2".to_owned());
        let details = Some(Details { worker: Some("w"), ..Details::default() });
        let probe = lines(&Seen { details, ..seen(&region, Some(&described)) }).unwrap();
        assert_eq!(probe, format!("{}\ti/2\n", ledgered.trim_end()));
        let trial = Some("i/2".to_owned());
        assert_eq!(read_lines(&probe), Ok(vec![ReportedChange { trial, ..reported }]));
        assert!(read_lines(&format!("{}\tx\n", probe.trim_end())).is_err());
        let (all, cut) = (format!("{ledgered}{probe}{text}"), format!("{ledgered}{ledgered}{text}"));
        assert_eq!(without_trials(&Bytes::from(all)).as_deref(), Some(cut.as_bytes()), "for a hub before breakers");
        assert_eq!(without_trials(&Bytes::from(cut)), None);
        assert_eq!(read_lines(&format!("{text}{bare}")).map(|it| it.len()), Ok(2));
    }

    #[test]
    fn a_text_that_no_index_takes_is_left_out_and_a_job_with_such_an_id_is_not_written() {
        let region = RegionId::parse("eu").unwrap();
        let long = "x".repeat(256);
        let job = JobTexts { tenant: Some(&long), queue: Some("a\tb"), job_type: Some(""), bound: false };
        let described = Description::new(Some("a\u{85}b"), Some(job));
        let wrong = Seen { federation_id: Some(&long), state: Some("a\nb"), ..seen(&region, Some(&described)) };
        let read = read_lines(&lines(&wrong).unwrap()).unwrap().remove(0).change;
        assert_eq!((read.federation_id, read.state, read.replicated_from), (None, None, None));
        assert_eq!(read.job, Some(JobFacts { enqueued_ms: Some(9), ..JobFacts::default() }));
        for id in ["", "a\tb", &long] {
            assert_eq!(lines(&Seen { job_id: id, ..seen(&region, None) }), None, "{id}");
        }
    }

    #[test]
    fn every_mistake_names_its_line_and_column_and_the_longest_line_is_within_its_bound() {
        let right = "j\teu\tcreated\t0\t7\t\t\t\t\t\t\t\t\n";
        assert!(read_lines(right).is_ok());
        for (wrong, named) in [
            ("", "13 fields"),
            ("j\teu\tcreated\t0\t7\t\t\t\t\t\t\t\t\t", "13 fields"),
            ("j\tEU\tcreated\t0\t7\t\t\t\t\t\t\t\t", "`region`"),
            ("j\teu\tmade\t0\t7\t\t\t\t\t\t\t\t", "`kind`"),
            ("j\teu\tcreated\tx\t7\t\t\t\t\t\t\t\t", "`lease_ms`"),
            ("j\teu\tcreated\t0\t\t\t\t\t\t\t\t\t", "`at_ms`"),
            ("j\teu\tcreated\t0\t7\t\t\t-1\t\t\t\t\t0", "`enqueued_ms`"),
            ("j\teu\tcreated\t0\t7\t\t\t\t\t\t\t\t2", "`bound`"),
            ("\teu\tcreated\t0\t7\t\t\t\t\t\t\t\t", "`job_id`"),
        ] {
            let mistake = read_lines(&format!("{right}{wrong}\n")).unwrap_err();
            assert!(mistake.starts_with("line 2: ") && mistake.contains(named), "{mistake}");
        }
        let (region, text) = (RegionId::parse(&"r".repeat(64)).unwrap(), "x".repeat(255));
        let (text, time) = (Some(text.as_str()), 1 << 62);
        let described =
            Description::new(text, Some(JobTexts { job_type: text, queue: text, tenant: text, bound: true }));
        let described = described.of_trial(text.unwrap().to_owned());
        let (digest, number) = ("0".repeat(64), Some(1 << 62));
        let details = Details {
            priority: Some(i64::MIN),
            payload_digest: Some(&digest),
            stored_digest: Some(&digest),
            replay_of: text,
            worker: text,
            lease_until_ms: number,
            is_rerouted: true,
        };
        let longest = Seen {
            job_id: text.unwrap(),
            kind: ChangeKind::Cancelled,
            lease_ms: time,
            at_ms: time,
            federation_id: text,
            state: text,
            enqueued_ms: Some(time),
            details: Some(details),
            ..seen(&region, Some(&described))
        };
        let line = lines(&longest).unwrap();
        assert!(read_lines(&line).is_ok() && line.len() <= LINE_BYTES_MAX, "{}", line.len());
    }
}
