//! The quotas in force at this sidecar. Without quotas a job pays for one load and a branch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::active_quotas::ActiveQuotas;
use crate::policy::{LiveQuota, OverLimit, Quota, QuotaTable, Token};
use crate::telemetry::event;

/// `Retry-After` where it is not known when there is a token.
const RETRY: Duration = Duration::from_secs(1);
/// The same without a hub, and where there is none for hours.
const RETRY_LATE: Duration = Duration::from_secs(30);

/// The quotas of a process; they stay over a reload of the configuration.
#[derive(Debug, Default)]
pub struct Quotas {
    is_on: AtomicBool,
    table: ArcSwap<QuotaTable>,
    /// Those that bound the jobs which are active at once.
    pub active: ActiveQuotas,
}

/// A token that a job has taken. One that was not sent is given back.
#[derive(Debug)]
pub struct TakenToken {
    live: Arc<LiveQuota>,
    token: Token,
    is_sent: AtomicBool,
}

impl TakenToken {
    /// The job is on its way to a region: from now on the token is given back by [`TakenToken::give_back`] only.
    pub fn sent(&self) {
        self.is_sent.store(true, Relaxed);
    }

    /// Gives it back: its job is stored nowhere.
    pub fn give_back(&self) {
        self.live.purse.give_back(self.token);
    }

    /// The time that its job is delayed to; none for a job that may run now. Units: milliseconds since the Unix epoch.
    #[must_use]
    pub const fn due_ms(&self) -> Option<u64> {
        match self.token {
            Token::Now(_) => None,
            Token::Later(at_ms, _) => Some(at_ms),
        }
    }
}

impl TakenToken {
    /// Gives it back: the job's own time cannot be compared with that of the token.
    #[must_use]
    pub fn without_time(self) -> NoToken {
        self.live.purse.note_refused();
        NoToken { live: Arc::clone(&self.live), retry_after: RETRY_LATE.as_secs() }
    }
}

impl Drop for TakenToken {
    fn drop(&mut self) {
        if !*self.is_sent.get_mut() {
            self.give_back();
        }
    }
}

/// Why a job has no token.
#[derive(Debug)]
pub struct NoToken {
    /// Its quota.
    pub live: Arc<LiveQuota>,
    /// When there may be one. Units: seconds.
    pub retry_after: u64,
}

impl Quotas {
    /// Whether there are any that count new jobs. One load.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Puts quotas in force in place of all before, whose tokens stay.
    pub fn set(&self, quotas: &[Quota]) {
        let is_changed = self.active.set(quotas);
        let before = self.table.load();
        if before.iter().map(|it| &it.quota).eq(quotas.iter().filter(|it| it.has_rate())) {
            if is_changed {
                event::hub_quotas_in_force(quotas.len());
            }
            return;
        }
        self.table.store(Arc::new(QuotaTable::new(quotas.to_vec(), &before)));
        self.is_on.store(quotas.iter().any(Quota::has_rate), Relaxed);
        event::hub_quotas_in_force(quotas.len());
    }

    /// Those in force.
    pub fn table(&self) -> Arc<QuotaTable> {
        self.table.load_full()
    }

    /// A token for a job; none where no quota counts it. `may_delay`: whether it may get one for a later time.
    ///
    /// Errors: [`NoToken`].
    pub fn take(
        &self,
        (tenant, job_type): (Option<&str>, Option<&str>),
        may_delay: bool,
        now: Instant,
    ) -> Result<Option<TakenToken>, NoToken> {
        let table = self.table.load();
        let Some(live) = table.of(tenant, job_type) else { return Ok(None) };
        let later = || {
            let delays = may_delay && live.quota.over_limit == OverLimit::Delay;
            if delays { live.purse.take_later(now) } else { None }
        };
        match live.purse.take(now).or_else(later) {
            Some(token) => Ok(Some(TakenToken { live: Arc::clone(live), token, is_sent: AtomicBool::new(false) })),
            None => Err(no_token(live, now)),
        }
    }
}

/// Notes a job that is refused for want of a token.
fn no_token(live: &Arc<LiveQuota>, now: Instant) -> NoToken {
    live.purse.note_refused();
    let wait = match live.purse.next() {
        Some(next) => next.saturating_duration_since(now).max(RETRY),
        None if live.purse.has_asked() => RETRY_LATE,
        None => RETRY,
    };
    let retry_after = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    NoToken { live: Arc::clone(live), retry_after }
}
