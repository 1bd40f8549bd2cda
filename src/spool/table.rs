//! The jobs of the spool in memory: their states, their names and their order. Their content is in the file only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::failures::Failures;
use super::head::{Head, Lane};
use super::row::{Row, RowState};
use crate::outcome::{Copy, Digest};

/// The first pause of a lane after a job that no region took; each further one is twice as long. Most short outages are over within some of them.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause: a look at the view costs microseconds, and a region that is back gets its jobs within this time.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The place of a job on its way through the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is being written for the first time, and its caller waits for that.
    Storing,
    /// It is being written, and its caller has given up: no job waits behind it until it is in the file.
    Late,
    /// Its first commit has failed: the file, once it is read again, says whether it is there. No job waits behind it.
    Doubtful,
    /// It rests, in the state of its row.
    Resting,
    /// The drain has it.
    Taken,
    /// It is being removed for its client, or changed for an operator.
    Changing,
}

/// One job.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) head: Option<Head>,
    pub(super) state: RowState,
    pub(super) reason: Option<String>,
    pub(super) phase: Phase,
    /// From when its age counts. Units: milliseconds since the Unix epoch.
    pub(super) since_ms: u64,
    /// Its age at a moment of this process's clock.
    pub(super) age_at: (Duration, Instant),
    pub(super) copies: Vec<Copy>,
    pub(super) failures: Failures,
    pub(super) bytes: u64,
}

impl Entry {
    /// The state as clients and operators see it.
    pub(super) const fn shown(&self) -> RowState {
        match (self.state, self.phase) {
            (RowState::Waiting, Phase::Taken) => RowState::Sending,
            (state, _) => state,
        }
    }

    /// Whether its lane waits for it.
    const fn is_in_lane(&self) -> bool {
        !self.state.is_aside()
    }

    /// How old it is: a jump of the wall clock within this process changes nothing about it.
    pub(super) fn age(&self, now: Instant) -> Duration {
        let (age, at) = self.age_at;
        age.saturating_add(now.saturating_duration_since(at))
    }

    /// Whether it is in the file, as far as is known.
    pub(super) const fn is_stored(&self) -> bool {
        !matches!(self.phase, Phase::Storing | Phase::Late | Phase::Doubtful)
    }
}

/// Jobs in their order.
#[derive(Debug, Default)]
struct Waiting {
    numbers: BTreeSet<u64>,
    /// When the first may be taken; none while the drain has it.
    due: Option<Instant>,
    /// Pauses in a row.
    failures: u32,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<u64, Entry>,
    by_id: HashMap<String, SmallVec<[u64; 1]>, RandomState>,
    by_federation_id: HashMap<String, SmallVec<[u64; 1]>, RandomState>,
    lanes: HashMap<Lane, Waiting, RandomState>,
    /// The jobs that wait, by the time from which their age counts.
    by_age: BTreeSet<(u64, u64)>,
    /// The jobs that are set aside.
    aside: BTreeSet<u64>,
    /// How many are not in the file, as far as is known.
    unstored: usize,
    /// The lanes with a first job that may be taken, by time.
    due: BTreeSet<(Instant, Lane)>,
    bytes: u64,
    last_number: u64,
}

