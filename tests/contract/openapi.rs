//! `docs/openapi.yaml` against the running program: every status of every operation is provoked, and what comes back is held
//! against what is written, headers and body.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jsonschema::Validator;
use ojs_sidecar::base::Reason;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::files::{document, read};
use crate::hub_stage::{Hub, HubStage};
use crate::support::{Answer, Client, Federation, Process, Setup, Stage, eventually};

const FILE: &str = "docs/openapi.yaml";
const JOB: &str = r#"{"type":"email.send","args":["a"]}"#;

/// The document, and what is looked up in it.
struct Description(Value);

impl Description {
    fn read() -> Self {
        Self(document(FILE))
    }

    /// What a value stands for: itself, or what it refers to.
    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let Some(reference) = value["$ref"].as_str() else { return value };
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} is not within the document"));
        self.resolve(self.0.pointer(pointer).unwrap_or_else(|| panic!("{reference} does not exist")))
    }

    /// Path, method and operation, for all of them.
    fn operations(&self) -> Vec<(String, String, &Value)> {
        let mut operations = Vec::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            for (method, operation) in self.resolve(item).as_object().unwrap() {
                // Orders about spooled jobs need such jobs, which the tests of `spool` make.
                if matches!(method.as_str(), "get" | "post") && !path.starts_with("/spool/") {
                    operations.push((path.clone(), method.to_uppercase(), operation));
                }
            }
        }
        operations
    }

    fn validator(&self, schema: &Value) -> Validator {
        // References are to the components, so those travel along.
        let whole = json!({ "allOf": [schema], "components": { "schemas": self.0["components"]["schemas"] } });
        jsonschema::draft202012::options().should_validate_formats(true).build(&whole).unwrap()
    }

    /// Holds an answer against a response object.
    fn check(&self, response: &Value, answer: &Answer, place: &str) {
        let response = self.resolve(response);
        let described = response["headers"].as_object().cloned().unwrap_or_default();
        for (name, header) in &described {
            let header = self.resolve(header);
            let Some(value) = answer.header(&name.to_lowercase()) else {
                assert!(header["required"] != true, "{place}: {name} is missing: {answer:?}");
                continue;
            };
            assert!(self.validator(&header["schema"]).is_valid(&json!(value)), "{place}: {name}: {value}");
        }
        // What is particular to this program is described wherever it is sent.
        for name in answer.headers.keys().map(http::HeaderName::as_str) {
            let ours = name.starts_with("ojs-") || matches!(name, "x-request-id" | "retry-after" | "allow");
            let known = described.keys().any(|known| known.eq_ignore_ascii_case(name));
            assert!(!ours || known, "{place}: {name} is not described");
        }
        let media = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let Some(content) = response["content"].get(media) else { panic!("{place}: {media} is not described") };
        let body = if media.ends_with("json") { answer.json() } else { json!(String::from_utf8_lossy(&answer.body)) };
        let validator = self.validator(&content["schema"]);
        let wrong: Vec<String> =
            validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{place}: {wrong:#?} in {body:#}");
        if let Some(error) = body.get("error").filter(|error| error["details"].get("reason").is_some()) {
            let ids = [error["request_id"].as_str(), answer.header("x-request-id")];
            assert!(body.get("status").is_some() || ids[0] == ids[1], "{place}: {ids:?}");
        }
    }
}

/// Federations in the states that statuses come from.
struct World {
    usual: Federation,
    /// Every region has weight 0.
    drained: Federation,
    /// One client connection is allowed.
    crowded: Federation,
    draining: Federation,
    indexed: Indexed,
}

/// A sidecar whose hub keeps an index, with one job in it.
struct Indexed {
    _hub: Hub,
    _federation: Stage,
    _stage: HubStage,
    sidecar: Process,
    job_id: String,
    federation_id: String,
}

