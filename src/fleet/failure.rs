//! Why a request to a hub failed.

/// Why a connection to the hub is over, or a request to it failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The hub answers, and does not take the request.
    Refused(String),
    /// The hub does not answer the request in time.
    Slow(String),
    /// The connection is lost, or never came about.
    Lost(String),
    /// It has lived for long enough: the next one shows the certificates of today.
    Renewal,
}

impl Failure {
    pub(super) fn lost(error: impl std::fmt::Display) -> Self {
        Self::Lost(error.to_string())
    }
}
