//! What may happen next in a state.

use super::super::world::{self, Entry, Kind, Stage};
use super::state::{Call, Cargo, Case, Ending, Flight, NOW, Plant, State};
use super::*;
use crate::outcome::background::{self, Action};
use crate::outcome::call::{self, Answered, Asking, Circumstances, Follow, Side, Step, follow};

pub(super) type Label = (&'static str, usize);

pub(super) struct Moves<'s> {
    case: Case,
    from: &'s State,
    found: Vec<(Label, State)>,
}

impl<'s> Moves<'s> {
    pub(super) fn of(case: Case, from: &'s State) -> Vec<(Label, State)> {
        let mut moves = Self { case, from, found: Vec::new() };
        moves.world();
        match from.call {
            Call::Idle if from.deleting.is_some() => moves.delete(from.deleting.unwrap()),
            Call::Idle => {
                moves.background();
                moves.begin();
            }
            Call::Sending => moves.sending(),
            Call::Asking { copy, last, repeats } => moves.asking(copy, last, repeats),
        }
        moves.found
    }

    fn add(&mut self, what: &'static str, which: usize, change: impl FnOnce(&mut State)) {
        let mut state = self.from.clone();
        change(&mut state);
        self.push((what, which), state, 0);
    }

    fn push(&mut self, label: Label, mut state: State, passed: u64) {
        if self.case.plant == Some(Plant::NoWatch) {
            for copy in &mut state.placement.copies {
                if matches!(copy.fate, Fate::Absent { by: Absence::Watched(_) }) {
                    copy.fate = FINAL;
                }
            }
        }
        self.found.push((label, state.canonical(passed, self.case)));
    }

    /// Whether the machine is told that the region of this copy guards ids.
    fn guards(case: Case, region: usize) -> bool {
        case.kinds[region] == Kind::Refuse && case.plant != Some(Plant::NoFence)
    }

    /// Workers, late arrivals, time, the client's cancellation, a crash.
    fn world(&mut self) {
        for (place, slot) in &self.from.slots {
            let Some(Entry::Job(stamp, stage)) = slot.now else { continue };
            if stage == Stage::Waiting {
                let stages = [("worker starts", Stage::Started), ("worker has done it", Stage::Ended)];
                for (what, after) in stages.into_iter().take(if self.case.ends { 2 } else { 1 }) {
                    self.add(what, place.0, |it| {
                        it.put(*place, Entry::Job(stamp, after));
                        it.runs += 1;
                        it.done |= after == Stage::Ended;
                    });
                }
            }
        }
        for (at, flight) in self.from.flights.iter().enumerate() {
            let case = self.case;
            self.add("arrives late", flight.region, |it| {
                let flight = it.flights.remove(at);
                it.arrive(case, &flight);
            });
        }
        let is_quiet = self.from.call == Call::Idle && self.from.deleting.is_none();
        if self.from.call != Call::Sending && self.from.deleting.is_none() {
            self.push(("seconds pass", 0), self.from.clone(), 3);
        }
        if is_quiet && self.from.flights.is_empty() && !self.case.is_timeless() {
            self.push(("the watch passes", 0), self.from.clone(), 901);
        }
        if self.from.crashes > 0 && !matches!(self.from.call, Call::Asking { .. }) {
            self.crash();
        }
        self.call_off();
    }

    /// What was being sent is on its way, or was never sent.
    fn crash(&mut self) {
        let sending = (self.from.call == Call::Sending).then(|| self.from.placement.copies.len() - 1);
        let cargo = sending.map(|copy| self.write_of(copy)).or_else(|| {
            let (region, id) = self.from.where_is(self.from.deleting?);
            Some(Flight { region, id, cargo: Cargo::Cancel })
        });
        let late = self.from.lates > 0;
        self.add("crashes", 0, State::crash);
        if let Some(flight) = cargo.filter(|_| late) {
            self.add("crashes with a request under way", flight.region, |it| {
                it.crash();
                it.lates -= 1;
                it.fly(flight);
            });
        }
    }

