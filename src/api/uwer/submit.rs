//! `POST /uwer/v4/tasks`: a task becomes one job, whichever sidecars it comes to and however often.
//!
//! The store gives each key one job id before anything is sent. A call that finds a claim of another one looks for the job of that id in all
//! regions before it sends it. Spec: UWER §1, §3, §5.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use http::{HeaderMap, Request, StatusCode};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::answer::Answer;
use super::call::{self, Called};
use super::form::{Form, shape};
use super::letter::{self, Subject};
use super::store;
use crate::config::Uwer;
use crate::fleet::{TaskClaimed, TaskEnd, TaskRequest};
use crate::net::IncomingBody;
use crate::ojs::{self, ErrorDocument};
use crate::proxy::{Exchange, Proxy, offload, read_body, tenant_of};
use crate::telemetry::event;
use crate::uwer::{Code, Flaw, FlawKind, JobShape, Task, job_of, read_json, read_xml};

/// Two looks at a task that another call has: the first pause, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// The part of its time that a call waits for another one with its task.
const HELD_PART: u32 = 2;
/// A claim outlives its call by this: for the claim's own way, and for clocks that run at different speeds.
const MARGIN: Duration = Duration::from_secs(2);

/// Answers a sender: 201 with the names of the job, once a region and the store have it.
///
/// Errors: 415, 422 for a dead letter, 503 where the store does not commit; the region's own refusal of the job.
pub(super) async fn submit(
    proxy: &Proxy,
    exchange: &mut Exchange,
    uwer: &Uwer,
    request: Request<IncomingBody>,
) -> Result<Answer, ErrorDocument> {
    let form = Form::of(request.headers()).ok_or_else(ErrorDocument::uwer_media_type)?;
    let (headers, tenant) = (call::further(request.headers()), tenant_of(exchange, request.headers())?);
    let bytes = read_body(proxy, exchange, request).await?;
    let document = bytes.clone();
    let read = offload(bytes.len(), move || match form {
        Form::Xml => read_xml(&document),
        Form::Json => read_json(&document),
    });
    let task = match read.await {
        Ok(task) => task,
        Err(flaw) => {
            let subject = Subject { form, bytes: &bytes, tenant: tenant.as_deref(), job: None };
            return Err(letter::refused(proxy, uwer, subject, &flaw).await);
        }
    };
    let request = claim_of(proxy, &task, &shape(uwer, task.origin()));
    let mut submission = Submission { proxy, exchange, headers, request, task };
    let flaw = match submission.claimed().await? {
        TaskClaimed::Stored { job_id, region } => return Ok(submission.accepted(&job_id, region.as_str())),
        TaskClaimed::Taken { job_id, job_type, queue } => {
            let is_first = job_id == submission.request.job_id;
            submission.request = TaskRequest { job_id, job_type, queue, ..submission.request };
            match submission.run(is_first).await? {
                Ran::Answered(answer) => return Ok(answer),
                Ran::Refused(flaw) => flaw,
            }
        }
        TaskClaimed::Held { left_ms } => return Err(ErrorDocument::uwer_unsettled(left_ms.div_ceil(1_000).max(1))),
        TaskClaimed::OtherTask => other_task(),
    };
    let job = submission.job();
    let subject = Subject { form, bytes: &bytes, tenant: tenant.as_deref(), job: Some(&job) };
    Err(letter::refused(proxy, uwer, subject, &flaw).await)
}

/// The claim of a task by this call.
fn claim_of(proxy: &Proxy, task: &Task, shape: &JobShape<'_>) -> TaskRequest {
    let config = &proxy.shared.config;
    let lasts = config.limits.call_timeout + config.failover.late_write_grace + config.failover.read_lag;
    let lasts = lasts + store::ASK_WAIT + MARGIN;
    let id = ojs::federation_id(proxy.shared.registry.clock().unix_ms(), proxy.random.uuid_bits());
    TaskRequest {
        key: task.key().to_ascii_lowercase(),
        digest: HEXLOWER.encode(digest(&SHA256, task.identity().as_bytes()).as_ref()),
        workflow_id: task.workflow_id().to_ascii_lowercase(),
        origin: task.origin().to_owned(),
        job_id: id.to_string(),
        job_type: shape.job_type.to_owned(),
        queue: shape.queue.to_owned(),
        token: HEXLOWER.encode(&proxy.random.token()),
        hold_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
        end: None,
    }
}

/// The end of a call that has a task.
enum Ran {
    Answered(Answer),
    /// A region refuses the job.
    Refused(Flaw),
}

/// A task on its way to a region.
struct Submission<'p> {
    proxy: &'p Proxy,
    exchange: &'p Exchange,
    /// Headers of the sender for the calls about its job.
    headers: HeaderMap,
    task: Task,
    /// The claim, with the id of the job.
    request: TaskRequest,
}

