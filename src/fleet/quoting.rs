//! The tokens of quotas: how many this sidecar asks its hub for, and when; and the limits of its own while it reaches no hub.

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::quota_tokens::{QuotaAnswer, QuotaTokens};
use crate::base::Clock;
use crate::policy::{BlockAsk, LATER_MAX, Later, Ledger, LiveQuota, OnHubLoss, OverLimit, Quota, Rate};
use crate::region::Quotas;
use crate::telemetry::event;

/// Before the next request where nothing presses: a third of a block's time.
const RENEW: Duration = Duration::from_secs(10);
/// Before the next request where the hub has granted less than is needed, and before one is tried again.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// Between two looks at the limits of its own.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Quotas in one request: an answer has at most 64 KiB, and each may have later tokens of its own.
const AT_ONCE: usize = 8;
/// The fewest later tokens that are asked for at once, so that a wave of jobs does not wait for a request each.
const LATER_MIN: u64 = 8;
/// Jobs have found tokens for so long: then they are said to find some again.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// The name of this process in its own ledgers.
const OWN: &str = "own";

/// The course of one quota at this sidecar.
#[derive(Debug, Default)]
struct Course {
    next: Option<Instant>,
    asked: Option<Instant>,
    /// The sequence of the last request, and the last one of which the answer was put in force.
    sequence: u64,
    answered: Option<u64>,
    /// The tokens that jobs have needed of late.
    needs: u64,
    /// Whether the last answer granted less than that.
    is_short: bool,
    is_pressed: bool,
    /// Whether jobs have lacked tokens since the last request.
    lacks: bool,
    /// When a job has lacked a token last; none where that was long ago, and said.
    lacked: Option<Instant>,
    /// The tokens of the hub's block that were not taken before this sidecar's own limit came in force.
    owed: u64,
    /// Its own limit, while that is in force.
    own: Option<OwnLimit>,
}

#[derive(Debug)]
struct OwnLimit {
    ledger: Ledger,
    sequence: u64,
    asked: Instant,
}

/// The quotas of a sidecar. Lives on the control thread.
#[derive(Debug)]
pub struct Quoting {
    quotas: Arc<Quotas>,
    /// By the names of quotas in force.
    courses: RefCell<HashMap<String, Course>>,
    /// Whether the present feed has named the quotas: an earlier hub grants none.
    is_named: Cell<bool>,
    is_lost: Cell<bool>,
    /// Where the time of its own ledgers begins.
    begun: Instant,
    /// Notified when the feed has named the quotas, and when no hub can be reached.
    turned: (Notify, Notify),
    refused: RefCell<Option<String>>,
}

impl Quoting {
    /// No tokens yet.
    #[must_use]
    pub fn new(quotas: Arc<Quotas>, now: Instant) -> Self {
        // Tokens of a limit of its own are those of the connection that has granted them.
        quotas.table().iter().for_each(|it| it.purse.end_own());
        let (courses, is_named, is_lost, turned, refused) = Default::default();
        Self { quotas, courses, is_named, is_lost, begun: now, turned, refused }
    }

    /// A feed begins.
    pub fn feed_begins(&self) {
        self.is_named.set(false);
    }

    /// Whether the present feed has named the quotas.
    pub(super) const fn is_named(&self) -> bool {
        self.is_named.get()
    }

    /// The feed has named the quotas: the hub grants tokens.
    pub fn named(&self, quotas: &[Quota]) {
        self.quotas.set(quotas);
        self.is_named.set(true);
        self.is_lost.set(false);
        let table = self.quotas.table();
        let mut courses = self.courses.borrow_mut();
        courses.retain(|key, _| table.iter().any(|it| it.quota.key() == *key));
        for live in table.iter() {
            let course = courses.entry(live.quota.key()).or_default();
            course.next = None;
            course.own = None;
            live.purse.end_own();
        }
        self.turned.0.notify_one();
    }

    /// Waits until the feed has named quotas.
    pub(super) async fn wait_for_names(&self) {
        while !self.is_named.get() || !self.quotas.is_on() {
            self.turned.0.notified().await;
        }
    }

    /// No hub can be reached.
    pub fn hub_lost(&self) {
        self.is_lost.set(true);
        self.close_lost();
        self.turned.1.notify_one();
    }

    fn close_lost(&self) {
        let table = self.quotas.table();
        table.iter().filter(|it| it.quota.on_hub_loss == OnHubLoss::Refuse).for_each(|it| it.purse.close());
    }

