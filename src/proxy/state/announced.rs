//! The word of the local region's manifest about scheduling.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the word of a manifest counts until it is read again: it changes with the version of a server.
const FRESH_FOR: Duration = Duration::from_secs(60);
/// Until a manifest that could not be read is asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Whether the server of the local region schedules fairly itself, as its manifest said last.
#[derive(Debug, Default)]
pub struct Announced(Mutex<Word>);

#[derive(Debug, Default)]
struct Word {
    schedules: bool,
    /// When the manifest is to be read again; none before the first time.
    read_again: Option<Instant>,
}

impl Announced {
    /// The last word; false before the first one. Returns beside it whether the caller is to read the manifest now, which no other is asked to for some seconds.
    pub(crate) fn schedules(&self, now: Instant) -> (bool, bool) {
        let mut word = self.0.lock();
        let is_due = word.read_again.is_none_or(|at| now >= at);
        if is_due {
            word.read_again = Some(now + AGAIN_AFTER);
        }
        (word.schedules, is_due)
    }

    /// The manifest was read.
    pub(crate) fn set(&self, now: Instant, schedules: bool) {
        *self.0.lock() = Word { schedules, read_again: Some(now + FRESH_FOR) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_once_a_minute_and_by_one_call_at_a_time() {
        let (announced, start) = (Announced::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(announced.schedules(at(0)), (false, true));
        assert_eq!(announced.schedules(at(1)), (false, false), "another call reads it");
        assert_eq!(announced.schedules(at(5)), (false, true), "it could not be read");
        announced.set(at(6), true);
        assert_eq!(announced.schedules(at(65)), (true, false));
        assert_eq!(announced.schedules(at(66)), (true, true), "the last word counts meanwhile");
    }
}
