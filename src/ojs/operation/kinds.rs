//! The operations of requests, by the table.

use super::scope::Scope;
use crate::base::words;
use crate::ojs::path::normal_path;

words! {
    /// The operation of a request.
    Operation {
        /// `POST jobs`: one job.
        Enqueue = "enqueue",
        /// `POST jobs/batch`.
        Batch = "batch",
        /// `POST jobs/bulk`.
        Bulk = "bulk",
        /// A cron definition is created or changed; the region will create its jobs.
        CronWrite = "cron_write",
        /// A workflow is created or changed; the region will create its jobs.
        WorkflowWrite = "workflow_write",
        /// A job is created out of another one: dead letter retried, agent job forked or replayed.
        Recreate = "recreate",
        /// A worker asks for jobs.
        Fetch = "fetch",
        /// A job succeeded; its id is in the body.
        Ack = "ack",
        /// A job failed; its id is in the body.
        Nack = "nack",
        /// A job's progress; its id is in the body.
        Progress = "progress",
        /// A worker is alive; several job ids are in the body.
        Heartbeat = "heartbeat",
        /// A worker's state.
        WorkerState = "worker_state",
        /// A job's acknowledgement with the id in the path.
        JobSettle = "job_settle",
        /// `GET jobs/{id}`.
        JobGet = "job_get",
        /// `DELETE jobs/{id}`.
        JobCancel = "job_cancel",
        /// Any other call about one job with its id in the path.
        JobScoped = "job_scoped",
        /// `POST jobs/results`: the results of several jobs with their ids in the body.
        JobResults = "job_results",
        /// A call about several jobs with their ids, or a filter for them, in the body.
        JobsById = "jobs_by_id",
        /// `GET queues/{name}/stats`.
        QueueStats = "queue_stats",
        /// A queue is paused.
        QueuePause = "queue_pause",
        /// A queue is resumed.
        QueueResume = "queue_resume",
        /// A queue's jobs are removed.
        QueuePurge = "queue_purge",
        /// A queue is removed.
        QueueDelete = "queue_delete",
        /// Anything else about one queue.
        QueueScoped = "queue_scoped",
        /// `GET queues`.
        Queues = "queues",
        /// `GET admin/stats`.
        AdminStats = "admin_stats",
        /// Any other list or aggregate.
        List = "list",
        /// A cron definition is read, removed or triggered.
        Cron = "cron",
        /// A workflow is read or cancelled.
        Workflow = "workflow",
        /// Schemas, webhooks, rate limits and other definitions.
        Definition = "definition",
        /// Events of one job.
        JobEvents = "job_events",
        /// Events of one queue.
        QueueEvents = "queue_events",
        /// Any other event stream.
        Events = "events",
        /// A WebSocket.
        WebSocket = "web_socket",
        /// `GET health`.
        Health = "health",
        /// `GET /ojs/manifest`.
        Manifest = "manifest",
        /// Any other question about the server itself.
        System = "system",
        /// The registry.
        FederationRegions = "federation_regions",
        /// The dry run.
        FederationRoute = "federation_route",
        /// The federation's health.
        FederationHealth = "federation_health",
        /// `GET /v1/federation/outcomes`.
        FederationOutcomes = "federation_outcomes",
        /// `GET /v1/federation/decisions`.
        FederationDecisions = "federation_decisions",
        /// `GET /v1/federation/jobs/{federation_id}`, or with `?job_id=`: the record of a job in the hub's index.
        FederationJob = "federation_job",
        /// `POST /uwer/v4/tasks`: a task of the legacy orchestration UWER.
        UwerSubmit = "uwer_submit",
        /// `GET /uwer/v4/tasks/{id}`: the state of tasks.
        UwerTask = "uwer_task",
        /// Below the federation paths, but none of these with its method.
        FederationOther = "federation_other",
        /// Not in the table.
        Unknown = "unknown",
    }
}

impl Operation {
    /// Its routing class.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::Enqueue => Class::Enqueue,
            Self::Batch | Self::Bulk | Self::CronWrite | Self::WorkflowWrite => Class::Create,
            Self::Fetch
            | Self::Ack
            | Self::Nack
            | Self::Progress
            | Self::Heartbeat
            | Self::WorkerState
            | Self::JobSettle => Class::Worker,
            Self::Recreate | Self::JobGet | Self::JobCancel | Self::JobScoped | Self::JobResults | Self::JobsById => {
                Class::Job
            }
            Self::QueueStats
            | Self::QueuePause
            | Self::QueueResume
            | Self::QueuePurge
            | Self::QueueDelete
            | Self::QueueScoped => Class::Queue,
            Self::Queues | Self::AdminStats | Self::List => Class::List,
            Self::Cron | Self::Workflow | Self::Definition => Class::Definition,
            Self::JobEvents | Self::QueueEvents | Self::Events | Self::WebSocket => Class::Stream,
            Self::Health | Self::Manifest | Self::System => Class::System,
            Self::FederationRegions
            | Self::FederationRoute
            | Self::FederationHealth
            | Self::FederationOutcomes
            | Self::FederationDecisions
            | Self::FederationJob
            | Self::UwerSubmit
            | Self::UwerTask
            | Self::FederationOther => Class::Federation,
            Self::Unknown => Class::Other,
        }
    }

    /// Whether it is one of the federation API: neither below its paths without a meaning, nor of UWER.
    pub(super) const fn is_of_federation(self) -> bool {
        matches!(self.class(), Class::Federation)
            && !matches!(self, Self::FederationOther | Self::UwerSubmit | Self::UwerTask)
    }

    /// Whether it can create jobs, so that its body must be read before it goes anywhere.
    #[must_use]
    pub const fn creates_jobs(self) -> bool {
        matches!(self.class(), Class::Enqueue | Class::Create) || matches!(self, Self::Recreate)
    }
}

words! {
    /// The routing class of a request: a closed set, so that it can label metrics.
    Class {
        /// One job is created.
        Enqueue = "enqueue",
        /// Jobs are created by other ways.
        Create = "create",
        /// Fetch, acknowledgements, heartbeats.
        Worker = "worker",
        /// One job or several named ones.
        Job = "job",
        /// One queue.
        Queue = "queue",
        /// Lists and aggregates.
        List = "list",
        /// Cron, workflows, schemas, webhooks, administration.
        Definition = "definition",
        /// Health and manifest.
        System = "system",
        /// The federation API.
        Federation = "federation",
        /// Event streams and WebSockets.
        Stream = "stream",
        /// An operation that the table does not know.
        Other = "other",
    }
}

impl Class {
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

    /// Where the id or name ends in the normal path; none where it carries none.
    pub(in crate::ojs) fn name_ends_at(&self, path: &str) -> Option<usize> {
        let mut ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        (self.placeholder != usize::MAX).then(|| ends.nth(self.placeholder)).flatten()
    }
}
