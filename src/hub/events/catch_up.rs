//! Looks at the lists of a queue where events may have been missed: behind each opening of its stream, and where its server says so.

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::super::event_counts::{CatchUp, EventResult};
use super::super::target::Unread;
use super::source::Source;
use super::taken_step::TakenStep;
use crate::base::text::read_rfc3339;
use crate::ojs::job_events::{JobStep, NotObserved, ObservedJob};
use crate::ojs::path_segment;
use crate::policy::TENANT_KEY;

/// States of jobs that have not ended, and of those that have.
const OPEN: [&str; 5] = ["available", "scheduled", "pending", "active", "retryable"];
const ENDED: [&str; 3] = ["completed", "discarded", "cancelled"];
/// Jobs on a page: the next smaller page is read where one is too long. Each divides the one before it, so that pages begin at the same jobs.
const PAGES: [usize; 4] = [50, 25, 5, 1];
/// Jobs of a state.
const JOBS_MAX: usize = 200;
/// Lists in a row without an answer, behind which the others are not asked for.
const FAILURES_MAX: usize = 2;
/// The longest page. One is read at a time. Units: bytes.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A job that has ended before the gap by more was seen to end. Units: milliseconds.
const BEFORE_MS: u64 = 5_000;

/// A page of a list. Shape: `{"items":[…]}`, or `{"jobs":[…]}`. Spec: ojs-protocol 2.7.
#[derive(Deserialize)]
struct Page<'b> {
    #[serde(borrow, default)]
    items: Option<Vec<&'b RawValue>>,
    #[serde(borrow, default)]
    jobs: Option<Vec<&'b RawValue>>,
}

/// Hands out the steps of the jobs in the lists of a queue. `since_ms`: when the last event was read; none at the first opening, which looks for
/// jobs that have not ended only. Units: milliseconds since the Unix epoch.
pub(super) async fn catch_up(
    source: &Source<'_>,
    queue: &str,
    since_ms: Option<u64>,
    out: &mpsc::Sender<TakenStep>,
) -> CatchUp {
    // One page in memory at a time, of all queues together. The semaphore is never closed.
    let _turn = source.lists.acquire().await.ok();
    let ended = if since_ms.is_some() { &ENDED[..] } else { &[] };
    let (mut ends, mut in_a_row) = (Vec::new(), 0);
    for state in OPEN.iter().chain(ended) {
        let end = catch_up_state(source, (queue, state), since_ms, out).await;
        ends.push(end);
        in_a_row = if end == CatchUp::Failed { in_a_row + 1 } else { 0 };
        if in_a_row >= FAILURES_MAX {
            break;
        }
    }
    if ends.iter().all(|it| *it == CatchUp::Absent) {
        return CatchUp::Absent;
    }
    let worst = [CatchUp::Failed, CatchUp::Cut].into_iter().find(|it| ends.contains(it));
    worst.unwrap_or(CatchUp::Done)
}

/// Hands out the steps of the jobs in one state.
async fn catch_up_state(
    source: &Source<'_>,
    (queue, state): (&str, &str),
    since_ms: Option<u64>,
    out: &mpsc::Sender<TakenStep>,
) -> CatchUp {
    let (mut sizes, mut read, mut end) = (PAGES.into_iter(), 0, CatchUp::Done);
    let mut size = sizes.next().unwrap_or(1);
    while read < JOBS_MAX {
        let page = read / size + 1;
        let path =
            format!("/ojs/v1/admin/jobs?queue={}&state={state}&page={page}&per_page={size}", path_segment(queue));
        let (status, body) = match source.asks.get(source.views, source.region, &path, PAGE_BYTES_MAX).await {
            Ok(answer) => answer,
            Err(Unread::Silent) => return CatchUp::Failed,
            Err(Unread::TooLong) => {
                match sizes.next() {
                    Some(smaller) => size = smaller,
                    // One job alone is too long.
                    None => (read, end) = (read + 1, CatchUp::Cut),
                }
                continue;
            }
        };
        let listed = if status.is_success() { steps(source, queue, &body, since_ms) } else { None };
        let Some((steps, count)) = listed else {
            return if status.is_server_error() || status.as_u16() == 429 { CatchUp::Failed } else { CatchUp::Absent };
        };
        for step in steps {
            if out.send(step).await.is_err() {
                return end;
            }
        }
        if count < size {
            return end;
        }
        read += size;
    }
    CatchUp::Cut
}

/// The steps of the jobs on a page, and the number of jobs; none where it is no list.
fn steps(source: &Source<'_>, queue: &str, body: &[u8], since_ms: Option<u64>) -> Option<(Vec<TakenStep>, usize)> {
    let page: Page<'_> = serde_json::from_slice(body).ok()?;
    let items = page.items.or(page.jobs)?;
    let (mut all, mut odd) = (Vec::new(), 0);
    for item in &items {
        match ObservedJob::read(item.get().as_bytes(), TENANT_KEY) {
            Ok(job) if job.queue == queue => {
                if !has_ended_before(&job, since_ms) {
                    steps_of(source, &job, &mut all);
                }
            }
            // A server that does not filter by queues shows others.
            Ok(_) | Err(NotObserved::Fence) => {}
            // The region is asked for the job alone, and may show its meta there.
            Err(NotObserved::Unclear | NotObserved::NoJob) => odd += 1,
        }
    }
    source.counts.note(EventResult::Odd, odd);
    Some((all, items.len()))
}

fn has_ended_before(job: &ObservedJob<'_>, since_ms: Option<u64>) -> bool {
    let at = job.changed_at.as_deref().and_then(read_rfc3339);
    let is_before = |since: u64| at.is_some_and(|at| at.saturating_add(BEFORE_MS) < since);
    ENDED.contains(&&*job.state) && since_ms.is_some_and(is_before)
}

/// The steps of a job, each at the time that the region shows for it. A start without a time, and the time of an enqueue that is not shown, are left
/// out; an end without a time is taken where no fact has it yet.
fn steps_of(source: &Source<'_>, job: &ObservedJob<'_>, all: &mut Vec<TakenStep>) {
    let times = source.times();
    for step in job.steps() {
        let at = match step {
            JobStep::Stored(_) if job.stored_at.is_none() => continue,
            JobStep::Stored(_) => job.stored_at.as_deref(),
            JobStep::Started if job.started_at.is_none() => continue,
            JobStep::Started => job.started_at.as_deref(),
            _ => job.changed_at.as_deref(),
        };
        // A job may have been stored before the index keeps facts.
        all.extend(TakenStep::new(&job.id, step, at, times, source.now()));
    }
}
