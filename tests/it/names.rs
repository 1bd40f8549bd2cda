//! Names of regions: resolved aside from requests, followed when they change, kept when the resolver fails.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ojs_sidecar::net::resolve::{Resolve, Resolving};
use ojs_testbed::{DemoRegion, RegionOptions, RegionTls};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{Federation, Setup, eventually, job, pinned};

const NAME: &str = "us-east-1.test";
/// Longer than a name is kept, and than the interval of probes.
const REFRESH: Duration = Duration::from_secs(31);

/// A resolver that knows what the test has told it, and `localhost`.
#[derive(Default)]
struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    known: HashMap<String, Vec<SocketAddr>>,
    asked: usize,
}

impl Book {
    fn write(&self, addresses: &[SocketAddr]) {
        self.0.lock().known.insert(NAME.to_owned(), addresses.to_vec());
    }

    fn erase(&self) {
        self.0.lock().known.clear();
    }

    fn asked(&self) -> usize {
        self.0.lock().asked
    }
}

impl Resolve for Book {
    fn resolve(&self, host: &str, port: u16) -> Resolving {
        let mut pages = self.0.lock();
        let found = match host {
            "localhost" => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
            host => {
                pages.asked += 1;
                pages.known.get(host).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        };
        Box::pin(async move { found })
    }
}

/// A resolver whose answers wait for the test.
struct Late(watch::Sender<bool>);

impl Resolve for Late {
    fn resolve(&self, _: &str, port: u16) -> Resolving {
        let mut told = self.0.subscribe();
        Box::pin(async move {
            // Its sender is with the test.
            let _ = told.wait_for(|told| *told).await;
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
        })
    }
}

#[tokio::test]
async fn a_call_before_the_first_answer_of_the_resolver_waits_for_it() {
    let late = Arc::new(Late(watch::Sender::new(false)));
    let resolver: Arc<dyn Resolve> = late.clone();
    let patient = "limits: { connect_timeout: 10min, call_timeout: 10min }";
    let federation = Setup::default().regions(2).resolver(resolver).yaml(patient).stage().await.launch();
    let client = federation.client;
    let calls = [job("anywhere"), pinned("eu-west-1", "there")];
    let calls = calls.map(|body| tokio::spawn(async move { client.enqueue(body).await }));
    eventually("both are under way", async || federation.shared.concurrency.total_in_flight() == 2).await;
    federation.settle().await;
    late.0.send_replace(true);
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
    }
}

/// Two regions, the local one under a name that nobody knows yet.
async fn nameless(setup: Setup) -> (Federation, Arc<Book>) {
    let book = Arc::new(Book::default());
    let resolver: Arc<dyn Resolve> = book.clone();
    let setup = setup.steered().regions(2).region(0, &format!("url: https://{NAME}")).resolver(resolver);
    (setup.start().await, book)
}

/// Two regions, the local one under a name that has just been learned.
async fn named(setup: Setup) -> (Federation, Arc<Book>) {
    let (federation, book) = nameless(setup).await;
    follow(&federation, &book, &[federation.regions[0].address()]).await;
    probed_healthy(&federation).await;
    // The ramp of a region that has just come up is over.
    federation.advance(Duration::from_secs(60));
    federation.settle().await;
    (federation, book)
}

/// Writes new addresses into the book and waits until the sidecar has read them.
async fn follow(federation: &Federation, book: &Book, addresses: &[SocketAddr]) {
    book.write(addresses);
    refresh(federation).await;
    eventually("the addresses", async || *federation.shared.registry.regions()[0].addresses() == addresses).await;
}

/// Lets the names be asked for again, and the probe that comes due with that end, so that nothing of it is struck by a cut.
async fn refresh(federation: &Federation) {
    federation.advance(REFRESH);
    let registry = &federation.shared.registry;
    let now = registry.clock().unix_ms();
    eventually("a probe", async || registry.view().regions[0].last_probe_unix_ms == Some(now)).await;
}

/// Lets probes come due until one finds the local region well.
async fn probed_healthy(federation: &Federation) {
    eventually("healthy", async || {
        federation.advance(Duration::from_secs(12));
        federation.settle().await;
        federation.health(0) == "healthy"
    })
    .await;
}

async fn check_stored(federation: &Federation, place: usize) {
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(federation.stored(&answer.job_id()), [(place, 1)]);
}

