//! What the workers of five SDKs write. Spec: ojs-clients 4.

use serde_json::{Value, json};

/// Whose worker it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    Rust,
    JavaScript,
    Python,
    Go,
    Ruby,
}

impl Sdk {
    pub const ALL: [Self; 5] = [Self::Rust, Self::JavaScript, Self::Python, Self::Go, Self::Ruby];

    /// How many jobs its worker asks for at once, of those that it could run.
    pub fn count(self, free: usize) -> usize {
        if self == Self::Python { 1 } else { free.min(10) }
    }

    pub fn fetch(self, queues: &[&str], count: usize, worker: &str) -> String {
        let body = match self {
            Self::Rust | Self::Go => json!({ "queues": queues, "count": count, "worker_id": worker }),
            Self::JavaScript | Self::Python => json!({
                "queues": queues, "count": count, "worker_id": worker, "visibility_timeout_ms": 30_000
            }),
            Self::Ruby => json!({ "queues": queues, "batch_size": count }),
        };
        body.to_string()
    }

    pub fn heartbeat(self, worker: &str, ids: &[String]) -> String {
        let body = match self {
            Self::Rust | Self::Ruby => json!({ "worker_id": worker, "active_jobs": ids }),
            Self::Python => json!({ "worker_id": worker, "active_jobs": ids, "visibility_timeout_ms": 30_000 }),
            Self::JavaScript => json!({
                "worker_id": worker, "state": "running", "active_jobs": ids.len(), "active_job_ids": ids,
                "hostname": "h", "pid": 1, "queues": ["default"], "concurrency": 10, "labels": []
            }),
            Self::Go => {
                let listed = if ids.is_empty() { Value::Null } else { json!(ids) };
                json!({ "worker_id": worker, "state": "running", "active_jobs": ids.len(), "active_job_ids": listed })
            }
        };
        body.to_string()
    }

    pub fn ack(self, id: &str) -> String {
        json!({ "job_id": id, "result": { "by": format!("{self:?}") } }).to_string()
    }

    pub fn nack(self, id: &str) -> String {
        let mut error = json!({ "code": "handler_error", "message": "it failed", "retryable": true });
        if self == Self::Python {
            error["details"] = json!({ "traceback": "..." });
        }
        json!({ "job_id": id, "error": error }).to_string()
    }
}
