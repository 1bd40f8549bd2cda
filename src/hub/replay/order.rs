//! The bodies of orders about jobs.
//!
//! Shapes: `{"reason", "ticket", "author"}` to cancel a job; for a replay of one also `payload_digest`, `ledger`, `dry_run`, `priority`, `replay_id`;
//! `{"jobs": [ID, ...], "backfill_reason", "backfill_ticket", "author"}` for one of many, and `per_second`, `ledger`, `dry_run`, `priority`, `replay_id`;
//! in place of `jobs` it may have a `filter` over the ledger, `{"status", "tenant", "jobType", "from", "to"}`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::ledger::LedgerFilter;
use super::super::response::Refusal;
use super::digest::{digest_of, is_digest};
use crate::base::RegionId;
use crate::ojs::PRIORITIES;
use crate::replica::{TEXT_BYTES_MAX, is_text};
use crate::switch::Grounds;

/// Jobs of one replay.
pub(super) const JOBS_MAX: usize = 10_000;
/// Jobs a second where an order names no number, and the most that it may name.
pub(super) const RATE: (u32, u32) = (10, 1_000);
/// Letters of a name that an operator gives to a replay.
const NAME_LETTERS_MAX: usize = 64;

/// An order to run jobs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplayOrder {
    pub(super) grounds: Grounds,
    /// The name that the operator gives to it, so that a repeated order is recognised.
    pub(super) name: Option<String>,
    /// The digest that the arguments of the one job must have.
    pub(super) digest: Option<String>,
    /// Whether jobs are run again also where the ledger has other digests of their arguments.
    pub(super) is_ledger_ignored: bool,
    pub(super) is_dry_run: bool,
    pub(super) priority: i64,
    /// The most jobs a second.
    pub(super) per_second: u32,
    /// The jobs by their ids; none where the filter is to be collected.
    pub(super) jobs: Vec<String>,
    /// The jobs of the ledger that are meant, in place of ids.
    pub(super) filter: Option<LedgerFilter>,
}

impl ReplayOrder {
    /// The same text for the same order.
    pub(super) fn fingerprint(&self, region: Option<&RegionId>) -> String {
        let Grounds { reason, ticket, author } = &self.grounds;
        // The filter stands for its jobs: an order that is repeated may find others.
        let jobs = if self.filter.is_some() { &[] } else { self.jobs.as_slice() };
        let mut members = vec![
            json!(self.digest),
            json!(self.is_ledger_ignored),
            json!(self.is_dry_run),
            json!(self.priority),
            json!(self.per_second),
            json!(jobs),
            json!(region),
            json!(reason),
            json!(ticket),
            json!(author),
        ];
        members.extend(self.filter.as_ref().map(|it| json!(it.shown())));
        digest_of(&Value::Array(members).to_string())
    }
}

/// Reads the grounds of an order to cancel a job.
///
/// Errors: 400 with the name of the member, the expected form and the remedy.
pub(in crate::hub) fn read_grounds(caller: &Caller, body: &[u8]) -> Result<Grounds, Refusal> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        reason: Option<Value>,
        ticket: Option<Value>,
        author: Option<Value>,
    }
    let body: Body = parsed(body, "reason, ticket and author")?;
    grounds(caller, [("reason", body.reason), ("ticket", body.ticket), ("author", body.author)])
}

/// Reads an order for one job.
///
/// Errors: as for [`read_grounds`].
pub(super) fn read_single(caller: &Caller, job_id: &str, body: &[u8]) -> Result<ReplayOrder, Refusal> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        reason: Option<Value>,
        ticket: Option<Value>,
        author: Option<Value>,
        payload_digest: Option<Value>,
        ledger: Option<Value>,
        dry_run: Option<Value>,
        priority: Option<Value>,
        replay_id: Option<Value>,
    }
    let expected = "reason, ticket, author, and perhaps payload_digest, ledger, dry_run, priority and replay_id";
    let body: Body = parsed(body, expected)?;
    let members = [("reason", body.reason), ("ticket", body.ticket), ("author", body.author)];
    let digest = text("payload_digest", body.payload_digest)?;
    if !digest.as_deref().is_none_or(is_digest) {
        return Err(wrong(
            "payload_digest",
            "sha256: and 64 digits of lower-case hexadecimal; leave it out for any arguments",
        ));
    }
    Ok(ReplayOrder {
        grounds: grounds(caller, members)?,
        name: name(body.replay_id)?,
        digest,
        is_ledger_ignored: is_ledger_ignored(body.ledger.as_ref())?,
        is_dry_run: flag("dry_run", body.dry_run.as_ref())?,
        priority: priority(body.priority.as_ref())?,
        per_second: RATE.0,
        jobs: vec![job_id.to_owned()],
        filter: None,
    })
}

