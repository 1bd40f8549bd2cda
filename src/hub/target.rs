//! Questions of a hub to regions: whether they have a job, and orders to store or to cancel it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};

use super::views::Views;
use crate::base::RegionId;
use crate::base::text::read_rfc3339;
use crate::net::pool::{Pool, RegionBody};
use crate::ojs::answer::{ShownJob, is_error_document};
use crate::ojs::{progress, shows_fence};
use crate::region::{AskError, JobQuestion, Region, ask_job, ask_long, open_events};
use crate::replica::is_text;

/// The longest answer that is read: a job is at most half as long. Units: bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest word that is kept of a state: those of the protocol have up to 9. Units: bytes.
const WORD_BYTES_MAX: usize = 64;

/// The word of a region about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum Word {
    /// It has the job.
    Has {
        /// Its state, in the words of OJS; empty where the region shows none, or no short word.
        state: String,
        /// When it was enqueued there. Units: milliseconds since the Unix epoch.
        enqueued_ms: Option<u64>,
        /// Whether a worker has had it, by its count of attempts or by `started_at`.
        is_started: bool,
    },
    /// It has stored the job, or found it stored, under this other id; empty where that is no text of an id.
    Other(String),
    /// It does not have it.
    Absent,
    /// It refuses the request for good, with this status.
    Refused(StatusCode),
    /// The request has certainly not reached it, or it has done nothing with it; why. For an enqueue never by the word of a balancer alone.
    NotSent(String),
    /// Nothing that is about the job, or no answer; why.
    Silent(String),
}

/// Why an answer could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum Unread {
    /// It is longer than asked for.
    TooLong,
    /// The region does not answer, or is not listed.
    Silent,
}

/// The regions that a hub asks, with connections of its own to each.
#[derive(Debug)]
pub(in crate::hub) struct Regions {
    pools: RefCell<BTreeMap<RegionId, Pool>>,
    answer_wait: Duration,
}

impl Regions {
    /// No connection is open yet. `answer_wait`: for one answer, connecting included.
    pub(in crate::hub) fn new(answer_wait: Duration) -> Self {
        Self { pools: RefCell::default(), answer_wait }
    }

    /// Whether the region has a job.
    pub(in crate::hub) async fn look(&self, views: &Views, region: &RegionId, job_id: &str) -> Word {
        self.ask(views, region, job_id, &JobQuestion::Look).await
    }

    /// Cancels a job there.
    pub(in crate::hub) async fn cancel(&self, views: &Views, region: &RegionId, job_id: &str) -> Word {
        self.ask(views, region, job_id, &JobQuestion::Cancel).await
    }

    /// Stores a job there; one that may have been stored is [`Word::Silent`].
    pub(in crate::hub) async fn store(
        &self,
        views: &Views,
        region: &RegionId,
        job_id: &str,
        job: (HeaderMap, Bytes),
    ) -> Word {
        let (headers, body) = job;
        self.ask(views, region, job_id, &JobQuestion::Enqueue { headers, body }).await
    }

    /// The word of the region about a question, with the whole answer. A tombstone is no job.
    pub(in crate::hub) async fn ask_whole(
        &self,
        views: &Views,
        region: &RegionId,
        job_id: &str,
        question: &JobQuestion,
    ) -> (Word, Bytes) {
        let (heard, body) = self.heard(views, region, job_id, question).await;
        if shows_fence(&body) { (Word::Absent, Bytes::new()) } else { (heard, body) }
    }

    /// The status and the body of the answer to `GET path` of a region.
    ///
    /// Errors: [`Unread`].
    pub(in crate::hub) async fn get(
        &self,
        views: &Views,
        region: &RegionId,
        path: &str,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), Unread> {
        let (to, pool) = self.reach(views, region).ok_or(Unread::Silent)?;
        ask_long(&to, &pool, path, bytes_max, self.answer_wait).await.map_err(|error| match error {
            AskError::TooLong => Unread::TooLong,
            _ => Unread::Silent,
        })
    }

    /// Opens a stream of events of a region, behind the event with an id.
    ///
    /// Errors: a sentence for the operator.
    pub(in crate::hub) async fn open_events(
        &self,
        views: &Views,
        region: &RegionId,
        path: &str,
        last_id: Option<&str>,
    ) -> Result<Response<RegionBody>, String> {
        let (to, pool) = self.reach(views, region).ok_or_else(|| unknown(region))?;
        let opened = open_events(&to, &pool, path, last_id, self.answer_wait).await;
        opened.map_err(|error| format!("{region}: {error}"))
    }

    /// A region, and the connections of these questions to it.
    fn reach(&self, views: &Views, region: &RegionId) -> Option<(Arc<Region>, Pool)> {
        let (to, pool) = views.reach(region)?;
        let pool = self.pools.borrow_mut().entry(region.clone()).or_insert(pool).clone();
        Some((to, pool))
    }

    async fn ask(&self, views: &Views, region: &RegionId, job_id: &str, question: &JobQuestion) -> Word {
        self.heard(views, region, job_id, question).await.0
    }

    async fn heard(&self, views: &Views, region: &RegionId, job_id: &str, question: &JobQuestion) -> (Word, Bytes) {
        let Some((to, pool)) = self.reach(views, region) else {
            return (Word::NotSent(unknown(region)), Bytes::new());
        };
        match ask_job(&to, &pool, question, job_id, ANSWER_BYTES_MAX, self.answer_wait).await {
            Ok((status, body)) => (word(question, job_id, status, &body), body),
            Err(error @ AskError::NotSent(_)) => (Word::NotSent(format!("{region}: {error}")), Bytes::new()),
            Err(error) => (Word::Silent(format!("{region}: {error}")), Bytes::new()),
        }
    }
}

