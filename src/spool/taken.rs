//! A job that the drain has: no other task sends or changes it until this is dropped.

use std::sync::Arc;
use std::time::Duration;

use super::failures::Failures;
use super::head::Head;
use super::row::RowState;
use super::table::Phase;
use super::work::{Loaded, Work, Written};
use super::{Spool, inner};
use crate::outcome::{Absence, Copy, Fate};
use crate::replica::Content;
use crate::telemetry::SpoolResult;

/// A job that the drain has. Dropped, its lane goes on: at once where the job has left it, else after a pause.
#[derive(Debug)]
pub struct Taken {
    spool: Arc<Spool>,
    number: u64,
    head: Head,
    /// Where it was sent, as far as is known now; kept in memory when this is dropped.
    pub copies: Vec<Copy>,
    /// Tries that a region which is well has ended with an error.
    pub failures: Failures,
    /// The same as the file has it.
    recorded: Vec<Copy>,
}

/// Why a job's content is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unloaded {
    /// It is set aside, or was removed.
    ForGood,
    /// The file cannot be used now.
    NotNow,
}

impl Spool {
    /// Takes the first job of a lane that is due; `None` where there is none.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut table = self.inner.table.lock();
        let number = table.take(self.inner.clock.now())?;
        let entry = table.get(number)?;
        let (head, copies, failures) = (entry.head.clone()?, entry.copies.clone(), entry.failures);
        Some(Taken { spool: Arc::clone(self), number, head, recorded: copies.clone(), copies, failures })
    }

    /// Resolves when a lane may be due that was not when [`Spool::take`] was called last.
    pub async fn due(&self) {
        let now = self.inner.clock.now();
        let next = self.inner.table.lock().next_due(now);
        let at_next = async {
            match next {
                Some(next) => self.inner.clock.sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.inner.changed.notified() => {}
            () = at_next => {}
        }
    }
}

impl Taken {
    /// Its names.
    #[must_use]
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Whether it is too old to be sent.
    #[must_use]
    pub fn is_too_old(&self) -> bool {
        self.age() > self.spool.age_max
    }

    fn age(&self) -> Duration {
        let now = self.spool.inner.clock.now();
        self.spool.inner.table.lock().get(self.number).map_or(Duration::ZERO, |entry| entry.age(now))
    }

    /// Its content.
    ///
    /// Errors: it cannot be read, now or ever; a damaged one is set aside.
    pub async fn load(&self) -> Result<Content, Unloaded> {
        match self.spool.loaded(self.number).await {
            Loaded::Content(content) => Ok(content),
            Loaded::Damaged | Loaded::Gone => Err(Unloaded::ForGood),
            Loaded::NotNow => Err(Unloaded::NotNow),
        }
    }

    /// Records where the job was, or is about to be, sent; whether that is on disk. Nothing is sent without.
    pub async fn record(&mut self, copies: &[Copy]) -> bool {
        let (number, list) = (self.number, without_superseded(copies));
        (self.copies, self.recorded) = (list.clone(), list.clone());
        self.spool.written(|done| Work::Copies(number, list, done)).await == Written::Durable
    }

    /// Records where it was sent, unless the file has that. Without it the job is looked up once more.
    pub async fn record_changes(&mut self) {
        if self.copies != self.recorded {
            let copies = self.copies.clone();
            self.record(&copies).await;
        }
    }

    /// Removes the job: a region has it. Where the removal fails, the job is looked up again.
    pub async fn done(self) {
        let number = self.number;
        self.spool.inner.metrics.spool.results[SpoolResult::Drained].inc();
        self.spool.written(|done| Work::Remove(number, done)).await;
    }

    /// Sets the job aside. Where that fails, it is tried again with the job's next turn.
    pub async fn set_aside(self, state: RowState, reason: String) {
        let number = self.number;
        self.spool.written(|done| Work::Aside(number, state, reason, done)).await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let inner: &inner::Inner = &self.spool.inner;
        let now = inner.clock.now();
        let mut table = inner.table.lock();
        let mut is_over = true;
        if let Some(entry) = table.get_mut(self.number) {
            (entry.copies, entry.failures) = (std::mem::take(&mut self.copies), self.failures);
            if entry.phase == Phase::Taken {
                entry.phase = Phase::Resting;
                is_over = entry.state.is_aside();
            }
        }
        table.end_turn(&self.head.lane, now, is_over);
        inner.look(&table);
        drop(table);
        inner.turned.notify_waiters();
    }
}

/// Without copies that are absent for good and that a later one in the same place stands for, so that a row stays short over many tries.
fn without_superseded(copies: &[Copy]) -> Vec<Copy> {
    let is_final = |copy: &Copy| matches!(copy.fate, Fate::Absent { by: Absence::Final | Absence::Buried });
    let is_same = |copy: &Copy, later: &Copy| later.place == copy.place && later.stamp == copy.stamp;
    let all = copies.iter().enumerate();
    let kept = all.filter(|(at, it)| !(is_final(it) && copies.iter().skip(at + 1).any(|later| is_same(it, later))));
    kept.map(|(_, copy)| copy.clone()).collect()
}