impl Indexed {
    async fn start() -> Self {
        let mut stage = HubStage::new("index: { region: us-east-1 }");
        let hub = stage.run().await;
        let section = stage.section("one").replace("hub: {", "hub: { report_jobs: true,");
        let federation = Setup::default().yaml(&section).stage().await;
        let sidecar = Process::run(&federation.config, &["--set", "log.level=info"]).await;
        stage.follows("one").await;
        let made = sidecar.client.enqueue(JOB).await;
        let federation_id = made.header("ojs-federation-id").unwrap().to_owned();
        let path = format!("/v1/federation/jobs/{federation_id}");
        eventually("the job in the index", async || sidecar.client.get(&path).await.status == 200).await;
        let record = sidecar.client.get(&path).await.json();
        let job_id = record["copies"][0]["job_id"].as_str().unwrap().to_owned();
        Self { _hub: hub, _federation: federation, _stage: stage, sidecar, job_id, federation_id }
    }
}

impl World {
    async fn start() -> Self {
        let rule = "routing: { rules: [{ match: { queue: bound }, target: { region: us-east-1 } }] }";
        let limits = "limits: { body_bytes: 2KiB, head_timeout: 200ms }";
        let usual = Setup::default().regions(2).yaml(rule).yaml(limits).start().await;
        usual.regions[1].stop().await;
        let drained = Setup::default().regions(1).region(0, "weight: 0").start().await;
        let crowded = Setup::default().regions(1).yaml("limits: { client_connections: 1 }").start().await;
        let mut draining = Setup::default().regions(1).yaml("shutdown: { drain_idle: 60s }").start().await;
        draining.begin_drain();
        eventually("the drain", async || draining.admin.get("/readyz").await.status == 503).await;
        Self { usual, drained, crowded, draining, indexed: Indexed::start().await }
    }

    /// The lists of switches with one of each form, and without any.
    async fn switches(&self, path: &str) -> Vec<Answer> {
        let why = "for=1h&reason=r&ticket=t&author=a";
        let admin = &self.usual.admin;
        let all =
            ["drain&region=us-east-1&force=true", "maintenance", "pause&queue=q", "pause&type=t", "pause&tenant=t"];
        for switch in all {
            let set = admin.call(http::Method::PUT, &format!("{path}?switch={switch}&{why}"), "").await;
            assert_eq!(set.status, 200, "{set:?}");
        }
        let shown = admin.get(path).await;
        for switch in ["region=us-east-1", "switch=maintenance", "queue=q", "type=t", "switch=pause&tenant=t"] {
            let end = format!("{path}?{switch}&reason=r&ticket=t&author=a");
            assert_eq!(admin.call(http::Method::DELETE, &end, "").await.status, 200);
        }
        vec![shown, admin.get(path).await]
    }