impl Table {
    /// Takes a job in. The time by which its lane may be taken is now.
    pub(super) fn insert(&mut self, number: u64, entry: Entry, now: Instant) {
        self.last_number = self.last_number.max(number);
        self.bytes += entry.bytes;
        if let Some(head) = &entry.head {
            push(&mut self.by_id, head.job_id(), number);
            if let Some(id) = head.federation_id.as_deref().filter(|_| head.is_own_federation_id) {
                push(&mut self.by_federation_id, id, number);
            }
        }
        let lane = entry.head.as_ref().filter(|_| entry.is_in_lane()).map(|head| head.lane.clone());
        self.count(number, &entry);
        self.unstored += usize::from(!entry.is_stored());
        self.entries.insert(number, entry);
        if let Some(lane) = lane {
            self.join(lane, number, now);
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        self.by_age.remove(&(entry.since_ms, number));
        self.aside.remove(&number);
        self.unstored = self.unstored.saturating_sub(usize::from(!entry.is_stored()));
        if let Some(head) = &entry.head {
            pull(&mut self.by_id, head.job_id(), number);
            if let Some(id) = &head.federation_id {
                pull(&mut self.by_federation_id, id, number);
            }
            self.leave(&head.lane, number);
        }
        Some(entry)
    }

    /// Puts a job among those that wait, or those that are set aside.
    fn count(&mut self, number: u64, entry: &Entry) {
        if entry.state.is_aside() {
            self.aside.insert(number);
        } else {
            self.by_age.insert((entry.since_ms, number));
        }
    }

    fn join(&mut self, lane: Lane, number: u64, now: Instant) {
        let waiting = self.lanes.entry(lane.clone()).or_default();
        let is_new = waiting.numbers.is_empty();
        waiting.numbers.insert(number);
        if is_new {
            waiting.due = Some(now);
            self.due.insert((now, lane));
        }
    }

    fn leave(&mut self, lane: &Lane, number: u64) {
        let Some(waiting) = self.lanes.get_mut(lane) else { return };
        waiting.numbers.remove(&number);
        if waiting.numbers.is_empty() {
            if let Some(due) = waiting.due {
                self.due.remove(&(due, lane.clone()));
            }
            self.lanes.remove(lane);
        }
    }

    /// The caller of a job that is being written has given up: its lane goes on without it.
    pub(super) fn give_up(&mut self, number: u64) {
        self.step_out(number, Phase::Late);
    }

    /// The first commit of a job has failed: its lane goes on without it, and its names stay.
    pub(super) fn doubt(&mut self, number: u64) {
        self.step_out(number, Phase::Doubtful);
    }

    fn step_out(&mut self, number: u64, phase: Phase) {
        let is_new = |entry: &&mut Entry| matches!(entry.phase, Phase::Storing | Phase::Late);
        let Some(entry) = self.entries.get_mut(&number).filter(is_new) else { return };
        entry.phase = phase;
        if let Some(lane) = entry.head.as_ref().map(|head| head.lane.clone()) {
            self.leave(&lane, number);
        }
    }

    /// A new job is in the file.
    pub(super) fn stored(&mut self, number: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        self.unstored = self.unstored.saturating_sub(usize::from(!entry.is_stored()));
        let was_out = std::mem::replace(&mut entry.phase, Phase::Resting) != Phase::Storing;
        if let Some(lane) = entry.head.as_ref().filter(|_| was_out).map(|head| head.lane.clone()) {
            self.join(lane, number, now);
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn get(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.entries.iter().map(|(number, entry)| (*number, entry))
    }

    /// The jobs in the file that are set aside, in their order.
    pub(super) fn aside(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.aside.iter().filter_map(|number| Some((*number, self.entries.get(number)?)))
    }

    /// The number of jobs in the file that wait.
    pub(super) fn waiting(&self) -> u64 {
        (self.by_age.len().saturating_sub(self.unstored)) as u64
    }

    /// The age of the oldest job in the file that waits.
    pub(super) fn oldest(&self, now: Instant) -> Duration {
        let waiting = self.by_age.iter().filter_map(|(_, number)| self.entries.get(number));
        waiting.filter(|entry| entry.is_stored()).map(|entry| entry.age(now)).next().unwrap_or_default()
    }

    /// The jobs of all tenants with this number or id.
    pub(super) fn named<'t>(&'t self, name: &str) -> impl Iterator<Item = (u64, &'t Entry)> + use<'t> {
        let number = name.parse::<u64>().ok();
        let of_id = self.by_id.get(name).into_iter().flatten().copied().filter(move |it| Some(*it) != number);
        number.into_iter().chain(of_id).filter_map(|number| Some((number, self.entries.get(&number)?)))
    }

    /// A tenant's job with this id.
    pub(super) fn of_id<'t>(&'t self, id: &str, tenant: &'t Digest) -> Option<(u64, &'t Entry)> {
        self.of(&self.by_id, id, tenant).next()
    }

    /// A tenant's job that came with this tracking id and this body.
    pub(super) fn of_federation_id<'t>(
        &'t self,
        id: &str,
        tenant: &'t Digest,
        body: &Digest,
    ) -> Option<(u64, &'t Entry)> {
        let is_same = |entry: &Entry| entry.head.as_ref().is_some_and(|head| head.identity.body == *body);
        self.of(&self.by_federation_id, id, tenant).find(|(_, entry)| is_same(entry))
    }

    fn of<'t>(
        &'t self,
        names: &'t HashMap<String, SmallVec<[u64; 1]>, RandomState>,
        id: &str,
        tenant: &'t Digest,
    ) -> impl Iterator<Item = (u64, &'t Entry)> + use<'t> {
        let numbers = names.get(id).into_iter().flatten();
        let is_of_tenant = |entry: &&Entry| entry.head.as_ref().is_some_and(|head| head.identity.tenant == *tenant);
        numbers.filter_map(move |number| Some((*number, self.entries.get(number).filter(is_of_tenant)?)))
    }

    /// Whether jobs of the lane wait.
    pub(super) fn is_waiting(&self, lane: &Lane) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Whether no job waits at all.
    pub(super) fn is_quiet(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first job of the lane that is due the longest, for the drain; it keeps its lane until [`Table::end_turn`].
    pub(super) fn take(&mut self, now: Instant) -> Option<u64> {
        let is_free = |entry: &Entry| entry.phase == Phase::Resting;
        let (due, lane) = self.due.iter().take_while(|(due, _)| *due <= now).find(|(_, lane)| {
            let first = self.lanes.get(lane).and_then(|waiting| waiting.numbers.first());
            first.and_then(|number| self.entries.get(number)).is_some_and(is_free)
        })?;
        let (due, lane) = (*due, lane.clone());
        self.due.remove(&(due, lane.clone()));
        let waiting = self.lanes.get_mut(&lane)?;
        waiting.due = None;
        let number = *waiting.numbers.first()?;
        self.entries.get_mut(&number)?.phase = Phase::Taken;
        Some(number)
    }

    /// When the next lane is due of those that are not due yet. The first job of a lane that is due is taken, or is about to change.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        self.due.iter().map(|(due, _)| *due).find(|due| *due > now)
    }

    /// The lane of the last taken job goes on: at once, or after a pause where no region took the job.
    pub(super) fn end_turn(&mut self, lane: &Lane, now: Instant, is_over: bool) {
        let Some(waiting) = self.lanes.get_mut(lane).filter(|waiting| waiting.due.is_none()) else { return };
        let pause = PAUSE.saturating_mul(1 << waiting.failures.min(16)).min(PAUSE_MAX);
        waiting.failures = if is_over { 0 } else { waiting.failures.saturating_add(1) };
        let due = if is_over { now } else { now + pause };
        waiting.due = Some(due);
        self.due.insert((due, lane.clone()));
    }

    /// Sets a job aside: its lane no longer waits for it.
    pub(super) fn set_aside(&mut self, number: u64, state: RowState, reason: String) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        (entry.state, entry.reason, entry.phase) = (state, Some(reason), Phase::Resting);
        self.by_age.remove(&(entry.since_ms, number));
        self.aside.insert(number);
        if let Some(lane) = entry.head.as_ref().map(|head| head.lane.clone()) {
            self.leave(&lane, number);
        }
    }

