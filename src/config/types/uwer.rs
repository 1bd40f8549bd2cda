//! Tasks of the legacy orchestration UWER.

/// The ingress of tasks. Spec: UWER §3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uwer {
    /// The types and queues of their jobs, by the service that sent them; the first glob that fits decides.
    pub origins: Vec<UwerOrigin>,
}

/// The type and queue of the jobs of some services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UwerOrigin {
    /// A glob over `OriginService`: `*` stands for any run of characters, `?` for one.
    pub origin: String,
    /// The type of the jobs.
    pub job_type: String,
    /// The queue of the jobs.
    pub queue: String,
}

impl UwerOrigin {
    /// The type of jobs of a service that no glob fits.
    pub const TYPE: &str = "uwer.task";
    /// The queue of jobs of a service that no glob fits.
    pub const QUEUE: &str = "uwer";
}
