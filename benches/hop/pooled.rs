//! The bare pass-through with the sidecar's own pool of connections instead of a stack.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::uri::Authority;
use http::{Request, Response};
use hyper::body::Incoming;
use ojs_sidecar::config::{RegionTls, Sources, load};
use ojs_sidecar::net::body::{Outgoing, Upload};
use ojs_sidecar::net::dial::Endpoint;
use ojs_sidecar::net::pool::{Pool, RegionBody};
use ojs_sidecar::net::tls::{ClientTls, TlsFiles, build};
use ojs_sidecar::net::usual::UsualConnect;
use ojs_sidecar::ojs::Class;
use ojs_sidecar::proxy::{pool_limits, pool_meters};
use ojs_sidecar::telemetry::Metrics;

use super::bare::serve;

struct Upstream {
    addresses: [SocketAddr; 1],
    authority: Authority,
    tls: ClientTls,
    pool: Pool,
    usual: UsualConnect,
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
        pool: pool(),
        usual: UsualConnect::default(),
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
        usual: &upstream.usual,
        elsewhere: None,
    };
    let mut request = Some(request.map(|body| Outgoing::stream(body.into(), Upload::begin())));
    Ok(upstream.pool.send(&endpoint, &mut request, Instant::now(), None).await.unwrap())
}

/// With the bounds that a sidecar has by default, and counters as it has them, which nobody scrapes.
fn pool() -> Pool {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let text = "insecure_dev: true\nlocal_region: region-0\nregions: [{ id: region-0, url: 'http://127.0.0.1:1' }]\n";
    std::fs::write(file.path(), text).unwrap();
    let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
    let config = load(&sources).unwrap_or_else(|problems| panic!("{problems}")).config;
    let metrics = Metrics::new(std::slice::from_ref(&config.local_region), &Class::ALL.map(Class::as_str));
    Pool::new(pool_limits(&config), pool_meters(metrics.region(0)))
}
