//! The life of a pod as the manifests describe it. No kubelet runs here: its probes, signals and restarts are made by the test, from the
//! manifest's own words, against the program with the manifest's own configuration.

use std::path::{Path, PathBuf};

use http::Request;
use ojs_testbed::{Fault, Gate, JobState, When};
use serde_json::Value;

use crate::support::{Process, Setup, Stage, Wire, command, eventually, job};

fn manifest(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// A pod whose volumes and regions are there.
struct Pod {
    stage: Stage,
    /// The sidecar's container in the manifest.
    container: Value,
    config: PathBuf,
}

impl Pod {
    async fn new() -> Self {
        let stage = Setup::default().regions(2).stage().await;
        let pod = yaml(&manifest("sidecar/patch.yaml"))["spec"]["template"]["spec"].take();
        let container = named(&pod["initContainers"], "ojs-sidecar").clone();
        let mut text = manifest("sidecar/config.yaml");
        let admin = named(&container["ports"], "ojs-admin")["containerPort"].to_string();
        let volumes = stage.files.path().join("volumes");
        let state = volumes.join("state");
        std::fs::create_dir_all(&state).unwrap();
        let mut changes = vec![
            ("127.0.0.1:8080".to_owned(), "127.0.0.1:0".to_owned()),
            (format!("0.0.0.0:{admin}"), "127.0.0.1:0".to_owned()),
            ("/var/lib/ojs-sidecar".to_owned(), state.display().to_string()),
        ];
        for region in &stage.regions {
            let (id, files) = (region.id(), volumes.join("tls").join(region.id()));
            std::fs::create_dir_all(&files).unwrap();
            for (from, to) in [("ca.pem", "ca.crt"), ("cert.pem", "tls.crt"), ("key.pem", "tls.key")] {
                let stem = if from == "ca.pem" { format!("{id}.{from}") } else { format!("{id}-client.{from}") };
                std::fs::copy(stage.files.path().join(stem), files.join(to)).unwrap();
            }
            changes.push((format!("https://ojs.{id}.example.com"), region.url()));
            changes.push((format!("/tls/{id}"), files.display().to_string()));
        }
        for (from, to) in changes {
            assert!(text.contains(&from), "no {from} in\n{text}");
            text = text.replace(&from, &to);
        }
        let config = volumes.join("config.yaml");
        std::fs::write(&config, text).unwrap();
        Self { stage, container, config }
    }

    /// Starts the container, and waits for nothing but its addresses.
    async fn container(&self) -> Process {
        Process::begin_under(&[], &self.config, &[]).await
    }

    /// What a kubelet finds by one of the manifest's probes.
    async fn passes(&self, sidecar: &Process, probe: &str) -> bool {
        let get = &self.container[probe]["httpGet"];
        assert_eq!(get["port"], "ojs-admin", "{probe}");
        let status = sidecar.admin.get(get["path"].as_str().unwrap()).await.status;
        status.is_success() || status.is_redirection()
    }
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn the_application_starts_behind_the_sidecar_and_its_first_call_succeeds() {
    let pod = Pod::new().await;
    let sidecar = pod.container().await;
    eventually("it has started", async || pod.passes(&sidecar, "startupProbe").await).await;
    // What comes next in the pod does not wait for readiness.
    let answer = sidecar.client.enqueue(job("first")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    eventually("it is ready", async || pod.passes(&sidecar, "readinessProbe").await).await;
    assert!(pod.passes(&sidecar, "livenessProbe").await);
    let wait = yaml(&manifest("await/await.yaml"))[0]["value"]["args"].clone();
    let address = sidecar.client_address.clone();
    let waited = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = wait.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        command(&[&arguments[..], &["--address", &address]].concat(), &[], "")
    });
    assert_eq!(waited.await.unwrap().code, Some(0));
}

#[tokio::test]
async fn a_pod_starts_and_is_ready_while_no_region_answers_and_works_once_one_does() {
    let pod = Pod::new().await;
    for region in &pod.stage.regions {
        region.stop().await;
    }
    let sidecar = pod.container().await;
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        eventually(probe, async || pod.passes(&sidecar, probe).await).await;
    }
    let answer = sidecar.client.enqueue(job("early")).await;
    answer.check_error(503, "backend_error", "no_healthy_region");
    pod.stage.regions[1].resume().await.unwrap();
    eventually("a job is taken", async || sidecar.client.enqueue(job("later")).await.status == 201).await;
}

#[tokio::test]
async fn a_pod_that_ends_finishes_its_calls_and_acknowledgements_and_is_alive_until_then() {
    let pod = Pod::new().await;
    // Its kubelet ends the sidecar behind the application, and nothing has to hold it back.
    assert!(pod.container.get("lifecycle").is_none());
    let mut sidecar = pod.container().await;
    eventually("it is ready", async || pod.passes(&sidecar, "readinessProbe").await).await;
    let region = &pod.stage.regions[0];
    let id = sidecar.client.enqueue(job("leased")).await.job_id();
    let fetched = sidecar.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await;
    assert_eq!(fetched.json()["jobs"][0]["id"], *id, "{fetched:?}");
    let gate = Gate::new();
    region.faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let mut calls: Vec<Wire> = Vec::new();
    for number in 0..4 {
        let mut wire = sidecar.client.wire().await;
        wire.send(post("/ojs/v1/jobs", &job(&format!("held-{number}")))).await;
        calls.push(wire);
    }
    let held = |it: &ojs_testbed::Record| (0..4).all(|number| it.contains(format!("held-{number}").as_bytes()));
    region.record().wait_for(held).await;
    sidecar.terminate();
    eventually("it takes no new pods' traffic", async || !pod.passes(&sidecar, "readinessProbe").await).await;
    assert!(pod.passes(&sidecar, "livenessProbe").await, "a kubelet would kill it");
    let answer = sidecar.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{id}"}}"#)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(region.jobs().job(&id).unwrap().state, JobState::Completed);
    gate.open();
    for wire in &mut calls {
        assert_eq!(wire.answer().await.status, 201);
    }
    // Nobody calls any more: it ends by itself, before anybody has to kill it.
    let (status, log) = sidecar.ended().await;
    assert_eq!(status.code(), Some(0), "{log:#?}");
    assert_eq!(region.jobs().len(), 5);
}

#[tokio::test]
async fn a_container_that_was_killed_knows_its_keys_when_its_pod_restarts_it() {
    let pod = Pod::new().await;
    let keyed = async |sidecar: &Process| {
        let request = Request::post("/ojs/v1/jobs").header("idempotency-key", "payment-7");
        sidecar.client.send(request, job("paid")).await
    };
    let first = pod.container().await;
    eventually("it is ready", async || pod.passes(&first, "readinessProbe").await).await;
    let before = keyed(&first).await;
    assert_eq!((before.status.as_u16(), before.header("ojs-federation-durable")), (201, None), "{before:?}");
    // As by the kernel, when its memory is over: no signal that it could see.
    first.signal("KILL");
    drop(first);
    let second = pod.container().await;
    eventually("it is ready", async || pod.passes(&second, "readinessProbe").await).await;
    let after = keyed(&second).await;
    assert_eq!((after.status.as_u16(), after.job_id()), (201, before.job_id()), "{after:?}");
    assert_eq!(pod.stage.regions.iter().map(|region| region.jobs().len()).sum::<usize>(), 1);
}
