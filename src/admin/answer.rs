//! The answers of the admin listener; no sockets here.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use super::caller::Caller;
use super::compress::compressed;
use super::config::{self, Form};
use super::response::{JSON, document, error, response};
use super::spool::Answered;
use super::{LogLevel, Readiness, Settling, Spooling, Switching, log_level, settle, switches};
use crate::base::RegionId;
use crate::config::{Config, Listen};
use crate::telemetry::Metrics;

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The methods of read-only resources, as `Allow` has them.
const READ_METHODS: &str = "GET, HEAD";

/// A region as `/readyz` shows it.
#[derive(Debug, Clone)]
pub struct RegionState {
    /// Which region.
    pub id: RegionId,
    /// `healthy`, `unhealthy` or `unknown`.
    pub status: &'static str,
    /// `closed`, `open` or `half-open`; closed means that traffic flows.
    pub circuit_breaker: &'static str,
    /// Whether a job could go there now.
    pub is_usable: bool,
    /// Why its last probe failed: the closed word, then the whole cause; none where it did not.
    pub last_error: Option<(&'static str, String)>,
}

/// The state of the program for the admin listener.
#[derive(Clone)]
pub struct AdminState {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The open items of starting up.
    pub readiness: Readiness,
    /// Whether readiness needs a usable region.
    pub require_region: bool,
    /// The regions as they are now; called for each `/readyz`.
    pub regions: Arc<dyn Fn() -> Vec<RegionState> + Send + Sync>,
    /// The hosts and origins that are allowed now; called for each request.
    pub listen: Arc<dyn Fn() -> Listen + Send + Sync>,
    /// The findings of the last look at configuration and files, a sentence each; none of them holds readiness back.
    pub notes: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The present state, without the admin listener's own; called for each `/state`.
    pub state: Arc<dyn Fn() -> Value + Send + Sync>,
    /// The configuration in force, and the one that was asked for; called for each `/config`.
    pub configs: Arc<dyn Fn() -> (Config, Config) + Send + Sync>,
    /// The level of the log.
    pub log_level: LogLevel,
    /// Outcomes that an operator may decide.
    pub settling: Settling,
    /// Switches that an operator may set and end.
    pub switching: Switching,
    /// The outage spool.
    pub spooling: Spooling,
}

impl std::fmt::Debug for AdminState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminState").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

impl AdminState {
    /// The same for a listener that only this machine can reach.
    #[must_use]
    pub fn on_this_machine(mut self) -> Self {
        (self.log_level.is_local, self.settling.is_local, self.switching.is_local) = (true, true, true);
        self.spooling.is_local = true;
        self
    }

    /// Answers one request, unless a foreign web page sent it.
    pub(super) async fn answer_to<B>(&self, request: &Request<B>) -> Response<Bytes> {
        let (method, headers) = (request.method(), request.headers());
        match Caller::of(method, headers, &(self.listen)()) {
            Err(refused) => *refused,
            Ok(caller) => {
                let (path, query) = (request.uri().path(), request.uri().query());
                let answer = match Caller::preflight(method, headers) {
                    Some(preflight) => preflight,
                    None if path == "/switches" => self.switches(method, query).await,
                    None if path.starts_with("/spool") => match self.spooling.answer(method, path, query).await {
                        Some(Answered::With(answer)) => answer,
                        Some(Answered::NotAllowed(allow)) => method_not_allowed(allow),
                        None => not_found(),
                    },
                    None => self.answer(method, path, query, headers),
                };
                caller.shown(compressed(headers, answer))
            }
        }
    }

    /// Answers one request. `GET` and `HEAD` are the same here: the server leaves a `HEAD`'s body out.
    fn answer(&self, method: &Method, path: &str, query: Option<&str>, headers: &HeaderMap) -> Response<Bytes> {
        let readable = matches!(*method, Method::GET | Method::HEAD);
        match path {
            "/metrics" | "/livez" | "/readyz" | "/state" | "/config" if !readable => method_not_allowed(READ_METHODS),
            "/metrics" => response(StatusCode::OK, PROMETHEUS, self.metrics.render()),
            "/livez" => response(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" => self.readyz(),
            "/state" => self.state(),
            "/config" => self.config(Form::of(query, headers)),
            "/log-level" if !matches!(*method, Method::OPTIONS | Method::PATCH | Method::TRACE | Method::CONNECT) => {
                self.log_level.answer(method, query)
            }
            "/log-level" => method_not_allowed(log_level::METHODS),
            "/outcomes/settle" if matches!(*method, Method::PUT | Method::POST) => self.settling.answer(query),
            "/outcomes/settle" => method_not_allowed(settle::METHODS),
            _ => not_found(),
        }
    }

    async fn switches(&self, method: &Method, query: Option<&str>) -> Response<Bytes> {
        match *method {
            Method::GET | Method::HEAD => self.switching.list(),
            Method::PUT | Method::POST => self.switching.set(query).await,
            Method::DELETE => self.switching.end(query).await,
            _ => method_not_allowed(switches::METHODS),
        }
    }

    /// The present state, with the items that hold readiness back.
    fn state(&self) -> Response<Bytes> {
        let mut state = (self.state)();
        if let Value::Object(state) = &mut state {
            let waiting_for = self.waiting_for(&(self.regions)());
            let draining = self.readiness.is_draining();
            state.insert("ready".to_owned(), (waiting_for.is_empty() && !draining).into());
            state.insert("waiting_for".to_owned(), waiting_for.into());
            state.insert("draining".to_owned(), draining.into());
            state.insert("notes".to_owned(), (self.notes)().into());
        }
        document(&state)
    }

    fn config(&self, form: Form) -> Response<Bytes> {
        let (running, asked) = (self.configs)();
        match config::document(&running, &asked, form) {
            Ok(text) => response(StatusCode::OK, if form == Form::Yaml { YAML } else { JSON }, text),
            Err(defect) => error(StatusCode::INTERNAL_SERVER_ERROR, "internal", &defect),
        }
    }

    fn waiting_for(&self, regions: &[RegionState]) -> Vec<&'static str> {
        let mut waiting_for = self.readiness.waiting_for();
        if self.require_region && !regions.iter().any(|region| region.is_usable) {
            waiting_for.push("a usable region");
        }
        waiting_for
    }

    fn readyz(&self) -> Response<Bytes> {
        let regions = (self.regions)();
        let waiting_for = self.waiting_for(&regions);
        let draining = self.readiness.is_draining();
        let ready = waiting_for.is_empty() && !draining;
        let regions: Vec<_> = regions
            .iter()
            .map(|it| {
                let last_error =
                    it.last_error.as_ref().map(|(reason, message)| json!({"reason": reason, "message": message}));
                let (id, breaker) = (it.id.as_str(), it.circuit_breaker);
                json!({"id": id, "status": it.status, "circuit_breaker": breaker, "last_error": last_error})
            })
            .collect();
        let body = json!({
            "ready": ready,
            "waiting_for": waiting_for,
            "draining": draining,
            "regions": regions,
            "notes": (self.notes)(),
        });
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        response(status, JSON, body.to_string())
    }
}

fn not_found() -> Response<Bytes> {
    let message = "the admin listener answers /metrics, /livez and /readyz, /state, /config, /log-level, /switches, /spool and /outcomes/settle";
    error(StatusCode::NOT_FOUND, "not_found", message)
}

fn method_not_allowed(allow: &'static str) -> Response<Bytes> {
    let message = format!("this path answers {allow} only");
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "invalid_request", &message);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
