//! The event stream of one queue: opened again and again, and read no faster than its events go into the index.

use std::cell::Cell;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use tokio::sync::{Notify, mpsc};

use super::super::event_counts::{CatchUp, EventResult, StreamState};
use super::catch_up::catch_up;
use super::source::Source;
use super::taken_step::TakenStep;
use crate::base::Draw;
use crate::net::pool::RegionBody;
use crate::ojs::job_events::{EventLines, ReadStep, StreamItem, read_step};
use crate::ojs::path_segment;
use crate::telemetry::event;

/// Servers send a comment each 15 s: two of them may be late. Spec: ojs-realtime §2.4.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// Waits before a stream is opened again: the first, which jitter halves at most, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// A stream that was open for so long has not failed at once.
const LONG_OPEN: Duration = Duration::from_secs(15);
/// Before a stream that the region does not have, or refuses, is asked for again.
const RARELY: Duration = Duration::from_secs(30);
/// Between two looks at the lists of a queue: its stream may end again and again.
const LISTS_EVERY: Duration = Duration::from_secs(10);
/// The longest wait before lists that could not be read are read again.
const LISTS_WAIT_MAX: Duration = Duration::from_secs(300);
/// A server says that it has left out events of a reader that was this slow at most. Units: milliseconds.
const DROPPED_FOR_MS: u64 = 60_000;

/// A step waits for no longer before it is in the index: for the report of a sidecar, and for twelve answers of a region that does not show its
/// job. Units: milliseconds.
const WAITED_FOR_MS: u64 = 120_000;

/// Why a stream is not open.
enum Trouble {
    Absent(String),
    Refused(String),
    Failed(String),
}

/// Events that were missed.
struct Gap {
    /// Since when; none where that is not known. Units: milliseconds since the Unix epoch.
    since_ms: Cell<Option<u64>>,
    /// Whether no list has made up for it.
    is_open: Cell<bool>,
    found: Notify,
}

/// The state of one queue's stream.
struct Stream<'s, 'h> {
    source: &'s Source<'h>,
    queue: String,
    out: mpsc::Sender<TakenStep>,
    lines: EventLines,
    draw: Draw,
    wait: Duration,
    /// The last trouble, which is logged once.
    trouble: Option<String>,
    /// When the last bytes came; none before any. Units: milliseconds since the Unix epoch.
    heard_ms: Option<u64>,
    /// Since when events may be missing that no list has made up for; none before the stream was open. Units: milliseconds since the Unix epoch.
    missing_ms: Option<u64>,
    /// When the lists were last looked at.
    listed: Option<Instant>,
}

/// Reads the stream of a queue, for ever.
pub(super) async fn read(source: &Source<'_>, queue: String, out: mpsc::Sender<TakenStep>, draw: Draw) {
    let (lines, wait) = (EventLines::default(), WAITS.0);
    let known = source.whole_until.borrow().get(&queue).copied();
    // The steps that waited when this hub had the streams before were dropped.
    let missing_ms = known.map(|at| at.saturating_sub(WAITED_FOR_MS));
    let mut stream =
        Stream { source, queue, out, lines, draw, wait, trouble: None, heard_ms: None, missing_ms, listed: None };
    loop {
        stream.source.counts.set(&stream.queue, StreamState::Connecting);
        match stream.open().await {
            Ok(body) => stream.follow(body).await,
            Err(trouble) => stream.pause(trouble).await,
        }
    }
}

impl Stream<'_, '_> {
    async fn open(&self) -> Result<RegionBody, Trouble> {
        let Source { asks, views, region, .. } = self.source;
        let path = format!("/ojs/v1/queues/{}/events", path_segment(&self.queue));
        let opened = asks.open_events(views, region, &path, self.lines.last_id()).await.map_err(Trouble::Failed)?;
        let (head, body) = opened.into_parts();
        let status = head.status;
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match status.as_u16() {
            200 if kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream") => Ok(body),
            404 | 405 | 406 | 410 | 501 => Err(Trouble::Absent(format!("{region} answers {status}"))),
            200..300 => Err(Trouble::Refused(format!("{region} answers with no event stream"))),
            408 | 425 | 429 | 500..600 => Err(Trouble::Failed(format!("{region} answers {status}"))),
            _ => Err(Trouble::Refused(format!("{region} answers {status}"))),
        }
    }

