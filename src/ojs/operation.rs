//! What a request does: the one place that knows paths.

mod scope;
mod surface;
mod table;

use http::Method;

use super::path::{forms_between, normal_path};
pub use scope::{IdAt, Paging, Scope};
pub use surface::{Endpoint, surface};
use table::{ROWS, Row};

/// What a request asks for.
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
    /// Anything else about one job whose id is in the path.
    JobScoped,
    /// `POST jobs/results`: the results of several jobs whose ids are in the body.
    JobResults,
    /// About several jobs whose ids, or a filter for them, are in the body.
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
    /// What the table does not know.
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

/// What the body of a request may hold that is not itself a creating call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Ids, results, checkpoints, schemas: nothing that a server makes a job of.
    Data,
    /// Perhaps what some server makes a job of.
    MayDefineJobs,
    /// The path is not in the table.
    Unknown,
}

/// What the table says about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matched {
    /// What it asks for.
    pub operation: Operation,
    /// Its routing class.
    pub class: Class,
    /// Where it goes.
    pub scope: Scope,
    /// Whether it can create jobs, so that its body must be read before it goes anywhere.
    pub creates_jobs: bool,
    /// What its body may hold; for creating calls, [`Payload::MayDefineJobs`].
    pub payload: Payload,
    /// Which segment of the normal path holds the id or name, where there is one; see [`Matched::named_in`].
    placeholder: usize,
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

/// Recognises a request by its method and its raw path, without query.
///
/// `HEAD` counts as `GET`. Whatever spelling of the path would create jobs on some server is recognised as creating.
#[must_use]
pub fn identify(method: &Method, raw_path: &str) -> Matched {
    let method = method_bit(method);
    let normal = normal_path(raw_path);
    let raw_differs = normal != raw_path;
    let row = find(method, &normal, true);
    if let Some(row) = row
        && (row.creates || !raw_differs)
    {
        return row.matched(raw_differs);
    }
    if let Some(row) = creating(method, raw_path, &normal) {
        return row.matched(true);
    }
    if let Some(row) = row {
        return row.matched(raw_differs);
    }
    // Some server may take another method for the one that creates jobs here.
    let near =
        [table::POST, table::PUT, table::PATCH].iter().any(|&method| creating(method, raw_path, &normal).is_some());
    let payload = if near { Payload::MayDefineJobs } else { Payload::Unknown };
    Matched {
        operation: Operation::Unknown,
        class: Class::Other,
        scope: Scope::Local,
        creates_jobs: false,
        payload,
        placeholder: 0,
        raw_differs,
    }
}

/// The creating call that some server may take the path for: in another letter case, or with fewer layers of decoding, it is
/// another path to us and may be the same path to a server.
fn creating(method: u8, raw_path: &str, normal: &str) -> Option<&'static Row> {
    let find_creating = |path: &str| find(method, path, false).filter(|row| row.creates);
    find_creating(normal).or_else(|| {
        if normal == raw_path {
            return None;
        }
        forms_between(raw_path).find_map(|form| find_creating(&form))
    })
}

/// The methods that the federation API knows for a path, as `Allow` lists them; `None` when there is no such path.
#[must_use]
pub fn federation_methods(raw_path: &str) -> Option<&'static str> {
    let normal = normal_path(raw_path);
    let known = |method| {
        find(method, &normal, true)
            .is_some_and(|row| row.operation != Operation::FederationOther && row.class == Class::Federation)
    };
    match (known(table::GET), known(table::POST)) {
        (true, _) => Some("GET, HEAD"),
        (_, true) => Some("POST"),
        (false, false) => None,
    }
}

fn find(method: u8, path: &str, exact: bool) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.methods & method != 0 && row.fits(path, exact))
}

fn method_bit(method: &Method) -> u8 {
    match method.as_str() {
        "GET" | "HEAD" => table::GET,
        "POST" => table::POST,
        "PUT" => table::PUT,
        "PATCH" => table::PATCH,
        "DELETE" => table::DELETE,
        _ => table::OTHER,
    }
}

#[cfg(test)]
mod tests;
