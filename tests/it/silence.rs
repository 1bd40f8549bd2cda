//! A region that falls silent without refusing anything: connections are accepted, and nothing that is written is ever answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, Gate, When};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{Answer, Federation, Setup, eventually, job, pinned};

/// Longer than any wait for a connection to a region that usually connects at once.
const CONNECT_WAIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);

/// A relay before the local region that can stop moving bytes, in both directions and on all connections.
struct Relay {
    silent: watch::Sender<bool>,
    accepted: Arc<AtomicUsize>,
}

impl Relay {
    fn start(listener: TcpListener, region: SocketAddr) -> Self {
        let (silent, is_silent) = watch::channel(false);
        let accepted = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                let (client, server) = (listener.accept().await.unwrap().0, TcpStream::connect(region).await.unwrap());
                count.fetch_add(1, SeqCst);
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(carry(from_client, to_server, is_silent.clone()));
                tokio::spawn(carry(from_server, to_client, is_silent.clone()));
            }
        });
        Self { silent, accepted }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_silent: watch::Receiver<bool>) {
    let mut part = [0; 4096];
    while let Ok(bytes @ 1..) = from.read(&mut part).await {
        if is_silent.wait_for(|silent| !silent).await.is_err() || to.write_all(&part[..bytes]).await.is_err() {
            return;
        }
    }
}

/// Two regions, the local one behind the relay, and one worker thread.
async fn relayed() -> (Federation, Relay) {
    relayed_among(2, "limits: { worker_threads: 1 }", "").await
}

async fn relayed_among(regions: usize, limits: &str, more: &str) -> (Federation, Relay) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("url: https://{}", listener.local_addr().unwrap());
    let setup = Setup::default().steered().regions(regions).yaml("health_check: { timeout: 10min }");
    let stage = setup.yaml(limits).yaml(more).region(0, &url).stage().await;
    let relay = Relay::start(listener, stage.regions[0].address());
    let federation = stage.launch();
    eventually("the first round of probes", async || federation.admin.get("/readyz").await.status == 200).await;
    (federation, relay)
}

fn is_silent(federation: &Federation) -> bool {
    federation.shared.registry.view().regions[0].silent
}

/// Sends a job without waiting for its answer.
fn sending(federation: &Federation, job: String) -> tokio::task::JoinHandle<Answer> {
    let client = federation.client;
    tokio::spawn(async move { client.enqueue(job).await })
}

/// Moves time step by step until something is true; returns how far.
async fn advance_until(federation: &Federation, what: &str, mut is_true: impl FnMut() -> bool) -> Duration {
    let mut moved = Duration::ZERO;
    eventually(what, async || {
        let holds = is_true();
        if !holds {
            federation.advance(STEP);
            federation.settle().await;
            moved += STEP;
        }
        holds
    })
    .await;
    moved
}

#[tokio::test]
async fn a_job_goes_elsewhere_while_connecting_to_its_region_hangs() {
    let (federation, relay) = relayed().await;
    relay.silent.send_replace(true);
    let before = relay.accepted();
    let first = sending(&federation, job("first"));
    eventually("the local region is dialled", async || relay.accepted() > before).await;
    federation.advance(CONNECT_WAIT);
    let answer = first.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (201, Some("2")), "{answer:?}");
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    let dialled = relay.accepted();
    // What comes right behind does not wait, and time stands still.
    let answer = federation.client.enqueue(job("second")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    let failovers = r#"failovers_total{from_region="us-east-1",reason="silent"}"#;
    assert_eq!(federation.metric(failovers).await, 2.0);
    assert!(relay.accepted() <= dialled + 1, "at most the look at the region");
    assert_eq!(federation.breaker(0), "closed", "which region was faster says nothing of the other");
}

