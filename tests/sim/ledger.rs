//! What happened to every job, and what must never have happened.

use std::collections::BTreeMap;

use ojs_sidecar::policy::Outcome;

/// More than these are not told: the first one is what matters.
const TOLD_MAX: usize = 5;

#[derive(Debug, Default)]
pub struct Ledger {
    jobs: Vec<Job>,
    /// Broken promises, by their names.
    pub broken: BTreeMap<&'static str, Vec<String>>,
}

#[derive(Debug, Default)]
struct Job {
    pin: Option<usize>,
    stored: Vec<usize>,
    tried: Vec<usize>,
    /// The last attempt may not be followed by another one.
    closed: Option<&'static str>,
}

impl Ledger {
    pub fn begin(&mut self, pin: Option<usize>) -> usize {
        self.jobs.push(Job { pin, ..Job::default() });
        self.jobs.len() - 1
    }

    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    pub fn breach(&mut self, promise: &'static str, what: String) {
        let told = self.broken.entry(promise).or_default();
        if told.len() < TOLD_MAX {
            told.push(what);
        }
    }

    /// A job is sent to a region.
    pub fn sends(&mut self, job: usize, region: usize, attempts_max: usize) {
        let Job { pin, tried, closed, .. } = &mut self.jobs[job];
        tried.push(region);
        let (pin, tried, closed) = (*pin, tried.clone(), *closed);
        if pin.is_some_and(|pin| pin != region) {
            self.breach("pins never leave", format!("job {job}, pinned to {pin:?}, sent to {region}"));
        }
        if tried.len() > attempts_max {
            self.breach("attempts within 1 + max_redirects", format!("job {job}: {tried:?}"));
        }
        if let Some(why) = closed {
            self.breach("nothing sent twice", format!("job {job} sent to {region} although {why}: {tried:?}"));
        }
        if tried.iter().filter(|&&other| other == region).count() > 1 {
            self.breach("nothing sent twice", format!("job {job} sent to {region} again: {tried:?}"));
        }
    }

    /// A region stored a job, whether or not anybody hears of it.
    pub fn stores(&mut self, job: usize, region: usize) {
        let Job { pin, stored, .. } = &mut self.jobs[job];
        stored.push(region);
        let (pin, stored) = (*pin, stored.clone());
        if stored.len() > 1 {
            self.breach("nothing stored twice", format!("job {job} in {stored:?}"));
        }
        if pin.is_some_and(|pin| pin != region) {
            self.breach("pins never leave", format!("job {job}, pinned to {pin:?}, stored in {region}"));
        }
    }

    /// An attempt ended; `region_refused` says that the region itself said that it did not take the job.
    pub fn ended(&mut self, job: usize, outcome: Outcome, region_refused: bool) {
        self.jobs[job].closed = match outcome {
            Outcome::NotSent => None,
            Outcome::Answered if region_refused => None,
            Outcome::Answered => Some("it was answered"),
            Outcome::Unknown => Some("nobody knows whether it is stored"),
        };
    }

    /// A job was answered as stored.
    pub fn confirmed(&mut self, job: usize, region: usize) {
        if self.jobs[job].stored != [region] {
            let stored = self.jobs[job].stored.clone();
            self.breach("a 2xx means stored", format!("job {job} confirmed by {region}, stored in {stored:?}"));
        }
    }
}