/// Reads an order for many jobs. Spec: source-job-orchestrator §3 for the names of its grounds.
///
/// Errors: as for [`read_grounds`].
pub(super) fn read_bulk(caller: &Caller, body: &[u8]) -> Result<ReplayOrder, Refusal> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        jobs: Option<Value>,
        filter: Option<Value>,
        backfill_reason: Option<Value>,
        backfill_ticket: Option<Value>,
        author: Option<Value>,
        per_second: Option<Value>,
        ledger: Option<Value>,
        dry_run: Option<Value>,
        priority: Option<Value>,
        replay_id: Option<Value>,
    }
    let expected = "jobs or filter, backfill_reason, backfill_ticket, author, and perhaps per_second, ledger, dry_run, priority and replay_id";
    let body: Body = parsed(body, expected)?;
    let members =
        [("backfill_reason", body.backfill_reason), ("backfill_ticket", body.backfill_ticket), ("author", body.author)];
    let rate = match &body.per_second {
        None => Some(RATE.0),
        Some(rate) => {
            rate.as_u64().and_then(|rate| u32::try_from(rate).ok()).filter(|rate| (1..=RATE.1).contains(rate))
        }
    };
    let (jobs, filter) = match (body.jobs, body.filter) {
        (Some(_), Some(_)) => return Err(wrong("filter", "either `jobs` or `filter`, not both")),
        (None, Some(filter)) => (Vec::new(), Some(read_filter(&filter)?)),
        (given, None) => (jobs(given)?, None),
    };
    Ok(ReplayOrder {
        grounds: grounds(caller, members)?,
        name: name(body.replay_id)?,
        digest: None,
        is_ledger_ignored: is_ledger_ignored(body.ledger.as_ref())?,
        is_dry_run: flag("dry_run", body.dry_run.as_ref())?,
        priority: priority(body.priority.as_ref())?,
        per_second: rate
            .ok_or_else(|| wrong("per_second", &format!("a whole number from 1 to {} jobs a second", RATE.1)))?,
        jobs,
        filter,
    })
}

/// Reads a filter over the ledger. `status` is needed: without it, an order would run jobs again that are at work.
fn read_filter(value: &Value) -> Result<LedgerFilter, Refusal> {
    const MEMBERS: &str =
        "`status`, and perhaps `tenant`, `jobType`, `from` and `to`; a region is named in the query, as in ?region=ID";
    let members = value.as_object().ok_or_else(|| wrong("filter", &format!("an object with {MEMBERS}")))?;
    let mut filter = LedgerFilter::default();
    for (name, value) in members {
        let path = format!("filter.{name}");
        let value = value.as_str().ok_or_else(|| wrong(&path, "a text"))?;
        let is_known = name != "region" && filter.set(name, value).map_err(|expected| wrong(&path, &expected))?;
        if !is_known {
            return Err(wrong(&path, &format!("no such member, but {MEMBERS}")));
        }
    }
    if filter.status.is_none() {
        return Err(wrong("filter.status", "the status of the jobs that are run again, such as dead_lettered"));
    }
    Ok(filter)
}

