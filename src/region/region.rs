//! One region at run time: its address, our identity there, and its counters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::header::{AUTHORIZATION, HOST};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use parking_lot::Mutex;

use super::first_answer::FirstAnswer;
use super::identity::{Files, Identity, IdentityError};
use super::trouble::{RequestFailure, Trouble};
use crate::base::{RegionId, apart};
use crate::config::{DuplicateIds, Problem, RegionConfig};
use crate::net::body::Outgoing;
use crate::net::dial::Endpoint;
use crate::net::usual::UsualConnect;
use crate::policy::{BreakerState, Cause, ClassTotals, GuardClass, RegionIndex, Totals, Transition};

/// One region at run time; shared by all threads.
#[derive(Debug)]
pub struct Region {
    /// Its place in the registry.
    pub index: RegionIndex,
    /// Its identifier.
    pub id: RegionId,
    /// Counts of its requests and answers.
    pub counters: Counters,
    /// Headers with credentials of clients that are not for this region.
    withheld: Box<[HeaderName]>,
    config: RegionConfig,
    authority: Authority,
    host: HeaderValue,
    way: Arc<ArcSwap<Way>>,
    /// The version of OJS that its last good health answer names.
    ojs_version: ArcSwapOption<String>,
    usual: Arc<UsualConnect>,
    /// Why its last probe failed, or why requests opened its breaker.
    trouble: ArcSwapOption<Trouble>,
    /// The request that failed last.
    failure: Mutex<Option<RequestFailure>>,
    /// When it is probed next, in milliseconds since the Unix epoch; 0 before the first probe has ended.
    next_probe: AtomicU64,
    /// Whether it has refused an id because a job has it.
    refuses_ids: AtomicBool,
    pub(super) first_answer: FirstAnswer,
}

/// The counts of data threads at a region for its breaker and its guards.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that ended, since start.
    pub requests: AtomicU64,
    /// The failures among them that count in the breaker's ratio, as far as they came without a class.
    pub failures: AtomicU64,
    /// Of which classes a success would change something, as [`crate::policy::Change::heeds`] has it.
    pub heeds: AtomicU8,
    /// By class.
    pub classes: [ClassCounters; GuardClass::ALL.len()],
}

/// The counts of one class.
#[derive(Debug, Default)]
pub struct ClassCounters {
    /// Calls that showed something.
    pub calls: AtomicU64,
    /// Those of them that failed.
    pub failures: AtomicU64,
    /// Those of them that ended in a server error.
    pub server_errors: AtomicU64,
}

impl Counters {
    /// Where everything stands.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let class = |class: &ClassCounters| ClassTotals {
            calls: class.calls.load(Relaxed),
            failures: class.failures.load(Relaxed),
            server_errors: class.server_errors.load(Relaxed),
        };
        Totals {
            requests: self.requests.load(Relaxed),
            failures: self.failures.load(Relaxed),
            classes: self.classes.each_ref().map(class),
        }
    }
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
    Identity(#[from] IdentityError),
    #[error("url: the host cannot be written as an HTTP authority")]
    Authority,
}

/// The data that one request needs to reach its region, taken at one moment.
#[derive(Debug)]
pub struct Reach<'r> {
    region: &'r Region,
    way: Arc<Way>,
}

/// The changing part of how a region is reached: in one value, because each request loads it.
#[derive(Debug, Clone)]
struct Way {
    addresses: Arc<Vec<SocketAddr>>,
    identity: Arc<Identity>,
    /// How often all connections were to be given up.
    retired: u32,
}

impl Region {
    /// Loads the files of a region and builds the data that requests to it need.
    ///
    /// Errors: [`SetupError`], naming the region and the key of the file.
    pub fn load(place: usize, config: &RegionConfig) -> Result<Self, SetupError> {
        let failed = |cause| SetupError { place, id: config.id.clone(), cause };
        let files = Files::read(config).map_err(|error| failed(error.into()))?;
        let identity = Identity::build(config, files, 0).map_err(|error| failed(error.into()))?;
        // An address literal needs no resolver; a name has no address until the control thread has asked for it.
        let literal = config.url.host.parse().ok().map(|ip| SocketAddr::new(ip, config.url.port));
        let way = Way { addresses: Arc::new(literal.into_iter().collect()), identity: Arc::new(identity), retired: 0 };
        Self::new(place, config, Arc::new(ArcSwap::from_pointee(way)), Arc::default())
            .ok_or_else(|| failed(SetupCause::Authority))
    }

