//! The feed: server-sent events with the switches in force, from the present state on, for one sidecar.
//!
//! Shape: an event `switches` with the version as its id and [`FeedSwitches`] as its data, at the beginning, unless the sidecar has that
//! version already, and after each change; for a sidecar that wants them, an event `views` with [`crate::region::views::FeedViews`] as its data
//! whenever a region was probed or polled; for one that discovers regions by its hub, an event `regions` with
//! [`crate::region::discovery::FeedRegions`] at the beginning, after each change of them, and every few seconds; for one that wants them, an event
//! `pools` with [`crate::fleet::FeedPools`], and `quotas` with [`crate::fleet::FeedQuotas`], at the beginning and after each change of them, as is
//! `breakers` with [`FeedBreakers`]; for one that takes part in failover drills, an event `drill` with
//! [`FeedDrill`] at the beginning and after each change of the drill; in between a comment, or an event `lags` with [`crate::replica::FeedLags`] where the hub keeps an index, so
//! that the sidecar knows that the hub is there.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::watch;

use super::access::Caller;
use super::breakers::stopped_for;
use super::drill_desk::Latest;
use super::incident::Incident;
use super::put_pools::PutPools;
use super::put_quotas::PutQuotas;
use super::record::State;
use super::registry::PutRegions;
use super::response::Body;
use super::state::Hub;
use super::views::Made;
use crate::fleet::FeedBreakers;
use crate::region::discovery::{FeedRegion, FeedRegions};
use crate::switch::{FeedDrill, FeedSwitches, Version};

/// Between two signs of life. A sidecar takes three missed ones for the loss of the hub.
pub(super) const BEAT: Duration = Duration::from_secs(3);

/// Between two events about the regions that were put here: two that agree take one out at a sidecar, `discovery.interval` apart.
const REGIONS_EVERY: Duration = Duration::from_secs(5);

/// The further events that a sidecar wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wants {
    /// The views of regions.
    pub(super) views: bool,
    /// The regions that were put at this hub.
    pub(super) regions: bool,
    /// The pools of workers that were put at this hub.
    pub(super) pools: bool,
    /// Failover drills.
    pub(super) drills: bool,
    /// The quotas that were put at this hub.
    pub(super) quotas: bool,
    /// The job types that breakers have stopped.
    pub(super) breakers: bool,
}

/// The last event about regions: none before the first one.
type Said = Option<(Arc<PutRegions>, Instant)>;

/// One open feed.
struct Feed {
    hub: Rc<Hub>,
    /// The sidecar.
    name: String,
    caller: Caller,
    /// Whether the inventory has noted this feed: it must know the sidecar, whose status may come later.
    is_noted: bool,
    states: watch::Receiver<Arc<State>>,
    ending: watch::Receiver<bool>,
    /// The version that the sidecar has.
    known: Option<Version>,
    /// The views of regions; none where the sidecar wants none, or the hub has none.
    views: Option<watch::Receiver<Option<Arc<Made>>>>,
    /// The last event with views that was sent.
    sent: Option<Arc<Made>>,
    /// The last event about regions; none where the sidecar wants none.
    said: Option<Said>,
    /// The last event about pools, none before the first one; none where the sidecar wants none.
    named: Option<Option<Arc<PutPools>>>,
    /// The last event about quotas, none before the first one; none where the sidecar wants none.
    quotas: Option<Option<Arc<PutQuotas>>>,
    /// The open incidents, the inner none before the record was read; none where the sidecar wants no stopped types.
    breakers: Option<watch::Receiver<Option<Arc<Vec<Incident>>>>>,
    /// The last event about stopped types.
    stopped: Option<FeedBreakers>,
    /// The last drill; none where the sidecar takes part in none.
    drills: Option<watch::Receiver<Option<Arc<Latest>>>>,
    /// The drill that the last event about one named, none before the first one; and for none of them, the inner one.
    drilled: Option<Option<String>>,
}