impl Submission<'_> {
    /// The fate of the claim. A task that another call has is looked at again for a while.
    async fn claimed(&self) -> Result<TaskClaimed, ErrorDocument> {
        let wait = self.proxy.shared.config.limits.call_timeout / HELD_PART;
        let (until, mut pause) = (Instant::now() + wait, LOOKS.0);
        loop {
            let claimed = store::claim(self.proxy, &self.request).await?;
            if !matches!(claimed, TaskClaimed::Held { .. }) || Instant::now() + pause >= until {
                return Ok(claimed);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LOOKS.1);
        }
    }

    /// The job of the task, with the id, type and queue of the first claim.
    fn job(&self) -> String {
        let TaskRequest { job_id, job_type, queue, .. } = &self.request;
        job_of(&self.task, job_id, &JobShape { job_type, queue })
    }

    /// Sends the job of a claimed task. `is_first`: no earlier call can have sent it.
    async fn run(&self, is_first: bool) -> Result<Ran, ErrorDocument> {
        if !is_first {
            let found = self.look_up().await;
            match found.status {
                StatusCode::NOT_FOUND => {}
                status if status.is_success() => return self.stored(&found).await,
                _ => return Ok(self.not_sent(found).await),
            }
            // The look-up has taken its time: only a claim that is renewed lasts until the job's call is over.
            match store::claim(self.proxy, &self.request).await? {
                TaskClaimed::Taken { .. } => {}
                TaskClaimed::Stored { job_id, region } => {
                    return Ok(Ran::Answered(self.accepted(&job_id, region.as_str())));
                }
                _ => return Err(self.unsettled()),
            }
        }
        let called = call::enqueue(self.proxy, self.exchange, &self.headers, self.job()).await;
        match called.status {
            status if status.is_success() => self.stored(&called).await,
            // The claim stays: the next call looks for the job once it is over.
            _ if called.is_unknown => Err(self.unsettled()),
            StatusCode::CONFLICT => {
                let found = self.look_up().await;
                if found.status.is_success() { self.stored(&found).await } else { Ok(self.not_sent(called).await) }
            }
            _ => Ok(self.not_sent(called).await),
        }
    }

    async fn look_up(&self) -> Called {
        call::look_up(self.proxy, self.exchange, &self.headers, &self.request.job_id).await
    }

    fn unsettled(&self) -> ErrorDocument {
        ErrorDocument::uwer_unsettled(self.request.hold_ms.div_ceil(1_000))
    }

    /// Keeps the region of the job, and answers. The store is asked again for as long as the call lasts: without its word the sender repeats the task.
    async fn stored(&self, called: &Called) -> Result<Ran, ErrorDocument> {
        let region = called.region.clone().ok_or_else(|| self.unsettled())?;
        let answer = self.accepted(&self.request.job_id, region.as_str());
        let until = self.exchange.started() + self.proxy.shared.config.limits.call_timeout;
        let is_kept = loop {
            match store::settle(self.proxy, &self.request, TaskEnd::Stored(region.clone())).await {
                Ok(is_kept) => break is_kept,
                Err(document) if std::time::Instant::now() + LOOKS.1 >= until => return Err(document),
                Err(_) => sleep(LOOKS.1).await,
            }
        };
        if is_kept {
            return Ok(Ran::Answered(answer));
        }
        // After the loss of a record the key was claimed anew; or the job is in two regions.
        event::hub_key_doubled(&self.proxy.shared.metrics, Some(&self.request.job_id));
        Err(self.unsettled())
    }

    /// Gives the claim back, and passes the refusal on; that of the job itself by a region is a flaw of the task, and its key is free then.
    async fn not_sent(&self, called: Called) -> Ran {
        let is_of_job = called.region.is_some() && matches!(called.status.as_u16(), 400 | 413 | 422);
        // A region that fails may have stored it: the claim stays until it is over.
        let may_be_stored = called.region.is_some() && called.status.is_server_error();
        let end = if is_of_job { TaskEnd::Withdrawn } else { TaskEnd::Released };
        if !may_be_stored {
            // A claim that stays is over by itself.
            let _ = store::settle(self.proxy, &self.request, end).await;
        }
        if is_of_job {
            let status = called.status.as_u16();
            let expected = format!(
                "expected a job that the region accepts: it answered {status}; mend the payload, or `uwer.origins`"
            );
            return Ran::Refused(Flaw::without_place(FlawKind::Refused, "Payload", expected));
        }
        let (status, body) = (called.status, called.body.to_vec());
        Ran::Answered(Answer { status, body, retry_after: called.retry_after })
    }

    /// The same for each call with the task.
    fn accepted(&self, job_id: &str, region: &str) -> Answer {
        let code = Code::PendingDispatch;
        Answer::new(
            StatusCode::CREATED,
            &json!({
                "workflow_id": self.request.workflow_id, "idempotency_key": self.request.key, "job_id": job_id, "region": region,
                "code": code.hex(), "state": code.name(),
            }),
        )
    }
}

/// The flaw of a task under the key of another one.
fn other_task() -> Flaw {
    let expected =
        "expected the same task as before under this key: it came with other values; another task needs another key";
    Flaw::without_place(FlawKind::OtherTask, "IdempotencyKey", expected.to_owned())
}