    /// The region in a new configuration: identity, addresses and connections stay if they are configured as before.
    ///
    /// Errors: [`SetupError`], as for [`Region::load`].
    pub fn successor(&self, place: usize, config: &RegionConfig) -> Result<Self, SetupError> {
        if !self.is_reached_as(config) {
            return Self::load(place, config);
        }
        let next = Self::new(place, config, Arc::clone(&self.way), Arc::clone(&self.usual))
            .ok_or_else(|| SetupError { place, id: config.id.clone(), cause: SetupCause::Authority })?;
        next.ojs_version.store(self.ojs_version.load_full());
        next.trouble.store(self.trouble.load_full());
        Ok(next)
    }

    fn new(place: usize, config: &RegionConfig, way: Arc<ArcSwap<Way>>, usual: Arc<UsualConnect>) -> Option<Self> {
        let authority = authority(config)?;
        Some(Self {
            index: RegionIndex::new(place),
            id: config.id.clone(),
            counters: Counters::default(),
            host: HeaderValue::from_str(authority.as_str()).ok()?,
            authority,
            withheld: config.withheld_headers.iter().filter_map(|name| name.parse().ok()).collect(),
            config: config.clone(),
            way,
            ojs_version: ArcSwapOption::empty(),
            usual,
            trouble: ArcSwapOption::empty(),
            failure: Mutex::default(),
            next_probe: AtomicU64::new(0),
            refuses_ids: AtomicBool::new(false),
            first_answer: FirstAnswer::default(),
        })
    }

    /// Whether connections made for this region are as good for the configured one.
    #[must_use]
    pub fn is_reached_as(&self, config: &RegionConfig) -> bool {
        let known = &self.config;
        (&known.id, &known.url, &known.tls, &known.bearer_token_file)
            == (&config.id, &config.url, &config.tls, &config.bearer_token_file)
    }

    /// The version of OJS that its last good health answer names; none before that.
    #[must_use]
    pub fn ojs_version(&self) -> Option<Arc<String>> {
        self.ojs_version.load_full()
    }

    /// Notes the version of OJS that a health answer names.
    pub fn note_ojs_version(&self, version: String) {
        if self.ojs_version.load().as_deref() != Some(&version) {
            self.ojs_version.store(Some(Arc::new(version)));
        }
    }

    /// Its configuration.
    #[must_use]
    pub const fn config(&self) -> &RegionConfig {
        &self.config
    }

    /// Why its last probe failed, or why requests opened its breaker; none where neither is so.
    #[must_use]
    pub fn trouble(&self) -> Option<Arc<Trouble>> {
        self.trouble.load_full()
    }

    /// Takes the finding of a probe.
    pub(super) fn set_trouble(&self, trouble: Option<Trouble>) {
        self.trouble.store(trouble.map(Arc::new));
    }

    /// Notes a request that failed, before the registry counts it.
    pub fn note_failure(&self, failure: RequestFailure) {
        *self.failure.lock() = Some(failure);
    }

    /// Sets the reason for which requests moved the breaker; the finding of the last probe is more precise.
    pub(super) fn explain(&self, transition: Transition, unix_ms: u64) {
        let trouble = self.trouble.load();
        match (transition.to, transition.cause) {
            (BreakerState::Open, cause @ (Cause::RequestFailures | Cause::FailureRatio)) if trouble.is_none() => {
                let trouble = |last| Trouble::of_requests(&self.config.url, &self.addresses(), cause, last, unix_ms);
                self.set_trouble(self.failure.lock().map(trouble));
            }
            (BreakerState::Closed, _) if trouble.as_ref().is_some_and(|it| it.by_requests) => self.set_trouble(None),
            _ => {}
        }
    }

