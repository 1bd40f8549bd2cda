//! The table of operations. The first row that fits wins, so literals stand before placeholders and busy paths on top.
//!
//! Spec: ojs-protocol 2 (the catalogue of endpoints), 10 row 32 (the federation prefixes).

use super::kinds::{Class, Matched, Operation, Payload};
use super::scope::{IdAt, Paging, Scope};

pub(super) const GET: u8 = 1;
pub(super) const POST: u8 = 2;
pub(super) const PUT: u8 = 4;
pub(super) const PATCH: u8 = 8;
pub(super) const DELETE: u8 = 16;
pub(super) const OTHER: u8 = 32;
const WRITE: u8 = POST | PUT | PATCH;
const ANY: u8 = GET | WRITE | DELETE | OTHER;

/// One line of the table.
pub(super) struct Row {
    pub(super) methods: u8,
    pub(super) pattern: &'static str,
    /// How many bytes stand before the first placeholder.
    literal: usize,
    pub(super) operation: Operation,
    pub(super) class: Class,
    pub(super) scope: Scope,
    pub(super) creates: bool,
    pub(super) payload: Payload,
    /// Which segment the first placeholder is; the root's empty one is 0.
    placeholder: usize,
}

impl Row {
    pub(super) const fn matched(&self, raw_differs: bool) -> Matched {
        Matched {
            operation: self.operation,
            class: self.class,
            scope: self.scope,
            creates_jobs: self.creates,
            payload: self.payload,
            placeholder: self.placeholder,
            raw_differs,
        }
    }

    /// Whether a path has the shape of the pattern: `{}` stands for one segment, `{*}` for one or more.
    pub(super) fn fits(&self, path: &str, exact: bool) -> bool {
        let Some((pattern, open)) = self.pattern.split_at_checked(self.literal) else { return false };
        let Some((literal, rest)) = path.split_at_checked(self.literal) else { return false };
        // Nearly every row is decided here.
        if literal != pattern && (exact || !literal.eq_ignore_ascii_case(pattern)) {
            return false;
        }
        fits_open(open, rest, exact)
    }
}

