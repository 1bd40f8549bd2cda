//! Orders of operators about the pools of workers of all sidecars. Spec: fair-scheduling 10.1.
//!
//! A hub checks a pool by the rules of `scheduling.pools`. Its `concurrency` is a bound over the fleet, of which the hub grants parts.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::access::Caller;
use super::audit::Entry;
use super::put_pools::{Put, SavedPool};
use super::response::Refusal;
use super::state::Hub;
use crate::config::{PUT_POOLS_MAX, PoolConfig, PutPool};
use crate::ojs::query_text;
use crate::policy::{FleetFigures, PoolFigures};
use crate::switch::Grounds;
use crate::telemetry::event;

/// All pools that were put at this hub, or at another one on its record, with the figures of the sidecars that follow this one.
/// Shape: `{"version": TEXT, "items": [POOL, ...]}`.
pub(super) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    hub.refresh_in_time().await?;
    let (current, figures) = (hub.current(), figures(hub));
    let items: Vec<Value> = current.pools.iter().map(|it| shown(it, &figures)).collect();
    Ok(json!({ "version": current.version.to_string(), "items": items }))
}

/// One pool.
pub(super) async fn show(hub: &Hub, name: &str) -> Result<Value, Refusal> {
    let name = named(name)?;
    hub.refresh_in_time().await?;
    hub.current().pools.get(&name).map(|it| shown(it, &figures(hub))).ok_or_else(|| unknown(&name))
}

/// Puts the pool of a body, in place of the one with its name. The answer comes once it is on disk.
pub(super) async fn put(hub: Rc<Hub>, caller: &Caller, name: &str, query: &str, body: &[u8]) -> Result<Value, Refusal> {
    let name = named(name)?;
    let grounds = grounds(caller, query)?;
    let (pool, config) = read(&name, body).map_err(Refusal::bad_request)?;
    may_put(&hub, &name, &config)?;
    let done = hub
        .change(|all, _| {
            let Grounds { reason, ticket, author } = grounds.clone();
            let put = SavedPool { pool: pool.clone(), put_ms: hub.clock.unix_ms(), reason, ticket, author };
            let done = Arc::make_mut(&mut all.pools).put(put, &config);
            let entry = (done == Put::Changed).then(|| entry(&hub, caller, "pool_put", &pool, &grounds));
            (done, entry.into_iter().collect())
        })
        .await
        .map_err(Refusal::unchanged)?;
    match &done {
        Put::TooMany => {
            let message =
                format!("a hub has at most {PUT_POOLS_MAX} pools, as many as a sidecar; delete one that is not needed");
            return Err(Refusal::new(StatusCode::CONFLICT, "too_many", message));
        }
        Put::Misfit(why) => return Err(Refusal::bad_request(why.clone())),
        Put::Changed => event::hub_pool_put(&name, [&grounds.reason, &grounds.ticket, &grounds.author]),
        Put::Same => {}
    }
    let current = hub.current();
    let shown = current.pools.get(&name).map(SavedPool::shown);
    Ok(changed(&hub, json!({ "pool": shown, "changed": done == Put::Changed })))
}

/// Deletes a pool.
pub(super) async fn delete(hub: Rc<Hub>, caller: &Caller, name: &str, query: &str) -> Result<Value, Refusal> {
    let name = named(name)?;
    let grounds = grounds(caller, query)?;
    let deleted = hub
        .change(|all, _| {
            let deleted = Arc::make_mut(&mut all.pools).delete(&name);
            let entry = deleted.as_ref().map(|it| entry(&hub, caller, "pool_deleted", &it.pool, &grounds));
            (deleted, entry.into_iter().collect())
        })
        .await
        .map_err(Refusal::unchanged)?;
    let Some(deleted) = deleted else { return Err(unknown(&name)) };
    event::hub_pool_deleted(&name, [&grounds.reason, &grounds.ticket, &grounds.author]);
    let left = hub.current().pools.iter().count();
    Ok(changed(&hub, json!({ "deleted": deleted.shown(), "left": left })))
}

/// Whether this hub can keep the bound of a pool that is put. One that its configuration bounds is not put: sidecars would not know of that bound.
fn may_put(hub: &Hub, name: &str, pool: &PoolConfig) -> Result<(), Refusal> {
    let conflict = |message: String| Err(Refusal::new(StatusCode::CONFLICT, "not_grantable", message));
    if pool.concurrency.is_some() && !hub.record.is_durable() {
        return conflict(
            "`concurrency`: a hub without `record.path` or `record.postgres` forgets its grants at a restart: set one, or leave this out"
                .to_owned(),
        );
    }
    match hub.limits.configured_bound(name) {
        Some(bound) => conflict(format!(
            "`name`: `pools` in the configuration of this hub bounds the pool to {bound}, and sidecars configure it themselves: take it out there, and put it here with its `concurrency`"
        )),
        None => Ok(()),
    }
}

fn figures(hub: &Hub) -> FleetFigures {
    hub.fleet.borrow().figures(hub.clock.unix_ms(), |pool| hub.limits.bound_of_pool(pool))
}

