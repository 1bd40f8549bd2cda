//! The paths of administration, and those that look after jobs, queues and definitions.

use crate::act::Act;

/// The operation of a path below `/ojs/v1/admin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminRoute {
    StatsHistory,
    Tenants,
    TenantStats(String),
    /// The newest version of a type's schema, or with `true` all.
    Schemas(String, bool),
    Schema(String, String),
    Jobs,
    Job(String),
    JobRetry(String),
    JobCancel(String),
    Bulk(Act),
    Queues,
    Queue(String),
    QueuePause(String, bool),
    QueueConfig(String),
    QueueJobs(String),
    Workers,
    Worker(String),
    WorkerQuiet(String),
    Maintenance,
    DeadLetters,
    DeadLetterStats,
    DeadLettersRetry,
    DeadLetter(String),
    DeadLetterRetry(String),
}

/// The operation of a path for upkeep outside the administration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpkeepRoute {
    Bulk(Act),
    JobAck(String),
    JobNack(String),
    JobProgress(String),
    JobCheckpoint(String),
    JobHistory(String),
    WorkerProgress,
    WorkerHealth(String),
    WorkerBeat,
    RateLimits,
    RateLimit(String),
    DeadLetterStats,
    DeadLettersRetry,
    Queue(String),
    QueuePurge(String),
    QueueConfig(String),
    QueueJobs(String),
    History,
    Schemas,
    Schema(String),
    SchemaVersions(String),
    Webhooks,
    Webhook(String),
    WebhookTest(String),
    WebhookSecret(String),
}

fn act(name: &str) -> Option<Act> {
    [Act::Retry, Act::Cancel, Act::Delete].into_iter().find(|act| act.as_str() == name)
}

/// Names the path with these decoded segments below `/ojs/v1/admin`.
pub(super) fn admin(segments: &[&str], in_spec: bool) -> Option<AdminRoute> {
    let own = |text: &str| text.to_owned();
    Some(match segments {
        ["stats", "history"] => AdminRoute::StatsHistory,
        ["tenants"] if in_spec => AdminRoute::Tenants,
        ["tenants", id, "stats"] if in_spec => AdminRoute::TenantStats(own(id)),
        ["schemas", kind] if in_spec => AdminRoute::Schemas(own(kind), false),
        ["schemas", kind, "versions"] if in_spec => AdminRoute::Schemas(own(kind), true),
        ["schemas", kind, version] if in_spec => AdminRoute::Schema(own(kind), own(version)),
        ["jobs"] => AdminRoute::Jobs,
        ["jobs", "bulk", name] => AdminRoute::Bulk(act(name).filter(|act| in_spec || *act == Act::Retry)?),
        ["jobs", id] => AdminRoute::Job(own(id)),
        ["jobs", id, "retry"] => AdminRoute::JobRetry(own(id)),
        ["jobs", id, "cancel"] => AdminRoute::JobCancel(own(id)),
        ["queues"] => AdminRoute::Queues,
        ["queues", name] => AdminRoute::Queue(own(name)),
        ["queues", name, "pause"] => AdminRoute::QueuePause(own(name), true),
        ["queues", name, "resume"] => AdminRoute::QueuePause(own(name), false),
        ["queues", name, "config"] if in_spec => AdminRoute::QueueConfig(own(name)),
        ["queues", name, "jobs"] if in_spec => AdminRoute::QueueJobs(own(name)),
        ["workers"] => AdminRoute::Workers,
        ["workers", id] if in_spec => AdminRoute::Worker(own(id)),
        ["system", "maintenance"] if in_spec => AdminRoute::Maintenance,
        ["workers", id, "quiet"] => AdminRoute::WorkerQuiet(own(id)),
        ["dead-letter"] => AdminRoute::DeadLetters,
        ["dead-letter", "stats"] => AdminRoute::DeadLetterStats,
        ["dead-letter", "retry"] => AdminRoute::DeadLettersRetry,
        ["dead-letter", id] => AdminRoute::DeadLetter(own(id)),
        ["dead-letter", id, "retry"] => AdminRoute::DeadLetterRetry(own(id)),
        _ => return None,
    })
}

/// Names the path with these decoded segments below `/ojs/v1`; to be asked before paths with placeholders.
pub(super) fn upkeep(segments: &[&str], in_spec: bool) -> Option<UpkeepRoute> {
    let own = |text: &str| text.to_owned();
    Some(match segments {
        // The paths of these that servers in Go have.
        ["jobs", id, "checkpoint"] => UpkeepRoute::JobCheckpoint(own(id)),
        ["schemas"] => UpkeepRoute::Schemas,
        ["schemas", kind, "versions"] if !in_spec => UpkeepRoute::SchemaVersions(own(kind)),
        // The name of a schema is a URI, which a client may have left as it is.
        ["schemas", uri @ ..] => UpkeepRoute::Schema(uri.join("/")),
        _ if !in_spec => return None,
        ["jobs", "bulk", name] => UpkeepRoute::Bulk(act(name)?),
        ["jobs", id, "ack"] => UpkeepRoute::JobAck(own(id)),
        ["jobs", id, "nack"] => UpkeepRoute::JobNack(own(id)),
        ["jobs", id, "progress"] => UpkeepRoute::JobProgress(own(id)),
        ["jobs", id, "history"] => UpkeepRoute::JobHistory(own(id)),
        ["workers", id, "health"] => UpkeepRoute::WorkerHealth(own(id)),
        ["workers", "beat"] => UpkeepRoute::WorkerBeat,
        ["rate-limits"] => UpkeepRoute::RateLimits,
        ["rate-limits", key] => UpkeepRoute::RateLimit(own(key)),
        ["workers", "progress"] => UpkeepRoute::WorkerProgress,
        ["dead-letter", "stats"] => UpkeepRoute::DeadLetterStats,
        ["dead-letter", "retry"] => UpkeepRoute::DeadLettersRetry,
        ["queues", name] => UpkeepRoute::Queue(own(name)),
        ["queues", name, "purge"] => UpkeepRoute::QueuePurge(own(name)),
        ["queues", name, "config"] => UpkeepRoute::QueueConfig(own(name)),
        ["queues", name, "jobs"] => UpkeepRoute::QueueJobs(own(name)),
        ["history"] => UpkeepRoute::History,
        ["webhooks", "subscriptions"] => UpkeepRoute::Webhooks,
        ["webhooks", "subscriptions", id, "test"] => UpkeepRoute::WebhookTest(own(id)),
        ["webhooks", "subscriptions", id, "rotate-secret"] => UpkeepRoute::WebhookSecret(own(id)),
        ["webhooks", "subscriptions", id] => UpkeepRoute::Webhook(own(id)),
        _ => return None,
    })
}
