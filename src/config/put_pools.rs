//! Pools of workers that operators put at a hub, as hubs keep them and their feeds carry them. They pass the rules of `scheduling.pools`.

use std::path::Path;

use figment::value::Value as Setting;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::check::{self, POOLS_MAX, QUEUES_MAX};
use super::document::Document;
use super::layer::Layers;
use super::place::Places;
use super::types::PoolConfig;
use super::walk::walk;

/// The most pools that are put at a hub: as many as a sidecar has.
pub const PUT_POOLS_MAX: usize = POOLS_MAX;
/// The longest body that puts a pool: with the most pools an event of the feed stays below 1 MiB, the longest that a sidecar takes. Units: bytes.
pub const PUT_POOL_BYTES_MAX: usize = 8 * 1024;
/// The place of pools among the keys of a configuration.
const PATH: &str = "scheduling.pools";
const UNREADABLE: &str = "the members of the pool cannot be read";
/// The members of a pool beside its name. Spec: fair-scheduling 6.1, 8.1; `longest_lease` is that of the configuration.
const MEMBERS: [&str; 7] =
    ["queues", "concurrency", "strategy", "weights", "isolated", "starvation_prevention", "longest_lease"];

/// A pool that was put at a hub. Shape: JSON with `name` and the members of the body, as its operator wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutPool {
    /// Its name.
    pub name: String,
    /// The members of the body.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

/// A member of a pool that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolProblem {
    /// Such as `queues[1]`.
    pub field: String,
    /// The expected form, and the way out. Holds no value but names of pools and queues.
    pub rule: String,
}

fn problem(field: &str, rule: &str) -> PoolProblem {
    PoolProblem { field: field.to_owned(), rule: rule.to_owned() }
}

impl PutPool {
    /// Its configuration at a sidecar: a `concurrency` is that of the fleet, of which the hub grants parts.
    ///
    /// Errors: every member that breaks a rule; at least one.
    pub fn config(&self) -> Result<PoolConfig, Vec<PoolProblem>> {
        put_configs([self]).pop().unwrap_or_else(|| Err(vec![problem("queues", UNREADABLE)]))
    }

    /// Its keys in a configuration.
    fn section(&self) -> Result<Map<String, Value>, PoolProblem> {
        if let Some(other) = self.settings.keys().find(|it| !MEMBERS.contains(&it.as_str())) {
            return Err(problem(other, &format!("there is no such member; expected some of {}", MEMBERS.join(", "))));
        }
        let is_set = |member: &str| self.settings.get(member).is_some_and(|it| !it.is_null());
        if is_set("longest_lease") && !is_set("concurrency") {
            return Err(problem("longest_lease", "only a pool with `concurrency` uses it: set that, or leave it out"));
        }
        let mut section = self.settings.clone();
        section.insert("name".to_owned(), self.name.as_str().into());
        if is_set("concurrency") {
            section.insert("concurrency_of".to_owned(), "fleet".into());
            section.insert("on_hub_loss".to_owned(), "hold".into());
        }
        Ok(section)
    }
}

/// The configurations of pools, each by itself; one pass over the keys for all of them. Errors: as for [`PutPool::config`].
pub fn put_configs<'p>(pools: impl IntoIterator<Item = &'p PutPool>) -> Vec<Result<PoolConfig, Vec<PoolProblem>>> {
    let sections: Vec<_> = pools.into_iter().map(PutPool::section).collect();
    // One that is wrong already leaves an empty place, so that the places of the others stay.
    let settled: Vec<Value> = sections.iter().map(|it| it.clone().unwrap_or_default().into()).collect();
    let settings = Setting::serialize(json!({ "scheduling": { "pools": settled } })).ok();
    let document =
        Document { settings: settings.and_then(Setting::into_dict).unwrap_or_default(), places: Places::new() };
    let walked = walk(&Layers::of(Path::new("hub"), document, &mut Vec::new()));
    let (mut read, problems) = check::put_pools(walked, PATH);
    let config = |(at, section): (usize, Result<_, PoolProblem>)| {
        section.map_err(|problem| vec![problem])?;
        let place = format!("{PATH}[{at}].");
        let short = |text: &str| text.replace(&place, "").replace("scheduling.pools[].", "");
        let own = problems.iter().filter(|(path, _)| path.starts_with(&place));
        let mut own: Vec<PoolProblem> = own.map(|(path, rule)| problem(&short(path), &short(rule))).collect();
        match read.get_mut(at).and_then(Option::take) {
            Some(pool) if own.is_empty() => Ok(PoolConfig { is_put: true, ..pool }),
            _ => {
                if own.is_empty() {
                    own.push(problem("queues", UNREADABLE));
                }
                Err(own)
            }
        }
    };
    sections.into_iter().enumerate().map(config).collect()
}

