//! An isolation on its way from the hub of one region to that of another.

use serde::{Deserialize, Serialize};

use super::order::{LASTS_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX, is_text};
use super::set::Switch;
use crate::base::{Moment, RegionId, SwitchKind, SwitchSubject};

/// The isolation of one region. Shape: JSON. Times are those of the hub that has set it, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The region that it is about.
    pub region: RegionId,
    /// When it was set.
    pub since_ms: u64,
    /// When it ends by itself.
    pub ends_ms: u64,
    /// Why it was set.
    pub reason: String,
    /// The ticket.
    pub ticket: String,
    /// The operator.
    pub author: String,
}

impl Isolation {
    /// The isolation that a switch is; none for one of another kind.
    #[must_use]
    pub fn of(switch: &Switch) -> Option<Self> {
        let region = switch.subject.region().filter(|_| switch.kind == SwitchKind::Isolate)?.clone();
        let Switch { set_unix_ms: since_ms, ends_unix_ms: ends_ms, reason, ticket, author, .. } = switch.clone();
        Some(Self { region, since_ms, ends_ms, reason, ticket, author })
    }

    /// The switch of a hub, whose moments are its wall clock.
    #[must_use]
    pub fn switch(&self) -> Switch {
        let Self { region, since_ms, ends_ms, reason, ticket, author } = self.clone();
        Switch {
            kind: SwitchKind::Isolate,
            subject: SwitchSubject::Region(region),
            calls: None,
            until: Moment(ends_ms),
            set_unix_ms: since_ms,
            ends_unix_ms: ends_ms,
            reason,
            ticket,
            author,
        }
    }

    /// The first member that no order has, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        let lasts_ms = u128::from(self.ends_ms.saturating_sub(self.since_ms));
        if lasts_ms > LASTS_MAX.as_millis() || i64::try_from(self.ends_ms).is_err() {
            return Some("`ends_ms`: expected at most 7d after `since_ms`");
        }
        if !is_text(&self.reason, REASON_BYTES_MAX) {
            return Some("`reason`: expected a text of 1 to 512 bytes without control characters");
        }
        let are_names = [&self.ticket, &self.author].into_iter().all(|text| is_text(text, NAME_BYTES_MAX));
        (!are_names).then_some("`ticket`, `author`: expected texts of 1 to 128 bytes without control characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::Order;

    fn isolation() -> Isolation {
        let query = "switch=isolate&region=eu-west-1&for=1h&reason=lost&ticket=OPS-1&author=ann";
        Isolation::of(&Order::read(query, true).unwrap().switch(Moment(5_000), 5_000).unwrap()).unwrap()
    }

    #[test]
    fn an_isolation_is_the_same_switch_at_both_hubs_and_no_other_switch_is_one() {
        let isolation = isolation();
        assert_eq!((isolation.since_ms, isolation.ends_ms, isolation.mistake()), (5_000, 3_605_000, None));
        assert_eq!(Isolation::of(&isolation.switch()), Some(isolation.clone()));
        assert_eq!(isolation.switch().name(), "isolate eu-west-1");
        assert_eq!(Isolation::of(&Switch { kind: SwitchKind::Evacuate, ..isolation.switch() }), None);
    }

    #[test]
    fn an_isolation_that_no_order_can_set_is_refused() {
        let of = |change: fn(&mut Isolation)| {
            let mut isolation = isolation();
            change(&mut isolation);
            isolation.mistake().unwrap_or_default()
        };
        assert!(of(|it| it.ends_ms = u64::MAX).starts_with("`ends_ms`"));
        assert!(of(|it| it.reason = "a\nb".to_owned()).starts_with("`reason`"));
        assert!(of(|it| it.ticket = String::new()).starts_with("`ticket`"));
        assert!(of(|it| it.author = "a".repeat(129)).starts_with("`ticket`, `author`"));
    }
}
