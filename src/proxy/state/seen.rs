//! The changes of jobs that pass, for the index of the hub. Where the hub is to get none, each function is one load and a branch.

use super::shared::Shared;
use crate::base::RegionId;
use crate::base::text::read_rfc3339;
use crate::ojs::Envelope;
use crate::ojs::answer::ShownJob;
use crate::ojs::worker::ClaimedJob;
use crate::policy::{Decision, TENANT_KEY};
use crate::replica::{Change, ChangeKind, JobFacts};

/// The parts of a job that the index gets when a region has stored it.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    job: JobFacts,
    /// The region that it was replicated from.
    replicated_from: Option<String>,
}

impl Shared {
    /// The description of a job that is about to be sent; none where the hub is to get none. One that is bound to regions without the local one
    /// leaves nothing of itself at the hub here.
    pub(crate) fn described(&self, envelope: &Envelope<'_>, decision: &Decision) -> Option<Box<Described>> {
        if self.outbox.is_on() { Some(self.describe(envelope, decision)) } else { None }
    }

    // Never inlined, as the next one: most sidecars describe nothing, and their calls do not carry its weight.
    #[cold]
    #[inline(never)]
    fn describe(&self, envelope: &Envelope<'_>, decision: &Decision) -> Box<Described> {
        let replicated_from = envelope.attributes().replicated_from.as_deref().map(str::to_owned);
        let bound = decision.pinned || decision.restricted;
        let is_here = !bound || decision.candidates.contains(&self.registry.view().local);
        let job = if is_here { facts(envelope, bound) } else { JobFacts { bound, ..JobFacts::default() } };
        Box::new(Described { job, replicated_from })
    }

    /// A region has stored a job, by this answer.
    #[cold]
    #[inline(never)]
    pub(crate) fn saw_stored(
        &self,
        job: Described,
        ids: (Option<&str>, Option<&str>),
        region: &RegionId,
        answer: &[u8],
    ) {
        let shown = ShownJob::read(answer);
        // By its `unique` policy a region may have answered with another job, which is not described by this call.
        if shown.id.as_deref().is_some_and(|id| ids.0.is_some_and(|own| own != id)) {
            return;
        }
        let Some(job_id) = shown.id.or(ids.0.map(str::to_owned)) else { return };
        let enqueued_ms = shown.enqueued_at.as_deref().and_then(read_rfc3339);
        let Described { job, replicated_from } = job;
        let job = Some(JobFacts { enqueued_ms, ..job });
        let change = self.change(ChangeKind::Created, job_id, region);
        let federation_id = ids.1.map(str::to_owned);
        self.outbox.add(Change { state: shown.state, federation_id, replicated_from, job, ..change });
    }

    /// A region has stored one of several jobs.
    pub(crate) fn saw_stored_among(
        &self,
        job_id: &str,
        job: Described,
        federation_id: Option<String>,
        region: &RegionId,
    ) {
        let change = self.change(ChangeKind::Created, job_id.to_owned(), region);
        let Described { job, replicated_from } = job;
        self.outbox.add(Change { federation_id, replicated_from, job: Some(job), ..change });
    }

    /// A job was found stored whose answer was lost.
    pub(crate) fn saw_found(&self, job_id: &str, federation_id: Option<&str>, region: &RegionId) {
        if self.outbox.is_on() {
            let change = self.change(ChangeKind::Created, job_id.to_owned(), region);
            self.outbox.add(Change { federation_id: federation_id.map(str::to_owned), ..change });
        }
    }

    /// A worker gets a job.
    pub(crate) fn saw_leased(&self, job: &ClaimedJob<'_>, region: &RegionId) {
        if !self.outbox.is_on() || job.id.is_empty() {
            return;
        }
        let change = self.change(ChangeKind::Leased, job.id.clone().into_owned(), region);
        let lease_ms = job.started_at.as_deref().and_then(read_rfc3339).unwrap_or(change.at_ms);
        let envelope = job.envelope().ok();
        let attributes = envelope.as_ref().map(Envelope::attributes);
        let text = |text: Option<&str>| text.map(str::to_owned);
        self.outbox.add(Change {
            lease_ms,
            federation_id: text(attributes.and_then(|it| it.federation_id.as_deref())),
            replicated_from: text(attributes.and_then(|it| it.replicated_from.as_deref())),
            // No description: the rules that bind the job are known where it was enqueued.
            ..change
        });
    }

    /// Something else has become of a job, within the lease that is known of it. `state`: by the word of its region.
    pub(crate) fn saw(&self, kind: ChangeKind, job_id: &str, region: &RegionId, state: Option<String>) {
        if !self.outbox.is_on() {
            return;
        }
        let lease = self.journal.lease_of(job_id).filter(|lease| lease.region == *region);
        let change = self.change(kind, job_id.to_owned(), region);
        let lease_ms = lease.and_then(|lease| read_rfc3339(lease.started_at.as_deref()?)).unwrap_or(match kind {
            // One fact for all extensions, and one end.
            ChangeKind::Failed => change.at_ms,
            _ => 0,
        });
        self.outbox.add(Change { lease_ms, state, ..change });
    }

    fn change(&self, kind: ChangeKind, job_id: String, region: &RegionId) -> Change {
        Change {
            job_id,
            region: region.clone(),
            kind,
            lease_ms: 0,
            at_ms: self.registry.clock().unix_ms_about(),
            federation_id: None,
            state: None,
            replicated_from: None,
            job: None,
        }
    }
}

/// The description of a job: nothing of its arguments and meta values but the tenant.
pub(crate) fn facts(envelope: &Envelope<'_>, bound: bool) -> JobFacts {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let tenant = envelope.meta_text(TENANT_KEY).text;
    JobFacts {
        job_type: envelope.job_type().and_then(text),
        queue: text(envelope.queue()),
        tenant: tenant.as_deref().or(envelope.caller_tenant()).and_then(text),
        bound,
        enqueued_ms: None,
    }
}
