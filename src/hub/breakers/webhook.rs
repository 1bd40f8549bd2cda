//! One message to the webhook. The URL and the token may be secrets: no error names them.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::super::breaker_settings::WebhookSettings;
use crate::net::dial::{Endpoint, dial};
use crate::net::resolve::{Resolve as _, SystemResolver};
use crate::net::tls::{self, TlsFiles};
use crate::net::usual::UsualConnect;

/// For one message, connecting and the answer included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A longer token is a mistake. Units: bytes.
const TOKEN_BYTES_MAX: u64 = 16 * 1024;

/// Posts a JSON document.
///
/// Errors: a sentence for the operator.
/// Cancel: the receiver may have it.
pub(super) async fn post(settings: &WebhookSettings, id: &str, document: String) -> Result<(), String> {
    let sent = tokio::time::timeout(TIMEOUT, post_within(settings, id, document)).await;
    sent.map_err(|_| format!("it did not answer within {} s", TIMEOUT.as_secs()))?
}

async fn post_within(settings: &WebhookSettings, id: &str, document: String) -> Result<(), String> {
    let url = settings.url().ok_or("incidents.webhook.url: expected an https URL")?;
    let authority = if url.host.contains(':') {
        format!("[{}]:{}", url.host, url.port)
    } else {
        format!("{}:{}", url.host, url.port)
    };
    let authority = authority.parse().map_err(|_| "incidents.webhook.url: expected a host")?;
    let client = if url.tls {
        let named = |error: tls::TlsError| format!("incidents.webhook: {error}");
        let files = TlsFiles::read(&settings.tls()).map_err(named)?;
        Some(tls::build(&settings.tls(), &files, &url.host).map_err(named)?)
    } else {
        None
    };
    let addresses = SystemResolver.resolve(&url.host, url.port).await;
    let addresses = addresses.map_err(|error| format!("its name does not resolve: {error}"))?;
    let endpoint = Endpoint {
        addresses: &addresses,
        authority: &authority,
        tls: client.as_ref(),
        identity: 0,
        connect_timeout: TIMEOUT,
        usual: &UsualConnect::default(),
        elsewhere: None,
    };
    let stream = dial(&endpoint, false).await.map_err(|error| format!("connecting failed ({})", error.label()))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| format!("HTTP failed: {error}"))?;
    let request = request(settings, (&url.base_path, authority.as_str()), id, document)?;
    let answered = async {
        let answer = sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answers {}", status.as_u16())) }
    };
    // The connection is driven here, and ends with the message: an answer may have come with its end.
    let mut answered = pin!(answered);
    tokio::select! {
        biased;
        answered = &mut answered => answered,
        _ = connection => answered.await,
    }
}

fn request(
    settings: &WebhookSettings,
    (path, authority): (&str, &str),
    id: &str,
    document: String,
) -> Result<Request<Full<Bytes>>, String> {
    let path = if path.is_empty() { "/" } else { path };
    let wrong = || "incidents.webhook: the request cannot be made".to_owned();
    let mut request = Request::new(Full::new(Bytes::from(document)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path.parse().map_err(|_| wrong())?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(authority).map_err(|_| wrong())?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("idempotency-key", HeaderValue::from_str(id).map_err(|_| wrong())?);
    if let Some(path) = &settings.token_file {
        let length = std::fs::metadata(path).map_err(|error| format!("incidents.webhook.token_file: {error}"))?.len();
        if length > TOKEN_BYTES_MAX {
            return Err("incidents.webhook.token_file: expected at most 16 KiB".to_owned());
        }
        let token = std::fs::read_to_string(path).map_err(|error| format!("incidents.webhook.token_file: {error}"))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| "incidents.webhook.token_file: expected a token of visible ASCII")?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(request)
}
