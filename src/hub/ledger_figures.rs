//! The figures of the ledger since the start of this hub: of the steps that it took itself, by job type and tenant.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use super::ledger_step::Step;

/// Pairs of a job type and a tenant that have figures of their own; both are the words of clients. Further ones are one pair.
const SUBJECTS_MAX: usize = 100;
/// In place of the type and the tenant of further pairs.
const OTHER: &str = "other";
/// In place of a type or a tenant that the ledger does not have.
const NONE: &str = "none";
/// Minutes that are kept one by one.
const MINUTES_MAX: usize = 60;
/// Units: milliseconds.
const MINUTE_MS: u64 = 60_000;
/// The upper bounds of latencies. Units: seconds.
pub(super) const LATENCY_BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// A job type and a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) job_type: String,
    pub(super) tenant: String,
}

impl Subject {
    pub(super) fn new(job_type: Option<&str>, tenant: Option<&str>) -> Self {
        let [job_type, tenant] = [job_type, tenant].map(|text| text.unwrap_or(NONE).to_owned());
        Self { job_type, tenant }
    }

    fn other() -> Self {
        Self { job_type: OTHER.to_owned(), tenant: OTHER.to_owned() }
    }
}

/// How often each step was taken, in the order of [`Step::ALL`].
pub(super) type StepCounts = [u64; Step::ALL.len()];

/// The figures of one job type and tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) steps: StepCounts,
    /// Jobs that were completed within each of [`LATENCY_BOUNDS`] after their enqueue, and later.
    pub(super) within: [u64; LATENCY_BOUNDS.len() + 1],
    /// Units: seconds.
    pub(super) latency_sum: f64,
}

/// A step that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) subject: Subject,
    pub(super) step: Step,
    /// From the enqueue to the end of a completed job. Units: milliseconds.
    pub(super) latency_ms: Option<u64>,
}

/// The figures of a ledger.
#[derive(Debug, Default)]
pub(super) struct LedgerFigures {
    subjects: RefCell<BTreeMap<Subject, Counts>>,
    /// The last minutes with steps, oldest first; by minutes since the Unix epoch.
    minutes: RefCell<VecDeque<(u64, StepCounts)>>,
    /// The jobs that wait, as they were counted last, and when. Units: milliseconds since the Unix epoch.
    depth: RefCell<(u64, Vec<(Subject, u64)>)>,
}

impl LedgerFigures {
    /// Notes steps that the record has.
    pub(super) fn note(&self, taken: Vec<Taken>, now_ms: u64) {
        let (mut subjects, mut minutes) = (self.subjects.borrow_mut(), self.minutes.borrow_mut());
        let minute = now_ms / MINUTE_MS;
        if minutes.back().is_none_or(|(last, _)| *last != minute) {
            minutes.push_back((minute, StepCounts::default()));
            if minutes.len() > MINUTES_MAX {
                minutes.pop_front();
            }
        }
        for it in taken {
            let is_full = subjects.len() >= SUBJECTS_MAX && !subjects.contains_key(&it.subject);
            let counts = subjects.entry(if is_full { Subject::other() } else { it.subject }).or_default();
            let place = it.step as usize;
            counts.steps[place] += 1;
            if let Some((_, steps)) = minutes.back_mut() {
                steps[place] += 1;
            }
            if let Some(latency_ms) = it.latency_ms {
                let seconds = latency_ms as f64 / 1_000.0;
                counts.within
                    [LATENCY_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS.len())] += 1;
                counts.latency_sum += seconds;
            }
        }
    }

    /// Notes how many jobs wait, most first.
    pub(super) fn note_depth(&self, depth: Vec<(Subject, u64)>, now_ms: u64) {
        let mut kept: Vec<(Subject, u64)> = Vec::new();
        let mut other = 0;
        for (subject, jobs) in depth {
            if kept.len() < SUBJECTS_MAX { kept.push((subject, jobs)) } else { other += jobs }
        }
        if other > 0 {
            kept.push((Subject::other(), other));
        }
        *self.depth.borrow_mut() = (now_ms, kept);
    }

    /// The figures of each job type and tenant.
    pub(super) fn subjects(&self) -> BTreeMap<Subject, Counts> {
        self.subjects.borrow().clone()
    }

    /// The last minutes with steps, oldest first: when each began, in milliseconds since the Unix epoch, and its steps.
    pub(super) fn minutes(&self) -> Vec<(u64, StepCounts)> {
        self.minutes.borrow().iter().map(|(minute, steps)| (minute * MINUTE_MS, *steps)).collect()
    }

    /// The jobs that wait, and when they were counted.
    pub(super) fn depth(&self) -> (u64, Vec<(Subject, u64)>) {
        self.depth.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(tenant: usize, step: Step, latency_ms: Option<u64>) -> Taken {
        Taken { subject: Subject::new(Some("t"), Some(&tenant.to_string())), step, latency_ms }
    }

    #[test]
    fn the_words_of_clients_give_a_bounded_number_of_pairs() {
        let figures = LedgerFigures::default();
        figures.note((0..500).map(|tenant| taken(tenant, Step::Enqueued, None)).collect(), 0);
        let subjects = figures.subjects();
        assert_eq!(subjects.len(), SUBJECTS_MAX + 1);
        assert_eq!(subjects[&Subject::other()].steps[Step::Enqueued as usize], 400);
        figures.note_depth((0..300).map(|tenant| (Subject::new(None, Some(&tenant.to_string())), 2)).collect(), 7);
        let (at, depth) = figures.depth();
        assert_eq!((at, depth.len(), depth.last()), (7, SUBJECTS_MAX + 1, Some(&(Subject::other(), 400))));
    }

    #[test]
    fn steps_are_counted_by_minute_and_completed_jobs_by_their_latency() {
        let figures = LedgerFigures::default();
        for minute in 0..100 {
            figures
                .note(vec![taken(1, Step::Succeeded, Some(700)), taken(1, Step::Failed, None)], minute * MINUTE_MS + 5);
        }
        let minutes = figures.minutes();
        assert_eq!((minutes.len(), minutes[0].0, minutes[59].1[Step::Failed as usize]), (60, 40 * MINUTE_MS, 1));
        let counts = figures.subjects().into_values().next().unwrap();
        assert_eq!((counts.within[2], counts.within.iter().sum::<u64>()), (100, 100));
        assert!((counts.latency_sum - 70.0).abs() < 1e-6);
    }
}
