//! A hub as a value: everything is bound before anything runs.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::signal::unix::{SignalKind, signal};

use super::admin;
use super::audit_heads::{sign_heads, sign_last};
use super::audit_log::{AuditKeyError, AuditLog};
use super::body_store::BodiesError;
use super::breaker_desk::BreakerDesk;
use super::breakers;
use super::conflicts;
use super::drill;
use super::events;
use super::follow::{
    Failures, follow_record, keep_inventory, load, prune_bodies, prune_index, prune_keys, prune_reports, save_inventory,
};
use super::identity::{Files, IdentityError};
use super::index::Index;
use super::ledger;
use super::ledger_desk::Ledger;
use super::limits::Limits;
use super::promotion;
use super::pulling::pull;
use super::pulling_bodies::pull_bodies;
use super::record::{Record, RecordError};
use super::replay;
use super::returning::open_feeds;
use super::serve::{registered, serve};
use super::settings::Settings;
use super::state::Hub;
use super::tokens::{KeysError, Tokens};
use super::uwer;
use super::uwer_store::{Uwer, UwerKeyError};
use super::views::Views;
use crate::base::Clock;
use crate::region::SetupError;
use crate::telemetry::event;

/// How often the TLS files are compared with those in use.
const FILES_EVERY: Duration = Duration::from_secs(10);
/// How long the end of the process waits for the disk.
const END_WAIT: Duration = Duration::from_secs(2);
/// Without a switch there is nothing to wait for but a new one; the bound is no more than that of every wait.
const EXPIRE_WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// After a switch could not be ended for want of the disk. Sidecars end it by themselves.
const EXPIRE_RETRY: Duration = Duration::from_secs(30);

