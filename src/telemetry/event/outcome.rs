//! Lines about unknown outcomes after they were answered, and about the journal that holds them.

use std::path::Path;

use tracing::{error, info, warn};

use super::TARGET;
use crate::telemetry::{Metrics, Resolution};

/// Where the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalState {
    /// In memory, because no file is configured.
    Memory,
    /// In its file.
    Durable,
    /// In memory, because the file cannot be used now; the word says why.
    Failed(&'static str),
    /// In memory, with the content of a file that can be read but not written; the word has the reason.
    ReadOnly(&'static str),
    /// In a new file, because the old one cannot be used; it was moved aside with this word in its name, which says why.
    Renewed(&'static str),
}

/// An unknown outcome is cleared up.
pub fn outcome_resolved(metrics: &Metrics, result: Resolution, region: &str, job_id: Option<&str>) {
    metrics.outcomes[result].inc();
    let word = result.as_str();
    match result {
        Resolution::Found | Resolution::Landed | Resolution::Absent => info!(
            target: TARGET, event = "ojs.federation.outcome_resolved", result = word, region, job_id,
            "it is known now what became of an enqueue"
        ),
        Resolution::Cancelled | Resolution::Expired | Resolution::Doubled | Resolution::Decided => warn!(
            target: TARGET, event = "ojs.federation.outcome_resolved", result = word, region, job_id,
            "it is known now what became of an enqueue, or it is not asked about any more"
        ),
    }
}

/// An operator has ruled where a job is, or is not, because its region did not show it.
pub fn outcome_decided(metrics: &Metrics, stored: bool, region: &str, job_id: &str, reason: &str) {
    metrics.outcomes[Resolution::Decided].inc();
    let decided = if stored { "stored" } else { "absent" };
    warn!(
        target: TARGET, event = "ojs.federation.outcome_decided", decided, region, job_id, reason,
        "an operator has decided what became of an enqueue; its region has not said so"
    );
}

/// A job ran in two places: a late copy was stored after the job had gone elsewhere, and neither copy could be stopped
/// in time.
pub fn doubled(metrics: &Metrics, [region, elsewhere]: [&str; 2], [job_id, elsewhere_id]: [&str; 2]) {
    metrics.outcomes[Resolution::Doubled].inc();
    error!(
        target: TARGET, event = "ojs.federation.job_doubled", region, job_id, elsewhere, elsewhere_id,
        "a job landed late, after it had gone elsewhere, and both copies have started: it was done twice"
    );
}

/// Reports where the journal is kept from now on; `path` is its file, where one is configured.
pub fn journal(metrics: &Metrics, state: JournalState, path: Option<&Path>) {
    metrics.journal_durable.set(i64::from(matches!(state, JournalState::Durable | JournalState::Renewed(_))));
    let event = "ojs.federation.journal";
    match state {
        JournalState::Memory => info!(
            target: TARGET, event, durable = false,
            "unknown outcomes are kept in memory only and are lost with the process; set journal.path to keep them"
        ),
        JournalState::Durable => info!(target: TARGET, event, durable = true, "the journal is in its file"),
        JournalState::Failed(why) => warn!(
            target: TARGET, event, durable = false, reason = why, path = %shown(path),
            detail = path.and_then(open_error).map(tracing::field::display),
            "the journal's file cannot be used; routing goes on, what is new is kept in memory, and the file is tried again"
        ),
        JournalState::ReadOnly(why) => warn!(
            target: TARGET, event, durable = false, reason = why, path = %shown(path),
            detail = path.and_then(open_error).map(tracing::field::display),
            "the journal's file cannot be written; what it holds is known, what is new is kept in memory, and writing is tried again"
        ),
        JournalState::Renewed(why) => warn!(
            target: TARGET, event, durable = true, reason = why, path = %shown(path),
            "the journal's file could not be read, or is of an older version, and was moved aside, with the reason in its name; a new \
             one has begun"
        ),
    }
}

fn shown(path: Option<&Path>) -> std::path::Display<'_> {
    path.unwrap_or(Path::new("-")).display()
}

/// Why the kernel refuses the file, which SQLite does not say; none where it opens.
fn open_error(path: &Path) -> Option<std::io::Error> {
    std::fs::OpenOptions::new().read(true).append(true).open(path).err()
}

/// Open records had to make room for others; logged now and then, and counted where the room was made.
pub fn journal_full(pending: bool) {
    let lost = if pending { "pending" } else { "key" };
    warn!(
        target: TARGET, event = "ojs.federation.journal_full", lost,
        "the journal is full: what came first is forgotten before its time, and a repetition of it may not be recognised; raise \
         journal.rows_max"
    );
}