fn jobs(value: Option<Value>) -> Result<Vec<String>, Refusal> {
    let Some(Value::Array(all)) =
        value.filter(|it| it.as_array().is_some_and(|all| (1..=JOBS_MAX).contains(&all.len())))
    else {
        let form =
            format!("a list of 1 to {JOBS_MAX} ids of jobs, or a `filter` in its place; send several orders for more");
        return Err(wrong("jobs", &form));
    };
    let mut known = BTreeSet::new();
    for (place, job) in all.iter().enumerate() {
        let id = job.as_str().filter(|id| is_text(id)).ok_or_else(|| {
            let form = format!(
                "ids of 1 to {TEXT_BYTES_MAX} bytes without control characters; the one at place {place} is none"
            );
            wrong("jobs", &form)
        })?;
        if !known.insert(id) {
            return Err(wrong("jobs", &format!("each id once; the one at place {place} is there twice")));
        }
    }
    Ok(all.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect())
}

fn parsed<'b, T: Deserialize<'b>>(body: &'b [u8], members: &str) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::bad_request(format!("expected a JSON object with {members}, and no other member: {error}"))
    })
}

fn wrong(member: &str, expected: &str) -> Refusal {
    Refusal::bad_request(format!("`{member}`: expected {expected}"))
}

fn text(member: &str, value: Option<Value>) -> Result<Option<String>, Refusal> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(member, "a text")),
    }
}

fn grounds(caller: &Caller, members: [(&str, Option<Value>); 3]) -> Result<Grounds, Refusal> {
    let [(reason, why), (ticket, number), (author, who)] = members;
    let texts = [(reason, text(reason, why)?), (ticket, text(ticket, number)?), (author, text(author, who)?)];
    Grounds::of_members(caller.author.as_deref(), texts).map_err(Refusal::bad_request)
}

fn flag(member: &str, value: Option<&Value>) -> Result<bool, Refusal> {
    value.map_or(Ok(false), |value| value.as_bool().ok_or_else(|| wrong(member, "true or false")))
}

fn is_ledger_ignored(value: Option<&Value>) -> Result<bool, Refusal> {
    match value.map(Value::as_str) {
        None | Some(Some("compare")) => Ok(false),
        Some(Some("ignore")) => Ok(true),
        Some(_) => Err(wrong("ledger", "compare, or ignore; leave it out to compare the arguments with the ledger")),
    }
}

fn priority(value: Option<&Value>) -> Result<i64, Refusal> {
    let Some(value) = value else { return Ok(*PRIORITIES.end()) };
    value.as_i64().filter(|it| PRIORITIES.contains(it)).ok_or_else(|| {
        let form =
            format!("a whole number from {} to {}; leave it out for the highest", PRIORITIES.start(), PRIORITIES.end());
        wrong("priority", &form)
    })
}