    /// The next request, for the quotas that are to be asked for now; those that have waited longest first.
    pub fn ask(&self, now: Instant) -> Vec<QuotaTokens> {
        if !self.is_named.get() {
            return Vec::new();
        }
        let (table, mut courses) = (self.quotas.table(), self.courses.borrow_mut());
        let mut due: Vec<_> = Vec::new();
        for live in table.iter() {
            let course = courses.entry(live.quota.key()).or_default();
            course.look(live, now);
            if course.is_due(live, now) {
                due.push((course.asked, live));
            }
        }
        due.sort_by_key(|(asked, _)| *asked);
        due.truncate(AT_ONCE);
        let ask = |(_, live): (_, &Arc<LiveQuota>)| Some(courses.get_mut(&live.quota.key())?.ask(live, now));
        due.into_iter().filter_map(ask).collect()
    }

    /// Puts the tokens of an answer in force. `asked`: when the request was made.
    pub fn take(&self, answers: &[QuotaAnswer], asked: Instant) {
        let (table, mut courses) = (self.quotas.table(), self.courses.borrow_mut());
        for answer in answers {
            let (QuotaAnswer::Granted { quota, .. }
            | QuotaAnswer::Late { quota, .. }
            | QuotaAnswer::NoQuota { quota }
            | QuotaAnswer::Unavailable { quota, .. }) = answer;
            let Some(live) = table.iter().find(|it| it.quota.key() == *quota) else { continue };
            let Some(course) = courses.get_mut(quota).filter(|it| it.own.is_none()) else { continue };
            match answer {
                QuotaAnswer::Granted { further, lasts_ms, later, next_ms, is_pressed, .. } => {
                    let behind = |ms: u64| asked + Duration::from_millis(ms);
                    let later: Vec<Later> = later
                        .iter()
                        .map(|it| Later { at_ms: it.at_ms, at: behind(it.in_ms), left: it.tokens, spent: 0, named: 0 })
                        .collect();
                    live.purse.grant(*further, behind(*lasts_ms), &later, next_ms.map(behind));
                    course.answered = Some(course.sequence);
                    course.taken(live, *is_pressed, asked);
                }
                QuotaAnswer::Late { sequence, .. } => {
                    live.purse.set_sequence(*sequence);
                    course.next = Some(asked + SHORT_WAIT);
                }
                // Another hub on the record may not have read the order yet.
                QuotaAnswer::NoQuota { .. } => course.next = Some(asked + SHORT_WAIT),
                QuotaAnswer::Unavailable { cause, .. } => {
                    course.next = Some(asked + SHORT_WAIT);
                    *self.refused.borrow_mut() = Some(format!("{}: {cause}", quota.replace('\t', " ")));
                }
            }
        }
    }

    /// The reason why the last answer did not grant tokens of each quota; none where it did.
    pub(super) fn take_refused(&self) -> Option<String> {
        self.refused.take()
    }

