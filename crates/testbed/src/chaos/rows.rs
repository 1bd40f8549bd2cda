//! The sidecar's reports about copies, read from its own API, with the job of each.

use std::collections::HashMap;

use serde_json::Value;
use smallvec::SmallVec;

use super::case::{Copy, Fate, Row};
use super::ledger::{End, Issue, JobId, call_of, id_of};

/// One answer of `GET /v1/federation/outcomes`: each row a name, and the states of its copies.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) rows: Vec<(String, SmallVec<[Row; 1]>)>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

impl Page {
    /// Reads a page; none when it is no such document. Members that are not known are passed over.
    pub(super) fn of(body: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(body).ok()?;
        let rows = document["outcomes"].as_array()?;
        let next = ["next_cursor", "next", "cursor"].into_iter().find_map(|name| document[name].as_str());
        Some(Self {
            rows: rows.iter().map(|row| (name_of(row), rows_of(row))).collect(),
            next: next.filter(|next| !next.is_empty() && !rows.is_empty()).map(str::to_owned),
        })
    }
}

/// How many outcomes a page says are not known.
pub(super) fn unknown_in(body: &[u8]) -> Option<u64> {
    let document: Value = serde_json::from_slice(body).ok()?;
    ["unknown", "pending"].into_iter().find_map(|name| document[name].as_u64())
}

fn name_of(row: &Value) -> String {
    ["id", "region", "job_id"].map(|name| row[name].as_str().unwrap_or_default()).join(" ")
}

/// One row of ours for each copy of a row of the sidecar's.
fn rows_of(row: &Value) -> SmallVec<[Row; 1]> {
    let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
    let own = [row.clone()];
    let copies = row["copies"].as_array().map_or(own.as_slice(), Vec::as_slice);
    let place = |copy: &Value| Some((super::ids::place_of(copy["region"].as_str()?), id_of(copy["job_id"].as_str()?)?));
    let of_copy = |copy: &Value| {
        let state = fate_of(&text(row, "state"), &text(copy, "state"));
        let other = copies.iter().find(|other| other["job_id"] != copy["job_id"] || other["region"] != copy["region"]);
        let is_cancelled = ["cancelled", "cancelling"].contains(&copy["state"].as_str().unwrap_or_default());
        let (region, job) = place(copy).map_or((u8::MAX, None), |(region, job)| (region, Some(job)));
        Row {
            job,
            region,
            call: row["request_id"].as_str().and_then(call_of),
            at_ms: row["sent_at"].as_str().and_then(ms_of).unwrap_or(0),
            state,
            elsewhere: other.and_then(place),
            cancelled_in: is_cancelled.then_some(region),
            kept: true,
        }
    };
    copies.iter().map(of_copy).collect()
}

/// A time as people read it. Units: milliseconds since the Unix epoch.
fn ms_of(time: &str) -> Option<u64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// The fate by the states of a row and one of its copies.
fn fate_of(row: &str, copy: &str) -> Fate {
    match (row, copy) {
        ("doubled", _) => Fate::Doubled,
        ("expired", _) => Fate::Expired,
        (_, "absent" | "fenced") | ("absent", _) => Fate::Absent,
        (_, "stored" | "started" | "cancelled") | ("stored" | "landed", _) => Fate::Stored,
        ("watched", _) => Fate::Watched,
        // An unknown word means nothing.
        _ => Fate::Unknown,
    }
}

/// The rows of every job, by mark.
///
/// A row that names a job is about that one: of a batch the one that is stored under this id, else the one that has it by what its client was
/// told. Where there is none, the first job of the call answers for it. A row that names none is about all jobs of its call. A row that does
/// not name its call is about every job that has its id.
pub(super) fn by_job(
    rows: impl Iterator<Item = Row>,
    issues: &[Issue],
    copies: &[SmallVec<[Copy; 1]>],
) -> Vec<SmallVec<[Row; 1]>> {
    let mut of = vec![SmallVec::new(); issues.len()];
    let owners = owners(issues, copies);
    for row in rows {
        let about = match (row.call, row.job) {
            (Some((first, _)), job) => of_call(first as usize, job, issues, copies),
            (None, Some(id)) => owners.get(&id).cloned().unwrap_or_default(),
            (None, None) => SmallVec::new(),
        };
        for mark in about {
            if let Some(rows) = of.get_mut(mark) {
                rows.push(row);
            }
        }
    }
    of
}

type Marks = SmallVec<[usize; 4]>;

/// The jobs of a call that a row with this id is about.
fn of_call(first: usize, job: Option<JobId>, issues: &[Issue], copies: &[SmallVec<[Copy; 1]>]) -> Marks {
    let members = first..issues.len();
    let members = members.take_while(|mark| issues.get(*mark).is_some_and(|it| it.first as usize == first));
    let members: Marks = members.collect();
    let Some(id) = job else { return members };
    let has = |mark: &&usize| copies.get(**mark).is_some_and(|copies| copies.iter().any(|copy| copy.id == id));
    let was_told =
        |mark: &&usize| issues.get(**mark).is_some_and(|issue| issue.sends.iter().any(|send| shows(send.end, id)));
    let member = members.iter().find(has).or_else(|| members.iter().find(was_told)).or(members.first());
    member.copied().into_iter().collect()
}

