//! The operations of requests, by the table.

use super::scope::Scope;
use crate::ojs::path::normal_path;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `POST jobs`: one job.
    Enqueue,
    /// `POST jobs/batch`.
    Batch,
    /// `POST jobs/bulk`.
    Bulk,
    /// A cron definition is created or changed; the region will create its jobs.
    CronWrite,
    /// A workflow is created or changed; the region will create its jobs.
    WorkflowWrite,
    /// A job is created out of another one: dead letter retried, agent job forked or replayed.
    Recreate,
    /// A worker asks for jobs.
    Fetch,
    /// A job succeeded; its id is in the body.
    Ack,
    /// A job failed; its id is in the body.
    Nack,
    /// A job's progress; its id is in the body.
    Progress,
    /// A worker is alive; several job ids are in the body.
    Heartbeat,
    /// A worker's state.
    WorkerState,
    /// A job's acknowledgement with the id in the path.
    JobSettle,
    /// `GET jobs/{id}`.
    JobGet,
    /// `DELETE jobs/{id}`.
    JobCancel,
    /// Any other call about one job with its id in the path.
    JobScoped,
    /// `POST jobs/results`: the results of several jobs with their ids in the body.
    JobResults,
    /// A call about several jobs with their ids, or a filter for them, in the body.
    JobsById,
    /// `GET queues/{name}/stats`.
    QueueStats,
    /// A queue is paused.
    QueuePause,
    /// A queue is resumed.
    QueueResume,
    /// A queue's jobs are removed.
    QueuePurge,
    /// A queue is removed.
    QueueDelete,
    /// Anything else about one queue.
    QueueScoped,
    /// `GET queues`.
    Queues,
    /// `GET admin/stats`.
    AdminStats,
    /// Any other list or aggregate.
    List,
    /// A cron definition is read, removed or triggered.
    Cron,
    /// A workflow is read or cancelled.
    Workflow,
    /// Schemas, webhooks, rate limits and other definitions.
    Definition,
    /// Events of one job.
    JobEvents,
    /// Events of one queue.
    QueueEvents,
    /// Any other event stream.
    Events,
    /// A WebSocket.
    WebSocket,
    /// `GET health`.
    Health,
    /// `GET /ojs/manifest`.
    Manifest,
    /// Any other question about the server itself.
    System,
    /// The registry.
    FederationRegions,
    /// The dry run.
    FederationRoute,
    /// The federation's health.
    FederationHealth,
    /// `GET /v1/federation/outcomes`.
    FederationOutcomes,
    /// `GET /v1/federation/decisions`.
    FederationDecisions,
    /// Below the federation paths, but not one of the three with its method.
    FederationOther,
    /// Not in the table.
    Unknown,
}

impl Operation {
    /// The name, as logs carry it in place of the path.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Batch => "batch",
            Self::Bulk => "bulk",
            Self::CronWrite => "cron_write",
            Self::WorkflowWrite => "workflow_write",
            Self::Recreate => "recreate",
            Self::Fetch => "fetch",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Progress => "progress",
            Self::Heartbeat => "heartbeat",
            Self::WorkerState => "worker_state",
            Self::JobSettle => "job_settle",
            Self::JobGet => "job_get",
            Self::JobCancel => "job_cancel",
            Self::JobScoped => "job_scoped",
            Self::JobResults => "job_results",
            Self::JobsById => "jobs_by_id",
            Self::QueueStats => "queue_stats",
            Self::QueuePause => "queue_pause",
            Self::QueueResume => "queue_resume",
            Self::QueuePurge => "queue_purge",
            Self::QueueDelete => "queue_delete",
            Self::QueueScoped => "queue_scoped",
            Self::Queues => "queues",
            Self::AdminStats => "admin_stats",
            Self::List => "list",
            Self::Cron => "cron",
            Self::Workflow => "workflow",
            Self::Definition => "definition",
            Self::JobEvents => "job_events",
            Self::QueueEvents => "queue_events",
            Self::Events => "events",
            Self::WebSocket => "web_socket",
            Self::Health => "health",
            Self::Manifest => "manifest",
            Self::System => "system",
            Self::FederationRegions => "federation_regions",
            Self::FederationRoute => "federation_route",
            Self::FederationHealth => "federation_health",
            Self::FederationOutcomes => "federation_outcomes",
            Self::FederationDecisions => "federation_decisions",
            Self::FederationOther => "federation_other",
            Self::Unknown => "unknown",
        }
    }
}

/// The routing class of a request: a closed set, so that it can label metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// One job is created.
    Enqueue,
    /// Jobs are created by other ways.
    Create,
    /// Fetch, acknowledgements, heartbeats.
    Worker,
    /// One job or several named ones.
    Job,
    /// One queue.
    Queue,
    /// Lists and aggregates.
    List,
    /// Cron, workflows, schemas, webhooks, administration.
    Definition,
    /// Health and manifest.
    System,
    /// The federation API.
    Federation,
    /// Event streams and WebSockets.
    Stream,
    /// An operation that the table does not know.
    Other,
}

impl Class {
    /// Every class, in the order of their numbers ([`Class::index`]).
    pub const ALL: [Self; 11] = [
        Self::Enqueue,
        Self::Create,
        Self::Worker,
        Self::Job,
        Self::Queue,
        Self::List,
        Self::Definition,
        Self::System,
        Self::Federation,
        Self::Stream,
        Self::Other,
    ];

    /// The name, as metrics and logs carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Create => "create",
            Self::Worker => "worker",
            Self::Job => "job",
            Self::Queue => "queue",
            Self::List => "list",
            Self::Definition => "definition",
            Self::System => "system",
            Self::Federation => "federation",
            Self::Stream => "stream",
            Self::Other => "other",
        }
    }

    /// Its place in [`Class::ALL`], for tables with one entry a class.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The possible content of the body of a request that is not itself a creating call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Ids, results, checkpoints, schemas: nothing that a server makes a job of.
    Data,
    /// A body that some server may take for jobs.
    MayDefineJobs,
    /// The path is not in the table.
    Unknown,
}

/// The table's entry for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matched {
    /// The operation.
    pub operation: Operation,
    /// Its routing class.
    pub class: Class,
    /// Where it goes.
    pub scope: Scope,
    /// Whether it can create jobs, so that its body must be read before it goes anywhere.
    pub creates_jobs: bool,
    /// The possible content of its body; for creating calls, [`Payload::MayDefineJobs`].
    pub payload: Payload,
    /// Which segment of the normal path holds the id or name, where there is one; see [`Matched::named_in`].
    pub(super) placeholder: usize,
    /// Whether the raw path differs from its normal form. With `creates_jobs` the request is refused: servers may read another
    /// path than we did.
    pub raw_differs: bool,
}

impl Matched {
    /// The id or name that the path carries, decoded; empty where it carries none.
    #[must_use]
    pub fn named_in(&self, raw_path: &str) -> String {
        normal_path(raw_path).split('/').nth(self.placeholder).unwrap_or_default().to_owned()
    }
}
