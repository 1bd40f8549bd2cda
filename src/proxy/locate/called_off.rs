//! Jobs that were cancelled before they began.

use crate::ojs::{Progress, progress};
use crate::outcome;
use crate::proxy::body::shown_job::far;

/// `Retry-After` where no cooldown is known. Units: seconds.
pub(super) const RETRY_AFTER_MIN: u64 = 1;

/// Whether an answer or an item shows a job that was cancelled before any worker had it. Such a job may be the
/// cancelled copy of one that lives in another region under the same id, so that it does not show where the job is.
pub(crate) fn was_called_off(shown: &[u8]) -> bool {
    progress(shown).is_some_and(|it| is_called_off(&it))
}

/// The same for a progress that was read before.
pub(crate) fn is_called_off(shown: &Progress) -> bool {
    far(shown) == outcome::Progress::Cancelled
}
