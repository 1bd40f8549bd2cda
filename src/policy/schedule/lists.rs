//! The turns of each list of queues that workers ask for.

use std::time::Instant;

use super::rules::Rules;
use super::turns::{Call, End, Turns};
use crate::base::Draw;
use crate::policy::index::RegionIndex;

/// The workers of a pod ask for a handful of lists, each of at most 64 queues; a crowd of made-up ones stays below some megabytes.
const LISTS_MAX: usize = 64;

/// The turns of each list of queues, by the rules that it is served by. Those of the list that was asked for longest ago are dropped beyond 64 lists:
/// its next call begins them anew.
#[derive(Debug, Default)]
pub struct Lists {
    all: Vec<List>,
    /// How many have begun.
    begun: u64,
}

/// A list of queues with its turns, for people.
#[derive(Debug, Clone, Copy)]
pub struct ShownList<'l> {
    /// The region that is asked for the jobs.
    pub region: RegionIndex,
    /// The queues, as the worker names them.
    pub queues: &'l [String],
    /// The rules of their turns.
    pub rules: &'l Rules,
    /// Their turns.
    pub turns: &'l Turns,
}

#[derive(Debug)]
struct List {
    region: RegionIndex,
    queues: Vec<String>,
    rules: Rules,
    asked_at: Instant,
    turns: Turns,
}

impl Lists {
    /// The turns of a list in a region: the jobs of one region are no turns in another. By `draw` the first turns of many sidecars differ.
    pub fn turns<'q>(
        &mut self,
        region: RegionIndex,
        queues: impl ExactSizeIterator<Item = &'q str> + Clone,
        rules: &Rules,
        draw: impl FnOnce() -> Draw,
        now: Instant,
    ) -> &mut Turns {
        let is_it = |list: &List| {
            list.region == region && list.queues.iter().map(String::as_str).eq(queues.clone()) && list.rules == *rules
        };
        let known = self.all.iter().position(is_it);
        let place = known.unwrap_or_else(|| self.begin(region, queues.collect(), rules, draw(), now));
        let list = &mut self.all[place];
        list.asked_at = now;
        &mut list.turns
    }

    /// Notes the end of a call of a list, unless the list was dropped since.
    pub fn end(&mut self, call: &Call, end: End<'_>, now: Instant) {
        if let Some(list) = self.all.iter_mut().find(|list| list.turns.list == call.list) {
            list.turns.end(call, end, now);
        }
    }

    /// The lists that workers asked for, and their turns.
    pub fn all(&self) -> impl Iterator<Item = ShownList<'_>> {
        self.all.iter().map(|list| ShownList {
            region: list.region,
            queues: &list.queues,
            rules: &list.rules,
            turns: &list.turns,
        })
    }

    fn begin(&mut self, region: RegionIndex, queues: Vec<&str>, rules: &Rules, draw: Draw, now: Instant) -> usize {
        let oldest = (0..self.all.len()).min_by_key(|place| self.all[*place].asked_at);
        if let Some(oldest) = oldest.filter(|_| self.all.len() >= LISTS_MAX) {
            self.all.swap_remove(oldest);
        }
        let mut turns = Turns::new(rules, &queues, draw, now);
        self.begun += 1;
        turns.list = self.begun;
        let queues = queues.into_iter().map(str::to_owned).collect();
        self.all.push(List { region, queues, rules: rules.clone(), asked_at: now, turns });
        self.all.len() - 1
    }
}
