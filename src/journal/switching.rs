//! Changes of switches by operators and by time.

use super::Journal;
use super::change::Change;
use crate::base::Moment;
use crate::switch::{Switch, Switches};

impl Journal {
    /// The switches in force.
    #[must_use]
    pub fn switches(&self) -> Switches {
        self.inner.switches.lock().clone()
    }

    /// Changes the switches, and returns the result of the change and whether the switches are on disk, or there is no disk to wait for.
    /// Waits for a bounded time.
    ///
    /// Cancel: they are changed all the same.
    pub async fn change_switches<T>(&self, change: impl FnOnce(&mut Switches, Moment) -> T) -> (T, bool) {
        let (result, written) = self.write(|_, changes| self.changed_switches(change, changes));
        self.inner.switched.notify_one();
        (result, self.waited(written).await)
    }

    /// Ends the switches whose time is over, and returns them; the file follows.
    pub fn expire_switches(&self) -> Vec<Switch> {
        let now = self.now();
        if self.inner.switches.lock().first_end().is_none_or(|end| end > now) {
            return Vec::new();
        }
        let (ended, _) = self.send(|_, changes| self.changed_switches(|all, now| all.expire(now), changes), None);
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
}
