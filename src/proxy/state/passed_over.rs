//! A region that was passed over because connecting to it took too long.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::net::pool::Pool;
use crate::policy::silence::PASSED_OVER_FOR;

/// When a job last went elsewhere because no connection came, and how many connections had been made by then.
#[derive(Debug, Default)]
pub(crate) struct PassedOver(Cell<Option<(Instant, u64)>>);

impl PassedOver {
    pub(crate) fn note(&self, now: Instant, pool: &Pool) {
        // The first moment counts, so that calls which pass it over do not put off the next try for ever.
        if self.ago(now, pool).is_none_or(|ago| ago >= PASSED_OVER_FOR) {
            self.0.set(Some((now, pool.connections_made())));
        }
    }

    /// How long ago that was, unless a connection has been made since.
    pub(crate) fn ago(&self, now: Instant, pool: &Pool) -> Option<Duration> {
        let (at, made) = self.0.get()?;
        (pool.connections_made() == made).then(|| now.saturating_duration_since(at))
    }
}
