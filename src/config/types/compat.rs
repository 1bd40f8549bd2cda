//! Switches for clients and servers that differ from the specification.

/// The receivers of `application/json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonContentType {
    /// Clients known to need it, by user agent: the Python SDK.
    Auto,
    /// Everyone.
    Always,
    /// No client.
    Never,
}

/// The treatment of a client's own `replicated_from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientReplicatedFrom {
    /// Passed untouched and counted.
    Pass,
    /// Refused with 400.
    Reject,
}

/// The treatment of a job with an undefined `ojs.federation.*` key. A key that looks like a defined one is refused in
/// any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKeys {
    /// Passed untouched and counted; the dry run names the keys.
    Pass,
    /// Passed, counted, and a line in the log.
    Warn,
    /// Refused with 400.
    Reject,
}