fn unknown(region: &RegionId) -> String {
    format!("{region} is not among the `regions` of this hub")
}

/// A word of a region: short, and no data of a client.
fn short_word(text: &str) -> Option<String> {
    let is_word = text.len() <= WORD_BYTES_MAX && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    is_word.then(|| text.to_owned())
}

fn word(question: &JobQuestion, job_id: &str, status: StatusCode, body: &[u8]) -> Word {
    let shown = ShownJob::read(body);
    let creates = matches!(question, JobQuestion::Enqueue { .. });
    let is_of_server = is_error_document(body);
    let status_text = || format!("the answer about job {job_id} has the status {status}");
    match (status.as_u16(), shown.id.as_deref()) {
        (200..300, Some(id)) if id == job_id => Word::Has {
            state: shown.state.as_deref().and_then(short_word).unwrap_or_default(),
            enqueued_ms: shown.enqueued_at.as_deref().and_then(read_rfc3339),
            is_started: progress(body).is_some_and(|it| it.started),
        },
        (200..300, Some(id)) if creates => Word::Other(if is_text(id) { id.to_owned() } else { String::new() }),
        (404 | 410, _) if !creates && is_of_server => Word::Absent,
        // A balancer answers so also after it has forwarded a job (ADR 0092); a server that takes none now says so in a document.
        (429 | 503, _) if creates && is_of_server => Word::NotSent(status_text()),
        (401 | 403 | 404 | 408 | 425 | 429 | 503, _) if creates => Word::Silent(status_text()),
        // Nor does one, or a service for credentials, end anything.
        (401 | 403 | 404 | 408 | 425 | 429 | 503, _) => Word::NotSent(status_text()),
        (400..500, _) if is_of_server || status == StatusCode::PAYLOAD_TOO_LARGE => Word::Refused(status),
        (400..500, _) if !creates => Word::NotSent(status_text()),
        _ => Word::Silent(status_text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_a_server_about_this_job_count() {
        let job = br#"{"job":{"id":"j","state":"available","enqueued_at":"2026-01-01T00:00:00Z"}}"#;
        let error = br#"{"error":{"code":"not_found","message":"no"}}"#;
        let enqueue = JobQuestion::Enqueue { headers: HeaderMap::new(), body: Bytes::new() };
        let had = br#"{"job":{"id":"j","state":"available","attempt":1}}"#;
        let begun = br#"{"job":{"id":"j","state":"available","attempt":0,"started_at":"2026-01-01T00:00:00Z"}}"#;
        let has = |state: &str, enqueued_ms| Word::Has { state: state.to_owned(), enqueued_ms, is_started: false };
        let started = || Word::Has { state: "available".to_owned(), enqueued_ms: None, is_started: true };
        let at = Some(1_767_225_600_000);
        let not_sent = || Word::NotSent(String::new());
        let silent = || Word::Silent(String::new());
        let other = br#"{"job":{"id":"other"}}"#;
        let long = format!(r#"{{"id":"j","state":"{}"}}"#, "a".repeat(65));
        let long_id = format!(r#"{{"id":"{}"}}"#, "a".repeat(5_000));
        for (question, status, body, expected) in [
            (&JobQuestion::Look, 200, &job[..], has("available", at)),
            (&enqueue, 201, &job[..], has("available", at)),
            (&JobQuestion::Look, 200, had, started()),
            (&JobQuestion::Look, 200, begun, started()),
            (&JobQuestion::Look, 200, other, silent()),
            (&enqueue, 200, other, Word::Other("other".to_owned())),
            (&enqueue, 201, b"<html>", silent()),
            (&JobQuestion::Look, 404, error, Word::Absent),
            (&JobQuestion::Look, 404, b"<html>", not_sent()),
            (&enqueue, 404, error, silent()),
            (&enqueue, 404, b"<html>", silent()),
            (&enqueue, 422, error, Word::Refused(StatusCode::UNPROCESSABLE_ENTITY)),
            (&enqueue, 422, b"<html>", silent()),
            (&JobQuestion::Cancel, 422, b"<html>", not_sent()),
            (&enqueue, 413, b"<html>", Word::Refused(StatusCode::PAYLOAD_TOO_LARGE)),
            (&enqueue, 401, error, silent()),
            (&enqueue, 408, error, silent()),
            (&enqueue, 429, error, not_sent()),
            (&enqueue, 429, b"", silent()),
            (&enqueue, 503, error, not_sent()),
            (&enqueue, 503, b"<html>", silent()),
            (&JobQuestion::Look, 503, b"<html>", not_sent()),
            (&JobQuestion::Look, 401, error, not_sent()),
            (&JobQuestion::Look, 200, br#"{"id":"j","state":"<b>"}"#, has("", None)),
            (&JobQuestion::Look, 200, long.as_bytes(), has("", None)),
            (&enqueue, 201, long_id.as_bytes(), Word::Other(String::new())),
            (&enqueue, 500, error, silent()),
            (&JobQuestion::Cancel, 200, b"{}", silent()),
            (&JobQuestion::Cancel, 409, error, Word::Refused(StatusCode::CONFLICT)),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let word = match word(question, "j", status, body) {
                Word::NotSent(_) => not_sent(),
                Word::Silent(_) => silent(),
                word => word,
            };
            assert_eq!(word, expected, "{question:?} {status}");
        }
    }
}
