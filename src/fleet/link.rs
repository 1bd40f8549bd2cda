//! The connection of a sidecar to its hub.

mod asking;
mod bodies;
mod breakers;
mod changes;
mod drill;
mod figures;
mod grants;
mod look_ups;
mod pools;
mod questions;
mod regions;
mod shown;
mod slots;
mod store;
mod tokens;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

use super::breakers::WITH_BREAKERS;
use super::connect::connect;
use super::events::Events;
use super::failure::Failure;
use super::granting::Granting;
use super::keys::Desk;
use super::lease::Lease;
use super::quota_tokens::WITH_QUOTAS;
use super::quoting::Quoting;
use super::report::{REPORTS_MAX, Reports};
use super::request::Requests;
use super::slotting::Slotting;
use super::status::Status;
use super::views::{FEED_HEADER, WITH_DRILLS, WITH_POOLS, WITH_REGIONS, WITH_VIEWS, take_views};
use crate::base::{Clock, Draw};
use crate::config::{HubConfig, RegionUrl};
use crate::journal::Journal;
use crate::net::resolve::Resolve;
use crate::ojs::path_segment;
use crate::policy::Figures;
use crate::region::discovery::{Discovered, Look};
use crate::region::views::HubViews;
use crate::region::{Breakers, Drills, FigureQuestions, Registry, RouteQuestions};
use crate::replica::{BodyOutbox, IndexQuestions, Lags, Outbox, StoreQuestions};
use crate::switch::{FeedSwitches, SWITCHES_MAX, Version};
use crate::telemetry::{Metrics, event};

/// The hub shows itself every three seconds; after three missed signs it is taken for lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Between two statuses.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// Between two looks for outcomes that the hub lacks, and the longest time before it gets a refused report again: a part of it by the place of this sidecar
/// among many, so that a fleet which was refused at once does not come back at once.
const REPORTS_EVERY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// How long a sidecar waits at most before it says that a new state is in force, so that a fleet does not do it at once.
const STATUS_SPREAD: Duration = Duration::from_secs(1);
/// A connection is made anew after this and up to a quarter sooner: before the hub ends it, and so that a changed certificate is shown.
const RENEW_AFTER: Duration = Duration::from_secs(45 * 60);
/// Waits between two tries to connect: the first one, and the longest. A fleet spreads over them by its jitter.
const WAITS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// A receiver of the sentence that says why the hub is not followed, or not in full; none while it is.
pub type OnState = Box<dyn Fn(Option<&str>)>;

