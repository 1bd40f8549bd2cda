//! Answers that wait for events: streams of server-sent events, and the long poll for a result.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::{mpsc, watch};

use super::answer::{Body, BoxError, Object, typed};
use super::context::Context;
use super::events::Event;
use super::problem::Problem;

/// How often an idle stream says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Parts that may wait for a slow reader before the producer waits too.
const QUEUED: usize = 8;

/// The beginning of every stream: the milliseconds after which a disconnected reader comes back.
const PRELUDE: &str = "retry: 3000\n\n";

/// A body that a task writes.
#[derive(Debug)]
struct Written(mpsc::Receiver<Bytes>);

impl http_body::Body for Written {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.get_mut().0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

/// `jobs/{id}/events`: the job's state now and at every change, until it is final or the reader goes.
pub(super) fn job_events(context: &Arc<Context>, id: String) -> Result<Response<Body>, Problem> {
    if context.store.lock().job(&id).is_none() {
        return Err(Problem::NoSuchJob(id));
    }
    let shared = Arc::clone(context);
    Ok(stream(|events| async move { send_job_events(&shared, &id, &events).await }))
}

/// `queues/{name}/events`: the queue's events from now on, until the reader disconnects.
pub(super) fn queue_events(context: &Arc<Context>, name: String) -> Response<Body> {
    // Taken before the answer begins, so that nothing that follows it is missed.
    let mut listening = Listening::begin(context, name);
    stream(move |events| async move { send_queue_events(&mut listening, &events).await })
}

/// A listener for a queue's events.
struct Listening {
    context: Arc<Context>,
    queue: String,
    /// None only while it ends.
    heard: Option<watch::Receiver<()>>,
    place: u64,
}

impl Listening {
    fn begin(context: &Arc<Context>, queue: String) -> Self {
        let mut store = context.store.lock();
        let log = store.events_mut();
        let (place, heard) = (log.end(), log.listen(&queue));
        if !std::mem::replace(&mut log.is_kept_up, true) {
            tokio::spawn(keep_up(Arc::clone(context)));
        }
        Self { context: Arc::clone(context), queue, heard: Some(heard), place }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.heard = None;
        let mut store = self.context.store.lock();
        if store.events_mut().leave(&self.queue) {
            store.announce();
        }
    }
}

/// Makes timed events happen, as long as callers listen: one task for all of them.
async fn keep_up(context: Arc<Context>) {
    let mut changes = context.store.lock().changes();
    loop {
        changes.borrow_and_update();
        {
            let mut store = context.store.lock();
            let log = store.events_mut();
            log.is_kept_up = log.is_heard();
            if !log.is_kept_up {
                return;
            }
        }
        changed(&context, &mut changes, HEARTBEAT).await;
    }
}

fn stream<F: Future<Output = ()> + Send + 'static>(tell: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> Response<Body> {
    let (events, written) = mpsc::channel(QUEUED);
    let reader = events.clone();
    let told = tell(events);
    tokio::spawn(async move {
        tokio::select! {
            () = reader.closed() => {}
            () = told => {}
        }
    });
    let mut response = typed(StatusCode::OK, "text/event-stream", Written(written).boxed_unsync());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn send_job_events(context: &Context, id: &str, events: &mpsc::Sender<Bytes>) {
    let mut changes = context.store.lock().changes();
    let mut told = None;
    let mut number = 0_u64;
    let mut text = PRELUDE.to_owned();
    loop {
        changes.borrow_and_update();
        let Some(state) = context.store.lock().job(id).map(|job| job.state) else { return };
        if told != Some(state) {
            told = Some(state);
            number += 1;
            let data = Object::new().text("job_id", id).text("state", state.as_str()).finish();
            text.push_str(&format!("id: evt_{number}\nevent: job.{}\ndata: {data}\n\n", state.as_str()));
        }
        if !text.is_empty() && events.send(std::mem::take(&mut text).into()).await.is_err() {
            return;
        }
        if state.is_terminal() {
            return;
        }
        if !changed(context, &mut changes, HEARTBEAT).await {
            text.push_str(":heartbeat\n\n");
        }
    }
}

async fn send_queue_events(listening: &mut Listening, events: &mpsc::Sender<Bytes>) {
    let mut text = PRELUDE.to_owned();
    let Listening { context, queue, heard: Some(heard), place } = listening else { return };
    loop {
        heard.borrow_and_update();
        {
            let mut store = context.store.lock();
            let log = store.events();
            text.extend(log.since(*place).filter(|event| event.queue == *queue).filter_map(Event::streamed));
            *place = log.end();
        }
        if !text.is_empty() && events.send(std::mem::take(&mut text).into()).await.is_err() {
            return;
        }
        tokio::select! {
            // Its sender stays for as long as callers listen.
            _ = heard.changed() => {}
            () = context.clock.sleep(HEARTBEAT) => text.push_str(":heartbeat\n\n"),
        }
    }
}

/// Waits until a job is final, or there is none, or the time is over.
pub(super) async fn until_final(context: &Context, id: &str, patience: Duration) {
    let mut changes = context.store.lock().changes();
    let deadline = context.clock.now() + patience;
    loop {
        changes.borrow_and_update();
        if context.store.lock().job(id).is_none_or(|job| job.state.is_terminal()) {
            return;
        }
        let left = deadline.saturating_duration_since(context.clock.now());
        if left.is_zero() {
            return;
        }
        changed(context, &mut changes, left).await;
    }
}

/// Waits for a change, also one that only time brings; false when none came within `patience`.
async fn changed(context: &Context, changes: &mut watch::Receiver<u64>, patience: Duration) -> bool {
    let due = context.store.lock().due_in_ms().map(Duration::from_millis);
    let by_time = due.filter(|due| *due < patience);
    tokio::select! {
        // The region itself holds the sender: it does not end before this.
        changed = changes.changed() => changed.is_ok(),
        () = context.clock.sleep(by_time.unwrap_or(patience)) => by_time.is_some(),
    }
}
