//! Why a question of our own to a region has no answer.

use crate::net::pool::{Cut, NotSent};

/// The path of every OJS server's health. Spec: federation-spec §4.2.
pub(super) const HEALTH_PATH: &str = "/ojs/v1/health";

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No connection came about.
    #[error(transparent)]
    NotSent(NotSent),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(Cut),
    /// No whole answer within the time.
    #[error("no answer in time")]
    Timeout,
    /// The answer was longer than its bound.
    #[error("the answer is longer than what is asked for ever is")]
    TooLong,
}