    fn call_off(&mut self) {
        let Told::Stored { place, .. } = &self.from.placement.told else { return };
        let copy = self.from.placement.copies.iter().position(|copy| copy.place == *place);
        let Some(place) = copy.map(|copy| self.from.where_is(copy)) else { return };
        let there = self.from.slot(place).now;
        if let Some(there) = there.filter(|it| self.from.cancels > 0 && world::cancelled(*it) != *it) {
            self.add("client cancels", place.0, |it| {
                it.put(place, world::cancelled(there));
                it.cancels -= 1;
                it.called_off = true;
            });
        }
    }

    /// A request goes to a region: what may become of it, and whether the region took it where it got there.
    fn request(&mut self, what: &'static str, flight: &Flight, then: impl Fn(&mut State, Ending, bool)) {
        let case = self.case;
        for ending in [Ending::Answered, Ending::AnswerLost, Ending::Late, Ending::Dropped] {
            if ending == Ending::Late && self.from.lates == 0 {
                continue;
            }
            let label = (what, flight.region * 10 + ending as usize);
            let mut state = self.from.clone();
            let mut taken = false;
            match ending {
                Ending::Answered | Ending::AnswerLost => taken = state.arrive(case, flight),
                Ending::Late => {
                    state.lates -= 1;
                    state.fly(flight.clone());
                }
                Ending::Dropped => {}
            }
            then(&mut state, ending, taken);
            self.push(label, state, 0);
        }
    }

    fn write_of(&self, copy: usize) -> Flight {
        let (region, id) = self.from.where_is(copy);
        Flight { region, id, cargo: Cargo::Write(Entry::Job(self.from.stamp(copy), Stage::Waiting)) }
    }

    fn begin(&mut self) {
        // One that was told that it is stored is told so again.
        if self.from.calls == 0 || self.from.told_stored {
            return;
        }
        let case = self.case;
        self.add("call", 0, |it| {
            (it.calls, it.round) = (it.calls - 1, false);
            it.first = it.placement.copies.len();
            next_of_repetition(it, case, 0);
        });
    }

    fn sending(&mut self) {
        let copy = self.from.placement.copies.len() - 1;
        let (case, flight) = (self.case, self.write_of(copy));
        self.request("send", &flight, |it, ending, taken| {
            let last = match ending {
                Ending::Answered if taken => {
                    it.apply(Event::Stored(copy));
                    return stored(it);
                }
                Ending::Answered => Some(Answered::Taken),
                _ => None,
            };
            let lost = if ending == Ending::Late { Lost::TimedOut } else { Lost::Ended };
            it.apply(Event::Lost(copy, lost));
            it.call = Call::Asking { copy, last, repeats: false };
        });
        if flight.region == 1 || case.pinned {
            self.add("send is refused", flight.region, |it| {
                it.apply(Event::NotStored(copy));
                fail(it);
            });
        }
    }

    fn asking(&mut self, copy: usize, last: Option<Answered>, repeats: bool) {
        let case = self.case;
        let (region, id) = self.from.where_is(copy);
        let mut asking = Asking::default();
        last.into_iter().for_each(|last| asking.note(NOW, last));
        let side = Side { until: NOW.after(secs(99)), rules: RULES, repeats, guarded: Self::guards(case, region) };
        let asked = move |it: &mut State, last| it.call = Call::Asking { copy, last, repeats };
        self.add("call is at its end", copy, |it| {
            let goes_on = case.plant == Some(Plant::NextWithoutFence) && !repeats && region == 0;
            if goes_on { it.send(1) } else { fail(it) }
        });
        match call::next(&self.from.placement.copies[copy], asking, side, NOW) {
            Step::Ask => {
                self.read("call asks", copy, |it, word| {
                    it.apply(Event::Heard(copy, word, Trust::Believed));
                    // What is watched is asked about once.
                    let is_watched = matches!(it.placement.copies[copy].fate, Fate::Absent { .. });
                    asked(it, (is_watched && word != Word::Silent).then_some(Answered::No));
                });
            }
            Step::SendAgain => {
                let flight = self.write_of(copy);
                self.request("call sends again", &flight, |it, ending, taken| match ending {
                    Ending::Answered if taken => {
                        it.apply(Event::Stored(copy));
                        asked(it, None);
                    }
                    Ending::Answered => {
                        it.apply(Event::Heard(copy, Word::Taken, Trust::Believed));
                        asked(it, Some(Answered::Taken));
                    }
                    _ => {
                        it.apply(Event::Lost(copy, Lost::TimedOut));
                        asked(it, None);
                    }
                });
                self.add("sent again, it is refused", region, |it| asked(it, Some(Answered::Refused)));
            }
            Step::Fence => {
                let flight = Flight { region, id, cargo: Cargo::Write(Entry::Tombstone(false)) };
                self.request("call fences", &flight, |it, ending, taken| {
                    fenced(it, copy, ending, taken);
                    asked(it, (ending == Ending::Answered && !taken).then_some(Answered::Taken));
                });
            }
            Step::Wait(_) => self.add("call waits", copy, |it| asked(it, None)),
            Step::Done => self.add("call knows", copy, |it| done(it, case, copy, repeats)),
        }
    }

