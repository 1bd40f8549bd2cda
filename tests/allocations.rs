//! How often a worker thread asks for memory for one request, and how large the futures of a request are.
//!
//! Both are counts, not times, and the same on every machine. When this fails after a change, the change added allocations or
//! state to the path that every job takes: look for a `String`, `Vec`, `Box`, `Arc` or clone that could be borrowed, made once or
//! kept inline, and for something large that is held over an `.await`. When there is no way around it, raise the number here and
//! say in the commit what it buys. When the change saved some, lower the number, so that nobody spends it unseen.
//!
//! The numbers are those of unoptimised code; optimised code may need less, never more.

#![expect(clippy::unwrap_used, reason = "a stage that cannot be set is a failed test")]

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use ojs_sidecar::api;
use ojs_sidecar::app::{World, build};
use ojs_sidecar::base::Clock;
use ojs_sidecar::config::{Config, Sources, load};
use ojs_sidecar::net::{
    ConnectionPermits, Drain, HandedOver, LocalAddress, REST_AFTER, ServeOptions, accept_loop, bind,
};
use ojs_sidecar::policy::Health;
use ojs_sidecar::proxy::{Proxies, Shared};
use ojs_testbed::{Authority, DemoRegion, RegionOptions, RegionTls};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::oneshot;

/// What one request costs.
#[derive(Debug)]
struct Cost {
    /// An enqueue that is stamped: allocations, and bytes.
    enqueue: (u64, u64),
    /// A request that streams to the local region: the same.
    pass_through: (u64, u64),
    /// The future that carries any request, without what it boxes. Units: bytes.
    future: usize,
}

/// The most that it may cost. The bytes differ by a few tens from run to run. A request and the job that it becomes have allocations of
/// their own, so that they are not copied each time they are handed on.
const MOST: Cost = Cost { enqueue: (26, 24_740), pass_through: (17, 22_100), future: 432 };

/// How the queues of a FETCH of three share jobs, and the most that it may cost then, in allocations and bytes: little more than the first one, without
/// scheduling.
const FETCHES: [(&str, (u64, u64)); 4] = [
    ("", (30, 25_100)),
    ("scheduling: { strategy: weighted, weights: { a: 5, b: 3, c: 1 } }\n", (33, 25_180)),
    (
        "scheduling: { pools: [{ name: p, queues: [a, \"b*\", c], concurrency: 20, strategy: weighted, weights: { a: 5, b: 3, c: 1 }, \
         starvation_prevention: { enabled: true, rotation_interval: PT30S, min_dispatch_ratio: 0.05 } }] }\n",
        (33, 25_190),
    ),
    ("scheduling: { tenant_queues: [{ queue: a, shards: 32 }] }\n", (37, 27_400)),
];

