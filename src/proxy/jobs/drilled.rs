//! Counts an enqueue that has a part in a failover drill, once it was answered.

use crate::base::RegionId;
use crate::policy::{DrillPart, Drilled, RegionIndex};
use crate::proxy::{
    placement::job::Job,
    state::{Proxy, Ran},
};
use crate::region::DrilledJob;
use crate::switch::DrillEnd;
use crate::telemetry::{AttemptOutcome, DrillJob};

/// Counts it, where it has one. `job`: with its note.
#[inline]
pub(super) fn count(proxy: &Proxy, job: &Job, ran: &Ran) {
    if let Some(drilled) = job.decision.drilled {
        count_part(proxy, drilled, job, ran);
    }
}

#[cold]
fn count_part(proxy: &Proxy, drilled: Drilled, job: &Job, ran: &Ran) {
    let name = |index: RegionIndex| -> RegionId { proxy.region(index).id.clone() };
    let first = job.note.as_deref().and_then(|note| note.first_try());
    let first = first.map(|(index, outcome, status)| {
        // Its answer was lost, and its region was asked, and has it.
        let is_found = ran.stored == Some(index) && ran.attempts == 1;
        (name(index), if is_found { DrillEnd::Stored } else { end(outcome, status) })
    });
    let label = match (drilled.part, &first) {
        (DrillPart::Kept(_), _) => Some(DrillJob::Kept),
        (DrillPart::Control, Some(_)) => Some(DrillJob::Control),
        (DrillPart::Diverted, Some(_)) => Some(DrillJob::Diverted),
        (DrillPart::Control | DrillPart::Diverted, None) => None,
    };
    if let Some(label) = label {
        proxy.shared.metrics.drill.jobs[label].inc();
    }
    proxy.shared.drills.note(&DrilledJob { drilled, first, stored: ran.stored.map(name), waited: ran.upstream });
}

/// How a try ended.
const fn end(outcome: AttemptOutcome, status: u16) -> DrillEnd {
    match (outcome, status) {
        (AttemptOutcome::Answered, 200..=299) => DrillEnd::Stored,
        (AttemptOutcome::Answered, 400..=499) => DrillEnd::Refused,
        (AttemptOutcome::Answered | AttemptOutcome::NotSent, _) => DrillEnd::Failed,
        (AttemptOutcome::Unknown, _) => DrillEnd::Unknown,
    }
}
