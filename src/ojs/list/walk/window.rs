//! A part of the whole by its offset: `offset`, or `page` and `per_page`.
//!
//! The regions' totals decide which of them the window touches. One round reads the totals and the parts that are
//! needed in any case, a second one the rest.

use super::super::cursor::{Cursor, Leg, Place};
use super::super::page::Told;
use super::step::{Ask, Outcome, Pick, total_of};
use crate::base::RegionId;

/// No known server gives smaller pages than this when asked for more. Spec: ojs-protocol 6.
const SURE_LIMIT: u64 = 100;

#[derive(Debug)]
pub(super) struct Window {
    offset: u64,
    limit: u64,
    /// The client's page, where regions are asked by page.
    page: Option<u64>,
    legs: Vec<WindowLeg>,
    round: Round,
    /// The smallest page that a region gives instead of the one asked for.
    clamp: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    First,
    /// Regions give smaller pages: all begins anew with those, once.
    Again,
    Rest,
    Over,
}

#[derive(Debug)]
struct WindowLeg {
    region: RegionId,
    total: Option<u64>,
    missing: bool,
    /// Whether it answers with all that it has.
    whole: bool,
    got: Vec<Got>,
}

/// Items `from .. from + items` of a region.
#[derive(Debug)]
struct Got {
    answer: usize,
    from: u64,
    items: u64,
}

impl Window {
    pub(super) fn by_offset(regions: &[RegionId], offset: u64, limit: u64) -> Self {
        Self { offset, limit, page: None, legs: legs(regions), round: Round::First, clamp: None }
    }

    pub(super) fn by_page(regions: &[RegionId], page: u64, limit: u64) -> Self {
        let offset = page.saturating_sub(1).saturating_mul(limit);
        let window = Self::by_offset(regions, offset, limit);
        Self { page: Some(page), ..window }
    }

    pub(super) fn asks(&mut self) -> Vec<Ask> {
        match (self.round, self.clamp) {
            (Round::First, _) => {
                self.round = Round::Again;
                self.first()
            }
            (Round::Again, Some(clamp)) => {
                self.round = Round::Rest;
                self.limit = clamp;
                self.offset = self.page.map_or(self.offset, |page| page.saturating_sub(1).saturating_mul(clamp));
                for leg in &mut self.legs {
                    (leg.total, leg.got) = (None, Vec::new());
                }
                self.first()
            }
            (Round::Again | Round::Rest, _) => {
                self.round = Round::Over;
                if self.legs.iter().all(|leg| leg.missing || leg.whole) {
                    // Lists that are not paged come whole, as from one server, and no further page is behind them.
                    self.limit = if self.page.is_none() || self.offset == 0 { u64::MAX } else { 0 };
                }
                self.rest()
            }
            (Round::Over, _) => Vec::new(),
        }
    }

    /// The first region's part, which does not depend on the other regions, and every region's total.
    fn first(&self) -> Vec<Ask> {
        // A region's smaller pages must show wherever the window lies: pages are counted by them.
        let probe = if self.page.is_some() && self.limit > SURE_LIMIT { self.limit } else { 1 };
        let ask = |(leg, it): (usize, &WindowLeg)| {
            let whole = leg == 0 || self.offset == 0;
            let (offset, limit) = if whole { (self.offset, self.limit) } else { (0, probe) };
            let place = if offset == 0 { Place::Start } else { Place::Offset(offset) };
            (!it.missing).then_some(Ask { leg, place, limit })
        };
        self.legs.iter().enumerate().filter_map(ask).collect()
    }

    fn rest(&self) -> Vec<Ask> {
        let mut asks = Vec::new();
        for (leg, from, to) in self.parts() {
            let got = |at: u64| self.legs.get(leg).is_some_and(|leg| leg.covering(at).is_some());
            if self.page.is_none() {
                // A first answer ends behind the window, or not at all before the region's own end.
                if !got(from) || !got(to - 1) {
                    asks.push(Ask { leg, place: Place::Offset(from), limit: to - from });
                }
                continue;
            }
            // A window that is no page of the region lies in two of them.
            let pages = [from / self.limit, (to - 1) / self.limit];
            let asked = if pages[0] == pages[1] { &pages[..1] } else { &pages[..] };
            for page in asked {
                let begin = page * self.limit;
                if !got(begin.max(from)) || !got(to.min(begin.saturating_add(self.limit)) - 1) {
                    asks.push(Ask { leg, place: Place::Offset(begin), limit: self.limit });
                }
            }
        }
        asks
    }

