//! Answers of regions, read just as far as needed and in every dialect that servers speak.

mod outer;

use std::borrow::Cow;

use super::copy::{Progress, progress};
use super::key::Text;
use super::member::{DEPTH_MAX, as_number, as_text, member, members_of, places_of, text};
use super::scan::{ScanError, Scanner};

/// A longer code is no word.
const CODE_BYTES_MAX: usize = 64;
/// A longer version is none of OJS. Units: bytes.
const VERSION_BYTES_MAX: usize = 32;

/// Whether a body is an OJS error document: an answer of the server itself, not of a balancer before it.
///
/// Spec: ojs-protocol 4.1; `{"error":{"code":…}}`, or a bare `{"code":…,"message":…}`.
#[must_use]
pub fn is_error_document(body: &[u8]) -> bool {
    let [error, code, message] = members_of(body, ["error", "code", "message"]);
    if error.and_then(|error| text(error, "code")).is_some() {
        return true;
    }
    code.and_then(as_text).is_some() && message.and_then(as_text).is_some()
}

/// The job's id in the answer to an enqueue: of `job`, or of a bare job.
#[must_use]
pub fn job_id_of(body: &[u8]) -> Option<String> {
    let [job, id] = members_of(body, ["job", "id"]);
    let id = match job {
        Some(job) => text(job, "id"),
        None => id.and_then(as_text),
    };
    id.map(Cow::into_owned)
}

/// The job in an answer that shows one: in `job`, or bare.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ShownJob<'b> {
    /// Its id.
    pub id: Option<Cow<'b, str>>,
    /// Its state.
    pub state: Option<Cow<'b, str>>,
    /// When it was enqueued, or created where the server does not say so. RFC 3339.
    pub enqueued_at: Option<Cow<'b, str>>,
}

impl<'b> ShownJob<'b> {
    /// Reads an answer near its start and its end, which costs a small part of [`Self::read`] and finds the same. None where a member is not found
    /// there. The answer has to be JSON: another one may be read as anything.
    #[must_use]
    pub fn near_the_ends(body: &'b [u8]) -> Option<Self> {
        let (mut id, mut state, mut state_behind, mut enqueued_at) = (None, None, None, None);
        let is_of_job = outer::last_members(body, |(name, value)| match name {
            b"state" => state_behind = state_behind.or(value),
            b"enqueued_at" => enqueued_at = enqueued_at.or(value),
            _ => {}
        });
        outer::first_members(body, |(name, value)| {
            match name {
                b"id" => id = value,
                b"state" => state = value,
                _ => {}
            }
            id.is_some() && state.or(state_behind).is_some()
        });
        let found = |text: Option<&'b [u8]>| std::str::from_utf8(text?).ok().map(Cow::Borrowed);
        let near = Self { id: found(id), state: found(state_behind.or(state)), enqueued_at: found(enqueued_at) };
        let is_whole = near.id.is_some() && near.state.is_some() && near.enqueued_at.is_some();
        (is_of_job && is_whole).then_some(near)
    }

    /// Reads an answer by one walk over it. A member that it lacks is none.
    #[must_use]
    pub fn read(body: &'b [u8]) -> Self {
        let (mut bare, mut wrapped) = (JobMembers::default(), None);
        let mut read = || {
            let mut scanner = Scanner::new(body, DEPTH_MAX)?;
            scanner.object(|scanner, key| {
                if key.decode() != "job" || scanner.next() != Some(b'{') {
                    return bare.take(scanner, key);
                }
                let job = wrapped.insert(JobMembers::default());
                scanner.object(|scanner, key| job.take(scanner, key)).map(drop)
            })?;
            scanner.end()
        };
        if read().is_err() {
            return Self::default();
        }
        let JobMembers { id, state, enqueued_at, created_at } = wrapped.filter(|_| bare.id.is_none()).unwrap_or(bare);
        Self { id, state, enqueued_at: enqueued_at.or(created_at) }
    }
}