/// The events for a sidecar that has this version.
pub(super) fn body(hub: Rc<Hub>, caller: &Caller, name: String, known: Option<Version>, wants: Wants) -> Body {
    let (states, ending, caller) = (hub.follow(), hub.follow_ending(), caller.clone());
    let views = hub.views.as_ref().filter(|_| wants.views).map(|views| views.follow());
    let drills = wants.drills.then(|| hub.drills.follow());
    let breakers = wants.breakers.then(|| hub.breakers.follow());
    let feed = Feed {
        hub,
        name,
        caller,
        is_noted: false,
        states,
        ending,
        known,
        views,
        sent: None,
        said: wants.regions.then_some(None),
        named: wants.pools.then_some(None),
        quotas: wants.quotas.then_some(None),
        breakers,
        stopped: None,
        drills,
        drilled: None,
    };
    let events = futures_util::stream::unfold((feed, true), |(mut feed, is_first)| async move {
        let event = feed.next(is_first).await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), (feed, false)))
    });
    Box::pin(StreamBody::new(events))
}

impl Feed {
    /// The next event; none where this hub ends or may lack changes of other hubs, so that the sidecar asks another one.
    async fn next(&mut self, is_first: bool) -> Option<Bytes> {
        if !is_first
            && self.unsent_views().is_none()
            && !self.owes_regions()
            && !self.owes_pools()
            && !self.owes_quotas()
            && self.owed_drill().is_none()
            && self.owed_stopped().is_none()
        {
            // The senders live as long as the hub, which this holds.
            tokio::select! {
                _ = self.states.changed() => {}
                _ = self.ending.changed() => {}
                () = changed(self.views.as_mut()) => {}
                () = changed(self.drills.as_mut()) => {}
                () = changed(self.breakers.as_mut()) => {}
                () = tokio::time::sleep(BEAT) => {}
            }
        }
        if *self.ending.borrow() || self.hub.record.is_behind() {
            return None;
        }
        if !self.is_noted {
            self.is_noted = self.hub.fleet.borrow_mut().open_feed(&self.name, &self.caller);
        }
        let current = Arc::clone(&self.states.borrow_and_update());
        if self.known.as_ref() == Some(&current.version) {
            let event = self.drill_event().or_else(|| self.pools_event(&current));
            let event = event.or_else(|| self.quotas_event(&current)).or_else(|| self.regions_event(&current));
            let event = event.or_else(|| self.stopped_event()).or_else(|| self.views_event());
            return Some(event.unwrap_or_else(|| self.sign_of_life()));
        }
        self.known = Some(current.version.clone());
        Some(event(&current, self.hub.clock.unix_ms()))
    }

    /// The views, where there are some that this feed has not sent.
    fn unsent_views(&self) -> Option<Arc<Made>> {
        let made = self.views.as_ref()?.borrow().clone()?;
        let is_sent = self.sent.as_ref().is_some_and(|sent| Arc::ptr_eq(sent, &made));
        (!is_sent).then_some(made)
    }

    /// An event `lags` where this hub keeps an index, else a comment.
    fn sign_of_life(&self) -> Bytes {
        let Some(index) = &self.hub.index else { return Bytes::from_static(b": live\n\n") };
        Bytes::from(format!("event: lags\ndata: {}\n\n", serde_json::json!(index.lags(self.hub.clock.unix_ms()))))
    }

    /// Whether the regions have changed since this feed has sent them.
    fn owes_regions(&self) -> bool {
        let is_sent = |said: &Said| said.as_ref().is_some_and(|(sent, _)| *sent == self.states.borrow().regions);
        self.said.as_ref().is_some_and(|said| !is_sent(said))
    }

    /// The regions, or the word that they still hold, where that is due.
    fn regions_event(&mut self, current: &State) -> Option<Bytes> {
        let (owes, now) = (self.owes_regions(), self.hub.clock.now());
        let said = self.said.as_mut()?;
        let is_due = said.as_ref().is_none_or(|(_, at)| now.saturating_duration_since(*at) >= REGIONS_EVERY);
        if !owes && !is_due {
            return None;
        }
        *said = Some((Arc::clone(&current.regions), now));
        let as_before = FeedRegions::<FeedRegion> { regions: None };
        let data = if owes { serde_json::json!(current.regions.event()) } else { serde_json::json!(as_before) };
        Some(Bytes::from(format!("event: regions\ndata: {data}\n\n")))
    }