#[tokio::test]
async fn a_job_that_waits_for_a_connection_goes_to_no_region_whose_enqueues_are_refused() {
    // Nothing is kept, so that whoever is connected to is dialled.
    let more = "failover: { prefer_regions: [eu-west-1] }";
    let (federation, relay) = relayed_among(3, "limits: { worker_threads: 1, pool_idle_per_region: 0 }", more).await;
    relay.silent.send_replace(true);
    let before = relay.accepted();
    let waiting = sending(&federation, job("waiting"));
    eventually("the local region is dialled", async || relay.accepted() > before).await;
    // Meanwhile the next one breaks over every job, and works for its readers.
    let broken = FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "scripted");
    federation.regions[1].faults().add(When::enqueue(), Fault::Answer { answer: broken, store: false });
    for (number, kind) in ["email.send", "invoice.print", "image.scale"].iter().cycle().take(21).enumerate() {
        if number == 1 {
            // The first failure was the first look at the counters.
            let read = federation.client.get("/ojs/v1/queues/default/jobs?region=eu-west-1").await;
            assert_eq!((read.status.as_u16(), read.region()), (404, "eu-west-1"), "its own word: {read:?}");
        }
        let bound = format!(r#"{{"type":"{kind}","args":[],"meta":{{"ojs.federation.region":"eu-west-1"}}}}"#);
        assert_eq!(federation.client.enqueue(bound).await.status, 500);
    }
    let guard = r#"guard_open{class="enqueue",region="eu-west-1"}"#;
    assert_eq!((federation.metric(guard).await, federation.breaker(1)), (1.0, "closed"));
    let dialled = federation.regions[1].record().connections().len();
    federation.advance(CONNECT_WAIT);
    let answer = waiting.await.unwrap();
    assert_eq!(federation.stored(&answer.job_id()), [(2, 1)], "{answer:?}");
    assert_eq!(federation.regions[1].record().connections().len(), dialled);
}

#[tokio::test]
async fn a_pinned_job_waits_for_its_region_however_slowly_that_connects() {
    let (federation, relay) = relayed().await;
    relay.silent.send_replace(true);
    let before = relay.accepted();
    let pinned = sending(&federation, pinned("us-east-1", "patient"));
    eventually("the region is dialled", async || relay.accepted() > before).await;
    federation.advance(CONNECT_WAIT * 3);
    federation.settle().await;
    assert!(!pinned.is_finished());
    relay.silent.send_replace(false);
    let answer = pinned.await.unwrap();
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "{answer:?}");
}

#[tokio::test]
async fn a_region_that_answers_no_call_and_no_look_is_left_alone_until_it_does() {
    let (federation, relay) = relayed().await;
    assert_eq!(federation.client.enqueue(job("before")).await.status, 201);
    relay.silent.send_replace(true);
    // Written to the connection that is there, and lost with it.
    let swallowed = sending(&federation, job("swallowed"));
    let moved = advance_until(&federation, "the region is silent", || is_silent(&federation)).await;
    assert!(moved >= Duration::from_millis(250), "{moved:?}");
    assert!(!swallowed.is_finished());
    let answer = federation.client.enqueue(job("after")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"), "nobody waits for it any more");
    assert_eq!(federation.breaker(0), "closed");
    assert_eq!(federation.health(0), "healthy");
    // Heard again, it gets its jobs back, on a connection of its own: none from before is used.
    relay.silent.send_replace(false);
    let answer = swallowed.await.unwrap();
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "it was on its way");
    advance_until(&federation, "the region is heard", || !is_silent(&federation)).await;
    let before = relay.accepted();
    let answer = federation.client.enqueue(job("again")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    assert!(relay.accepted() > before, "no connection from before is used");
}

#[tokio::test]
async fn a_region_that_is_only_slow_keeps_its_jobs() {
    let (federation, _relay) = relayed().await;
    assert_eq!(federation.client.enqueue(job("before")).await.status, 201);
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let looks = federation.probes(0);
    let slow = sending(&federation, job("slow"));
    advance_until(&federation, "the region is asked", || federation.probes(0) > looks).await;
    let answer = federation.client.enqueue(job("beside")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    assert!(!is_silent(&federation));
    gate.open();
    assert_eq!(federation.stored(&slow.await.unwrap().job_id()), [(0, 1)]);
}

#[tokio::test]
async fn a_pod_at_rest_keeps_a_connection_to_its_region_and_to_the_next() {
    let federation = Setup::default().regions(2).yaml("limits: { worker_threads: 1 }").start().await;
    assert_eq!(federation.client.enqueue(job("first")).await.status, 201);
    // The next region has carried nothing: one connection is that of the probes, the other one is ready for jobs.
    let idle = r#"pool_connections{region="eu-west-1",state="idle"}"#;
    eventually("a connection for jobs", async || federation.metric(idle).await >= 2.0).await;
    let connections = || [0, 1].map(|place| federation.regions[place].record().connections().len());
    let before = connections();
    let answer = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[0].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
    let failed_over = federation.client.enqueue(job("second")).await;
    assert_eq!(federation.stored(&failed_over.job_id()), [(1, 1)]);
    assert_eq!(connections(), before, "the first failover needs no handshake");
}
