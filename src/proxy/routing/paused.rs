//! Whether new jobs are accepted: an operator may have paused their type or their tenant.

use crate::ojs::{Envelope, ErrorDocument, Unclear};
use crate::policy::{Job, Paused, Pauses, View};

/// `Retry-After` for a job of a paused type or tenant: an operator may end the pause at any time. Units: seconds.
const RETRY_AFTER: u64 = 30;

/// Whether a job, alone in its call, is accepted.
///
/// Errors: 503 for one of a paused type or tenant; 400 where that cannot be told.
#[inline]
pub(crate) fn check_source(view: &View, envelope: &Envelope<'_>) -> Result<(), ErrorDocument> {
    match &view.pauses {
        None => Ok(()),
        Some(pauses) => check(pauses, envelope, true),
    }
}

/// As [`check_source`] for the jobs of a call with several. The type of an object that no region makes a job of, such as a workflow, is none of
/// a job; its tenant is that of the jobs within.
pub(crate) fn check_sources<'e, 'b: 'e>(
    view: &View,
    mut envelopes: impl Iterator<Item = &'e Envelope<'b>>,
) -> Result<(), ErrorDocument> {
    let Some(pauses) = view.pauses.as_ref().filter(|pauses| pauses.has_sources()) else { return Ok(()) };
    envelopes.try_for_each(|envelope| check(pauses, envelope, envelope.may_be_job()))
}

#[cold]
fn check(pauses: &Pauses, envelope: &Envelope<'_>, is_job: bool) -> Result<(), ErrorDocument> {
    let (job_type, unclear) =
        if is_job { (envelope.job_type(), envelope.unclear()) } else { (None, Unclear::default()) };
    let meta = |key: &str| envelope.meta_text(key);
    let tenant = envelope.caller_tenant();
    let job = Job { job_type, unclear, tenant, meta: &meta, ..Job::plain(envelope.queue()) };
    pauses.check(&job).map_err(|paused| match paused {
        Paused::By(subject) => ErrorDocument::source_paused(&subject, RETRY_AFTER),
        Paused::Unclear { field } => ErrorDocument::unclear_member(&field),
    })
}
