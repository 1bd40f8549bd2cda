//! Asks the hub for calls, and puts its grants in force.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::grant::{GrantAnswer, PoolAnswer, PoolPlaces, RegionCalls, RegionGrant};
use super::pooling::Pooled;
use crate::base::RegionId;
use crate::config::LimitWithoutHub;
use crate::policy::Grant;

/// Between two requests of grants at most, where a hub says nothing else.
const RENEW_MAX: Duration = Duration::from_secs(10);
/// Before the next request where the hub has granted fewer calls than are needed: others give theirs back as they ask.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// Before the next request where one has failed.
const FAILED_WAIT: Duration = Duration::from_secs(2);
/// Refused calls count as a need up to this, or up to the calls at once: a client that repeats its call fast needs one place, and not many.
const REFUSED_MIN: u64 = 8;

/// The fleet limit of one region, at this sidecar.
#[derive(Debug)]
pub struct Limited {
    region: RegionId,
    on_hub_loss: LimitWithoutHub,
    grant: Arc<Grant>,
    /// The most calls at once of late.
    needs: Cell<u64>,
    /// The most calls at once, as the hub has it.
    held: Cell<u64>,
}

impl Limited {
    /// A limit without a grant.
    #[must_use]
    pub const fn new(region: RegionId, on_hub_loss: LimitWithoutHub, grant: Arc<Grant>) -> Self {
        Self { region, on_hub_loss, grant, needs: Cell::new(0), held: Cell::new(0) }
    }

    /// Notes the calls since the last look. Returns whether some were refused.
    fn look(&self) -> bool {
        let seen = self.grant.seen();
        let needs = seen.peak + seen.refused.min(seen.peak.max(REFUSED_MIN));
        self.needs.set(self.needs.get().max(needs));
        seen.refused > 0 || (self.grant.is_ending() && !self.grant.is_given_back())
    }

    fn ask(&self, now: Instant) -> RegionCalls {
        let holds = self.grant.lower(u64::MAX, now);
        self.held.set(holds);
        let (region, sequence) = (self.region.clone(), self.grant.next_sequence());
        if self.grant.is_ending() {
            return RegionCalls { region, sequence, holds, needs: 0, wants: 0 };
        }
        let needs = self.needs.get();
        // One more than needed, so that the first call of an idle sidecar is not refused.
        let wants = needs + needs / 4 + 1;
        RegionCalls { region, sequence, holds, needs, wants }
    }

    /// Puts a grant in force. Returns how long to wait at most before the next request.
    fn take(&self, calls: u64, ends: Instant) -> Duration {
        self.grant.take(calls, ends);
        if self.grant.is_ending() && self.held.get() == 0 {
            self.grant.note_given_back();
        }
        let needs = self.needs.get();
        if calls < needs {
            return SHORT_WAIT;
        }
        // A quarter less each time, so that a short pause gives nothing back.
        self.needs.set(needs - needs.div_ceil(4));
        // Calls that are given back are free for others once the hub knows.
        if calls < self.held.get() { Duration::ZERO } else { RENEW_MAX }
    }
}

/// The fleet limits of a sidecar.
#[derive(Debug, Default)]
pub struct Granting {
    limits: Vec<Limited>,
    pools: Vec<Pooled>,
    longest_call: Duration,
    /// When the hub is asked again at the latest.
    next: Cell<Option<Instant>>,
    /// The reason why the last answer did not grant calls of each region.
    refused: RefCell<Option<String>>,
}

impl Granting {
    /// The limits and the pools of a configuration. `longest_call`: how long a call goes on at most.
    #[must_use]
    pub fn new(limits: Vec<Limited>, pools: Vec<Pooled>, longest_call: Duration) -> Self {
        Self { limits, pools, longest_call, ..Self::default() }
    }

