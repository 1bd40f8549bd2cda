//! The present state of a hub: switches, the end of the audit trail, sidecars.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, watch};

use super::access::{Access, Caller};
use super::audit::{AuditRow, Entry};
use super::audit_log::AuditLog;
use super::breaker_desk::BreakerDesk;
use super::drill_desk::DrillDesk;
use super::fleet::Fleet;
use super::index::Index;
use super::ledger_desk::Ledger;
use super::limits::Limits;
use super::name::random_name;
use super::quota_desk::QuotaDesk;
use super::record::{ANSWER_WAIT, Kept, Record, RecordError, State, StatusPlace};
use super::replay_desk::ReplayDesk;
use super::target::Regions;
use super::tokens::Tokens;
use super::uwer_store::Uwer;
use super::views::Views;
use crate::base::{Clock, Moment};
use crate::switch::{Order, Switch, Version};
use crate::telemetry::event;

/// Changes that wait at once. Operators are few; more means that the disk is stuck.
const CHANGES_MAX: usize = 16;
/// Requests of reports that wait at once, so that a fleet which comes back leaves the record to operators.
const REPORTS_AT_ONCE: usize = 32;
/// Requests with changes of jobs that the record has at once: each is one commit of up to 200 of them.
const JOBS_AT_ONCE: usize = 16;
/// Requests about keys that the record has at once, so that a wave of them leaves room to operators; further ones wait.
const KEYS_AT_ONCE: usize = 64;
/// For the word of a region about a copy, connecting included: a decision by it must not grow old meanwhile.
const COPY_WAIT: Duration = Duration::from_secs(2);
/// Tries of a change while other hubs change the record: operators are few.
const TRIES_MAX: usize = 8;

/// A hub on its thread.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) access: Access,
    pub(super) record: Record,
    pub(super) clock: Clock,
    pub(super) fleet: RefCell<Fleet>,
    /// Where the statuses of the record begin that may not be known yet.
    mark: Cell<u64>,
    /// How many reports had to make room for others.
    pub(super) dropped_reports: Cell<u64>,
    /// How many keys the record has, as far as this hub knows.
    pub(super) keys: Cell<u64>,
    /// Places for keys that wait for the record.
    pub(super) key_places: Arc<Semaphore>,
    /// Places for changes of jobs that wait for the record.
    pub(super) change_places: Semaphore,
    /// Places for reports that wait for the record.
    pub(super) report_places: Semaphore,
    /// The fleet limits that it grants parts of.
    pub(super) limits: Limits,
    /// The ledgers of quotas.
    pub(super) quota_desk: QuotaDesk,
    /// The last failover drill.
    pub(super) drills: DrillDesk,
    /// The index of jobs; none where it keeps none.
    pub(super) index: Option<Index>,
    /// The ledger of jobs; none where it keeps none.
    pub(super) ledger: Option<Ledger>,
    /// The central store of UWER; none where it is none.
    pub(super) uwer: Option<Uwer>,
    /// The breakers of job types.
    pub(super) breakers: BreakerDesk,
    /// The regions that it probes; none where it probes nothing.
    pub(super) views: Option<Rc<Views>>,
    /// The regions that it asks about copies of jobs.
    pub(super) copies_in: Regions,
    /// The jobs that are cancelled or run again by the order of an operator.
    pub(super) replays: ReplayDesk,
    /// The tokens that it takes; none where every client needs a certificate.
    pub(super) tokens: Option<Tokens>,
    /// The audit trail with signed heads; none where no key signs it.
    pub(super) audit_log: Option<AuditLog>,
    /// Places for changes that wait for the one before them, or for the disk.
    pub(super) places: Arc<Semaphore>,
    /// Whether feeds are open; see `returning`.
    pub(super) opened: watch::Sender<bool>,
    current: watch::Sender<Arc<State>>,
    ending: watch::Sender<bool>,
    /// Locked for a whole change, so that changes follow each other.
    turn: Mutex<()>,
}

impl Hub {
    /// A hub that knows nothing of its record yet; see [`Self::refresh`].
    pub(super) fn new(access: Access, record: Record, clock: Clock) -> Self {
        let (current, _) = watch::channel(Arc::default());
        Self {
            access,
            record,
            clock,
            fleet: RefCell::new(Fleet::default()),
            mark: Cell::new(0),
            dropped_reports: Cell::new(0),
            keys: Cell::new(0),
            key_places: Arc::new(Semaphore::new(KEYS_AT_ONCE)),
            change_places: Semaphore::new(JOBS_AT_ONCE),
            report_places: Semaphore::new(REPORTS_AT_ONCE),
            limits: Limits::default(),
            quota_desk: QuotaDesk::default(),
            drills: DrillDesk::default(),
            index: None,
            ledger: None,
            uwer: None,
            breakers: BreakerDesk::new(Vec::new(), None),
            views: None,
            copies_in: Regions::new(COPY_WAIT),
            replays: ReplayDesk::default(),
            tokens: None,
            audit_log: None,
            places: Arc::new(Semaphore::new(CHANGES_MAX)),
            opened: watch::Sender::new(false),
            current,
            ending: watch::Sender::new(false),
            turn: Mutex::new(()),
        }
    }

    /// Takes the present state of the record, where other hubs have changed it.
    ///
    /// Errors: the known state stays.
    pub(super) async fn refresh(&self) -> Result<(), RecordError> {
        let _turn = self.turn.lock().await;
        self.refresh_in_turn().await
    }

