//! The changes of jobs that pass, for the index of the hub. Where the hub is to get none, each function is one load and a branch.

use std::time::Duration;

use super::shared::Shared;
use crate::base::RegionId;
use crate::base::text::read_rfc3339;
use crate::ojs::Envelope;
use crate::ojs::worker::ClaimedJob;
use crate::replica::{ChangeKind, Description, Details, Outline, Seen, SentJob, Stored};

impl Shared {
    /// A region has stored a job, by this answer, which is empty where it shows several. `ids`: its own and its tracking id, as far as they are
    /// known.
    pub(crate) fn saw_stored(
        &self,
        (own_id, federation_id): (Option<&[u8]>, Option<&[u8]>),
        region: &RegionId,
        (outline, sent): (Outline, SentJob),
        answer: &[u8],
    ) {
        let at_ms = self.registry.clock().unix_ms_about();
        self.outbox.add_stored(Stored { own_id, federation_id, region, at_ms, outline, sent }, answer);
    }

    /// A job was found stored whose answer was lost.
    pub(crate) fn saw_found(&self, job_id: &str, federation_id: Option<&str>, region: &RegionId) {
        if self.outbox.is_on() {
            // Where rules differ it is not known whether the ledger has it: it is kept out.
            let is_ledgered =
                self.outbox.is_ledger() && self.config.routing.rules.iter().all(|rule| rule.ledger.is_none());
            let details = is_ledgered.then(Details::default);
            self.outbox.add(&Seen { federation_id, details, ..self.seen(ChangeKind::Created, job_id, region) });
        }
    }

    /// A worker gets a job. `visibility`: how long it is leased, where that is known.
    pub(crate) fn saw_leased(&self, job: &ClaimedJob<'_>, region: &RegionId, visibility: Option<Duration>) {
        // Spent also where no hub hears of the job.
        let trial = if self.breakers.is_on() { self.breakers.came(&job.queue) } else { None };
        if !self.outbox.is_on() || job.id.is_empty() {
            return;
        }
        let seen = self.seen(ChangeKind::Leased, &job.id, region);
        let envelope = job.envelope().ok();
        let attributes = envelope.as_ref().map(Envelope::attributes);
        // No description of the job: the rules that bind it are known where it was enqueued.
        let described = Description::new(attributes.and_then(|it| it.replicated_from.as_deref()), None);
        let described = match trial {
            Some(trial) => described.of_trial(trial),
            None => described,
        };
        let lease_ms = job.started_at.as_deref().and_then(read_rfc3339).unwrap_or(seen.at_ms);
        let details = || Details {
            worker: job.worker_id.as_deref(),
            lease_until_ms: visibility.map(|it| after(lease_ms, it)),
            ..Details::default()
        };
        self.outbox.add(&Seen {
            lease_ms,
            details: self.outbox.is_ledger().then(details),
            federation_id: attributes.and_then(|it| it.federation_id.as_deref()),
            described: Some(&described),
            ..seen
        });
    }

    /// Something else has become of a job, within the lease that is known of it. `state`: by the word of its region.
    pub(crate) fn saw(&self, kind: ChangeKind, job_id: &str, region: &RegionId, state: Option<&str>) {
        if !self.outbox.is_on() {
            return;
        }
        let lease = self.journal.lease_of(job_id).filter(|lease| lease.region == *region);
        let seen = self.seen(kind, job_id, region);
        let began_ms = lease.as_ref().and_then(|lease| read_rfc3339(lease.started_at.as_deref()?));
        let lease_ms = began_ms.unwrap_or(match kind {
            // One fact for all extensions, and one end.
            ChangeKind::Failed => seen.at_ms,
            _ => 0,
        });
        let lease = lease.as_ref();
        let details = self.outbox.is_ledger().then(|| Details {
            worker: lease.and_then(|lease| lease.worker_id.as_deref()),
            lease_until_ms: lease
                .filter(|_| kind == ChangeKind::Extended)
                .map(|lease| after(seen.at_ms, lease.visibility)),
            ..Details::default()
        });
        self.outbox.add(&Seen { lease_ms, state, details, ..seen });
    }

    fn seen<'a>(&self, kind: ChangeKind, job_id: &'a str, region: &'a RegionId) -> Seen<'a> {
        let at_ms = self.registry.clock().unix_ms_about();
        let (federation_id, state, enqueued_ms, described, details) = (None, None, None, None, None);
        Seen { job_id, region, kind, lease_ms: 0, at_ms, federation_id, state, enqueued_ms, described, details }
    }
}

/// A time later. Units: milliseconds since the Unix epoch.
fn after(at_ms: u64, wait: Duration) -> u64 {
    at_ms.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}
