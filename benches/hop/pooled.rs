//! The bare pass-through with the sidecar's own pool of connections instead of a stack.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::uri::Authority;
use http::{Request, Response};
use hyper::body::Incoming;
use ojs_sidecar::config::RegionTls;
use ojs_sidecar::net::body::{Outgoing, Upload};
use ojs_sidecar::net::dial::Endpoint;
use ojs_sidecar::net::pool::{Pool, PoolLimits, PoolMeters, RegionBody};
use ojs_sidecar::net::tls::{ClientTls, TlsFiles, build};
use prometheus::{Gauge, IntCounter, IntGauge};

use super::bare::serve;

struct Upstream {
    addresses: [SocketAddr; 1],
    authority: Authority,
    tls: ClientTls,
    pool: Pool,
}

/// Arguments: as those of `bare`.
pub(crate) fn run(arguments: &[String]) {
    let [port, to, cert, key, ca] = arguments else { panic!("pooled PORT TO CERT KEY CA") };
    let [ca, cert, key] = [ca, cert, key].map(|file| Some(file.into()));
    let tls = RegionTls { ca, cert, key, ..RegionTls::default() };
    let upstream = Rc::new(Upstream {
        addresses: [(Ipv4Addr::LOCALHOST, to.parse().unwrap()).into()],
        authority: format!("localhost:{to}").parse().unwrap(),
        tls: build(&tls, &TlsFiles::read(&tls).unwrap(), "localhost").unwrap(),
        pool: Pool::new(limits(), meters()),
    });
    serve(port, move |request| pass(Rc::clone(&upstream), request));
}

async fn pass(upstream: Rc<Upstream>, request: Request<Incoming>) -> Result<Response<RegionBody>, Infallible> {
    let endpoint = Endpoint {
        addresses: &upstream.addresses,
        authority: &upstream.authority,
        tls: Some(&upstream.tls),
        identity: 0,
        connect_timeout: Duration::from_secs(5),
    };
    let mut request = Some(request.map(|body| Outgoing::stream(body, Upload::begin())));
    Ok(upstream.pool.send(&endpoint, &mut request, Instant::now(), None).await.unwrap())
}

/// As the sidecar's are by default.
fn limits() -> PoolLimits {
    let (idle_timeout, lifetime) = (Duration::from_secs(50), Duration::from_secs(300));
    PoolLimits { idle_max: 256, idle_timeout, lifetime, head_bytes: 64 * 1024, headers: 100 }
}

fn meters() -> PoolMeters {
    let gauge = || IntGauge::new("gauge", "gauge").unwrap();
    let counter = || IntCounter::new("counter", "counter").unwrap();
    PoolMeters {
        idle: gauge(),
        busy: gauge(),
        established: counter(),
        dns: counter(),
        refused: counter(),
        tls: counter(),
        timeout: counter(),
        server_expiry: Gauge::new("gauge", "gauge").unwrap(),
    }
}
