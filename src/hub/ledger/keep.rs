//! The end of rows: of a day when its time is over, of a tenant when an operator orders it.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::audit::Entry;
use super::super::follow::Failures;
use super::super::record::RecordError;
use super::super::response::Refusal;
use super::super::state::Hub;
use super::job::Job;
use super::present::present;
use super::row::DAY_MS;
use crate::ojs::query_text;
use crate::replica::is_text;
use crate::switch::Grounds;

/// Between two looks for days whose time is over.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// The same while there is more to drop.
const PRUNE_AGAIN: Duration = Duration::from_millis(100);
/// Statements of one order to forget: a million jobs at most, else the order is repeated.
const PARTS_MAX: usize = 2_000;

/// Drops the days whose time is over, for ever.
pub(in crate::hub) async fn prune(hub: &Hub) {
    let Some(ledger) = &hub.ledger else { return std::future::pending().await };
    let retention_ms = u64::try_from(ledger.settings.retention.as_millis()).unwrap_or(u64::MAX);
    let mut failures = Failures::default();
    loop {
        let first_ms = hub.clock.unix_ms().saturating_sub(retention_ms);
        // A job stays for longer than its rows, which an order to forget finds by it.
        let learned_ms = first_ms.saturating_sub(2 * DAY_MS);
        let pruned = hub.record.prune_ledger(first_ms / DAY_MS, learned_ms).await;
        failures.note(&pruned);
        hub.clock.sleep(if pruned.is_ok_and(|dropped| dropped > 0) { PRUNE_AGAIN } else { PRUNE_EVERY }).await;
    }
}

/// `DELETE /api/ledger/tenants/{tenant}?reason=TEXT&ticket=TEXT&author=NAME`: erases the jobs of a tenant and the content of their rows. The hashes of the
/// rows stay, so that the signed heads hold.
///
/// Errors: 400 for another request, 404 without a ledger, 503 where the record does not answer: some may be erased, and a repetition goes on.
pub(in crate::hub) async fn forget(hub: Rc<Hub>, caller: &Caller, tenant: &str, query: &str) -> Result<Value, Refusal> {
    present(&hub)?;
    let tenant = query_text(tenant);
    if !is_text(&tenant) {
        return Err(Refusal::bad_request(
            "expected the name of a tenant in the path, 1 to 255 bytes without control characters".to_owned(),
        ));
    }
    let grounds = Grounds::read(caller.author.as_deref(), query).map_err(Refusal::bad_request)?;
    let entry = |action, subject: String| Entry {
        unix_ms: hub.clock.unix_ms(),
        caller: caller.name.clone(),
        action,
        subject,
        lasts_ms: None,
        force: false,
        reason: grounds.reason.clone(),
        ticket: grounds.ticket.clone(),
        author: grounds.author.clone(),
    };
    hub.change(|_, _| ((), vec![entry("ledger_forget", format!("tenant {tenant}"))]))
        .await
        .map_err(Refusal::unchanged)?;
    // The second round finds what appends have added that had read the ledger before the first.
    let (mut jobs, mut records, mut more) = (0, 0, false);
    for round in 0..2 {
        let done = erase(&hub, &tenant).await?;
        (jobs, records, more) = (jobs + done.0, records + done.1, more || done.2);
        if round == 0 {
            hub.record.turn_ledger().await?;
        }
    }
    let subject = format!("tenant {tenant}: {jobs} jobs, {records} records");
    hub.change(|_, _| ((), vec![entry("ledger_forgotten", subject.clone())])).await?;
    Ok(json!({ "tenant": tenant, "jobs": jobs, "records": records, "more": more }))
}

/// Erases the jobs that a tenant has now. Returns how many jobs and lines, and whether there are more.
async fn erase(hub: &Hub, tenant: &str) -> Result<(u64, u64, bool), RecordError> {
    let mark = serde_json::json!(Job::kept_out(0)).to_string();
    let (mut jobs, mut records) = (0, 0);
    for _ in 0..PARTS_MAX {
        let (part, lines) = hub.record.forget_ledger(tenant.to_owned(), mark.clone()).await?;
        (jobs, records) = (jobs + part, records + lines);
        if part == 0 {
            return Ok((jobs, records, false));
        }
    }
    Ok((jobs, records, true))
}