/// The members of a job that [`ShownJob`] is made of; of several with one name the last one, if it is a text.
#[derive(Default)]
struct JobMembers<'b> {
    id: Option<Cow<'b, str>>,
    state: Option<Cow<'b, str>>,
    enqueued_at: Option<Cow<'b, str>>,
    created_at: Option<Cow<'b, str>>,
}

impl<'b> JobMembers<'b> {
    /// Steps over the value of a member and keeps it where it is one of these.
    fn take(&mut self, scanner: &mut Scanner<'b, '_>, key: Text<'b>) -> Result<(), ScanError> {
        let member = match &*key.decode() {
            "id" => &mut self.id,
            "state" => &mut self.state,
            "enqueued_at" => &mut self.enqueued_at,
            "created_at" => &mut self.created_at,
            _ => return scanner.skip().map(drop),
        };
        *member = match scanner.next() {
            Some(b'"') => Some(scanner.string()?.decode()),
            _ => scanner.skip().map(|_| None)?,
        };
        Ok(())
    }
}

/// The id of the job that stands in the way of an enqueue that was refused as a duplicate. Spec: ojs-protocol 3.2.
#[must_use]
pub fn existing_job_id(body: &[u8]) -> Option<String> {
    let error = member(body, "error").unwrap_or(body);
    text(member(error, "details")?, "existing_job_id").map(Cow::into_owned)
}

/// The job or workflow in a list; other things with an id have no type or no state.
///
/// How far it has come is read where its own members are: in `job`, where the item wraps one.
#[must_use]
pub fn listed(item: &[u8]) -> Option<Progress> {
    let [kind, state, id, attempt, job] = members_of(item, ["type", "state", "id", "attempt", "job"]);
    kind.and_then(as_text)?;
    let state = state.and_then(as_text)?.into_owned();
    let id = id.and_then(as_text)?.into_owned();
    if let Some(inner) = job.and_then(progress) {
        return Some(Progress { id, ..inner });
    }
    Some(Progress { id, state, attempt: attempt.and_then(as_number).unwrap_or(0), ..Progress::default() })
}

/// The code of an error document, where it is a plain word and so no data of a client.
#[must_use]
pub fn error_code(body: &[u8]) -> Option<String> {
    let code = text(member(body, "error").unwrap_or(body), "code")?;
    let is_word = code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word.then(|| code.into_owned())
}

/// The id of the workflow in an answer that shows one: of `workflow`, or of a bare one.
#[must_use]
pub fn workflow_id_of(body: &[u8]) -> Option<String> {
    let [workflow, id] = members_of(body, ["workflow", "id"]);
    let id = match workflow {
        Some(workflow) => text(workflow, "id"),
        None => id.and_then(as_text),
    };
    id.map(Cow::into_owned)
}

/// A text member of an object, decoded.
#[must_use]
pub fn text_member(body: &[u8], name: &str) -> Option<String> {
    text(body, name).map(Cow::into_owned)
}

/// Whether a list of cron jobs holds one of this name, and whether the list goes on after it.
///
/// Shape: `{"cron_jobs":[…],"pagination":{…}}`, or `{"crons":[…]}` on real servers, which may page beside the items; none where it is
/// no such list.
#[must_use]
pub fn cron_list(body: &[u8], name: &str) -> Option<CronList> {
    let [jobs, crons, items, pagination, has_more, total, next_cursor] =
        members_of(body, ["cron_jobs", "crons", "items", "pagination", "has_more", "total", "next_cursor"]);
    let list = [jobs, crons, items].into_iter().flatten().find_map(array)?;
    let is_named = |cron: &&[u8]| text(cron, "name").is_some_and(|text| text == name);
    let [more_within, total_within, cursor_within] =
        members_of(pagination.unwrap_or_default(), ["has_more", "total", "next_cursor"]);
    let has_more = more_within.or(has_more).and_then(|flag| match flag {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    });
    Some(CronList {
        found: list.iter().any(is_named),
        count: list.len(),
        has_more,
        total: total_within.or(total).and_then(|total| std::str::from_utf8(total).ok()?.parse().ok()),
        cursor: cursor_within.and_then(as_text).or_else(|| next_cursor.and_then(as_text)).map(Cow::into_owned),
    })
}