/// Whether the rest of a path fits a pattern from its first placeholder on.
fn fits_open(pattern: &str, path: &str, exact: bool) -> bool {
    if pattern.is_empty() {
        return path.is_empty();
    }
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        let Some(segment) = segments.next() else { return false };
        match wanted {
            // Some servers merge doubled slashes and take no other spelling back.
            "{*}" => return !segment.is_empty() || segments.any(|segment| !segment.is_empty()),
            "{}" => {}
            literal if literal == segment || (!exact && literal.eq_ignore_ascii_case(segment)) => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

const fn row(methods: u8, pattern: &'static str, operation: Operation, scope: Scope) -> Row {
    let (class, creates) = (operation.class(), operation.creates_jobs());
    let payload = Payload::MayDefineJobs;
    let literal = literal_len(pattern);
    // A pattern without one names nothing, so no segment of a path is it.
    let placeholder = if literal == pattern.len() { usize::MAX } else { slashes(pattern, literal) };
    Row { methods, pattern, literal, operation, class, scope, creates, payload, placeholder }
}

/// A call whose body is data, also where it looks like a job.
const fn data(methods: u8, pattern: &'static str, operation: Operation, scope: Scope) -> Row {
    Row { payload: Payload::Data, ..row(methods, pattern, operation, scope) }
}

const fn literal_len(pattern: &str) -> usize {
    let mut bytes = pattern.as_bytes();
    while let [first, rest @ ..] = bytes {
        if *first == b'{' {
            break;
        }
        bytes = rest;
    }
    pattern.len() - bytes.len()
}

/// How many of the first bytes are slashes.
const fn slashes(pattern: &str, bytes: usize) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < bytes {
        if pattern.as_bytes()[at] == b'/' {
            count += 1;
        }
        at += 1;
    }
    count
}

use Operation as Op;

/// The region that holds the job with the id in the path.
const OWNER: Scope = Scope::Owner(IdAt::Path);

// One row reads as one line; rustfmt would give each argument a line.
#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    row(POST, "/ojs/v1/jobs", Op::Enqueue, Scope::Enqueue),
    data(POST, "/ojs/v1/workers/ack", Op::Ack, Scope::Owner(IdAt::Body)),
    data(POST, "/ojs/v1/workers/fetch", Op::Fetch, Scope::Fetch),
    data(POST, "/ojs/v1/workers/heartbeat", Op::Heartbeat, Scope::Heartbeat),
    data(POST, "/ojs/v1/workers/nack", Op::Nack, Scope::Owner(IdAt::Body)),
    row(GET, "/ojs/v1/health", Op::Health, Scope::Health),
    row(POST, "/ojs/v1/jobs/batch", Op::Batch, Scope::Batch),
    row(POST, "/ojs/v1/jobs/bulk", Op::Bulk, Scope::Bulk),
    // Cron and workflows: calls below them that are not listed here may define jobs.
    row(POST, "/ojs/v1/cron/{}/pause", Op::Cron, Scope::Named),
    row(POST, "/ojs/v1/crons/{}/pause", Op::Cron, Scope::Named),
    row(POST, "/ojs/v1/cron/{}/resume", Op::Cron, Scope::Named),
    row(POST, "/ojs/v1/crons/{}/resume", Op::Cron, Scope::Named),
    row(POST, "/ojs/v1/cron/{}/trigger", Op::Cron, Scope::Named),
    row(POST, "/ojs/v1/crons/{}/trigger", Op::Cron, Scope::Named),
    row(POST, "/ojs/v1/workflows/{}/cancel", Op::Workflow, Scope::Named),
    row(WRITE, "/ojs/v1/cron", Op::CronWrite, Scope::Define),
    row(WRITE, "/ojs/v1/cron/{*}", Op::CronWrite, Scope::Define),
    row(WRITE, "/ojs/v1/crons", Op::CronWrite, Scope::Define),
    row(WRITE, "/ojs/v1/crons/{*}", Op::CronWrite, Scope::Define),
    row(WRITE, "/ojs/v1/workflows", Op::WorkflowWrite, Scope::Define),
    row(WRITE, "/ojs/v1/workflows/{*}", Op::WorkflowWrite, Scope::Define),
    row(POST, "/ojs/v1/dead-letter/{}/retry", Op::Recreate, OWNER),
    row(POST, "/ojs/v1/admin/dead-letter/{}/retry", Op::Recreate, OWNER),
    row(POST, "/v1/agent/jobs/{}/fork", Op::Recreate, OWNER),
    row(POST, "/v1/agent/jobs/{}/replay", Op::Recreate, OWNER),
    row(POST, "/v1/agents/{}/fork", Op::Recreate, OWNER),
    row(POST, "/v1/agents/{}/replay", Op::Recreate, OWNER),
    row(POST, "/ojs/v1/agents/{}/fork", Op::Recreate, OWNER),
    row(POST, "/ojs/v1/agents/{}/replay", Op::Recreate, OWNER),
    // Workers.
    data(POST, "/ojs/v1/jobs/fetch", Op::Fetch, Scope::Fetch),
    data(POST, "/ojs/v1/workers/beat", Op::Heartbeat, Scope::Heartbeat),
    data(POST, "/ojs/v1/workers/progress", Op::Progress, Scope::Owner(IdAt::Body)),
    row(GET, "/ojs/v1/workers/{}/health", Op::WorkerState, Scope::Worker),
    data(POST, "/ojs/v1/jobs/{}/ack", Op::JobSettle, OWNER),
    data(POST, "/ojs/v1/jobs/{}/nack", Op::JobSettle, OWNER),
    // Streams.
    row(GET, "/ojs/v1/jobs/{}/events", Op::JobEvents, OWNER),
    row(GET, "/ojs/v1/jobs/{}/progress/stream", Op::JobEvents, OWNER),
    row(GET, "/ojs/v1/jobs/{}/result/stream", Op::JobEvents, OWNER),
    row(GET, "/ojs/v1/queues/{}/events", Op::QueueEvents, Scope::Local),
    row(GET, "/ojs/v1/events/stream", Op::Events, Scope::EventStream),
    row(GET, "/ojs/v1/admin/stats/stream", Op::Events, Scope::Local),
    row(GET, "/v1/events/stream", Op::Events, Scope::Local),
    row(GET, "/ojs/v1/ws", Op::WebSocket, Scope::Tunnel),
    row(GET, "/ojs/v1/ws/connect", Op::WebSocket, Scope::Tunnel),
    row(GET, "/v1/events/ws", Op::WebSocket, Scope::Tunnel),
    data(POST, "/ojs/v1/ws/subscribe", Op::Events, Scope::Local),
    data(POST, "/ojs/v1/ws/unsubscribe", Op::Events, Scope::Local),
    // Several jobs.
    row(POST, "/ojs/v1/jobs/results", Op::JobResults, Scope::ByIds),
    row(POST, "/ojs/v1/jobs/bulk/{}", Op::JobsById, Scope::ByIds),
    row(POST, "/ojs/v1/admin/jobs/bulk/{}", Op::JobsById, Scope::ByIds),
    // One job.
    row(GET, "/ojs/v1/jobs/{}", Op::JobGet, OWNER),
    row(DELETE, "/ojs/v1/jobs/{}", Op::JobCancel, OWNER),
    row(PATCH, "/ojs/v1/jobs/{}", Op::JobScoped, OWNER),
    data(ANY, "/ojs/v1/jobs/{}/checkpoint", Op::JobScoped, OWNER),
    data(ANY, "/ojs/v1/jobs/{}/progress", Op::JobScoped, OWNER),
    row(ANY, "/ojs/v1/jobs/{}/{*}", Op::JobScoped, OWNER),
    data(ANY, "/ojs/v1/checkpoints/{*}", Op::JobScoped, OWNER),
    data(ANY, "/ojs/v1/ojs/v1/checkpoints/{*}", Op::JobScoped, OWNER),
    row(GET, "/ojs/v1/events/{}/history", Op::JobScoped, OWNER),
    row(GET, "/ojs/v1/debug/jobs/{*}", Op::JobScoped, OWNER),
    row(ANY, "/ojs/v1/agents/{}/{}", Op::JobScoped, OWNER),
    row(ANY, "/v1/agents/{}/{}", Op::JobScoped, OWNER),
    row(ANY, "/v1/agent/jobs/{}/{}", Op::JobScoped, OWNER),
    // Lists, before the placeholders that would swallow their names.
    row(GET, "/ojs/v1/jobs", Op::List, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/queues", Op::Queues, Scope::List(Paging::Names)),
    row(GET, "/ojs/v1/admin/stats", Op::AdminStats, Scope::Sum),
    row(GET, "/ojs/v1/admin/stats/history", Op::List, Scope::Sum),
    row(GET, "/ojs/v1/admin/queues", Op::List, Scope::List(Paging::Names)),
    row(GET, "/ojs/v1/admin/jobs", Op::List, Scope::List(Paging::Page)),
    row(GET, "/ojs/v1/admin/workers", Op::List, Scope::List(Paging::Page)),
    row(GET, "/ojs/v1/admin/dead-letter", Op::List, Scope::List(Paging::Page)),
    row(GET, "/ojs/v1/admin/dead-letter/stats", Op::List, Scope::Sum),
    row(DELETE, "/ojs/v1/admin/dead-letter", Op::List, Scope::Sum),
    row(POST, "/ojs/v1/admin/dead-letter/retry", Op::List, Scope::Sum),
    row(GET, "/ojs/v1/dead-letter", Op::List, Scope::List(Paging::Offset)),
    row(DELETE, "/ojs/v1/dead-letter", Op::List, Scope::Sum),
    row(GET, "/ojs/v1/dead-letter/stats", Op::List, Scope::Sum),
    row(POST, "/ojs/v1/dead-letter/retry", Op::List, Scope::Sum),
    row(GET, "/ojs/v1/events", Op::List, Scope::List(Paging::After)),
    row(GET, "/ojs/v1/history", Op::List, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/history/stats", Op::List, Scope::Sum),
    row(GET, "/ojs/v1/unique-jobs", Op::List, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/cron", Op::List, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/crons", Op::List, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/workflows", Op::List, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/webhooks/subscriptions", Op::List, Scope::Local),
    row(GET, "/ojs/v1/rate-limits", Op::List, Scope::Local),
    // One dead letter, one job of the administration.
    row(GET | DELETE, "/ojs/v1/dead-letter/{}", Op::JobScoped, OWNER),
    row(GET | DELETE, "/ojs/v1/admin/dead-letter/{}", Op::JobScoped, OWNER),
    row(ANY, "/ojs/v1/admin/jobs/{}", Op::JobScoped, OWNER),
    row(ANY, "/ojs/v1/admin/jobs/{}/{*}", Op::JobScoped, OWNER),
    // Queues.
    row(GET, "/ojs/v1/queues/{}/stats", Op::QueueStats, Scope::QueueStats),
    row(POST, "/ojs/v1/queues/{}/pause", Op::QueuePause, Scope::QueueControl),
    row(POST, "/ojs/v1/queues/{}/resume", Op::QueueResume, Scope::QueueControl),
    row(POST, "/ojs/v1/admin/queues/{}/pause", Op::QueuePause, Scope::QueueControl),
    row(POST, "/ojs/v1/admin/queues/{}/resume", Op::QueueResume, Scope::QueueControl),
    row(POST, "/ojs/v1/queues", Op::QueueScoped, Scope::QueueDefinition),
    row(POST, "/ojs/v1/admin/queues", Op::QueueScoped, Scope::QueueDefinition),
    row(ANY, "/ojs/v1/queues/{}/config", Op::QueueScoped, Scope::QueueDefinition),
    row(ANY, "/ojs/v1/admin/queues/{}/config", Op::QueueScoped, Scope::QueueDefinition),
    row(ANY, "/ojs/v1/admin/queues/{}/rate-limit", Op::QueueScoped, Scope::QueueDefinition),
    row(PUT | PATCH, "/ojs/v1/queues/{}", Op::QueueScoped, Scope::QueueDefinition),
    row(PUT | PATCH, "/ojs/v1/admin/queues/{}", Op::QueueScoped, Scope::QueueDefinition),
    row(POST, "/ojs/v1/queues/{}/purge", Op::QueuePurge, Scope::QueueControl),
    row(POST, "/ojs/v1/admin/queues/{}/purge", Op::QueuePurge, Scope::QueueControl),
    row(DELETE, "/ojs/v1/queues/{}/jobs", Op::QueuePurge, Scope::QueueControl),
    row(DELETE, "/ojs/v1/admin/queues/{}/jobs", Op::QueuePurge, Scope::QueueControl),
    row(GET, "/ojs/v1/queues/{}/jobs", Op::QueueScoped, Scope::List(Paging::Offset)),
    row(GET, "/ojs/v1/admin/queues/{}/jobs", Op::QueueScoped, Scope::List(Paging::Page)),
    row(GET, "/ojs/v1/queues/{}/priority-stats", Op::QueueScoped, Scope::QueueStats),
    row(GET, "/ojs/v1/queues/{}", Op::QueueScoped, Scope::QueueStats),
    row(GET, "/ojs/v1/admin/queues/{}", Op::QueueScoped, Scope::QueueStats),
    row(DELETE, "/ojs/v1/queues/{}", Op::QueueDelete, Scope::QueueControl),
    row(DELETE, "/ojs/v1/admin/queues/{}", Op::QueueDelete, Scope::QueueControl),
    row(ANY, "/ojs/v1/queues/{*}", Op::QueueScoped, Scope::Local),
    row(ANY, "/ojs/v1/admin/queues/{*}", Op::QueueScoped, Scope::Local),
    // Definitions.
    row(GET | DELETE, "/ojs/v1/cron/{*}", Op::Cron, Scope::Named),
    row(GET | DELETE, "/ojs/v1/crons/{*}", Op::Cron, Scope::Named),
    row(GET | DELETE, "/ojs/v1/workflows/{*}", Op::Workflow, Scope::Named),
    data(ANY, "/ojs/v1/schemas", Op::Definition, Scope::AllRegions),
    data(ANY, "/ojs/v1/schemas/{*}", Op::Definition, Scope::AllRegions),
    data(ANY, "/ojs/v1/webhooks/{*}", Op::Definition, Scope::Local),
    data(ANY, "/ojs/v1/rate-limits/{*}", Op::Definition, Scope::Local),
    data(ANY, "/ojs/v1/middleware", Op::Definition, Scope::Local),
    data(ANY, "/ojs/v1/admin/schemas/{*}", Op::Definition, Scope::AllRegions),
    row(ANY, "/ojs/v1/admin/workers/{*}", Op::Definition, Scope::Worker),
    row(GET, "/ojs/v1/admin/system/maintenance", Op::Definition, Scope::Sum),
    row(WRITE | DELETE, "/ojs/v1/admin/system/maintenance", Op::Definition, Scope::AllRegions),
    row(ANY, "/ojs/v1/admin/system/config", Op::Definition, Scope::AllRegions),
    data(GET, "/ojs/v1/admin/pools", Op::Definition, Scope::Scheduling),
    data(GET, "/ojs/v1/admin/scheduling/stats", Op::Definition, Scope::Scheduling),
    data(ANY, "/ojs/v1/admin/pools/{}", Op::Definition, Scope::Scheduling),
    row(ANY, "/ojs/v1/admin/{*}", Op::Definition, Scope::Local),
    // The server itself.
    row(GET, "/ojs/v1/health/detail", Op::System, Scope::Local),
    row(GET, "/ojs/manifest", Op::Manifest, Scope::Manifest),
    row(GET, "/health", Op::System, Scope::Local),
    row(GET, "/healthz", Op::System, Scope::Local),
    row(GET, "/ready", Op::System, Scope::Local),
    row(GET, "/readyz", Op::System, Scope::Local),
    row(GET, "/metrics", Op::System, Scope::Local),
    // The federation API, under the three prefixes that its documents and habits give it.
    row(GET, "/v1/federation/regions", Op::FederationRegions, Scope::Ours),
    row(POST, "/v1/federation/route", Op::FederationRoute, Scope::Ours),
    row(GET, "/v1/federation/health", Op::FederationHealth, Scope::Ours),
    row(GET, "/v1/federation/outcomes", Op::FederationOutcomes, Scope::Ours),
    row(GET, "/v1/federation/decisions", Op::FederationDecisions, Scope::Ours),
    row(GET, "/v1/federation/jobs", Op::FederationJob, Scope::Ours),
    row(GET, "/v1/federation/jobs/{}", Op::FederationJob, Scope::Ours),
    row(GET, "/ojs/v1/federation/regions", Op::FederationRegions, Scope::Ours),
    row(POST, "/ojs/v1/federation/route", Op::FederationRoute, Scope::Ours),
    row(GET, "/ojs/v1/federation/health", Op::FederationHealth, Scope::Ours),
    row(GET, "/ojs/v1/federation/outcomes", Op::FederationOutcomes, Scope::Ours),
    row(GET, "/ojs/v1/federation/decisions", Op::FederationDecisions, Scope::Ours),
    row(GET, "/ojs/v1/federation/jobs", Op::FederationJob, Scope::Ours),
    row(GET, "/ojs/v1/federation/jobs/{}", Op::FederationJob, Scope::Ours),
    row(GET, "/ojs/federation/regions", Op::FederationRegions, Scope::Ours),
    row(GET, "/ojs/federation/backends", Op::FederationRegions, Scope::Ours),
    row(POST, "/ojs/federation/route", Op::FederationRoute, Scope::Ours),
    row(GET, "/ojs/federation/health", Op::FederationHealth, Scope::Ours),
    row(GET, "/ojs/federation/outcomes", Op::FederationOutcomes, Scope::Ours),
    row(GET, "/ojs/federation/decisions", Op::FederationDecisions, Scope::Ours),
    row(GET, "/ojs/federation/jobs", Op::FederationJob, Scope::Ours),
    row(GET, "/ojs/federation/jobs/{}", Op::FederationJob, Scope::Ours),
    // The legacy orchestration UWER.
    data(POST, "/uwer/v4/tasks", Op::UwerSubmit, Scope::Ours),
    row(GET, "/uwer/v4/tasks/{}", Op::UwerTask, Scope::Ours),
    row(ANY, "/uwer/v4/{*}", Op::FederationOther, Scope::Ours),
    row(ANY, "/v1/federation/{*}", Op::FederationOther, Scope::Ours),
    row(ANY, "/ojs/v1/federation/{*}", Op::FederationOther, Scope::Ours),
    row(ANY, "/ojs/federation/{*}", Op::FederationOther, Scope::Ours),
];
