//! The failures of a job: in a worker's words, and in the job's history.

use super::answer::Object;
use super::members::Members;
use crate::text::rfc3339;

/// A worker's report about a failed job, or the region's own about one whose worker was silent.
#[derive(Debug, Default)]
pub(super) struct Failure {
    /// The members of `error`.
    pub(super) error: Members,
    /// Whether the job may be tried again.
    pub(super) retryable: bool,
    /// The worker gives the job back unharmed.
    pub(super) requeue: bool,
}

/// The wish of the error itself, before any policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Policy,
    Discard,
    DeadLetter,
}

impl Failure {
    /// The region's own word: a job that took too long.
    pub(super) fn lapsed(kind: &str, message: &str) -> Self {
        let text =
            |name: &str, value: &str| serde_json::value::to_raw_value(value).ok().map(|raw| (name.to_owned(), raw));
        let members = [text("code", "timeout"), text("type", kind), text("message", message)];
        Self { error: Members(members.into_iter().flatten().collect()), retryable: true, requeue: false }
    }

    /// The words that the entries of `non_retryable_errors` are compared with.
    pub(super) fn kinds(&self) -> impl Iterator<Item = String> + use<> {
        let text = |members: &Members, name| members.read::<String>(name, "").ok().flatten();
        let details = self.error.read::<Members>("details", "").ok().flatten().unwrap_or_default();
        [text(&self.error, "type"), text(&details, "error_class"), text(&self.error, "code")].into_iter().flatten()
    }

    /// The wish of the worker's code about the job's future.
    pub(super) fn wish(&self) -> Wish {
        match self.error.read::<String>("code", "").ok().flatten().as_deref() {
            Some("DISCARD" | "FAIL") => Wish::Discard,
            Some("DEAD_LETTER") => Wish::DeadLetter,
            _ => Wish::Policy,
        }
    }

    /// The entry in the job's history: the report, byte for byte, and the members of every entry.
    pub(super) fn entry(&self, attempt: u32, at_ms: u64) -> String {
        const OURS: [&str; 3] = ["attempt", "occurred_at", "timestamp"];
        let said = self.error.0.iter().filter(|(key, _)| !OURS.contains(&key.as_str()));
        let mut entry = said.fold(Object::new(), |object, (key, value)| object.raw(key, value.get()));
        let lacks = |name| self.error.raw(name).is_none();
        if lacks("type") {
            entry = entry.text("type", self.kinds().next().as_deref().unwrap_or("unknown"));
        }
        if lacks("code") {
            entry = entry.text("code", "handler_error");
        }
        if lacks("message") {
            entry = entry.text("message", "");
        }
        // Two documents name the time differently.
        let at = rfc3339(at_ms);
        entry.number("attempt", attempt).text("occurred_at", &at).text("timestamp", &at).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: &str) -> Failure {
        Failure { error: Members::parse(error.as_bytes()).unwrap(), retryable: true, requeue: false }
    }

    #[test]
    fn a_history_entry_keeps_what_was_said_and_adds_what_is_missing() {
        let entry =
            failure(r#"{"code":"handler_error","details":{"error_class":"E", "n":1E400},"attempt":9}"#).entry(2, 0);
        assert_eq!(
            entry,
            r#"{"code":"handler_error","details":{"error_class":"E", "n":1E400},"type":"E","message":"","attempt":2,"occurred_at":"1970-01-01T00:00:00.000Z","timestamp":"1970-01-01T00:00:00.000Z"}"#
        );
        assert!(failure("{}").entry(1, 0).starts_with(r#"{"type":"unknown","code":"handler_error","message":"""#));
    }

    #[test]
    fn a_code_of_the_handler_can_decide_the_jobs_future() {
        for (code, wish) in [
            ("RETRY", Wish::Policy),
            ("handler_error", Wish::Policy),
            ("DISCARD", Wish::Discard),
            ("FAIL", Wish::Discard),
            ("DEAD_LETTER", Wish::DeadLetter),
        ] {
            assert_eq!(failure(&format!(r#"{{"code":"{code}"}}"#)).wish(), wish, "{code}");
        }
    }
}
