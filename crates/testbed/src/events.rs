//! The history of a region, as the events of the protocol.

use std::collections::{HashMap, VecDeque};

use tokio::sync::watch;
use uuid::Uuid;

use super::answer::Object;
use super::job::Job;
use super::state::JobState;
use crate::text::rfc3339;

/// The number of events that are kept for later questions.
const KEPT_MAX: usize = 10_000;

/// One event.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) queue: String,
    /// Empty for events of queues.
    pub(super) job_type: String,
    /// The id of the job, or the name of the queue.
    pub(super) subject: String,
    pub(super) at_ms: u64,
    data: String,
    /// The states before and after it, on the last event of a change of state.
    change: Option<(Option<JobState>, JobState)>,
}

impl Event {
    pub(super) fn data(&self) -> &str {
        &self.data
    }

    /// The event as a queue's stream sends it: of a job `job.state_changed` alone, once for each change, as servers do; of a queue as it is.
    pub(super) fn streamed(&self) -> Option<String> {
        const KIND: &str = "job.state_changed";
        let (kind, data) = match self.change {
            Some((was, is)) => {
                let data = Object::new().text("event", KIND).text("job_id", &self.subject).text("queue", &self.queue);
                let data = data.text("type", &self.job_type).maybe_text("from", was.map(JobState::as_str));
                (KIND, data.text("to", is.as_str()).text("timestamp", &rfc3339(self.at_ms)).finish())
            }
            None if self.job_type.is_empty() => (self.kind, self.data.clone()),
            None => return None,
        };
        Some(format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.id))
    }

    /// The event document.
    pub(super) fn document(&self, source: &str) -> String {
        Object::new()
            .text("specversion", "1.0")
            .text("id", &self.id)
            .text("type", self.kind)
            .text("source", source)
            .text("time", &rfc3339(self.at_ms))
            .text("subject", &self.subject)
            .raw("data", &self.data)
            .finish()
    }
}

/// The events that a caller asks for; an empty list stands for all.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) after: Option<String>,
    pub(super) kinds: Vec<String>,
    pub(super) queues: Vec<String>,
    pub(super) job_types: Vec<String>,
    pub(super) limit: usize,
}

impl Asked {
    fn wants(&self, event: &Event) -> bool {
        let among = |list: &[String], text: &str| list.is_empty() || list.iter().any(|entry| entry == text);
        among(&self.kinds, event.kind) && among(&self.queues, &event.queue) && among(&self.job_types, &event.job_type)
    }
}

/// The last events, in order.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    kept: VecDeque<Event>,
    dropped: u64,
    /// The listeners for events of a queue, by its name: thousands of listeners of one queue are not woken by events of
    /// another.
    listeners: HashMap<String, watch::Sender<()>>,
    /// Whether a task makes timed events happen while callers listen.
    pub(super) is_kept_up: bool,
}

impl EventLog {
    /// Sends every further event of a queue, until [`Self::leave`].
    pub(super) fn listen(&mut self, queue: &str) -> watch::Receiver<()> {
        self.listeners.entry(queue.to_owned()).or_default().subscribe()
    }

    /// Forgets a listener; true when none is left.
    pub(super) fn leave(&mut self, queue: &str) -> bool {
        if self.listeners.get(queue).is_some_and(|it| it.receiver_count() == 0) {
            self.listeners.remove(queue);
        }
        self.listeners.is_empty()
    }

    /// Whether a caller listens.
    pub(super) fn is_heard(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// How many events there have been; a place from which [`Self::since`] goes on.
    pub(super) fn end(&self) -> u64 {
        self.dropped.saturating_add(u64::try_from(self.kept.len()).unwrap_or(u64::MAX))
    }

    /// The events from a place on, as far as they are kept.
    pub(super) fn since(&self, place: u64) -> impl Iterator<Item = &Event> {
        self.kept.iter().skip(usize::try_from(place.saturating_sub(self.dropped)).unwrap_or(usize::MAX))
    }

    /// Every event that is kept, each with its place.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &Event)> {
        (self.dropped..).zip(&self.kept)
    }

    /// The events that are asked for, and whether there are more of them.
    ///
    /// An `after` that is not kept any more counts as the beginning, so that nothing is passed over.
    pub(super) fn asked(&self, asked: &Asked) -> (Vec<&Event>, bool) {
        let after = asked.after.as_deref().and_then(|id| self.kept.iter().rposition(|event| event.id == id));
        let mut wanted = self.kept.iter().skip(after.map_or(0, |place| place + 1)).filter(|event| asked.wants(event));
        let found = wanted.by_ref().take(asked.limit).collect();
        (found, wanted.next().is_some())
    }

