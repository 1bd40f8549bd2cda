//! Switches for clients and servers that differ from the specification.

/// Switches for real clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Compat {
    /// Who gets `application/json` in place of the OJS media type.
    pub json_content_type: JsonContentType,
    /// What happens to a client's own `ojs.federation.replicated_from`.
    pub client_replicated_from: ClientReplicatedFrom,
    /// What happens to a job with a key under `ojs.federation.` that is not defined and looks like none that is.
    pub unknown_federation_keys: UnknownKeys,
    /// Whether heartbeats that count their jobs in `active_jobs` and list them apart are rewritten as servers accept them.
    pub heartbeat_ids: bool,
    /// Whether a `directive` in the answer to a heartbeat is copied to `state`, the only place where SDKs look.
    pub directive: bool,
    /// Whether a region's `Retry-After` is made a positive whole number of seconds.
    pub retry_after: bool,
    /// Whether the event stream that SDKs ask for is translated to one that servers have.
    pub event_stream: bool,
}

/// Who gets `application/json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonContentType {
    /// Clients known to need it, by user agent: the Python SDK.
    Auto,
    /// Everyone.
    Always,
    /// Nobody.
    Never,
}

/// What happens to a client-set `replicated_from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientReplicatedFrom {
    /// Passed untouched and counted.
    Pass,
    /// Refused with 400.
    Reject,
}

/// What happens to a job with an undefined `ojs.federation.*` key. One that looks like a defined key is refused in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKeys {
    /// Passed untouched and counted; the dry run names the keys.
    Pass,
    /// Passed, counted, and a line in the log.
    Warn,
    /// Refused with 400.
    Reject,
}
