//! Signed heads of the days: for a client that asks, each minute for the log of the process, and the last one of a day for the record.
//!
//! A hub reads each leaf once, so that each head goes on from the last one; where a record has fewer rows by then, nothing is signed.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::super::audit::{Entry, LEDGER_CLOSED};
use super::super::audit_log::AuditLog;
use super::super::follow::Failures;
use super::super::ledger_desk::Ledger;
use super::super::record::{Kept, LedgerDay, RecordError};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::present::present;
use super::row::{DAY_MS, day_text, read_day};
use crate::evidence::{Envelope, Head, KeyError, Tree};
use crate::telemetry::event;

/// How often a head is signed where there are new rows.
const SIGN_EVERY: Duration = Duration::from_secs(60);
/// A day is closed so long after its end: a hub whose clock is behind may still add rows. Units: milliseconds.
const CLOSE_AFTER_MS: u64 = 5 * 60 * 1_000;
/// Leaves that are read at once, of 32 bytes each.
const LEAVES_AT_ONCE: usize = 10_000;
/// Parts that one request reads, so that its client gets an answer; further requests go on.
const PARTS_MAX: usize = 50;
/// Days before this one that may still be open, where hubs were down for long.
const OPEN_DAYS_MAX: u64 = 400;

/// Why no head is signed.
#[derive(Debug, thiserror::Error)]
enum Unsigned {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the key did not sign: {0}")]
    Key(#[from] KeyError),
    #[error("{0} has fewer records than were signed before: the record was changed, or restored from a copy")]
    Back(String),
    #[error("the records of {0} are being read: ask again")]
    Reading(String),
}

/// A head over the rows that a day has now.
async fn signed(hub: &Hub, (ledger, log): (&Ledger, &AuditLog), day: u64) -> Result<(Head, Envelope), Unsigned> {
    let mut trees = ledger.trees.lock().await;
    // Behind the lock: another task may have read further rows meanwhile.
    let day = hub.record.ledger_days(day, day).await?.pop().unwrap_or(LedgerDay { day, ..LedgerDay::default() });
    let tree = trees.entry(day.day).or_insert_with(Tree::new);
    if tree.size() > day.rows {
        return Err(Unsigned::Back(day_text(day.day)));
    }
    for _ in 0..PARTS_MAX {
        if tree.size() >= day.rows {
            let head = log.sign(&format!("jobs/{}", day_text(day.day)), tree, hub.clock.unix_ms());
            return Ok(head?);
        }
        let left = usize::try_from(day.rows - tree.size()).unwrap_or(usize::MAX);
        let leaves = hub.record.ledger_leaves(day.day, tree.size(), left.min(LEAVES_AT_ONCE)).await?;
        if leaves.is_empty() {
            return Err(Unsigned::Back(day_text(day.day)));
        }
        for leaf in leaves {
            let leaf = leaf.as_slice().try_into().map_err(|_| RecordError::Content("a leaf of another length"))?;
            tree.push(leaf);
        }
    }
    Err(Unsigned::Reading(day_text(day.day)))
}

/// `GET /api/ledger/heads?day=DAY`: a signed head over the rows of a day, in the form of a DSSE envelope.
///
/// Errors: 400 for another query, 404 without a ledger, a key or such a day, 503 while a long day is being read, 500 where the record has fewer
/// rows than were signed.
pub(in crate::hub) async fn head(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let ledger = present(hub)?;
    let Some(log) = &hub.audit_log else {
        let message = "this hub signs no heads: set `audit` in its configuration".to_owned();
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_audit_key", message));
    };
    let day = query.strip_prefix("day=").and_then(read_day);
    let day = day.ok_or_else(|| Refusal::bad_request("`day`: expected a day, such as 2026-03-15".to_owned()))?;
    let Some(found) = hub.record.ledger_days(day, day).await?.pop() else {
        let message = format!("the ledger has no records of {}", day_text(day));
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_records", message));
    };
    if found.is_dropped && found.head.is_none() {
        let message = format!("the records of {} were dropped, and none of their heads was kept", day_text(day));
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_records", message));
    }
    if let Some(head) = &found.head {
        // A closed day is not signed anew: its head is that of its end.
        return serde_json::from_str(head).map_err(|_| RecordError::Content("a signed head of a later version").into());
    }
    signed(hub, (ledger, log), day).await.map(|(_, envelope)| serde_json::json!(envelope)).map_err(|error| {
        let message = error.to_string();
        match error {
            Unsigned::Record(error) => error.into(),
            Unsigned::Reading(_) => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", message),
            Unsigned::Key(_) | Unsigned::Back(_) => {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "ledger_unsigned", message)
            }
        }
    })
}

/// Closes a day, with a row of the audit trail: its signed heads keep the root, also where the day is opened and written anew.
async fn close(hub: &Hub, day: u64, head: &Head, envelope: String) -> Result<(), RecordError> {
    if hub.record.close_ledger_day(day, head.size, envelope).await? == Kept::Behind {
        return Ok(());
    }
    let text = |text: &str| text.to_owned();
    let entry = Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: text("hub"),
        action: LEDGER_CLOSED,
        subject: format!("{} {} {}", day_text(day), head.size, head.root),
        lasts_ms: None,
        force: false,
        reason: text("the day is over"),
        ticket: String::new(),
        author: String::new(),
    };
    hub.change(|_, _| ((), vec![entry.clone()])).await
}

/// Signs the open days each minute, and closes those that are over, for ever.
pub(in crate::hub) async fn sign_days(hub: &Hub) {
    let Some((ledger, log)) = hub.ledger.as_ref().zip(hub.audit_log.as_ref()) else {
        return std::future::pending().await;
    };
    let (mut failures, mut logged) = (Failures::default(), (0, 0));
    loop {
        hub.clock.sleep(SIGN_EVERY).await;
        let now_ms = hub.clock.unix_ms();
        let today = now_ms / DAY_MS;
        let days = hub.record.ledger_days(today.saturating_sub(OPEN_DAYS_MAX), i64::MAX as u64).await;
        failures.note(&days);
        for day in days.unwrap_or_default().into_iter().filter(|day| !day.is_closed) {
            match signed(hub, (ledger, log), day.day).await {
                Ok((head, envelope)) => {
                    let envelope = serde_json::json!(envelope).to_string();
                    let is_over = now_ms >= (day.day + 1).saturating_mul(DAY_MS) + CLOSE_AFTER_MS;
                    if logged != (day.day, head.size) || is_over {
                        event::hub_ledger_head(&day_text(day.day), head.size, &head.root, &envelope);
                        logged = (day.day, head.size);
                    }
                    if is_over {
                        failures.note(&close(hub, day.day, &head, envelope).await);
                        ledger.trees.lock().await.remove(&day.day);
                    }
                }
                Err(Unsigned::Record(error)) => failures.note::<()>(&Err(error)),
                Err(Unsigned::Reading(_)) => {}
                Err(error) => event::hub_ledger_unsigned(&error.to_string()),
            }
        }
    }
}
