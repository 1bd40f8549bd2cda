//! The background of a history.

use super::super::world;
use super::history::{History, Run};
use super::*;
use crate::outcome::background::{Action, next};

/// Between two rounds.
const TICK_MS: u64 = 1_000;

impl History {
    /// Rounds until a moment, or until nothing is left to be done.
    pub(super) fn background(&mut self, until: u64) -> Run {
        while self.world.now < until {
            match self.round()? {
                Some(at) => self.world.pass_to(at.0.max(self.world.now + TICK_MS).min(until)),
                None => break,
            }
        }
        self.world.pass_to(until);
        Ok(())
    }

    /// One round: when to look again.
    fn round(&mut self) -> Run<Option<Moment>> {
        let began = self.now();
        // What a call has heard in the same millisecond is as fresh.
        let is_fresh = |copy: &Copy| copy.live().is_some() && copy.asked.heard == Some(began);
        let copies = self.placement.copies.iter().enumerate();
        let mut seen: Vec<usize> = copies.filter(|(_, copy)| is_fresh(copy)).map(|(at, _)| at).collect();
        loop {
            let round = if self.has(Plant::CancelsUnseen) { Moment(0) } else { began };
            let action = next(&self.placement, self.now(), round, |place| self.guards(place));
            match action {
                Action::Ask(copy) => {
                    let word = self.ask(copy, false);
                    self.hear(copy, word, false);
                    let is_live = self.placement.copies[copy].live().is_some();
                    seen.extend((is_live && word != Word::Silent).then_some(copy));
                }
                Action::Fence(copy) => drop(self.fence(copy)),
                Action::Bury(copy) => match self.request(copy, None) {
                    Ok(_) => self.apply(Event::Buried(copy)),
                    Err(_) => self.hear(copy, Word::Silent, false),
                },
                Action::Cancel(copy) => {
                    let is_called_off =
                        self.placement.copies.iter().any(|it| it.fate == Fate::Cancelled { by_us: false });
                    self.cancelled_unseen |= !is_called_off && !seen.iter().any(|other| *other != copy);
                    self.cancel(copy)?;
                    if self.has(Plant::CancelsBoth) {
                        for other in (0..self.placement.copies.len()).filter(|other| *other != copy) {
                            self.cancel(other)?;
                        }
                    }
                }
                Action::Settle(how) => {
                    self.apply(Event::Settled(how));
                    self.persist()?;
                    return Ok(None);
                }
                Action::Wait(at) => return Ok(Some(at)),
                Action::Rest => return Ok(None),
            }
        }
    }

    fn cancel(&mut self, copy: usize) -> Run {
        self.apply(Event::Cancelling(copy));
        self.persist()?;
        let (region, id, stamp) = self.where_is(copy);
        let word = match self.request(copy, None) {
            Ok(_) if self.setting.private => Word::No,
            Ok(_) => world::word(self.world.look(region, &id), stamp),
            Err(_) => Word::Silent,
        };
        self.hear(copy, word, false);
        Ok(())
    }
}