    /// As [`Self::refresh`], for a client that waits.
    ///
    /// Errors: also [`RecordError::Slow`].
    pub(super) async fn refresh_in_time(&self) -> Result<(), RecordError> {
        tokio::time::timeout(ANSWER_WAIT, self.refresh()).await.map_err(|_| RecordError::Slow)?
    }

    async fn refresh_in_turn(&self) -> Result<(), RecordError> {
        if let Some(state) = self.record.newer(&self.current().version).await? {
            self.current.send_replace(Arc::new(state));
        }
        Ok(())
    }

    /// The present state of the switches.
    pub(super) fn current(&self) -> Arc<State> {
        Arc::clone(&self.current.borrow())
    }

    /// Follows the states from the present one on.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<State>> {
        self.current.subscribe()
    }

    /// Takes the statuses that other hubs have kept, a part at a time.
    ///
    /// Errors: some are missing.
    pub(super) async fn take_statuses(&self) -> Result<(), RecordError> {
        let mut from = StatusPlace { written: self.mark.get(), ..StatusPlace::default() };
        let mut next = None;
        loop {
            let found = self.record.statuses(&from).await?;
            self.fleet.borrow_mut().merge(found.sidecars, self.record.is_shared());
            let next = *next.get_or_insert(found.mark);
            let Some(last) = found.last else {
                self.mark.set(next);
                return Ok(());
            };
            from = last;
        }
    }

    /// Ends the feeds, so that sidecars follow another hub.
    pub(super) fn end_feeds(&self) {
        self.ending.send_replace(true);
    }

    /// Becomes true when the feeds end.
    pub(super) fn follow_ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Changes the switches by the order of an operator, or of another hub: `change` returns the result, and an entry of the audit trail for
    /// each change, or none where nothing is to be done. It is called again where another hub was first. The new state is in force and durable when this
    /// returns.
    ///
    /// Errors: nothing was changed, but for [`RecordError::Unknown`].
    /// Cancel: the change may or may not be made; run it in a task.
    pub(super) async fn change<T>(
        &self,
        change: impl Fn(&mut State, Moment) -> (T, Vec<Entry>),
    ) -> Result<T, RecordError> {
        // An order that waits for longer is given up: its operator has stopped waiting, too.
        let begun = tokio::time::timeout(ANSWER_WAIT, async {
            let turn = self.turn.lock().await;
            self.refresh_in_turn().await.map(|()| turn)
        });
        let _turn = begun.await.map_err(|_| RecordError::Slow)??;
        for _ in 0..TRIES_MAX {
            let current = self.current();
            let mut after = State::clone(&current);
            let ended = after.expire(self.now());
            let (result, entries) = change(&mut after, self.now());
            if entries.is_empty() && after.is_alike(&current) {
                return Ok(result);
            }
            let rows: Vec<AuditRow> = entries.into_iter().map(|entry| after.head.add(entry)).collect();
            after.version = next(&current);
            if self.publish(&current, after, rows).await? == Kept::Kept {
                note_ended(&ended);
                return Ok(result);
            }
        }
        Err(RecordError::Contended)
    }

    /// Ends the switches whose time is over, unless another hub is first.
    pub(super) async fn expire(&self) -> Result<(), RecordError> {
        let _turn = self.turn.lock().await;
        let current = self.current();
        let mut after = State::clone(&current);
        let ended = after.expire(self.now());
        if ended.is_empty() {
            return Ok(());
        }
        after.version = next(&current);
        if self.publish(&current, after, Vec::new()).await? == Kept::Kept {
            note_ended(&ended);
        }
        Ok(())
    }

    /// Keeps a state and puts it in force; where another hub was first, the state of the record.
    async fn publish(&self, from: &State, to: State, rows: Vec<AuditRow>) -> Result<Kept, RecordError> {
        let kept = self.record.change(&from.version, &to, rows).await?;
        match kept {
            Kept::Kept => drop(self.current.send_replace(Arc::new(to))),
            Kept::Behind => self.refresh_in_turn().await?,
        }
        Ok(kept)
    }

    /// The hub's moments are those of its wall clock: they must mean the same after a restart.
    pub(super) fn now(&self) -> Moment {
        Moment(self.clock.unix_ms())
    }

    /// The entry of a change of a switch that a client asked for.
    pub(super) fn entry(&self, caller: &Caller, action: &'static str, switch: &Switch, order: &Order) -> Entry {
        self.entry_by(&caller.name, action, switch, order)
    }

    /// The same for a change that this hub makes itself.
    pub(super) fn entry_by(&self, caller: &str, action: &'static str, switch: &Switch, order: &Order) -> Entry {
        let Order { lasts, force, reason, ticket, author, .. } = order.clone();
        Entry {
            unix_ms: self.clock.unix_ms(),
            caller: caller.to_owned(),
            action,
            subject: switch.name(),
            lasts_ms: lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)),
            force,
            reason,
            ticket,
            author,
        }
    }
}

/// Logs the end of switches whose time is over.
fn note_ended(ended: &[Switch]) {
    for switch in ended {
        event::switch_ended(switch.kind, &switch.subject, None);
    }
}

/// The name of the state behind a state.
fn next(current: &State) -> Version {
    Version { name: random_name(), change: current.version.change + 1 }
}