    /// Whether the pools have changed since this feed has sent them.
    fn owes_pools(&self) -> bool {
        let is_sent = |named: &Option<Arc<PutPools>>| named.as_ref() == Some(&self.states.borrow().pools);
        self.named.as_ref().is_some_and(|named| !is_sent(named))
    }

    /// The pools, where they have changed.
    fn pools_event(&mut self, current: &State) -> Option<Bytes> {
        let named = self.named.as_mut().filter(|named| named.as_ref() != Some(&current.pools))?;
        *named = Some(Arc::clone(&current.pools));
        Some(Bytes::from(format!("event: pools\ndata: {}\n\n", serde_json::json!(current.pools.event()))))
    }

    /// Whether the quotas have changed since this feed has sent them.
    fn owes_quotas(&self) -> bool {
        let is_sent = |sent: &Option<Arc<PutQuotas>>| sent.as_ref() == Some(&self.states.borrow().quotas);
        self.quotas.as_ref().is_some_and(|sent| !is_sent(sent))
    }

    /// The quotas, where they have changed.
    fn quotas_event(&mut self, current: &State) -> Option<Bytes> {
        let sent = self.quotas.as_mut().filter(|sent| sent.as_ref() != Some(&current.quotas))?;
        *sent = Some(Arc::clone(&current.quotas));
        Some(Bytes::from(format!("event: quotas\ndata: {}\n\n", serde_json::json!(current.quotas.event()))))
    }

    /// The drill, or the word that there is none, where the last event said otherwise.
    fn owed_drill(&self) -> Option<FeedDrill> {
        let latest = self.drills.as_ref()?.borrow().clone();
        // None where nothing would end it.
        let latest = latest.filter(|_| self.hub.drills.is_judged(self.hub.clock.now()));
        let drill = latest.and_then(|it| it.drill.sent(self.hub.clock.unix_ms()));
        let is_said = self.drilled.as_ref().is_some_and(|said| *said == drill.as_ref().map(|it| it.id.clone()));
        (!is_said).then_some(FeedDrill { drill })
    }

    fn drill_event(&mut self) -> Option<Bytes> {
        let owed = self.owed_drill()?;
        let event = format!("event: drill\ndata: {}\n\n", serde_json::json!(owed));
        self.drilled = Some(owed.drill.map(|it| it.id));
        Some(Bytes::from(event))
    }

    /// The stopped types, where the last event said otherwise; none before they are known, so that no sidecar lifts a stop by a restart.
    fn owed_stopped(&self) -> Option<FeedBreakers> {
        let open = self.breakers.as_ref()?.borrow().clone()?;
        let stopped = stopped_for(&open, &self.name);
        (self.stopped.as_ref() != Some(&stopped)).then_some(stopped)
    }

    fn stopped_event(&mut self) -> Option<Bytes> {
        let stopped = self.stopped.insert(self.owed_stopped()?);
        Some(Bytes::from(format!("event: breakers\ndata: {}\n\n", serde_json::json!(stopped))))
    }

    fn views_event(&mut self) -> Option<Bytes> {
        let made = self.sent.insert(self.unsent_views()?);
        Some(Bytes::from(made.event(self.hub.clock.now())))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.is_noted {
            self.hub.fleet.borrow_mut().close_feed(&self.name);
        }
    }
}

async fn changed<T>(followed: Option<&mut watch::Receiver<T>>) {
    match followed {
        Some(followed) => drop(followed.changed().await),
        None => std::future::pending().await,
    }
}

fn event(current: &State, unix_ms: u64) -> Bytes {
    let data = FeedSwitches::of(current.version.clone(), &current.in_force(), unix_ms);
    Bytes::from(format!("event: switches\nid: {}\ndata: {}\n\n", current.version, serde_json::json!(data)))
}
