//! Why a case does not pass, in words for people. A case that passes has no place here.

use ojs_testbed::Dialect::{self, Reference, Spec};

const NO_EVENTS: &str = "Servers in Go do not serve `GET /ojs/v1/events`: their router answers 404 in plain text.";
const OVERWRITES: &str = "Servers in Go overwrite a job whose id is repeated.";
const NO_HINT: &str =
    "The error documents of servers in Go, as far as their code is public, have neither `hint` nor `docs_url`.";
const UNSENT_TYPES: &str = "The case expects three different error types and sends the code `handler_error` each time, without any \
                            type; a server that takes the code from the worker cannot know them.";
const DIRECTIVE: &str = "Servers in Go answer a heartbeat by `state: active` and put the order into `directive`.";
const TOP_LEVEL_QUEUE: &str = "Servers in Go place a job by `options.queue` alone: the job with a top-level `queue` is in `default`, \
                               and a fetch from `notifications` finds nothing.";
const RESULTS_BY_INDEX: &str = "The workflow document makes `parent_results` an object whose keys are the steps' indexes; the case reads the list \
     that servers in Go send.";
const QUEUE_AS_NAME: &str = "The HTTP binding answers with the queue's name as `queue` and its figures in `stats`; the case reads the object that \
     servers in Go have at `queue`.";

/// Case, dialect, reason.
pub const REASONS: &[(&str, Dialect, &str)] = &[
    ("level-0-core/events/event-job-completed", Reference, NO_EVENTS),
    ("level-0-core/events/event-job-enqueued", Reference, NO_EVENTS),
    ("level-0-core/operations/error-duplicate-job", Reference, OVERWRITES),
    ("level-0-core/operations/error-response-structure-not-found", Reference, NO_HINT),
    ("level-1-reliable/retry/retry-error-history-tracked", Spec, UNSENT_TYPES),
    ("level-1-reliable/retry/retry-error-history-tracked", Reference, UNSENT_TYPES),
    ("level-1-reliable/visibility/heartbeat-extends-timeout", Reference, DIRECTIVE),
    ("level-1-reliable/worker/worker-graceful-shutdown", Reference, DIRECTIVE),
    ("level-1-reliable/worker/worker-heartbeat", Reference, DIRECTIVE),
    ("level-1-reliable/worker/worker-quiet-signal", Reference, DIRECTIVE),
    ("level-3-workflows/chain/chain-passes-results", Spec, RESULTS_BY_INDEX),
    ("level-4-advanced/bulk/bulk-enqueue", Spec, QUEUE_AS_NAME),
    ("level-4-advanced/bulk/bulk-enqueue-large-batch", Spec, QUEUE_AS_NAME),
    ("level-4-advanced/queue-ops/pause-queue", Spec, QUEUE_AS_NAME),
    ("level-4-advanced/queue-ops/queue-stats", Spec, QUEUE_AS_NAME),
    ("level-4-advanced/queue-ops/resume-queue", Spec, QUEUE_AS_NAME),
    ("ext-federation/federation-cross-region-lifecycle", Reference, TOP_LEVEL_QUEUE),
];