    /// A question: what is there, what was there before, or nothing.
    fn read(&mut self, what: &'static str, copy: usize, then: impl Fn(&mut State, Word)) {
        let slot = self.from.slot(self.from.where_is(copy));
        let stamp = self.from.stamp(copy);
        self.add(what, copy * 10, |it| then(it, world::word(slot.now, stamp)));
        if let Some(older) = slot.older {
            self.add(what, copy * 10 + 1, |it| then(it, world::word(older, stamp)));
        }
        self.add(what, copy * 10 + 2, |it| then(it, Word::Silent));
    }

    /// A round may find any of the copies due, and none.
    fn background(&mut self) {
        for due in 0..=self.from.placement.copies.len() {
            let mut base = self.from.clone();
            for (at, copy) in base.placement.copies.iter_mut().enumerate() {
                let heard = copy.asked.heard.filter(|_| base.round);
                let is_live = matches!(copy.fate, Fate::Stored { .. });
                copy.asked.due = if at == due || is_live { Moment(0) } else { NOW.after(secs(1)) };
                copy.asked.heard = heard;
            }
            base.round = true;
            self.in_round(&base);
        }
    }

    fn in_round(&mut self, base: &State) {
        let case = self.case;
        let guarded = |place: &Place| Self::guards(case, usize::from(place.region.as_str() == "b"));
        let action = background::next(&base.placement, NOW, NOW, guarded);
        let mut moves = Moves { case, from: base, found: Vec::new() };
        match action {
            Action::Ask(copy) => moves.read("background asks", copy, |it, word| {
                it.apply(Event::Heard(copy, word, Trust::Believed));
            }),
            Action::Fence(copy) => {
                let (region, id) = base.where_is(copy);
                let flight = Flight { region, id, cargo: Cargo::Write(Entry::Tombstone(false)) };
                moves.request("background fences", &flight, |it, ending, taken| fenced(it, copy, ending, taken));
            }
            Action::Bury(copy) => {
                let (region, id) = base.where_is(copy);
                let flight = Flight { region, id, cargo: Cargo::Cancel };
                moves.request("background buries", &flight, |it, ending, _| match ending {
                    Ending::Answered => it.apply(Event::Buried(copy)),
                    _ => it.apply(Event::Heard(copy, Word::Silent, Trust::Believed)),
                });
            }
            Action::Cancel(copy) => moves.add("background is about to cancel", copy, |it| {
                if case.plant != Some(Plant::CancelsUnrecorded) {
                    it.apply(Event::Cancelling(copy));
                }
                it.deleting = Some(copy);
            }),
            Action::Settle(how) => moves.add("background settles", how as usize, |it| {
                it.apply(Event::Settled(how));
                it.round = false;
            }),
            Action::Wait(_) | Action::Rest => {}
        }
        let found = moves.found.into_iter().map(|(label, mut state)| {
            // Who was heard in which round matters only for several.
            let live = state.placement.copies.iter().filter(|copy| copy.live().is_some()).count();
            state.round = live > 1;
            (label, state.canonical(0, case))
        });
        self.found.extend(found);
        if self.from.round {
            self.add("round ends", 0, |it| it.round = false);
        }
    }