    /// The window's part of each region that has one: from and to, in the region's own list.
    fn parts(&self) -> Vec<(usize, u64, u64)> {
        let end = self.offset.saturating_add(self.limit);
        let mut base = 0_u64;
        let mut parts = Vec::new();
        for (leg, it) in self.legs.iter().enumerate().filter(|(_, leg)| !leg.missing) {
            let behind = base.saturating_add(it.total.unwrap_or(0));
            let (from, to) = (self.offset.max(base), end.min(behind));
            if from < to {
                parts.push((leg, from - base, to - base));
            }
            base = behind;
        }
        parts
    }

    pub(super) fn heard(&mut self, ask: &Ask, told: Option<(&Told, usize)>) {
        let Some(leg) = self.legs.get_mut(ask.leg) else { return };
        let offset = if let Place::Offset(offset) = ask.place { offset } else { 0 };
        let Some((told, answer)) = told else {
            leg.missing = true;
            return;
        };
        let total = total_of(told, ask);
        // Without a total the beginning of the next region's items is unknown.
        let Some(total) = total.or(leg.total) else {
            leg.missing = true;
            return;
        };
        leg.total = Some(leg.total.map_or(total, |known| known.max(total)));
        leg.whole = !told.paged;
        let from = if told.paged { offset } else { 0 };
        leg.got.push(Got { answer, from, items: told.items as u64 });
        if let Some(limit) = told.limit.filter(|limit| (1..ask.limit.min(total)).contains(limit)) {
            self.clamp = Some(self.clamp.map_or(limit, |clamp| clamp.min(limit)));
        }
    }

    pub(super) fn finish(self) -> Outcome {
        let mut picks = Vec::new();
        let mut taken = 0;
        let mut cursor = Cursor::default();
        let mut ends: Vec<u64> = self.legs.iter().map(|_| 0).collect();
        'parts: for (leg, from, to) in self.parts() {
            let mut at = from;
            while at < to {
                let Some(it) = self.legs.get(leg) else { break 'parts };
                // A region that gave fewer items ends the page: behind a gap no item would be in its place.
                let Some(got) = it.covering(at) else { break 'parts };
                let until = to.min(got.from.saturating_add(got.items));
                picks.push(pick(got, at, until));
                taken += until - at;
                at = until;
                ends[leg] = until;
            }
        }
        let totals = self.legs.iter().filter(|leg| !leg.missing).filter_map(|leg| leg.total);
        let total = totals.fold(0, u64::saturating_add);
        let mut base = 0_u64;
        for (leg, end) in self.legs.iter().zip(ends) {
            if leg.missing {
                continue;
            }
            let size = leg.total.unwrap_or(0);
            let place = match () {
                () if base.saturating_add(size) <= self.offset || (end == size && end > 0) => Place::End,
                () if end > 0 => Place::Offset(end),
                () => Place::Start,
            };
            cursor.set(leg.region.clone(), Leg { place, total: leg.total, by_replica: false });
            base = base.saturating_add(size);
        }
        let has_more = taken > 0 && self.offset.saturating_add(taken) < total;
        let limit = (self.limit != u64::MAX).then_some(self.limit);
        Outcome { picks, limit, total: Some(total), has_more, cursor }
    }
}

impl WindowLeg {
    fn covering(&self, at: u64) -> Option<&Got> {
        self.got.iter().rev().find(|got| (got.from..got.from.saturating_add(got.items)).contains(&at))
    }
}

fn pick(got: &Got, from: u64, to: u64) -> Pick {
    let place = |at: u64| usize::try_from(at - got.from).unwrap_or(usize::MAX);
    Pick { answer: got.answer, from: place(from), to: place(to) }
}

fn legs(regions: &[RegionId]) -> Vec<WindowLeg> {
    let leg = |region: &RegionId| WindowLeg {
        region: region.clone(),
        total: None,
        missing: false,
        whole: false,
        got: Vec::new(),
    };
    regions.iter().map(leg).collect()
}
