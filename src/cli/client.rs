//! A client of a running sidecar, as small as the questions that the command line asks.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
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
use crate::net::tls::{self, TlsError, TlsFiles, Words, explain_for};

/// A sidecar on the same machine that takes longer is not well.
const TIMEOUT: Duration = Duration::from_secs(35);
/// A hub takes no token that is half as long.
const TOKEN_FILE_BYTES_MAX: u64 = 16 * 1024;
/// The most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An answer: its status, its headers and its whole body.
pub(super) type Answer = (http::response::Parts, Bytes);

/// A header of a request.
pub(super) type Header = (HeaderName, HeaderValue);

/// Asks a sidecar at `host:port` or `unix:/path`.
///
/// Errors: a sentence for the person at the terminal.
pub(super) async fn ask(address: &str, method: Method, path: &str, body: Bytes) -> Result<Answer, String> {
    ask_with(address, None, method, path, body).await
}

/// The same with a header.
pub(super) async fn ask_with(
    address: &str,
    header: Option<Header>,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Answer, String> {
    // A copied URL means the same as the address within.
    let address = address.strip_prefix("http://").map_or(address, |rest| rest.trim_end_matches('/'));
    if !address.contains(':') {
        return Err(format!("{address} is no address: expected host:port or unix:/path"));
    }
    let asked = async {
        if let Some(path_of_socket) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path_of_socket).await?;
            exchange(stream, "localhost", header, method, path, body).await
        } else {
            exchange(TcpStream::connect(address).await?, address, header, method, path, body).await
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

/// Asks a hub over TLS, as the operator of a certificate or of a token. Errors: a sentence for the person at the terminal.
pub(super) async fn ask_hub(hub: &HubArgs, method: Method, path: &str, body: Bytes) -> Result<Answer, String> {
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
    let token = hub.token_file.as_deref().map(token).transpose()?;
    let files = TlsFiles::read(&tls).map_err(named)?;
    let tls = tls::build(&tls, &files, host).map_err(named)?;
    let words = words(hub);
    let failed = |error: io::Error| format!("{authority}: {}", explain_for(&words, &error));
    let asked = async {
        let address = (host, authority.port_u16().unwrap_or(443));
        let socket = TcpStream::connect(address).await.map_err(|error| {
            format!("no hub answers at {authority}: {error}; start one, or name another with --hub")
        })?;
        let connector = TlsConnector::from(Arc::clone(&tls.config_http1));
        let stream = connector.connect(tls.name.clone(), socket).await.map_err(failed)?;
        // In TLS 1.3 a client learns only at its first read that its certificate was refused.
        exchange(stream, authority.as_str(), token.map(|token| (AUTHORIZATION, token)), method, path, body)
            .await
            .map_err(failed)
    };
    let asked = tokio::time::timeout(TIMEOUT, asked).await;
    asked.map_err(|_| format!("the hub at {authority} did not answer within {} s", TIMEOUT.as_secs()))?
}

/// The words for the hub, by the options that are given.
const fn words(hub: &HubArgs) -> Words {
    Words {
        server: "the hub",
        no_authority: if hub.hub_ca.is_some() {
            "no authority of --hub-ca"
        } else {
            "no authority that this machine trusts: set --hub-ca"
        },
        name: "the host of --hub",
        cert: "--hub-cert",
        // A hub with `tokens` requires no certificate.
        credentials: if hub.token_file.is_some() {
            "--hub-cert and --hub-key in place of --token-file, because this hub takes no tokens: its configuration has no `tokens`"
        } else {
            "--hub-cert and --hub-key"
        },
        url: "--hub",
    }
}

/// The mistake in the TLS files, by the option that names them.
fn named(error: TlsError) -> String {
    match error {
        TlsError::Name => "--hub: the host is neither a DNS name nor an address".to_owned(),
        TlsError::KeyMismatch(cert, key) => {
            format!("--hub-key: the private key{key} is not that of the certificate{cert} of --hub-cert")
        }
        TlsError::CertificateVersion(cert) => {
            format!("--hub-cert: certificate{cert} is of X.509 version 1; reissue it with extensions (version 3)")
        }
        // These have no paths, which might look like a key.
        error => error.to_string().replace("tls.", "--hub-"),
    }
}

/// The header with the token of a file. Its content is never shown.
fn token(path: &Path) -> Result<HeaderValue, String> {
    let wrong = |why: &str| format!("--token-file {}: expected a file with a bearer token: {why}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
    file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(&error.to_string()))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong("it holds something else"));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong("it holds something else"))?;
    header.set_sensitive(true);
    Ok(header)
}

async fn exchange<S>(
    stream: S,
    host: &str,
    header: Option<Header>,
    method: Method,
    path: &str,
    body: Bytes,
) -> io::Result<Answer>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header("content-type", crate::ojs::header::MEDIA_TYPE)
        .body(Full::new(body))
        .map_err(io::Error::other)?;
    request.headers_mut().extend(header);
    let (parts, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
    let whole = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    Ok((parts, whole.to_bytes()))
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, CertificateError, Error};

    use super::*;

    #[test]
    fn every_cause_of_a_failed_handshake_names_options_and_no_keys() {
        let alert = |alert| Error::AlertReceived(alert);
        for ca in [None, Some("ca.pem".into())] {
            let hub = HubArgs { hub: None, hub_ca: ca, hub_cert: None, hub_key: None, token_file: None };
            for error in [
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                Error::InvalidCertificate(CertificateError::NotValidForName),
                alert(AlertDescription::CertificateRequired),
                alert(AlertDescription::UnknownCA),
                Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
            ] {
                let text = explain_for(&words(&hub), &io::Error::other(error));
                let is_of_keys = ["tls.", "server_name", "the region", "url"].iter().any(|word| text.contains(word));
                assert!(text.contains("--hub") && !is_of_keys, "{text}");
            }
            let named = named(TlsError::Name);
            assert!(named.contains("--hub") && !named.contains("server_name"), "{named}");
        }
    }
}
