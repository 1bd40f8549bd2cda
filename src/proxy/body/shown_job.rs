//! Whether an answer shows the job that it should: nothing else is believed to be about it.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::offload::offload;
use crate::ojs::answer::{is_error_document, job_id_of};
use crate::ojs::header::MEDIA_TYPE;
use crate::ojs::{Progress, content, progress, shows_fence};
use crate::outcome::{self, Copy, Digest, Identity, Word};
use crate::proxy::state::{RegionAnswer, digest};

/// The length of an id that we mint. It is drawn at random, so that an answer which shows it comes from a region that
/// has seen the job. Units: bytes.
const MINTED_BYTES: usize = 36;
const FIRST_DASH: usize = 8;

/// The evidence that a 2xx to a creating call must show to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The job that was sent.
    Job {
        /// Its id is ours.
        minted: bool,
        /// By its `unique` policy the region may show another job that was there before.
        unique: bool,
    },
    /// Another reader judges it: the jobs of a batch, a workflow, a cron job.
    Else,
}

/// Whether an answer shows the job with this id, or one that stands for it; without an id any job.
pub(crate) fn is_shown(expected: Expected, answer: &RegionAnswer, id: Option<&str>) -> bool {
    let Expected::Job { minted, unique } = expected else { return true };
    let body = &answer.body;
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if !is_object {
        return false;
    }
    if id.is_some_and(|id| minted && id.len() == MINTED_BYTES && shows_minted(body, id)) {
        return true;
    }
    // A region that returns the existing job may return our own tombstone.
    if shows_fence(body) {
        return false;
    }
    match (job_id_of(body), id) {
        (Some(shown), Some(id)) => unique || shown.eq_ignore_ascii_case(id),
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// Whether an id of ours stands in an answer: by its first dash, which comes before all that is random, because there are few dashes, and
/// a search for any text takes longer to get ready than to be made.
fn shows_minted(body: &[u8], id: &str) -> bool {
    let Some(wanted) = id.as_bytes().get(FIRST_DASH..) else { return false };
    memchr::memchr_iter(b'-', body).any(|at| body.get(at..).is_some_and(|rest| rest.starts_with(wanted)))
}

/// The verdict of an answer to a look-up of a job: whether it shows this very job, by its tracking id or by its
/// content.
pub(crate) async fn word(answer: &RegionAnswer, copy: &Copy, identity: &Identity) -> Word {
    let (status, body) = (answer.status, answer.body.clone());
    let sought = Sought::of(copy, identity);
    offload(answer.body.len(), move || judge(status, &body, &sought)).await
}

/// The job that is looked for, without its caller.
#[derive(Debug)]
pub(crate) struct Sought {
    id: String,
    stamp: Option<String>,
    content: Option<Digest>,
    is_own: bool,
}

impl Sought {
    /// A copy of a job.
    pub(crate) fn of(copy: &Copy, identity: &Identity) -> Self {
        Self {
            id: copy.place.job_id.clone(),
            stamp: copy.stamp.clone(),
            content: identity.content,
            is_own: identity.own_id.is_some(),
        }
    }
}

/// Judges an answer to the question for a job.
pub(crate) fn judge(status: StatusCode, body: &[u8], sought: &Sought) -> Word {
    if status == StatusCode::NOT_FOUND {
        // A 404 that is no document is a balancer's, or a path that is not served.
        return if is_error_document(body) { Word::No } else { Word::Silent };
    }
    let Some(shown) = progress(body).filter(|it| status.is_success() && it.id.eq_ignore_ascii_case(&sought.id)) else {
        return Word::Silent;
    };
    if shown.is_fence {
        return Word::Tombstone(matches!(far(&shown), outcome::Progress::Cancelled | outcome::Progress::Stopped));
    }
    let is_same = match (&sought.stamp, &shown.federation_id) {
        (Some(sent), Some(shown)) => sent == shown,
        // An id of ours names one job only.
        _ if !sought.is_own => true,
        _ => content(body).map(|content| digest(&[&content])) == sought.content,
    };
    if is_same { Word::Has(far(&shown)) } else { Word::Other }
}

/// How far a shown job has come.
pub(crate) fn far(shown: &Progress) -> outcome::Progress {
    outcome::Progress::of(&shown.state, shown.started)
}

/// Whether an answer to a look-up shows a job of this id, of any caller; `None` where the answer says nothing about it.
pub(crate) async fn has(answer: &RegionAnswer, id: &str) -> Option<bool> {
    let (status, body, id) = (answer.status, answer.body.clone(), id.to_owned());
    let read = move || match status.as_u16() {
        200..=299 => {
            let shown = progress(&body).filter(|it| it.id.eq_ignore_ascii_case(&id));
            // A tombstone has the id, and is no job.
            shown.map(|it| !it.is_fence)
        }
        404 if is_error_document(&body) => Some(false),
        _ => None,
    };
    offload(answer.body.len(), read).await
}

/// The answer for an id that only a tombstone has: that of a region without such a job.
pub(crate) fn no_job() -> RegionAnswer {
    const DOCUMENT: &[u8] = br#"{"error":{"code":"not_found","message":"no job has this id","retryable":false}}"#;
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))]);
    RegionAnswer { status: StatusCode::NOT_FOUND, headers, body: Bytes::from_static(DOCUMENT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_ours_is_found_wherever_it_stands_and_none_beside_it() {
        let id = "01a217af-ed21-75b8-8d70-3362742f21ac";
        for body in [format!(r#"{{"a-b":"-","id":"{id}"}}"#), format!("--{id}--"), format!("/ojs/v1/jobs/{id}")] {
            assert!(shows_minted(body.as_bytes(), id), "{body}");
        }
        for other in ["", "-", "01a217af-ed21-75b8-8d70", "01a217af-ed21-75b8-8d70-3362742f21ad"] {
            assert!(!shows_minted(other.as_bytes(), id), "{other}");
        }
    }
}
