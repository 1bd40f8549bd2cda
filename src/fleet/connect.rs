//! One HTTP/2 connection to a replica of the hub.

use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::config::{RegionTls, RegionUrl};
use crate::net::LocalExecutor;
use crate::net::dial::{DialError, Endpoint, dial};
use crate::net::resolve::Resolve;
use crate::net::tls::{self, TlsError, TlsFiles, Words, explain_for};
use crate::net::usual::UsualConnect;

/// The words for the hub, by the keys of the section `hub`.
const HUB: Words = Words {
    server: "the hub",
    no_authority: "no authority of hub.tls.ca; without that key, of the operating system",
    name: "the hosts of hub.urls, hub.tls.server_name and hub.tls.uri_san",
    cert: "hub.tls.cert",
    credentials: "hub.tls.cert and hub.tls.key",
    url: "hub.urls",
};

/// For the name to resolve, and for connecting, TLS included.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Connects over mutual TLS; the files are read anew.
///
/// Must run within a local runtime.
/// Errors: a sentence for the operator.
pub(super) async fn connect(
    url: &RegionUrl,
    tls: &RegionTls,
    resolver: &dyn Resolve,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let files = TlsFiles::read(tls).map_err(|error| named(&error))?;
    let tls = tls::build(tls, &files, &url.host).map_err(|error| named(&error))?;
    let resolving = tokio::time::timeout(TIMEOUT, resolver.resolve(&url.host, url.port)).await;
    let addresses = resolving.map_err(|_| "the name of the hub did not resolve in time".to_owned())?;
    let addresses = addresses.map_err(|error| format!("the name of the hub does not resolve: {error}"))?;
    let authority = authority(url)?;
    let endpoint = Endpoint {
        addresses: &addresses,
        authority: &authority,
        tls: Some(&tls),
        identity: 0,
        connect_timeout: TIMEOUT,
        usual: &UsualConnect::default(),
        elsewhere: None,
    };
    let stream = dial(&endpoint, true).await.map_err(|error| match error {
        DialError::Tls(error) => explain_for(&HUB, &error),
        DialError::Timeout => format!("connecting took longer than {} s", TIMEOUT.as_secs()),
        error => error.to_string(),
    })?;
    if !stream.is_http2() {
        return Err("it speaks no HTTP/2: is the port in hub.urls one of a hub?".to_owned());
    }
    let (sender, connection) = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| format!("HTTP/2 failed: {error}"))?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}

/// The mistake in our TLS files, behind the section that names them.
fn named(error: &TlsError) -> String {
    match error {
        TlsError::Name => "hub.tls.server_name or the host in hub.urls is neither a DNS name nor an address".to_owned(),
        TlsError::File { .. } | TlsError::CertificateVersion(_) => format!("hub.{error}"),
        _ => format!("hub.tls: {error}"),
    }
}

/// The host and the port of a URL, as requests name them.
pub(super) fn authority(url: &RegionUrl) -> Result<Authority, String> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    format!("{host}:{}", url.port).parse().map_err(|_| "hub.urls: expected a host".to_owned())
}
