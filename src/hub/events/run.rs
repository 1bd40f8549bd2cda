//! Reads the streams of all wanted queues, while no other hub of the record does.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc, watch};

use super::super::event_settings::EventSettings;
use super::super::follow::Failures;
use super::super::name::random_name;
use super::super::state::Hub;
use super::super::target::Regions;
use super::intake::take_in;
use super::queues::{listed, wanted};
use super::source::Source;
use super::stream::read;
use super::taken_step::TakenStep;
use crate::base::Draw;
use crate::proxy::Random;
use crate::telemetry::event;

/// For one answer of the region, connecting included, and for the head of a stream.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// How long a hub has the streams, and how often it takes them again: another hub goes on within that time where it was killed.
const TURN_MS: u64 = 10_000;
const TURN_EVERY: Duration = Duration::from_secs(2);
/// A hub that has the streams for so long, and can open none, leaves them to another one, which takes them within the second time.
const FRUITLESS_MAX: Duration = Duration::from_secs(60);
const STAND_BACK: Duration = Duration::from_secs(20);
/// How often the list of queues is read.
const QUEUES_EVERY: Duration = Duration::from_secs(30);
/// The longest list of queues. Units: bytes.
const QUEUES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Steps between the streams and the index, of some 200 bytes each. While there are so many, no stream is read.
const STEPS_MAX: usize = 1_000;

/// Feeds the index from the event streams of its region, for ever.
pub(in crate::hub) async fn run(hub: &Hub) {
    let wanted = hub.index.as_ref().and_then(|index| Some((index, index.settings.events.as_ref()?)));
    let (Some((index, settings)), Some(views)) = (wanted, &hub.views) else { return std::future::pending().await };
    let source = Source {
        hub,
        views,
        region: &index.settings.region,
        asks: Regions::new(ANSWER_WAIT),
        counts: &index.events,
        unbound: settings.unbound(),
        lists: Semaphore::new(1),
        index,
        whole_until: RefCell::default(),
    };
    let (name, mut failures) = (random_name(), Failures::default());
    loop {
        let asked = hub.clock.now();
        if has_turn(hub, &name, &mut failures).await != Some(true) {
            hub.clock.sleep(TURN_EVERY).await;
            continue;
        }
        index.events.is_reading.set(true);
        let end = tokio::select! {
            () = read_all(&source, settings) => TurnEnd::Lost,
            end = keep_turn(&source, &name, asked, &mut failures) => end,
        };
        index.events.is_reading.set(false);
        index.events.streams.borrow_mut().clear();
        index.events.waiting.set((0, None));
        if end == TurnEnd::GivenUp {
            hub.clock.sleep(STAND_BACK).await;
        }
    }
}

/// Why this hub reads no stream any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnEnd {
    /// Another hub has the streams, or may have them.
    Lost,
    /// This hub could open none.
    GivenUp,
}

/// Whether this hub has the streams; none where the record does not say so.
async fn has_turn(hub: &Hub, name: &str, failures: &mut Failures) -> Option<bool> {
    let taken = hub.record.take_events(name, TURN_MS).await;
    failures.note(&taken);
    taken.ok()
}

/// Keeps the streams for this hub. Returns once another hub has them; once the turn is over that the record has given last, where the record
/// does not answer; and once no stream was open for long, where other hubs of the record may reach the region. `asked`: before the first turn.
async fn keep_turn(source: &Source<'_>, name: &str, mut asked: Instant, failures: &mut Failures) -> TurnEnd {
    let hub = source.hub;
    let mut open_at = hub.clock.now();
    loop {
        hub.clock.sleep(TURN_EVERY).await;
        let now = hub.clock.now();
        let left = (asked + Duration::from_millis(TURN_MS)).saturating_duration_since(now);
        let answer = tokio::select! {
            answer = has_turn(hub, name, failures) => answer,
            () = hub.clock.sleep(left) => return TurnEnd::Lost,
        };
        match answer {
            Some(true) => asked = now,
            Some(false) => return TurnEnd::Lost,
            None => {}
        }
        if source.counts.is_any_open() {
            open_at = now;
        }
        if hub.record.is_shared() && now.saturating_duration_since(open_at) >= FRUITLESS_MAX {
            return TurnEnd::GivenUp;
        }
    }
}

/// Reads the streams of the queues that are wanted, for ever.
async fn read_all(source: &Source<'_>, settings: &EventSettings) {
    let (out, heard) = mpsc::channel(STEPS_MAX);
    tokio::select! {
        () = take_in(source, heard) => {}
        () = follow_queues(source, settings, &out) => {}
    }
}

/// Reads the streams of the queues that are wanted, of which the list changes, for ever.
async fn follow_queues(source: &Source<'_>, settings: &EventSettings, out: &mpsc::Sender<TakenStep>) {
    let (globs, random) = (settings.globs(), Random::default());
    let (names, mut running, mut left_before) = (watch::Sender::new(BTreeSet::new()), BTreeSet::new(), 0);
    let mut reading = FuturesUnordered::new();
    let mut known = if globs.is_empty() { Vec::new() } else { queues(source).await.unwrap_or_default() };
    loop {
        let (wanted, left) = wanted(settings, &globs, &known);
        if left > 0 && left != left_before {
            event::hub_events_left(left);
        }
        left_before = left;
        source.whole_until.borrow_mut().retain(|queue, _| wanted.contains(queue));
        for queue in wanted.difference(&running.clone()) {
            running.insert(queue.clone());
            // Boxed, because it can make connections, which need much room.
            reading.push(Box::pin(read_wanted(source, queue.clone(), out.clone(), random.draw(), names.subscribe())));
        }
        names.send_replace(wanted);
        let listed = async {
            match globs.is_empty() {
                true => std::future::pending().await,
                false => source.hub.clock.sleep(QUEUES_EVERY).await,
            }
            queues(source).await
        };
        tokio::select! {
            Some(queue) = reading.next() => {
                running.remove(&queue);
                source.counts.streams.borrow_mut().remove(&queue);
            }
            listed = listed => known = listed.unwrap_or(known),
        }
    }
}

/// Reads the stream of a queue until that is not wanted any more. Returns its name.
async fn read_wanted(
    source: &Source<'_>,
    queue: String,
    out: mpsc::Sender<TakenStep>,
    draw: Draw,
    mut names: watch::Receiver<BTreeSet<String>>,
) -> String {
    let unwanted = async {
        // The sender is there for as long as this runs. The first value may be one from before this queue was wanted.
        while names.changed().await.is_ok() && names.borrow().contains(&queue) {}
    };
    tokio::select! {
        () = read(source, queue.clone(), out, draw) => {}
        () = unwanted => {}
    }
    queue
}

/// The names of the region's queues; none where it does not say.
async fn queues(source: &Source<'_>) -> Option<Vec<String>> {
    let answer = source.asks.get(source.views, source.region, "/ojs/v1/queues", QUEUES_BYTES_MAX).await;
    let (status, body) = answer.ok()?;
    if status.is_success() { listed(&body) } else { None }
}