fn shown(saved: &SavedPool, figures: &FleetFigures) -> Value {
    let sum = figures.figures.pools.iter().find(|it| it.name == saved.pool.name).cloned();
    let PoolFigures { workers, active, sidecars, .. } = sum.unwrap_or_default();
    let mut shown = saved.shown();
    (shown["active_workers"], shown["active_jobs"]) = (workers.into(), active.into());
    shown["sidecars"] = sidecars.into();
    shown
}

fn changed(hub: &Hub, mut document: Value) -> Value {
    document["version"] = hub.current().version.to_string().into();
    document["durable"] = hub.record.is_durable().into();
    document
}

fn unknown(name: &str) -> Refusal {
    let message = format!("no pool {name} was put at this hub; `ojs-sidecar pools list --hub` lists those that were");
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
}

/// The name of a pool, from the last part of a path.
fn named(text: &str) -> Result<String, Refusal> {
    let expected =
        || Refusal::bad_request("`name`, the last part of the path: expected 1 to 256 bytes of text".to_owned());
    let name = query_text(text);
    let is_name = !text.contains('/') && (1..=256).contains(&name.len()) && !name.chars().any(char::is_control);
    if is_name { Ok(name) } else { Err(expected()) }
}

fn grounds(caller: &Caller, query: &str) -> Result<Grounds, Refusal> {
    Grounds::read(caller.author.as_deref(), query).map_err(Refusal::bad_request)
}

fn entry(hub: &Hub, caller: &Caller, action: &'static str, pool: &PutPool, grounds: &Grounds) -> Entry {
    let Grounds { reason, ticket, author } = grounds.clone();
    let (unix_ms, caller) = (hub.clock.unix_ms(), caller.name.clone());
    let subject = format!("pool {} {}", pool.name, Value::from(pool.settings.clone()));
    Entry { unix_ms, caller, action, subject, lasts_ms: None, force: false, reason, ticket, author }
}

/// The members of a body. One that comes twice is an error of the parser.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: Option<Value>,
    queues: Option<Value>,
    concurrency: Option<Value>,
    strategy: Option<Value>,
    weights: Option<Value>,
    isolated: Option<Value>,
    starvation_prevention: Option<Value>,
    longest_lease: Option<Value>,
}

/// Reads the body that puts a pool with this name.
///
/// Errors: a sentence that names each member that breaks a rule, and a way out.
fn read(name: &str, body: &[u8]) -> Result<(PutPool, PoolConfig), String> {
    let body: Body = serde_json::from_slice(body).map_err(|error| {
        format!(
            "expected a JSON object with queues, and perhaps concurrency, strategy, weights, isolated, starvation_prevention and longest_lease, and \
             no other member: {error}"
        )
    })?;
    if body.name.as_ref().is_some_and(|it| it.as_str() != Some(name)) {
        return Err(format!("`name`: expected {name}, as in the path, or no such member"));
    }
    if body.concurrency.as_ref().is_some_and(|it| !it.is_u64()) {
        return Err("`concurrency`: expected a whole number from 1 to 1000000; leave it out for no bound".to_owned());
    }
    let members = [
        ("queues", body.queues),
        ("concurrency", body.concurrency),
        ("strategy", body.strategy),
        ("weights", body.weights),
        ("isolated", body.isolated),
        ("starvation_prevention", body.starvation_prevention),
        ("longest_lease", body.longest_lease),
    ];
    let set = members.into_iter().filter_map(|(member, value)| Some((member.to_owned(), value?)));
    let pool = PutPool { name: name.to_owned(), settings: set.collect::<Map<_, _>>() };
    let config = pool.config().map_err(|problems| {
        let said = problems.iter().map(|it| format!("`{}`: {}", it.field, it.rule));
        said.collect::<Vec<_>>().join("; ")
    })?;
    Ok((pool, config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_that_of_the_specification_and_every_error_names_its_member() {
        let read = |body: &str| read("pay", body.as_bytes());
        let (pool, config) =
            read(r#"{"name":"pay","queues":["critical","payments"],"concurrency":20,"strategy":"strict"}"#).unwrap();
        assert_eq!((pool.settings.len(), config.concurrency), (3, Some(20)));
        for (body, words) in [
            ("", ["JSON object", "queues"]),
            (r#"{"queues":["a"],"queues":["b"]}"#, ["duplicate field `queues`", "JSON object"]),
            (r#"{"queues":["a"],"on_hub_loss":"hold"}"#, ["unknown field `on_hub_loss`", "no other member"]),
            (r#"{"name":"other","queues":["a"]}"#, ["`name`: expected pay", "path"]),
            (r#"{"queues":["a"],"concurrency":"20"}"#, ["`concurrency`: expected a whole number", "leave it out"]),
            (r#"{"queues":["a"],"concurrency":0}"#, ["`concurrency`: ", "1 to 1000000"]),
            (r#"{"queues":["a","a"],"strategy":"fair"}"#, ["`queues[1]`: ", "`strategy`: "]),
        ] {
            let why = read(body).unwrap_err();
            assert!(words.iter().all(|word| why.contains(word)), "{body}: {why}");
        }
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(named("a%20b").unwrap(), "a b");
        for wrong in ["", "a/b", "a%0Ab", &"n".repeat(257)] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
