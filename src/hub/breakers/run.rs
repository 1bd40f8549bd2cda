//! Follows the ends of jobs, and moves breakers.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::breaker_desk::{BreakerDesk, Key};
use super::super::breaker_settings::BreakerSettings;
use super::super::incident::{Closed, ClosedBy, Content, Evidence, Incident, Moment};
use super::super::ledger::{self, ProbeState};
use super::super::name::random_uuid7;
use super::super::record::{IncidentQuery, Kept, OPEN_INCIDENTS_MAX, RecordError};
use super::super::state::Hub;
use crate::policy::{Course, EndCounts, ProbeJob};
use crate::telemetry::event;

/// Between two looks at the record, where nothing is heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks where much is heard: one is for all that came meanwhile.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a closed incident can be looked up. Units: milliseconds.
const KEPT_FOR_MS: u64 = 366 * 24 * 60 * 60 * 1_000;
/// Between two looks for incidents that are too old. Units: milliseconds.
const PRUNE_EVERY_MS: u64 = 60 * 60 * 1_000;
/// The caller of openings and closes in the audit trail.
pub(super) const CALLER: &str = "breaker";

/// Moves breakers, for ever. Without any in the configuration, incidents that are open are closed first.
pub(in crate::hub) async fn run(hub: &Hub) {
    let desk = &hub.breakers;
    let (mut trouble, mut pruned_ms) = (None, 0);
    loop {
        // Boxed, because it can make connections, which need much room.
        let why = Box::pin(round(hub)).await.err().map(|error| error.to_string());
        if let Some(why) = why.as_ref().filter(|why| trouble.as_ref() != Some(*why)) {
            event::breaker::hub_breakers_wait(why);
        }
        trouble = why;
        let now_ms = hub.clock.unix_ms();
        if now_ms.saturating_sub(pruned_ms) >= PRUNE_EVERY_MS {
            pruned_ms = now_ms;
            let ends_before_ms = BreakerDesk::since_ms(BreakerDesk::since_ms(now_ms));
            let pruned = hub.record.prune_incidents(now_ms.saturating_sub(KEPT_FOR_MS), ends_before_ms).await;
            trouble = trouble.or(pruned.err().map(|error| error.to_string()));
        }
        if !desk.is_on() && trouble.is_none() && desk.open().is_empty() {
            desk.noted.notified().await;
            continue;
        }
        tokio::select! {
            () = desk.noted.notified() => hub.clock.sleep(PAUSE).await,
            () = hub.clock.sleep(LOOK_EVERY) => {}
        }
    }
}

async fn round(hub: &Hub) -> Result<(), RecordError> {
    let (desk, now_ms) = (&hub.breakers, hub.clock.unix_ms());
    let mut went = desk.take_went();
    let result = look(hub, &went, now_ms).await;
    // A job that the record has not taken is tried again with the next round, until its permission is over.
    let open = desk.open();
    let is_awaited = |name: &str| {
        open.iter().any(|it| {
            it.content.course.trial().is_some_and(|trial| trial.job.is_none() && it.trial_name(trial.number) == name)
        })
    };
    went.retain(|(name, _)| result.is_err() || is_awaited(name));
    desk.give_went(went);
    result
}

async fn look(hub: &Hub, went: &[(String, ProbeJob)], now_ms: u64) -> Result<(), RecordError> {
    let desk = &hub.breakers;
    let recent = hub.record.incidents(IncidentQuery::Recent(BreakerDesk::since_ms(now_ms))).await?;
    // Sidecars keep to the rows as they are, also where a change of one fails.
    desk.set_open(recent.iter().filter(|it| it.is_open).filter_map(Incident::read).collect());
    let (mut open, mut stopped) = (Vec::new(), Vec::new());
    for saved in &recent {
        let key: Key = (saved.job_type.clone(), (!saved.tenant.is_empty()).then(|| saved.tenant.clone()));
        if let Some(closed_ms) = saved.closed_ms {
            desk.begin_anew(&key, closed_ms);
            continue;
        }
        stopped.push(key);
        // One of a later version of this program is left to a hub of that version.
        let Some(incident) = Incident::read(saved) else { continue };
        let moved = moved(hub, incident.clone(), went, now_ms).await?;
        if moved == incident {
            open.push(incident);
            continue;
        }
        if hub.record.change_incident(moved.saved()).await? == Kept::Behind {
            // Another hub was first: its state is read at once.
            desk.noted.notify_one();
            open.push(incident);
            continue;
        }
        note_moved(&incident, &moved);
        match moved.closed_ms {
            Some(closed_ms) => {
                desk.begin_anew(&(moved.job_type.clone(), moved.tenant.clone()), closed_ms);
                desk.owed.notify_one();
            }
            None => open.push(Incident { version: moved.version + 1, ..moved }),
        }
    }
    // The open ones go out also where the rest fails.
    desk.set_open(open.clone());
    share(hub, now_ms).await?;
    let result = trip(hub, &mut open, &stopped, now_ms).await;
    desk.set_open(open);
    result
}

/// Opens the incidents of the types and tenants that fail too often and are not stopped.
async fn trip(hub: &Hub, open: &mut Vec<Incident>, stopped: &[Key], now_ms: u64) -> Result<(), RecordError> {
    let (desk, mut places) = (&hub.breakers, OPEN_INCIDENTS_MAX.saturating_sub(stopped.len() as u64));
    let mut unplaced = BTreeSet::new();
    for (key, ends, jobs) in desk.tripping(now_ms).into_iter().filter(|(key, ..)| !stopped.contains(key)) {
        let Some(breaker) = desk.of((&key.0, key.1.as_deref())) else { continue };
        if places == 0 {
            unplaced.insert(key);
            continue;
        }
        let incident = opened(desk, breaker, key, (ends, jobs), now_ms);
        if hub.record.change_incident(incident.saved()).await? == Kept::Kept {
            places -= 1;
            desk.trips.set(desk.trips.get() + 1);
            event::breaker::incident_opened(
                &incident.id,
                &incident.job_type,
                incident.tenant.as_deref(),
                &incident.why(),
            );
            open.push(Incident { version: 1, ..incident });
            desk.owed.notify_one();
        }
    }
    if desk.set_unplaced(unplaced) {
        event::breaker::incidents_full(OPEN_INCIDENTS_MAX);
    }
    Ok(())
}

