//! Parts of a job as routing reads them.

use std::borrow::Cow;

/// The client's own `id`.
#[derive(Clone, Default)]
pub(in crate::ojs) enum Id<'b> {
    #[default]
    Absent,
    /// `null`, which counts as absent; its offset.
    Null(usize),
    Text(Cow<'b, str>),
    /// Left to the region to judge.
    Other,
}

/// Which members of a job servers could read in another way than routing does: `queue` and `options.queue` that differ, tags that do,
/// values of another kind than the specification's. A rule that decides where a job may go cannot be applied to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unclear {
    /// `type`.
    pub job_type: bool,
    /// `queue` or `options.queue`.
    pub queue: bool,
    /// `tags` or `options.tags`.
    pub tags: bool,
}
