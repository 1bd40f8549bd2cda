//! The switches of the journal: those that were set here, and those of the hub.

use std::sync::atomic::Ordering::Relaxed;

use super::Journal;
use super::change::Change;
use super::shared::Inner;
use crate::base::Moment;
use crate::switch::{HubState, Switch, Switches};

/// The switches that a state of the hub has set and ended.
#[derive(Debug, Default)]
pub struct HubChange {
    /// Those that were not in force before, or not so.
    pub set: Vec<Switch>,
    /// Those that are in force no more.
    pub ended: Vec<Switch>,
}

impl Journal {
    /// All switches in force: those that were set here together with those of the hub.
    #[must_use]
    pub fn switches(&self) -> Switches {
        self.own_switches().joined(&self.hub().switches)
    }

    /// The switches that were set here and are in force.
    #[must_use]
    pub fn own_switches(&self) -> Switches {
        self.inner.switches.lock().clone()
    }

    /// The last state of the hub, without the switches that have ended since; that of no hub while none is followed.
    #[must_use]
    pub fn hub(&self) -> HubState {
        if self.inner.follows_hub.load(Relaxed) { self.inner.hub.lock().clone() } else { HubState::default() }
    }

    /// Whether a hub is followed from now on. Without one, the switches of an earlier hub are in force no more, also where the file shows
    /// them only later.
    pub fn set_follows_hub(&self, follows: bool) {
        if self.inner.follows_hub.swap(follows, Relaxed) != follows {
            self.inner.switched.notify_one();
        }
    }

    /// Changes the switches that were set here, and returns the result of the change and whether the switches are on disk, or there is no
    /// disk to wait for. Waits for a bounded time.
    ///
    /// Cancel: they are changed all the same.
    pub async fn change_switches<T>(&self, change: impl FnOnce(&mut Switches, Moment) -> T) -> (T, bool) {
        let (result, written) = self.write(|_, changes| self.changed_switches(change, changes));
        self.inner.switched.notify_one();
        (result, self.waited(written).await)
    }

    /// Takes a state of the hub; the file follows.
    pub fn set_hub(&self, state: HubState) -> HubChange {
        let (change, _) = self.send(|_, changes| self.changed_hub(state, changes), None);
        self.inner.switched.notify_one();
        change
    }

    /// Ends the switches whose time is over, and returns them; the file follows.
    pub fn expire_switches(&self) -> Vec<Switch> {
        let now = self.now();
        let is_due = |all: &Switches| all.first_end().is_some_and(|end| end <= now);
        let mut ended = Vec::new();
        if is_due(&self.inner.switches.lock()) {
            ended = self.send(|_, changes| self.changed_switches(|all, now| all.expire(now), changes), None).0;
        }
        if is_due(&self.inner.hub.lock().switches) {
            let expire = |changes: &mut Vec<Change>| {
                let mut hub = self.inner.hub.lock();
                let ended = hub.switches.expire(now);
                changes.push(Change::Hub(hub.clone()));
                ended
            };
            ended.extend(self.send(|_, changes| expire(changes), None).0);
        }
        ended
    }

    /// Resolves when switches may have changed since the last call.
    pub async fn switched(&self) {
        self.inner.switched.notified().await;
    }

    fn changed_switches<T>(&self, change: impl FnOnce(&mut Switches, Moment) -> T, changes: &mut Vec<Change>) -> T {
        let mut all = self.inner.switches.lock();
        let result = change(&mut all, self.now());
        changes.push(Change::Switches(all.clone()));
        result
    }

    fn changed_hub(&self, state: HubState, changes: &mut Vec<Change>) -> HubChange {
        let mut hub = self.inner.hub.lock();
        let is_in = |it: &Switch, all: &Switches| {
            let name = |it: &Switch| (it.kind, it.calls, it.subject.clone(), it.ticket.clone());
            all.iter().any(|other| name(other) == name(it))
        };
        let without = |all: &Switches, others: &Switches| all.iter().filter(|it| !is_in(it, others)).cloned().collect();
        let change =
            HubChange { set: without(&state.switches, &hub.switches), ended: without(&hub.switches, &state.switches) };
        *hub = state;
        changes.push(Change::Hub(hub.clone()));
        change
    }
}

impl Inner {
    /// Takes the switches of a file into memory; those that came since the start of the process stay.
    pub(super) fn take_switches(&self, change: &Change) {
        let (now, unix_ms) = (self.time.now(&self.clock), self.clock.unix_ms());
        match change {
            Change::Switches(switches) => self.switches.lock().merge(switches.clone(), now, unix_ms),
            Change::Hub(state) => {
                let mut hub = self.hub.lock();
                if *hub == HubState::default() {
                    hub.version.clone_from(&state.version);
                    hub.switches.merge(state.switches.clone(), now, unix_ms);
                }
            }
            _ => return,
        }
        self.switched.notify_one();
    }
}