    /// Keeps to the limits of its own while no hub is reached, for ever.
    pub(super) async fn keep_own_limits(&self, clock: &Clock) {
        loop {
            while !self.is_lost.get() {
                self.turned.1.notified().await;
            }
            self.grant_own(clock.now());
            clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Grants tokens of the limits of its own, where the hub's have ended.
    fn grant_own(&self, now: Instant) {
        // Quotas that the journal has read since.
        self.close_lost();
        let (table, mut courses) = (self.quotas.table(), self.courses.borrow_mut());
        for live in table.iter() {
            let course = courses.entry(live.quota.key()).or_default();
            course.look(live, now);
            let Some(rate) = live.quota.local_rate().filter(|_| live.quota.on_hub_loss == OnHubLoss::Local) else {
                continue;
            };
            if course.own.is_none() {
                if live.purse.left(now) > 0 {
                    continue;
                }
                let (left, dropped) = live.purse.freeze_block(now, u64::MAX);
                course.owed += left + dropped;
                course.own = Some(OwnLimit { ledger: Ledger::default(), sequence: 0, asked: now });
            } else if !course.is_due_own(live, now) {
                continue;
            }
            course.ask_own(live, rate, (self.begun, now));
        }
    }
}

impl Course {
    /// Notes the jobs since the last look, and says when they begin to lack tokens, and when no more.
    fn look(&mut self, live: &LiveQuota, now: Instant) {
        let seen = live.purse.seen();
        self.needs = self.needs.max(seen.taken + seen.lacked);
        let (tenant, job_type) = (&live.quota.tenant, &live.quota.job_type);
        if seen.lacked > 0 {
            self.lacks = true;
            if self.lacked.replace(now).is_none() {
                let word = if seen.refused > 0 { "refused" } else { "delayed" };
                event::quota_exceeded(tenant, job_type, word);
            }
        } else if self.lacked.is_some_and(|at| now.saturating_duration_since(at) > KEPT_FOR) {
            self.lacked = None;
            event::quota_kept(tenant, job_type);
        }
    }

    /// Whether few tokens are left.
    fn is_low(live: &LiveQuota, now: Instant) -> bool {
        live.purse.left(now) <= live.quota.burst / 4
    }

    fn is_due(&self, live: &LiveQuota, now: Instant) -> bool {
        let wait = if self.is_short { SHORT_WAIT } else { Duration::ZERO };
        let is_recent = self.asked.is_some_and(|asked| now < asked + wait);
        let presses = self.lacks || (self.needs > 0 && !self.is_short && Self::is_low(live, now));
        self.next.is_none_or(|next| next <= now) || (presses && !is_recent)
    }

    fn ask(&mut self, live: &LiveQuota, now: Instant) -> QuotaTokens {
        // Until an answer says when to ask again, the request counts as failed.
        (self.next, self.asked) = (Some(now + SHORT_WAIT), Some(now));
        // Later tokens are for jobs: a sidecar without any would keep them from others.
        let expects = self.lacks || (self.needs > 0 && Self::is_low(live, now));
        let delays = live.quota.over_limit == OverLimit::Delay && expects;
        let keep = if self.is_pressed { self.needs.min(live.quota.burst) } else { live.quota.burst };
        let (left, dropped, later) = live.purse.freeze(now, keep, delays);
        (self.lacks, self.sequence) = (false, live.purse.next_sequence());
        QuotaTokens {
            quota: live.quota.key(),
            sequence: self.sequence,
            answered: self.answered,
            left,
            dropped: dropped + std::mem::take(&mut self.owed),
            wants: if self.is_pressed { self.needs } else { live.quota.burst },
            needs: self.needs,
            later,
            wants_later: if delays { (2 * self.needs).clamp(LATER_MIN, LATER_MAX) } else { 0 },
        }
    }

    /// Tokens were granted.
    fn taken(&mut self, live: &LiveQuota, is_pressed: bool, asked: Instant) {
        self.is_pressed = is_pressed;
        let left = live.purse.left(asked);
        self.is_short = left < self.needs;
        let gives = is_pressed && left > self.needs;
        self.next = Some(asked + if self.is_short || gives { SHORT_WAIT } else { RENEW });
        // A quarter less each time, so that a short pause gives nothing back. Jobs that wait for others to give tokens back are not forgotten.
        if !self.is_short || self.lacked.is_none() {
            self.needs -= self.needs.div_ceil(4);
        }
    }

    fn is_due_own(&self, live: &LiveQuota, now: Instant) -> bool {
        self.lacks || Self::is_low(live, now) || self.own.as_ref().is_none_or(|own| own.asked + RENEW <= now)
    }

    fn ask_own(&mut self, live: &LiveQuota, rate: Rate, (begun, now): (Instant, Instant)) {
        let Some(own) = &mut self.own else { return };
        (own.sequence, own.asked, self.lacks) = (own.sequence + 1, now, false);
        let (left, dropped) = live.purse.freeze_block(now, u64::MAX);
        let (process, sequence, later) = (OWN.to_owned(), own.sequence, Vec::new());
        let (wants, needs, wants_later) = (rate.burst, self.needs, 0);
        let answered = None;
        let ask = BlockAsk { process, sequence, answered, left, dropped, wants, needs, later, wants_later };
        let ms = now.saturating_duration_since(begun).as_millis();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        // Neither late nor full: there is one process, and its requests are numbered.
        if let Ok(block) = own.ledger.ask(rate, &ask, u64::try_from(ms).unwrap_or(u64::MAX)) {
            live.purse.begin_own();
            live.purse.grant(block.further, at(block.ends_ms), &[], block.next_ms.map(at));
        }
        self.needs -= self.needs.div_ceil(4);
    }
}