fn name(value: Option<Value>) -> Result<Option<String>, Refusal> {
    let name = text("replay_id", value)?;
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    if name.as_ref().is_some_and(|it| !(1..=NAME_LETTERS_MAX).contains(&it.len()) || !it.bytes().all(is_letter)) {
        let form = format!("1 to {NAME_LETTERS_MAX} of a-z, 0-9 and -; leave it out for a name of the hub");
        return Err(wrong("replay_id", &form));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::super::super::access::{Role, Scope};
    use super::*;

    fn caller(author: Option<&str>) -> Caller {
        let (name, author) = ("ann.x".to_owned(), author.map(str::to_owned));
        Caller { name, role: Role::Operator, scopes: vec![Scope::Operate], region: None, author }
    }

    fn changed(base: &Value, change: &Value) -> String {
        let mut body = base.clone();
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
                value => body[key] = value.clone(),
            }
        }
        body.to_string()
    }

    #[test]
    fn every_error_of_an_order_names_its_member() {
        let single = json!({ "reason": "r", "ticket": "T-1", "author": "ann" });
        let bulk = json!({ "jobs": ["a", "b"], "backfill_reason": "r", "backfill_ticket": "T-1", "author": "ann" });
        let many: Vec<String> = (0..=JOBS_MAX).map(|it| it.to_string()).collect();
        for (base, change, member) in [
            (&single, json!({ "reason": null }), "`reason`"),
            (&single, json!({ "reason": 7 }), "`reason`"),
            (&single, json!({ "ticket": "" }), "`ticket`"),
            (&single, json!({ "author": null }), "`author`"),
            (&single, json!({ "rate": 1 }), "`rate`"),
            (&single, json!({ "payload_digest": "sha256:00" }), "`payload_digest`"),
            (&single, json!({ "payload_digest": 5 }), "`payload_digest`"),
            (&single, json!({ "dry_run": "yes" }), "`dry_run`"),
            (&single, json!({ "ledger": false }), "`ledger`"),
            (&bulk, json!({ "ledger": "no" }), "`ledger`"),
            (&single, json!({ "priority": 101 }), "`priority`"),
            (&single, json!({ "priority": 1.5 }), "`priority`"),
            (&single, json!({ "replay_id": "A" }), "`replay_id`"),
            (&single, json!({ "replay_id": "" }), "`replay_id`"),
            (&bulk, json!({ "jobs": null }), "`jobs`"),
            (&bulk, json!({ "jobs": [] }), "`jobs`"),
            (&bulk, json!({ "jobs": many }), "`jobs`"),
            (&bulk, json!({ "jobs": ["a", 7] }), "place 1"),
            (&bulk, json!({ "jobs": ["a", "b", "a"] }), "place 2"),
            (&bulk, json!({ "jobs": ["a\n"] }), "`jobs`"),
            (&bulk, json!({ "filter": { "status": "canceled" } }), "`filter`: expected either"),
            (&bulk, json!({ "jobs": null, "filter": "all" }), "`filter`"),
            (&bulk, json!({ "jobs": null, "filter": {} }), "`filter.status`"),
            (&bulk, json!({ "jobs": null, "filter": { "status": "done" } }), "`filter.status`: expected one of"),
            (&bulk, json!({ "jobs": null, "filter": { "status": "canceled", "tenant": 7 } }), "`filter.tenant`"),
            (&bulk, json!({ "jobs": null, "filter": { "status": "canceled", "tenant": "" } }), "`filter.tenant`"),
            (&bulk, json!({ "jobs": null, "filter": { "status": "canceled", "from": "today" } }), "`filter.from`"),
            (&bulk, json!({ "jobs": null, "filter": { "status": "canceled", "region": "eu" } }), "`filter.region`"),
            (&bulk, json!({ "jobs": null, "filter": { "status": "canceled", "queue": "q" } }), "`filter.queue`"),
            (&bulk, json!({ "reason": "r" }), "`reason`"),
            (&bulk, json!({ "backfill_reason": null }), "`backfill_reason`"),
            (&bulk, json!({ "backfill_ticket": " " }), "`backfill_ticket`"),
            (&bulk, json!({ "per_second": 0 }), "`per_second`"),
            (&bulk, json!({ "per_second": 1001 }), "`per_second`"),
            (&bulk, json!({ "per_second": "5" }), "`per_second`"),
        ] {
            let body = changed(base, &change);
            let read = if std::ptr::eq(base, &raw const single) {
                read_single(&caller(None), "a", body.as_bytes())
            } else {
                read_bulk(&caller(None), body.as_bytes())
            };
            let error = format!("{:?}", read.unwrap_err());
            assert!(error.contains(member), "{change}: {error}");
        }
        for body in ["", "[]", r#"{"reason":"r","reason":"s"}"#] {
            let error = format!("{:?}", read_grounds(&caller(None), body.as_bytes()).unwrap_err());
            assert!(error.contains("JSON object"), "{body}: {error}");
        }
    }

    #[test]
    fn an_order_without_more_has_the_highest_priority_and_a_proven_name_counts() {
        let body = json!({ "reason": "r", "ticket": "T-1", "author": "ann" }).to_string();
        let order = read_single(&caller(Some("eve")), "a", body.as_bytes()).unwrap();
        assert_eq!((order.priority, order.is_dry_run, order.grounds.author.as_str()), (100, false, "eve"));
        assert!(!order.is_ledger_ignored);
        let other = ReplayOrder { priority: 7, ..order.clone() };
        assert!(
            order.fingerprint(None) == order.fingerprint(None) && order.fingerprint(None) != other.fingerprint(None)
        );
        let without = json!({ "reason": "r", "ticket": "T-1" }).to_string();
        assert_eq!(read_grounds(&caller(Some("eve")), without.as_bytes()).unwrap().author, "eve");
    }
}
