//! What a run comes to, in the numbers that `docs/failure.md` shows.

use crate::broken;
use crate::engine::Sim;

/// How unevenly jobs met regions.
#[derive(Debug)]
pub struct Stampede {
    /// Of every region and every ten seconds after the first half minute (the first minute where it began
    /// unevenly), the most that a region got over its fair share.
    pub worst: f64,
    /// For each region, for each ten seconds, what it got over its fair share.
    pub shares: Vec<Vec<f64>>,
    broken: Vec<String>,
}

const WINDOW: usize = 10;
/// Figures are first known, and first seen to move, within so many windows; what was uneven is even within as many more.
const SETTLED: usize = 3;
/// No region may get more than this over its fair share.
pub const STAMPEDE_MAX: f64 = 1.25;

impl Stampede {
    pub fn of(sim: &Sim) -> Self {
        let settled = if sim.scenario.uneven > 0.1 { 2 * SETTLED } else { SETTLED };
        let windows = sim.scenario.seconds as usize / WINDOW;
        let came = |region: usize, window: usize| -> f64 {
            let seconds = sim.regions[region].arrivals.iter().skip(window * WINDOW).take(WINDOW);
            seconds.map(|&jobs| f64::from(jobs)).sum()
        };
        let regions = sim.regions.len();
        let weight = |region: usize| f64::from(sim.scenario.knobs.weights.get(region).copied().unwrap_or(1));
        let weights: f64 = (0..regions).map(weight).sum();
        let share = |region: usize, window: usize| {
            let all: f64 = (0..regions).map(|region| came(region, window)).sum();
            came(region, window) / (all * weight(region) / weights).max(1.0)
        };
        let shares: Vec<Vec<f64>> =
            (0..regions).map(|region| (0..windows).map(|window| share(region, window)).collect()).collect();
        let worst = shares.iter().flat_map(|shares| shares.iter().skip(settled)).copied().fold(0.0, f64::max);
        Self { worst, shares, broken: broken(sim) }
    }

    pub fn problems(self) -> Vec<String> {
        let mut problems = self.broken;
        if self.worst > STAMPEDE_MAX {
            problems.push(format!("overflow gave a region {:.2} times its fair share", self.worst));
        }
        problems
    }
}

/// How a region got its traffic back.
#[derive(Debug)]
pub struct Ramp {
    /// Calls that came to it by second, and those it could not take.
    pub arrivals: Vec<u32>,
    pub overloads: Vec<u32>,
    /// Calls after its recovery that it could not take.
    pub overrun: u32,
    /// Seconds from the first call after the outage until nine tenths of the usual traffic flow.
    pub full_after: Option<usize>,
    /// Sidecars whose breaker opened again after it had closed.
    pub second_trips: usize,
    broken: Vec<String>,
}

impl Ramp {
    pub fn of(sim: &Sim) -> Self {
        let back = sim.scenario.faults.last().map_or(0, |(second, ..)| *second as usize);
        let (arrivals, overloads) = (sim.regions[0].arrivals.clone(), sim.regions[0].overloads.clone());
        let usual = sim.scenario.cold.unwrap_or(1.0);
        let first = (back..arrivals.len()).find(|&second| arrivals[second] > 0);
        // Two seconds together, because one alone is noisy.
        let full = first.and_then(|first| {
            (first..arrivals.len().saturating_sub(1))
                .find(|&it| f64::from(arrivals[it] + arrivals[it + 1]) >= 1.8 * usual)
                .map(|it| it - first)
        });
        Self {
            overrun: overloads.iter().skip(back).sum(),
            full_after: full,
            second_trips: sim.sidecars.iter().filter(|it| it.changes > 2).count(),
            arrivals,
            overloads,
            broken: broken(sim),
        }
    }

    pub fn problems(self) -> Vec<String> {
        let mut problems = self.broken;
        if self.overrun > 0 || self.second_trips > 0 {
            problems.push(format!("{} calls overran it, {} sidecars tripped again", self.overrun, self.second_trips));
        }
        if self.full_after.is_none() {
            problems.push("the traffic never came back".to_owned());
        }
        problems
    }
}

/// How often sidecars changed their mind about a region that comes and goes.
#[derive(Debug)]
pub struct Flaps {
    /// The most changes of any sidecar, and the mean.
    pub most: u32,
    pub mean: f64,
    /// Calls that came to the region, by second.
    pub arrivals: Vec<u32>,
    broken: Vec<String>,
}

/// Three outages with their returns, the last of which is not taken: five changes; and the one return after it was quiet.
const FLAPS_MAX: u32 = 6;

impl Flaps {
    pub fn of(sim: &Sim) -> Self {
        let changes = || sim.sidecars.iter().map(|it| it.changes);
        Self {
            most: changes().max().unwrap_or(0),
            mean: f64::from(changes().sum::<u32>()) / sim.sidecars.len() as f64,
            arrivals: sim.regions[0].arrivals.clone(),
            broken: broken(sim),
        }
    }

    pub fn problems(self) -> Vec<String> {
        let mut problems = self.broken;
        if self.most > FLAPS_MAX {
            problems.push(format!("a sidecar changed its mind {} times", self.most));
        }
        problems
    }
}
