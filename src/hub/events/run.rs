//! Reads the streams of all wanted queues, while no other hub of the record does.

use std::collections::BTreeSet;
use std::time::Duration;

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
    };
    let (name, mut failures) = (random_name(), Failures::default());
    loop {
        if !has_turn(hub, &name, &mut failures).await {
            hub.clock.sleep(TURN_EVERY).await;
            continue;
        }
        index.events.is_reading.set(true);
        tokio::select! {
            () = read_all(&source, settings) => {}
            () = keep_turn(hub, &name, &mut failures) => {}
        }
        index.events.is_reading.set(false);
        index.events.streams.borrow_mut().clear();
        index.events.waiting.set((0, None));
    }
}

async fn has_turn(hub: &Hub, name: &str, failures: &mut Failures) -> bool {
    let taken = hub.record.take_events(name, TURN_MS).await;
    failures.note(&taken);
    taken.unwrap_or(false)
}

/// Returns once this hub does not know that it has the streams.
async fn keep_turn(hub: &Hub, name: &str, failures: &mut Failures) {
    loop {
        hub.clock.sleep(TURN_EVERY).await;
        if !has_turn(hub, name, failures).await {
            return;
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
