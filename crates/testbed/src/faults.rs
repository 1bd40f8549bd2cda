//! Scripted faults: which requests go wrong, and how.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::view::View;
use ojs_handles::Draw;

/// The kind of fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The TCP connection is reset as soon as it is accepted, before TLS.
    ///
    /// The method and the path of a [`When`] are not known yet and do not matter. A connection that is refused by the operating
    /// system needs no fault: see [`super::DemoRegion::stop`].
    Refuse,
    /// The body is never asked for and no answer comes.
    HangBeforeBody,
    /// The whole request is read, and no answer comes.
    HangAfterBody {
        /// Whether the request takes effect.
        store: bool,
    },
    /// The whole request is read; it takes effect and is answered once the gate opens, even if the client has
    /// disconnected by then.
    Hold {
        /// The gate that the test keeps a second handle on.
        gate: Gate,
    },
    /// The whole request is read, and no answer comes; it takes effect so long after its connection, or its stream, has ended.
    LateWrite {
        /// How long, by the region's clock.
        delay: Duration,
        /// Whether the region ends the connection itself; else the client does, once it has waited for long enough.
        cut: bool,
    },
    /// Reads of a job go to a replica: one that was stored less long ago is answered 404, by the region's clock.
    ///
    /// Shape: strikes beside another fault, and only requests that read a job; so does [`Fault::OthersUnseen`].
    ReadsLag {
        /// How far the replica is behind.
        by: Duration,
    },
    /// A job that came with an `Authorization` or a tenant is 404 for calls that do not bring the same.
    OthersUnseen,
    /// The connection is cut before the body is asked for.
    CutBeforeBody,
    /// The connection is cut after the whole request was read.
    CutAfterRequest {
        /// Whether the request takes effect.
        store: bool,
    },
    /// The request takes effect, and the connection is cut inside the answer's body.
    CutMidResponse {
        /// How much of the body leaves: at most all but its last byte.
        after_bytes: usize,
    },
    /// h2: the request takes effect, and once the gate opens, the stream is reset with `CANCEL` inside the answer's body, which
    /// announces no length. HTTP/1.1: as [`Fault::CutMidResponse`].
    CancelMidResponse {
        /// How much of the body leaves: at most all but its last byte.
        after_bytes: usize,
        /// A reset takes back unsent bytes, so that it waits for this.
        gate: Gate,
    },
    /// The request is served after a wait, measured by the region's clock.
    Slow {
        /// How long.
        delay: Duration,
    },
    /// The whole request is read and answered by this instead.
    Answer {
        /// The answer.
        answer: FaultAnswer,
        /// Whether the request takes effect all the same.
        store: bool,
    },
    /// Health requests are answered 200 with this `status`; other requests are served as ever.
    LyingHealth {
        /// The text in `"status"`.
        status_text: String,
    },
    /// The request takes effect; 201 with the head of a JSON document that never ends.
    EndlessBody,
    /// The request takes effect, and these bytes are sent as the answer, in any form; then the connection is closed.
    ///
    /// Shape: HTTP/1.1 only; over h2 the connection is cut.
    Raw {
        /// The bytes in place of an answer.
        bytes: Bytes,
    },
    /// h2: the stream is reset with `REFUSED_STREAM`, the proof that nothing was done. HTTP/1.1: the connection is cut.
    RefuseStream,
    /// h2: GOAWAY below every stream of the connection, then a close. HTTP/1.1: the connection is cut.
    GoAway,
}

/// An answer that a fault gives in the service's place.
#[derive(Debug, Clone)]
pub struct FaultAnswer {
    /// The status.
    pub status: StatusCode,
    /// Headers; `content-type` among them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl FaultAnswer {
    /// An OJS error document, as a server of this protocol sends it.
    #[must_use]
    pub fn error_document(status: StatusCode, code: &str) -> Self {
        let retryable = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let error = serde_json::json!({
            "error": { "code": code, "message": "a scripted fault", "retryable": retryable, "request_id": "req_fault" }
        });
        let headers = vec![("content-type".to_owned(), super::answer::MEDIA_TYPE.to_owned())];
        Self { status, headers, body: error.to_string().into() }
    }

    /// The web page of a load balancer that stands before the region.
    #[must_use]
    pub fn balancer(status: StatusCode) -> Self {
        let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        Self { status, headers, body: format!("<html><body><h1>{status}</h1></body></html>\n").into() }
    }

    /// 200 with a web page, as a captive portal, a firewall or the default site of a front has it: nothing is stored.
    #[must_use]
    pub fn page() -> Self {
        let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        Self { status: StatusCode::OK, headers, body: "<html><body><h1>Welcome</h1></body></html>\n".into() }
    }

    /// 201 with a job of this id, as a connection has it that is one answer behind.
    #[must_use]
    pub fn other_job(id: &str) -> Self {
        let job = serde_json::json!({ "job": { "id": id, "type": "other.job", "state": "available", "args": [] } });
        let headers = vec![("content-type".to_owned(), super::answer::MEDIA_TYPE.to_owned())];
        Self { status: StatusCode::CREATED, headers, body: job.to_string().into() }
    }

