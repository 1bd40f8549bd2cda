//! A client of a running sidecar, as small as the questions that the command line asks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::Authority;
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::arguments::HubArgs;
use crate::config::{RegionTls, ServerIdentity};
use crate::net::tls::{self, TlsError, TlsFiles, explain};

/// A sidecar on the same machine that takes longer is not well.
const TIMEOUT: Duration = Duration::from_secs(35);
/// The most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An answer: its status, its headers and its whole body.
pub(super) type Answer = (http::response::Parts, Bytes);

/// Asks a sidecar at `host:port` or `unix:/path`.
///
/// Errors: a sentence for the person at the terminal.
pub(super) async fn ask(address: &str, method: Method, path: &str, body: Bytes) -> Result<Answer, String> {
    // A copied URL means the same as the address within.
    let address = address.strip_prefix("http://").map_or(address, |rest| rest.trim_end_matches('/'));
    if !address.contains(':') {
        return Err(format!("{address} is no address: expected host:port or unix:/path"));
    }
    let asked = async {
        if let Some(path_of_socket) = address.strip_prefix("unix:") {
            exchange(UnixStream::connect(path_of_socket).await?, "localhost", method, path, body).await
        } else {
            exchange(TcpStream::connect(address).await?, address, method, path, body).await
        }
    };
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!(
            "no sidecar answers at {address}: {error}; start one, or name another with --address or --socket"
        )),
        Err(_) => Err(format!("the sidecar at {address} did not answer within {} s", TIMEOUT.as_secs())),
    }
}

/// Asks a hub over mutual TLS. Errors: a sentence for the person at the terminal.
pub(super) async fn ask_hub(hub: &HubArgs, method: Method, path: &str) -> Result<Answer, String> {
    let Some(url) = hub.hub.as_deref() else { return Err("--hub: expected the URL of the hub".to_owned()) };
    let rest = url.strip_prefix("https://").map(|rest| rest.trim_end_matches('/'));
    let authority: Authority =
        rest.and_then(|rest| rest.parse().ok()).ok_or_else(|| format!("--hub {url}: expected https://host[:port]"))?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let tls = RegionTls {
        ca: hub.hub_ca.clone(),
        cert: hub.hub_cert.clone(),
        key: hub.hub_key.clone(),
        identity: ServerIdentity::UrlHost,
    };
    let named = |error: TlsError| error.to_string().replace("tls.", "--hub-");
    let files = TlsFiles::read(&tls).map_err(named)?;
    let tls = tls::build(&tls, &files, host).map_err(named)?;
    let asked = async {
        let address = (host, authority.port_u16().unwrap_or(443));
        let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::clone(&tls.config_http1));
        let shaken = connector.connect(tls.name.clone(), socket).await;
        let stream = shaken.map_err(|error| explained(&error))?;
        exchange(stream, authority.as_str(), method, path, Bytes::new()).await.map_err(|error| explained(&error))
    };
    let asked = tokio::time::timeout(TIMEOUT, asked).await;
    let asked = asked.map_err(|_| format!("the hub at {authority} did not answer within {} s", TIMEOUT.as_secs()))?;
    asked.map_err(|error| format!("no hub answers at {authority}: {error}; start one, or name another with --hub"))
}

/// In TLS 1.3 a client learns only at its first read that its certificate was refused.
fn explained(error: &io::Error) -> String {
    explain(error).replace("the region", "the hub").replace("tls.", "--hub-")
}

async fn exchange<S>(stream: S, host: &str, method: Method, path: &str, body: Bytes) -> io::Result<Answer>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header("content-type", crate::ojs::header::MEDIA_TYPE)
        .body(Full::new(body))
        .map_err(io::Error::other)?;
    let (parts, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
    let whole = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    Ok((parts, whole.to_bytes()))
}