    /// An answer with this status to this operation.
    async fn provoke(&self, method: &str, path: &str, status: &str) -> Vec<Answer> {
        let client = &self.usual.client;
        let path = &*path.replace("{federation_id}", "unheard-of");
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        match (path, status) {
            ("/metrics" | "/livez" | "/readyz" | "/state", "200") => vec![self.usual.admin.get(path).await],
            ("/switches", "200") => self.switches(path).await,
            ("/config", "200") => {
                vec![self.usual.admin.get(path).await, self.usual.admin.get("/config?format=yaml").await]
            }
            ("/ojs/v1/jobs", "202") => vec![held().await],
            ("/spool", "200") => vec![self.usual.admin.get(path).await],
            ("/readyz", "503") => vec![self.draining.admin.get(path).await],
            ("/ojs/v1/jobs", "201" | "400" | "403" | "409" | "500" | "503" | "default") => self.enqueue(status).await,
            ("/ojs/v1/health", "200") => vec![client.get(path).await],
            ("/ojs/v1/health", "503") => vec![self.drained.client.get(path).await, self.crowd(&head).await],
            (_, "200") if path.ends_with("/route") => self.route(path).await,
            (_, "200") if path.ends_with("/outcomes") => {
                // A call with an unknown outcome, so that there is one to be shown.
                self.enqueue("500").await;
                vec![client.get(path).await]
            }
            (_, "200") if path.ends_with("/jobs") => {
                vec![self.indexed.sidecar.client.get(&format!("{path}?job_id={}", self.indexed.job_id)).await]
            }
            (_, "200") if path.ends_with("/unheard-of") => {
                let path = path.replace("unheard-of", &self.indexed.federation_id);
                vec![self.indexed.sidecar.client.get(&path).await]
            }
            (_, "404") if path.contains("/federation/jobs") => {
                let path = if path.ends_with("/jobs") { format!("{path}?job_id=unheard-of") } else { path.to_owned() };
                vec![client.get(&path).await, self.indexed.sidecar.client.get(&path).await]
            }
            (_, "200") if path.ends_with("/decisions") => {
                // A job that was stored, so that there is one to be shown, and one that nobody knows.
                let id = client.enqueue(JOB).await.header("x-request-id").unwrap().to_owned();
                let known = client.get(&format!("{path}?request_id={id}")).await;
                assert!(!known.json()["decisions"].as_array().unwrap().is_empty(), "{known:?}");
                vec![known, client.get(&format!("{path}?job_id=unheard-of")).await]
            }
            (_, "200") => vec![client.get(path).await, self.drained.client.get(path).await],
            (_, "400") if path.ends_with("/route") => {
                vec![client.post(path, "{").await, raw(client, &format!("{head}a b: c\r\n\r\n")).await]
            }
            (_, "400") if path.ends_with("/outcomes") => {
                vec![
                    client.get(&format!("{path}?state=lost")).await,
                    raw(client, &format!("{head}a b: c\r\n\r\n")).await,
                ]
            }
            (_, "400") if path.ends_with("/decisions") => {
                vec![client.get(path).await, raw(client, &format!("{head}a b: c\r\n\r\n")).await]
            }
            (_, "400") => vec![raw(client, &format!("{head}a b: c\r\n\r\n")).await],
            (_, "403") => vec![raw(client, &format!("{head}origin: https://evil.example\r\n\r\n")).await],
            (_, "408") => vec![raw_open(client, &head).await],
            (_, "413") => vec![client.post(path, format!("\"{}\"", "x".repeat(4096))).await],
            (_, "415") => {
                let coded = http::Request::builder().method(method).uri(path).header("content-encoding", "br");
                vec![client.send(coded, JOB).await]
            }
            (_, "414") => vec![raw(client, &format!("{method} {path}?{} HTTP/1.1\r\n\r\n", "x".repeat(66_000))).await],
            (_, "421") => vec![raw(client, &format!("{method} {path} HTTP/1.1\r\nhost: evil.example\r\n\r\n")).await],
            (_, "431") => vec![raw(client, &format!("{head}{}\r\n", "a: b\r\n".repeat(200))).await],
            (_, "503") => vec![self.crowd(&head).await],
            (_, "505") => vec![raw(client, &format!("{method} {path} HTTP/2.0\r\n\r\n")).await],
            _ => panic!("no way is known to make {method} {path} answer {status}"),
        }
    }