    /// How long a call may go on after the end of a grant. Units: milliseconds.
    pub(super) fn longest_call_ms(&self) -> u64 {
        u64::try_from(self.longest_call.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.pools.is_empty()
    }

    /// Whether the hub is to be asked now: the time has come, or calls were refused since the last look.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let refused = self.limits.iter().filter(|it| it.look()).count();
        let pressing = self.pools.iter().filter(|it| it.look(now)).count();
        refused + pressing > 0 || self.next.get().is_none_or(|next| next <= now)
    }

    /// The next request, by region and by pool. From now on there are no more calls, and no more jobs, than it says.
    pub(super) fn ask(&self, now: Instant) -> (Vec<RegionCalls>, Vec<PoolPlaces>) {
        // Until an answer says when to ask again, the request counts as failed.
        self.next.set(Some(now + FAILED_WAIT));
        (self.limits.iter().map(|it| it.ask(now)).collect(), self.pools.iter().map(|it| it.ask(now)).collect())
    }

    /// Puts the grants of an answer in force. `asked`: when the request was made.
    pub(super) fn take(&self, answer: &GrantAnswer, asked: Instant) {
        let (mut wait, mut refused) = (RENEW_MAX, None);
        for it in &answer.regions {
            let after = match it {
                RegionGrant::Granted { region, calls, lasts_ms, renew_ms } => {
                    let Some(limit) = self.limits.iter().find(|it| it.region == *region) else { continue };
                    let ends = asked + Duration::from_millis(*lasts_ms);
                    limit.take(*calls, ends).min(Duration::from_millis(*renew_ms))
                }
                RegionGrant::Late { region, sequence } => {
                    let limit = self.limits.iter().find(|it| it.region == *region);
                    limit.iter().for_each(|it| it.grant.set_sequence(*sequence));
                    Duration::ZERO
                }
                RegionGrant::NoLimit { region } => {
                    refused = Some(format!("the hub has no limit for {region}, which limits.fleet names"));
                    RENEW_MAX
                }
                RegionGrant::Unavailable { region, cause } => {
                    refused = Some(format!("{region}: {cause}"));
                    FAILED_WAIT
                }
            };
            wait = wait.min(after);
        }
        for it in &answer.pools {
            wait = wait.min(self.take_pool(it, asked, &mut refused));
        }
        self.next.set(Some(asked + wait));
        self.refused.replace(refused);
    }

    /// Puts the grant of one pool in force. Returns how long to wait at most before the next request.
    fn take_pool(&self, answer: &PoolAnswer, asked: Instant, refused: &mut Option<String>) -> Duration {
        let of = |name: &str| self.pools.iter().find(|it| it.name() == name);
        match answer {
            PoolAnswer::Granted { pool, places, lasts_ms, renew_ms } => {
                let Some(pool) = of(pool) else { return RENEW_MAX };
                let wait = pool.take(*places, asked + Duration::from_millis(*lasts_ms));
                wait.unwrap_or(RENEW_MAX).min(Duration::from_millis(*renew_ms))
            }
            PoolAnswer::Late { pool, sequence } => {
                of(pool).iter().for_each(|it| it.set_sequence(*sequence));
                Duration::ZERO
            }
            PoolAnswer::NoPool { pool } => {
                *refused = Some(format!("the hub has no pool {pool}, which scheduling.pools bounds by the fleet"));
                RENEW_MAX
            }
            PoolAnswer::Unavailable { pool, cause } => {
                *refused = Some(format!("pool {pool}: {cause}"));
                FAILED_WAIT
            }
        }
    }

    /// The reason why the last answer did not grant calls of each region; none where it did.
    pub(super) fn take_refused(&self) -> Option<String> {
        self.refused.take()
    }

    /// A hub is reached: it is asked at once.
    pub(super) fn hub_reached(&self) {
        self.next.set(None);
    }

    /// No hub can be reached: ends the grants that may not be used without one.
    pub(super) fn hub_lost(&self, now: Instant) {
        for it in self.limits.iter().filter(|it| it.on_hub_loss == LimitWithoutHub::Refuse) {
            it.grant.lower(0, now);
        }
        self.pools.iter().for_each(|it| it.hub_lost(now));
    }
}
