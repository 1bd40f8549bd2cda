//! The errors of tasks of the legacy orchestration UWER.

use super::ErrorDocument;
use crate::base::Reason;
use crate::uwer::Flaw;

impl ErrorDocument {
    /// 422: a document is no task, and is a dead letter of this name at the hub. `has_bytes`: whether the hub has its bytes. Spec: UWER §4, 0xFF.
    #[must_use]
    pub fn uwer_dead_letter(flaw: &Flaw, letter: &str, has_bytes: bool) -> Self {
        let kept =
            if has_bytes { "with its bytes" } else { "without its bytes, which may not be there or are too many" };
        let message = format!(
            "the task was refused and is a dead letter (0xFF): {flaw}. Nothing was enqueued: mend it and send it again; the hub has it as \
             `details.letter`, {kept}"
        );
        Self::new(Reason::UwerDeadLetter, message)
            .with("code", "0xFF")
            .with("state", "DEAD_LETTER")
            .with("why", flaw.kind.as_str())
            .with("field", flaw.field.clone())
            .with("line", flaw.line)
            .with("expected", flaw.expected.clone())
            .with("letter", letter)
    }

    /// 415: the media type is none of a task.
    #[must_use]
    pub fn uwer_media_type() -> Self {
        let message = "expected a task as `application/xml`, `text/xml` or, for the way to v5, `application/json`, each in UTF-8; set `Content-Type`";
        Self::new(Reason::UwerMediaType, message).with("field", "Content-Type")
    }

    /// 503: the central store does not answer, or refuses. `why` is a closed word. Units: `retry_after` in seconds.
    #[must_use]
    pub fn uwer_store(why: &'static str, retry_after: u64) -> Self {
        let message = "the hub, which is the central store of UWER, does not commit this now (`details.why`), so that it is not accepted: send it again later, \
                       with the same idempotency key; it becomes one job";
        Self::unavailable(Reason::UwerStore, retry_after, message).with("why", why)
    }

    /// 503: another call has the task, or its job may be stored. Units: `retry_after` in seconds.
    #[must_use]
    pub fn uwer_unsettled(retry_after: u64) -> Self {
        let message = "a call with the same idempotency key is under way, or it is not known yet whether its job is stored; send the task again \
                       later, with the same key: it becomes one job";
        Self::unavailable(Reason::UwerUnsettled, retry_after, message)
    }

    /// 404: the store has no such task.
    #[must_use]
    pub fn uwer_no_task() -> Self {
        let message =
            "the hub has no task of UWER with this id: expected the id of a workflow, or of the job of a task";
        Self::new(Reason::UwerNoTask, message)
    }
}
