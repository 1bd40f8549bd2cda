//! Which job of its call a row of the journal is about.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::judge::{Copy, Row};
use super::ledger::{End, Issue, JobId, Mark};

/// The rows of every job, by mark.
///
/// A row that names a job is about that one: of a batch the one that is stored under this id, else the one that has it by what its client was
/// told. Where there is none, the first job of the call answers for it. A row that names none is about all jobs of its call.
pub(super) fn by_job(
    by_call: &HashMap<Mark, Vec<Row>>,
    issues: &[Issue],
    copies: &[SmallVec<[Copy; 1]>],
) -> Vec<SmallVec<[Row; 1]>> {
    let mut of = vec![SmallVec::new(); issues.len()];
    for (first, rows) in by_call {
        let first = *first as usize;
        let members = first..issues.len();
        let members = members.take_while(|mark| issues.get(*mark).is_some_and(|it| it.first as usize == first));
        let members: SmallVec<[usize; 4]> = members.collect();
        let has =
            |mark: &&usize, id: JobId| copies.get(**mark).is_some_and(|copies| copies.iter().any(|copy| copy.id == id));
        let was_told = |mark: &&usize, id: JobId| {
            issues.get(**mark).is_some_and(|issue| issue.sends.iter().any(|send| tells(send.end, id)))
        };
        let member =
            |id| members.iter().find(|mark| has(mark, id)).or_else(|| members.iter().find(|mark| was_told(mark, id)));
        for row in rows {
            let about: &[usize] = match row.job {
                None => &members,
                Some(id) => member(id).or(members.first()).map_or(&[], std::slice::from_ref),
            };
            for mark in about {
                if let Some(rows) = of.get_mut(*mark) {
                    rows.push(*row);
                }
            }
        }
    }
    of
}

fn tells(end: End, id: JobId) -> bool {
    matches!(end, End::Stored(told) | End::Unknown(Some(told)) if told == id)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Send;
    use super::*;
    use crate::journal::State;

    fn issue(first: Mark, ends: &[End]) -> Issue {
        let send = |end: &End| Send { epoch: 0, began_ms: 0, ended_ms: 1, end: *end };
        Issue { client: "", permitted: 7, own: None, keyed: false, first, sends: ends.iter().map(send).collect() }
    }

    fn row(job: Option<JobId>) -> Row {
        let state = State::Landed;
        let (elsewhere, cancelled_in, resolved_ms) = (None, None, None);
        Row { job, region: 0, send: 0, at_ms: 1, state, elsewhere, cancelled_in, resolved_ms, kept: true }
    }

    fn copy(id: JobId) -> SmallVec<[Copy; 1]> {
        SmallVec::from_elem(Copy { region: 0, id, cancelled: true, stored: 1, created_ms: 1 }, 1)
    }

    #[test]
    fn a_row_is_about_the_job_that_it_names_and_else_about_all_of_the_call() {
        let unknown = End::Unknown(Some(8));
        let refused = End::Refused(500);
        // Not its own.
        let told = End::Stored(9);
        // A job on its own, a batch of three, and one on its own again.
        let issues = [issue(0, &[]), issue(1, &[told]), issue(1, &[unknown]), issue(1, &[refused]), issue(4, &[])];
        let copies = [copy(7), copy(7), SmallVec::new(), copy(9), copy(9)];
        let of = |job| {
            let of = by_job(&HashMap::from([(1, vec![row(job)])]), &issues, &copies);
            of.iter().enumerate().filter(|(_, rows)| !rows.is_empty()).map(|(mark, _)| mark).collect::<Vec<_>>()
        };
        assert_eq!((of(Some(9)), of(Some(8))), (vec![3], vec![2]), "stored under it, or told of it");
        assert_eq!(of(None), [1, 2, 3]);
        assert_eq!(of(Some(10)), [1], "nobody's: the first is judged by it");
    }
}
