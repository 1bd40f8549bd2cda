//! Why a request is not served, and the answer.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::answer::{Body, Object, document, full, typed};
use super::bounds::Depth;
use super::bounds::depth_headers;
use super::dialect::Dialect;
use super::members::Invalid;
use super::refused::{NotCancelled, Refused};
use super::state::JobState;
use super::state::WorkflowState;

/// Where the codes are explained: the name of the chapter, since a region on a laptop has no site of its own.
const DOCUMENTS: &str = "urn:ojs:spec:errors";

/// When to send a job again that found its queue full. Units: seconds.
const FULL_RETRY_S: &str = "5";

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("404 page not found")]
    NoSuchPath,
    #[error("the method is not allowed here")]
    Method,
    #[error("there is no job {0}")]
    NoSuchJob(String),
    #[error("there is no dead letter {0}")]
    NoSuchDeadLetter(String),
    #[error("there is no {0} {1}")]
    NoSuch(&'static str, String),
    #[error("the job is {}", .0.as_str())]
    Conflict(JobState),
    #[error("the workflow is {} already", .0.as_str())]
    WorkflowOver(WorkflowState),
    #[error("there is a job {0} already")]
    Duplicate(String),
    #[error("the queue {0} is paused")]
    Paused(String),
    #[error("the queue {0} has {jobs} jobs and takes {max}", jobs = .1.jobs, max = .1.max)]
    Full(String, Depth),
    #[error("the job has no result yet")]
    NoResultYet,
    #[error("a dead letter is retried as it is: `override` is not supported")]
    Override,
    #[error("the content type is neither application/openjobspec+json nor application/json")]
    MediaType,
    #[error("the body is larger than this server takes")]
    TooLarge,
    #[error("more than {0} jobs at once are more than this server takes")]
    BatchTooLarge(usize),
    #[error("there are as many cron jobs as this server keeps")]
    TooManyCrons,
    #[error("another request had this idempotency key")]
    KeyReused,
    #[error("not stored, because others of the request cannot be")]
    NotAlone,
    /// Servers in Go store a batch one by one, and wrap the failure on the way.
    #[error("batch enqueue: {0}")]
    BatchBroken(Box<Self>),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("the job at index {0}: {1}")]
    InBatch(usize, Box<Self>),
}

impl Problem {
    pub(super) fn of_job(id: &str, refused: Refused) -> Self {
        match refused {
            Refused::NotFound => Self::NoSuchJob(id.to_owned()),
            Refused::Conflict(state) => Self::Conflict(state),
            Refused::Duplicate => Self::Duplicate(id.to_owned()),
        }
    }

    pub(super) fn of_workflow(id: &str, refused: &NotCancelled) -> Self {
        match refused {
            NotCancelled::NotFound => Self::NoSuch("workflow", id.to_owned()),
            NotCancelled::Over(state) => Self::WorkflowOver(*state),
        }
    }

    /// The item of a bulk answer.
    pub(super) fn item(&self, dialect: Dialect) -> String {
        let (_, code) = self.status(dialect);
        let error = Object::new().text("code", code).text("message", &self.to_string());
        error.flag("retryable", self.is_retryable()).maybe_raw("details", self.details().as_deref()).finish()
    }

    /// The queue that is full, if that is why.
    fn full(&self) -> Option<Depth> {
        match self {
            Self::Full(_, depth) => Some(*depth),
            Self::InBatch(_, problem) => problem.full(),
            _ => None,
        }
    }

    fn is_retryable(&self) -> bool {
        match self {
            Self::Paused(_) | Self::Full(..) | Self::NoResultYet | Self::BatchBroken(_) => true,
            Self::InBatch(_, problem) => matches!(**problem, Self::Full(..)),
            _ => false,
        }
    }