/// Why a hub cannot start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its TLS files.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The keys of tokens.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The key of the audit trail.
    #[error(transparent)]
    Audit(#[from] AuditKeyError),
    /// The bodies of jobs.
    #[error(transparent)]
    Bodies(#[from] BodiesError),
    /// The key of dead letters.
    #[error(transparent)]
    Uwer(#[from] UwerKeyError),
    /// The files of a region.
    #[error(transparent)]
    Region(#[from] SetupError),
    /// Its record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An address cannot be bound.
    #[error("{key}: {address} cannot be bound: {source}")]
    Listen {
        /// The key of the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The kernel gives no runtime or listener.
    #[error("the kernel refuses a runtime or a listener: {0}")]
    Runtime(std::io::Error),
    /// A task that must not end has ended.
    #[error("the task `{0}` has ended, which is a defect")]
    Ended(&'static str),
}

impl RunError {
    /// Whether the configuration is at fault.
    #[must_use]
    pub fn is_of_configuration(&self) -> bool {
        match self {
            Self::Identity(_) | Self::Keys(_) | Self::Audit(_) | Self::Region(_) | Self::Bodies(_) | Self::Uwer(_) => {
                true
            }
            Self::Record(error) => error.is_of_configuration(),
            _ => false,
        }
    }
}

/// A hub with its record open and its addresses bound, nothing running.
#[derive(Debug)]
pub struct Bound {
    /// Where sidecars and operators reach it, with the port that the kernel chose.
    pub address: SocketAddr,
    /// Where its health and metrics are.
    pub admin: SocketAddr,
    listener: std::net::TcpListener,
    admin_listener: std::net::TcpListener,
    settings: Settings,
    files: Files,
    tls: Arc<ArcSwap<ServerConfig>>,
    record: Record,
    clock: Clock,
    views: Option<Views>,
    tokens: Option<Tokens>,
    index: Option<Index>,
    uwer: Option<Uwer>,
    audit_log: Option<AuditLog>,
}

/// Whether a hub could use the files of these settings. Opens no record.
///
/// Errors: [`RunError::Identity`], [`RunError::Keys`], [`RunError::Audit`], [`RunError::Record`] and [`RunError::Region`].
pub fn check(settings: &Settings) -> Result<(), RunError> {
    Files::read(&settings.tls)?.config(settings.tokens.is_some())?;
    settings.tokens.clone().map(Tokens::load).transpose()?;
    settings.probing.clone().map(|probing| Views::new(probing, Clock::system())).transpose()?;
    settings.index.clone().map(Index::load).transpose()?;
    settings.uwer.clone().map(Uwer::load).transpose()?;
    settings.audit.clone().map(AuditLog::load).transpose()?;
    Ok(Record::check(&settings.record)?)
}

/// Makes the tables of the record and their indexes, or brings them to the version of this program. Returns whether the indexes are ready: the
/// one for conflicts of `index` may take longer than is waited for it.
///
/// Errors: [`RunError`]; a further time goes on.
pub fn migrate(settings: &Settings) -> Result<bool, RunError> {
    let record = Record::open(&settings.record)?;
    Ok(runtime()?.block_on(record.migrate_whole(settings.index.is_some()))?)
}

fn runtime() -> Result<LocalRuntime, RunError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build_local(LocalOptions::default()).map_err(RunError::Runtime)
}

/// Reads the TLS files and the keys of tokens, opens the record and binds the addresses.
///
/// Errors: [`RunError`]; nothing is left bound.
pub fn bind(settings: Settings, clock: Clock) -> Result<Bound, RunError> {
    let files = Files::read(&settings.tls)?;
    let tokens = settings.tokens.clone().map(Tokens::load).transpose()?;
    let tls = Arc::new(ArcSwap::new(files.config(tokens.is_some())?));
    let views = settings.probing.clone().map(|probing| Views::new(probing, clock.clone())).transpose()?;
    let index = settings.index.clone().map(Index::load).transpose()?;
    let uwer = settings.uwer.clone().map(Uwer::load).transpose()?;
    let audit_log = settings.audit.clone().map(AuditLog::load).transpose()?;
    let record = Record::open(&settings.record)?;
    let listen = |key, address| {
        let bound = std::net::TcpListener::bind(address).and_then(|it| Ok((it.local_addr()?, it)));
        bound.map_err(|source| RunError::Listen { key, address, source })
    };
    let (address, listener) = listen("listen", settings.listen)?;
    let (admin, admin_listener) = listen("admin", settings.admin)?;
    Ok(Bound {
        address,
        admin,
        listener,
        admin_listener,
        settings,
        files,
        tls,
        record,
        clock,
        views,
        tokens,
        index,
        uwer,
        audit_log,
    })
}

impl Bound {
    /// Runs until `until` resolves. Blocks the calling thread.
    ///
    /// Errors: [`RunError`].
    pub fn run(self, until: impl Future<Output = ()>) -> Result<(), RunError> {
        runtime()?.block_on(self.run_here(until))
    }

    async fn run_here(self, until: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self {
            address,
            admin,
            listener,
            admin_listener,
            settings,
            files,
            tls,
            record,
            clock,
            views,
            tokens,
            index,
            uwer,
            audit_log,
        } = self;
        let listener = registered(listener).map_err(RunError::Runtime)?;
        let admin_listener = registered(admin_listener).map_err(RunError::Runtime)?;
        let mut hub = Hub::new(settings.access(), record, clock);
        hub.views = views.map(Rc::new);
        hub.limits = Limits::new(&settings.limits, &settings.pools);
        hub.index = index;
        hub.uwer = uwer;
        hub.ledger = settings.ledger.clone().map(Ledger::new);
        hub.breakers = BreakerDesk::new(settings.breakers.clone(), settings.incidents.clone());
        hub.tokens = tokens;
        hub.audit_log = audit_log;
        let hub = Rc::new(hub);
        let started = || event::hub_started(&address.to_string(), &admin.to_string(), &settings.record.shown());
        tokio::select! {
            ended = serve_loaded(listener, Arc::clone(&tls), &hub, started, until) => ended,
            () = admin::serve(admin_listener, Rc::clone(&hub)) => Err(RunError::Ended("admin listener")),
            () = probe_regions(&hub) => Err(RunError::Ended("probes")),
            () = reload_files(&settings, files, &tls, hub.tokens.as_ref()) => Err(RunError::Ended("watch over files")),
        }
    }
}

/// Serves sidecars and operators until `until` resolves, once the record was read: a sidecar that was told of an empty one would end the
/// switches in force.
async fn serve_loaded(
    listener: TcpListener,
    tls: Arc<ArcSwap<ServerConfig>>,
    hub: &Rc<Hub>,
    on_start: impl FnOnce(),
    until: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let mut until = pin!(until);
    tokio::select! {
        () = &mut until => return Ok(()),
        loaded = load(hub) => loaded?,
    }
    check_key(hub).await?;
    on_start();
    tokio::select! {
        () = serve(listener, tls, Rc::clone(hub), until) => {
            // A disk that does not answer must not keep the process.
            let _ = tokio::time::timeout(END_WAIT, async { (sign_last(hub).await, save_inventory(hub).await) }).await;
            Ok(())
        }
        () = end_switches(hub) => Err(RunError::Ended("end of switches")),
        () = keep_inventory(hub) => Err(RunError::Ended("inventory")),
        () = hub.limits.grant(&hub.record, hub.follow()) => Err(RunError::Ended("grants")),
        () = hub.quota_desk.grant(&hub.record) => Err(RunError::Ended("tokens")),
        () = pull_bodies(hub) => Err(RunError::Ended("replication of bodies")),
        () = conflicts::run(hub) => Err(RunError::Ended("conflicts")),
        () = events::run(hub) => Err(RunError::Ended("event streams")),
        () = promotion::run(hub) => Err(RunError::Ended("promotions")),
        () = replay::run(hub) => Err(RunError::Ended("replays")),
        () = breakers::run(hub) => Err(RunError::Ended("breakers")),
        () = breakers::run_errands(hub) => Err(RunError::Ended("messages about incidents")),
        () = drill::run(hub) => Err(RunError::Ended("drills")),
        () = open_feeds(hub) => Err(RunError::Ended("feeds")),
        () = ledger::sign_days(hub) => Err(RunError::Ended("signed days")),
        () = ledger::count_depth(hub) => Err(RunError::Ended("depth of the ledger")),
        () = ledger::prune(hub) => Err(RunError::Ended("ledger")),
        () = uwer::prune(hub) => Err(RunError::Ended("tasks of UWER")),
        () = sign_heads(hub) => Err(RunError::Ended("signed heads")),
        () = pull(hub) => Err(RunError::Ended("replication")),
        () = prune_bodies(hub) => Err(RunError::Ended("bodies")),
        () = prune_index(hub) => Err(RunError::Ended("index")),
        () = prune_keys(hub) => Err(RunError::Ended("keys")),
        () = prune_reports(hub) => Err(RunError::Ended("reports")),
        () = follow_record(hub) => Err(RunError::Ended("record")),
    }
}

/// Whether the bodies in the record were sealed with the key of the configuration.
///
/// Errors: they were not, or the record does not say.
async fn check_key(hub: &Hub) -> Result<(), RunError> {
    let Some(bodies) = hub.index.as_ref().and_then(|index| index.bodies.as_ref()) else { return Ok(()) };
    if bodies.has_key_of(&hub.record).await? { Ok(()) } else { Err(BodiesError::OtherKey.into()) }
}

/// Ends switches when their time is over, for ever.
async fn end_switches(hub: &Hub) {
    let (mut states, mut failures) = (hub.follow(), Failures::default());
    loop {
        let wait = hub.current().first_end().map_or(EXPIRE_WAIT_MAX, |end| end.since(hub.now()));
        tokio::select! {
            _ = states.changed() => continue,
            // A moment is whole milliseconds: one more, so that the end is over by then.
            () = hub.clock.sleep(wait.min(EXPIRE_WAIT_MAX) + Duration::from_millis(1)) => {}
        }
        let ended = hub.expire().await;
        failures.note(&ended);
        if ended.is_err() {
            hub.clock.sleep(EXPIRE_RETRY).await;
        }
    }
}

/// Probes regions for sidecars, for ever.
async fn probe_regions(hub: &Hub) {
    match &hub.views {
        Some(views) => Rc::clone(views).run().await,
        None => std::future::pending().await,
    }
}

/// Takes changed TLS files for new connections and changed keys of tokens, every ten seconds and at SIGHUP, for ever. Files that cannot be used
/// change nothing but the log. At SIGHUP a changed configuration is logged, too.
async fn reload_files(settings: &Settings, mut files: Files, tls: &ArcSwap<ServerConfig>, tokens: Option<&Tokens>) {
    let (mut refused, mut refused_keys) = (None, None);
    let mut hangup = signal(SignalKind::hangup()).ok();
    loop {
        let asked = async {
            match &mut hangup {
                Some(hangup) => drop(hangup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(FILES_EVERY) => {}
            () = asked => note_changed(settings),
        }
        let loaded = Files::read(&settings.tls).and_then(|new| {
            let config = if new == files { None } else { Some(new.config(tokens.is_some())?) };
            Ok((new, config))
        });
        let why = match loaded {
            Ok((new, config)) => {
                files = new;
                if let Some(config) = config {
                    tls.store(config);
                    event::hub_identity_reloaded();
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        note_refused(&mut refused, why, event::hub_identity_refused);
        let why = match tokens.map(Tokens::reload) {
            Some(Ok(true)) => {
                event::hub_keys_reloaded();
                None
            }
            Some(Ok(false)) | None => None,
            Some(Err(error)) => Some(error.to_string()),
        };
        note_refused(&mut refused_keys, why, event::hub_keys_refused);
    }
}

/// Logs that the file of the configuration has another content than at the start, or one that cannot be used.
fn note_changed(settings: &Settings) {
    match Settings::load(&settings.file) {
        Ok(now) if now == *settings => {}
        Ok(_) => event::hub_restart_needed(&settings.file),
        Err(error) => event::hub_config_refused(&settings.file, &error.to_string()),
    }
}

/// Logs why files are refused, once for each reason.
fn note_refused(last: &mut Option<String>, why: Option<String>, log: fn(&str)) {
    if let Some(why) = why.as_ref().filter(|why| last.as_ref() != Some(*why)) {
        log(why);
    }
    *last = why;
}
