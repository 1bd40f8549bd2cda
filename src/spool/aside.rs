//! The spool in the hands of clients and operators: cancellations, lists, orders.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::row::RowState;
use super::table::{Entry, Phase};
use super::work::{Work, Written};
use super::{Head, Known, Spool};

/// The figures of the spool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs that wait for a region, those on their way included.
    pub waiting: u64,
    /// Jobs that are set aside, by state.
    pub refused: u64,
    /// See [`RowState::Expired`].
    pub expired: u64,
    /// See [`RowState::Damaged`].
    pub damaged: u64,
    /// The used part of `spool.max_bytes`.
    pub bytes: u64,
    /// The age of the oldest job that waits; zero without one.
    pub oldest: Duration,
}

/// One job as lists show it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its number.
    pub number: u64,
    /// Its id; none where it cannot be read.
    pub job_id: Option<String>,
    /// Its tracking id.
    pub federation_id: Option<String>,
    /// Its state.
    pub state: RowState,
    /// Why it is set aside: a closed word.
    pub reason: Option<String>,
    /// From when its age counts. Units: milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// The regions that it was sent to, without a word about its fate there.
    pub regions: Vec<String>,
}

/// The end of an order about one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordered {
    /// It is carried out, and on disk.
    Done,
    /// No job has this name, or none in a state for which there is such an order.
    NotFound,
    /// Several jobs have this name.
    Ambiguous,
    /// It was sent, or may be on its way.
    Sent,
    /// Its row cannot be read, and perhaps neither where it was sent: it can only be deleted.
    Damaged,
    /// Another order about it is under way.
    Busy,
    /// Nothing was done: the file cannot be used.
    NotTried,
    /// It may be carried out or not.
    Unknown,
}

