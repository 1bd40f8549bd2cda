//! The open incidents as a sidecar gets them.

use super::super::incident::Incident;
use crate::fleet::FeedBreakers;
use crate::policy::StoppedType;

/// The event for a sidecar: the types and tenants that are stopped, with its own permissions.
pub(in crate::hub) fn stopped_for(open: &[Incident], sidecar: &str) -> FeedBreakers {
    let stopped = open.iter().filter_map(|it| {
        let course = &it.content.course;
        let trial = course.trial().filter(|trial| trial.sidecar == sidecar && trial.job.is_none());
        Some(StoppedType {
            job_type: it.job_type.clone(),
            tenant: it.tenant.clone(),
            queues: it.content.queues.clone(),
            until_ms: course.until_ms()?,
            behind_ms: it.content.terms.probe_ms,
            spread_ms: course.pause_ms,
            delay_ms: course.is_half_open().then_some(course.pause_ms),
            trial: trial.map(|trial| it.trial_name(trial.number)),
        })
    });
    FeedBreakers { stopped: stopped.collect() }
}
