//! The lives of the sidecar's process: its kills, the changes to its journal, and its behaviour after each.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::breakage::Breakage;
use super::case::Epoch;
use super::client::{self, World};
use super::out::say;
use super::page::Rows;
use super::sidecar::{Sidecar, Start};
use super::stage::Stage;
use ojs_handles::{Clock, Draw};

/// How long a process may take to log its trouble, and to answer a job.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Records that were not on disk in time.
const NOT_IN_TIME: [&str; 2] = [r#"journal_writes_total{result="late"}"#, r#"journal_writes_total{result="failed"}"#];

/// The process that runs now, and all before it.
#[derive(Debug)]
pub(super) struct Restarts {
    pub(super) sidecar: Sidecar,
    pub(super) epochs: Vec<Epoch>,
    pub(super) rows: Rows,
    /// Expected behaviour that a process did not show.
    pub(super) faults: Vec<String>,
    /// How often each kind was done.
    pub(super) done: Vec<Breakage>,
    start: Start,
    file_generation: u32,
    generations: u32,
    draw: Draw,
}

impl Restarts {
    /// Starts the first process.
    ///
    /// Errors: a sentence for the person at the terminal.
    pub(super) async fn begin(stage: &Stage, draw: Draw) -> Result<Self, String> {
        let start = Start { config: stage.config.clone(), journal: None, under: Vec::new() };
        let sidecar = Sidecar::start(&start).await?;
        let from_ms = Clock::system().unix_ms();
        let epochs =
            vec![Epoch { why: "the first", durable: true, generation: 0, able: true, from_ms, until_ms: u64::MAX }];
        let (rows, faults, done) = (Rows::default(), Vec::new(), Vec::new());
        Ok(Self { sidecar, epochs, rows, faults, done, start, file_generation: 0, generations: 0, draw })
    }

    /// Does something to the process, and starts the next one where that ends it.
    ///
    /// Errors: a sentence; there may be no process then.
    pub(super) async fn inflict(&mut self, stage: &Stage, world: &World, breakage: Breakage) -> Result<(), String> {
        if !breakage.goes_on() {
            return self.restart(stage, world, breakage).await;
        }
        let changed = if breakage == Breakage::Rotated { stage.rotate() } else { stage.change_configuration() };
        changed.map_err(|error| format!("{}: {error}", breakage.as_str()))?;
        self.sidecar.hang_up();
        world.successes.set(0);
        self.done.push(breakage);
        Ok(())
    }

    /// Ends the process, does something to its journal, and starts the next one.
    ///
    /// Errors: a sentence; there is no process then.
    pub(super) async fn restart(&mut self, stage: &Stage, world: &World, breakage: Breakage) -> Result<(), String> {
        self.last_words().await;
        if breakage.forgets() {
            self.read_rows(world).await;
        }
        match breakage {
            Breakage::Terminated => self.sidecar.end().await,
            _ => self.sidecar.kill(),
        }
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.until_ms = Clock::system().unix_ms();
            // The process may have recorded more since it showed its rows, and nothing shows that any more.
            epoch.durable &= !breakage.forgets();
        }
        let io = |error: std::io::Error| format!("the journal's file: {error}");
        let start = breakage.inflict(&stage.journal, &self.start, &mut self.draw).map_err(io)?;
        self.sidecar = Sidecar::start(&start).await.map_err(|error| format!("after {}: {error}", breakage.as_str()))?;
        if breakage.forgets() {
            self.generations += 1;
        }
        let generation = if breakage.is_in_memory() && breakage.forgets() {
            self.generations
        } else {
            if breakage.forgets() {
                self.file_generation = self.generations;
            }
            self.file_generation
        };
        let (why, durable, from_ms) = (breakage.as_str(), !breakage.is_in_memory(), Clock::system().unix_ms());
        let able = breakage != Breakage::FewDescriptors;
        self.epochs.push(Epoch { why, durable, generation, able, from_ms, until_ms: u64::MAX });
        self.done.push(breakage);
        if breakage.forgets() && !breakage.is_in_memory() {
            // They went with the file.
            world.known.borrow_mut().clear();
        }
        world.durable.set(!breakage.is_in_memory());
        world.successes.set(0);
        world.epoch.set(u16::try_from(self.epochs.len() - 1).unwrap_or(u16::MAX));
        world.address.set(self.sidecar.client);
        Ok(())
    }

    /// Reads the outcomes that the running process shows. A process at the bound of its client connections turns the question
    /// away; then clients pause, until it was answered.
    pub(super) async fn read_rows(&mut self, world: &World) {
        let until = Instant::now() + PATIENCE;
        while let Err(error) = self.rows.ask(self.sidecar.client).await {
            if Instant::now() >= until || self.sidecar.ended().is_some() {
                self.faults.push(format!("the outcomes could not be read: {error}\n{}", self.sidecar.tail(20)));
                break;
            }
            world.paused.set(true);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        world.paused.set(false);
    }

    /// Reads the state of a process before it is killed.
    async fn last_words(&mut self) {
        if let Some(how) = self.sidecar.ended() {
            self.faults.push(format!("the sidecar ended by itself: {how}\n{}", self.sidecar.tail(20)));
            return;
        }
        self.expect_no_defect().await;
        let late = self.read_count(&NOT_IN_TIME).await;
        if late > 0.0
            && let Some(epoch) = self.epochs.last_mut()
        {
            epoch.durable = false;
        }
    }

    /// Notes a fault when a task of the running process has ended by a panic.
    pub(super) async fn expect_no_defect(&mut self) {
        if self.read_count(&["defects_total"]).await > 0.0 {
            self.faults.push(format!("a task of the sidecar ended by a panic\n{}", self.sidecar.tail(20)));
        }
    }

    /// Reads counters of the running process, and asks again as [`Self::read_rows`] does.
    async fn read_count(&mut self, names: &[&str]) -> f64 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(sum) = self.sidecar.count(names).await {
                return sum;
            }
            if Instant::now() >= until || self.sidecar.ended().is_some() {
                self.faults.push(format!("/metrics could not be read\n{}", self.sidecar.tail(20)));
                return 0.0;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the process has logged the trouble with its journal, and has answered a job with success.
    pub(super) async fn proves_itself(&mut self, world: &World, breakage: Breakage) {
        let until = Instant::now() + PATIENCE;
        let is_over = || world.interrupted.get() || Instant::now() >= until;
        let mut said = false;
        while !(is_over() || said && world.successes.get() > 0) {
            said |= self.sidecar.line_with(breakage.words()).is_some();
            if self.sidecar.ended().is_some() {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if world.interrupted.get() {
            return;
        }
        let why = breakage.as_str();
        if !said {
            self.faults.push(format!(
                "after {why}: the log does not say \"{}\"\n{}",
                breakage.words(),
                self.sidecar.tail(20)
            ));
        }
        if world.successes.get() == 0 {
            self.faults.push(format!("after {why}: no job was stored\n{}", self.sidecar.tail(20)));
        }
    }
}

/// When the process is killed, from the beginning on, and the breakage then: plain kills and one of each breakage,
/// spread evenly, in an order that the seed draws.
pub(super) fn schedule(kills: usize, hostile: bool, time: Duration, draw: &mut Draw) -> Vec<(Duration, Breakage)> {
    let mut what: Vec<Breakage> = std::iter::repeat_n(Breakage::None, kills).chain(Breakage::ALL).collect();
    what.extend(Breakage::HOSTILE.into_iter().filter(|_| hostile));
    for last in (1..what.len()).rev() {
        let other = usize::try_from(draw.below(last as u64 + 1)).unwrap_or(0);
        what.swap(last, other);
    }
    let share = time.div_f64(f64::from(u32::try_from(what.len() + 1).unwrap_or(u32::MAX)));
    let at = |place: u32, draw: &mut Draw| share.mul_f64(f64::from(place) + 0.5 * draw.unit());
    (1..).zip(what).map(|(place, what)| (at(place, draw), what)).collect()
}

/// Kills and restarts by the schedule, until `done` or the schedule is over.
///
/// Errors: a sentence when a process cannot be started.
pub(super) async fn play(
    restarts: &mut Restarts,
    stage: &Stage,
    world: &Rc<World>,
    schedule: Vec<(Duration, Breakage)>,
) -> Result<(), String> {
    for (at, breakage) in schedule {
        tokio::time::sleep_until(world.began + at).await;
        if world.interrupted.get() {
            break;
        }
        restarts.inflict(stage, world, breakage).await?;
        if breakage != Breakage::None || restarts.done.len().is_multiple_of(10) {
            let issued = world.ledger.borrow().issues.len();
            say(format_args!("  {:>5} s  {:>8} jobs  {}", world.began.elapsed().as_secs(), issued, breakage.as_str()));
        }
        restarts.proves_itself(world, breakage).await;
        let is_asked = !(breakage.forgets() || breakage.goes_on() || breakage == Breakage::FewDescriptors);
        if is_asked {
            client::recall(world).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_has_every_breakage_once_beside_the_kills_in_time_and_by_the_seed() {
        let time = Duration::from_secs(60);
        let plan = |seed: u64| schedule(5, false, time, &mut Draw::from_seed(seed));
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        for breakage in Breakage::ALL {
            assert_eq!(plan(1).iter().filter(|(_, it)| *it == breakage).count(), 1);
        }
        assert_eq!(plan(1).iter().filter(|(_, it)| *it == Breakage::None).count(), 5);
        let hostile = schedule(5, true, time, &mut Draw::from_seed(1));
        assert!(Breakage::HOSTILE.iter().all(|it| hostile.iter().any(|(_, other)| other == it)));
        assert!(plan(1).is_sorted_by_key(|(at, _)| *at) && plan(1).iter().all(|(at, _)| *at < time));
    }
}