/// The jobs that an id belongs to: by the regions, the answers, and the client's own choice.
fn owners(issues: &[Issue], copies: &[SmallVec<[Copy; 1]>]) -> HashMap<JobId, Marks> {
    let mut owners: HashMap<JobId, Marks> = HashMap::new();
    for ((mark, issue), copies) in issues.iter().enumerate().zip(copies) {
        let told = issue.sends.iter().filter_map(|send| match send.end {
            End::Stored(id) | End::Unknown(Some(id)) => Some(id),
            _ => None,
        });
        for id in copies.iter().map(|copy| copy.id).chain(told).chain(issue.own) {
            let marks = owners.entry(id).or_default();
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    owners
}

fn shows(end: End, id: JobId) -> bool {
    matches!(end, End::Stored(told) | End::Unknown(Some(told)) if told == id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ledger::{Mark, Send};
    use super::*;

    const ID: &str = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f";
    const OTHER: &str = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e00";

    fn issue(first: Mark, ends: &[End]) -> Issue {
        let send = |end: &End| Send { epoch: 0, began_ms: 0, ended_ms: 1, end: *end, ours: false };
        let sends = ends.iter().map(send).collect();
        Issue { client: "", permitted: 7, own: None, shares_id: false, keyed: false, hidden: false, first, sends }
    }

    fn row(job: Option<JobId>, call: Option<(Mark, u8)>) -> Row {
        let (state, elsewhere, cancelled_in) = (Fate::Stored, None, None);
        Row { job, region: 0, call, at_ms: 1, state, elsewhere, cancelled_in, kept: true }
    }

    fn copy(id: JobId) -> SmallVec<[Copy; 1]> {
        SmallVec::from_elem(
            Copy { region: 0, id, cancelled: true, stored: 1, runs: 0, acknowledged: 0, created_ms: 1 },
            1,
        )
    }

    #[test]
    fn a_row_is_about_the_job_that_it_names_and_else_about_all_of_the_call() {
        let unknown = End::Unknown(Some(8));
        let refused = End::Refused(500);
        // Not its own.
        let told = End::Stored(9);
        // A job on its own, a batch of three, and one on its own again.
        let issues = [issue(0, &[]), issue(1, &[told]), issue(1, &[unknown]), issue(1, &[refused]), issue(4, &[])];
        let copies = [copy(7), copy(7), SmallVec::new(), copy(9), copy(9)];
        let of = |job, call| {
            let of = by_job(std::iter::once(row(job, call)), &issues, &copies);
            of.iter().enumerate().filter(|(_, rows)| !rows.is_empty()).map(|(mark, _)| mark).collect::<Vec<_>>()
        };
        let call = Some((1, 0));
        assert_eq!((of(Some(9), call), of(Some(8), call)), (vec![3], vec![2]), "stored under it, or told of it");
        assert_eq!(of(None, call), [1, 2, 3]);
        assert_eq!(of(Some(10), call), [1], "nobody's: the first is judged by it");
        assert_eq!(
            (of(Some(8), None), of(Some(9), None)),
            (vec![2], vec![1, 3, 4]),
            "without a call: all that have it"
        );
        assert!(of(Some(10), None).is_empty() && of(None, None).is_empty());
    }

    #[test]
    fn each_copy_of_a_row_is_read_with_what_is_said_of_it() {
        let copies = json!([{ "region": "us-east-1", "job_id": ID, "state": "absent" },
                            { "region": "eu-west-1", "job_id": OTHER, "state": "stored" }]);
        let page = |state: &str, copies: &Value| {
            let row =
                json!({ "id": "f", "job_id": ID, "region": "us-east-1", "state": state, "why": "?", "copies": copies });
            Page::of(json!({ "outcomes": [row], "next_cursor": "c" }).to_string().as_bytes()).unwrap()
        };
        let read = |state: &str| -> Vec<_> {
            let page = page(state, &copies);
            assert_eq!(page.next.as_deref(), Some("c"));
            page.rows[0].1.iter().map(|row| (row.region, row.job, row.state)).collect()
        };
        let (id, other) = (id_of(ID), id_of(OTHER));
        assert_eq!(read("stored"), [(0, id, Fate::Absent), (1, other, Fate::Stored)]);
        assert_eq!(read("doubled"), [(0, id, Fate::Doubled), (1, other, Fate::Doubled)]);
        let cancelled = json!([{ "region": "us-east-1", "job_id": ID, "state": "cancelled" }, copies[1]]);
        let rows = page("stored", &cancelled).rows.remove(0).1;
        assert_eq!((rows[0].cancelled_in, rows[0].elsewhere), (Some(0), Some((1, other.unwrap()))));
        let unknown = json!([{ "region": "us-east-1", "job_id": ID, "state": "sent" }]);
        for (state, fate) in [("unknown", Fate::Unknown), ("watched", Fate::Watched), ("expired", Fate::Expired)] {
            assert_eq!(page(state, &unknown).rows[0].1[0].state, fate);
        }
    }

    #[test]
    fn the_last_page_has_no_cursor_and_other_documents_are_no_pages() {
        let old = json!({ "outcomes": [{ "job_id": ID, "region": "eu-west-1", "state": "landed", "request_id": "chaos-4-1" }] });
        let page = Page::of(old.to_string().as_bytes()).unwrap();
        let row = page.rows[0].1[0];
        assert_eq!(page.next, None);
        assert_eq!((row.job, row.region, row.state, row.call), (id_of(ID), 1, Fate::Stored, Some((4, 1))));
        assert!(Page::of(b"<html>").is_none() && Page::of(b"{}").is_none());
    }
}