/// The reason why a pool cannot be in force beside others; none where it can.
#[must_use]
pub fn misfit(others: &[PoolConfig], pool: &PoolConfig) -> Option<PoolProblem> {
    let problem = |field: &str, rule: String| Some(PoolProblem { field: field.to_owned(), rule });
    if others.len() >= POOLS_MAX {
        return problem("name", format!("there are {POOLS_MAX} pools already, and no more may be"));
    }
    let queues = others.iter().chain([pool]).map(|it| it.queues.len()).sum::<usize>();
    if queues > QUEUES_MAX {
        return problem("queues", format!("expected at most {QUEUES_MAX} queues in all pools together"));
    }
    let all: Vec<&PoolConfig> = others.iter().chain([pool]).collect();
    let own = others.len();
    // The others were looked at among themselves before.
    check::shut_out(&all, |by, at| by == own || at == own).into_iter().find_map(|it| {
        let (named, queue) = (all.get(it.pool)?, all.get(it.pool)?.queues.get(it.queue)?);
        if it.pool == own {
            let by = &all.get(it.by)?.name;
            let rule = format!(
                "the pool `{by}` is isolated and has the queue too, so that workers of this pool get nothing of it: leave it out of one of them"
            );
            return problem(&format!("queues[{}]", it.queue), rule);
        }
        let name = &named.name;
        let is_own = it.by == own;
        let rule = format!(
            "the pool `{name}` has the queue `{queue}` too, and its workers would get nothing of it: leave it out of one of them"
        );
        is_own.then(|| PoolProblem { field: "isolated".to_owned(), rule })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::QueueOrder;
    use crate::config::LimitWithoutHub;

    fn put(name: &str, body: &str) -> PutPool {
        PutPool { name: name.to_owned(), settings: serde_json::from_str(body).unwrap() }
    }

    #[test]
    fn a_pool_of_the_specification_is_one_of_the_fleet() {
        let body = r#"{"queues":["critical","pay-*"],"concurrency":20,"strategy":"weighted","weights":{"critical":3},
            "isolated":true,"starvation_prevention":{"enabled":true,"rotation_interval":"PT10S","min_dispatch_ratio":0.1}}"#;
        let pool = put("pay", body).config().unwrap();
        assert_eq!((pool.name.as_str(), pool.concurrency, pool.isolated, pool.is_put), ("pay", Some(20), true, true));
        assert_eq!((pool.strategy, pool.weights["critical"]), (Some(QueueOrder::Weighted), 3));
        let (fleet, floor) = (pool.fleet.unwrap(), pool.floor.unwrap());
        assert_eq!((fleet.on_hub_loss, fleet.longest_lease.as_secs()), (LimitWithoutHub::Hold, 60));
        assert_eq!(floor.rotation_interval.as_secs(), 10);
        let bare = put("pay", r#"{"queues":["critical"],"weights":null}"#).config().unwrap();
        assert_eq!((bare.concurrency, bare.fleet, bare.strategy, bare.isolated), (None, None, None, false));
    }

    #[test]
    fn every_error_names_its_member_in_the_words_of_the_configuration() {
        for (body, field, words) in [
            ("{}", "queues", "one at least"),
            (r#"{"queues":[]}"#, "queues", "expected"),
            (r#"{"queues":"a"}"#, "queues", "list"),
            (r#"{"queues":["a","a"]}"#, "queues[1]", "listed already"),
            (r#"{"queues":["a"],"concurrency":0}"#, "concurrency", "1 to 1000000"),
            (r#"{"queues":["a"],"concurrency":"many"}"#, "concurrency", "1 to 1000000"),
            (r#"{"queues":["a"],"strategy":"fair"}"#, "strategy", "round-robin"),
            (r#"{"queues":["a"],"weights":{"a":2}}"#, "strategy", "expected weighted, because `weights` is set"),
            (r#"{"queues":["a"],"strategy":"strict","weights":{"a":2}}"#, "weights", "only `strategy: weighted`"),
            (r#"{"queues":["a"],"strategy":"weighted","weights":{"b":2}}"#, "weights.b", "a queue of the pool"),
            (r#"{"queues":["a"],"strategy":"weighted","weights":{"a":0}}"#, "weights.a", "1 to 1000"),
            (r#"{"queues":["a"],"isolated":"perhaps"}"#, "isolated", "true or false"),
            (r#"{"queues":["a"],"starvation_prevention":{"on":true}}"#, "starvation_prevention.on", "no such key"),
            (r#"{"queues":["a"],"starvation_prevention":7}"#, "starvation_prevention", "expected"),
            (r#"{"queues":["a"],"on_hub_loss":"local"}"#, "on_hub_loss", "no such member"),
            (r#"{"queues":["a"],"longest_lease":"5m"}"#, "longest_lease", "`concurrency`"),
            (r#"{"queues":["a"],"concurrency":2,"longest_lease":"long"}"#, "longest_lease", "duration"),
        ] {
            let problems = put("pay", body).config().unwrap_err();
            assert!(problems.iter().any(|it| it.field == field && it.rule.contains(words)), "{body}: {problems:?}");
            assert!(problems.iter().all(|it| !it.rule.contains("scheduling.pools[")), "{problems:?}");
        }
        let long = put(&"n".repeat(257), r#"{"queues":["a"]}"#).config().unwrap_err();
        assert_eq!(long[0].field, "name", "{long:?}");
    }

    #[test]
    fn a_pool_that_shuts_another_out_of_a_queue_or_is_one_too_many_does_not_fit() {
        let of = |name: &str, body: &str| put(name, body).config().unwrap();
        let pay = of("pay", r#"{"queues":["pay-*"],"isolated":true}"#);
        let mail = of("mail", r#"{"queues":["email","pay-eu"]}"#);
        fn misfit_of(others: &[PoolConfig], pool: &PoolConfig) -> Option<(String, String)> {
            misfit(others, pool).map(|it| (it.field, it.rule))
        }
        let (field, rule) = misfit_of(std::slice::from_ref(&pay), &mail).unwrap();
        assert!(field == "queues[1]" && rule.starts_with("the pool `pay` is isolated"), "{field}: {rule}");
        let (field, rule) = misfit_of(std::slice::from_ref(&mail), &pay).unwrap();
        assert!(field == "isolated" && rule.contains("`mail` has the queue `pay-eu`"), "{field}: {rule}");
        assert_eq!(misfit_of(std::slice::from_ref(&pay), &of("all", r#"{"queues":["*"]}"#)), None);
        let many: Vec<_> = (0..64).map(|at| of(&at.to_string(), &format!(r#"{{"queues":["q{at}"]}}"#))).collect();
        assert_eq!(misfit_of(&many, &mail).unwrap().0, "name");
        let names: Vec<String> = (0..255).map(|at| format!("q{at}")).collect();
        let wide = of("wide", &json!({ "queues": names }).to_string());
        assert_eq!(misfit_of(std::slice::from_ref(&wide), &mail).unwrap().0, "queues");
    }
}
