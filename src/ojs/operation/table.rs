//! The table of operations. The first row that fits wins, so literals stand before placeholders and busy paths on top.
//!
//! Spec: ojs-protocol 2 (the catalogue of endpoints), 10 row 32 (the federation prefixes).

use super::{Class, Matched, Operation, Payload};

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
    pub(super) creates: bool,
    payload: Payload,
}

impl Row {
    pub(super) const fn matched(&self, raw_differs: bool) -> Matched {
        Matched {
            operation: self.operation,
            class: self.class,
            creates_jobs: self.creates,
            payload: self.payload,
            raw_differs,
        }
    }

    /// Whether a path has the shape of the pattern: `{}` stands for one segment, `{*}` for one or more.
    pub(super) fn fits(&self, path: &str, exact: bool) -> bool {
        let Some((pattern, open)) = self.pattern.split_at_checked(self.literal) else { return false };
        let Some((literal, rest)) = path.split_at_checked(self.literal) else { return false };
        // Nearly every row is told apart here.
        if literal != pattern && (exact || !literal.eq_ignore_ascii_case(pattern)) {
            return false;
        }
        fits_open(open, rest, exact)
    }
}

/// Whether the rest of a path fits what stands from a pattern's first placeholder on.
fn fits_open(pattern: &str, path: &str, exact: bool) -> bool {
    if pattern.is_empty() {
        return path.is_empty();
    }
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        let Some(segment) = segments.next() else { return false };
        match wanted {
            "{*}" => return !segment.is_empty(),
            "{}" => {}
            literal if literal == segment || (!exact && literal.eq_ignore_ascii_case(segment)) => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

const fn row(methods: u8, pattern: &'static str, operation: Operation, class: Class) -> Row {
    let payload = Payload::MayDefineJobs;
    Row { methods, pattern, literal: literal_len(pattern), operation, class, creates: false, payload }
}

/// A call whose body is data, however much it may look like a job.
const fn data(methods: u8, pattern: &'static str, operation: Operation, class: Class) -> Row {
    Row { payload: Payload::Data, ..row(methods, pattern, operation, class) }
}

const fn creating(methods: u8, pattern: &'static str, operation: Operation, class: Class) -> Row {
    Row { creates: true, ..row(methods, pattern, operation, class) }
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

use Operation as Op;

pub(super) static ROWS: &[Row] = &[
    creating(POST, "/ojs/v1/jobs", Op::Enqueue, Class::Enqueue),
    data(POST, "/ojs/v1/workers/ack", Op::Ack, Class::Worker),
    data(POST, "/ojs/v1/workers/fetch", Op::Fetch, Class::Worker),
    data(POST, "/ojs/v1/workers/heartbeat", Op::Heartbeat, Class::Worker),
    data(POST, "/ojs/v1/workers/nack", Op::Nack, Class::Worker),
    row(GET, "/ojs/v1/health", Op::Health, Class::System),
    creating(POST, "/ojs/v1/jobs/batch", Op::Batch, Class::Create),
    creating(POST, "/ojs/v1/jobs/bulk", Op::Bulk, Class::Create),
    // Cron and workflows: whatever is written below them and not named here may define jobs.
    row(POST, "/ojs/v1/cron/{}/pause", Op::Cron, Class::Definition),
    row(POST, "/ojs/v1/cron/{}/resume", Op::Cron, Class::Definition),
    row(POST, "/ojs/v1/cron/{}/trigger", Op::Cron, Class::Definition),
    row(POST, "/ojs/v1/workflows/{}/cancel", Op::Workflow, Class::Definition),
    creating(WRITE, "/ojs/v1/cron", Op::CronWrite, Class::Create),
    creating(WRITE, "/ojs/v1/cron/{*}", Op::CronWrite, Class::Create),
    creating(WRITE, "/ojs/v1/crons", Op::CronWrite, Class::Create),
    creating(WRITE, "/ojs/v1/crons/{*}", Op::CronWrite, Class::Create),
    creating(WRITE, "/ojs/v1/workflows", Op::WorkflowWrite, Class::Create),
    creating(WRITE, "/ojs/v1/workflows/{*}", Op::WorkflowWrite, Class::Create),
    creating(POST, "/ojs/v1/dead-letter/{}/retry", Op::Recreate, Class::Job),
    creating(POST, "/ojs/v1/admin/dead-letter/{}/retry", Op::Recreate, Class::Job),
    creating(POST, "/v1/agent/jobs/{}/fork", Op::Recreate, Class::Job),
    creating(POST, "/v1/agent/jobs/{}/replay", Op::Recreate, Class::Job),
    creating(POST, "/v1/agents/{}/fork", Op::Recreate, Class::Job),
    creating(POST, "/v1/agents/{}/replay", Op::Recreate, Class::Job),
    creating(POST, "/ojs/v1/agents/{}/fork", Op::Recreate, Class::Job),
    creating(POST, "/ojs/v1/agents/{}/replay", Op::Recreate, Class::Job),
    // Workers.
    data(POST, "/ojs/v1/jobs/fetch", Op::Fetch, Class::Worker),
    data(POST, "/ojs/v1/workers/beat", Op::Heartbeat, Class::Worker),
    data(POST, "/ojs/v1/workers/progress", Op::Progress, Class::Worker),
    row(GET, "/ojs/v1/workers/{}/health", Op::WorkerState, Class::Worker),
    data(POST, "/ojs/v1/jobs/{}/ack", Op::JobSettle, Class::Worker),
    data(POST, "/ojs/v1/jobs/{}/nack", Op::JobSettle, Class::Worker),
    // Streams.
    row(GET, "/ojs/v1/jobs/{}/events", Op::JobEvents, Class::Stream),
    row(GET, "/ojs/v1/jobs/{}/progress/stream", Op::JobEvents, Class::Stream),
    row(GET, "/ojs/v1/jobs/{}/result/stream", Op::JobEvents, Class::Stream),
    row(GET, "/ojs/v1/queues/{}/events", Op::QueueEvents, Class::Stream),
    row(GET, "/ojs/v1/events/stream", Op::Events, Class::Stream),
    row(GET, "/ojs/v1/admin/stats/stream", Op::Events, Class::Stream),
    row(GET, "/v1/events/stream", Op::Events, Class::Stream),
    row(GET, "/ojs/v1/ws", Op::WebSocket, Class::Stream),
    row(GET, "/ojs/v1/ws/connect", Op::WebSocket, Class::Stream),
    row(GET, "/v1/events/ws", Op::WebSocket, Class::Stream),
    data(POST, "/ojs/v1/ws/subscribe", Op::Events, Class::Stream),
    data(POST, "/ojs/v1/ws/unsubscribe", Op::Events, Class::Stream),
    // Several jobs.
    row(POST, "/ojs/v1/jobs/results", Op::JobsById, Class::Job),
    row(POST, "/ojs/v1/jobs/bulk/{}", Op::JobsById, Class::Job),
    row(POST, "/ojs/v1/admin/jobs/bulk/{}", Op::JobsById, Class::Job),
    // One job.
    row(GET, "/ojs/v1/jobs/{}", Op::JobGet, Class::Job),
    row(DELETE, "/ojs/v1/jobs/{}", Op::JobCancel, Class::Job),
    row(PATCH, "/ojs/v1/jobs/{}", Op::JobScoped, Class::Job),
    data(ANY, "/ojs/v1/jobs/{}/checkpoint", Op::JobScoped, Class::Job),
    data(ANY, "/ojs/v1/jobs/{}/progress", Op::JobScoped, Class::Job),
    row(ANY, "/ojs/v1/jobs/{}/{*}", Op::JobScoped, Class::Job),
    data(ANY, "/ojs/v1/checkpoints/{*}", Op::JobScoped, Class::Job),
    data(ANY, "/ojs/v1/ojs/v1/checkpoints/{*}", Op::JobScoped, Class::Job),
    row(GET, "/ojs/v1/events/{}/history", Op::JobScoped, Class::Job),
    row(GET, "/ojs/v1/debug/jobs/{*}", Op::JobScoped, Class::Job),
    row(ANY, "/ojs/v1/agents/{}/{}", Op::JobScoped, Class::Job),
    row(ANY, "/v1/agents/{}/{}", Op::JobScoped, Class::Job),
    row(ANY, "/v1/agent/jobs/{}/{}", Op::JobScoped, Class::Job),
    // Lists, before the placeholders that would swallow their names.
    row(GET, "/ojs/v1/jobs", Op::List, Class::List),
    row(GET, "/ojs/v1/queues", Op::Queues, Class::List),
    row(GET, "/ojs/v1/admin/stats", Op::AdminStats, Class::List),
    row(GET, "/ojs/v1/admin/stats/history", Op::List, Class::List),
    row(GET, "/ojs/v1/admin/queues", Op::List, Class::List),
    row(GET, "/ojs/v1/admin/jobs", Op::List, Class::List),
    row(GET, "/ojs/v1/admin/workers", Op::List, Class::List),
    row(GET, "/ojs/v1/admin/dead-letter", Op::List, Class::List),
    row(GET, "/ojs/v1/admin/dead-letter/stats", Op::List, Class::List),
    row(GET | DELETE, "/ojs/v1/dead-letter", Op::List, Class::List),
    row(GET, "/ojs/v1/dead-letter/stats", Op::List, Class::List),
    row(POST, "/ojs/v1/dead-letter/retry", Op::List, Class::List),
    row(GET, "/ojs/v1/events", Op::List, Class::List),
    row(GET, "/ojs/v1/history", Op::List, Class::List),
    row(GET, "/ojs/v1/history/stats", Op::List, Class::List),
    row(GET, "/ojs/v1/unique-jobs", Op::List, Class::List),
    row(GET, "/ojs/v1/cron", Op::List, Class::List),
    row(GET, "/ojs/v1/crons", Op::List, Class::List),
    row(GET, "/ojs/v1/workflows", Op::List, Class::List),
    row(GET, "/ojs/v1/webhooks/subscriptions", Op::List, Class::List),
    row(GET, "/ojs/v1/rate-limits", Op::List, Class::List),
    // One dead letter, one job of the administration.
    row(GET | DELETE, "/ojs/v1/dead-letter/{}", Op::JobScoped, Class::Job),
    row(GET | DELETE, "/ojs/v1/admin/dead-letter/{}", Op::JobScoped, Class::Job),
    row(ANY, "/ojs/v1/admin/jobs/{}", Op::JobScoped, Class::Job),
    row(ANY, "/ojs/v1/admin/jobs/{}/{*}", Op::JobScoped, Class::Job),
    // Queues.
    row(GET, "/ojs/v1/queues/{}/stats", Op::QueueStats, Class::Queue),
    row(POST, "/ojs/v1/queues/{}/pause", Op::QueuePause, Class::Queue),
    row(POST, "/ojs/v1/queues/{}/resume", Op::QueueResume, Class::Queue),
    row(POST, "/ojs/v1/admin/queues/{}/pause", Op::QueuePause, Class::Queue),
    row(POST, "/ojs/v1/admin/queues/{}/resume", Op::QueueResume, Class::Queue),
    row(POST, "/ojs/v1/queues", Op::QueueScoped, Class::Queue),
    row(ANY, "/ojs/v1/queues/{*}", Op::QueueScoped, Class::Queue),
    row(ANY, "/ojs/v1/admin/queues/{*}", Op::QueueScoped, Class::Queue),
    // Definitions.
    row(GET | DELETE, "/ojs/v1/cron/{*}", Op::Cron, Class::Definition),
    row(GET | DELETE, "/ojs/v1/crons/{*}", Op::Cron, Class::Definition),
    row(GET | DELETE, "/ojs/v1/workflows/{*}", Op::Workflow, Class::Definition),
    data(ANY, "/ojs/v1/schemas", Op::Definition, Class::Definition),
    data(ANY, "/ojs/v1/schemas/{*}", Op::Definition, Class::Definition),
    data(ANY, "/ojs/v1/webhooks/{*}", Op::Definition, Class::Definition),
    data(ANY, "/ojs/v1/rate-limits/{*}", Op::Definition, Class::Definition),
    data(ANY, "/ojs/v1/middleware", Op::Definition, Class::Definition),
    data(ANY, "/ojs/v1/admin/schemas/{*}", Op::Definition, Class::Definition),
    row(ANY, "/ojs/v1/admin/{*}", Op::Definition, Class::Definition),
    // The server itself.
    row(GET, "/ojs/v1/health/detail", Op::System, Class::System),
    row(GET, "/ojs/manifest", Op::Manifest, Class::System),
    row(GET, "/health", Op::System, Class::System),
    row(GET, "/healthz", Op::System, Class::System),
    row(GET, "/ready", Op::System, Class::System),
    row(GET, "/readyz", Op::System, Class::System),
    row(GET, "/metrics", Op::System, Class::System),
    // The federation API, under the three prefixes that its documents and habits give it.
    row(GET, "/v1/federation/regions", Op::FederationRegions, Class::Federation),
    row(POST, "/v1/federation/route", Op::FederationRoute, Class::Federation),
    row(GET, "/v1/federation/health", Op::FederationHealth, Class::Federation),
    row(GET, "/ojs/v1/federation/regions", Op::FederationRegions, Class::Federation),
    row(POST, "/ojs/v1/federation/route", Op::FederationRoute, Class::Federation),
    row(GET, "/ojs/v1/federation/health", Op::FederationHealth, Class::Federation),
    row(GET, "/ojs/federation/regions", Op::FederationRegions, Class::Federation),
    row(GET, "/ojs/federation/backends", Op::FederationRegions, Class::Federation),
    row(POST, "/ojs/federation/route", Op::FederationRoute, Class::Federation),
    row(GET, "/ojs/federation/health", Op::FederationHealth, Class::Federation),
    row(ANY, "/v1/federation/{*}", Op::FederationOther, Class::Federation),
    row(ANY, "/ojs/v1/federation/{*}", Op::FederationOther, Class::Federation),
    row(ANY, "/ojs/federation/{*}", Op::FederationOther, Class::Federation),
];
