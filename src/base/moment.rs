//! A moment on the journal's clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds on a clock that never goes back and does not follow jumps of the wall clock; near the Unix epoch's count, so that people
/// can read it as a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The time since an earlier moment; zero where that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// So long after this one.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }
}
