//! The tracking id that a client gave its job itself, by which the job may be a repetition.

use super::shared::Shared;
use crate::config::RepeatedIds;
use crate::ojs::Envelope;
use crate::policy::TENANT_KEY;
use crate::replica::is_text;

/// The names by which the index of the hub is asked whether a job is there already.
#[derive(Debug)]
pub(crate) struct OwnTracking {
    pub(crate) federation_id: String,
    /// The tenant of the job: a tracking id is that of its tenant.
    pub(crate) tenant: Option<String>,
}

impl OwnTracking {
    /// Of a job with the client's own tracking id; `None` where the index is not asked. A job with `replicated_from` is a copy with the tracking id of another job by
    /// intent, so that it is not asked about.
    #[cold]
    pub(crate) fn of(shared: &Shared, envelope: &Envelope<'_>, federation_id: &str) -> Option<Box<Self>> {
        let is_asked = shared.config.hub.as_ref().is_some_and(|hub| hub.repeated_ids == RepeatedIds::Refuse);
        if !is_asked || !is_text(federation_id) || envelope.attributes().replicated_from.is_some() {
            return None;
        }
        let in_meta = envelope.meta_text(TENANT_KEY).text;
        let tenant = in_meta.as_deref().or(envelope.caller_tenant()).map(str::to_owned);
        Some(Box::new(Self { federation_id: federation_id.to_owned(), tenant }))
    }
}