    /// Reads an open stream to its end, and the lists beside it.
    async fn follow(&mut self, body: RegionBody) {
        let clock = &self.source.hub.clock;
        self.source.counts.set(&self.queue, StreamState::Open);
        let gap = Gap { since_ms: Cell::new(self.missing_ms), is_open: Cell::new(true), found: Notify::new() };
        // Events from before the opening were missed.
        gap.found.notify_one();
        let listed = Cell::new(self.listed);
        let (source, queue, out) = (self.source, self.queue.clone(), self.out.clone());
        let looking = async {
            let mut pause = LISTS_EVERY;
            loop {
                gap.found.notified().await;
                let early = listed.get().map(|at| pause.saturating_sub(source.now().saturating_duration_since(at)));
                clock.sleep(early.unwrap_or_default()).await;
                listed.set(Some(source.now()));
                let end = catch_up(source, &queue, gap.since_ms.get(), &out).await;
                source.counts.caught_up(end);
                gap.is_open.set(matches!(end, CatchUp::Failed | CatchUp::Absent));
                pause = if end == CatchUp::Failed { (pause * 2).clamp(RARELY, LISTS_WAIT_MAX) } else { LISTS_EVERY };
                if end == CatchUp::Failed {
                    gap.found.notify_one();
                }
            }
        };
        let ended = tokio::select! {
            why = self.read(body, &gap) => why,
            () = looking => return,
        };
        self.listed = listed.get();
        if !gap.is_open.get() || self.missing_ms.is_none() {
            self.missing_ms = self.heard_ms;
        }
        self.lines.reconnect();
        self.source.note_gap();
        self.pause(Trouble::Failed(ended)).await;
    }

    /// Reads events until the stream ends. Returns why.
    async fn read(&mut self, mut body: RegionBody, gap: &Gap) -> String {
        let (mut steps, opened) = (Vec::new(), self.source.now());
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = self.source.hub.clock.sleep(SILENCE_MAX) => {
                    return format!("the stream was silent for {} s", SILENCE_MAX.as_secs());
                }
            };
            let data = match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                None => return "the stream has ended".to_owned(),
                Some(Err(cut)) => return format!("the stream broke off: {cut}"),
                Some(Ok(Err(_))) => continue,
                Some(Ok(Ok(data))) => data,
            };
            self.heard(gap);
            let (source, queue) = (self.source, self.queue.as_str());
            self.lines.push(&data, |item| match item {
                StreamItem::TooLong => source.counts.note(EventResult::TooLong, 1),
                StreamItem::Event(name, data) => match read_step(name, data) {
                    ReadStep::Step(it) if it.queue.as_deref().is_none_or(|it| it == queue) => {
                        let step = TakenStep::new(&it.job_id, it.step, it.at.as_deref(), source.times(), source.now());
                        source.counts.note(EventResult::Odd, usize::from(step.is_none()));
                        // An event without a time has just been sent.
                        steps.extend(step.map(|step| TakenStep { is_timed: true, ..step }));
                    }
                    ReadStep::Step(_) | ReadStep::Odd => source.counts.note(EventResult::Odd, 1),
                    ReadStep::Other => source.counts.note(EventResult::Other, 1),
                    ReadStep::Missed => {
                        source.note_gap();
                        let since_ms = source.hub.clock.unix_ms().saturating_sub(DROPPED_FOR_MS);
                        gap.since_ms.set(Some(gap.since_ms.get().map_or(since_ms, |known| known.min(since_ms))));
                        gap.is_open.set(true);
                        gap.found.notify_one();
                    }
                },
            });
            if source.now().saturating_duration_since(opened) >= LONG_OPEN {
                self.works();
            }
            for step in steps.drain(..) {
                // A full channel holds the stream up. Its other end outlives this.
                let _ = self.out.send(step).await;
            }
        }
    }

    fn heard(&mut self, gap: &Gap) {
        let now_ms = self.source.hub.clock.unix_ms();
        self.heard_ms = Some(now_ms);
        let mut whole_until = self.source.whole_until.borrow_mut();
        match whole_until.get_mut(&self.queue) {
            Some(at) if !gap.is_open.get() => *at = now_ms,
            Some(_) => {}
            None => {
                whole_until.insert(self.queue.clone(), now_ms);
            }
        }
    }

    /// Notes that the stream is open for long: its next end is the first one. One that ends behind its first step each time is still in trouble.
    fn works(&mut self) {
        self.wait = WAITS.0;
        if self.trouble.take().is_some() {
            event::hub_events_return(&self.queue);
        }
    }

    /// Logs a trouble once, and waits.
    async fn pause(&mut self, trouble: Trouble) {
        let (state, why) = match &trouble {
            Trouble::Absent(why) => (StreamState::Absent, why),
            Trouble::Refused(why) => (StreamState::Refused, why),
            Trouble::Failed(why) => (StreamState::Connecting, why),
        };
        self.source.counts.set(&self.queue, state);
        if self.trouble.as_ref() != Some(why) {
            match trouble {
                Trouble::Absent(_) => event::hub_events_absent(&self.queue, why),
                _ => event::hub_events_failed(&self.queue, why),
            }
            self.trouble = Some(why.clone());
        }
        let jitter = 0.5 + self.draw.unit() / 2.0;
        let wait = if matches!(state, StreamState::Connecting) { self.wait } else { RARELY };
        self.source.hub.clock.sleep(wait.mul_f64(jitter)).await;
        self.wait = (self.wait * 2).min(WAITS.1);
    }
}
