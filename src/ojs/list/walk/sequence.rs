//! A part of the whole from where an earlier answer ended, or from its beginning.
//!
//! Each region has its own place, so that nothing is lost when one was away for a while. Regions are asked for exactly
//! the missing items, because a region's cursor stands behind a whole page of its own.

use super::super::cursor::{Cursor, Leg, Place};
use super::super::page::Told;
use super::step::{Ask, Outcome, Pick, total_of};
use crate::base::RegionId;

/// How often one region is asked for one page: at first, for exactly the missing items, and for the items that it gave
/// short.
const ASKS_MAX: u8 = 4;

#[derive(Debug)]
pub(super) struct Sequence {
    legs: Vec<SequenceLeg>,
    limit: u64,
    left: u64,
    log: bool,
    /// Without a cursor yet: every region is asked, because no total is known.
    first: bool,
    asked: bool,
    picks: Vec<Pick>,
}

#[derive(Debug)]
struct SequenceLeg {
    region: RegionId,
    place: Place,
    total: Option<u64>,
    missing: bool,
    /// Whether its last answer said that more items follow.
    more: bool,
    heard: bool,
    asks: u8,
    got: Option<Got>,
}

#[derive(Debug)]
struct Got {
    answer: usize,
    told: Told,
}

impl Sequence {
    pub(super) fn new(regions: &[RegionId], cursor: Option<Cursor>, limit: u64, log: bool) -> Self {
        let first = cursor.is_none();
        let cursor = cursor.unwrap_or_default();
        let leg = |region: &RegionId| {
            let Leg { place, total, .. } = cursor.leg(region);
            let (missing, more, heard) = (false, false, false);
            SequenceLeg { region: region.clone(), place, total, missing, more, heard, asks: 0, got: None }
        };
        let legs = regions.iter().map(leg).collect();
        Self { legs, limit, left: limit, log, first, asked: false, picks: Vec::new() }
    }

    pub(super) fn asks(&mut self) -> Vec<Ask> {
        self.settle();
        if self.left == 0 {
            return Vec::new();
        }
        let open = self.legs.iter().filter(|leg| leg.is_open()).count() as u64;
        let begins = !std::mem::replace(&mut self.asked, true);
        // Every region at once: where no total is known yet, and where all can have a share of a log's page.
        let share = match (begins, self.log) {
            (true, true) if self.limit >= open => Some(self.limit / open.max(1)),
            (true, false) if self.first => Some(self.limit),
            _ => None,
        };
        let log = self.log;
        let mut left = self.left;
        let mut asks = Vec::new();
        for (leg, it) in self.legs.iter_mut().enumerate().filter(|(_, leg)| leg.is_open()) {
            if left == 0 || it.asks == ASKS_MAX || (log && it.heard) {
                if log {
                    continue;
                }
                break;
            }
            let expected = it.total.filter(|_| it.place == Place::Start);
            let limit = share.unwrap_or_else(|| expected.map_or(left, |total| total.min(left)));
            it.asks += 1;
            asks.push(Ask { leg, place: it.place.clone(), limit });
            match (share, expected) {
                (Some(_), _) => {}
                (None, Some(_)) => left -= limit,
                // This region's part of the page is unknown.
                (None, None) => break,
            }
        }
        asks
    }

    pub(super) fn heard(&mut self, ask: &Ask, told: Option<(&Told, usize)>) {
        let Some(leg) = self.legs.get_mut(ask.leg) else { return };
        let Some((told, answer)) = told else {
            leg.missing = true;
            return;
        };
        leg.heard = true;
        leg.total = total_of(told, ask).or(leg.total);
        if let Some(limit) = told.limit.filter(|limit| (1..ask.limit).contains(limit))
            && !self.log
            && told.items as u64 >= limit
        {
            // The region gives smaller pages than were asked for; so does the whole.
            let taken = self.limit - self.left;
            self.limit = self.limit.min(limit.max(taken));
            self.left = self.limit - taken;
        }
        leg.got = Some(Got { answer, told: told.clone() });
    }