    /// A job that was set aside waits again, before those that were spooled after it.
    pub(super) fn retry(&mut self, number: u64, since_ms: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        (entry.state, entry.reason, entry.phase, entry.failures) =
            (RowState::Waiting, None, Phase::Resting, Failures::default());
        (entry.since_ms, entry.age_at) = (since_ms, (Duration::ZERO, now));
        self.aside.remove(&number);
        self.by_age.insert((since_ms, number));
        if let Some(lane) = entry.head.as_ref().map(|head| head.lane.clone()) {
            self.join(lane, number, now);
        }
    }

    /// Takes the content of a file that was opened again: in all that a commit of unknown end may have changed, the file is right. Rows that
    /// the drain or a caller has are theirs; those that are written next are not in the file yet.
    pub(super) fn reconcile(&mut self, rows: Vec<Row>, entry_of: impl Fn(Row) -> Entry, now: Instant) {
        let known: BTreeSet<u64> = rows.iter().map(|row| row.number).collect();
        let may_be_gone = |entry: &Entry| matches!(entry.phase, Phase::Resting | Phase::Changing | Phase::Doubtful);
        let gone = self.entries.iter().filter(|(number, entry)| may_be_gone(entry) && !known.contains(number));
        let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        for number in gone {
            self.remove(number);
        }
        for row in rows {
            match self.entries.get(&row.number) {
                None => self.insert(row.number, entry_of(row), now),
                Some(entry) if entry.phase == Phase::Doubtful => self.stored(row.number, now),
                Some(entry) if entry.phase == Phase::Resting => self.follow(&row, now),
                Some(_) => {}
            }
        }
    }

    /// An order of unknown end is in the file or not. Damage that could not be written there stays.
    fn follow(&mut self, row: &Row, now: Instant) {
        let Some(entry) = self.entries.get(&row.number) else { return };
        match (entry.state.is_aside(), row.state.is_aside()) {
            (true, false) if entry.state != RowState::Damaged => self.retry(row.number, row.since_ms, now),
            (false, true) => {
                self.set_aside(row.number, row.state, row.reason.clone().unwrap_or_default());
            }
            _ => {}
        }
    }
}

fn push(names: &mut HashMap<String, SmallVec<[u64; 1]>, RandomState>, id: &str, number: u64) {
    names.entry(id.to_owned()).or_default().push(number);
}

fn pull(names: &mut HashMap<String, SmallVec<[u64; 1]>, RandomState>, id: &str, number: u64) {
    let Some(numbers) = names.get_mut(id) else { return };
    numbers.retain(|it| *it != number);
    if numbers.is_empty() {
        names.remove(id);
    }
}
