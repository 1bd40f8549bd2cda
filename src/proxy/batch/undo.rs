//! Undoing: jobs that some regions have created are cancelled when others did not take theirs.

use futures_util::StreamExt as _;
use futures_util::stream;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use super::super::Proxy;
use super::super::ask::{Question, ask};
use crate::ojs::{Class, path_segment};
use crate::policy::{GuardClass, RegionIndex};

/// Cancellations under way at once, so that a large batch takes no region's connections from everybody else.
const AT_ONCE: usize = 32;
/// A cancellation whose answer is lost is asked for once more: it does no harm.
const TRIES: usize = 2;

/// A job to be cancelled.
pub(super) struct Doomed {
    /// Its place in the request.
    pub(super) member: usize,
    pub(super) region: RegionIndex,
    pub(super) id: String,
    /// Whether the region said that it stored the job; else it may have.
    pub(super) certain: bool,
}

/// What became of it.
pub(super) enum Undone {
    /// The job is cancelled.
    Cancelled,
    /// There is no such job.
    Absent,
    /// It is there still, as far as is known.
    Not,
}

/// Cancels jobs. Bounded by the deadline and by how many go at once.
pub(super) async fn undo(
    proxy: &Proxy,
    headers: &HeaderMap,
    doomed: Vec<Doomed>,
    deadline: Instant,
) -> Vec<(Doomed, Undone)> {
    let one = |job: Doomed| async move {
        let undone = cancel(proxy, headers, &job, deadline).await;
        (job, undone)
    };
    stream::iter(doomed).map(one).buffer_unordered(AT_ONCE).collect().await
}

async fn cancel(proxy: &Proxy, headers: &HeaderMap, job: &Doomed, deadline: Instant) -> Undone {
    let Ok(path) = PathAndQuery::try_from(format!("/ojs/v1/jobs/{}", path_segment(&job.id))) else {
        return Undone::Not;
    };
    let (method, headers, body) = (Method::DELETE, headers.clone(), Vec::new());
    // No exception to a breaker that has opened since: what could not be cancelled is told to the client. But no guard and no limit
    // refuses it, as they refuse no word about a leased job.
    let question = Question { method, path, headers, body, deadline, guard: GuardClass::Ack, leased: false };
    for tries in 1..=TRIES {
        if Instant::now() >= deadline {
            break;
        }
        let Ok(answer) = ask(proxy, Class::Job, job.region, &question).await else { continue };
        match answer.status {
            status if status.is_success() => return Undone::Cancelled,
            StatusCode::NOT_FOUND => return Undone::Absent,
            // The first time it says that the job has run; after a lost answer, that our own cancellation came through.
            StatusCode::CONFLICT if tries > 1 => return Undone::Cancelled,
            StatusCode::CONFLICT => return Undone::Not,
            _ => {}
        }
    }
    Undone::Not
}
