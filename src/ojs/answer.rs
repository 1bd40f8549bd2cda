//! What regions answer, read just as far as needed and in every dialect that servers speak.

use std::borrow::Cow;

use super::batch;
use super::fault::Fault;
use super::key::Text;
use super::scan::{ScanError, Scanner};

/// Regions may nest deeper than clients are allowed to, but not without bound.
pub(super) const DEPTH_MAX: usize = 1024;
/// A longer code is no word.
const CODE_BYTES_MAX: usize = 64;

/// Whether a body is an OJS error document: an answer of the server itself, not of a balancer before it.
///
/// Spec: ojs-protocol 4.1; `{"error":{"code":…}}`, or a bare `{"code":…,"message":…}`.
#[must_use]
pub fn is_error_document(body: &[u8]) -> bool {
    if member(body, "error").and_then(|error| text(error, "code")).is_some() {
        return true;
    }
    text(body, "code").is_some() && text(body, "message").is_some()
}

/// The job's id in the answer to an enqueue: of `job`, or of a bare job.
#[must_use]
pub fn job_id_of(body: &[u8]) -> Option<String> {
    let id = match member(body, "job") {
        Some(job) => text(job, "id"),
        None => text(body, "id"),
    };
    id.map(Cow::into_owned)
}

/// The id of the job that stands in the way of an enqueue that was refused as a duplicate. Spec: ojs-protocol 3.2.
#[must_use]
pub fn existing_job_id(body: &[u8]) -> Option<String> {
    let error = member(body, "error").unwrap_or(body);
    text(member(error, "details")?, "existing_job_id").map(Cow::into_owned)
}

/// The id of a job or workflow in a list; what else has an id there has no type or no state.
#[must_use]
pub fn listed_id(item: &[u8]) -> Option<String> {
    text(item, "type").and_then(|_| text(item, "state"))?;
    text(item, "id").map(Cow::into_owned)
}

/// The code of an error document, where it is a plain word and so nobody's data.
#[must_use]
pub fn error_code(body: &[u8]) -> Option<String> {
    let code = text(member(body, "error").unwrap_or(body), "code")?;
    let is_word = code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word.then(|| code.into_owned())
}

