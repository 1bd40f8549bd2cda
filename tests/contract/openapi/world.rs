//! Federations in every state that a status of the API comes from, and the calls that provoke each.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hub_stage::{Hub, HubStage};
use crate::support::{Answer, Client, Federation, Process, Setup, Stage, eventually};

const JOB: &str = r#"{"type":"email.send","args":["a"]}"#;

/// Federations in the states that statuses come from.
pub(super) struct World {
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
        let stage = HubStage::new("index: { region: us-east-1 }");
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
    pub(super) async fn start() -> Self {
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
    pub(super) async fn provoke(&self, method: &str, path: &str, status: &str) -> Vec<Answer> {
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
