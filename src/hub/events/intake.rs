//! Takes the steps of jobs into the index: at once where a fact describes the job, else once the region has shown it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::super::event_counts::EventResult;
use super::super::follow::Failures;
use super::super::jobs::joined;
use super::super::ledger;
use super::super::record::RecordError;
use super::later::{Later, LaterJob};
use super::shown::{NotShown, ask};
use super::source::Source;
use super::taken_step::TakenStep;
use crate::replica::{Change, ObservedStep, is_news};

/// Steps of one commit. With some tens of facts about each job, those that are known fit into one look-up.
const BATCH_MAX: usize = 100;
/// Jobs about which the region is asked at once, and the pause behind them: 200 a second at most.
const ASKS_AT_ONCE: usize = 8;
const ASKS_PAUSE: Duration = Duration::from_millis(40);
/// After the record has failed: nothing is read meanwhile.
const SAVE_AGAIN: Duration = Duration::from_secs(1);

/// The facts about each of some jobs of the region.
type Known = BTreeMap<String, Vec<Change>>;

/// Takes steps until no stream is left.
pub(super) async fn take_in(source: &Source<'_>, mut heard: mpsc::Receiver<TakenStep>) {
    let (mut later, mut batch, mut failures) = (Later::default(), Vec::new(), Failures::default());
    loop {
        let due = later.first_due().map(|due| due.saturating_duration_since(source.now()));
        let is_due = async {
            match due {
                Some(wait) => source.hub.clock.sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = heard.recv_many(&mut batch, BATCH_MAX), if !later.is_full() => {
                if count == 0 {
                    return;
                }
            }
            () = is_due => {}
        }
        source.show_waiting(heard.len() + later.steps() + batch.len(), later.oldest());
        let steps = sorted_out(&mut later, std::mem::take(&mut batch), source.now());
        take(source, &mut later, &mut failures, steps).await;
        let jobs = later.take_due(source.now(), ASKS_AT_ONCE);
        if !jobs.is_empty() {
            complete(source, &mut later, &mut failures, jobs).await;
        }
        source.show_waiting(heard.len() + later.steps(), later.oldest());
    }
}

/// Adds the steps of jobs that wait to those that wait with them, and returns the others.
fn sorted_out(later: &mut Later, steps: Vec<TakenStep>, now: Instant) -> Vec<TakenStep> {
    let (waiting, others): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| later.has(&step.job_id));
    waiting.into_iter().for_each(|step| later.add(step, now));
    others
}

/// Takes the steps of jobs that some fact describes, and lets the others wait.
async fn take(source: &Source<'_>, later: &mut Later, failures: &mut Failures, steps: Vec<TakenStep>) {
    if steps.is_empty() {
        return;
    }
    let ids = steps.iter().map(|it| it.job_id.clone()).collect();
    let known = known(source, failures, ids).await;
    let (described, others): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|step| is_described(known.get(&step.job_id)));
    others.into_iter().for_each(|step| later.add(step, source.now()));
    save(source, failures, known, described, Vec::new()).await;
}

/// Takes the steps of jobs behind their wait: of those that a sidecar has described meanwhile as they are, of the others once the region
/// has shown them.
async fn complete(source: &Source<'_>, later: &mut Later, failures: &mut Failures, jobs: Vec<LaterJob>) {
    let known = known(source, failures, jobs.iter().map(|it| it.job_id.clone()).collect()).await;
    let (described, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| is_described(known.get(&job.job_id)));
    let mut steps: Vec<TakenStep> = described.into_iter().flat_map(|it| it.steps).collect();
    let latest_ms = source.times().latest_ms();
    let asks = others.iter().filter_map(|job| {
        // A job waits with one step at least.
        let first = fact(source, job.steps.iter().min_by_key(|it| it.at_ms)?);
        Some(async move {
            ask((&source.asks, source.views), source.region, &job.job_id, (&first, latest_ms), &source.unbound).await
        })
    });
    let answers = futures_util::future::join_all(asks).await;
    let (mut firsts, asked) = (Vec::new(), !answers.is_empty());
    for (job, answer) in others.into_iter().zip(answers) {
        let count = job.steps.len();
        let lost = match answer {
            Ok(first) => {
                firsts.push(first);
                steps.extend(job.steps);
                continue;
            }
            Err(NotShown::Gone) => EventResult::Gone,
            Err(NotShown::Unclear) => EventResult::Unclear,
            Err(NotShown::Fence) => EventResult::Other,
            Err(NotShown::Silent) => match later.put_back(job, source.now()) {
                Ok(()) => continue,
                Err(_) => EventResult::Unanswered,
            },
        };
        source.counts.note(lost, count);
    }
    save(source, failures, known, steps, firsts).await;
    if asked {
        source.hub.clock.sleep(ASKS_PAUSE).await;
    }
}

fn is_described(facts: Option<&Vec<Change>>) -> bool {
    facts.is_some_and(|facts| facts.iter().any(|it| it.job.is_some()))
}

/// The facts about jobs of the region. The record is asked until it answers.
async fn known(source: &Source<'_>, failures: &mut Failures, ids: Vec<String>) -> Known {
    let found = until_done(source, failures, || source.hub.record.find_changes_of(ids.clone(), Vec::new())).await;
    let mut known = Known::new();
    for it in found.into_iter().map(|it| it.change).filter(|it| it.region == *source.region) {
        known.entry(it.job_id.clone()).or_default().push(it);
    }
    known
}

fn fact(source: &Source<'_>, it: &TakenStep) -> Change {
    ObservedStep { job_id: &it.job_id, region: source.region, step: it.step, at_ms: it.at_ms }.change()
}

/// Keeps steps as facts, behind the first facts of jobs. Facts that change nothing take no place among those that the record keeps.
async fn save(
    source: &Source<'_>,
    failures: &mut Failures,
    mut known: Known,
    steps: Vec<TakenStep>,
    firsts: Vec<Change>,
) {
    let count = steps.len();
    let mut changes = Vec::new();
    for first in firsts {
        known.entry(first.job_id.clone()).or_default().push(first.clone());
        changes.push(first);
    }
    for it in steps {
        let facts = known.entry(it.job_id.clone()).or_default();
        // Each fact of a replica says so: the one that said it first may be dropped before the others.
        let replicated_from = facts.iter().find_map(|known| known.replicated_from.clone());
        let change = Change { replicated_from, ..fact(source, &it) };
        if !it.is_known(facts) && is_news(facts, &change) {
            facts.push(change.clone());
            changes.push(change);
        }
    }
    source.counts.note(EventResult::Taken, count);
    if changes.is_empty() {
        return;
    }
    let (region, changes) = (source.region.as_str(), joined(changes));
    until_done(source, failures, || ledger::observed(source.hub, &changes)).await;
    until_done(source, failures, || source.hub.record.save_changes(region, changes.clone(), None)).await;
}

/// Asks the record until it answers: nothing is read from the streams meanwhile.
async fn until_done<T>(
    source: &Source<'_>,
    failures: &mut Failures,
    asked: impl AsyncFn() -> Result<T, RecordError>,
) -> T {
    loop {
        let answer = asked().await;
        failures.note(&answer);
        match answer {
            Ok(answer) => return answer,
            Err(_) => source.hub.clock.sleep(SAVE_AGAIN).await,
        }
    }
}