/// A page of a list of cron jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronList {
    /// Whether the name is on it.
    pub found: bool,
    /// How many cron jobs are.
    pub count: usize,
    /// Whether there are more, where it says so.
    pub has_more: Option<bool>,
    /// How many there are in all, where it says so.
    pub total: Option<usize>,
    /// Where the next page begins, in the server's own words.
    pub cursor: Option<String>,
}

impl CronList {
    /// Whether more follow where so many were seen, those of this page included. A page of none is the last one.
    #[must_use]
    pub fn goes_on(&self, seen: usize) -> bool {
        let told = self.has_more.or(self.total.map(|total| seen < total));
        self.count > 0 && told.unwrap_or(self.cursor.is_some())
    }
}

/// The content of a health answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthWord {
    /// Its `status`; none where it has several, which two readers could take for two different ones.
    pub status: Option<String>,
    /// Its `version`, the one of OJS that the server speaks, where it is a plain word of at most 32 bytes.
    pub version: Option<String>,
}

/// Reads a health answer. Spec: ojs-protocol 2.9.
#[must_use]
pub fn health(body: &[u8]) -> HealthWord {
    let [status, version] = places_of(body, ["status", "version"]);
    let plain = |text: &Cow<'_, str>| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
        (1..=VERSION_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
    };
    HealthWord {
        status: status.filter(|place| place.count == 1).and_then(|place| as_text(place.value)).map(Cow::into_owned),
        version: version.and_then(|place| as_text(place.value)).filter(plain).map(Cow::into_owned),
    }
}

/// The depth of a queue, available + active. Spec: ojs-protocol 2.6; under `stats`, or under `queue` on real servers.
#[must_use]
pub fn queue_depth(body: &[u8]) -> Option<u64> {
    depth_within(body, ["stats", "queue"])
}

/// The jobs that wait in a queue, available, where its statistics show them. Spec: ojs-protocol 2.6.
#[must_use]
pub fn queue_available(body: &[u8]) -> Option<u64> {
    let [stats, queue, available] = members_of(body, ["stats", "queue", "available"]);
    let inside = [stats, queue].into_iter().flatten();
    inside.filter_map(|object| members_of(object, ["available"])[0]).next().or(available).and_then(as_number)
}

/// The depth of a whole region, available + active. Spec: ojs-protocol 2.7; under `jobs`, under `stats`, or bare.
#[must_use]
pub fn admin_depth(body: &[u8]) -> Option<u64> {
    depth_within(body, ["jobs", "stats"])
}

fn depth_within(body: &[u8], [first, second]: [&str; 2]) -> Option<u64> {
    let [first, second, available, active] = members_of(body, [first, second, "available", "active"]);
    let inside = [first, second].into_iter().flatten();
    let depth_of = |object| {
        let [available, active] = members_of(object, ["available", "active"]);
        depth(available, active)
    };
    inside.into_iter().find_map(depth_of).or_else(|| depth(available, active))
}

/// Both figures must be there: a depth without the active jobs would not compare with one that has them.
fn depth(available: Option<&[u8]>, active: Option<&[u8]>) -> Option<u64> {
    available.and_then(as_number)?.checked_add(active.and_then(as_number)?)
}

/// The elements of an array, as they stand.
fn array(value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    let mut scanner = Scanner::new(value, DEPTH_MAX).ok()?;
    let read = scanner.array(|scanner| {
        let (start, end) = scanner.skip()?;
        found.extend(value.get(start..end));
        Ok::<(), ScanError>(())
    });
    read.is_ok().then_some(found)
}

#[cfg(test)]
mod tests;