/// A second server of the local region: same name, same credentials, other address.
async fn twin(federation: &Federation) -> DemoRegion {
    let authority = &federation.authorities[0];
    let tls = RegionTls { server: authority.server(&[NAME]), client_ca_pem: Some(authority.ca_pem()) };
    DemoRegion::start(RegionOptions::new("us-east-1").tls(tls)).await.unwrap()
}

#[tokio::test]
async fn a_name_that_does_not_resolve_at_start_is_an_unhealthy_region_until_it_does() {
    let (federation, book) = nameless(Setup::default()).await;
    assert_eq!(federation.health(0), "unhealthy");
    let answer = federation.client.enqueue(pinned("us-east-1", "a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"));
    check_stored(&federation, 1).await;
    assert_eq!(federation.admin.get("/readyz").await.status, 200);
    assert!(federation.metric(r#"dns_failures_total{region="us-east-1"}"#).await >= 1.0);
    follow(&federation, &book, &[federation.regions[0].address()]).await;
    probed_healthy(&federation).await;
    let answer = federation.client.enqueue(pinned("us-east-1", "b")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "{answer:?}");
}

#[tokio::test]
async fn an_unresolved_name_is_asked_for_again_soon() {
    let (federation, book) = nameless(Setup::default()).await;
    for _ in 0..3 {
        let before = book.asked();
        federation.advance(Duration::from_secs(2));
        eventually("asked again", async || book.asked() > before).await;
        federation.settle().await;
    }
}

#[tokio::test]
async fn an_answer_that_disappears_leaves_the_last_good_one_in_use() {
    let (federation, book) = named(Setup::default()).await;
    check_stored(&federation, 0).await;
    let failures = r#"dns_failures_total{region="us-east-1"}"#;
    for vanish in [(|book: &Book| book.erase()) as fn(&Book), |book| book.write(&[])] {
        vanish(&book);
        let before = federation.metric(failures).await;
        refresh(&federation).await;
        eventually("a failed look-up", async || federation.metric(failures).await > before).await;
        federation.regions[0].cut_connections().await;
        check_stored(&federation, 0).await;
    }
    assert_eq!(federation.health(0), "healthy");
}

#[tokio::test]
async fn new_connections_follow_a_name_to_its_new_address() {
    let (federation, book) = named(Setup::default()).await;
    check_stored(&federation, 0).await;
    let twin = twin(&federation).await;
    follow(&federation, &book, &[twin.address()]).await;
    federation.regions[0].stop().await;
    let answer = federation.client.enqueue(pinned("us-east-1", "moved")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(twin.jobs().job(&answer.job_id()).is_some());
    assert!(federation.stored(&answer.job_id()).is_empty());
}

#[tokio::test]
async fn a_dead_address_before_a_live_one_costs_nothing_but_its_refusal() {
    let (federation, book) = named(Setup::default()).await;
    let twin = twin(&federation).await;
    twin.stop().await;
    follow(&federation, &book, &[twin.address(), federation.regions[0].address()]).await;
    federation.regions[0].cut_connections().await;
    let answer = federation.client.enqueue(pinned("us-east-1", "a")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "{answer:?}");
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"));
}

/// The local region's address becomes that of a server which accepts connections and never shakes hands.
async fn fallen_silent(http2: bool) -> (Federation, TcpListener) {
    let setup = Setup::default().yaml("limits: { worker_threads: 1, connect_timeout: 1s, call_timeout: 6s }");
    // Probes may fall into the silence, too, and shall not decide.
    let setup = setup.yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }");
    let setup = setup.yaml("health_check: { timeout: 500ms, unhealthy_threshold: 1000 }");
    let (federation, book) = named(if http2 { setup.http2() } else { setup }).await;
    check_stored(&federation, 0).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    follow(&federation, &book, &[silent.local_addr().unwrap()]).await;
    federation.regions[0].cut_connections().await;
    (federation, silent)
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_given_up_and_the_job_goes_elsewhere() {
    for http2 in [false, true] {
        let (federation, _silent) = fallen_silent(http2).await;
        check_stored(&federation, 1).await;
        let failovers = r#"failovers_total{from_region="us-east-1",reason="timeout"}"#;
        assert_eq!(federation.metric(failovers).await, 1.0);
    }
}

#[tokio::test]
async fn calls_that_wait_for_one_anothers_connection_do_not_wait_in_turn() {
    let (federation, _silent) = fallen_silent(true).await;
    let client = federation.client;
    let mut calls: JoinSet<_> =
        (0..16).map(|call| async move { client.enqueue(job(&format!("a{call}"))).await }).collect();
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    }
}