    /// When it is probed next while its breaker is closed; none before the first probe has ended. Units: milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_probe_unix_ms(&self) -> Option<u64> {
        Some(self.next_probe.load(Relaxed)).filter(|unix_ms| *unix_ms > 0)
    }

    /// Notes when it is probed next.
    pub(super) fn set_next_probe(&self, unix_ms: u64) {
        self.next_probe.store(unix_ms, Relaxed);
    }

    /// Its identity now.
    #[must_use]
    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.way.load().identity)
    }

    /// Looks at its files again; true when they held a new identity, which is in force then.
    ///
    /// Errors: [`IdentityError`] when the files cannot be used; the identity stays as it was.
    pub fn reload_identity(&self) -> Result<bool, IdentityError> {
        let files = Files::read(&self.config)?;
        let current = self.identity();
        if current.is_of(&files) {
            return Ok(false);
        }
        let next = Arc::new(Identity::build(&self.config, files, current.number + 1)?);
        self.way.rcu(|way| Way { identity: Arc::clone(&next), ..Way::clone(way) });
        Ok(true)
    }

    /// Sees to it that no request is sent on a connection that was made before now.
    pub fn retire_connections(&self) {
        self.way.rcu(|way| Way { retired: way.retired.wrapping_add(1), ..Way::clone(way) });
    }

    /// The number that connections must have which are made now, or are used again.
    #[must_use]
    pub fn connections_number(&self) -> u64 {
        self.way.load().number()
    }

    /// How long connecting to it usually takes; none before the first connection.
    #[must_use]
    pub fn usual_connect(&self) -> Option<Duration> {
        self.usual.get()
    }

    /// Whether its host is a name, which must be resolved.
    #[must_use]
    pub fn has_name(&self) -> bool {
        self.config.url.host.parse::<std::net::IpAddr>().is_err()
    }

    /// The last addresses of its name; empty before the first answer.
    #[must_use]
    pub fn addresses(&self) -> Arc<Vec<SocketAddr>> {
        Arc::clone(&self.way.load().addresses)
    }

    /// Takes a resolver's answer.
    pub fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        let addresses = Arc::new(addresses);
        self.way.rcu(|way| Way { addresses: Arc::clone(&addresses), ..Way::clone(way) });
    }

    /// The data that a request needs to reach it now. Waits `connect_timeout` at most for a first address of its name.
    pub async fn reach(&self, connect_timeout: Duration) -> Reach<'_> {
        if self.way.load().addresses.is_empty() {
            apart(|| self.first_answer.wait(connect_timeout)).await;
        }
        Reach { region: self, way: self.way.load_full() }
    }

    /// The behaviour of its server for a taken id; `overwrite` where that is unknown.
    #[must_use]
    pub fn duplicate_ids(&self) -> DuplicateIds {
        match self.config.duplicate_ids {
            DuplicateIds::Auto if self.refuses_ids.load(Relaxed) => DuplicateIds::Refuse,
            DuplicateIds::Auto => DuplicateIds::Overwrite,
            known => known,
        }
    }

    /// It has refused an id because a job has it.
    pub fn has_refused_id(&self) {
        self.refuses_ids.store(true, Relaxed);
    }

    /// Whether a client's own `Authorization` would not travel to this region.
    #[must_use]
    pub const fn drops_authorization(&self) -> bool {
        self.config.bearer_token_file.is_some() || !self.config.forward_authorization
    }
}

impl Way {
    /// One number for the identity and for how often connections were given up.
    fn number(&self) -> u64 {
        self.identity.number << u32::BITS | u64::from(self.retired)
    }
}

impl Reach<'_> {
    /// The destination and the expected identity.
    #[must_use]
    pub fn endpoint(&self, connect_timeout: Duration) -> Endpoint<'_> {
        Endpoint {
            addresses: &self.way.addresses,
            authority: &self.region.authority,
            tls: self.way.identity.tls.as_ref(),
            identity: self.way.number(),
            connect_timeout,
            usual: &self.region.usual,
            elsewhere: None,
        }
    }

    /// A request to the region: its `Host`, its credentials, its base path.
    ///
    /// `headers` must hold nothing that belongs to the client's connection.
    /// Errors: `None` when the base path cannot be put before the path.
    #[must_use]
    pub fn request(
        &self,
        method: Method,
        path: &PathAndQuery,
        mut headers: HeaderMap,
        body: Outgoing,
    ) -> Option<Request<Outgoing>> {
        headers.insert(HOST, self.region.host.clone());
        if let Some(bearer) = &self.way.identity.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        } else if !self.region.config.forward_authorization {
            headers.remove(AUTHORIZATION);
        }
        for name in &self.region.withheld {
            headers.remove(name);
        }
        let base_path = &self.region.config.url.base_path;
        let uri = if base_path.is_empty() {
            Uri::from(path.clone())
        } else {
            Uri::from(PathAndQuery::try_from(format!("{base_path}{path}")).ok()?)
        };
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Some(request)
    }
}

fn authority(config: &RegionConfig) -> Option<Authority> {
    let url = &config.url;
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let default_port = if url.tls { 443 } else { 80 };
    let text = if url.port == default_port { host } else { format!("{host}:{}", url.port) };
    Authority::try_from(text).ok()
}
