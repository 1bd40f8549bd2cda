//! The order to cancel a copy in this hub's region, and the notes of it.
//!
//! A row of the record says `cancelling` before the order leaves, so that a hub which was killed, or another one behind it, looks for the
//! copy before it orders anything again. The row goes on only behind the audit trail: a kill in between makes a second row there, and loses none.

use std::time::{Duration, Instant};

use super::super::audit::Entry;
use super::super::copies::note_ended;
use super::super::ledger;
use super::super::record::{ConflictStep, RecordError};
use super::super::target::Word;
use super::decide::{Why, Winner};
use super::resolve::{Own, Resolver, Tried, closed_regions};
use crate::base::RegionId;
use crate::replica::Life;

/// From the facts to the order. Beyond, all is asked again.
const ACT_WITHIN: Duration = Duration::from_secs(5);
/// Jobs that one row of the audit trail names.
const NAMED_MAX: usize = 5;
/// The caller in the audit trail.
const CALLER: &str = "conflicts";

impl Resolver<'_> {
    /// Cancels a copy. `began`: when the facts were read.
    pub(super) async fn cancel(&self, own: Own<'_>, winner: Winner, began: Instant) -> Result<Tried, RecordError> {
        let Some(views) = &self.hub.views else { return Ok(Tried::Later) };
        let order = self.conflict(own, ConflictStep::Cancelling, Some(winner.clone()));
        if !self.hub.record.save_conflict(order, own.is_ordered).await? {
            return Ok(Tried::Later);
        }
        let own = Own { is_ordered: true, ..own };
        // A promotion or an isolation may have begun meanwhile.
        let closed = closed_regions(self.hub).await?;
        let is_closed = |region: &RegionId| closed.contains(region);
        if is_closed(self.region()) || is_closed(&winner.region) || began.elapsed() > ACT_WITHIN {
            self.hub.record.drop_order(own.job_id, self.region().as_str()).await?;
            return Ok(Tried::Later);
        }
        match self.hub.copies_in.cancel(views, self.region(), own.job_id).await {
            Word::Has { state, .. } if state == "cancelled" => {
                self.was_cancelled(own, Some(winner));
                Ok(Tried::Later)
            }
            // A worker may have been first.
            Word::Refused(_) => self.was_refused(own, winner).await,
            // The next look says whether the order has arrived.
            _ => Ok(Tried::Silent),
        }
    }

    /// Goes on behind an order that the region refuses: the copy stays.
    async fn was_refused(&self, own: Own<'_>, winner: Winner) -> Result<Tried, RecordError> {
        let Some(views) = &self.hub.views else { return Ok(Tried::Later) };
        match self.hub.copies_in.look(views, self.region(), own.job_id).await {
            Word::Has { state, is_started, .. } => match Life::of(&state, is_started) {
                Life::Started => self.finish(own, ConflictStep::Doubled, None, Some(winner)).await,
                Life::EndedUnrun => Ok(Tried::Later),
                Life::Waits | Life::Odd => {
                    self.finish(own, ConflictStep::Reported, Some(Why::Refused), Some(winner)).await
                }
            },
            Word::Absent => self.finish(own, ConflictStep::Gone, None, Some(winner)).await,
            Word::Refused(_) | Word::Other(_) => {
                self.finish(own, ConflictStep::Reported, Some(Why::Refused), Some(winner)).await
            }
            Word::NotSent(_) | Word::Silent(_) => Ok(Tried::Silent),
        }
    }

    /// Notes a copy for the end of the round; until then its row says `cancelling`.
    pub(super) fn was_cancelled(&self, own: Own<'_>, winner: Option<Winner>) {
        self.cancelled.borrow_mut().push(self.conflict(own, ConflictStep::Cancelled, winner));
    }

    /// Notes the copies that were cancelled in this round: in the index, in the audit trail, and then in their rows.
    ///
    /// Errors: all that is missing is noted when they are looked at again.
    pub(super) async fn note_cancelled(&self) -> Result<(), RecordError> {
        let copies = self.cancelled.take();
        if copies.is_empty() {
            return Ok(());
        }
        for it in &copies {
            note_ended(self.hub, self.region(), (&it.job_id, Some(&it.federation_id)), Some("cancelled")).await?;
            ledger::cancelled(self.hub, self.region(), &it.job_id).await?;
        }
        let named = copies.iter().take(NAMED_MAX).map(|it| it.job_id.as_str()).collect::<Vec<_>>().join(", ");
        let reason = format!("index.conflicts: {} copies were enqueued later elsewhere: {named}", copies.len());
        let entry = Entry {
            unix_ms: self.hub.clock.unix_ms(),
            caller: CALLER.to_owned(),
            action: "copies_cancelled",
            subject: self.region().as_str().to_owned(),
            lasts_ms: None,
            force: false,
            reason,
            ticket: String::new(),
            author: CALLER.to_owned(),
        };
        self.hub.change(|_, _| ((), vec![entry.clone()])).await?;
        for it in copies {
            if self.hub.record.save_conflict(it.clone(), true).await? {
                self.show(&it);
            }
        }
        Ok(())
    }
}
