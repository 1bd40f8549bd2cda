//! The pools of workers that operators have put at this hub, for its sidecars.

use serde::{Deserialize, Serialize};

use crate::base::text::rfc3339;
use crate::config::{PUT_POOLS_MAX, PoolConfig, PutPool, misfit, put_configs};
use crate::fleet::FeedPools;

/// A pool, and the order that has put it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedPool {
    pub(super) pool: PutPool,
    /// When, by the hub's clock. Units: milliseconds since the Unix epoch.
    pub(super) put_ms: u64,
    pub(super) reason: String,
    pub(super) ticket: String,
    pub(super) author: String,
}

impl SavedPool {
    /// As lists show it, in the shape of the specification. Spec: fair-scheduling 10.1.
    pub(super) fn shown(&self) -> serde_json::Value {
        let mut shown = serde_json::json!(self.pool);
        let defaults = [("concurrency", ().into()), ("strategy", "round-robin".into()), ("isolated", false.into())];
        for (member, value) in defaults {
            if shown[member].is_null() {
                shown[member] = value;
            }
        }
        shown["since"] = rfc3339(self.put_ms).into();
        for (member, text) in [("reason", &self.reason), ("ticket", &self.ticket), ("author", &self.author)] {
            shown[member] = text.as_str().into();
        }
        shown
    }
}

/// All of them, by their names. Shape: at most one for each name, and [`PUT_POOLS_MAX`] at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PutPools(Vec<SavedPool>);

/// The fate of a pool that is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there, or is another one than before.
    Changed,
    /// It was there, just so.
    Same,
    /// There is no room for it.
    TooMany,
    /// It does not go together with another one: a sentence that names the member.
    Misfit(String),
}

impl PutPools {
    /// In the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SavedPool> {
        self.0.iter()
    }

    pub(super) fn get(&self, name: &str) -> Option<&SavedPool> {
        self.place(name).ok().and_then(|place| self.0.get(place))
    }

    /// Puts a pool with this configuration in place of one with its name. A repetition changes nothing, also with other grounds.
    pub(super) fn put(&mut self, put: SavedPool, config: &PoolConfig) -> Put {
        let place = self.place(&put.pool.name);
        if place.is_err() && self.0.len() >= PUT_POOLS_MAX {
            return Put::TooMany;
        }
        if place.is_ok_and(|place| self.0[place].pool == put.pool) {
            return Put::Same;
        }
        // One of a later version that cannot be read is in no other's way.
        let others = self.0.iter().map(|it| &it.pool).filter(|it| it.name != put.pool.name);
        let others: Vec<PoolConfig> = put_configs(others).into_iter().filter_map(Result::ok).collect();
        if let Some(problem) = misfit(&others, config) {
            return Put::Misfit(format!("`{}`: {}", problem.field, problem.rule));
        }
        match place {
            Ok(place) => self.0[place] = put,
            Err(place) => self.0.insert(place, put),
        }
        Put::Changed
    }

    /// Takes a pool out, and returns it.
    pub(super) fn delete(&mut self, name: &str) -> Option<SavedPool> {
        self.place(name).ok().map(|place| self.0.remove(place))
    }

    /// The data of an event of the feed.
    pub(super) fn event(&self) -> FeedPools<&PutPool> {
        FeedPools { pools: self.0.iter().map(|it| &it.pool).collect() }
    }

    /// The pools with a bound over the fleet.
    pub(super) fn bounds(&self) -> impl Iterator<Item = (&str, u64)> {
        let bound = |it: &PutPool| it.settings.get("concurrency")?.as_u64();
        self.0.iter().filter_map(move |it| Some((it.pool.name.as_str(), bound(&it.pool)?)))
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|it| it.pool.name.as_str().cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::PUT_POOL_BYTES_MAX;

    fn of(name: &str, body: &serde_json::Value) -> (SavedPool, PoolConfig) {
        let text = || "x".to_owned();
        let pool = PutPool { name: name.to_owned(), settings: body.as_object().unwrap().clone() };
        let config = pool.config().unwrap();
        (SavedPool { pool, put_ms: 1, reason: text(), ticket: text(), author: text() }, config)
    }

    fn put(all: &mut PutPools, name: &str, body: &serde_json::Value) -> Put {
        let (saved, config) = of(name, body);
        all.put(saved, &config)
    }

    #[test]
    fn a_name_is_there_once_and_a_repetition_changes_nothing() {
        let mut all = PutPools::default();
        assert_eq!(put(&mut all, "b", &json!({"queues": ["b"], "concurrency": 2})), Put::Changed);
        assert_eq!(put(&mut all, "a", &json!({"queues": ["a"], "isolated": true})), Put::Changed);
        assert_eq!(put(&mut all, "b", &json!({"concurrency": 2, "queues": ["b"]})), Put::Same);
        assert_eq!(put(&mut all, "b", &json!({"queues": ["b", "c"], "concurrency": 3})), Put::Changed);
        assert_eq!(all.bounds().collect::<Vec<_>>(), [("b", 3)]);
        let Put::Misfit(why) = put(&mut all, "c", &json!({"queues": ["a"]})) else { panic!("a is isolated") };
        assert!(why.starts_with("`queues[0]`: the pool `a` is isolated"), "{why}");
        let read: PutPools = serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap();
        assert_eq!(read, all);
        let shown = all.get("a").unwrap().shown();
        assert_eq!((&shown["strategy"], &shown["concurrency"]), (&json!("round-robin"), &json!(null)));
        assert_eq!((all.delete("b").is_some(), all.delete("b").is_some()), (true, false));
    }

    #[test]
    fn the_event_with_the_most_and_longest_pools_is_shorter_than_a_sidecar_takes() {
        let mut all = PutPools::default();
        let most = PUT_POOL_BYTES_MAX / 4 / 256;
        for number in 0..PUT_POOLS_MAX {
            let queue = |at: usize| format!("{:q<250}", format!("{number}-{at}-"));
            let queues: Vec<String> = (0..4).map(queue).collect();
            let weights: serde_json::Map<_, _> = queues.iter().take(most).map(|it| (it.clone(), 1.into())).collect();
            let body = json!({"queues": queues, "strategy": "weighted", "weights": weights});
            all.0.push(of(&format!("{number:n<256}"), &body).0);
        }
        all.0.sort_by(|one, other| one.pool.name.cmp(&other.pool.name));
        assert_eq!(put(&mut all, "one-more", &json!({"queues": ["x"]})), Put::TooMany);
        assert_eq!(put(&mut all, &format!("{:n<256}", 7), &json!({"queues": ["x"]})), Put::Changed, "a known one");
        assert!(serde_json::to_string(&all.event()).unwrap().len() < 1024 * 1024);
        let (names, bodies) = (PUT_POOLS_MAX * 256, PUT_POOLS_MAX * PUT_POOL_BYTES_MAX);
        assert!(names + bodies < 1024 * 1024);
    }
}