    /// Takes the arrived answers, in the order of the regions, up to the first gap.
    fn settle(&mut self) {
        let heard_whole = |leg: &SequenceLeg| leg.got.as_ref().is_some_and(|got| !got.told.paged);
        let all_whole = self.legs.iter().all(|leg| leg.missing || heard_whole(leg));
        if self.first && self.picks.is_empty() && all_whole {
            // Lists that are not paged come whole, as from one server.
            (self.limit, self.left) = (u64::MAX, u64::MAX);
        }
        for leg in self.legs.iter_mut().filter(|leg| leg.is_open()) {
            if self.left == 0 {
                return;
            }
            let Some(got) = leg.got.take() else {
                // In a log, an unasked region has its turn later; in other lists its items come before the rest.
                if self.log {
                    continue;
                }
                return;
            };
            let skip = if let (false, Place::Offset(offset)) = (got.told.paged, &leg.place) { *offset } else { 0 };
            let items = (got.told.items as u64).saturating_sub(skip);
            let by_cursor = got.told.paged && !got.told.by_offset;
            if items > self.left && by_cursor && leg.asks < ASKS_MAX && !self.log {
                // Its cursor would pass over the items that do not fit: it is asked again for those that do.
                leg.asks = ASKS_MAX - 1;
                return;
            }
            // Items that cannot be counted are taken whole: a page too long loses nothing.
            let taken = if self.log || leg.offset().is_none() { items } else { items.min(self.left) };
            let from = usize::try_from(skip).unwrap_or(usize::MAX).min(got.told.items);
            let to = from + usize::try_from(taken).unwrap_or(0);
            self.picks.push(Pick { answer: got.answer, from, to });
            self.left = self.left.saturating_sub(taken);
            leg.advance(&got.told, taken, items, self.log);
            if leg.is_open() && !self.log {
                return;
            }
        }
    }

    pub(super) fn finish(mut self) -> Outcome {
        self.settle();
        let mut cursor = Cursor::default();
        let mut has_more = false;
        let mut total = None;
        let log = self.log;
        for leg in self.legs {
            if !leg.missing {
                let unread = leg.place != Place::End && !(leg.place == Place::Start && leg.total == Some(0));
                has_more |= if log { leg.more || !leg.heard } else { unread };
                total = leg.total.map_or(total, |own| Some(own.saturating_add(total.unwrap_or(0))));
            }
            let total = leg.total.filter(|_| !log);
            cursor.set(leg.region, Leg { place: leg.place, total, by_replica: false });
        }
        let limit = (self.limit != u64::MAX).then_some(self.limit);
        Outcome { picks: self.picks, limit, total, has_more, cursor }
    }
}

impl SequenceLeg {
    /// Whether something of it may belong to this page or to a later one.
    fn is_open(&self) -> bool {
        let is_empty = self.place == Place::Start && self.total == Some(0) && self.got.is_none();
        !self.missing && self.place != Place::End && !is_empty
    }

    /// How many of its items were read, where that is known.
    const fn offset(&self) -> Option<u64> {
        match &self.place {
            Place::Start => Some(0),
            Place::Offset(offset) => Some(*offset),
            Place::Cursor(_) | Place::End => None,
        }
    }

    /// Moves on behind `taken` of `items`.
    fn advance(&mut self, told: &Told, taken: u64, items: u64, log: bool) {
        self.more = told.has_more == Some(true);
        if log {
            // A log has no end: where there is nothing new, one asks again from the same place.
            if let Some(next) = &told.next {
                self.place = Place::Cursor(next.clone());
            }
            return;
        }
        let behind = self.offset().map(|offset| offset.saturating_add(taken));
        let all_read = behind.is_some_and(|behind| self.total.is_some_and(|total| behind >= total));
        let more = match told.has_more {
            _ if !told.paged => taken < items,
            Some(more) => more || taken < items,
            None => told.next.is_some() || (told.by_offset && !all_read),
        };
        self.place = match (&told.next, behind) {
            // A region that says that more follow and gives none would be asked for ever.
            _ if !more || taken == 0 => Place::End,
            (Some(next), _) if taken == items => Place::Cursor(next.clone()),
            (_, Some(behind)) => Place::Offset(behind),
            (_, None) => Place::End,
        };
    }
}
