//! One history: a job, its calls, the background, crashes.

use super::super::world::{self, Entry, Kind, Stage};
use super::world::World;
use super::*;
use crate::outcome::call::{self, Answered, Asking, Circumstances, Follow, Side, Step, follow};

/// The process has ended.
pub(super) struct Crashed;

pub(super) type Run<T = ()> = Result<T, Crashed>;

pub(super) struct History {
    pub(super) setting: Setting,
    pub(super) world: World,
    pub(super) placement: Placement,
    journal: Option<Placement>,
    crashes: u64,
    first: usize,
    stamps: u8,
    pub(super) told_stored: bool,
    /// A copy was cancelled while no other was seen in the same round.
    pub(super) cancelled_unseen: bool,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl History {
    pub(super) fn new(setting: Setting) -> Self {
        let mut world = World::new(setting.seed, &setting.kinds, setting.lag_ms);
        if setting.own_id && world.happens(30) {
            world.is_used(0, "own");
        }
        let placement = new_placement(setting.own_id.then_some("own"), START);
        Self {
            setting,
            world,
            placement,
            journal: None,
            crashes: 4,
            first: 0,
            stamps: 0,
            told_stored: false,
            cancelled_unseen: false,
        }
    }

    pub(super) fn has(&self, plant: Plant) -> bool {
        self.setting.plant == Some(plant)
    }

    pub(super) fn now(&self) -> Moment {
        Moment(self.world.now)
    }

    fn rules(&self) -> Rules {
        if self.has(Plant::CountsEarly) { Rules { grace: secs(0), lag: secs(0) } } else { RULES }
    }

    pub(super) fn apply(&mut self, event: Event) {
        let (now, rules) = (self.now(), self.rules());
        self.placement.apply(event, now, rules);
    }

    /// The journal gets it, unless the process ends before; it may end after, too.
    pub(super) fn persist(&mut self) -> Run {
        let (before, after) = (self.world.happens(10), self.world.happens(10));
        if before && self.crashes > 0 {
            return Err(Crashed);
        }
        self.journal = Some(self.placement.clone());
        if after && self.crashes > 0 { Err(Crashed) } else { Ok(()) }
    }

    fn restart(&mut self) {
        self.crashes -= 1;
        self.world.pass_to(self.world.now + 500);
        let own = self.setting.own_id.then_some("own");
        self.placement = self.journal.clone().unwrap_or_else(|| new_placement(own, START));
        if self.journal.is_some() {
            self.apply(Event::Restarted);
        }
        let forgets = self.has(Plant::ForgetsWatched);
        let watched = self.placement.copies.iter_mut().filter(|it| matches!(it.fate, Fate::Absent { .. }));
        watched.filter(|_| forgets).for_each(|copy| copy.fate = FINAL);
        self.first = self.placement.copies.len();
    }

    /// All calls, and the background between and after them.
    pub(super) fn run(mut self) -> Self {
        let calls = 1 + self.world.draw.below(4);
        for _ in 0..calls {
            if self.call().is_err() {
                self.restart();
            }
            if self.told_stored && self.world.happens(10) {
                self.call_off();
            }
            let pause = [500, 5_000, 100_000][self.world.draw.below(3) as usize];
            let until = self.world.now + self.world.draw.below(pause);
            self.background_until(until);
        }
        self.background_until(START.0 + 60 * 60 * 60_000);
        self.world.pass_to(START.0 + 61 * 60 * 60_000);
        self
    }

    fn background_until(&mut self, until: u64) {
        while self.background(until).is_err() {
            self.restart();
        }
    }

    fn call_off(&mut self) {
        let Told::Stored { place, .. } = self.placement.told.clone() else { return };
        let Some(region) = NAMES.iter().position(|name| *name == place.region.as_str()) else { return };
        if !matches!(self.world.look(region, &place.job_id), Some(Entry::Job(_, Stage::Ended))) {
            self.world.cancel(region, &place.job_id);
            self.world.called_off = true;
        }
    }

    pub(super) fn guards(&self, place: &Place) -> bool {
        let region = NAMES.iter().position(|name| *name == place.region.as_str());
        region.is_some_and(|at| self.setting.kinds[at] == Kind::Refuse) && !self.has(Plant::NoFence)
    }

    pub(super) fn where_is(&self, copy: usize) -> (usize, String, u8) {
        let copy = &self.placement.copies[copy];
        let region = NAMES.iter().position(|name| *name == copy.place.region.as_str()).unwrap();
        (region, copy.place.job_id.clone(), copy.stamp.as_ref().unwrap().parse().unwrap())
    }

    fn send(&mut self, region: usize) -> Run<usize> {
        self.stamps += 1;
        let id = self.placement.identity.own_id.clone().unwrap_or_else(|| self.stamps.to_string());
        self.apply(Event::Sending(place(NAMES[region], &id), Some(self.stamps.to_string())));
        self.persist()?;
        Ok(self.placement.copies.len() - 1)
    }

    /// A request with an effect: whether its region took it; none where nothing is heard of it. A late one comes within a minute.
    pub(super) fn request(&mut self, copy: usize, entry: Option<Entry>) -> Result<bool, Lost> {
        let (region, id, _) = self.where_is(copy);
        self.world.takes_a_moment();
        let (lies, fate) = (self.world.lies(region), self.world.draw.below(100));
        if lies {
            return if self.has(Plant::BelievesPages) { Ok(true) } else { Err(Lost::Ended) };
        }
        let lost = if self.world.is_silent(region) || fate % 2 == 0 { Lost::TimedOut } else { Lost::Ended };
        let lost_after = if lost == Lost::TimedOut { 2_000 } else { 10 };
        let is_late = fate < self.setting.late_percent || (fate < 60 && self.world.is_silent(region));
        if is_late {
            let late = lost_after + self.world.draw.below(self.setting.late_ms + 1);
            self.world.arrives_in(late, region, &id, entry);
        } else if self.world.is_silent(region) || fate > 90 {
            // It never gets there.
        } else {
            let taken = match entry {
                Some(entry) => self.world.write(region, &id, entry),
                None => {
                    self.world.cancel(region, &id);
                    true
                }
            };
            if fate <= 80 {
                return Ok(taken);
            }
        }
        self.world.pass_to(self.world.now + lost_after);
        Err(lost)
    }

    pub(super) fn ask(&mut self, copy: usize, by_caller: bool) -> Word {
        let (region, id, stamp) = self.where_is(copy);
        self.world.takes_a_moment();
        if self.world.is_silent(region) || self.world.lies(region) || self.world.happens(5) {
            self.world.pass_to(self.world.now + 500);
            return Word::Silent;
        }
        if self.setting.private && !by_caller {
            return Word::No;
        }
        world::word(self.world.read(region, &id), stamp)
    }

    fn call(&mut self) -> Run {
        if matches!(self.placement.told, Told::Stored { .. }) {
            return Ok(());
        }
        let until = self.now().after(secs(20));
        self.first = self.placement.copies.len();
        for copy in 0..self.first {
            let is_open =
                |it: &Copy| matches!(it.fate, Fate::Unknown { .. } | Fate::Absent { by: Absence::Watched(_) });
            if is_open(&self.placement.copies[copy]) && self.placement.stored().is_none() {
                self.find_out(copy, until, true);
            }
        }
        let called_off = self.placement.copies.iter().any(|copy| copy.fate == Fate::Cancelled { by_us: false });
        if self.placement.stored().is_some() || called_off {
            return self.tell_stored();
        }
        let is_open = |it: &Copy| match it.fate {
            Fate::Absent { by: Absence::Watched(_) } => self.guards(&it.place),
            _ => it.is_in_doubt() || it.live().is_some(),
        };
        if self.now() >= until || self.placement.copies.iter().any(is_open) {
            return self.fail();
        }
        let own = self.placement.identity.own_id.clone();
        let is_free =
            |region: &usize| own.as_ref().is_none_or(|id| !self.placement.is_fenced(&place(NAMES[*region], id)));
        let Some(region) = (0..self.setting.kinds.len()).find(is_free) else { return self.fail() };
        self.attempts(region, until)
    }

    fn attempts(&mut self, mut region: usize, until: Moment) -> Run {
        loop {
            let copy = self.send(region)?;
            let stamp = self.stamps;
            let answered = self.request(copy, Some(Entry::Job(stamp, Stage::Waiting)));
            match answered {
                Ok(true) => {
                    self.apply(Event::Stored(copy));
                    return self.tell_stored();
                }
                Ok(false) => self.apply(Event::Lost(copy, Lost::Ended)),
                Err(lost) => self.apply(Event::Lost(copy, lost)),
            }
            self.find_out(copy, until, false);
            let sent_again = (self.first..copy).any(|other| self.where_is(other).0 == region);
            let circumstances = Circumstances {
                redirects_unknown: self.setting.redirects,
                candidates_left: region + 1 < self.setting.kinds.len() && self.now() < until,
                sent_again: sent_again || self.now() >= until,
                gone_on_unknown: (self.first..copy).any(|other| self.placement.copies[other].is_in_doubt()),
            };
            match follow(&self.placement.copies[copy], circumstances) {
                Follow::Answer => return self.tell_stored(),
                Follow::Next => region += 1,
                Follow::Again => {}
                Follow::Fail => return self.fail(),
            }
        }
    }

    fn tell_stored(&mut self) -> Run {
        let called_off = || self.placement.copies.iter().find(|copy| copy.fate == Fate::Cancelled { by_us: false });
        let place = self.placement.stored().or_else(|| called_off().map(|copy| &copy.place)).cloned().unwrap();
        self.apply(Event::Told(Told::Stored { place, status: 201 }));
        self.persist()?;
        self.told_stored = true;
        Ok(())
    }

    fn fail(&mut self) -> Run {
        let told = if self.placement.doubt().is_some() { Told::Unknown } else { Told::Refused };
        self.apply(Event::Told(told));
        self.persist()
    }

    pub(super) fn hear(&mut self, copy: usize, word: Word, by_caller: bool) {
        let is_believed = by_caller || !self.setting.private || self.has(Plant::BelievesUntrusted);
        let trust = if is_believed { Trust::Believed } else { Trust::Doubted };
        self.apply(Event::Heard(copy, word, trust));
    }

    fn find_out(&mut self, copy: usize, until: Moment, repeats: bool) {
        let mut asking = Asking::default();
        let guarded = self.guards(&self.placement.copies[copy].place);
        let side = Side { until, rules: self.rules(), repeats, guarded };
        loop {
            let step = call::next(&self.placement.copies[copy], asking, side, self.now());
            let sent = self.now();
            let answered = match step {
                Step::Done => return,
                Step::Wait(at) => {
                    self.world.pass_to(at.0);
                    continue;
                }
                Step::Ask => {
                    let word = self.ask(copy, true);
                    self.hear(copy, word, true);
                    if word == Word::Silent { Answered::Silent } else { Answered::No }
                }
                Step::SendAgain if self.world.happens(10) => Answered::Refused,
                Step::SendAgain => {
                    let stamp = self.where_is(copy).2;
                    match self.request(copy, Some(Entry::Job(stamp, Stage::Waiting))) {
                        Ok(true) => return self.apply(Event::Stored(copy)),
                        Ok(false) => self.taken(copy),
                        Err(lost) => {
                            self.apply(Event::Lost(copy, lost));
                            Answered::Silent
                        }
                    }
                }
                Step::Fence => self.fence(copy),
            };
            asking.note(sent, answered);
        }
    }

    fn taken(&mut self, copy: usize) -> Answered {
        self.hear(copy, Word::Taken, true);
        Answered::Taken
    }

    pub(super) fn fence(&mut self, copy: usize) -> Answered {
        match self.request(copy, Some(Entry::Tombstone(false))) {
            Ok(true) => {
                self.apply(Event::Fenced(copy));
                Answered::No
            }
            Ok(false) => self.taken(copy),
            Err(_) => {
                self.hear(copy, Word::Silent, true);
                Answered::Silent
            }
        }
    }
}
