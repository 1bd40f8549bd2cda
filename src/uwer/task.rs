//! A task of UWER, all of its values checked.

use super::flaw::Field;

/// The class of a task. Spec: UWER §5; the document shows `HIGH` alone, and senders have the other two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Before the others.
    High,
    /// Neither.
    Normal,
    /// Behind the others.
    Low,
}

impl Priority {
    /// All, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The word in a task.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "HIGH",
            Self::Normal => "NORMAL",
            Self::Low => "LOW",
        }
    }

    /// The priority of the OJS job, in -100 to 100.
    #[must_use]
    pub const fn of_job(self) -> i32 {
        match self {
            Self::High => 10,
            Self::Normal => 0,
            Self::Low => -10,
        }
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }
}

/// A task of a legacy sender. Its texts are those that were sent, without white space around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    workflow_id: String,
    key: String,
    priority: Priority,
    origin: String,
    max_retries: u16,
    backoff: String,
    timeout_ms: u32,
    payload: String,
}

impl Task {
    /// A task of these texts, in the order of [`Field::ALL`]; white space inside a payload is dropped.
    ///
    /// Errors: the first field with a text that is no value of it.
    pub(super) fn checked(texts: [&str; 8]) -> Result<Self, Field> {
        let payload: String = texts[7].chars().filter(|it| !is_space(*it)).collect();
        let mut texts = texts.map(|text| text.trim_matches(is_space));
        texts[7] = &payload;
        for (field, text) in Field::ALL.into_iter().zip(texts) {
            if !field.fits(text) {
                return Err(field);
            }
        }
        let [workflow_id, key, priority, origin, max_retries, backoff, timeout_ms, _] = texts;
        Ok(Self {
            workflow_id: workflow_id.to_owned(),
            key: key.to_owned(),
            priority: Priority::of(priority).ok_or(Field::Priority)?,
            origin: origin.to_owned(),
            max_retries: max_retries.parse().map_err(|_| Field::MaxRetries)?,
            backoff: backoff.to_owned(),
            timeout_ms: timeout_ms.parse().map_err(|_| Field::TimeoutMs)?,
            payload,
        })
    }

    /// The id of the workflow, in the letter case of the sender.
    #[must_use]
    pub fn workflow_id(&self) -> &str {
        &self.workflow_id
    }

    /// The idempotency key, in the letter case of the sender: 64 hexadecimal digits.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The class.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// The service that sent it.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The attempts after the first one.
    #[must_use]
    pub const fn max_retries(&self) -> u16 {
        self.max_retries
    }

    /// The factor between two waits: a decimal number, with the digits of the sender.
    #[must_use]
    pub fn backoff(&self) -> &str {
        &self.backoff
    }

    /// The longest time of one attempt. Units: milliseconds.
    #[must_use]
    pub const fn timeout_ms(&self) -> u32 {
        self.timeout_ms
    }

    /// The payload as base64, without white space.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// All values in one text, a line each: equal for two documents of one task, also where letter cases of ids, white space or the form differ.
    #[must_use]
    pub fn identity(&self) -> String {
        let (workflow_id, key) = (self.workflow_id.to_ascii_lowercase(), self.key.to_ascii_lowercase());
        let Self { priority, origin, max_retries, backoff, timeout_ms, payload, .. } = self;
        let priority = priority.as_str();
        format!("{workflow_id}\n{key}\n{priority}\n{origin}\n{max_retries}\n{backoff}\n{timeout_ms}\n{payload}")
    }
}

/// The white space of XML and JSON.
pub(super) const fn is_space(it: char) -> bool {
    matches!(it, ' ' | '\t' | '\r' | '\n')
}
