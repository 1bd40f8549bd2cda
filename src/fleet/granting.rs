//! Asks the hub for calls, and puts its grants in force.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::grant::{GrantAnswer, RegionCalls, RegionGrant};
use crate::base::RegionId;
use crate::config::OnHubLoss;
use crate::policy::Grant;

/// Between two requests of grants at most, where a hub says nothing else.
const RENEW_MAX: Duration = Duration::from_secs(10);
/// Refused calls count as a need up to this, or up to the calls at once: a client that repeats its call fast needs one place, and not many.
const REFUSED_MIN: u64 = 8;

/// The fleet limit of one region, at this sidecar.
#[derive(Debug)]
pub struct Limited {
    region: RegionId,
    on_hub_loss: OnHubLoss,
    grant: Arc<Grant>,
    /// The most calls at once of late.
    needs: Cell<u64>,
}

impl Limited {
    /// A limit without a grant.
    #[must_use]
    pub const fn new(region: RegionId, on_hub_loss: OnHubLoss, grant: Arc<Grant>) -> Self {
        Self { region, on_hub_loss, grant, needs: Cell::new(0) }
    }

    /// Notes the calls since the last look. Returns whether calls were refused.
    fn look(&self) -> bool {
        let seen = self.grant.seen();
        let needs = seen.peak + seen.refused.min(seen.peak.max(REFUSED_MIN));
        self.needs.set(self.needs.get().max(needs));
        seen.refused > 0
    }

    fn ask(&self, now: Instant) -> RegionCalls {
        let needs = self.needs.get();
        // A quarter less each time, so that a short pause gives nothing back.
        self.needs.set(needs - needs.div_ceil(4));
        let holds = self.grant.lower(u64::MAX, now);
        // One more than needed, so that the first call of an idle sidecar is not refused.
        RegionCalls { region: self.region.clone(), holds, needs, wants: needs + needs / 4 + 1 }
    }
}

/// The fleet limits of a sidecar.
#[derive(Debug, Default)]
pub struct Granting {
    limits: Vec<Limited>,
    longest_call: Duration,
    /// That of the last request.
    sequence: Cell<u64>,
    /// When the hub is asked again at the latest.
    next: Cell<Option<Instant>>,
    /// The limits that the hub does not have.
    missing: Cell<usize>,
}

impl Granting {
    /// The limits of a configuration. `longest_call`: how long a call goes on at most.
    #[must_use]
    pub fn new(limits: Vec<Limited>, longest_call: Duration) -> Self {
        Self { limits, longest_call, ..Self::default() }
    }

    /// How long a call may go on after the end of a grant. Units: milliseconds.
    pub(super) fn longest_call_ms(&self) -> u64 {
        u64::try_from(self.longest_call.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Whether the hub is to be asked now: the time has come, or calls were refused since the last look.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let refused = self.limits.iter().filter(|it| it.look()).count();
        refused > 0 || self.next.get().is_none_or(|next| next <= now)
    }

    /// The next request: its sequence, and the calls of each region. From now on there are no more calls than it says.
    pub(super) fn ask(&self, now: Instant) -> (u64, Vec<RegionCalls>) {
        self.sequence.set(self.sequence.get() + 1);
        self.next.set(Some(now + RENEW_MAX));
        (self.sequence.get(), self.limits.iter().map(|it| it.ask(now)).collect())
    }

    /// Puts the grants of an answer in force. `asked`: when the request was made.
    pub(super) fn take(&self, answer: &GrantAnswer, asked: Instant) {
        let mut missing = 0;
        for it in &answer.regions {
            match it {
                RegionGrant::Granted { region, calls, lasts_ms, renew_ms } => {
                    let Some(limit) = self.limits.iter().find(|it| it.region == *region) else { continue };
                    limit.grant.take(*calls, asked + Duration::from_millis(*lasts_ms));
                    self.ask_again(asked + Duration::from_millis(*renew_ms));
                }
                RegionGrant::Late { sequence, .. } => {
                    self.sequence.set(self.sequence.get().max(*sequence));
                    self.ask_again(asked);
                }
                RegionGrant::NoLimit { .. } => missing += 1,
            }
        }
        self.missing.set(missing);
    }

    /// The limits that the hub does not have.
    pub(super) const fn missing(&self) -> usize {
        self.missing.get()
    }

    fn ask_again(&self, at: Instant) {
        self.next.set(Some(self.next.get().map_or(at, |next| next.min(at))));
    }

    /// No hub can be reached: ends the grants that may not be used without one.
    pub(super) fn hub_lost(&self, now: Instant) {
        for it in self.limits.iter().filter(|it| it.on_hub_loss == OnHubLoss::Refuse) {
            it.grant.lower(0, now);
        }
    }
}
