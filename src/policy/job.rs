//! The parts of a job that routing reads.

use std::borrow::Cow;

use crate::ojs::{MetaText, Unclear};

/// The attributes that decide where a job goes, borrowed from its body.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// `ojs.federation.region`: the job runs there or nowhere.
    pub pin: Option<&'a str>,
    /// `ojs.federation.region_affinity`: the name of a strategy.
    pub affinity: Option<&'a str>,
    /// The job's type, for rules.
    pub job_type: Option<&'a str>,
    /// Its queue, for rules and load figures.
    pub queue: &'a str,
    /// Its tags, for rules.
    pub tags: &'a [Cow<'a, str>],
    /// `ojs.federation.weights`: region to share, for `weighted`. A value that is no finite positive number counts as
    /// zero.
    pub weights: Option<&'a [(String, f64)]>,
    /// A text member of its meta by key, for rules and for `geographic`.
    pub meta: &'a dyn Fn(&str) -> MetaText<'a>,
    /// The tenant that the call's head names; a job's own `meta.tenant_id` must be the same.
    pub tenant: Option<&'a str>,
    /// `ojs.federation.regions_with`: tags, with commas between, that a region must all have.
    pub regions_with: Option<&'a str>,
    /// Which of its members servers could read in another way.
    pub unclear: Unclear,
    /// Whether its client may send it again under a name: an id, a tracking id or a `unique` policy of its own.
    pub repeatable: bool,
}

impl<'a> Job<'a> {
    /// A job that says nothing but its queue.
    #[must_use]
    pub fn plain(queue: &'a str) -> Self {
        Self {
            pin: None,
            affinity: None,
            job_type: None,
            queue,
            tags: &[],
            weights: None,
            meta: &|_| MetaText::default(),
            tenant: None,
            regions_with: None,
            unclear: Unclear::default(),
            repeatable: false,
        }
    }
}

impl std::fmt::Debug for Job<'_> {
    // Shows the fields that routing reads and leaves out meta, whose values may appear nowhere.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("pin", &self.pin)
            .field("affinity", &self.affinity)
            .field("job_type", &self.job_type)
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
