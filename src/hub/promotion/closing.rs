//! The switch of a lost region, for as long as its promotion is open.

use std::time::Duration;

use super::super::record::RecordError;
use super::super::state::Hub;
use super::{CLOSED_BY, Promotion};
use crate::base::SwitchSubject;
use crate::switch::{LASTS_MAX, Order, Switch};

/// The switch is set for the longest time, and again once half of that is over.
const RENEW_AFTER: Duration = Duration::from_secs(LASTS_MAX.as_secs() / 2);
/// The caller in the audit trail.
const CALLER: &str = "promotion";

/// Sets the switch that keeps jobs from the lost region and workers from its jobs, or sets it again before it ends.
///
/// Errors: it may not be in force.
pub(super) async fn close(hub: &Hub, promotion: &Promotion) -> Result<(), RecordError> {
    let subject = SwitchSubject::Region(promotion.from.clone());
    let enough = hub.now().after(LASTS_MAX - RENEW_AFTER);
    let is_set = |it: &Switch| it.kind == CLOSED_BY && it.subject == subject && it.until > enough;
    if hub.current().switches.iter().any(is_set) {
        return Ok(());
    }
    let (order, unix_ms) = (order(promotion, Some(LASTS_MAX)), hub.clock.unix_ms());
    hub.change(|state, now| {
        let Some(switch) = order.switch(now, unix_ms) else { return ((), Vec::new()) };
        state.switches.set(switch.clone());
        ((), vec![hub.entry_by(CALLER, "switch_set", &switch, &order)])
    })
    .await
}

/// Ends the switch: the region gets jobs and workers again.
///
/// Errors: it may be in force.
pub(super) async fn reopen(hub: &Hub, promotion: &Promotion) -> Result<(), RecordError> {
    let order = order(promotion, None);
    // One that an operator has set stays.
    let is_own = |it: &Switch| {
        let is_of = (&it.reason, &it.ticket, &it.author) == (&order.reason, &order.ticket, &order.author);
        it.kind == CLOSED_BY && it.subject == order.subject && is_of
    };
    if !hub.current().switches.iter().any(is_own) {
        return Ok(());
    }
    hub.change(|state, _| {
        let ended = state.switches.end(order.kind, &order.subject);
        ((), ended.iter().map(|it| hub.entry_by(CALLER, "switch_ended", it, &order)).collect())
    })
    .await
}

fn order(promotion: &Promotion, lasts: Option<Duration>) -> Order {
    Order {
        kind: Some(CLOSED_BY),
        subject: SwitchSubject::Region(promotion.from.clone()),
        calls: None,
        lasts,
        reason: promotion.reason.clone(),
        ticket: promotion.ticket.clone(),
        author: promotion.author.clone(),
        force: true,
    }
}