/// Keeps the connection of a sidecar to its hub.
pub struct Link {
    /// The URLs of the hub, and our certificate there.
    pub config: HubConfig,
    /// Where received switches are kept.
    pub journal: Arc<Journal>,
    /// Where the connection is shown.
    pub metrics: Arc<Metrics>,
    /// Gets each change of the state.
    pub on_state: OnState,
    /// Gets the reason why the hub grants no calls of a fleet limit; none where it does.
    pub on_grants: OnState,
    /// The status of this sidecar, for its hub.
    pub status: Box<dyn Fn() -> Status>,
    /// The outcomes that were changed behind a revision, in the order of their revisions, at most [`REPORTS_MAX`].
    pub reports: Box<dyn Fn(u64) -> Reports>,
    /// The fleet limits that this sidecar keeps to.
    pub granting: Granting,
    /// The quotas that this sidecar keeps to.
    pub quoting: Rc<Quoting>,
    /// The job types that the hub has stopped.
    pub breakers: Arc<Breakers>,
    /// The slots of those that bound active jobs.
    pub slotting: Slotting,
    /// The changes of jobs that the hub lacks; none where this sidecar reports none.
    pub outbox: Option<Arc<Outbox>>,
    /// The bytes of jobs that the hub lacks; none where this sidecar reports none.
    pub bodies: Option<Arc<BodyOutbox>>,
    /// Look-ups of clients in the hub's index.
    pub index: Arc<IndexQuestions>,
    /// Requests of calls to the central store of UWER.
    pub store: Arc<StoreQuestions>,
    /// The figures of the pools of this sidecar; none without pools.
    pub figures: Option<Box<dyn Fn() -> Figures>>,
    /// Questions of clients for the figures of the fleet.
    pub fleet_figures: Arc<FigureQuestions>,
    /// Questions about jobs; none where this sidecar asks none.
    pub questions: Option<Arc<RouteQuestions>>,
    /// The failover drill that this sidecar takes part in.
    pub drills: Arc<Drills>,
    /// Where a drill shows.
    pub registry: Arc<Registry>,
    /// Where the lags of the hub's index go.
    pub lags: Arc<Lags>,
    /// How long an `Idempotency-Key` is remembered.
    pub keys_ttl: Duration,
    /// Time for waits.
    pub clock: Clock,
    /// For the jitter of waits.
    pub draw: Draw,
    /// Names to addresses.
    pub resolver: Arc<dyn Resolve>,
    /// The place of the replica in use among the URLs.
    pub replica: Cell<usize>,
    /// Where views of regions go; none where this sidecar probes by itself.
    pub views: Option<Rc<HubViews>>,
    /// Where the regions that were put at the hub go; none where this sidecar discovers none by its hub.
    pub discovered: Option<Arc<Discovered>>,
    /// The last of them that the present feed has named.
    pub named: RefCell<Option<Look>>,
    /// The lease of the hub's word, which each sign of life of the feed renews; none where its loss has no effect.
    pub lease: Option<Rc<Lease>>,
    /// Notified when a new state is in force, so that the hub gets a status.
    pub applied: Notify,
    /// The words of the switches in the last state that could not be read; the feed bounds them.
    pub unknown: RefCell<Vec<String>>,
    /// By URL, why its feed is not open; the URLs bound them.
    pub causes: RefCell<HashMap<String, String>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Link {
    /// The URL of the replica in use.
    fn url(&self) -> &RegionUrl {
        // Checked configurations have at least one.
        &self.config.urls[self.replica.get() % self.config.urls.len()]
    }

    /// Connects, follows the feed and reports, for ever. A replica that is lost is followed by the next one at once, and by a wait after each
    /// round of all.
    pub async fn run(self) {
        let (quoting, clock) = (Rc::clone(&self.quoting), self.clock.clone());
        tokio::select! {
            () = self.keep_connected() => {}
            () = quoting.keep_own_limits(&clock) => {}
        }
    }

    async fn keep_connected(mut self) {
        let (mut wait, mut failures, mut was_followed) = (WAITS.0, 0, false);
        let share = self.draw.unit();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a few URLs")]
        self.replica.set((share * self.config.urls.len() as f64) as usize);
        loop {
            let began = self.clock.now();
            let failure = match self.connect().await {
                Ok(requests) => Box::pin(self.follow(&requests, share)).await,
                Err(error) => Failure::Lost(error),
            };
            let error = match failure {
                Failure::Renewal => {
                    // It is on again when the next feed names it, and that may be the feed of a hub that knows none.
                    self.end_drill("renewal");
                    continue;
                }
                Failure::Lost(error) | Failure::Refused(error) | Failure::Slow(error) => error,
            };
            if self.clock.now().saturating_duration_since(began) > WAITS.1 {
                (wait, failures) = (WAITS.0, 0);
            }
            failures += 1;
            let is_round = failures % self.config.urls.len() == 0;
            was_followed |= self.metrics.hub_connected.get() == 1;
            if is_round && !std::mem::take(&mut was_followed) {
                self.granting.hub_lost(self.clock.now());
                self.quoting.hub_lost();
                self.breakers.hub_lost();
                self.slotting.hub_lost(self.clock.now());
            }
            self.lost(&error);
            self.replica.set(self.replica.get().wrapping_add(1));
            if is_round {
                self.clock.sleep(wait.mul_f64(0.5 + self.draw.unit() / 2.0)).await;
                wait = (wait * 2).min(WAITS.1);
            }
        }
    }

    async fn connect(&self) -> Result<Requests, String> {
        let sender = connect(self.url(), &self.config.tls, self.resolver.as_ref()).await?;
        Ok(Requests { url: self.url().clone(), sender })
    }

    /// Follows the feed and reports until the connection is over. `share`: the place of this sidecar among many, from 0 to 1, so that they do
    /// not do the same at once.
    async fn follow(&self, requests: &Requests, share: f64) -> Failure {
        self.breakers.connected();
        // The first status comes before the feed, so that the inventory shows the feed at once.
        let first = self.report(requests).await;
        let desk = Desk {
            journal: &self.journal,
            metrics: &self.metrics,
            clock: &self.clock,
            status: (self.status)(),
            ttl: self.keys_ttl,
            requests,
            record_time: Cell::default(),
        };
        tokio::select! {
            failure = desk.answer() => failure,
            failure = desk.settle() => failure,
            failure = self.keep_reporting(requests, first, share) => failure,
            failure = self.keep_reporting_outcomes(requests, share) => failure,
            failure = self.keep_reporting_changes(requests, share) => failure,
            failure = self.keep_reporting_bodies(requests, share) => failure,
            failure = self.keep_looking_up(requests) => failure,
            failure = self.keep_reporting_figures(requests) => failure,
            failure = self.keep_reporting_drill(requests) => failure,
            failure = self.keep_asking_for_figures(requests) => failure,
            failure = self.keep_asking_where(requests) => failure,
            failure = self.keep_asking_for_grants(requests) => failure,
            failure = self.keep_asking_for_tokens(requests) => failure,
            failure = self.keep_asking_for_slots(requests) => failure,
            failure = self.keep_asking_store(requests) => failure,
            failure = self.read_feed(requests) => failure,
            () = self.clock.sleep(RENEW_AFTER.mul_f64(0.75 + share / 4.0)) => Failure::Renewal,
        }
    }

    /// Reports until that fails; `result` is that of the first report. A hub that refuses the status is followed all the same.
    async fn keep_reporting(&self, requests: &Requests, mut result: Result<(), Failure>, share: f64) -> Failure {
        let mut before: Option<String> = None;
        loop {
            let refused = match result {
                Ok(()) => None,
                Err(Failure::Refused(error)) => Some(error),
                Err(failure) => return failure,
            };
            let note = refused.as_ref().map(|it| format!("its switches are followed, and it refuses the status: {it}"));
            (self.on_state)(note.as_deref());
            if let Some(error) = refused.as_ref().filter(|_| refused != before) {
                event::hub_status_refused(&self.url().text, error);
            }
            before = refused;
            tokio::select! {
                () = self.clock.sleep(STATUS_EVERY) => {}
                () = self.applied.notified() => self.clock.sleep(STATUS_SPREAD.mul_f64(share)).await,
            }
            result = self.report(requests).await;
        }
    }

    /// Sends outcomes until that fails. The hub has none of them at first: it may have lost its record.
    async fn keep_reporting_outcomes(&self, requests: &Requests, share: f64) -> Failure {
        let (mut taken, mut before) = (0, None);
        loop {
            let reports = (self.reports)(taken);
            let last = reports.reports.last().map(|it| it.revision);
            let result = match last {
                Some(_) => requests.send(Method::POST, "/v1/hub/reports", &reports).await,
                None => Ok(()),
            };
            let wait = match result {
                // More may wait behind a full request.
                Ok(()) if reports.reports.len() >= REPORTS_MAX => Duration::ZERO,
                Ok(()) => REPORTS_EVERY.0,
                // A record that is slow says nothing about the feed.
                Err(Failure::Refused(error) | Failure::Slow(error)) => {
                    if before.as_ref() != Some(&error) {
                        event::hub_reports_refused(&self.url().text, &error);
                    }
                    before = Some(error);
                    self.clock.sleep(REPORTS_EVERY.0 + REPORTS_EVERY.1.mul_f64(share)).await;
                    continue;
                }
                Err(failure) => return failure,
            };
            taken = last.unwrap_or(taken);
            self.clock.sleep(wait).await;
        }
    }

    async fn report(&self, requests: &Requests) -> Result<(), Failure> {
        requests.send(Method::PUT, "/v1/hub/status", &(self.status)()).await
    }

    async fn read_feed(&self, requests: &Requests) -> Failure {
        match self.try_read_feed(requests).await {
            Ok(never) => match never {},
            Err(failure) => failure,
        }
    }

    async fn try_read_feed(&self, requests: &Requests) -> Result<Infallible, Failure> {
        let path = format!("/v1/hub/feed?sidecar={}", path_segment(&(self.status)().name));
        let mut request = requests.get(&path).map_err(Failure::Lost)?;
        let known = self.journal.hub().version;
        if known != Version::default()
            && let Ok(known) = known.to_string().parse()
        {
            request.headers_mut().insert("last-event-id", known);
        }
        if let Some(views) = &self.views {
            views.opened();
            request.headers_mut().append(FEED_HEADER, HeaderValue::from_static(WITH_VIEWS));
        }
        if self.discovered.is_some() {
            request.headers_mut().append(FEED_HEADER, HeaderValue::from_static(WITH_REGIONS));
        }
        for word in [WITH_POOLS, WITH_DRILLS, WITH_QUOTAS, WITH_BREAKERS] {
            request.headers_mut().append(FEED_HEADER, HeaderValue::from_static(word));
        }
        self.quoting.feed_begins();
        self.named.replace(None);
        let mut body = requests.answered(request).await?.into_body();
        self.connected();
        let mut events = Events::default();
        loop {
            let silent = || Failure::Lost(format!("the feed was silent for {} s", SILENCE_MAX.as_secs()));
            let frame = match tokio::time::timeout(SILENCE_MAX, body.frame()).await.map_err(|_| silent())? {
                Some(frame) => frame.map_err(|error| Failure::Lost(format!("the feed broke off: {error}")))?,
                None => return Err(Failure::lost("the hub has ended the feed")),
            };
            let Some(data) = frame.data_ref() else { continue };
            let mut wrong = None;
            let taken = events.take(data, |name, data| wrong = wrong.take().or(self.take_event(name, data).err()));
            taken.map_err(|_| Failure::lost("the feed cannot be read: an event is longer than 1 MiB"))?;
            if let Some(wrong) = wrong {
                return Err(Failure::Lost(format!("the feed cannot be read: {wrong}")));
            }
            // A part of an event is no sign of life: its rest may isolate a region.
            if let Some(lease) = self.lease.as_ref().filter(|_| events.is_at_end()) {
                lease.renew(|| self.journal.switches());
            }
        }
    }

    /// Takes an event; one of a later version changes nothing. Errors: as for [`Link::apply`].
    fn take_event(&self, name: &str, data: &str) -> Result<(), String> {
        match (name, &self.views) {
            ("switches", _) => return self.apply(data),
            ("lags", _) => {
                if let Ok(event) = serde_json::from_str(data) {
                    self.lags.take(event, self.clock.now());
                }
            }
            ("views", Some(views)) => take_views(views, data),
            ("regions", _) => self.take_regions(data),
            ("pools", _) => self.take_pools(data),
            ("quotas", _) => self.take_quotas(data),
            ("breakers", _) => self.take_breakers(data),
            ("drill", _) => self.take_drill(data),
            _ => {}
        }
        Ok(())
    }

    /// Takes the switches of an event. Errors: why they are not the state of a hub.
    fn apply(&self, data: &str) -> Result<(), String> {
        let (switches, unknown) = FeedSwitches::read(data).map_err(|error| error.to_string())?;
        let state = switches.received(self.journal.now(), self.clock.unix_ms());
        let state = state.map_err(|_| format!("it has more than {SWITCHES_MAX} switches"))?;
        let change = self.journal.set_hub(state);
        self.applied.notify_one();
        self.left_out(unknown);
        for it in &change.set {
            let lasts = it.ends_unix_ms.saturating_sub(self.clock.unix_ms()) / 1_000;
            event::switch_set(it.kind, &it.subject, it.calls, lasts, [&it.reason, &it.ticket, &it.author]);
        }
        for it in &change.ended {
            // The feed does not name the operator; the trail of the hub does.
            event::switch_ended(it.kind, &it.subject, Some(["ended at the hub", "", ""]));
        }
        Ok(())
    }
}
