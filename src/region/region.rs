//! One region at run time: where it is, as whom we speak to it, and what we count there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{AUTHORIZATION, HOST};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};

use crate::base::RegionId;
use crate::config::{Problem, RegionConfig, RegionUrl};
use crate::net::body::Outgoing;
use crate::net::dial::Endpoint;
use crate::net::tls::{self, ClientTls, TlsError};
use crate::policy::RegionIndex;

/// A bearer token is at most this long: a header line must hold it.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// One region at run time; shared by all threads.
#[derive(Debug)]
pub struct Region {
    /// Its place in the registry.
    pub index: RegionIndex,
    /// Its identifier.
    pub id: RegionId,
    /// Its base URL.
    pub url: RegionUrl,
    /// What it has been sent and has answered.
    pub counters: Counters,
    forward_authorization: bool,
    authority: Authority,
    host: HeaderValue,
    bearer: Option<HeaderValue>,
    tls: Option<ClientTls>,
    addresses: ArcSwap<Vec<SocketAddr>>,
}

/// What data threads count at a region for its breaker.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that ended, since start.
    pub requests: AtomicU64,
    /// Those of them that count as failures in the breaker's ratio.
    pub failures: AtomicU64,
    /// Whether consecutive request failures are being counted, so that a success has something to reset.
    pub failing: AtomicBool,
}

/// Why a region cannot be set up; the message holds no path and no content of its files.
#[derive(Debug, thiserror::Error)]
#[error("regions[{place}] ({id}): {cause}")]
pub struct SetupError {
    place: usize,
    id: RegionId,
    cause: SetupCause,
}

impl From<SetupError> for Problem {
    fn from(error: SetupError) -> Self {
        let key = format!("regions[{}]", error.place);
        Self { key, origin: "the files it names".to_owned(), rule: error.cause.to_string() }
    }
}

#[derive(Debug, thiserror::Error)]
enum SetupCause {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("bearer_token_file: expected a readable file with a token of at most 16 KiB of visible ASCII: {0}")]
    Token(String),
    #[error("url: the host cannot be written as an HTTP authority")]
    Authority,
}

impl Region {
    /// Loads the files of a region and builds what requests to it need.
    ///
    /// Errors: [`SetupError`], naming the region and the key of the file.
    pub fn load(place: usize, config: &RegionConfig) -> Result<Self, SetupError> {
        let failed = |cause| SetupError { place, id: config.id.clone(), cause };
        let tls = if config.url.tls {
            Some(tls::load(&config.tls, &config.url.host).map_err(|error| failed(error.into()))?)
        } else {
            None
        };
        let authority = authority(&config.url).ok_or_else(|| failed(SetupCause::Authority))?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| failed(SetupCause::Authority))?;
        let bearer = match &config.bearer_token_file {
            Some(path) => Some(read_token(path).map_err(failed)?),
            None => None,
        };
        // An address literal needs no resolver; a name has no address until the control thread has asked for it.
        let literal = config.url.host.parse().ok().map(|ip| SocketAddr::new(ip, config.url.port));
        Ok(Self {
            index: RegionIndex::new(place),
            id: config.id.clone(),
            url: config.url.clone(),
            counters: Counters::default(),
            forward_authorization: config.forward_authorization,
            authority,
            host,
            bearer,
            tls,
            addresses: ArcSwap::from_pointee(literal.into_iter().collect()),
        })
    }

    /// Its TLS configuration, unless it is spoken to in plain HTTP.
    #[must_use]
    pub const fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Whether its host is a name, which must be resolved.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.url.host.parse::<std::net::IpAddr>().is_err()
    }

    /// What its name last resolved to; empty before the first answer.
    #[must_use]
    pub fn addresses(&self) -> Arc<Vec<SocketAddr>> {
        self.addresses.load_full()
    }

    /// Takes a resolver's answer.
    pub fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        self.addresses.store(Arc::new(addresses));
    }

    /// Where to connect, with addresses from [`Region::addresses`].
    #[must_use]
    pub fn endpoint<'a>(&'a self, addresses: &'a [SocketAddr], connect_timeout: Duration) -> Endpoint<'a> {
        Endpoint { addresses, authority: &self.authority, tls: self.tls.as_ref(), connect_timeout }
    }

    /// Whether a client's own `Authorization` would not travel to this region.
    #[must_use]
    pub const fn drops_authorization(&self) -> bool {
        self.bearer.is_some() || !self.forward_authorization
    }

    /// A request to this region: its `Host`, its credentials, its base path.
    ///
    /// `headers` must hold nothing that belongs to the client's connection.
    /// Errors: none for a path that came from a parsed request; `None` when the base path cannot be put before it.
    #[must_use]
    pub fn request(
        &self,
        method: Method,
        path: &PathAndQuery,
        mut headers: HeaderMap,
        body: Outgoing,
    ) -> Option<Request<Outgoing>> {
        headers.insert(HOST, self.host.clone());
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        } else if !self.forward_authorization {
            headers.remove(AUTHORIZATION);
        }
        let uri = if self.url.base_path.is_empty() {
            Uri::from(path.clone())
        } else {
            Uri::from(PathAndQuery::try_from(format!("{}{path}", self.url.base_path)).ok()?)
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Some(request)
    }
}

fn authority(url: &RegionUrl) -> Option<Authority> {
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let default_port = if url.tls { 443 } else { 80 };
    let text = if url.port == default_port { host } else { format!("{host}:{}", url.port) };
    Authority::try_from(text).ok()
}

fn read_token(path: &std::path::Path) -> Result<HeaderValue, SetupCause> {
    let text = std::fs::read_to_string(path).map_err(|error| SetupCause::Token(error.to_string()))?;
    let token = text.trim();
    let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || token.len() > TOKEN_BYTES_MAX {
        return Err(SetupCause::Token("the content is empty, too long or not visible ASCII".to_owned()));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| SetupCause::Token("the content cannot stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