    /// The answer. Routers in the field answer some things before any OJS code runs.
    pub(super) fn answer(&self, request_id: &str, dialect: Dialect) -> Response<Body> {
        match (self, dialect) {
            (Self::NoSuchPath, Dialect::Reference | Dialect::Redis) => {
                return typed(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", full(format!("{self}\n")));
            }
            (Self::Method, Dialect::Reference | Dialect::Redis) => {
                let mut response = Response::new(full(Bytes::new()));
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                return response;
            }
            _ => {}
        }
        let (status, code) = self.status(dialect);
        let mut error = Object::new().text("code", code);
        if self.is_policy() {
            error = error.text("type", "validation_error");
        }
        error = error
            .text("message", &self.to_string())
            .flag("retryable", self.is_retryable())
            .maybe_raw("details", self.details().as_deref())
            .text("request_id", request_id);
        if dialect == Dialect::Spec {
            error = error.text("hint", self.hint()).text("docs_url", DOCUMENTS);
        }
        let mut response = document(status, Object::new().raw("error", &error.finish()).finish());
        if let Some(depth) = self.full() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(FULL_RETRY_S));
            depth_headers(response.headers_mut(), depth);
        }
        response
    }

    fn status(&self, dialect: Dialect) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath | Self::NoSuchJob(_) | Self::NoSuchDeadLetter(_) | Self::NoSuch(..) => {
                (StatusCode::NOT_FOUND, "not_found")
            }
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "invalid_request"),
            Self::Conflict(_) | Self::WorkflowOver(_) | Self::KeyReused | Self::NotAlone => {
                (StatusCode::CONFLICT, "conflict")
            }
            Self::Duplicate(_) => (StatusCode::CONFLICT, "duplicate"),
            Self::Paused(_) if dialect.in_go() => (StatusCode::CONFLICT, "queue_paused"),
            Self::Paused(_) => (StatusCode::UNPROCESSABLE_ENTITY, "queue_paused"),
            Self::Full(..) => (StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL"),
            Self::NoResultYet => (StatusCode::REQUEST_TIMEOUT, "timeout"),
            Self::Override => (StatusCode::UNPROCESSABLE_ENTITY, "unsupported"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
            Self::BatchTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "BATCH_SIZE_EXCEEDED"),
            Self::TooManyCrons => (StatusCode::UNPROCESSABLE_ENTITY, "unsupported"),
            Self::BatchBroken(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
            Self::Invalid(Invalid::Payload) => (StatusCode::BAD_REQUEST, "invalid_payload"),
            Self::Invalid(Invalid::Policy(..)) if dialect.in_go() => {
                (StatusCode::UNPROCESSABLE_ENTITY, "validation_error")
            }
            Self::Invalid(Invalid::Policy(..)) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_payload"),
            Self::MediaType | Self::Invalid(Invalid::Member(..)) => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::InBatch(_, problem) => problem.status(dialect),
        }
    }

    fn is_policy(&self) -> bool {
        match self {
            Self::Invalid(Invalid::Policy(..)) => true,
            Self::InBatch(_, problem) => problem.is_policy(),
            _ => false,
        }
    }

    fn details(&self) -> Option<String> {
        let object = Object::new();
        Some(match self {
            Self::NoSuchJob(id) => object.text("resource_type", "job").text("resource_id", id).finish(),
            Self::NoSuchDeadLetter(id) => {
                object.text("resource_type", "dead_letter_job").text("resource_id", id).finish()
            }
            Self::NoSuch(kind, id) => object.text("resource_type", kind).text("resource_id", id).finish(),
            Self::Conflict(state) => object.text("current_state", state.as_str()).finish(),
            Self::WorkflowOver(state) => object.text("current_state", state.as_str()).finish(),
            Self::BatchTooLarge(max) => object.number("max_batch_size", max).finish(),
            Self::Duplicate(id) if !id.is_empty() => object.text("existing_job_id", id).finish(),
            Self::Paused(queue) => object.text("queue", queue).finish(),
            Self::Full(queue, depth) => {
                object.text("queue", queue).number("depth", depth.jobs).number("bound", depth.max).finish()
            }
            Self::Invalid(Invalid::Member(name, _) | Invalid::Policy(name, _)) => object.text("field", name).finish(),
            Self::InBatch(index, _) => object.number("index", index).finish(),
            _ => return None,
        })
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::NoSuchPath | Self::Method => "see the HTTP binding for the paths and their methods",
            Self::NoSuchJob(_) => "check the id: the job may never have been enqueued here, or may have been deleted",
            Self::NoSuchDeadLetter(_) => "list the dead letters to see which there are",
            Self::NoSuch(..) => "list what there is of this kind",
            Self::WorkflowOver(_) => "read the workflow's state first: nothing is left to call off",
            Self::BatchTooLarge(_) => "send the jobs in several requests",
            Self::TooManyCrons => "delete cron jobs that are not needed any more",
            Self::KeyReused => "take a new key for a new request",
            Self::NotAlone => "correct those that cannot be stored and send all of them again",
            Self::BatchBroken(_) => "look which jobs were stored before sending the others again",
            Self::Conflict(_) => "read the job's state first: this step is not possible from there",
            Self::Duplicate(_) => "read the job that is there, or enqueue with another id",
            Self::Full(..) => "wait until workers have done some of its jobs",
            Self::Paused(_) => "resume the queue, or try again later",
            Self::NoResultYet => "ask again, or wait longer",
            Self::Override => "leave `override` out, or enqueue a new job",
            Self::MediaType => "send JSON as application/openjobspec+json",
            Self::TooLarge => "keep large data elsewhere and pass a reference to it",
            Self::Invalid(_) | Self::InBatch(..) => "correct what the message names and send it again",
        }
    }
}