impl Spool {
    /// The figures.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let now = self.inner.clock.now();
        let table = self.inner.table.lock();
        let (bytes, waiting, oldest) = (table.bytes(), table.waiting(), table.oldest(now));
        let mut counts = Counts { bytes, waiting, oldest, ..Counts::default() };
        for (_, entry) in table.aside() {
            match entry.state {
                RowState::Waiting | RowState::Sending => {}
                RowState::Refused => counts.refused += 1,
                RowState::Expired => counts.expired += 1,
                RowState::Damaged => counts.damaged += 1,
            }
        }
        counts
    }

    /// The jobs that are set aside, the oldest first, at most so many.
    #[must_use]
    pub fn list_aside(&self, max: usize) -> Vec<Listed> {
        let table = self.inner.table.lock();
        table.aside().take(max).map(|(number, entry)| listed(number, entry)).collect()
    }

    /// The jobs that `wanted` chooses by their names, the oldest first, at most so many. Those whose names cannot be read have none.
    #[must_use]
    pub fn list(&self, max: usize, mut wanted: impl FnMut(Option<&Head>) -> bool) -> Vec<Listed> {
        let table = self.inner.table.lock();
        let chosen = table.iter().filter(|(_, entry)| entry.is_stored() && wanted(entry.head.as_ref()));
        chosen.take(max).map(|(number, entry)| listed(number, entry)).collect()
    }

    /// Removes a job for its client, once the try that is under way is over. A job that was sent, or may have been, stays.
    pub async fn cancel(&self, job: &Known) -> Ordered {
        match timeout(self.store_wait, self.begin_cancel(job.number)).await {
            Ok(Ok(())) => self.change(job.number, |done| Work::Remove(job.number, done)).await,
            Ok(Err(ended)) => ended,
            Err(_) => Ordered::Busy,
        }
    }

    async fn begin_cancel(&self, number: u64) -> Result<(), Ordered> {
        let takes = |entry: &Entry| match entry.phase {
            Phase::Resting if !entry.copies.is_empty() || entry.state == RowState::Damaged => Err(Ordered::Sent),
            _ => Ok(()),
        };
        self.begin_after_turn(number, takes).await
    }

    async fn begin_after_turn(
        &self,
        number: u64,
        takes: impl Fn(&Entry) -> Result<(), Ordered>,
    ) -> Result<(), Ordered> {
        loop {
            let mut turned = pin!(self.inner.turned.notified());
            turned.as_mut().enable();
            match self.begin_change(number, &takes) {
                Err(Ordered::Busy) => turned.await,
                ended => return ended,
            }
        }
    }

    /// Lets a job that is set aside wait again: its number, or its id.
    pub async fn retry(&self, name: &str) -> Ordered {
        let takes = |entry: &Entry| if entry.state == RowState::Damaged { Err(Ordered::Damaged) } else { Ok(()) };
        match self.named(name, true).and_then(|number| self.begin_change(number, takes).map(|()| number)) {
            Ok(number) => self.change(number, |done| Work::Retry(number, done)).await,
            Err(ended) => ended,
        }
    }

    /// Deletes a job that is set aside: its number, or its id.
    pub async fn discard(&self, name: &str) -> Ordered {
        match self.named(name, true).and_then(|number| self.begin_change(number, |_| Ok(())).map(|()| number)) {
            Ok(number) => self.change(number, |done| Work::Remove(number, done)).await,
            Err(ended) => ended,
        }
    }

    /// Sets a job that waits aside, once the try that is under way is over: its number, or its id. The record of its sends stays.
    pub async fn aside(&self, name: &str) -> Ordered {
        let number = match self.named(name, false) {
            Ok(number) => number,
            Err(ended) => return ended,
        };
        match timeout(self.store_wait, self.begin_after_turn(number, |_| Ok(()))).await {
            Ok(Ok(())) => {
                let reason = "operator".to_owned();
                self.change(number, |done| Work::Aside(number, RowState::Refused, reason, done)).await
            }
            Ok(Err(ended)) => ended,
            Err(_) => Ordered::Busy,
        }
    }

    /// The row of this number or id, among those that are set aside, or among those that wait.
    fn named(&self, name: &str, is_aside: bool) -> Result<u64, Ordered> {
        let numbers: Vec<u64> = {
            let table = self.inner.table.lock();
            let is_one = |entry: &Entry| entry.is_stored() && entry.state.is_aside() == is_aside;
            table.named(name).filter(|(_, entry)| is_one(entry)).map(|(number, _)| number).take(2).collect()
        };
        match numbers.as_slice() {
            [] => Err(Ordered::NotFound),
            [number] => Ok(*number),
            _ => Err(Ordered::Ambiguous),
        }
    }

    fn begin_change(&self, number: u64, takes: impl FnOnce(&Entry) -> Result<(), Ordered>) -> Result<(), Ordered> {
        let mut table = self.inner.table.lock();
        let entry = table.get_mut(number).filter(|entry| entry.is_stored()).ok_or(Ordered::NotFound)?;
        takes(entry)?;
        if entry.phase != Phase::Resting {
            return Err(Ordered::Busy);
        }
        entry.phase = Phase::Changing;
        Ok(())
    }

    async fn change(&self, number: u64, work: impl FnOnce(oneshot::Sender<Written>) -> Work) -> Ordered {
        let (done, written) = oneshot::channel();
        if !self.send(work(done)) {
            if let Some(entry) = self.inner.table.lock().get_mut(number) {
                entry.phase = Phase::Resting;
            }
            return Ordered::NotTried;
        }
        match timeout(self.store_wait, written).await {
            Ok(Ok(Written::Durable)) => Ordered::Done,
            Ok(Ok(Written::NotTried)) => Ordered::NotTried,
            Ok(Ok(Written::Unknown) | Err(_)) | Err(_) => Ordered::Unknown,
        }
    }
}

fn listed(number: u64, entry: &Entry) -> Listed {
    Listed {
        number,
        job_id: entry.head.as_ref().map(|head| head.job_id().to_owned()),
        federation_id: entry.head.as_ref().and_then(|head| head.federation_id.clone()),
        state: entry.shown(),
        reason: entry.reason.clone(),
        since_ms: entry.since_ms,
        regions: entry.copies.iter().map(|copy| copy.place.region.as_str().to_owned()).collect(),
    }
}