    async fn enqueue(&self, status: &str) -> Vec<Answer> {
        let client = &self.usual.client;
        let local = &self.usual.regions[0];
        let pinned = |region: &str, more: &str| {
            format!(r#"{{"type":"a","args":[],"meta":{{"ojs.federation.region":"{region}"}}{more}}}"#)
        };
        let mut answers = Vec::new();
        match status {
            "201" => {
                answers.push(client.enqueue(JOB).await);
                for _ in 0..2 {
                    let keyed = http::Request::post("/ojs/v1/jobs").header("idempotency-key", "key-1");
                    answers.push(client.send(keyed, JOB).await);
                }
            }
            "409" => {
                for body in [JOB.to_owned(), JOB.replace("\"a\"", "\"b\"")] {
                    let keyed = http::Request::post("/ojs/v1/jobs").header("idempotency-key", "key-2");
                    answers.push(client.send(keyed, body).await);
                }
                answers.remove(0);
                let answer = FaultAnswer::error_document(StatusCode::CONFLICT, "duplicate");
                local.faults().add(When::enqueue(), Fault::Answer { answer, store: false });
                answers.push(client.enqueue(JOB).await);
            }
            "400" => {
                for body in ["", "[]", "{", r#"{"meta":{},"Meta":{}}"#, &"[".repeat(200), &pinned("mars", "")] {
                    answers.push(client.enqueue(body.to_owned()).await);
                }
                for affinity in ["fastest", "geo-pin"] {
                    let body = format!(r#"{{"type":"a","meta":{{"ojs.federation.region_affinity":"{affinity}"}}}}"#);
                    answers.push(client.enqueue(body).await);
                }
                let encoded = http::Request::post("/ojs/v1/jobs").header("content-encoding", "gzip");
                answers.push(client.send(encoded, JOB).await);
                let keyed = http::Request::post("/ojs/v1/jobs").header("idempotency-key", "");
                answers.push(client.send(keyed, JOB).await);
                let restated = http::Request::post("/ojs/v1/jobs").header("x-http-method-override", "DELETE");
                answers.push(client.send(restated, JOB).await);
                answers.push(raw(client, "POST /ojs/v1/jobs HTTP/1.1\r\nhost: localhost\r\na b: c\r\n\r\n").await);
                // The region's own refusal.
                answers.push(client.enqueue(r#"{"type":"NOT A TYPE","args":7}"#).await);
            }
            "403" => {
                answers.push(client.enqueue(pinned("eu-west-1", r#","queue":"bound""#)).await);
                let foreign = http::Request::post("/ojs/v1/jobs").header("origin", "https://evil.example");
                answers.push(client.send(foreign, JOB).await);
            }
            "500" => {
                local.faults().add(When::path("/ojs/v1/jobs"), Fault::CutAfterRequest { store: false });
                answers.push(client.enqueue(JOB).await);
            }
            "503" => {
                answers.push(client.enqueue(pinned("eu-west-1", "")).await);
                answers.push(self.drained.client.enqueue(JOB).await);
                answers.push(self.crowd("POST /ojs/v1/jobs HTTP/1.1\r\nhost: localhost\r\n").await);
            }
            _ => {
                for status in [StatusCode::UNPROCESSABLE_ENTITY, StatusCode::TOO_MANY_REQUESTS] {
                    let answer = FaultAnswer::error_document(status, "duplicate");
                    local.faults().add(When::enqueue(), Fault::Answer { answer, store: false });
                    answers.push(client.enqueue(JOB).await);
                    local.faults().clear();
                }
            }
        }
        local.faults().clear();
        answers
    }

    async fn route(&self, path: &str) -> Vec<Answer> {
        let client = &self.usual.client;
        let mars = r#"{"type":"a","meta":{"ojs.federation.region":"mars"}}"#;
        let fastest = r#"{"type":"a","meta":{"ojs.federation.region_affinity":"fastest"}}"#;
        let mut answers = Vec::new();
        for body in [JOB, mars, fastest, "{}"] {
            answers.push(client.post(path, body).await);
        }
        answers.push(self.drained.client.post(path, JOB).await);
        answers
    }

    /// The answer to a client for whom there is no place left.
    async fn crowd(&self, head: &str) -> Answer {
        // A connection that was closed a moment ago may still be counted, so the first place is waited for.
        let mut first = self.crowded.client.connect().await;
        first.write_all(b"GET /ojs/v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut start = [0; 12];
        first.read_exact(&mut start).await.unwrap();
        let answer = raw(&self.crowded.client, &format!("{head}content-length: 0\r\n\r\n")).await;
        drop(first);
        answer
    }
}

/// The answer to these bytes, after which nothing more is sent.
async fn raw(client: &Client, bytes: &str) -> Answer {
    parse(&client.raw(bytes.as_bytes()).await)
}

/// The answer to these bytes while more could come.
async fn raw_open(client: &Client, bytes: &str) -> Answer {
    let mut socket = client.connect().await;
    socket.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    parse(&answer)
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.get(9..12)?.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        headers.insert(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    Answer { status, headers, body: Bytes::copy_from_slice(body.as_bytes()) }
}

/// The answer to a job that goes into an outage spool.
async fn held() -> Answer {
    let files = tempfile::tempdir().unwrap();
    let (path, key) = (files.path().join("spool"), files.path().join("key"));
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    let spool = format!("spool: {{ path: {path:?}, key_file: {key:?}, queues: [\"*\"] }}");
    let federation = Setup::default().regions(1).yaml(&spool).start().await;
    federation.regions[0].stop().await;
    federation.client.enqueue(JOB).await
}

#[tokio::test]
async fn every_status_of_every_operation_is_answered_as_it_is_described() {
    let (description, world) = (Description::read(), World::start().await);
    for (path, method, operation) in description.operations() {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let place = format!("{method} {path} {status}");
            let answers = world.provoke(&method, &path, status).await;
            for answer in answers {
                let found = answer.status.as_str();
                let undescribed = operation["responses"].get(found).is_none();
                assert!(found == status || (status == "default" && undescribed), "{place}: {answer:?}");
                description.check(response, &answer, &place);
            }
        }
    }
}

#[tokio::test]
async fn other_methods_and_other_paths_are_refused_as_described() {
    let (description, federation) = (Description::read(), Setup::default().regions(1).start().await);
    let responses = &description.0["components"]["responses"];
    for (path, method, _) in description.operations() {
        // Other methods on paths of regions are for the region to judge.
        let admin = matches!(path.as_str(), "/metrics" | "/livez" | "/readyz" | "/state" | "/config" | "/spool");
        // Those of operators are set and ended on the path that shows them.
        if path.starts_with("/ojs/v1/jobs") || path.starts_with("/ojs/v1/health") || path == "/switches" {
            continue;
        }
        for other in [http::Method::DELETE, http::Method::PUT, http::Method::TRACE] {
            let client = if admin { &federation.admin } else { &federation.client };
            let answer = client.call(other, &path, "").await;
            assert_eq!(answer.status, 405, "{path}");
            let allow = if method == "POST" { "POST" } else { "GET, HEAD" };
            assert_eq!(answer.header("allow"), Some(allow), "{path}");
            if !admin {
                description.check(&responses["MethodNotAllowed"], &answer, &path);
            }
        }
    }
    for path in ["/", "/jobs", "/v1/federation/", "/v1/federation/nothing", "/v2/federation/regions"] {
        let answer = federation.client.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        description.check(&responses["NotFound"], &answer, path);
    }
}

#[test]
fn every_reference_is_used_and_leads_somewhere() {
    let description = Description::read();
    let text = read(FILE);
    let references: BTreeSet<&str> = text.split("$ref: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for reference in &references {
        description.resolve(&json!({ "$ref": reference }));
    }
    for (kind, members) in description.0["components"].as_object().unwrap() {
        for name in members.as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(text.matches(&reference).count() > 0, "{reference} is not used");
        }
    }
}

#[test]
fn every_schema_is_valid_and_the_reasons_are_those_of_the_code() {
    let description = Description::read();
    for (name, schema) in description.0["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::draft202012::meta::is_valid(schema), "{name}");
        description.validator(schema);
    }
    for job in description.0["components"]["schemas"]["Job"]["examples"].as_array().unwrap() {
        assert!(description.validator(&json!({ "$ref": "#/components/schemas/Job" })).is_valid(job));
    }
    let described = description.0["components"]["schemas"]["Reason"]["enum"].as_array().unwrap();
    let described: BTreeSet<&str> = described.iter().map(|reason| reason.as_str().unwrap()).collect();
    assert_eq!(described, Reason::ALL.iter().map(|reason| reason.as_str()).collect());
}
