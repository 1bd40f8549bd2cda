//! Which path names which operation.

mod admin;

use super::dialect::Dialect;
use super::query::percent_decoded;
pub(super) use admin::{AdminRoute, UpkeepRoute};

/// The operation of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    Jobs,
    Batch,
    Bulk,
    Job(String),
    JobEvents(String),
    JobResult(String),
    Activate(String),
    Results,
    Fetch,
    Ack,
    Nack,
    Heartbeat,
    DeadLetters,
    DeadLetter(String),
    DeadLetterRetry(String),
    Events,
    Queues,
    QueueEvents(String),
    QueueStats(String),
    QueuePause(String, bool),
    AdminStats,
    Admin(AdminRoute),
    Upkeep(UpkeepRoute),
    Health,
    Ready,
    Metrics,
    Agent(String, AgentAct),
    Manifest,
    Crons,
    Cron(String),
    CronPause(String, bool),
    CronTrigger(String),
    Workflows,
    Workflow(String),
    WorkflowCancel(String),
    Socket,
    Tunnel,
    Stream,
    Echo,
}

/// An operator's action on the agent that a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentAct {
    Pause,
    Resume,
    Fork,
    Merge,
    ToolRetry,
    Replay,
}

impl AgentAct {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pause" => Self::Pause,
            "resume" => Self::Resume,
            "fork" => Self::Fork,
            "merge" => Self::Merge,
            "tool-retry" => Self::ToolRetry,
            "replay" => Self::Replay,
            _ => return None,
        })
    }
}

impl Route {
    /// Reads a path the way the most lenient server would: decoded, without empty and dot segments.
    ///
    /// Servers in Go lack some that the documents have.
    pub(super) fn of(path: &str, dialect: Dialect) -> Option<Self> {
        let in_spec = dialect == Dialect::Spec;
        let segments = segments(path);
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let own = |text: &str| text.to_owned();
        let segments = match segments.as_slice() {
            ["ojs", "manifest"] => return Some(Self::Manifest),
            ["health" | "healthz"] => return Some(Self::Health),
            ["ready" | "readyz"] => return Some(Self::Ready),
            ["metrics"] => return Some(Self::Metrics),
            ["v1", "agents", id, act] | ["v1", "agent", "jobs", id, act] if in_spec => {
                return AgentAct::named(act).map(|act| Self::Agent(own(id), act));
            }
            ["ojs", "v1", rest @ ..] => rest,
            _ => return None,
        };
        let named = match segments {
            ["admin", rest @ ..] => admin::admin(rest, in_spec).map(Self::Admin),
            _ => admin::upkeep(segments, in_spec).map(Self::Upkeep),
        };
        if named.is_some() {
            return named;
        }
        Some(match segments {
            ["jobs"] => Self::Jobs,
            ["jobs", "batch"] => Self::Batch,
            ["jobs", "bulk"] if in_spec => Self::Bulk,
            ["jobs", "results"] if in_spec => Self::Results,
            ["jobs", "fetch"] if in_spec => Self::Fetch,
            ["jobs", id] => Self::Job(own(id)),
            ["jobs", id, "events"] => Self::JobEvents(own(id)),
            ["jobs", id, "result"] if in_spec => Self::JobResult(own(id)),
            ["jobs", id, "activate"] if in_spec => Self::Activate(own(id)),
            ["workers", "fetch"] => Self::Fetch,
            ["agents", id, act] if in_spec => Self::Agent(own(id), AgentAct::named(act)?),
            ["workers", "ack"] => Self::Ack,
            ["workers", "nack"] => Self::Nack,
            ["workers", "heartbeat"] => Self::Heartbeat,
            ["dead-letter"] => Self::DeadLetters,
            ["dead-letter", id] => Self::DeadLetter(own(id)),
            ["dead-letter", id, "retry"] => Self::DeadLetterRetry(own(id)),
            ["events"] if in_spec => Self::Events,
            ["queues"] => Self::Queues,
            ["queues", name, "events"] => Self::QueueEvents(own(name)),
            ["queues", name, "stats"] => Self::QueueStats(own(name)),
            ["queues", name, "pause"] => Self::QueuePause(own(name), true),
            ["queues", name, "resume"] => Self::QueuePause(own(name), false),
            ["admin", "stats"] => Self::AdminStats,
            ["health"] => Self::Health,
            ["cron"] => Self::Crons,
            ["cron", name] => Self::Cron(own(name)),
            ["cron", name, "pause"] if in_spec => Self::CronPause(own(name), true),
            ["cron", name, "resume"] if in_spec => Self::CronPause(own(name), false),
            ["cron", name, "trigger"] if in_spec => Self::CronTrigger(own(name)),
            ["workflows"] => Self::Workflows,
            ["workflows", id] => Self::Workflow(own(id)),
            ["workflows", id, "cancel"] if in_spec => Self::WorkflowCancel(own(id)),
            ["ws"] => Self::Socket,
            ["debug", "tunnel"] => Self::Tunnel,
            ["debug", "stream"] => Self::Stream,
            ["debug", "echo"] => Self::Echo,
            _ => return None,
        })
    }
}

fn segments(path: &str) -> Vec<String> {
    let mut segments = Vec::new();
    for segment in path.split('/').map(percent_decoded) {
        match segment.as_str() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    segments
}