/// The id of the workflow in an answer that shows one: of `workflow`, or of a bare one.
#[must_use]
pub fn workflow_id_of(body: &[u8]) -> Option<String> {
    text(member(body, "workflow").unwrap_or(body), "id").map(Cow::into_owned)
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
    let list = ["cron_jobs", "crons", "items"].into_iter().find_map(|member| batch::answer::elements(body, member))?;
    let is_named = |(start, end): &(usize, usize)| {
        body.get(*start..*end).and_then(|cron| text(cron, "name")).is_some_and(|text| text == name)
    };
    let pagination = member(body, "pagination").unwrap_or_default();
    let figure = |name: &str| member(pagination, name).or_else(|| member(body, name));
    let has_more = figure("has_more").and_then(|flag| match flag {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    });
    Some(CronList {
        found: list.iter().any(is_named),
        count: list.len(),
        has_more,
        total: figure("total").and_then(|total| std::str::from_utf8(total).ok()?.parse().ok()),
        cursor: text(pagination, "next_cursor").or_else(|| text(body, "next_cursor")).map(Cow::into_owned),
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

/// The `status` of a health answer.
#[must_use]
pub fn health_status(body: &[u8]) -> Option<String> {
    text(body, "status").map(Cow::into_owned)
}

/// The depth of a queue, available + active. Spec: ojs-protocol 2.6; under `stats`, or under `queue` on real servers.
#[must_use]
pub fn queue_depth(body: &[u8]) -> Option<u64> {
    ["stats", "queue"].into_iter().find_map(|name| depth(member(body, name)?)).or_else(|| depth(body))
}

/// The depth of a whole region, available + active. Spec: ojs-protocol 2.7; under `jobs`, under `stats`, or bare.
#[must_use]
pub fn admin_depth(body: &[u8]) -> Option<u64> {
    ["jobs", "stats"].into_iter().find_map(|name| depth(member(body, name)?)).or_else(|| depth(body))
}

/// Both figures must be there: a depth without the active jobs would not compare with one that has them.
fn depth(object: &[u8]) -> Option<u64> {
    number(object, "available")?.checked_add(number(object, "active")?)
}

fn number(object: &[u8], name: &str) -> Option<u64> {
    std::str::from_utf8(member(object, name)?).ok()?.parse().ok()
}

pub(super) fn text<'b>(object: &'b [u8], name: &str) -> Option<Cow<'b, str>> {
    let value = std::str::from_utf8(member(object, name)?).ok()?;
    value.starts_with('"').then(|| Text::quoted(value, 0).decode())
}

/// The value of a member of an object, as it stands; the last one where there are several.
pub(super) fn member<'b>(object: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let mut found = None;
    let mut read = || -> Result<(), Fault> {
        let mut scanner = Scanner::new(object, DEPTH_MAX)?;
        scanner.object(|scanner, key| {
            let place = scanner.skip()?;
            if key.decode() == name {
                found = Some(place);
            }
            Ok::<(), ScanError>(())
        })?;
        Ok(scanner.end()?)
    };
    read().ok()?;
    let (start, end) = found?;
    object.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_says_is_an_error_document() {
        for (body, expected) in [
            (r#"{"error":{"code":"backend_error","message":"m","retryable":true,"request_id":"r"}}"#, true),
            (r#"{"code":"BACKEND_UNAVAILABLE","message":"m","retryable":true}"#, true),
            (r#"{"message":"Service Unavailable"}"#, false),
            (r#"{"error":"upstream connect error"}"#, false),
            (r#"{"error":{"code":503}}"#, false),
            (r#"{"code":"x"}"#, false),
            ("<html>503</html>", false),
            (r#"{"error":{"code":"x"}"#, false),
            ("", false),
        ] {
            assert_eq!(is_error_document(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn the_id_of_an_enqueued_job_is_found_in_both_dialects() {
        for (body, expected) in [
            (r#"{"job":{"args":[1E400],"id":"a"}}"#, Some("a")),
            (r#"{"id":"b","state":"available"}"#, Some("b")),
            (r#"{"job":{"state":"x"},"id":"c"}"#, None),
            (r#"{"job":{"id":7}}"#, None),
            ("[]", None),
        ] {
            assert_eq!(job_id_of(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn the_id_of_the_job_that_is_there_already_is_found_in_both_dialects() {
        for (body, expected) in [
            (r#"{"error":{"code":"duplicate","details":{"existing_job_id":"a"}}}"#, Some("a")),
            (r#"{"code":"DUPLICATE_JOB","details":{"existing_job_id":"b"}}"#, Some("b")),
            (r#"{"error":{"details":{}}}"#, None),
            ("", None),
        ] {
            assert_eq!(existing_job_id(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn only_a_plain_word_is_taken_for_a_code() {
        for (body, expected) in [
            (r#"{"error":{"code":"queue_paused"}}"#, Some("queue_paused")),
            (r#"{"code":"RATE_LIMITED","message":"m"}"#, Some("RATE_LIMITED")),
            (r#"{"error":{"code":"args: [1]"}}"#, None),
            (r#"{"error":"x"}"#, None),
            ("x", None),
        ] {
            assert_eq!(error_code(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn cron_jobs_are_found_in_lists_of_both_dialects_and_page_by_page() {
        let list = |found, count, has_more, cursor: Option<&str>| {
            Some(CronList { found, count, has_more, total: None, cursor: cursor.map(str::to_owned) })
        };
        for (body, expected) in [
            (r#"{"crons":[{"name":"a"},{"name":"nightly"}]}"#, list(true, 2, None, None)),
            (
                r#"{"cron_jobs":[{"name":"a"}],"pagination":{"has_more":true,"next_cursor":"c"}}"#,
                list(false, 1, Some(true), Some("c")),
            ),
            (r#"{"crons":[{"name":"a"}],"has_more":true,"next_cursor":"c"}"#, list(false, 1, Some(true), Some("c"))),
            (r#"{"items":[],"pagination":{"has_more":false}}"#, list(false, 0, Some(false), None)),
            (r#"{"crons":{}}"#, None),
            ("404 page not found", None),
        ] {
            assert_eq!(cron_list(body.as_bytes(), "nightly"), expected, "{body}");
        }
    }

    #[test]
    fn a_list_of_cron_jobs_goes_on_wherever_its_server_says_so() {
        for (body, seen, expected) in [
            (r#"{"crons":[{}]}"#, 1, false),
            (r#"{"crons":[{}],"has_more":true}"#, 1, true),
            (r#"{"crons":[{}],"has_more":false,"total":9}"#, 1, false),
            (r#"{"crons":[{}],"total":9,"limit":1,"offset":3}"#, 4, true),
            (r#"{"crons":[{}],"pagination":{"total":9}}"#, 9, false),
            (r#"{"crons":[{}],"next_cursor":"c"}"#, 1, true),
            (r#"{"crons":[{}],"next_cursor":null}"#, 1, false),
            (r#"{"crons":[],"has_more":true}"#, 1, false),
        ] {
            assert_eq!(cron_list(body.as_bytes(), "x").unwrap().goes_on(seen), expected, "{body}");
        }
    }

    #[test]
    fn health_and_depth_are_read_in_every_dialect() {
        assert_eq!(health_status(br#"{"status":"ok","backend":{"status":"down"}}"#).as_deref(), Some("ok"));
        assert_eq!(health_status(br#"{"status":true}"#), None);
        for (body, expected) in [
            (r#"{"queue":"q","stats":{"available":3,"active":4,"scheduled":9}}"#, Some(7)),
            (r#"{"queue":{"name":"q","available":3,"active":4,"paused":false}}"#, Some(7)),
            (r#"{"queue":{"available":3}}"#, None),
            (r#"{"queue":{"available":-3,"active":4}}"#, None),
            (r#"{"stats":{"available":18446744073709551615,"active":1}}"#, None),
        ] {
            assert_eq!(queue_depth(body.as_bytes()), expected, "{body}");
        }
        for (body, expected) in [
            (r#"{"queues":5,"workers":2,"jobs":{"available":184,"active":47,"scheduled":92}}"#, Some(231)),
            (r#"{"available":1,"active":2}"#, Some(3)),
            (r#"{"queues":5}"#, None),
        ] {
            assert_eq!(admin_depth(body.as_bytes()), expected, "{body}");
        }
    }
}