    /// Notes the events of a job's change of state.
    pub(super) fn moved(&mut self, was: Option<JobState>, job: &Job, at_ms: u64) {
        let data = || Object::new().text("job_type", &job.envelope.kind).text("queue", &job.envelope.queue);
        match job.state {
            state if was == Some(state) => {}
            JobState::Pending => {}
            JobState::Scheduled => {
                let at = job.scheduled_ms().map(rfc3339);
                self.job("job.scheduled", job, at_ms, data().maybe_text("scheduled_at", at.as_deref()));
            }
            JobState::Available => {
                self.job("job.enqueued", job, at_ms, data().number("priority", job.envelope.priority));
            }
            JobState::Active => {
                let worker = job.worker_id.as_deref().unwrap_or_default();
                self.job("job.started", job, at_ms, data().text("worker_id", worker).number("attempt", job.attempt));
            }
            JobState::Completed => {
                let result = job.result.as_deref().map(serde_json::value::RawValue::get);
                let data = ran(data(), job, at_ms).maybe_raw("result", result);
                self.job("job.completed", job, at_ms, data);
            }
            JobState::Cancelled => self.job("job.cancelled", job, at_ms, data()),
            JobState::Retryable => {
                let error = job.errors.back().map(String::as_str);
                self.job("job.failed", job, at_ms, ran(data(), job, at_ms).maybe_raw("error", error));
                let next = job.due_ms.map(rfc3339);
                let data = data()
                    .number("attempt", job.attempt)
                    .number("max_attempts", job.envelope.retry.attempts_max)
                    .maybe_text("next_retry_at", next.as_deref())
                    .maybe_raw("error", error);
                self.job("job.retrying", job, at_ms, data);
            }
            JobState::Discarded => {
                let error = job.errors.back().map(String::as_str);
                self.job("job.failed", job, at_ms, ran(data(), job, at_ms).maybe_raw("error", error));
                let data = data().number("total_attempts", job.attempt).maybe_raw("last_error", error);
                self.job("job.discarded", job, at_ms, data);
            }
        }
        if was != Some(job.state) && job.state != JobState::Pending {
            let last = self.kept.back_mut().filter(|event| event.subject == job.id);
            last.into_iter().for_each(|event| event.change = Some((was, job.state)));
        }
    }

    /// Notes that a worker keeps a job.
    pub(super) fn heartbeat(&mut self, job: &Job, at_ms: u64) {
        let until = job.due_ms.map(rfc3339);
        let data = Object::new()
            .text("job_type", &job.envelope.kind)
            .text("queue", &job.envelope.queue)
            .text("worker_id", job.worker_id.as_deref().unwrap_or_default())
            .number("attempt", job.attempt)
            .maybe_text("visible_until", until.as_deref());
        self.job("job.heartbeat", job, at_ms, data);
    }

    /// Notes that a queue was paused or resumed.
    pub(super) fn queue(&mut self, kind: &'static str, queue: &str, at_ms: u64) {
        let data = Object::new().text("queue", queue).finish();
        self.push(Event {
            id: new_id(),
            kind,
            queue: queue.to_owned(),
            job_type: String::new(),
            subject: queue.to_owned(),
            at_ms,
            data,
            change: None,
        });
    }

    /// Notes that a cron job has fired, or was passed over.
    pub(super) fn cron(&mut self, kind: &'static str, name: &str, queue: &str, at_ms: u64, data: Object) {
        self.push(Event {
            id: new_id(),
            kind,
            queue: queue.to_owned(),
            job_type: String::new(),
            subject: name.to_owned(),
            at_ms,
            data: data.finish(),
            change: None,
        });
    }

    fn job(&mut self, kind: &'static str, job: &Job, at_ms: u64, data: Object) {
        self.push(Event {
            id: new_id(),
            kind,
            queue: job.envelope.queue.clone(),
            job_type: job.envelope.kind.clone(),
            subject: job.id.clone(),
            at_ms,
            data: data.finish(),
            change: None,
        });
    }

    fn push(&mut self, event: Event) {
        if let Some(listeners) = self.listeners.get(&event.queue) {
            listeners.send_replace(());
        }
        self.kept.push_back(event);
        if self.kept.len() > KEPT_MAX {
            self.kept.pop_front();
            self.dropped += 1;
        }
    }
}

fn new_id() -> String {
    format!("evt_{}", Uuid::now_v7())
}

/// The members about an attempt that is over.
fn ran(data: Object, job: &Job, at_ms: u64) -> Object {
    let duration = job.times.started.map_or(0, |started| at_ms.saturating_sub(started));
    data.number("duration_ms", duration).number("attempt", job.attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_a_queue_gets_its_events_only_and_is_dropped_at_its_end() {
        let mut log = EventLog::default();
        let [mail, other] = ["mail", "other"].map(|queue| log.listen(queue));
        log.queue("queue.paused", "mail", 0);
        assert_eq!([mail.has_changed().unwrap(), other.has_changed().unwrap()], [true, false]);
        drop(other);
        assert!(!log.leave("other") && !log.leave("mail") && log.is_heard());
        drop(mail);
        assert!(log.leave("mail") && !log.is_heard());
    }
}