    fn delete(&mut self, copy: usize) {
        let (region, id) = self.from.where_is(copy);
        let stamp = self.from.stamp(copy);
        let flight = Flight { region, id, cargo: Cargo::Cancel };
        self.request("background cancels", &flight, |it, ending, taken| {
            let word = match ending {
                Ending::Answered if taken => world::word(it.slot((region, id)).now, stamp),
                Ending::Answered => Word::No,
                _ => Word::Silent,
            };
            it.apply(Event::Heard(copy, word, Trust::Believed));
            it.deleting = None;
        });
    }
}

fn fenced(it: &mut State, copy: usize, ending: Ending, taken: bool) {
    it.apply(match ending {
        Ending::Answered if taken => Event::Fenced(copy),
        Ending::Answered => Event::Heard(copy, Word::Taken, Trust::Believed),
        _ => Event::Heard(copy, Word::Silent, Trust::Believed),
    });
}

/// The client hears that it is stored.
fn stored(it: &mut State) {
    let place = it.placement.stored().cloned();
    let called_off = it.placement.copies.iter().find(|copy| copy.fate == Fate::Cancelled { by_us: false });
    let place = place.or_else(|| called_off.map(|copy| copy.place.clone())).unwrap();
    it.tell(Told::Stored { place, status: 201 });
}

fn fail(it: &mut State) {
    it.tell(if it.placement.doubt().is_some() { Told::Unknown } else { Told::Refused });
}

/// All that can be is known of a copy within the call.
fn done(it: &mut State, case: Case, copy: usize, repeats: bool) {
    if repeats {
        return next_of_repetition(it, case, copy + 1);
    }
    let region = it.where_is(copy).0;
    let of_call = || (it.first..it.placement.copies.len()).map(|copy| (copy, it.where_is(copy).0));
    let circumstances = Circumstances {
        redirects_unknown: case.redirects && !case.pinned,
        candidates_left: region == 0 && !case.pinned,
        // Where there are two regions, a second time in the last one adds states and nothing new.
        sent_again: !case.pinned || of_call().filter(|(_, its)| *its == region).count() > 1,
        gone_on_unknown: of_call().any(|(other, _)| other != copy && it.placement.copies[other].is_in_doubt()),
    };
    let follow = match follow(&it.placement.copies[copy], circumstances) {
        Follow::Fail if case.plant == Some(Plant::NextWithoutFence) && circumstances.candidates_left => Follow::Next,
        follow => follow,
    };
    match follow {
        Follow::Answer => stored(it),
        Follow::Next => it.send(1),
        Follow::Again => it.send(region),
        Follow::Fail => fail(it),
    }
}

/// A repetition asks about each copy that may be there, and sends the job only when none is.
fn next_of_repetition(it: &mut State, case: Case, from: usize) {
    let is_there = |copy: &Copy| matches!(copy.fate, Fate::Stored { .. } | Fate::Cancelled { by_us: false });
    if it.placement.stored().is_some() || it.placement.copies.iter().any(is_there) {
        return stored(it);
    }
    let is_open = |copy: &Copy| match copy.fate {
        Fate::Unknown { .. } => true,
        Fate::Absent { by: Absence::Watched(_) } => Moves::guards(case, usize::from(copy.place.region.as_str() == "b")),
        _ => false,
    };
    let is_asked = |copy: &Copy| is_open(copy) || matches!(copy.fate, Fate::Absent { by: Absence::Watched(_) });
    if let Some(copy) = (from..it.placement.copies.len()).find(|copy| is_asked(&it.placement.copies[*copy])) {
        it.call = Call::Asking { copy, last: None, repeats: true };
    // What is being cancelled has another copy beside it, or had.
    } else if it.placement.copies.iter().any(|copy| is_open(copy) || copy.live().is_some()) {
        it.tell(Told::Unknown);
    } else {
        let own = it.placement.identity.own_id.clone();
        let is_fenced = |region| own.as_ref().is_some_and(|id| it.placement.is_fenced(&place(region, id)));
        let (fenced, fenced_there) = (is_fenced("a"), is_fenced("b"));
        match (fenced, fenced_there || case.pinned) {
            (false, _) => it.send(0),
            (true, false) => it.send(1),
            (true, true) => fail(it),
        }
    }
}
