//! Undoing: jobs that some regions have created are cancelled when others did not take theirs.

use futures_util::StreamExt as _;
use futures_util::stream;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use crate::journal::ID_BYTES_MAX;
use crate::ojs::answer::is_error_document;
use crate::ojs::header::REQUEST_ID;
use crate::ojs::{Class, path_segment, progress};
use crate::outcome::{Event, Place, Progress, Told};
use crate::policy::{GuardClass, RegionIndex};
use crate::proxy::{
    body::{offload::offload, shown_job::far},
    call::ask::{NoAnswer, Question, ask},
    placement::{Names, identity, rules},
    state::Proxy,
};
use crate::replica::ChangeKind;
use crate::telemetry::event;

/// Cancellations at once, so that a large batch leaves connections to other calls.
const AT_ONCE: usize = 32;
/// A cancellation whose answer is lost is sent once more, which is harmless.
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

/// The result of a cancellation.
pub(super) enum Undone {
    /// The job is cancelled.
    Cancelled,
    /// There is no such job.
    Absent,
    /// It is there still, as far as is known.
    Not,
    /// A cancellation was sent, and its answer is lost.
    Unknown,
}

impl Doomed {
    /// Whether the job may still be there.
    pub(super) const fn may_be_there(&self, undone: &Undone) -> bool {
        match undone {
            Undone::Unknown => true,
            Undone::Not => !self.certain,
            Undone::Cancelled | Undone::Absent => false,
        }
    }
}

/// Cancels jobs. Jobs that may still be there are in the journal when this returns. Bounded by the deadline and by
/// [`AT_ONCE`].
pub(super) async fn undo(
    proxy: &Proxy,
    headers: &HeaderMap,
    doomed: Vec<Doomed>,
    deadline: Instant,
) -> Vec<(Doomed, Undone)> {
    let one = |job: Doomed| async move {
        let undone = cancel(proxy, headers, &job, deadline).await;
        if job.may_be_there(&undone) {
            record(proxy, headers, &job).await;
        }
        (job, undone)
    };
    stream::iter(doomed).map(one).buffer_unordered(AT_ONCE).collect().await
}

async fn cancel(proxy: &Proxy, headers: &HeaderMap, job: &Doomed, deadline: Instant) -> Undone {
    let Ok(path) = PathAndQuery::try_from(format!("/ojs/v1/jobs/{}", path_segment(&job.id))) else {
        return Undone::Not;
    };
    // An open breaker refuses the cancellation, and the client's answer then lists the job. Guards and limits let it
    // through, as they do for acknowledgements.
    let delete = Question {
        method: Method::DELETE,
        guard: GuardClass::Ack,
        ..Question::get(path.clone(), headers.clone(), deadline)
    };
    let mut undone = Undone::Not;
    for _ in 0..TRIES {
        if Instant::now() >= deadline {
            break;
        }
        let answer = match ask(proxy, Class::Job, job.region, delete.clone()).await {
            Ok(answer) => answer,
            Err(NoAnswer::Unknown) => {
                undone = Undone::Unknown;
                continue;
            }
            Err(NoAnswer::Closed(_) | NoAnswer::NotSent) => continue,
        };
        match answer.status {
            status if status.is_success() => {
                proxy.shared.saw(ChangeKind::Cancelled, &job.id, &proxy.region(job.region).id, None);
                return Undone::Cancelled;
            }
            // A balancer's page is no word of the region, and a server's own failure none about the job.
            status if status.is_server_error() || !is_error_document(&answer.body) => undone = Undone::Unknown,
            StatusCode::NOT_FOUND => return Undone::Absent,
            // It is over: it has run, or an earlier try has come through.
            StatusCode::CONFLICT => break,
            _ => {}
        }
    }
    match undone {
        Undone::Unknown => shown(proxy, Question::get(path, headers.clone(), deadline), job).await,
        undone => undone,
    }
}

/// Looks a job up after a cancellation that may have been received, or may still be.
async fn shown(proxy: &Proxy, question: Question, job: &Doomed) -> Undone {
    let Ok(answer) = ask(proxy, Class::Job, job.region, question).await else { return Undone::Unknown };
    let shown = offload(answer.body.len(), move || progress(&answer.body))
        .await
        .filter(|it| it.id.eq_ignore_ascii_case(&job.id));
    match shown.as_ref().map(far) {
        Some(Progress::Cancelled | Progress::Stopped) => Undone::Cancelled,
        Some(Progress::Ended) => Undone::Not,
        Some(Progress::Waiting | Progress::Started) | None => Undone::Unknown,
    }
}

/// Records a job that is stored, or may be, while a cancellation may have come through.
///
/// Records the job, so that it is asked about. It is not cancelled later: the client's answer says that it has to look
/// it up.
async fn record(proxy: &Proxy, headers: &HeaderMap, job: &Doomed) {
    let request_id = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    event::unknown_outcome(proxy.metrics(job.region), Some(&job.id), request_id);
    if job.id.len() > ID_BYTES_MAX {
        return;
    }
    // No call repeats a job that was part of another call.
    let identity = identity(proxy, headers, Names::default(), &[]);
    let place = Place { region: proxy.region(job.region).id.clone(), job_id: job.id.clone() };
    let mut hold = proxy.shared.journal.begin(identity, rules(&proxy.shared.config));
    for event in [Event::Sending(place, None), Event::Stored(0), Event::Cancelling(0)] {
        hold.apply(event);
    }
    hold.end_durably(Told::Unknown).await;
}
