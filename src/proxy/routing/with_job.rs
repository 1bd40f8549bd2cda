//! The parts of an envelope that routing needs.

use crate::ojs::Envelope;
use crate::policy::Job;

/// Gives routing the parts of an envelope that it needs.
pub(crate) fn with_job<T>(envelope: &Envelope<'_>, decide: impl FnOnce(&Job<'_>) -> T) -> T {
    with_word(envelope, None, decide)
}

/// As [`with_job`], with a strategy for a job that names none itself.
pub(crate) fn with_word<T>(envelope: &Envelope<'_>, word: Option<&str>, decide: impl FnOnce(&Job<'_>) -> T) -> T {
    let attributes = envelope.attributes();
    let meta = |key: &str| envelope.meta_text(key);
    decide(&Job {
        pin: attributes.region.as_deref(),
        affinity: attributes.region_affinity.as_deref().or(word),
        job_type: envelope.job_type(),
        queue: envelope.queue(),
        tags: envelope.tags(),
        weights: attributes.weights.as_deref(),
        meta: &meta,
        tenant: envelope.caller_tenant(),
        regions_with: attributes.regions_with.as_deref(),
        unclear: envelope.unclear(),
        repeatable: envelope.id().is_some() || attributes.federation_id.is_some() || envelope.is_unique(),
    })
}