/// Requests that are counted together, so that what happens once in a while is counted with its share.
const BATCH: u64 = 64;
/// The least of so many batches counts: a table that grows, or a read that the system cuts in two, only adds.
const BATCHES: usize = 5;
/// Bounds every wait; reached only when the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job as clients send it, with `meta` and about 600 bytes.
fn enqueue() -> Vec<u8> {
    let text = "x".repeat(380);
    let body = format!(
        r#"{{"type":"email.send","args":["someone@example.com","welcome",{{"locale":"en","text":"{text}"}}],"meta":{{"tenant":"t-1","trace":"0123456789abcdef"}},"options":{{"queue":"default","tags":["a","b"]}}}}"#
    );
    format!(
        "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nContent-Type: application/openjobspec+json\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A call that nothing is known of but that the local region serves it.
fn pass_through() -> Vec<u8> {
    b"GET /ojs/v1/something HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()
}

/// A worker asks for jobs, of which there are none.
fn fetch() -> Vec<u8> {
    let body = r#"{"worker_id":"w","queues":["a","b","c"],"count":1}"#;
    format!(
        "POST /ojs/v1/workers/fetch HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nContent-Type: application/openjobspec+json\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

const fn within(found: (u64, u64), most: (u64, u64)) -> bool {
    found.0 <= most.0 && found.1 <= most.1
}

#[test]
fn a_fetch_allocates_no_more_than_it_is_known_to_whatever_its_queues_share_by() {
    let found = FETCHES.map(|(scheduling, _)| Stage::set(scheduling).cost_of(&fetch(), 200));
    let holds = found.iter().zip(FETCHES).all(|(found, (_, most))| within(*found, most));
    assert!(holds, "what a FETCH allocates has grown: {found:?}, and was {FETCHES:?}");
}

#[test]
fn a_request_allocates_no_more_than_it_is_known_to() {
    let stage = Stage::set("");
    let found = Cost {
        enqueue: stage.cost_of(&enqueue(), 201),
        pass_through: stage.cost_of(&pass_through(), 404),
        future: stage.future_size.get(),
    };
    let holds = within(found.enqueue, MOST.enqueue)
        && within(found.pass_through, MOST.pass_through)
        && found.future <= MOST.future;
    assert!(holds, "what a request allocates has grown: {found:?}, and was {MOST:?}");
}

/// A worker thread in this one, before a region in another.
struct Stage {
    runtime: LocalRuntime,
    address: SocketAddr,
    future_size: Rc<Cell<usize>>,
    _region: DemoRegion,
    _files: tempfile::TempDir,
}

impl Stage {
    /// `scheduling`: a section of the configuration.
    fn set(scheduling: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
        let files = tempfile::tempdir().unwrap();
        let (region, config) = runtime.block_on(region(&files, scheduling));
        // Its own threads probe the region, and serve nobody.
        let bound = build(config, World::default()).unwrap();
        let current = Arc::clone(&bound.current);
        thread::spawn(move || bound.run(std::future::pending()));
        let future_size = Rc::new(Cell::new(0));
        let address = runtime.block_on(async {
            let probed = async {
                while current.load().registry.view().regions[0].health != Health::Healthy {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, probed).await.unwrap();
            serve(current, Rc::clone(&future_size))
        });
        Self { runtime, address, future_size, _region: region, _files: files }
    }

    /// How often one of these requests allocates, and how many bytes.
    fn cost_of(&self, request: &[u8], status: u16) -> (u64, u64) {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut least = (u64::MAX, u64::MAX);
        // The first ones connect and fill what grows.
        for _ in 0..=BATCHES {
            let (cost, back) = self.batch(request.to_vec(), status, socket);
            socket = back;
            least = (least.0.min(rounded(cost.count_total)), least.1.min(rounded(cost.bytes_total)));
        }
        least
    }

    fn batch(&self, request: Vec<u8>, status: u16, mut socket: TcpStream) -> (AllocationInfo, TcpStream) {
        let (done, is_done) = oneshot::channel::<()>();
        let client = thread::spawn(move || {
            for _ in 0..BATCH {
                socket.write_all(&request).unwrap();
                read_answer(&mut socket, status);
            }
            done.send(()).unwrap();
            socket
        });
        let cost = measure(|| self.runtime.block_on(is_done).unwrap());
        (cost, client.join().unwrap())
    }
}

const fn rounded(sum: u64) -> u64 {
    (sum + BATCH / 2) / BATCH
}

/// Reads one answer, whose body has a length.
fn read_answer(socket: &mut TcpStream, status: u16) {
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let read = socket.read(&mut part).unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..read]);
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(start) = head.parse(&answer).unwrap() else { continue };
        assert_eq!(head.code, Some(status), "{}", String::from_utf8_lossy(&answer));
        let length = head.headers.iter().find(|line| line.name.eq_ignore_ascii_case("content-length")).unwrap();
        let length: usize = std::str::from_utf8(length.value).unwrap().parse().unwrap();
        if answer.len() == start + length {
            return;
        }
    }
}

/// A region with mutual TLS, and a configuration for it that is otherwise the default one.
async fn region(files: &tempfile::TempDir, scheduling: &str) -> (DemoRegion, Config) {
    let authority = Authority::new("CA");
    let tls =
        RegionTls { server: authority.server(&["localhost", "127.0.0.1"]), client_ca_pem: Some(authority.ca_pem()) };
    let mut options = RegionOptions::new("region").tls(tls);
    options.http2 = false;
    options.record_bytes_max = 0;
    let region = DemoRegion::start(options).await.unwrap();
    let ca = authority.write_ca(files.path(), "region").unwrap();
    let client = authority.client("sidecar").write_to(files.path(), "client").unwrap();
    let yaml = format!(
        "local_region: region\nlisten: {{ clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }}\nlog: {{ level: warn }}\n\
         regions: [{{ id: region, url: {:?}, tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }} }}]\n{scheduling}",
        region.url(),
        client.cert,
        client.key
    );
    let path = files.path().join("config.yaml");
    std::fs::write(&path, yaml).unwrap();
    let loaded =
        load(&Sources { files: vec![path], ..Sources::default() }).unwrap_or_else(|problems| panic!("{problems}"));
    (region, loaded.config)
}

/// Serves one more listener as a worker thread does.
fn serve(current: Arc<arc_swap::ArcSwap<Shared>>, future_size: Rc<Cell<usize>>) -> SocketAddr {
    let shared = current.load_full();
    let listener = bind(&shared.config.listen, &mut HandedOver::default()).unwrap().swap_remove(0);
    let LocalAddress::Tcp(address) = *listener.local() else { panic!("a TCP listener") };
    let options = ServeOptions {
        limits: shared.config.limits.clone(),
        rest_after: REST_AFTER,
        activity: Drain::new(Clock::system()).worker(),
        permits: ConnectionPermits::new(8),
        on_refused: Rc::new(|why| panic!("{why}: {:?}", Bytes::new())),
    };
    let proxies = Rc::new(Proxies::new(current));
    let service = move |request, connection| {
        let call = api::handle(&proxies, request, connection);
        future_size.set(size_of_val(&call));
        call
    };
    tokio::task::spawn_local(accept_loop(listener.register().unwrap(), options, service));
    address
}