/// Hubs that share a record count the ends of each other.
async fn share(hub: &Hub, now_ms: u64) -> Result<(), RecordError> {
    let desk = &hub.breakers;
    if !hub.record.is_shared() {
        return Ok(());
    }
    let own = desk.take_unsaved();
    match hub.record.share_ends(&desk.process, own.clone(), BreakerDesk::since_ms(now_ms)).await {
        Ok(others) => desk.take_elsewhere(others),
        Err(error) => {
            desk.give_back(&own);
            return Err(error);
        }
    }
    Ok(())
}

fn opened(
    desk: &BreakerDesk,
    breaker: &BreakerSettings,
    key: Key,
    (ends, jobs): (EndCounts, Vec<String>),
    now_ms: u64,
) -> Incident {
    let terms = breaker.terms();
    let mut incident = Incident {
        id: random_uuid7(now_ms),
        version: 0,
        opened_ms: now_ms,
        closed_ms: None,
        content: Content {
            terms,
            queues: breaker.queues_of(key.1.as_deref()).to_vec(),
            evidence: Evidence { ends, jobs },
            course: Course::tripped(&terms, now_ms),
            closed: None,
            errands: Vec::new(),
            given_up: 0,
        },
        job_type: key.0,
        tenant: key.1,
    };
    incident.owes(Moment::Opened, desk.incidents.is_some(), now_ms);
    incident
}

/// The incident after the time that has passed, the jobs that went by its permission, and the end of the one that did.
async fn moved(
    hub: &Hub,
    mut incident: Incident,
    went: &[(String, ProbeJob)],
    now_ms: u64,
) -> Result<Incident, RecordError> {
    let (desk, terms) = (&hub.breakers, incident.content.terms);
    let hook = desk.incidents.is_some();
    if desk.of((&incident.job_type, incident.tenant.as_deref())).is_none() {
        let reason = "no breaker of the configuration fits it any more".to_owned();
        incident.close(by_itself(ClosedBy::Configuration, reason), hook, now_ms);
        return Ok(incident);
    }
    if let Some(number) = incident.content.course.trial().map(|trial| trial.number) {
        let name = incident.trial_name(number);
        if let Some((_, job)) = went.iter().find(|(it, _)| *it == name) {
            incident.content.course.went(&terms, number, job.clone(), now_ms);
        }
    }
    if let Some(job) = incident.content.course.trial().and_then(|trial| trial.job.clone()) {
        let course = &mut incident.content.course;
        match ledger::state_of(hub, &job).await? {
            ProbeState::Waits => {}
            ProbeState::Begun => _ = course.began(&terms, &job.job_id, now_ms),
            ProbeState::Failed => _ = course.ended(&terms, &job.job_id, false, now_ms),
            ProbeState::Succeeded => {
                let name = if job.is_bound { String::new() } else { format!(" {}", job.job_id) };
                let reason = format!("the job{name} in {} has succeeded", job.region);
                incident.close(by_itself(ClosedBy::Probe, reason), hook, now_ms);
                return Ok(incident);
            }
        }
    }
    if incident.content.course.is_idle(now_ms) {
        let reason = "no job of the type and the tenant was there to try".to_owned();
        incident.close(by_itself(ClosedBy::Idle, reason), hook, now_ms);
        return Ok(incident);
    }
    let key = (incident.job_type.clone(), incident.tenant.clone());
    let queues = !incident.content.queues.is_empty();
    incident.content.course.pass(&terms, now_ms, |number| sidecar(hub, &key, queues, number));
    Ok(incident)
}

/// The sidecar that gets the permission with a number.
fn sidecar(hub: &Hub, key: &Key, queues: bool, number: u64) -> Option<String> {
    let connected = hub.fleet.borrow().connected(hub.clock.unix_ms());
    let mut known = hub.breakers.sidecars(key, queues);
    known.retain(|it| connected.contains(it));
    // Without a word of any, each has its turn: a queue may have waiting jobs that no sidecar of this hub has enqueued.
    let all = if known.is_empty() && queues { connected } else { known };
    let place = usize::try_from(number.saturating_sub(1)).ok()?.checked_rem(all.len())?;
    all.into_iter().nth(place)
}

fn by_itself(by: ClosedBy, reason: String) -> Closed {
    Closed { by, reason, ticket: String::new(), author: CALLER.to_owned(), caller: CALLER.to_owned() }
}

fn note_moved(before: &Incident, after: &Incident) {
    let (was, is) = (&before.content.course, &after.content.course);
    if let Some(closed) = &after.content.closed {
        event::breaker::incident_closed(
            &after.id,
            &after.job_type,
            after.tenant.as_deref(),
            closed.by.as_str(),
            &closed.reason,
        );
    } else if is.reopened > was.reopened {
        event::breaker::incident_goes_on(&after.id, &after.job_type, after.tenant.as_deref(), is.pause_ms / 1_000);
    } else if let Some(trial) = is.trial().filter(|it| it.job.is_none() && is.trials > was.trials) {
        event::breaker::incident_probed(&after.id, &after.job_type, after.tenant.as_deref(), &trial.sidecar);
    }
}