    /// A status and nothing else.
    #[must_use]
    pub const fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// 503 for one queue only: the region itself is well.
    #[must_use]
    pub fn queue_unavailable() -> Self {
        Self::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error")
            .header("x-ojs-queue-status", "unavailable")
            .header("retry-after", "1")
    }

    /// The same answer with a further header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Something that requests wait at until it is opened; then it stays open.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets everything through, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn passed(&self) {
        // The sender lives in `self`, so that the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// Which requests a fault befalls.
#[derive(Debug, Clone, Default)]
pub struct When {
    path_prefix: Option<String>,
    method: Option<Method>,
    skip: u64,
    times: Option<u64>,
    chance: Option<(f64, Draw)>,
}

impl When {
    /// Every request.
    #[must_use]
    pub fn always() -> Self {
        Self::default()
    }

    /// The requests with a target that starts with `prefix`.
    #[must_use]
    pub fn path(prefix: &str) -> Self {
        Self { path_prefix: Some(prefix.to_owned()), ..Self::default() }
    }

    /// Enqueues: POST to `/ojs/v1/jobs` and below.
    #[must_use]
    pub fn enqueue() -> Self {
        Self::path("/ojs/v1/jobs").method(Method::POST)
    }

    /// Reads of one job.
    #[must_use]
    pub fn lookup() -> Self {
        Self::path("/ojs/v1/jobs/").method(Method::GET)
    }

    /// Health probes.
    #[must_use]
    pub fn health() -> Self {
        Self::path("/ojs/v1/health")
    }

    /// Only requests with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Not the first `count` that match.
    #[must_use]
    pub const fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// At most the next `count` that match.
    #[must_use]
    pub const fn next(mut self, count: u64) -> Self {
        self.times = Some(count);
        self
    }

    /// Each with this probability; the same seed makes the same choices in the same order of arrival.
    #[must_use]
    pub const fn chance(mut self, probability: f64, seed: u64) -> Self {
        self.chance = Some((probability, Draw::from_seed(seed)));
        self
    }

    fn is_spent(&self) -> bool {
        self.times == Some(0)
    }

    fn matches(&self, method: &Method, path: &str) -> bool {
        self.path_prefix.as_deref().is_none_or(|prefix| path.starts_with(prefix))
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
    }

    /// Whether it strikes a matching request; counts limited faults down.
    fn strikes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.is_spent() || self.chance.as_mut().is_some_and(|(probability, draw)| draw.unit() >= *probability) {
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }
}

/// The faults of one region, usable from any thread. The first rule that strikes a request decides.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    rules: Vec<(When, Fault)>,
    struck: u64,
}

impl Faults {
    /// Adds a rule behind those that are there.
    pub fn add(&self, when: When, fault: Fault) {
        self.0.lock().rules.push((when, fault));
    }

    /// Removes every rule. Requests that hang go on hanging until their connection ends.
    pub fn clear(&self) {
        self.0.lock().rules.clear();
    }

    /// How many times a fault has struck.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.0.lock().struck
    }

    pub(super) fn for_connection(&self) -> bool {
        self.0.lock().strike(|_, fault| matches!(fault, Fault::Refuse)).is_some()
    }

    /// The request's view of jobs; both faults may strike it, and another one beside them.
    pub(super) fn view(&self, method: &Method, path: &str) -> View {
        if !path.starts_with("/ojs/v1/jobs/") {
            return View::default();
        }
        let mut script = self.0.lock();
        let lag = script.strike(|when, fault| {
            matches!(fault, Fault::ReadsLag { .. }) && method == Method::GET && when.matches(method, path)
        });
        let unseen = script.strike(|when, fault| matches!(fault, Fault::OthersUnseen) && when.matches(method, path));
        let lag = if let Some(Fault::ReadsLag { by }) = lag { by } else { Duration::ZERO };
        View { lag, own_only: unseen.is_some() }
    }

    pub(super) fn for_request(&self, method: &Method, path: &str) -> Option<Fault> {
        self.0.lock().strike(|when, fault| match fault {
            Fault::Refuse | Fault::ReadsLag { .. } | Fault::OthersUnseen => false,
            Fault::LyingHealth { .. } => path.starts_with("/ojs/v1/health") && when.matches(method, path),
            _ => when.matches(method, path),
        })
    }
}

impl Script {
    fn strike(&mut self, applies: impl Fn(&When, &Fault) -> bool) -> Option<Fault> {
        let struck = self
            .rules
            .iter_mut()
            .find_map(|(when, fault)| (applies(when, fault) && when.strikes()).then(|| fault.clone()));
        self.rules.retain(|(when, _)| !when.is_spent());
        self.struck += u64::from(struck.is_some());
        struck
    }
}
