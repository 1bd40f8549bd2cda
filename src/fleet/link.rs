//! The connection of a sidecar to its hub.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Notify;

use super::events::Events;
use super::status::Status;
use crate::base::{Clock, Draw};
use crate::config::HubConfig;
use crate::journal::Journal;
use crate::net::LocalExecutor;
use crate::net::dial::{DialError, Endpoint, dial};
use crate::net::resolve::Resolve;
use crate::net::tls::{self, TlsFiles, explain};
use crate::net::usual::UsualConnect;
use crate::ojs::path_segment;
use crate::switch::{FeedSwitches, Switch, Version};
use crate::telemetry::{Metrics, event};

/// For connecting, TLS included, and for the answer to a status.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The hub shows itself every three seconds; after three missed signs it is taken for lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Between two statuses.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// How long a sidecar waits at most before it says that a new state is in force, so that a fleet does not do it at once.
const STATUS_SPREAD: Duration = Duration::from_secs(1);
/// Waits between two tries to connect: the first one, and the longest. A fleet spreads over them by its jitter.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// An answer to a status has no body; an error document is short. Units: bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A receiver of the state of the connection: open, or the cause why it is not.
pub type OnState = Box<dyn Fn(Result<(), &str>)>;

/// Keeps the connection of a sidecar to its hub.
pub struct Link {
    /// The URL of the hub, and our certificate there.
    pub config: HubConfig,
    /// Where received switches are kept.
    pub journal: Arc<Journal>,
    /// Where the connection is shown.
    pub metrics: Arc<Metrics>,
    /// Called when the feed is open, and with the cause when it is not.
    pub on_state: OnState,
    /// The status of this sidecar, for its hub.
    pub status: Box<dyn Fn() -> Status>,
    /// Time for waits.
    pub clock: Clock,
    /// For the jitter of waits.
    pub draw: Draw,
    /// Names to addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Notified when a new state is in force, so that the hub gets a status.
    pub applied: Notify,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects, follows the feed and reports, for ever.
    pub async fn run(mut self) {
        let (mut wait, mut before) = (WAITS.0, None);
        let spread = STATUS_SPREAD.mul_f64(self.draw.unit());
        loop {
            let error = match self.connect().await {
                Ok(sender) => {
                    let began = self.clock.now();
                    let error = self.follow(sender, spread).await;
                    if self.clock.now().saturating_duration_since(began) > WAITS.1 {
                        wait = WAITS.0;
                    }
                    error
                }
                Err(error) => error,
            };
            self.lost(&error, before.as_ref());
            before = Some(error);
            self.clock.sleep(wait.mul_f64(0.5 + self.draw.unit() / 2.0)).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }

    /// A hub that stays away for the same cause is logged once.
    fn lost(&self, error: &str, before: Option<&String>) {
        let was_connected = self.metrics.hub_connected.get() == 1;
        self.metrics.hub_connected.set(0);
        (self.on_state)(Err(error));
        if was_connected || before.is_none_or(|before| before != error) {
            event::hub_lost(&self.config.url.text, error);
        }
    }

    fn connected(&self) {
        self.metrics.hub_connected.set(1);
        (self.on_state)(Ok(()));
        event::hub_connected(&self.config.url.text);
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let (url, tls) = (&self.config.url, &self.config.tls);
        let files = TlsFiles::read(tls).map_err(|error| format!("hub.{error}"))?;
        let tls = tls::build(tls, &files, &url.host).map_err(|error| format!("hub.{error}"))?;
        let resolving = tokio::time::timeout(TIMEOUT, self.resolver.resolve(&url.host, url.port)).await;
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
            DialError::Tls(error) => explain(&error).replace("the region", "the hub"),
            DialError::Timeout => format!("connecting took longer than {} s", TIMEOUT.as_secs()),
            error => error.to_string(),
        })?;
        if !stream.is_http2() {
            return Err("it speaks no HTTP/2: is the port of hub.url one of a hub?".to_owned());
        }
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| format!("HTTP/2 failed: {error}"))?;
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(sender)
    }

    /// Reports and follows the feed until it is lost; returns why.
    async fn follow(&self, sender: SendRequest<Full<Bytes>>, spread: Duration) -> String {
        // The first status comes before the feed: the hub knows the sidecar then.
        if let Err(error) = self.report(&mut sender.clone()).await {
            return error;
        }
        let reporting = async {
            loop {
                tokio::select! {
                    () = self.clock.sleep(STATUS_EVERY) => {}
                    () = self.applied.notified() => self.clock.sleep(spread).await,
                }
                if let Err(error) = self.report(&mut sender.clone()).await {
                    return error;
                }
            }
        };
        tokio::select! {
            error = reporting => error,
            Err(error) = self.read_feed(sender.clone()) => error,
        }
    }

    async fn report(&self, sender: &mut SendRequest<Full<Bytes>>) -> Result<(), String> {
        let status = serde_json::to_vec(&(self.status)()).map_err(|error| error.to_string())?;
        let request = self.request(Method::PUT, "/v1/hub/status", status)?;
        let asked = async { accepted(sender.send_request(request).await.map_err(|error| error.to_string())?).await };
        let answered = tokio::time::timeout(TIMEOUT, asked).await;
        answered.map_err(|_| "no answer to the status".to_owned())?.map(drop)
    }

    async fn read_feed(&self, mut sender: SendRequest<Full<Bytes>>) -> Result<(), String> {
        let path = format!("/v1/hub/feed?sidecar={}", path_segment(&(self.status)().name));
        let mut request = self.request(Method::GET, &path, Vec::new())?;
        let known = self.journal.hub().version;
        if known != Version::default()
            && let Ok(known) = known.to_string().parse()
        {
            request.headers_mut().insert("last-event-id", known);
        }
        let opening = async { accepted(sender.send_request(request).await.map_err(|error| error.to_string())?).await };
        let opened = tokio::time::timeout(TIMEOUT, opening).await;
        let mut body = opened.map_err(|_| "no answer to the request for the feed".to_owned())??.into_body();
        self.connected();
        let mut events = Events::default();
        loop {
            let next = tokio::time::timeout(SILENCE_MAX, body.frame()).await;
            let frame = match next.map_err(|_| format!("the feed was silent for {} s", SILENCE_MAX.as_secs()))? {
                Some(frame) => frame.map_err(|error| format!("the feed broke off: {error}"))?,
                None => return Err("the hub has ended the feed".to_owned()),
            };
            let Some(data) = frame.data_ref() else { continue };
            let mut wrong = None;
            let taken = events.take(data, |data| match serde_json::from_str::<FeedSwitches>(data) {
                Ok(switches) => self.apply(switches),
                Err(error) => wrong = Some(format!("the feed cannot be read: {error}")),
            });
            taken.map_err(|_| "the feed cannot be read: an event is longer than 1 MiB".to_owned())?;
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
    }

    fn apply(&self, switches: FeedSwitches) {
        let state = switches.received(self.journal.now(), self.clock.unix_ms());
        let change = self.journal.set_hub(state);
        self.applied.notify_one();
        let region = |it: &Switch| it.region.as_ref().map(ToString::to_string).unwrap_or_default();
        for it in &change.set {
            let lasts = it.ends_unix_ms.saturating_sub(self.clock.unix_ms()) / 1_000;
            event::switch_set(it.kind, &region(it), lasts, [&it.reason, &it.ticket, &it.author]);
        }
        for it in &change.ended {
            event::switch_ended(it.kind, &region(it), Some(["ended at the hub", &it.ticket, &it.author]));
        }
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
        let url = &self.config.url;
        let uri = Uri::builder()
            .scheme("https")
            .authority(authority(url)?)
            .path_and_query(format!("{}{path}", url.base_path));
        let uri = uri.build().map_err(|error| error.to_string())?;
        let request = Request::builder().method(method).uri(uri).body(Full::new(Bytes::from(body)));
        request.map_err(|error| error.to_string())
    }
}

fn authority(url: &crate::config::RegionUrl) -> Result<Authority, String> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    format!("{host}:{}", url.port).parse().map_err(|_| "hub.url: expected a host".to_owned())
}

/// The answer, where it is a success; else its message.
async fn accepted(response: Response<Incoming>) -> Result<Response<Incoming>, String> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let document: serde_json::Value =
        body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok()).unwrap_or_default();
    let message = document["error"]["message"].as_str().unwrap_or("no error document");
    Err(format!("the hub answered {}: {message}", status.as_u16()))
}
