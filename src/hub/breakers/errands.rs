//! The rows of the audit trail and the messages about incidents: each is done at least once, and tried again later where it fails.

use std::time::Duration;

use serde_json::json;

use super::super::audit::Entry;
use super::super::incident::{Errand, Incident, Moment};
use super::super::record::{IncidentQuery, Kept, RecordError};
use super::super::state::Hub;
use super::run::CALLER;
use super::webhook::post;
use crate::base::text::rfc3339;
use crate::telemetry::event;

/// Between two looks whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Incidents of one look.
const AT_ONCE: u64 = 32;
/// No other hub begins an errand that one has begun for so long: longer than a message may take. Units: milliseconds.
const HELD_MS: u64 = 15_000;
/// Before a message is sent again: twice as long after each try, from the first to the second. Units: milliseconds.
const WAITS_MS: (u64, u64) = (1_000, 10 * 60 * 1_000);
/// A time behind all others. Units: milliseconds since the Unix epoch.
const LAST_MS: u64 = i64::MAX as u64;
/// Tries of one message: some three hours.
const TRIES_MAX: u32 = 24;
/// Tries of a change while others change the incident.
const CHANGES_MAX: usize = 8;

/// Does the errands that are due, for ever. Without any breakers, those that are left.
pub(in crate::hub) async fn run_errands(hub: &Hub) {
    let desk = &hub.breakers;
    let mut trouble = None;
    loop {
        let result = Box::pin(round(hub)).await;
        if matches!(result, Ok(false)) && !desk.is_on() {
            trouble = None;
            desk.owed.notified().await;
            continue;
        }
        let why = result.err().map(|error| error.to_string());
        if let Some(why) = why.as_ref().filter(|why| trouble.as_ref() != Some(*why)) {
            event::breaker::hub_breakers_wait(why);
        }
        trouble = why;
        tokio::select! {
            () = desk.owed.notified() => {}
            () = hub.clock.sleep(LOOK_EVERY) => {}
        }
    }
}

/// Does those that are due. Returns whether any may be left.
async fn round(hub: &Hub) -> Result<bool, RecordError> {
    let due = hub.record.incidents(IncidentQuery::Due(hub.clock.unix_ms(), AT_ONCE)).await?;
    let incidents = due.iter().filter_map(Incident::read);
    let done = futures_util::future::join_all(incidents.map(|it| one(hub, it))).await;
    done.into_iter().collect::<Result<(), _>>()?;
    Ok(hub.breakers.is_on() || !hub.record.incidents(IncidentQuery::Due(LAST_MS, 1)).await?.is_empty())
}

/// Does the first errands of an incident that are due: its row, and its message.
pub(super) async fn one(hub: &Hub, incident: Incident) -> Result<(), RecordError> {
    for is_row in [true, false] {
        // The message of a close waits for that of the opening.
        let first = incident.content.errands.iter().find(|it| it.is_row == is_row).cloned();
        if let Some(errand) = first.filter(|it| it.due_ms <= hub.clock.unix_ms()) {
            begin(hub, &incident, errand).await?;
        }
    }
    Ok(())
}

/// Takes an errand, so that no other hub does it meanwhile, and does it.
async fn begin(hub: &Hub, incident: &Incident, errand: Errand) -> Result<(), RecordError> {
    let due_ms = hub.clock.unix_ms().saturating_add(HELD_MS);
    let taken = Errand { tries: errand.tries + 1, due_ms, ..errand.clone() };
    let is_ours = change(hub, &incident.id, |it| {
        let own = it.content.errands.iter_mut().find(|it| **it == errand);
        own.map(|own| *own = taken.clone()).is_some()
    });
    if !is_ours.await? {
        return Ok(());
    }
    let (desk, is_last) = (&hub.breakers, !errand.is_row && taken.tries >= TRIES_MAX);
    let done = if errand.is_row {
        note(hub, incident, errand.moment).await?
    } else {
        send(hub, incident, errand.moment).await
    };
    if let Err(why) = &done {
        desk.messages_failed.set(desk.messages_failed.get() + 1);
        event::breaker::incident_message_failed(&incident.id, errand.moment.as_str(), why, taken.tries, is_last);
    }
    if done.is_err() && !is_last {
        let wait_ms = WAITS_MS.0.saturating_mul(1 << taken.tries.min(20)).min(WAITS_MS.1);
        let due_ms = hub.clock.unix_ms().saturating_add(wait_ms);
        let is_put_off = change(hub, &incident.id, |it| {
            let own = it.content.errands.iter_mut().find(|it| **it == taken);
            own.map(|own| own.due_ms = due_ms).is_some()
        });
        is_put_off.await?;
    } else {
        let count = if done.is_ok() { &desk.messages_sent } else { &desk.messages_given_up };
        if !errand.is_row {
            count.set(count.get() + 1);
        }
        let is_done = change(hub, &incident.id, |it| {
            it.content.given_up += u32::from(done.is_err());
            let before = it.content.errands.len();
            it.content.errands.retain(|it| *it != taken);
            before > it.content.errands.len()
        });
        is_done.await?;
        // The next one of the same kind may wait for this one.
        desk.owed.notify_one();
    }
    Ok(())
}

/// Changes an incident, also where another hub does meanwhile. `change` returns whether there is something to change.
pub(super) async fn change(hub: &Hub, id: &str, change: impl Fn(&mut Incident) -> bool) -> Result<bool, RecordError> {
    for _ in 0..CHANGES_MAX {
        let Some(mut incident) = hub.record.incident(id).await?.as_ref().and_then(Incident::read) else {
            return Ok(false);
        };
        if !change(&mut incident) {
            return Ok(false);
        }
        if hub.record.change_incident(incident.saved()).await? == Kept::Kept {
            return Ok(true);
        }
    }
    Err(RecordError::Contended)
}

/// Adds a row to the audit trail.
async fn note(hub: &Hub, incident: &Incident, moment: Moment) -> Result<Result<(), String>, RecordError> {
    let closed = incident.content.closed.as_ref().filter(|_| moment == Moment::Closed);
    let by_itself = || CALLER.to_owned();
    let reason = closed.map_or_else(|| incident.why(), |it| format!("{}: {}", it.by.as_str(), it.reason));
    let entry = Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: closed.map_or_else(by_itself, |it| it.caller.clone()),
        action: if moment == Moment::Opened { "incident_opened" } else { "incident_closed" },
        subject: incident.subject(),
        lasts_ms: None,
        force: false,
        reason,
        ticket: closed.map(|it| it.ticket.clone()).unwrap_or_default(),
        author: closed.map_or_else(by_itself, |it| it.author.clone()),
    };
    hub.change(|_, _| ((), vec![entry.clone()])).await.map(Ok)
}

/// Sends a message.
async fn send(hub: &Hub, incident: &Incident, moment: Moment) -> Result<(), String> {
    // A message of an earlier configuration, which had a receiver, is given up at its end.
    let Some(settings) = &hub.breakers.incidents else {
        return Err("`incidents.webhook` is not set any more".to_owned());
    };
    let document = json!({
        "event": format!("incident.{}", moment.as_str()),
        "incidentId": incident.id,
        "sentAt": rfc3339(hub.clock.unix_ms()),
        "incident": incident.shown(true),
    });
    post(&settings.webhook, &format!("{}-{}", incident.id, moment.as_str()), document.to_string()).await
}
